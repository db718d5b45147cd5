//! What makes an etcd ask who is there.

use testkit::Etcd;

/// From now on it asks for users: `root`, and `reader` who may read what begins with `r`; both have one password.
pub(crate) fn with_users(etcd: &Etcd) {
    use etcd_rpc::{Access, May, Member};

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let member = Member::new(etcd.client_url().parse().unwrap(), &Access::default());
        for user in ["root", "reader"] {
            member.add_user(user, PASSWORD).await.unwrap();
            // Whether there is a role `root` already depends on the version.
            let _ = member.add_role(user).await;
            member.grant_role(user, user).await.unwrap();
        }
        member.grant_permission("reader", May::Read, "r", "s").await.unwrap();
        member.enable_auth().await.unwrap();
    });
}

/// The password of all of them.
pub(crate) const PASSWORD: &str = "books";
