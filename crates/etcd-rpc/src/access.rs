//! How members are reached: TLS, who we are, and how long we wait.

use std::fmt;
use std::time::Duration;

use crate::tls::Tls;

/// What is the same for all members of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Certificates, for endpoints that are `https`.
    pub tls: Option<Tls>,
    /// As whom we log in, where etcd's authentication is on.
    pub login: Option<Login>,
    /// How long is waited for what.
    pub deadlines: Deadlines,
}

/// A user of etcd and the password, which is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
}

/// How long is waited for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For a connection, with its TLS.
    pub connect: Duration,
    /// For the answer to a question, and for the acknowledgement of a watch.
    pub answer: Duration,
    /// For an answer that takes work that grows with the database: hashes, compaction, defragmentation.
    pub work: Duration,
    /// For the next piece of a snapshot.
    pub piece: Duration,
}

impl Login {
    /// The user `user` with `password`.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into() }
    }

    /// The user's name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// For sending to etcd.
    pub(crate) fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("password", &"***").finish()
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            // etcd itself gives up after 5 s and twice the election timeout, which is 1 s by default.
            answer: Duration::from_secs(10),
            work: Duration::from_secs(600),
            piece: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let access = Access { login: Some(Login::new("root", "secret")), ..Access::default() };
        let shown = format!("{access:?}");
        assert!(shown.contains("root") && !shown.contains("secret"), "{shown}");
    }
}
