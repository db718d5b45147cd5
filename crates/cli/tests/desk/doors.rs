//! Who may ask members: anybody, or whoever has a certificate and is a user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use testkit::client::Permission;
use testkit::{Authority, Certified, Client, ClientError, MemberPorts};

/// Who may ask members.
#[derive(Clone)]
pub(crate) enum Doors {
    /// Anybody, as clients and as peers.
    Open,
    /// Whoever has a certificate, as clients and as peers; and among clients users, as soon as there are any.
    Guarded(Arc<Guards>),
}

/// An authority, and what it has signed, as files too.
pub(crate) struct Guards {
    folder: PathBuf,
    authority: Authority,
    /// What is shown for the test itself.
    own: Certified,
}

/// The user that agents are. Their certificate is for nobody whom etcd knows.
const AGENT: (&str, &str) = ("refloat", "to follow");
/// The user that the test is.
const ROOT: (&str, &str) = ("root", "to write");
/// A user who may read what begins with `r`.
const READER: (&str, &str) = ("reader", "to read");

/// Users with their roles, and what each role may do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Users {
    roles_of: Vec<(String, Vec<String>)>,
    permissions_of: Vec<(String, Vec<Permission>)>,
}

impl Doors {
    /// Those that are guarded with what is put into `folder`.
    pub(crate) fn guarded(folder: &Path) -> Self {
        let authority = Authority::new("members");
        authority.write(folder.join("ca.pem"));
        // Members are clients of each other, and their gateways of themselves.
        authority.sign(&["127.0.0.1"]).write(folder, "server");
        authority.sign(&["agent"]).write(folder, "agent");
        let password = folder.join("password");
        fs::write(&password, AGENT.1).unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
        // At the door of peers, whoever comes has to come from where their certificate says.
        let own = authority.sign_nameless(&["127.0.0.1"]);
        Self::Guarded(Arc::new(Guards { folder: folder.to_owned(), authority, own }))
    }

    fn scheme(&self) -> &'static str {
        match self {
            Self::Open => "http",
            Self::Guarded(_) => "https",
        }
    }

    /// The URL at `address`.
    pub(crate) fn url(&self, address: impl std::fmt::Display) -> String {
        format!("{}://{address}", self.scheme())
    }

    /// What etcd's configuration says of it.
    pub(crate) fn configuration(&self) -> String {
        let Self::Guarded(guards) = self else { return String::new() };
        let file = |name| guards.file(name);
        let files = format!(
            "  cert-file: {}\n  key-file: {}\n  trusted-ca-file: {}\n  client-cert-auth: true\n",
            file("server.crt"),
            file("server.key"),
            file("ca.pem"),
        );
        // A password is checked at each of many logins.
        format!("client-transport-security:\n{files}peer-transport-security:\n{files}bcrypt-cost: 4\n")
    }

    /// What an agent is told to be let in.
    pub(crate) fn introduce_agent(&self) -> Vec<String> {
        let Self::Guarded(guards) = self else { return Vec::new() };
        let flags = [
            ("--cacert", guards.file("ca.pem")),
            ("--cert", guards.file("agent.crt")),
            ("--key", guards.file("agent.key")),
            ("--etcd-username", AGENT.0.to_owned()),
            ("--etcd-password-file", guards.file("password")),
        ];
        flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    /// What a wrapper is told, so that it can ask its member whether it is ready.
    pub(crate) fn introduce_wrap(&self) -> Vec<String> {
        let Self::Guarded(guards) = self else { return Vec::new() };
        ["--etcd-cert".into(), guards.file("agent.crt"), "--etcd-key".into(), guards.file("agent.key")].into()
    }

    /// The test itself, as a client of the member that serves there.
    pub(crate) fn client(&self, ports: &MemberPorts) -> Result<Client, ClientError> {
        self.client_as(ports, ROOT)
    }

    /// Somebody who may read what begins with `r`, and nothing else.
    pub(crate) fn reader(&self, ports: &MemberPorts) -> Result<Client, ClientError> {
        self.client_as(ports, READER)
    }

    /// Somebody who guesses a password.
    pub(crate) fn guesser(&self, ports: &MemberPorts) -> Result<Client, ClientError> {
        self.client_as(ports, (ROOT.0, READER.1))
    }

    fn client_as(&self, ports: &MemberPorts, (user, password): (&str, &str)) -> Result<Client, ClientError> {
        let (clients, peers) = (ports.client.address(), ports.peer.address());
        let Self::Guarded(guards) = self else { return Ok(Client::new(clients, peers)) };
        let client = Client::certified(clients, peers, &guards.authority, &guards.own);
        match client.log_in(user, password) {
            Err(error) if error.message.contains("authentication is not enabled") => Ok(client),
            logged_in => logged_in,
        }
    }

    /// From now on users are asked for, where doors are guarded.
    pub(crate) fn close(&self, client: &Client) {
        let Self::Guarded(_) = self else { return };
        for ((user, password), role) in [(ROOT, "root"), (AGENT, "root"), (READER, "reader")] {
            client.user_add(user, password).unwrap();
            // Whether there is a role `root` already depends on the version.
            let _ = client.role_add(role);
            client.user_grant_role(user, role).unwrap();
        }
        client.role_grant("reader", "READ", "r", "s").unwrap();
        client.auth_enable().unwrap();
    }
}

impl Guards {
    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

impl Users {
    /// As a member tells them.
    pub(crate) fn told(client: &Client) -> Self {
        let users = client.users().unwrap().into_iter();
        let roles = client.roles().unwrap().into_iter();
        Self {
            roles_of: users.map(|user| (user.clone(), client.roles_of(&user).unwrap())).collect(),
            permissions_of: roles.map(|role| (role.clone(), client.permissions_of(&role).unwrap())).collect(),
        }
    }
}
