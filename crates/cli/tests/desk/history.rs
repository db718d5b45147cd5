//! What can be restored of an archive.

use serde_json::Value;

use crate::running::succeed;

/// Requires that everything from the first revision to the last can be restored, in one history. `archive` is where it is, and how
/// `refloat` reaches it.
#[track_caller]
pub(crate) fn require_one_history(archive: &[&str]) {
    let said = succeed(&[&["points", "-o", "json"][..], archive].concat());
    let listing: Value = serde_json::from_str(&said).unwrap();
    let count = |what: &str| listing[what].as_array().map(Vec::len);
    assert_eq!((count("ranges"), count("holes")), (Some(1), Some(0)), "{listing:#}");
}
