//! Swift: the object store of OpenStack, as a cluster of one device, with its own login or with Keystone.

mod configuration;
mod keystone;

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use tempfile::TempDir;

use self::keystone::Keystone;
use super::answers::HttpAnswer;
use super::server::Server;
use crate::cache::installed;
use crate::ports::Port;
use crate::waiting::{Ends, PATIENCE};

/// A running Swift.
#[derive(Debug)]
pub struct Swift {
    ports: Ports,
    keystone: Option<Keystone>,
    login: Mutex<Option<Login>>,
    _folder: TempDir,
    _servers: Vec<Server>,
}

/// What a login gives.
#[derive(Debug, Clone)]
pub struct Login {
    /// The account's path, as in `/v1/AUTH_test`.
    pub account: String,
    /// Shown with every request.
    pub token: String,
}

#[derive(Debug)]
struct Ports {
    proxy: Port,
    object: Port,
    container: Port,
    account: Port,
    memcached: Port,
}

impl Swift {
    /// The account of its own login.
    pub const ACCOUNT: &str = "test";
    /// The user, in the account as in Keystone.
    pub const USER: &str = "tester";
    /// The user's password.
    pub const PASSWORD: &str = "testing";
    /// A user with the same password, who may do nothing.
    pub const GUEST: &str = "guest";
    /// The project and the domain of the user, in Keystone.
    pub const PROJECT: &str = keystone::PROJECT;
    /// The region that it is in; `elsewhere` is another one where nobody answers.
    pub const REGION: &str = keystone::REGION;

    /// Starts one with its own login, `tempauth`.
    pub fn start() -> Swift {
        Self::start_with(false)
    }

    /// Starts one with Keystone.
    pub fn start_with_keystone() -> Swift {
        Self::start_with(true)
    }

    fn start_with(keystone: bool) -> Swift {
        let folder = tempfile::tempdir().unwrap();
        let programs = installed("swift", "2.38");
        let ports = Ports {
            proxy: Port::reserve(),
            object: Port::reserve(),
            container: Port::reserve(),
            account: Port::reserve(),
            memcached: Port::reserve(),
        };

        make_rings(&programs, folder.path(), &ports);
        let keystone = keystone.then(|| Keystone::start(&programs, folder.path(), &ports.proxy.url()));
        configuration::write(folder.path(), &ports, keystone.as_ref().map(|keystone| keystone.port.url()).as_deref());

        let mut servers = vec![start_memcached(&ports.memcached)];
        servers.extend(["account", "container", "object", "proxy"].map(|name| {
            Server::start(
                name,
                Command::new(programs.join("bin/python"))
                    .arg(programs.join(format!("bin/swift-{name}-server")))
                    .arg(folder.path().join(format!("{name}.conf")))
                    // Without it all that it says goes to the system's log.
                    .arg("verbose"),
            )
        }));
        let swift = Swift { ports, keystone, login: Mutex::default(), _folder: folder, _servers: Vec::new() };
        for (server, port) in servers.iter_mut().zip(swift.ports.in_order()) {
            server.wait_until(|| std::net::TcpStream::connect(port.address()).is_ok());
        }
        Swift { _servers: servers, ..swift }
    }

    /// Where a client logs in: `…/auth/v1.0`, or Keystone's `…/v3`.
    pub fn auth_url(&self) -> String {
        match &self.keystone {
            None => format!("{}/auth/v1.0", self.ports.proxy.url()),
            Some(keystone) => format!("{}/v3", keystone.port.url()),
        }
    }

    /// Where objects are reached.
    pub fn url(&self) -> String {
        self.ports.proxy.url()
    }

    /// Makes an application credential of the user: its id and its secret.
    ///
    /// # Panics
    /// Without Keystone.
    pub fn application_credential(&self, name: &str) -> (String, String) {
        self.keystone.as_ref().expect("started with Keystone").application_credential(name)
    }

    /// A login of the user, the same each time until [`Swift::forget_tokens`].
    pub fn login(&self) -> Login {
        self.login.lock().unwrap().get_or_insert_with(|| self.log_in()).clone()
    }

    fn log_in(&self) -> Login {
        match &self.keystone {
            Some(keystone) => Login {
                account: format!("/v1/AUTH_{}", keystone.project_id()),
                token: keystone.token(&keystone::password(Self::USER, Self::PASSWORD), Self::PROJECT),
            },
            None => {
                let user = format!("{}:{}", Self::ACCOUNT, Self::USER);
                let headers = [("X-Auth-User", user.as_str()), ("X-Auth-Key", Self::PASSWORD)];
                let answer = HttpAnswer::of(self.ports.proxy.address(), "GET", "/auth/v1.0", &headers, b"");
                let answer = answer.expect("swift answers").done("logging in");
                Login {
                    account: format!("/v1/AUTH_{}", Self::ACCOUNT),
                    token: answer.header("x-auth-token").expect("a token").to_owned(),
                }
            }
        }
    }

    /// Lets no token count any more that its own login gave out.
    pub fn forget_tokens(&self) {
        use std::io::{Read, Write};
        let mut connection = std::net::TcpStream::connect(self.ports.memcached.address()).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.write_all(b"flush_all\r\nquit\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "OK\r\n");
        *self.login.lock().unwrap() = None;
    }

    /// Makes a container.
    pub fn container(&self, name: &str) {
        self.ask("PUT", &format!("/{name}"), &[], b"").done("making a container");
    }

    /// The names of all objects in a container, segments too, as the server has them.
    pub fn names(&self, container: &str) -> Vec<String> {
        let listed = self.ask("GET", &format!("/{container}?limit=10000"), &[], b"").done("listing").text();
        listed.lines().map(str::to_owned).collect()
    }

    /// A request to the account of the user: `path` begins with the container's `/`.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpAnswer {
        let login = self.login();
        let headers = [&[("X-Auth-Token", login.token.as_str())], headers].concat();
        let path = format!("{}{path}", login.account);
        HttpAnswer::of(self.ports.proxy.address(), method, &path, &headers, body).expect("swift answers")
    }
}

impl Ports {
    /// In the order in which the servers are started.
    fn in_order(&self) -> [&Port; 5] {
        [&self.memcached, &self.account, &self.container, &self.object, &self.proxy]
    }
}

fn make_rings(programs: &Path, folder: &Path, ports: &Ports) {
    let made = Command::new(programs.join("bin/python"))
        .args(["-c", include_str!("swift/rings.py.txt")])
        .arg(folder)
        .args([&ports.account, &ports.container, &ports.object].map(|port| port.number().to_string()))
        .output_in_time()
        .expect("the Python of `cargo xtask servers` runs");
    assert!(made.status.success(), "making rings: {}", String::from_utf8_lossy(&made.stderr));
}

fn start_memcached(port: &Port) -> Server {
    Server::start(
        "memcached",
        Command::new(installed("memcached", "1.6").join("memcached"))
            // It runs as whoever runs the tests; as root only if it is told who that is.
            .args(["-u", "root", "-l", "127.0.0.1", "-p", &port.number().to_string()])
            .env("LD_LIBRARY_PATH", installed("libevent", "2.1")),
    )
}
