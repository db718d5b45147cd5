//! How members are reached: TLS, who we are, and how long we wait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::fault::Fault;
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
#[derive(Clone)]
pub struct Login {
    user: String,
    password: Arc<Read>,
}

/// Gives the password as it is now, or says why there is none.
type Read = dyn Fn() -> Result<String, String> + Send + Sync;

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
        let password: String = password.into();
        Self::reading(user, move || Ok(password.clone()))
    }

    /// The user `user` with the password that `read` gives, which is asked each time somebody logs in, and may block: a
    /// password that is changed where it is kept is the one that is used next. `read` says why where it has none.
    pub fn reading(user: impl Into<String>, read: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self { user: user.into(), password: Arc::new(read) }
    }

    /// The user's name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The password as it is now, for sending to etcd.
    pub(crate) async fn password(&self) -> Result<String, Fault> {
        let read = Arc::clone(&self.password);
        let password = spawn_blocking(move || read()).await.unwrap_or_else(|error| Err(error.to_string()));
        password.map_err(|why| Fault::NoPassword { why })
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
