//! Objects of an archive that turn out to be damaged while somebody looks: another way leads there, and what was wrong is
//! told as a restore tells it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/founded.rs"]
mod founded;
#[path = "desk/running.rs"]
mod running;

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::header::Link;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Closing, Cluster, Epoch, Header, LineageId, MergePolicy, Moment, Object, ObjectKind, WriteSettings};
use etcd_data::database::RevisionRange;
use etcd_data::records::TailRecord;
use etcd_data::{KeyValue, RevKey, Revision, Tables};
use founded::found;
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use store::{Folder, Key, Store};
use tempfile::TempDir;
use testkit::fixtures::copy_folder;
use tokio::runtime::Runtime;

/// When revision 0 would have been.
const BEGAN: i64 = 1_793_491_200;

const LAST: i64 = 120;

/// Keys that are put in turn.
const KEYS: i64 = 40;

/// One of them: put at 20, 60 and 100.
const KEY: &str = "/registry/things/20";

/// Put with every revision from 90 on, and deleted with 110.
const GONE: &str = "/registry/gone";

/// What is said when something turned out to be of no use.
const ANOTHER_WAY: &str = "note: it cannot be read that way; this is another:\n";

fn moment(revision: i64) -> Timestamp {
    Timestamp::from_second(BEGAN + revision).unwrap()
}

fn at(main: i64, sub: i64) -> RevKey {
    RevKey { main: Revision(main), sub, tombstone: false }
}

fn put(at: RevKey, key: &str, value: &str, created: i64, version: i64) -> TailRecord {
    let put = KeyValue {
        key: key.as_bytes(),
        value: value.as_bytes(),
        create_revision: Revision(created),
        mod_revision: at.main,
        version,
        ..KeyValue::default()
    };
    let mut encoded = Vec::new();
    put.encode(&mut encoded);
    TailRecord { at, value: encoded }
}

fn records() -> Vec<TailRecord> {
    let mut random = StdRng::seed_from_u64(5);
    let mut records = Vec::new();
    for main in 2..=LAST {
        let number = main % KEYS;
        let first = if number < 2 { number + KEYS } else { number };
        // Does not become much shorter, so that a chunk has few of them.
        let value: String = (0..30).map(|_| format!("{:016x}", random.random::<u64>())).collect();
        let (key, version) = (format!("/registry/things/{number:02}"), 1 + (main - first) / KEYS);
        records.push(put(at(main, 0), &key, &value, first, version));
        if (90..110).contains(&main) {
            records.push(put(at(main, 1), GONE, "still here", 90, main - 89));
        }
        if main == 110 {
            let deletion = KeyValue { key: GONE.as_bytes(), ..KeyValue::default() };
            let mut encoded = Vec::new();
            deletion.encode(&mut encoded);
            records.push(TailRecord { at: RevKey { tombstone: true, ..at(main, 1) }, value: encoded });
        }
    }
    records
}

/// An archive in a folder: a full at 40, and deltas to 80 and to 120, of many chunks each.
struct Chain {
    folder: TempDir,
    runtime: Runtime,
    store: Arc<dyn Store>,
    cluster: Cluster,
    lineage: LineageId,
    records: Vec<TailRecord>,
    /// What the deltas to 80 and to 120 are called.
    deltas: [Key; 2],
}

impl Chain {
    fn new() -> Self {
        Self::lacking(0)
    }

    /// One whose full lacks the revision `lost`.
    fn lacking(lost: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("archive");
        fs::create_dir(&place).unwrap();
        let runtime = Runtime::new().unwrap();
        let store: Arc<dyn Store> = Arc::new(Folder::at(&place).unwrap());
        let (cluster, lineage) = found(&runtime, &*store, moment(0));
        let archive = open(&store, &runtime);
        let deltas = [(41, 80), (81, LAST)].map(|(from, to)| archive.key(&delta(&lineage, from, to)));
        let records = records().into_iter().filter(|record| record.at.main.0 != lost).collect();
        let chain = Self { folder, runtime, store, cluster, lineage, records, deltas };
        let full = chain.write(0, 40, None);
        let first = chain.write(41, 80, Some(full));
        chain.write(81, LAST, Some(first));
        chain
    }

    /// A chain whose deltas are merged into one, and what that is called.
    fn merged() -> (Self, Key) {
        let chain = Self::new();
        let policy = MergePolicy {
            windows: vec![SignedDuration::from_hours(1)],
            full_window: None,
            settle: SignedDuration::ZERO,
            lineage: None,
        };
        let mut made = Vec::new();
        let archive = open(&chain.store, &chain.runtime);
        archive.merge_due(&policy, &chain.writing(8000), |_, done| made.push(done.unwrap().key)).unwrap();
        let merged = made.pop().unwrap();
        assert_eq!(made, []);
        (chain, merged)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where it is.
    fn place(&self) -> String {
        self.path("archive").to_str().unwrap().to_owned()
    }

    fn object(&self, key: &Key) -> PathBuf {
        self.path("archive").join(key.as_str())
    }

    fn writing(&self, revision: i64) -> Writing<'_> {
        Writing { now: moment(revision), scratch: self.folder.path(), archive_key: None }
    }

    /// Writes the records from `from` to `to`: a full if `from` is 0. Gives what the next object follows on.
    fn write(&self, from: i64, to: i64, follows: Option<Link>) -> Link {
        let full = FullName { revision: Revision(to), time: moment(to), form: FullForm::Logical };
        let (kind, settings, name) = match from {
            0 => (ObjectKind::Full, WriteSettings::full(), Name::Full(self.lineage.clone(), full)),
            _ => (ObjectKind::Delta, WriteSettings::delta(), delta(&self.lineage, from, to)),
        };
        let settings = WriteSettings { chunk_bytes: 4 << 10, ..settings };
        let (cluster, lineage) = (self.cluster.clone(), self.lineage.clone());
        let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
        let original = Header::original(kind, cluster, lineage, Epoch(1), revisions, (moment(from), moment(to)));
        let header = Header { follows, ..original };
        let archive = open(&self.store, &self.runtime);
        let written = archive.publish(&name, header, settings, &self.writing(to), |making| {
            for record in self.records.iter().filter(|record| (from..=to).contains(&record.at.main.0)) {
                making.push(record.at, &record.value).unwrap();
            }
            let moments = (from.max(2)..=to).map(|at| Moment { second: BEGAN + at, revision: Revision(at) }).collect();
            Ok((Closing { moments, ..Closing::default() }, (from == 0).then(Tables::default)))
        });
        written.unwrap().unwrap().link
    }

    /// Flips a bit of that chunk of `key` that has what was changed at `revision`, in the middle of the object.
    fn damage(&self, key: &Key, revision: i64) {
        let path = self.object(key);
        let object = Object::open("it", Arc::new(File::open(&path).unwrap()), &NoKeys).unwrap();
        let chunks: Vec<_> = object.chunk_facts().collect();
        let changed = at(revision, 0);
        let hit = chunks.iter().position(|chunk| (chunk.first..=chunk.last).contains(&changed)).unwrap();
        assert!(0 < hit && hit + 1 < chunks.len(), "chunk {hit} of {}", chunks.len());
        let mut bytes = fs::read(&path).unwrap();
        bytes[(chunks[hit].stored_at + chunks[hit].stored_bytes / 2) as usize] ^= 1;
        fs::write(&path, bytes).unwrap();
    }

    /// What a restore of `point` says, and how it ends.
    fn restored(&self, point: &str) -> (String, Option<i32>) {
        let target = tempfile::tempdir_in(self.folder.path()).unwrap();
        let dir = target.path().join("etcd");
        let args = ["--data-dir", dir.to_str().unwrap(), "--bump-revision", "0", "-o", "json"];
        let ended = run(&[&["restore", &self.place(), "--at", point][..], &args].concat());
        (ended.said, ended.code)
    }

    /// What every command shows that comes by what was changed of [`KEY`] last.
    fn looks(&self, point: &str) -> Vec<Look> {
        let place = self.place();
        let place = place.as_str();
        let commands = [
            &["hashkv", place][..],
            &["keys", place],
            &["keys", place, "/registry/things/2"],
            &["keys", place, "--long"],
            &["keys", place, "-o", "json"],
            &["get", place, KEY],
            &["history", place, KEY],
            &["inspect", place, "-o", "json"],
        ];
        commands.map(|command| run(&[command, &["--at", point]].concat())).into()
    }

    /// The same of a key that was deleted since. What it was before, its history alone comes by.
    fn looks_for_gone(&self, point: &str) -> [Look; 2] {
        let place = self.place();
        ["get", "history"].map(|command| run(&[command, &place, GONE, "--at", point]))
    }
}

fn delta(lineage: &LineageId, from: i64, to: i64) -> Name {
    Name::Delta(lineage.clone(), DeltaName { level: 0, from: Revision(from), to: Revision(to) })
}

fn open(store: &Arc<dyn Store>, runtime: &Runtime) -> Archive {
    Archive::open(Arc::clone(store), runtime.handle().clone(), &Which::default(), Arc::new(NoKeys)).unwrap()
}

/// What came of a command.
#[derive(Clone)]
struct Look {
    command: String,
    shown: String,
    said: String,
    code: Option<i32>,
}

fn run(args: &[&str]) -> Look {
    let output = running::refloat(args);
    let [shown, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Look { command: args.join(" "), shown, said, code: output.status.code() }
}

impl Look {
    /// What it shows, but for what it tells of the objects that were read.
    fn of_the_data(&self) -> String {
        let Ok(Value::Object(mut inspected)) = serde_json::from_str(&self.shown) else { return self.shown.clone() };
        if inspected.remove("plan").is_some() {
            inspected.remove("file_size_bytes");
        }
        Value::Object(inspected).to_string()
    }

    /// Requires that it shows what the `sound` archive showed, after it has `told` what it went around.
    #[track_caller]
    fn require_as(&self, sound: &Self, told: &str, code: Option<i32>) {
        let Self { command, said, .. } = self;
        assert_eq!(self.of_the_data(), sound.of_the_data(), "{command}: {said}");
        assert_eq!((said.as_str(), self.code), (format!("{told}{}", sound.said).as_str(), code), "{command}");
    }
}

/// Requires that `told` is how `key` was gone around.
#[track_caller]
fn require_named(told: &str, key: &Key) {
    let rest = told.strip_prefix(ANOTHER_WAY).unwrap_or_else(|| panic!("{told}"));
    assert!(rest.starts_with(&format!("note: {key} is of no use: at byte ")), "{told}");
}

#[test]
fn whoever_looks_goes_around_a_merged_delta_as_a_restore_does() {
    let (chain, merged) = Chain::merged();
    let (sound, [sound_get, sound_history]) = (chain.looks("latest"), chain.looks_for_gone("latest"));
    chain.damage(&merged, 100);
    let (told, code) = chain.restored("latest");
    require_named(&told, &merged);
    assert_eq!((told.lines().count(), code), (2, Some(0)), "{told}");
    for (look, sound) in chain.looks("latest").iter().zip(&sound) {
        look.require_as(sound, &told, sound.code);
    }
    // That it was deleted is told by what comes after the damage, which nobody need read then.
    let [get, history] = chain.looks_for_gone("latest");
    get.require_as(&sound_get, "", sound_get.code);
    history.require_as(&sound_history, &told, sound_history.code);
}

#[test]
fn whoever_looks_goes_around_a_full_by_the_one_before() {
    let chain = Chain::new();
    chain.write(0, 80, None);
    let sound = chain.looks("80");
    let name = FullName { revision: Revision(80), time: moment(80), form: FullForm::Logical };
    let full = open(&chain.store, &chain.runtime).key(&Name::Full(chain.lineage.clone(), name));
    chain.damage(&full, 60);
    let (told, code) = chain.restored("80");
    require_named(&told, &full);
    assert_eq!(code, Some(0), "{told}");
    for (look, sound) in chain.looks("80").iter().zip(&sound) {
        look.require_as(sound, &told, Some(0));
    }
}

#[test]
fn where_nothing_else_leads_to_the_latest_point_an_earlier_one_is_shown_as_a_restore_builds_it() {
    let (chain, merged) = Chain::merged();
    let sound = chain.looks("40");
    chain.deltas.iter().for_each(|delta| fs::remove_file(chain.object(delta)).unwrap());
    chain.damage(&merged, 100);
    let (told, code) = chain.restored("latest");
    require_named(&told, &merged);
    assert_eq!(code, Some(1), "{told}");
    for (look, sound) in chain.looks("latest").iter().zip(&sound) {
        look.require_as(sound, &told, Some(1));
    }
}

#[test]
fn of_an_archive_without_keys_every_point_is_told_to_lie_in_the_open() {
    let chain = Chain::new();
    let listed: Value = serde_json::from_str(&run(&["points", &chain.place(), "-o", "json"]).shown).unwrap();
    let points = listed["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    assert!(points.iter().all(|point| point["encrypted"] == false), "{listed}");
}

#[test]
fn what_a_full_lacks_is_told_and_all_else_of_it_is_built() {
    let chain = Chain::lacking(30);
    let target = tempfile::tempdir().unwrap();
    for (at, code, missing) in [
        ("latest", 1, serde_json::json!({ "count": 1, "from": 30, "to": 30 })),
        ("60", 1, serde_json::json!({ "count": 1, "from": 30, "to": 30 })),
        ("29", 0, Value::Null),
    ] {
        let dir = target.path().join(at);
        let args = ["--data-dir", dir.to_str().unwrap(), "--bump-revision", "0", "-o", "json"];
        let ended = run(&[&["restore", &chain.place(), "--at", at][..], &args].concat());
        let told: Value = serde_json::from_str(&ended.shown).unwrap_or_else(|error| panic!("{error}: {}", ended.said));
        assert_eq!((ended.code, &told["missing_revisions"]), (Some(code), &missing), "{at}: {}", ended.said);
        assert_eq!(ended.said.contains("revision 30 is missing"), code == 1, "{at}: {}", ended.said);
    }
}

/// What a restore of the moment of `revision` gives: the revision, how the moment is covered, what is told, and how it ends.
#[track_caller]
fn built_at(chain: &Chain, revision: i64) -> (i64, String, String, Option<i32>) {
    let target = tempfile::tempdir_in(chain.folder.path()).unwrap();
    let dir = target.path().join("etcd");
    let (place, time) = (chain.place(), moment(revision).to_string());
    let args = ["restore", &place, "--at", &time, "--data-dir", dir.to_str().unwrap(), "-o", "json"];
    let Look { shown, said, code, .. } = run(&[&args[..], &["--bump-revision", "0"]].concat());
    let told: Value = serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {said}"));
    let covered = told["plan"]["covered"].as_str().unwrap().to_owned();
    (told["restored_revision"].as_i64().unwrap(), covered, said, code)
}

#[track_caller]
fn check_built_at(chain: &Chain, revision: i64, expected: (i64, &str, Option<i32>), note: &str) {
    let (built, covered, said, code) = built_at(chain, revision);
    assert_eq!((built, covered.as_str(), code), expected, "at {revision}: {said}");
    assert!(said.contains(note) && (note.is_empty() == said.is_empty()), "at {revision}: {said}");
}

const MAYBE_BEFORE: &str = "are in no delta that can be used: some of them may have been before that time";

#[test]
fn a_moment_that_damage_or_a_hole_hides_is_not_called_exact() {
    let chain = Chain::new();
    check_built_at(&chain, 100, (100, "exactly", Some(0)), "");
    // Damage that shows at opening, and in the middle.
    let second = chain.object(&chain.deltas[1]);
    let sound = fs::read(&second).unwrap();
    fs::write(&second, &sound[..sound.len() / 2]).unwrap();
    check_built_at(&chain, 100, (80, "up_to", Some(1)), MAYBE_BEFORE);
    check_built_at(&chain, 60, (60, "exactly", Some(0)), "");
    fs::write(&second, &sound).unwrap();
    chain.damage(&chain.deltas[1], 90);
    let (_, _, said, _) = built_at(&chain, 100);
    assert_eq!(said.matches(MAYBE_BEFORE).count(), 1, "{said}");
    assert!(!said.contains("another state"), "what the note before said is not said again: {said}");
    check_built_at(&chain, 100, (80, "up_to", Some(1)), MAYBE_BEFORE);
    fs::write(&second, &sound).unwrap();
    fs::remove_file(chain.object(&chain.deltas[0])).unwrap();
    check_built_at(&chain, 60, (40, "up_to", Some(1)), "changes between revision 40 and 81 are in no delta");
}

#[test]
fn a_moment_after_the_last_change_is_not_called_exact() {
    let chain = Chain::new();
    let nothing_tells =
        format!("the last change that is there is of {}: nothing tells what came after it", moment(LAST));
    check_built_at(&chain, LAST, (LAST, "exactly", Some(0)), "");
    check_built_at(&chain, LAST + 500, (LAST, "beyond", Some(1)), &nothing_tells);
    // The writer held the archive until then, so nothing is missing but what it had not sealed.
    let writer = chain.path("archive/prod/writer.json");
    let claim = |is_released: bool| {
        let claim = serde_json::json!({
            "format": 1, "cluster": chain.cluster, "epoch": 1, "holder": "etcd-main-0",
            "instance": "00000000000000000000000000000007", "number": 12, "lasts_ms": 30000,
            "is_released": is_released, "renewed": moment(LAST + 490), "program": "refloat 0.1.0",
        });
        fs::write(&writer, claim.to_string()).unwrap();
    };
    claim(false);
    check_built_at(&chain, LAST + 500, (LAST, "beyond", Some(0)), "only what was not sealed yet can be missing");
    check_built_at(&chain, LAST + 521, (LAST, "beyond", Some(1)), &nothing_tells);
    // Who gave it up had sealed everything by then.
    claim(true);
    check_built_at(&chain, LAST + 490, (LAST, "beyond", Some(0)), "only what was not sealed yet can be missing");
    check_built_at(&chain, LAST + 500, (LAST, "beyond", Some(1)), &nothing_tells);
}

#[test]
fn where_nothing_else_leads_to_a_revision_what_is_damaged_is_named_and_nothing_is_shown() {
    let (chain, merged) = Chain::merged();
    chain.deltas.iter().for_each(|delta| fs::remove_file(chain.object(delta)).unwrap());
    chain.damage(&merged, 100);
    let (told, code) = chain.restored("115");
    let is_named = format!("{merged} is of no use: at byte ");
    assert!(told.contains(&is_named) && code == Some(4), "{told}");
    let [_, history] = chain.looks_for_gone("115");
    for Look { command, shown, said, code } in chain.looks("115").into_iter().chain([history]) {
        assert_eq!((shown.as_str(), said.as_str(), code), ("", told.as_str(), Some(4)), "{command}");
    }
}

#[test]
fn of_two_points_that_are_compared_the_one_that_is_damaged_is_gone_around() {
    let (chain, merged) = Chain::merged();
    let (place, other) = (chain.place(), chain.path("sound"));
    let other = other.to_str().unwrap();
    copy_folder(&chain.path("archive"), &chain.path("sound"));
    let looks = || {
        // To revision 60 leads the smaller delta, which is sound; to all others the merged one.
        let points = [("60", "latest"), ("latest", "60"), ("115", "latest")];
        points.map(|(from, to)| run(&["diff", &place, "--from", from, "--to", to]))
    };
    let sound = looks();
    assert!(sound.iter().all(|look| look.code == Some(1) && !look.shown.is_empty()));
    chain.damage(&merged, 100);
    let (told, _) = chain.restored("latest");
    require_named(&told, &merged);
    for (look, (sound, damaged)) in looks().iter().zip(sound.iter().zip([1, 1, 2])) {
        look.require_as(sound, &told.repeat(damaged), Some(1));
    }

    // Objects of the other one are called the same, and are sound.
    for (first, second) in [(place.as_str(), other), (other, place.as_str())] {
        let look = run(&["diff", first, "--other", second]);
        assert_eq!((look.shown.as_str(), look.said, look.code), ("", told.clone(), Some(0)), "{}", look.command);
    }
}
