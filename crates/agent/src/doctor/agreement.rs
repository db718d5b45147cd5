//! What members have to agree on: the hash of the key space, and how much history is kept.

use std::collections::BTreeMap;

use super::finding::{Check, Finding};
use super::members::{Look, Seen};

/// So many revisions of history are a lot for a database that nobody compacts.
const MUCH_HISTORY: i64 = 100_000;
/// So many are more than any watch needs.
const FAR_TOO_MUCH: i64 = 5_000_000;

/// What is to be said of it.
pub(super) fn judge(seen: &Seen) -> Vec<Finding> {
    let hashes: Vec<(&Look, etcd_rpc::HashKv)> =
        seen.looks.iter().filter_map(|look| Some((look, *look.hash.as_ref().ok()?))).collect();
    let mut findings = Vec::new();
    if hashes.len() > 1 {
        findings.push(of_hashes(&hashes));
    }
    if let Some((_, hash)) = hashes.iter().max_by_key(|(_, hash)| hash.compact_revision) {
        findings.push(of_history(hash.header.revision, hash.compact_revision));
    }
    findings
}

/// Members that were compacted to the same revision have the same hash, or they differ.
fn of_hashes(hashes: &[(&Look, etcd_rpc::HashKv)]) -> Finding {
    let check = Check::of("agreement");
    let mut by_compaction: BTreeMap<i64, Vec<(&str, u32)>> = BTreeMap::new();
    for (look, hash) in hashes {
        by_compaction.entry(hash.compact_revision).or_default().push((&look.name, hash.hash));
    }
    let differing = by_compaction
        .values()
        .find(|alike| alike.iter().any(|(_, hash)| Some(*hash) != alike.first().map(|(_, hash)| *hash)));
    match differing {
        Some(alike) => {
            let told: Vec<String> = alike.iter().map(|(name, hash)| format!("{name} has {hash:08x}")).collect();
            check.broken(
                format!("members differ at the same revision: {}", told.join(", ")),
                "stop writing if you can; the member that differs from the majority is to be replaced: remove, wipe, add",
            )
        }
        None if by_compaction.len() > 1 => {
            check.unknown("they were compacted meanwhile, so that their hashes cannot be compared")
        }
        None => check.ok(format!("{} members have the same hash", hashes.len())),
    }
}

fn of_history(revision: i64, compacted: i64) -> Finding {
    let check = Check::of("compaction");
    let kept = revision.saturating_sub(compacted.max(0));
    let remedy = "etcd --auto-compaction-mode=periodic --auto-compaction-retention=1h; Kubernetes' apiserver compacts every 5 minutes \
                  by itself (--etcd-compaction-interval)";
    match (compacted > 0, kept) {
        (false, MUCH_HISTORY..) => {
            check.warning(format!("nothing was ever compacted: {kept} revisions are kept"), remedy)
        }
        (false, _) => check.ok(format!("nothing was compacted yet; {kept} revisions are kept")),
        (true, FAR_TOO_MUCH..) => check.warning(format!("{kept} revisions are kept, since {compacted}"), remedy),
        (true, _) => check.ok(format!("{kept} revisions are kept, since {compacted}")),
    }
}

#[cfg(test)]
mod tests {
    use etcd_rpc::Fault;

    use super::super::finding::short;
    use super::super::members::sketch::healthy;
    use super::*;

    #[test]
    fn members_that_differ_are_found() {
        let mut seen = healthy(3);
        assert_eq!(short(&judge(&seen)), ["agreement ok", "compaction ok"]);
        seen.looks[2].hash.as_mut().unwrap().compact_revision = 4500;
        assert_eq!(short(&judge(&seen)), ["agreement unknown", "compaction ok"]);
        seen.looks[1].hash.as_mut().unwrap().hash = 8;
        let found = judge(&seen);
        assert_eq!(short(&found), ["agreement broken", "compaction ok"]);
        assert_eq!(found[0].seen, "members differ at the same revision: m1 has 00000007, m2 has 00000008");
        seen.looks.iter_mut().for_each(|look| look.hash = Err(Fault::Denied));
        assert_eq!(short(&judge(&seen)), [""; 0]);
    }

    #[test]
    fn history_that_nobody_compacts_is_told() {
        for (revision, compacted, expected) in [
            (5, -1, "compaction ok"),
            (99_999, 0, "compaction ok"),
            (100_000, -1, "compaction warning"),
            (9_000_000, 8_990_000, "compaction ok"),
            (9_000_000, 1, "compaction warning"),
        ] {
            assert_eq!(short(&[of_history(revision, compacted)]), [expected], "{revision} {compacted}");
        }
    }
}
