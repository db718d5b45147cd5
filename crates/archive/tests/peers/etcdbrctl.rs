//! Every point of every archive that etcdbrctl wrote.

use std::sync::Arc;

use archive::entry::Form;
use archive::layout::etcdbrctl::{Events, lacks_leases};
use archive::layout::unknown::Unknown;
use archive::{Entry, Layout};
use etcd_data::Revision;
use etcd_data::database::{Direction, RevisionRange};
use etcd_data::hash::hash_kv;
use etcd_data::records::Records;
use jiff::Timestamp;
use serde_json::Value;
use testkit::fixtures;

use crate::place::{Full, Place, compare_hashes, keys_sha256};

const SOUND: [&str; 5] = ["plain-3.5.30", "gzip-3.4.23", "lzw-3.5.30", "zlib-3.5.30", "small-3.5.30"];

fn truth(name: &str) -> Value {
    fixtures::truth(format!("etcdbrctl/{name}.truth.json"))
}

/// An archive, with everything in it opened.
struct Opened {
    /// Scratch files are in it.
    _place: Place,
    fulls: Vec<(Entry, Full)>,
    deltas: Vec<(Entry, Arc<Events>)>,
}

impl Opened {
    fn of(name: &str) -> Self {
        let place = Place::fixture(&format!("etcdbrctl/{name}"));
        let archive = place.archive();
        assert_eq!((archive.layout, archive.folder.as_str()), (Layout::Etcdbrctl, ""));
        assert_eq!((&archive.companions[..], &archive.ignored[..]), (&[][..], &[][..]));
        let (fulls, deltas): (Vec<Entry>, Vec<Entry>) = archive.entries.into_iter().partition(Entry::is_full);
        let open_full = |entry: Entry| (place.full(&entry).unwrap(), entry);
        let fulls = fulls.into_iter().map(open_full).map(|(full, entry)| (entry, full)).collect();
        let open_delta = |entry: Entry| (place.events(&entry), entry);
        let deltas = deltas.into_iter().map(open_delta).map(|(delta, entry)| (entry, delta)).collect();
        Self { _place: place, fulls, deltas }
    }

    fn events(&self) -> Vec<Arc<Events>> {
        self.deltas.iter().map(|(_, delta)| Arc::clone(delta)).collect()
    }

    /// The last full may be a compacted one, of which keys have lost their leases.
    fn exact_fulls(&self) -> impl Iterator<Item = &Full> {
        self.fulls.iter().map(|(_, full)| full).filter(|full| !lacks_leases(&full.database).unwrap())
    }
}

#[test]
fn objects_are_what_the_truth_says() {
    for name in SOUND {
        let (opened, truth) = (Opened::of(name), truth(name));
        let objects = truth["objects"].as_array().unwrap();
        assert_eq!(opened.fulls.len() + opened.deltas.len(), objects.len());
        let told = |entry: &Entry| {
            let object = objects.iter().find(|object| object["name"] == entry.key.as_str()).unwrap();
            let from = entry.changes().map_or(0, |range| range.from.0);
            assert_eq!((Some(from), entry.to.map(|to| to.0)), (object["start"].as_i64(), object["last"].as_i64()));
            assert_eq!(entry.taken.map(Timestamp::as_second), object["created"].as_i64());
            assert_eq!(Some(entry.size_bytes), object["size"].as_u64());
            object
        };
        for (entry, full) in &opened.fulls {
            let object = told(entry);
            assert_eq!(entry.form, Form::Snapshot);
            assert_eq!(Some(full.horizon.current.0), object["content_revision"].as_i64());
            let compact = full.horizon.compact.map_or(-1, |compact| compact.0);
            assert_eq!(Some(compact), object["content_compact_revision"].as_i64());
            assert!(!lacks_leases(&full.database).unwrap(), "{}", entry.key);
        }
        for (entry, delta) in &opened.deltas {
            let object = told(entry);
            let facts = delta.facts().unwrap();
            assert_eq!(Some(facts.revisions.from.0), object["first_event_revision"].as_i64());
            assert_eq!(Some(facts.revisions.to.0), object["last_event_revision"].as_i64());
            assert_eq!(Some(facts.events), object["events"].as_u64());
            let time = |field: &str| object[field].as_str().unwrap().parse::<Timestamp>().unwrap();
            assert_eq!(facts.times, (time("first_event_time"), time("last_event_time")));
            let last = facts.moments.last().unwrap();
            assert_eq!((last.second, last.revision), (facts.times.1.as_second(), facts.revisions.to));
            assert!(facts.moments.is_sorted() && delta.last().unwrap() == Some(facts.last));
        }
    }
}

#[test]
fn every_point_is_exact_from_every_full_that_reaches_it() {
    let (mut points, mut hashes) = (0, 0);
    for name in SOUND.into_iter().chain(["compacted-3.5.30"]) {
        let (opened, truth) = (Opened::of(name), truth(name));
        for point in truth["points"].as_array().unwrap() {
            let at = point["revision"].as_i64().unwrap();
            let reaching = opened.exact_fulls().filter(|full| full.reaches_back_to(at));
            let mut reached = 0;
            for full in reaching {
                let database = full.carried_to(at, &opened.events());
                if database.last_record().unwrap().unwrap().main.0 < at {
                    continue;
                }
                let (keys, count) = keys_sha256(&database, at);
                assert_eq!(point["keys_sha256"].as_str(), Some(keys.as_str()), "{name}, revision {at}");
                assert_eq!(point["key_count"].as_u64(), Some(count as u64));
                hashes += compare_hashes(&database, at, &point["hashes"]);
                let compacted = truth["compactions"].as_array().unwrap().iter();
                for told in compacted.filter(|told| told["current_revision"] == point["revision"]) {
                    let at = told["revision"].as_i64().unwrap();
                    let hash = Value::Array(vec![told["hash_at_that_revision"].clone()]);
                    if full.reaches_back_to(at) {
                        hashes += compare_hashes(&database, at, &hash);
                    }
                }
                reached += 1;
            }
            assert!(reached > 0, "{name}, revision {at}");
            points += reached;
        }
        let end = truth["final"]["revision"].as_i64().unwrap();
        for full in opened.exact_fulls() {
            let database = full.carried_to(end, &opened.events());
            if database.last_record().unwrap().unwrap().main.0 < end {
                continue;
            }
            assert_eq!(truth["final"]["keys_sha256"].as_str(), Some(keys_sha256(&database, end).0.as_str()), "{name}");
            hashes += compare_hashes(&database, end, &truth["final"]["hashes"]);
        }
    }
    assert!(points >= 80 && hashes >= 110, "{points} points, {hashes} hashes");
}

#[test]
fn a_compacted_full_is_known_by_what_it_lacks() {
    let (opened, truth) = (Opened::of("compacted-3.5.30"), truth("compacted-3.5.30"));
    let told = &truth["compacted_full"];
    let lacking: Vec<&(Entry, Full)> =
        opened.fulls.iter().filter(|(_, full)| lacks_leases(&full.database).unwrap()).collect();
    let [(entry, full)] = lacking[..] else { panic!("{} fulls", lacking.len()) };
    assert_eq!(told["object"].as_str(), Some(entry.key.as_str()));
    let end = told["revision"].as_i64().unwrap();
    let (keys, count) = keys_sha256(&full.database, end);
    assert_eq!((told["keys_sha256"].as_str(), told["key_count"].as_u64()), (Some(keys.as_str()), Some(count as u64)));
    assert_eq!(
        told["hashkv_of_its_content"].as_u64(),
        Some(u64::from(hash_kv(&full.database, None, None).unwrap().hash))
    );
}

#[test]
fn revisions_that_lie_in_no_delta_are_known() {
    for name in SOUND {
        let (opened, truth) = (Opened::of(name), truth(name));
        let mut next = opened.fulls[0].1.horizon.current.next();
        let mut missing = Vec::new();
        for (_, delta) in &opened.deltas {
            let RevisionRange { from, to } = delta.facts().unwrap().revisions;
            if from > next {
                missing.push(serde_json::json!([next.0, from.0 - 1]));
            }
            next = to.next();
        }
        assert_eq!(truth["no_delta_for"], Value::Array(missing), "{name}");
    }
}

/// What deltas know of a moment: at least the last revision that came before, and less than the first after it.
#[test]
fn a_moment_has_the_revision_that_the_server_had() {
    for name in SOUND {
        let (opened, truth) = (Opened::of(name), truth(name));
        let mut exact = 0;
        for point in truth["points"].as_array().unwrap() {
            let time: Timestamp = point["observed_at"].as_str().unwrap().parse().unwrap();
            let at = Revision(point["revision"].as_i64().unwrap());
            let told = opened.deltas.iter().map(|(_, delta)| (delta, delta.revision_at(time).unwrap()));
            let at_least = told.clone().filter_map(|(_, revision)| revision).max();
            let less_than = |(delta, revision): (&Arc<Events>, Option<Revision>)| {
                let range = delta.facts().unwrap().revisions;
                match revision {
                    Some(last) if last == range.to => None,
                    Some(last) => Some(last.next()),
                    None => Some(range.from),
                }
            };
            let less_than = told.filter_map(less_than).min();
            assert!(at_least.is_none_or(|least| least <= at) && less_than.is_none_or(|less| at < less), "{name} {at}");
            exact += usize::from(at_least == Some(at));
        }
        assert!(exact >= 7, "{name}: {exact}");
    }
}

#[test]
fn records_come_backwards_as_they_come_forwards() {
    for name in SOUND {
        for (entry, delta) in Opened::of(name).deltas {
            let read = |direction: Direction| {
                let mut records = Vec::new();
                delta
                    .read(direction, &mut |at, value| {
                        records.push((at, value.to_vec()));
                        Ok(std::ops::ControlFlow::Continue(()))
                    })
                    .unwrap();
                records
            };
            let decoded = read(Direction::Forwards);
            let mut backwards = read(Direction::Backwards);
            backwards.reverse();
            assert!(decoded == backwards && decoded == read(Direction::Forwards), "{}", entry.key);
            assert!(decoded.windows(2).all(|pair| (pair[0].0.main, pair[0].0.sub) < (pair[1].0.main, pair[1].0.sub)));
        }
    }
}

#[test]
fn what_a_point_cannot_tell_is_named() {
    let opened = Opened::of("small-3.5.30");
    let full = opened.fulls[1].1.horizon.current;
    assert_eq!(Unknown::of(full, Revision(225)), []);
    let unknown = Unknown::of(full, Revision(320));
    assert!(unknown.contains(&Unknown::LeasesGranted { after: full }));
    assert!(unknown.contains(&Unknown::Compactions { after: full }));
}

#[test]
fn the_old_layout_and_the_new_one_are_one_archive() {
    let (old, new) = (Opened::of("legacy-v1"), Opened::of("small-3.5.30"));
    let names = |opened: &Opened| {
        let mut names: Vec<String> = opened.fulls.iter().map(|(entry, _)| entry.name.clone()).collect();
        names.extend(opened.deltas.iter().map(|(entry, _)| entry.name.clone()));
        names.sort();
        names
    };
    assert_eq!(names(&old), names(&new));
    let by_folder = |part: &str| old.deltas.iter().filter(|(entry, _)| entry.key.as_str().starts_with(part)).count();
    assert!(by_folder("v1/Backup-1795224141/") == 5 && by_folder("v2/") == 2);

    let truth = truth("small-3.5.30");
    let mut events = old.events();
    events.sort_by_key(|delta| delta.facts().unwrap().revisions.from);
    let newest = old.fulls.iter().map(|(_, full)| full).max_by_key(|full| full.horizon.current).unwrap();
    let database = newest.carried_to(320, &events);
    assert_eq!(truth["final"]["keys_sha256"].as_str(), Some(keys_sha256(&database, 320).0.as_str()));
    assert!(compare_hashes(&database, 320, &truth["final"]["hashes"]) == 2);
}
