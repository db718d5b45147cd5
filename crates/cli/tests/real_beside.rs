//! What merging and checking take of memory where that is done beside something else, from a real S3 server.
//!
//! What is measured is what is resident at its most, beyond what was before there was an archive. It is the only test of this
//! program, so that nothing else is in it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]
#![allow(clippy::print_stdout, reason = "what was measured is shown")]

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use agent::home::{Home, Site};
use archive::about::{ClusterNote, LineageNote};
use archive::archive::Archive;
use archive::check::{CheckPlan, Checking, Choice};
use archive::header::{FORMAT, Link, PROGRAM};
use archive::identity::ClusterUid;
use archive::merge::plan::Merge;
use archive::name::{DeltaName, FullForm, FullName, Name};
use archive::plan::Part;
use archive::publish::Writing;
use archive::{Closing, Cluster, Entry, Epoch, Header, LineageId, ObjectKind, ObjectWriter, WriteSettings};
use etcd_data::database::RevisionRange;
use etcd_data::{KeyValue, LeaseId, RevKey, Revision, Tables};
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::{Credentials, Secret, Settings};
use testkit::stores::S3sFs;
use tikv_jemallocator::Jemalloc;
use tokio::runtime::Runtime;

/// As in the program itself.
#[global_allocator]
static MEMORY: Jemalloc = Jemalloc;

/// What merging may take, in MiB, the code that it runs included: a chunk that is read, one that is made and packed, a piece
/// on its way, and what the allocator has not given back yet.
const MERGING_MIB: f64 = 45.0;
/// What checking may take: a chunk too, and what of an object has come and is not looked at yet.
const CHECKING_MIB: f64 = 50.0;

/// The deltas that an agent sealed, and their changes: of some 3 MiB each, and 100 in all.
const DELTAS: i64 = 32;
const CHANGES: i64 = 3000;
/// So many are merged at once.
const AT_ONCE: usize = 8;
const KEYS: u32 = 50_000;

#[test]
fn merging_and_checking_beside_something_else_take_little_memory() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = S3sFs::start();
    let before = resident("VmRSS:");
    let (folder, scratch) = (server.bucket("beside"), tempfile::tempdir().unwrap());
    write_all(&folder.join("prod"));
    let measured = |what: &str, allowed: f64, work: &dyn Fn(Archive)| {
        fs::write("/proc/self/clear_refs", "5").unwrap();
        work(home(&server, &runtime, scratch.path()).open_beside().unwrap());
        let peak = resident("VmHWM:") - before;
        println!("{what}: {peak:.0} MiB");
        assert!(peak <= allowed, "{what} took {peak:.0} MiB, and {allowed:.0} are allowed");
    };

    measured("merging", MERGING_MIB, &|archive| merge(&archive, 1, scratch.path()));
    measured("merging what was merged", MERGING_MIB, &|archive| merge(&archive, 2, scratch.path()));
    measured("checking", CHECKING_MIB, &|archive| {
        let plan = CheckPlan::choose(archive.catalogue(), &Choice::default());
        let recorded = archive.proven().unwrap();
        let checking =
            Checking { recorded: &recorded, anchors: None, scratch: scratch.path(), record: None, tell: &|_, _| {} };
        let report = archive.check(&plan, &checking).unwrap();
        assert_eq!(report.objects.len(), 1 + DELTAS as usize + DELTAS as usize / AT_ONCE + 1);
        let records = DELTAS * CHANGES;
        assert_eq!(report.objects.iter().map(|object| object.records).sum::<u64>(), (3 * records + 1) as u64);
        assert!(report.objects.iter().all(|object| object.findings.is_empty()), "{report:?}");
    });
}

/// Merges all deltas of the level below `level`.
fn merge(archive: &Archive, level: u8, scratch: &Path) {
    let writing = Writing { now: moment(), scratch, archive_key: None };
    let below = archive.catalogue().histories[0].deltas().iter().filter(|delta| delta.level() == Some(level - 1));
    let part = |entry: &&Entry| Part { entry: (*entry).clone(), take: entry.changes().unwrap() };
    for sources in below.collect::<Vec<_>>().chunks(AT_ONCE) {
        let sources: Vec<Part> = sources.iter().map(part).collect();
        let (from, to) = (sources[0].take.from, sources[sources.len() - 1].take.to);
        let into = Name::Delta(lineage(), DeltaName { level, from, to });
        let made = archive.merge(&Merge { into, sources, rivals: Vec::new() }, &writing).unwrap();
        assert_eq!(made.written.unwrap().records, (to.0 - from.0 + 1) as u64);
    }
}

/// The archive, as whoever does what an agent does beside following has it.
fn home(server: &S3sFs, runtime: &Runtime, scratch: &Path) -> Home {
    let (id, secret) = (S3sFs::ACCESS_KEY.to_owned(), Secret::new(S3sFs::SECRET_KEY));
    let credentials = Credentials::Keys { id, secret, token: None };
    let region = Some("us-east-1".to_owned());
    let settings = Settings { credentials, endpoint: Some(server.url()), region, ..Settings::default() };
    let site = Site::open_to_all(store::open("s3://beside", &settings).unwrap(), scratch);
    let _entered = runtime.enter();
    Home::at(site, cluster())
}

/// What `/proc` tells of this process, in MiB.
fn resident(what: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1024.0
}

/// A full of one key, and the deltas after it.
fn write_all(root: &Path) {
    let cluster = ClusterNote { format: FORMAT, cluster: cluster(), made: moment(), program: PROGRAM.into() };
    let (why, program) = ("a test".to_owned(), PROGRAM.to_owned());
    let lineage = LineageNote { format: FORMAT, lineage: lineage(), parent: None, began: moment(), why, program };
    let note = |name: Name, bytes: Vec<u8>| fs::write(place(root, &name), bytes).unwrap();
    note(Name::Cluster, serde_json::to_vec(&cluster).unwrap());
    note(Name::Lineage(lineage.lineage.clone()), serde_json::to_vec(&lineage).unwrap());

    let mut random = StdRng::seed_from_u64(5);
    let mut versions = vec![(0, 0); KEYS as usize];
    let mut follows = None;
    for (from, to) in [(0, 2)].into_iter().chain((0..DELTAS).map(|at| (3 + at * CHANGES, 2 + (at + 1) * CHANGES))) {
        follows = Some(write(root, (from, to), follows, &mut versions, &mut random));
    }
}

/// Writes the object of these revisions, each of which puts one of the keys.
fn write(
    root: &Path,
    (from, to): (i64, i64),
    follows: Option<Link>,
    versions: &mut [(i64, i64)],
    random: &mut StdRng,
) -> Link {
    let revisions = RevisionRange { from: Revision(from), to: Revision(to) };
    let (kind, name, settings) = match from {
        0 => {
            let name = FullName { revision: revisions.to, time: moment(), form: FullForm::Logical };
            (ObjectKind::Full, Name::Full(lineage(), name), WriteSettings::full())
        }
        _ => {
            let name = DeltaName { level: 0, from: revisions.from, to: revisions.to };
            (ObjectKind::Delta, Name::Delta(lineage(), name), WriteSettings::delta())
        }
    };
    let original = Header::original(kind, cluster(), lineage(), Epoch(1), revisions, (moment(), moment()));
    let file = BufWriter::new(File::create(place(root, &name)).unwrap());
    let mut writer = ObjectWriter::create(file, Header { follows, ..original }, None, settings).unwrap();
    for main in from.max(2)..=to {
        let number = random.random_range(0..KEYS);
        let (create, version) = &mut versions[number as usize];
        if *version == 0 {
            *create = main;
        }
        *version += 1;
        let (key, value, mut encoded) = (format!("/registry/things/{number:05}"), value(random), Vec::new());
        let put = KeyValue {
            key: key.as_bytes(),
            create_revision: Revision(*create),
            mod_revision: Revision(main),
            version: *version,
            value: value.as_bytes(),
            lease: LeaseId(0),
        };
        put.encode(&mut encoded);
        writer.push(RevKey { main: Revision(main), sub: 0, tombstone: false }, &encoded).unwrap();
    }
    writer.finish(&Closing::default(), (from == 0).then(Tables::default).as_ref()).unwrap().link
}

/// A kibibyte of text that all share, with a tenth that is random.
fn value(random: &mut StdRng) -> String {
    let run = |_| {
        format!(
            "{:08x}, and whatever is the same in every one of all those values that there are; ",
            random.random::<u32>()
        )
    };
    (0..12).map(run).collect()
}

fn place(root: &Path, name: &Name) -> PathBuf {
    let path = root.join(name.to_string());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

fn moment() -> Timestamp {
    Timestamp::from_second(1_793_491_200).unwrap()
}

fn cluster() -> Cluster {
    Cluster { name: "prod".into(), id: ClusterUid(7) }
}

fn lineage() -> LineageId {
    LineageId::new(moment(), 1)
}
