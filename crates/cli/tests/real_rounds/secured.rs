//! What makes members ask who is there: certificates on both sides, users and roles.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Authority, Client, Member, Port};

/// The user that agents are.
const AGENT: &str = "refloat";
const AGENT_PASSWORD: &str = "to follow";
/// The user that writes.
pub(crate) const ROOT: (&str, &str) = ("root", "to write");

/// One authority, what it has signed, and the ports at which members ask for that.
pub(crate) struct Secured {
    folder: PathBuf,
    ports: Vec<Port>,
}

impl Secured {
    pub(crate) fn of(members: usize, folder: &Path) -> Self {
        let authority = Authority::new("rounds");
        authority.write(folder.join("ca.pem"));
        authority.sign(&["127.0.0.1"]).write(folder, "server");
        authority.sign(&["agent"]).write(folder, "agent");
        let password = folder.join("password");
        fs::write(&password, AGENT_PASSWORD).unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
        Self { folder: folder.into(), ports: (0..members).map(|_| Port::reserve()).collect() }
    }

    pub(crate) fn url(&self, member: usize) -> String {
        format!("https://{}", self.ports[member].address())
    }

    /// `member`, which tells its clients to come with certificates. Its other port is for those who know.
    pub(crate) fn apply(&self, number: usize, member: Member) -> Member {
        member.certified(&self.url(number), &self.folder)
    }

    /// From now on, whoever asks has to say who they are.
    pub(crate) fn close(client: &Client) {
        let (root, password) = ROOT;
        client.user_add(root, password).unwrap();
        client.role_add(root).unwrap();
        client.user_grant_role(root, root).unwrap();
        client.user_add(AGENT, AGENT_PASSWORD).unwrap();
        // etcd gives snapshots and hashes to nobody else.
        client.user_grant_role(AGENT, root).unwrap();
        client.auth_enable().unwrap();
    }

    /// What an agent is told to be let in.
    pub(crate) fn introduce(&self, agent: &mut Command) {
        for (flag, file) in [
            ("--cacert", "ca.pem"),
            ("--cert", "agent.crt"),
            ("--key", "agent.key"),
            ("--etcd-password-file", "password"),
        ] {
            agent.arg(flag).arg(self.folder.join(file));
        }
        agent.args(["--etcd-username", AGENT]);
    }
}
