//! The names that objects and segments have in a container.
//!
//! | Name | Is |
//! |---|---|
//! | `<root><key>` | an object; a large one is a manifest |
//! | `<root>.refloat-segments/<key>/<upload>/begun` | an upload that was begun |
//! | `<root>.refloat-segments/<key>/<upload>/<index>` | a part, `index` with five digits |
//! | `<key>/<ten digits>` | a part of an object that etcdbrctl wrote |
//!
//! Segments are in the container of the objects, not in another one beside it: whoever may write here may write there,
//! quotas and policies count them with what they belong to, and what deletes the container deletes them. The folder is
//! one for all keys, so that listings of a folder do not meet segments, and a listing of everything steps over them at once.

use jiff::Timestamp;

use crate::key::Key;

/// The folder of segments, below the root.
pub(super) const SEGMENTS: &str = ".refloat-segments";
/// Says that an upload was begun.
pub(super) const BEGUN: &str = "begun";

/// A segment, or the mark of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentName<'n> {
    pub(super) key: &'n str,
    pub(super) upload: &'n str,
}

impl<'n> SegmentName<'n> {
    /// From a name below the root.
    pub(super) fn parse(name: &'n str) -> Option<Self> {
        let (folder, _) = name.strip_prefix(SEGMENTS)?.strip_prefix('/')?.rsplit_once('/')?;
        let (key, upload) = folder.rsplit_once('/')?;
        is_upload(upload).then_some(Self { key, upload })
    }
}

/// A name of an upload that nobody else has: when it was begun, in seconds, and a random number.
pub(super) fn new_upload(now: Timestamp, random: u64) -> String {
    format!("{:010}-{random:016x}", now.as_second())
}

/// Whether `id` is as [`new_upload`] makes them.
pub(super) fn is_upload(id: &str) -> bool {
    id.split_once('-').is_some_and(|(seconds, random)| {
        let digits = seconds.len() == 10 && seconds.bytes().all(|byte| byte.is_ascii_digit());
        digits && random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// When an upload was begun.
pub(super) fn begun_at(id: &str) -> Option<Timestamp> {
    Timestamp::from_second(id.split_once('-')?.0.parse().ok()?).ok()
}

/// The folder of an upload's segments, below the root, with its `/`.
pub(super) fn folder(key: &str, upload: &str) -> String {
    format!("{SEGMENTS}/{key}/{upload}/")
}

/// Whether a name below the root lies in a folder of segments: ours, or that of a store whose root is further down.
pub(super) fn is_hidden(name: &str) -> bool {
    name.split('/').rev().skip(1).any(|folder| folder == SEGMENTS)
}

/// Whether this can be the key of an object: it must not lie among segments.
pub(super) fn is_free(key: &Key) -> bool {
    key.as_str().split('/').all(|step| step != SEGMENTS)
}

/// Of `<object>/<ten digits>`, which etcdbrctl calls its segments, the object.
pub(super) fn parent_of_segment(name: &str) -> Option<&str> {
    let (parent, number) = name.rsplit_once('/')?;
    (number.len() == 10 && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(parent)
}

/// Whether a manifest that takes everything beginning with `prefix` means `name`. A prefix that ends within a step of the path
/// means what lies below it: `a.gz` does not mean `a.gz.final`.
pub(super) fn is_meant(prefix: &str, name: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && (prefix.ends_with('/') || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_has_a_name_that_tells_its_time() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let id = new_upload(now, 0xabc);
        assert_eq!(id, "1795262400-0000000000000abc");
        assert!(is_upload(&id));
        assert_eq!(begun_at(&id), Some(now));
        let name = format!("{}{BEGUN}", folder("a/b", &id));
        assert_eq!(SegmentName::parse(&name), Some(SegmentName { key: "a/b", upload: &id }));
        for other in ["a/b", ".refloat-segments/a/b/c", ".refloat-segments/begun", "", ".refloat-segments/"] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn segments_are_hidden_and_their_folder_is_taken() {
        assert!(is_hidden(".refloat-segments/a/1/00000"));
        assert!(is_hidden("prod/.refloat-segments/a"));
        assert!(!is_hidden("a/b"));
        assert!(!is_hidden("a/.refloat-segments"));
        assert!(!is_free(&Key::parse("a/.refloat-segments/b").unwrap()));
        assert!(is_free(&Key::parse("a/.refloat-segments2/b").unwrap()));
    }

    #[test]
    fn a_manifest_means_what_is_below_it_only() {
        assert!(is_meant("v2/Full-1.gz", "v2/Full-1.gz/0000000000"));
        assert!(!is_meant("v2/Full-1.gz", "v2/Full-1.gz"));
        assert!(!is_meant("v2/Full-1.gz", "v2/Full-1.gz.final/0000000000"));
        assert!(is_meant("a/1/", "a/1/2/3"));
        assert_eq!(parent_of_segment("v2/Full-1.gz/0000000012"), Some("v2/Full-1.gz"));
        assert_eq!(parent_of_segment("v2/Full-1.gz/12"), None);
        assert_eq!(parent_of_segment("0000000012"), None);
    }
}
