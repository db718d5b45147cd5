//! Whom the fake lets in, once it asks for users: whoever shows a token that it has given and not forgotten.

use std::collections::BTreeSet;

use tonic::Status;

/// The tokens that are good, and what was made of others.
#[derive(Debug, Default)]
pub(crate) struct Door {
    /// Whether users are asked for.
    pub(crate) asks_for_users: bool,
    /// The only password that is right; without one, every password is.
    pub(crate) password: Option<String>,
    /// How often somebody logged in.
    pub(crate) logins: u64,
    /// How often a token was shown that is not good.
    pub(crate) refused: u64,
    good: BTreeSet<String>,
}

impl Door {
    /// Gives a token to whoever asks with the right password.
    pub(crate) fn log_in(&mut self, password: &str) -> Result<String, Status> {
        if !self.asks_for_users {
            return Err(Status::failed_precondition("etcdserver: authentication is not enabled"));
        }
        if self.password.as_deref().is_some_and(|right| right != password) {
            let wrong = "etcdserver: authentication failed, invalid user ID or password";
            return Err(Status::invalid_argument(wrong));
        }
        self.logins += 1;
        let token = format!("token.{}", self.logins);
        self.good.insert(token.clone());
        Ok(token)
    }

    /// As if all that were given had run out.
    pub(crate) fn forget(&mut self) {
        self.good.clear();
    }

    /// Whether whoever shows `token` is let in.
    pub(crate) fn let_in(&mut self, token: Option<&str>) -> Result<(), Status> {
        match token {
            _ if !self.asks_for_users => Ok(()),
            None => Err(Status::invalid_argument("etcdserver: user name is empty")),
            Some(token) if self.good.contains(token) => Ok(()),
            Some(_) => {
                self.refused += 1;
                Err(Status::unauthenticated("etcdserver: invalid auth token"))
            }
        }
    }
}
