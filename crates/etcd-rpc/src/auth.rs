//! Users and roles: whether they are asked for, and the few calls that make them.

use bytes::Bytes;
use tonic::transport::Channel;

use crate::fault::RpcError;
use crate::member::Member;
use crate::proto::authpb::Permission;
use crate::proto::authpb::permission::Type;
use crate::proto::etcdserverpb::auth_client::AuthClient;
use crate::proto::etcdserverpb::{
    AuthEnableRequest, AuthRoleAddRequest, AuthRoleGrantPermissionRequest, AuthStatusRequest, AuthUserAddRequest,
    AuthUserGrantRoleRequest,
};

/// Whether users are asked for, and how often that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthStatus {
    /// Whether users are asked for.
    pub is_enabled: bool,
    /// Rises with every change of users and roles.
    pub revision: u64,
}

/// What a role may do with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Read them.
    Read,
    /// Write them.
    Write,
    /// Both.
    ReadWrite,
}

impl Member {
    /// Whether users are asked for. [`Fault::Unsupported`](crate::Fault::Unsupported) by 3.4.
    pub async fn auth_status(&self) -> Result<AuthStatus, RpcError> {
        let answer = self
            .ask("reading whether users are asked for", AuthStatusRequest {}, |channel, request| async move {
                auth(channel).auth_status(request).await
            })
            .await?;
        Ok(AuthStatus { is_enabled: answer.enabled, revision: answer.auth_revision })
    }

    /// Logs in as the configured user, if there is one and the server asks for one: whether the password is right.
    pub async fn authenticate(&self) -> Result<(), RpcError> {
        self.pass().await.map(drop).map_err(|fault| self.error("logging in", fault))
    }

    /// From now on users are asked for; there has to be one called `root` with the role `root`.
    pub async fn enable_auth(&self) -> Result<(), RpcError> {
        self.ask("turning authentication on", AuthEnableRequest {}, |channel, request| async move {
            auth(channel).auth_enable(request).await
        })
        .await
        .map(drop)
    }

    /// Makes a user.
    pub async fn add_user(&self, user: &str, password: &str) -> Result<(), RpcError> {
        let (name, password) = (user.to_owned(), password.to_owned());
        let question = AuthUserAddRequest { name, password, ..AuthUserAddRequest::default() };
        self.ask("adding a user", question, |channel, request| async move { auth(channel).user_add(request).await })
            .await
            .map(drop)
    }

    /// Makes a role.
    pub async fn add_role(&self, role: &str) -> Result<(), RpcError> {
        let question = AuthRoleAddRequest { name: role.to_owned() };
        self.ask("adding a role", question, |channel, request| async move { auth(channel).role_add(request).await })
            .await
            .map(drop)
    }

    /// Gives a user a role.
    pub async fn grant_role(&self, user: &str, role: &str) -> Result<(), RpcError> {
        let question = AuthUserGrantRoleRequest { user: user.to_owned(), role: role.to_owned() };
        self.ask(
            "granting a role",
            question,
            |channel, request| async move { auth(channel).user_grant_role(request).await },
        )
        .await
        .map(drop)
    }

    /// Lets a role do something with the keys from `key` up to but not including `end`, which is empty for the one key.
    pub async fn grant_permission(
        &self,
        role: &str,
        may: May,
        key: impl Into<Bytes>,
        end: impl Into<Bytes>,
    ) -> Result<(), RpcError> {
        let kind = match may {
            May::Read => Type::Read,
            May::Write => Type::Write,
            May::ReadWrite => Type::Readwrite,
        };
        let permission = Permission { perm_type: kind.into(), key: key.into(), range_end: end.into() };
        let question = AuthRoleGrantPermissionRequest { name: role.to_owned(), perm: Some(permission) };
        self.ask("granting a permission", question, |channel, request| async move {
            auth(channel).role_grant_permission(request).await
        })
        .await
        .map(drop)
    }
}

fn auth(channel: Channel) -> AuthClient<Channel> {
    AuthClient::new(channel)
}
