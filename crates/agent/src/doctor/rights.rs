//! What we may do in etcd, as whom we ask.

use std::collections::{BTreeMap, BTreeSet};

use etcd_rpc::Fault;

use super::finding::{Check, Finding};
use super::members::{Right, Seen};
use super::remedy::remedy;

impl Right {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Watch => "watch",
            Self::Leases => "leases",
            Self::Snapshot => "snapshot",
            Self::Hash => "hash",
        }
    }

    /// What has to be granted.
    fn grant(self, user: &str) -> String {
        match self {
            Self::Read | Self::Watch | Self::Leases => format!(
                "`etcdctl user grant-role {user} root`, or a role with `etcdctl role grant-permission ROLE read \"\" --prefix`"
            ),
            Self::Snapshot | Self::Hash => {
                format!("`etcdctl user grant-role {user} root`: etcd lets nobody else do this")
            }
        }
    }
}

/// What is to be said of it: one line if all is well, or one for each thing that is refused.
pub(super) fn judge(seen: &Seen) -> Vec<Finding> {
    let mut refused: BTreeMap<Right, (Fault, BTreeSet<&str>)> = BTreeMap::new();
    for look in &seen.looks {
        for (right, result) in &look.rights {
            if let Err(fault) = result {
                let (_, names) = refused.entry(*right).or_insert_with(|| (fault.clone(), BTreeSet::new()));
                names.insert(&look.name);
            }
        }
    }
    if seen.looks.is_empty() {
        return Vec::new();
    }
    if refused.is_empty() {
        let who = seen.user.as_ref().map(|user| format!("{user} may")).unwrap_or_else(|| "we may".into());
        return vec![Check::of("rights").ok(format!("{who} read, watch, list leases, hash and take snapshots"))];
    }
    let user = seen.user.as_deref().unwrap_or("USER");
    let told = refused.into_iter().map(|(right, (fault, names))| {
        let names: Vec<&str> = names.into_iter().collect();
        let check = Check::of("rights").on(right.name());
        let told = format!("{}: {fault}", names.join(", "));
        match fault {
            Fault::Denied => check.broken(told, right.grant(user)),
            Fault::Compacted { .. } | Fault::FutureRevision => check.unknown(told),
            Fault::Deadline { .. } => check.warning(told, "it is overloaded, or --etcd-timeout is too short"),
            fault => check.broken(told, remedy(&fault)),
        }
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::short;
    use super::super::members::sketch::healthy;
    use super::*;

    #[test]
    fn what_is_refused_is_told_once_with_what_to_grant() {
        let mut seen = healthy(3);
        assert_eq!(short(&judge(&seen)), ["rights ok"]);
        seen.user = Some("backup".into());
        for look in &mut seen.looks {
            look.rights = vec![(Right::Read, Ok(())), (Right::Snapshot, Err(Fault::Denied))];
        }
        let found = judge(&seen);
        assert_eq!(short(&found), ["rights[snapshot] broken"]);
        assert_eq!(found[0].seen, "m1, m2, m3: permission denied");
        assert!(found[0].remedy.as_ref().unwrap().contains("etcdctl user grant-role backup root"));
        seen.looks[0].rights = vec![(Right::Hash, Err(Fault::FutureRevision))];
        assert!(short(&judge(&seen)).contains(&"rights[hash] unknown".into()));
        seen.looks.clear();
        assert_eq!(short(&judge(&seen)), [""; 0]);
    }
}
