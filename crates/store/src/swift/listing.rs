//! What a listing of a container tells, and what it leaves to be asked.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::names::{self, SEGMENTS};
use super::object::{Head, has_segment, plain_tag};
use crate::error::Fault;
use crate::key::Key;
use crate::object::{Info, Listing};

/// Of what a page has at most. Clusters allow 10,000, unless they are configured for fewer: then some refuse, and some, as
/// Ceph, give fewer. So only a page that has nothing is the end.
pub(super) const LIMIT: usize = 1000;

/// A page of a listing, with names below the root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    /// The last name, after which more may come.
    pub(super) last: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    size_bytes: u64,
    tag: String,
    modified: Timestamp,
}

/// An entry as the server writes it. Folders, which are not asked for, have no name.
#[derive(Deserialize)]
struct Written {
    name: String,
    bytes: u64,
    hash: String,
    last_modified: String,
    slo_etag: Option<String>,
}

impl Page {
    pub(super) fn parse(body: &[u8], root: &str) -> Result<Self, Fault> {
        let nonsense = |what: String| Fault::Nonsense(format!("a listing: {what}"));
        let written: Vec<Written> = serde_json::from_slice(body).map_err(|error| nonsense(error.to_string()))?;
        let mut entries = Vec::with_capacity(written.len());
        for Written { name, bytes, hash, last_modified, slo_etag } in written {
            let name =
                name.strip_prefix(root).ok_or_else(|| nonsense("a name outside of what was asked for".into()))?;
            let modified = last_modified.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::UTC));
            let modified =
                modified.map_err(|error| nonsense(format!("{name} with the date {last_modified:?}: {error}")))?;
            let modified = modified.timestamp();
            entries.push(Entry { name: name.into(), size_bytes: bytes, tag: slo_etag.unwrap_or(hash), modified });
        }
        let last = entries.last().map(|entry| entry.name.clone());
        Ok(Self { entries, last })
    }

    /// This page, if it goes on after `after`: whoever ignores that would be asked for the same page for ever.
    pub(super) fn going_on(self, after: &str) -> Result<Self, Fault> {
        match &self.last {
            Some(last) if last.as_str() <= after => {
                Err(Fault::Nonsense(format!("a listing after {after:?} that ends with {last:?}")))
            }
            _ => Ok(self),
        }
    }

    /// How the listing goes on.
    pub(super) fn next(&self, listing: &Listing) -> Option<Listing> {
        let last = self.last.as_ref()?;
        // All segments lie in one folder, which nobody has to walk through.
        let after = match last.strip_prefix(SEGMENTS).is_some_and(|rest| rest.starts_with('/')) {
            true => format!("{SEGMENTS}/{}", char::MAX),
            false => last.clone(),
        };
        Some(Listing { after: Some(after), ..listing.clone() })
    }

    /// Names of objects to look at: those that seem empty, which is what a listing says of dynamic large objects, and those
    /// that others could be segments of.
    pub(super) fn questions(&self) -> BTreeSet<String> {
        let seen = self.entries.iter().filter(|entry| !names::is_hidden(&entry.name));
        let mut questions = BTreeSet::new();
        for entry in seen {
            if entry.size_bytes == 0 && Key::parse(entry.name.as_str()).is_ok() {
                questions.insert(entry.name.clone());
            }
            questions.extend(
                names::parent_of_segment(&entry.name).filter(|parent| Key::parse(*parent).is_ok()).map(str::to_owned),
            );
        }
        questions
    }

    /// The objects, with what was found about those that were looked at.
    pub(super) fn objects(self, heads: &BTreeMap<String, Option<Head>>, container: &str, root: &str) -> Vec<Info> {
        let is_segment = |name: &str| {
            let parent = names::parent_of_segment(name).and_then(|parent| heads.get(parent)?.as_ref());
            parent.is_some_and(|parent| has_segment(&parent.large, container, &format!("{root}{name}")))
        };
        let mut objects = Vec::with_capacity(self.entries.len());
        for Entry { name, size_bytes, tag, modified } in self.entries {
            // What ends with a slash marks a folder; some tools leave such marks.
            let Ok(key) = Key::parse(name.as_str()) else { continue };
            if names::is_hidden(&name) || is_segment(&name) {
                continue;
            }
            let listed = Info {
                key,
                size_bytes,
                modified,
                tag: Some(plain_tag(&tag)),
                metadata: BTreeMap::new(),
                retention: None,
            };
            match heads.get(&name).filter(|_| size_bytes == 0) {
                None => objects.push(listed),
                Some(Some(head)) => {
                    let Info { size_bytes, tag, .. } = head.info.clone();
                    objects.push(Info { size_bytes, tag, ..listed });
                }
                // It went away in the meantime.
                Some(None) => {}
            }
        }
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::Large;
    use super::*;

    fn page(names: &[(&str, u64)]) -> Page {
        let entries: Vec<_> = names
            .iter()
            .map(|(name, bytes)| {
                serde_json::json!({
                    "name": format!("root/{name}"), "bytes": bytes, "hash": "h",
                    "last_modified": "2026-11-21T15:58:30.123450", "content_type": "x",
                })
            })
            .collect();
        Page::parse(serde_json::json!(entries).to_string().as_bytes(), "root/").unwrap()
    }

    #[test]
    fn segments_are_left_out_and_manifests_have_the_size_of_what_they_mean() {
        let page = page(&[
            (".refloat-segments/b/1-2/00000", 5),
            ("a", 3),
            ("v2/Full", 0),
            ("v2/Full.final", 7),
            ("v2/Full/0000000000", 4),
            ("v2/Full/notes", 1),
            ("v2/folder/", 0),
            ("v2/other/0000000000", 2),
        ]);
        assert_eq!(page.questions(), ["v2/Full", "v2/other"].map(str::to_owned).into());

        let info = Info { size_bytes: 12, ..page.clone().objects(&BTreeMap::new(), "c", "root/").remove(0) };
        let large = Large::Dynamic { container: "c".into(), prefix: "root/v2/Full".into() };
        let heads: BTreeMap<_, _> =
            [("v2/Full".to_owned(), Some(Head { info, large, upload: None })), ("v2/other".into(), None)].into();
        let listed: Vec<(String, u64)> = page
            .objects(&heads, "c", "root/")
            .into_iter()
            .map(|info| (info.key.to_string(), info.size_bytes))
            .collect();
        let expected =
            [("a", 3), ("v2/Full", 12), ("v2/Full.final", 7), ("v2/Full/notes", 1), ("v2/other/0000000000", 2)];
        assert_eq!(listed, expected.map(|(name, size)| (name.to_owned(), size)));
    }

    #[test]
    fn a_page_goes_on_after_its_last_name_or_after_all_segments() {
        let listing = Listing::below("");
        let names: Vec<String> = (0..LIMIT).map(|at| format!("a/{at:05}")).collect();
        let entries: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        assert_eq!(page(&entries).next(&listing).unwrap().after.unwrap(), "a/00999");
        assert_eq!(page(&entries[..1]).next(&listing).unwrap().after.unwrap(), "a/00000");
        assert_eq!(page(&[]).next(&listing), None);

        assert!(page(&entries).going_on("a/00998").is_ok());
        let fault = page(&entries).going_on("a/00999").unwrap_err();
        assert!(matches!(&fault, Fault::Nonsense(what) if what.contains("a/00999")), "{fault:?}");
        assert!(page(&[]).going_on("a/00999").is_ok());

        let names: Vec<String> = (0..LIMIT).map(|at| format!(".refloat-segments/a/1-2/{at:05}")).collect();
        let entries: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let after = page(&entries).next(&listing).unwrap().after.unwrap();
        assert!(after.as_str() > ".refloat-segments/\u{ffff}" && after.as_str() < "a");
    }

    #[test]
    fn what_is_no_listing_is_nonsense() {
        for body in ["", "{}", "[{}]", r#"[{"subdir":"a/"}]"#] {
            assert!(matches!(Page::parse(body.as_bytes(), ""), Err(Fault::Nonsense(_))), "{body}");
        }
        let outside = r#"[{"name":"b","bytes":0,"hash":"","last_modified":"2026-11-21T15:58:30"}]"#;
        assert!(Page::parse(outside.as_bytes(), "a/").is_err());
        let fault = Page::parse(outside.replace("2026-11-21T", "yesterday ").as_bytes(), "").unwrap_err();
        assert!(matches!(&fault, Fault::Nonsense(what) if what.contains("yesterday 15:58:30")), "{fault:?}");
    }
}
