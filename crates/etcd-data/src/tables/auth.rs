//! The `auth`, `authUsers` and `authRoles` buckets: who may do what.

use prost::Message;

use super::{TableFault, Tables};

/// A user.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct User {
    /// The name.
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    /// What bcrypt made of the password. A secret: never printed.
    #[prost(bytes = "vec", tag = "2")]
    pub password_hash: Vec<u8>,
    /// The names of the user's roles.
    #[prost(string, repeated, tag = "3")]
    pub roles: Vec<String>,
    /// Set since 3.4.
    #[prost(message, optional, tag = "4")]
    pub options: Option<UserOptions>,
}

/// How a user may log in.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct UserOptions {
    /// Only by certificate.
    #[prost(bool, tag = "1")]
    pub no_password: bool,
}

/// A role.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Role {
    /// The name.
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    /// What it permits.
    #[prost(message, repeated, tag = "2")]
    pub permissions: Vec<Permission>,
}

/// A range of keys, and what is permitted there.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Permission {
    /// What is permitted.
    #[prost(enumeration = "PermissionKind", tag = "1")]
    pub kind: i32,
    /// The first key.
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    /// The end of the range; empty for one key, a zero byte for all from `key` on.
    #[prost(bytes = "vec", tag = "3")]
    pub range_end: Vec<u8>,
}

/// What is permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PermissionKind {
    /// Reading.
    Read = 0,
    /// Writing.
    Write = 1,
    /// Both.
    ReadWrite = 2,
}

const AUTH: &str = "auth";
const USERS: &str = "authUsers";
const ROLES: &str = "authRoles";

impl Tables {
    /// Whether users must log in.
    pub fn auth_enabled(&self) -> bool {
        self.entry(AUTH, "authEnabled") == Some(&[1])
    }

    /// Sets whether users must log in.
    pub fn set_auth_enabled(&mut self, enabled: bool) {
        self.put(AUTH, "authEnabled", [u8::from(enabled)]);
    }

    /// The revision of users, roles and the rest, if there ever was one.
    pub fn auth_revision(&self) -> Result<Option<u64>, TableFault> {
        self.single(AUTH, "authRevision", "8 bytes", |value| Some(u64::from_be_bytes(value.try_into().ok()?)))
    }

    /// Sets the revision of users, roles and the rest.
    pub fn set_auth_revision(&mut self, revision: u64) {
        self.put(AUTH, "authRevision", revision.to_be_bytes());
    }

    /// All users.
    pub fn users(&self) -> impl Iterator<Item = Result<User, TableFault>> {
        self.entries(USERS, "a user", |_, value| User::decode(value).ok())
    }

    /// All roles.
    pub fn roles(&self) -> impl Iterator<Item = Result<Role, TableFault>> {
        self.entries(ROLES, "a role", |_, value| Role::decode(value).ok())
    }

    /// The user of that name, if there is one.
    pub fn user(&self, name: &[u8]) -> Result<Option<User>, TableFault> {
        self.named(USERS, name, "a user", |value| User::decode(value).ok())
    }

    /// The role of that name, if there is one.
    pub fn role(&self, name: &[u8]) -> Result<Option<Role>, TableFault> {
        self.named(ROLES, name, "a role", |value| Role::decode(value).ok())
    }

    /// Puts a user, in place of one of that name.
    pub fn put_user(&mut self, user: &User) {
        self.put(USERS, user.name.clone(), user.encode_to_vec());
    }

    /// Removes a user.
    pub fn remove_user(&mut self, name: &[u8]) {
        self.bucket_mut(USERS).remove(name);
    }

    /// Puts a role, in place of one of that name.
    pub fn put_role(&mut self, role: &Role) {
        self.put(ROLES, role.name.clone(), role.encode_to_vec());
    }

    /// Removes a role.
    pub fn remove_role(&mut self, name: &[u8]) {
        self.bucket_mut(ROLES).remove(name);
    }
}
