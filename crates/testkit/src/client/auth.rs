//! Users, roles and tokens.

use serde_json::{Value, json};

use super::json::{b64, bytes, list, string, strings};
use super::{Client, Result};

/// What a role may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// `READ`, `WRITE` or `READWRITE`.
    pub kind: String,
    /// The key, or the first of the range.
    pub key: Vec<u8>,
    /// The end of the range, empty for the one key.
    pub range_end: Vec<u8>,
}

impl Client {
    /// Logs in: a client of the same member that acts as this user.
    pub fn log_in(&self, user: &str, password: &str) -> Result<Client> {
        let reply = self.call("/v3/auth/authenticate", &json!({"name": user, "password": password}))?;
        Ok(Client { token: Some(string(&reply["token"]).to_owned()), ..self.clone() })
    }

    /// Makes a user.
    pub fn user_add(&self, user: &str, password: &str) -> Result<()> {
        self.call("/v3/auth/user/add", &json!({"name": user, "password": password})).map(drop)
    }

    /// Gives a user a role.
    pub fn user_grant_role(&self, user: &str, role: &str) -> Result<()> {
        self.call("/v3/auth/user/grant", &json!({"user": user, "role": role})).map(drop)
    }

    /// All users, in order.
    pub fn users(&self) -> Result<Vec<String>> {
        Ok(strings(&self.call("/v3/auth/user/list", &json!({}))?["users"]))
    }

    /// The roles of a user, in order.
    pub fn roles_of(&self, user: &str) -> Result<Vec<String>> {
        Ok(strings(&self.call("/v3/auth/user/get", &json!({"name": user}))?["roles"]))
    }

    /// Makes a role.
    pub fn role_add(&self, role: &str) -> Result<()> {
        self.call("/v3/auth/role/add", &json!({"name": role})).map(drop)
    }

    /// Lets a role do `permission`, `READ`, `WRITE` or `READWRITE`, from `key` up to but not
    /// including `end`, which is empty for the one key.
    pub fn role_grant(&self, role: &str, permission: &str, key: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let perm = json!({"permType": permission, "key": b64(key), "range_end": b64(end)});
        self.call("/v3/auth/role/grant", &json!({"name": role, "perm": perm})).map(drop)
    }

    /// All roles, in order.
    pub fn roles(&self) -> Result<Vec<String>> {
        Ok(strings(&self.call("/v3/auth/role/list", &json!({}))?["roles"]))
    }

    /// What a role may do, in the order of the keys.
    pub fn permissions_of(&self, role: &str) -> Result<Vec<Permission>> {
        let reply = self.call("/v3/auth/role/get", &json!({"role": role}))?;
        Ok(list(&reply["perm"]).map(Permission::from_json).collect())
    }

    /// Turns authentication on; needs a user `root` with the role `root`.
    pub fn auth_enable(&self) -> Result<()> {
        self.call("/v3/auth/enable", &json!({})).map(drop)
    }
}

impl Permission {
    fn from_json(permission: &Value) -> Permission {
        Permission {
            // READ is the zero value, which 3.4 leaves out.
            kind: permission["permType"].as_str().unwrap_or("READ").to_owned(),
            key: bytes(&permission["key"]),
            range_end: bytes(&permission["range_end"]),
        }
    }
}
