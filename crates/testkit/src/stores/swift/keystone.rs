//! Keystone, the login of OpenStack.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE as BASE64_URL;
use serde_json::{Value, json};

use super::super::answers::HttpAnswer;
use super::super::server::Server;
use super::Swift;
use crate::ports::Port;

/// A running Keystone. It has the project `backup` with the user [`Swift::USER`], who may use Swift, and the user `swift`,
/// as whom Swift itself asks about tokens.
#[derive(Debug)]
pub(super) struct Keystone {
    pub(super) port: Port,
    user_id: String,
    _server: Server,
}

/// The region in which Swift is, as Keystone's catalogue has it.
pub(super) const REGION: &str = "region-one";
pub(super) const PROJECT: &str = "backup";
/// What `keystone-db.py.txt` of `cargo xtask servers` made.
const ADMIN: &str = "admin";

impl Keystone {
    /// Starts one with its files in `folder`; its catalogue says that Swift is at `swift_url`.
    pub(super) fn start(programs: &Path, folder: &Path, swift_url: &str) -> Keystone {
        let port = Port::reserve();
        configure(programs, folder);
        let mut server = Server::start(
            "keystone",
            Command::new(programs.join("bin/python"))
                .args(["-c", include_str!("keystone.py.txt")])
                .arg(folder.join("keystone.conf"))
                .arg(port.number().to_string()),
        );
        let address = port.address();
        server.wait_until(|| HttpAnswer::of(address, "GET", "/v3", &[], b"").is_ok());

        let mut keystone = Keystone { port, user_id: String::new(), _server: server };
        keystone.fill(swift_url);
        keystone
    }

    /// Projects, users, roles and the catalogue.
    fn fill(&mut self, swift_url: &str) {
        let admin = self.token(&password(ADMIN, ADMIN), ADMIN);
        let make = |what: &str, body: Value| {
            let made = self.ask(&admin, "POST", &format!("/v3/{what}s"), &json!({ what: body })).done(what).json();
            made[what]["id"].as_str().unwrap_or_default().to_owned()
        };
        let roles = self.ask(&admin, "GET", "/v3/roles", &Value::Null).done("roles").json();
        let role = |name: &str| {
            let mut roles = roles["roles"].as_array().unwrap().iter();
            roles.find(|role| role["name"] == name).unwrap()["id"].as_str().unwrap().to_owned()
        };
        let grant = |project: &str, user: &str, role: &str| {
            let path = format!("/v3/projects/{project}/users/{user}/roles/{role}");
            self.ask(&admin, "PUT", &path, &Value::Null).done("a role");
        };

        let service_project = make("project", json!({ "name": "service", "domain_id": "default" }));
        let swift = make("user", json!({ "name": "swift", "password": "swift", "domain_id": "default" }));
        grant(&service_project, &swift, &role("admin"));

        let project = make("project", json!({ "name": PROJECT, "domain_id": "default" }));
        let user = make("user", json!({ "name": Swift::USER, "password": Swift::PASSWORD, "domain_id": "default" }));
        grant(&project, &user, &role("member"));

        make("region", json!({ "id": REGION }));
        make("region", json!({ "id": "elsewhere" }));
        let endpoint = |service: &str, interface: &str, region: &str, url: &str| {
            make("endpoint", json!({ "service_id": service, "interface": interface, "region_id": region, "url": url }));
        };
        let identity = make("service", json!({ "name": "keystone", "type": "identity" }));
        let objects = make("service", json!({ "name": "swift", "type": "object-store" }));
        for interface in ["public", "internal", "admin"] {
            endpoint(&identity, interface, REGION, &self.port.url());
            endpoint(&objects, interface, REGION, &format!("{swift_url}/v1/AUTH_%(project_id)s"));
            endpoint(&objects, interface, "elsewhere", "http://127.0.0.1:1/v1/AUTH_%(project_id)s");
        }
        self.user_id = user;
    }

    /// A token of `identity` for `project`.
    pub(super) fn token(&self, identity: &Value, project: &str) -> String {
        let scope = json!({ "project": { "name": project, "domain": { "id": "default" } } });
        let request = json!({ "auth": { "identity": identity, "scope": scope } });
        let answer = self.ask("", "POST", "/v3/auth/tokens", &request).done("a token");
        answer.header("x-subject-token").expect("a token").to_owned()
    }

    /// The id of the project in which the user is.
    pub(super) fn project_id(&self) -> String {
        let admin = self.token(&password(ADMIN, ADMIN), ADMIN);
        let found = self.ask(&admin, "GET", &format!("/v3/projects?name={PROJECT}"), &Value::Null).done("a project");
        found.json()["projects"][0]["id"].as_str().expect("the project").to_owned()
    }

    /// Makes an application credential of the user: its id and its secret.
    pub(super) fn application_credential(&self, name: &str) -> (String, String) {
        let token = self.token(&password(Swift::USER, Swift::PASSWORD), PROJECT);
        let path = format!("/v3/users/{}/application_credentials", self.user_id);
        let made = self
            .ask(&token, "POST", &path, &json!({ "application_credential": { "name": name } }))
            .done("an application credential")
            .json();
        let field = |field: &str| made["application_credential"][field].as_str().unwrap().to_owned();
        (field("id"), field("secret"))
    }

    fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> HttpAnswer {
        let headers = [("X-Auth-Token", token), ("Content-Type", "application/json")];
        let headers = if token.is_empty() { &headers[1..] } else { &headers[..] };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        HttpAnswer::of(self.port.address(), method, path, headers, body.as_bytes()).expect("keystone answers")
    }
}

/// The identity of a user of the domain `default`.
pub(super) fn password(user: &str, password: &str) -> Value {
    json!({
        "methods": ["password"],
        "password": { "user": { "name": user, "domain": { "id": "default" }, "password": password } },
    })
}

/// The database as it was installed, keys of its own, and a configuration that names both.
fn configure(programs: &Path, folder: &Path) {
    fs::copy(programs.join("keystone.db"), folder.join("keystone.db")).unwrap();
    let keys = folder.join("keys");
    fs::create_dir(&keys).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["0", "1"] {
        fs::write(keys.join(name), BASE64_URL.encode(rand::random::<[u8; 32]>())).unwrap();
    }
    let (folder, keys) = (folder.display(), keys.display());
    let configuration = format!(
        "[database]\nconnection = sqlite:///{folder}/keystone.db\n\
         [fernet_tokens]\nkey_repository = {keys}\n\
         [fernet_receipts]\nkey_repository = {keys}\n\
         [identity]\npassword_hash_rounds = 4\n"
    );
    fs::write(format!("{folder}/keystone.conf"), configuration).unwrap();
}
