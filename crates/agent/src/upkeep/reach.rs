//! How far an archive could be restored: by what is listed, without what was found to be of no use.
//!
//! It is told from names and findings, so it costs nothing to tell it often: what is damaged shows once it was read, what
//! is missing with the next listing. Where nothing at all is listed nothing is told, for then it may not have begun; unless
//! something was there before.

use std::collections::BTreeSet;

use archive::plan::{Known, Wanted};
use archive::{Catalogue, Entry, LineageId, RestorePlan};
use etcd_data::Revision;
use jiff::Timestamp;
use store::Key;

/// How far an archive could be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The last point that something in it claims to lead to.
    pub last: Point,
    /// When what claims so was written.
    pub written: Timestamp,
    /// The newest point that could be restored; nothing if none could.
    pub newest: Option<Point>,
}

/// A revision of a history. Those of newer histories are newer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Which history; nothing where the archive knows none.
    pub lineage: Option<LineageId>,
    /// The revision.
    pub revision: Revision,
}

impl Reach {
    /// How far `catalogue` leads without what is `unusable`. Nothing if there is nothing in it.
    pub(super) fn of(catalogue: &Catalogue, unusable: BTreeSet<Key>) -> Option<Self> {
        let history = catalogue.histories.iter().rev().find(|history| !history.is_empty())?;
        let entries = || history.fulls().iter().chain(history.deltas());
        let revision = entries().filter_map(|entry| entry.to).max()?;
        // What is merged later ends there too.
        let written = entries().filter(|entry| entry.to == Some(revision)).map(Entry::time).min()?;
        let known = Known { without: unusable, ..Known::default() };
        let plan = RestorePlan::choose(catalogue, &Wanted::default(), &known).ok();
        let newest = plan.and_then(|plan| Some(Point { revision: plan.target?, lineage: plan.base.lineage }));
        Some(Self { last: Point { lineage: history.lineage.clone(), revision }, written, newest })
    }

    /// What is told when `now` is found where `before` was told: that all of it is gone, or all of its newest history, is no
    /// new beginning. What comes later is of a newer history.
    pub(super) fn after(before: Option<Self>, now: Option<Self>) -> Option<Self> {
        match (before, now) {
            (Some(before), None) => Some(Self { newest: None, ..before }),
            (Some(before), Some(now)) if before.last.lineage > now.last.lineage => {
                Some(Self { newest: now.newest, ..before })
            }
            (_, now) => now,
        }
    }

    /// Whether all could be restored that is there.
    pub fn is_whole(&self) -> bool {
        self.newest.as_ref().is_some_and(|newest| *newest >= self.last)
    }
}

#[cfg(test)]
mod tests {
    use store::Info;

    use super::*;

    type Expected = Option<(i64, Option<(u32, i64)>)>;

    fn lineage(salt: u32) -> LineageId {
        LineageId::new(Timestamp::from_second(1_800_000_000 + i64::from(salt)).unwrap(), salt)
    }

    /// The key of `0-100`, a full, or `101-110`, a delta.
    fn key(lineage: &LineageId, object: &str) -> Key {
        let (from, to) = object.split_once('-').unwrap();
        let (from, to): (i64, i64) = (from.parse().unwrap(), to.parse().unwrap());
        let name = match from {
            0 => format!("full/{to:020}-20270115T080000Z.full"),
            _ => format!("delta/0/{from:020}-{to:020}.delta"),
        };
        Key::parse(format!("c/{lineage}/{name}")).unwrap()
    }

    /// What is told of the lineages in `sketch`, which `|` separates, where `unusable` of the last is of no use:
    /// the last revision, and the newest that could be restored, with the lineage that it is of.
    fn told(sketch: &str, unusable: &[&str]) -> Expected {
        let mut listed = Vec::new();
        let mut newest = 0;
        for (salt, objects) in (0..).zip(sketch.split('|')) {
            newest = salt;
            listed.extend(objects.split_whitespace().map(|object| Info {
                key: key(&lineage(salt), object),
                size_bytes: 1000,
                modified: Timestamp::from_second(1_800_000_000).unwrap(),
                tag: None,
                metadata: Default::default(),
                retention: None,
            }));
        }
        let unusable = unusable.iter().map(|object| key(&lineage(newest), object)).collect();
        let reach = Reach::of(&Catalogue::of_listing("c", &listed), unusable)?;
        let point = reach.newest.as_ref().map(|point| {
            let salt = (0..=newest).find(|salt| Some(lineage(*salt)) == point.lineage).unwrap();
            (salt, point.revision.0)
        });
        assert_eq!(reach.is_whole(), point == Some((newest, reach.last.revision.0)), "{reach:?}");
        Some((reach.last.revision.0, point))
    }

    #[test]
    fn what_was_there_and_is_gone_is_lacking_until_it_is_back_or_something_newer_has_begun() {
        let at = |salt, revision| Point { lineage: Some(lineage(salt)), revision: Revision(revision) };
        let whole = |salt, revision| {
            let last = at(salt, revision);
            Some(Reach { newest: Some(last.clone()), last, written: Timestamp::UNIX_EPOCH })
        };
        assert_eq!(Reach::after(None, None), None, "it may not have begun");
        assert_eq!(Reach::after(None, whole(1, 60)), whole(1, 60));
        let gone = Reach::after(whole(1, 60), None).unwrap();
        assert_eq!((gone.newest.as_ref(), &gone.last), (None, &at(1, 60)));
        let older = Reach::after(Some(gone), whole(0, 100)).unwrap();
        assert_eq!((older.newest.as_ref(), &older.last), (Some(&at(0, 100)), &at(1, 60)));
        assert!(!older.is_whole());
        assert_eq!(Reach::after(Some(older.clone()), whole(1, 60)), whole(1, 60));
        assert_eq!(Reach::after(Some(older), whole(2, 5)), whole(2, 5));
    }

    #[test]
    fn what_is_damaged_or_missing_ends_it_before() {
        let table: [(&str, &[&str], Expected); 11] = [
            ("", &[], None),
            ("0-100", &[], Some((100, Some((0, 100))))),
            ("0-100 101-110 111-120", &[], Some((120, Some((0, 120))))),
            // The only full is damaged, or gone.
            ("0-100 101-110 111-120", &["0-100"], Some((120, None))),
            ("101-110 111-120", &[], Some((120, None))),
            // A delta is.
            ("0-100 101-110 111-120", &["111-120"], Some((120, Some((0, 110))))),
            ("0-100 111-120", &[], Some((120, Some((0, 100))))),
            // Something else leads there, or it is not needed.
            ("0-100 101-110 0-110 111-120", &["0-110"], Some((120, Some((0, 120))))),
            ("0-100 101-110 0-110 111-120", &["101-110"], Some((120, Some((0, 120))))),
            // Only an older history is left.
            ("0-100|0-50 51-60", &["0-50"], Some((60, Some((0, 100))))),
            ("0-100|0-50 51-60", &["51-60"], Some((60, Some((1, 50))))),
        ];
        for (sketch, unusable, expected) in table {
            assert_eq!(told(sketch, unusable), expected, "{sketch} without {unusable:?}");
        }
    }
}
