//! Users, roles and tokens.

use serde_json::json;

use super::json::{b64, string, strings};
use super::{Client, Result};

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

    /// Turns authentication on; needs a user `root` with the role `root`.
    pub fn auth_enable(&self) -> Result<()> {
        self.call("/v3/auth/enable", &json!({})).map(drop)
    }
}
