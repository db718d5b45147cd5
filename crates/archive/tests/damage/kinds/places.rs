//! What is right by itself, and in the wrong place or not there.

use archive::identity::LineageId;
use archive::layout::{etcdbrctl, k3s, openshift};
use archive::name::{DeltaName, FullName, Name};
use bytes::Bytes;
use etcd_data::Revision;
use jiff::SignedDuration;
use testkit::fixtures;

use super::Damage;
use crate::sound::Subject;
use crate::world::moment;

/// By how much an object is called later or earlier than it is.
const REVISIONS: i64 = 5;
const TIME: SignedDuration = SignedDuration::from_secs(1000);

pub(super) fn of(subject: &Subject, victim: &Bytes) -> Vec<Damage> {
    let key = &subject.victim;
    let mut missing = subject.objects.clone();
    missing.remove(key);
    let damage = |what: &str, objects, also: Option<String>| {
        let named = subject.named.iter().cloned().chain(also).collect();
        Damage { what: what.into(), objects, named }
    };
    let mut all = vec![damage("missing", missing.clone(), None)];
    if let Some(other) = &subject.other {
        let mut swapped = subject.objects.clone();
        swapped.insert(key.clone(), subject.objects[other].clone());
        all.push(damage("another in its place", swapped.clone(), None));
        swapped.insert(other.clone(), victim.clone());
        all.push(damage("two changed places", swapped, Some(other.clone())));
    }
    if subject.what == "etcdbrctl delta" {
        let of_another = "v2/Incr-00000321-00000351-1795224176.gz";
        let path = fixtures::path(format!("etcdbrctl/damaged/foreign-cluster/{of_another}"));
        let mut continued = subject.objects.clone();
        continued.insert(of_another.into(), std::fs::read(path).unwrap().into());
        all.push(damage("another history's behind the last", continued, Some(of_another.into())));
    }
    for (what, name) in names(key) {
        let mut objects = missing.clone();
        objects.insert(name.clone(), victim.clone());
        all.push(damage(what, objects, Some(name)));
    }
    all
}

/// What the object at `key` may be called otherwise, if its name tells what it is.
fn names(key: &str) -> Vec<(&'static str, String)> {
    if let Some(name) = key.strip_prefix("prod/").and_then(Name::parse) {
        return ours(name).into_iter().map(|(what, name)| (what, format!("prod/{name}"))).collect();
    }
    let (folder, name) = match key.rsplit_once('/') {
        Some((folder, name)) => (format!("{folder}/"), name),
        None => (String::new(), key),
    };
    theirs(name).into_iter().map(|(what, name)| (what, format!("{folder}{name}"))).collect()
}

fn ours(name: Name) -> Vec<(&'static str, Name)> {
    let elsewhere = LineageId::new(moment(100), 9);
    match name {
        Name::Full(lineage, full) => {
            let by = |revisions: i64| {
                let revision = Revision(full.revision.0 + revisions);
                Name::Full(lineage.clone(), FullName { revision, ..full.clone() })
            };
            let (later, earlier) = (by(REVISIONS), by(-REVISIONS));
            let taken_later = FullName { time: full.time + TIME, ..full.clone() };
            vec![
                ("called later", later),
                ("called earlier", earlier),
                ("called taken later", Name::Full(lineage.clone(), taken_later)),
                ("in another lineage", Name::Full(elsewhere, full)),
            ]
        }
        Name::Delta(lineage, delta) => {
            let DeltaName { level, from, to } = delta;
            let called = |delta: DeltaName| Name::Delta(lineage.clone(), delta);
            vec![
                ("called longer", called(DeltaName { to: Revision(to.0 + REVISIONS), ..delta })),
                ("called later", called(DeltaName { level, from: from.next(), to: to.next() })),
                ("called merged more often", called(DeltaName { level: level + 1, ..delta })),
                ("in another lineage", Name::Delta(elsewhere, delta)),
            ]
        }
        _ => Vec::new(),
    }
}

fn theirs(name: &str) -> Vec<(&'static str, String)> {
    if let Some(name) = etcdbrctl::Name::parse(name) {
        let taken_later = etcdbrctl::Name { taken: name.taken + TIME, ..name };
        let later = match name.kind {
            etcdbrctl::Kind::Full => etcdbrctl::Name { to: Revision(name.to.0 + REVISIONS), ..name },
            etcdbrctl::Kind::Incr { from } => {
                let kind = etcdbrctl::Kind::Incr { from: from.next() };
                etcdbrctl::Name { kind, to: name.to.next(), ..name }
            }
        };
        let mut names = vec![("called later", later), ("called taken later", taken_later)];
        if let etcdbrctl::Kind::Incr { .. } = name.kind {
            names.push(("called longer", etcdbrctl::Name { to: Revision(name.to.0 + REVISIONS), ..name }));
        }
        return names.into_iter().map(|(what, name)| (what, name.to_string())).collect();
    }
    // Those of the others tell nothing but when.
    let times = [("called taken later", TIME), ("called taken earlier", -TIME)];
    times.into_iter().filter_map(|(what, by)| Some((what, taken_at_another_time(name, by)?))).collect()
}

fn taken_at_another_time(name: &str, by: SignedDuration) -> Option<String> {
    if let Some(name) = openshift::Name::parse(name) {
        return Some(openshift::Name { taken: name.taken + by, ..name }.to_string());
    }
    let taken = k3s::Name::parse(name)?.taken;
    Some(name.replace(&taken.as_second().to_string(), &(taken + by).as_second().to_string()))
}
