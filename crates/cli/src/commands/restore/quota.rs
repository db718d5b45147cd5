//! Whether an etcd that is not told otherwise takes writes on what was restored.

use crate::output::table::bytes;

/// How large a database may be where etcd is not told `--quota-backend-bytes`.
const USUAL_QUOTA_BYTES: u64 = 2 << 30;

/// What to know before an etcd is started on a database of `size_bytes`, if there is anything.
///
/// Nothing that was restored tells which quota the cluster had: it is a flag of etcd.
pub(super) fn advice(size_bytes: u64) -> Option<String> {
    (size_bytes >= USUAL_QUOTA_BYTES).then(|| {
        format!(
            "the database has {}, and from {} on an etcd that is not told otherwise takes no writes (NOSPACE): start it \
             with the --quota-backend-bytes that the cluster had, well above {size_bytes}",
            bytes(size_bytes),
            bytes(USUAL_QUOTA_BYTES)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_than_the_usual_quota_is_told_with_its_size_and_the_flag() {
        for size_bytes in [0, 73_728, 2_147_483_647] {
            assert_eq!(advice(size_bytes), None, "{size_bytes}");
        }
        for (size_bytes, shown) in [(2_147_483_648, "2.0 GiB"), (5 << 30, "5.0 GiB"), (u64::MAX, "TiB")] {
            let said = advice(size_bytes).unwrap();
            let flag = format!("--quota-backend-bytes that the cluster had, well above {size_bytes}");
            assert!(said.contains(shown) && said.ends_with(&flag), "{said}");
        }
    }
}
