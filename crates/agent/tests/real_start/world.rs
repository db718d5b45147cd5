//! Members, their archive, and what a start makes of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::metrics::Metrics;
use agent::start::archived::ArchivePlace;
use agent::start::directory::Depth;
use agent::start::place::Place;
use agent::start::policy::Policy;
use agent::start::ready::Ready;
use agent::start::running::Beside;
use agent::start::{Setup, Start, Step};
use api::status::{Agent as About, Status};
use archive::about::{ClusterNote, LineageNote};
use archive::archive::{Archive, Which};
use archive::closing::Closing;
use archive::header::FORMAT;
use archive::identity::ClusterUid;
use archive::name::{FullForm, FullName, Name};
use archive::object::WriteSettings;
use archive::publish::Writing;
use archive::sealing::NoKeys;
use archive::{Cluster, Epoch, Header, LineageId, ObjectKind};
use etcd_data::Source;
use etcd_data::database::RevisionRange;
use etcd_data::view::Horizon;
use etcd_rpc::{Access, Endpoint};
use jiff::Timestamp;
use store::{Key, Memory, Put, Settings, Store};
use tempfile::TempDir;
use testkit::{Etcd, Member, MemberPorts, PATIENCE, Version, until};
use tokio::runtime::Runtime;

/// One member, or several, and the archive of their cluster.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) runtime: Runtime,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) policy: Policy,
    pub(crate) metrics: Arc<Metrics>,
    names: Vec<String>,
    peers: Vec<String>,
    clients: Vec<String>,
}

impl World {
    /// A cluster of so many members that are yet to be started, and an archive that has nothing.
    pub(crate) fn of(size: usize, version: Version) -> (Self, Vec<Member>) {
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<MemberPorts> = (0..size).map(|_| MemberPorts::reserve()).collect();
        let names: Vec<String> = (0..size).map(|number| format!("m{number}")).collect();
        let peers: Vec<String> = ports.iter().map(|ports| ports.peer.url()).collect();
        let clients: Vec<String> = ports.iter().map(|ports| ports.client.url()).collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let (policy, metrics) = (Policy::default(), Arc::default());
        let world = Self { folder, runtime, store, policy, metrics, names, peers, clients };
        let member = |(number, ports): (usize, MemberPorts)| {
            let member = Member::new(version, world.data_dir(number)).name(&world.names[number]).ports(ports);
            if size == 1 { member } else { member.initial_cluster(&world.initial_cluster()) }
        };
        let members = ports.into_iter().enumerate().map(member).collect();
        (world, members)
    }

    pub(crate) fn data_dir(&self, number: usize) -> PathBuf {
        self.folder.path().join(&self.names[number]).join("data")
    }

    /// Where peers find member `number`.
    pub(crate) fn peer_address(&self, number: usize) -> &str {
        self.peers[number].strip_prefix("http://").unwrap()
    }

    fn initial_cluster(&self) -> String {
        let items: Vec<String> =
            self.names.iter().zip(&self.peers).map(|(name, url)| format!("{name}={url}")).collect();
        items.join(",")
    }

    /// From now on, member `number` is to be found at `ports`.
    pub(crate) fn moves(&mut self, number: usize, ports: &MemberPorts) {
        (self.peers[number], self.clients[number]) = (ports.peer.url(), ports.client.url());
    }

    pub(crate) fn setup(&self, number: usize) -> Setup {
        let place = Place {
            cluster: "prod".into(),
            name: self.names[number].clone(),
            peer_urls: vec![self.peers[number].clone()],
            initial_cluster: self.initial_cluster(),
            token: "etcd-cluster".into(),
            data_dir: self.data_dir(number),
            wal_dir: None,
            namespace: None,
        };
        let which = Which { cluster: Some("prod".into()), layout: None };
        let endpoints: Vec<Endpoint> = self.clients.iter().map(|url| url.parse().unwrap()).collect();
        Setup {
            place,
            policy: self.policy,
            archive: Some(ArchivePlace { store: Arc::clone(&self.store), which, keyring: None }),
            own: vec![self.clients[number].parse().unwrap()],
            endpoints,
            access: Access::default(),
            scratch: None,
            on_its_way: None,
            metrics: Arc::clone(&self.metrics),
        }
    }

    /// The same where the member reaches no other one, and has no archive.
    pub(crate) fn setup_apart(&self, number: usize) -> Setup {
        let setup = self.setup(number);
        // Nobody listens there.
        let at = |name: &String| match *name == self.names[number] {
            true => format!("{name}={}", self.peers[number]),
            false => format!("{name}=http://127.0.0.1:1"),
        };
        let initial_cluster = self.names.iter().map(at).collect::<Vec<_>>().join(",");
        let place = Place { initial_cluster, ..setup.place };
        Setup { place, endpoints: setup.own.clone(), archive: None, ..setup }
    }

    /// What monitoring is told as `sample` of the starts so far.
    #[track_caller]
    pub(crate) fn require_counted(&self, sample: &str) {
        let agent = About { name: "a".into(), version: "0".into(), began: Timestamp::UNIX_EPOCH };
        let text = self.metrics.render(&Status::beginning(agent, api::status::Cluster::default()));
        assert!(text.lines().any(|line| line == sample), "{sample} is not in\n{text}");
    }

    /// One look of a start of member `number`, and what came of it.
    pub(crate) fn step(&self, number: usize, depth: Depth) -> (String, Step) {
        self.step_of(&mut Start::new(self.setup(number)), depth)
    }

    pub(crate) fn step_of(&self, start: &mut Start, depth: Depth) -> (String, Step) {
        let mut said: Vec<String> = Vec::new();
        let mut tell = |decision: &agent::start::decision::Decision| said.push(decision.to_string());
        let deadline = Instant::now() + PATIENCE;
        let step = loop {
            // etcd takes no change of members before they have all seen each other for five seconds.
            match self.runtime.block_on(start.step(depth, &mut tell)) {
                Err(error) if error.may_pass() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(200));
                }
                step => break step,
            }
        };
        let step = step.unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
        (said.swap_remove(0), step)
    }

    /// What a member that runs would have to be ended for.
    pub(crate) fn look_while_it_runs(&self, start: &mut Start) -> Option<String> {
        match self.runtime.block_on(start.look_while_it_runs()) {
            Beside::Ends(decision) => Some(decision.to_string()),
            Beside::Fine | Beside::Waits => None,
        }
    }

    /// The start of member `number`, which has to come to an end with this decision.
    #[track_caller]
    pub(crate) fn ready(&self, number: usize, depth: Depth, expected: &str) -> Ready {
        let (said, step) = self.step(number, depth);
        assert_eq!(said, expected);
        let Step::Ready(ready) = step else { panic!("{said}: {step:?}") };
        *ready
    }

    /// What is told by the start of member `number`, which must not come to an end.
    #[track_caller]
    pub(crate) fn hindered(&self, number: usize) -> String {
        let (said, step) = self.step(number, Depth::Whole);
        assert!(!matches!(step, Step::Ready(_)), "{said}");
        said
    }

    /// A member that starts as `ready` says.
    pub(crate) fn launched(&self, member: Member, ready: &Ready) -> Etcd {
        let launch = &ready.launch;
        member
            .initial_cluster(&launch.initial_cluster)
            .flag(format!("--initial-cluster-state={}", launch.state.as_str()))
            .flag(format!("--initial-cluster-token={}", launch.token))
            .start()
    }

    /// A learner that starts as `ready` says and gets its vote from `voter`.
    pub(crate) fn joined(&self, member: Member, ready: &Ready, voter: &Etcd) -> Etcd {
        // A learner serves nothing that the usual way of waiting for a member asks for, so it gets its vote meanwhile.
        let client = voter.client();
        let promoting = std::thread::spawn(move || {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let learner = client.member_list().unwrap().into_iter().find(|member| member.is_learner);
                match learner {
                    Some(learner) if client.member_promote(learner.id).is_ok() => return,
                    _ if Instant::now() > deadline => panic!("the learner does not catch up"),
                    // It is asked again as soon as it has answered.
                    _ => std::thread::yield_now(),
                }
            }
        });
        let etcd = self.launched(member, ready);
        promoting.join().unwrap();
        etcd
    }

    /// Puts a full of all that `etcd` has into the archive. Gives its revision.
    pub(crate) fn archive(&self, etcd: &Etcd) -> i64 {
        let snapshot = self.folder.path().join("snapshot.db");
        let _ = fs::remove_file(&snapshot);
        etcd.client().snapshot_to(&snapshot).unwrap();
        put_full(&self.store, self.runtime.handle(), &snapshot, self.folder.path())
    }

    /// A store that nobody listens for.
    pub(crate) fn away(&mut self) {
        let mut settings = Settings {
            credentials: store::Credentials::Nobody,
            endpoint: Some("http://127.0.0.1:1".into()),
            region: Some("nowhere".into()),
            ..Settings::default()
        };
        settings.patience.total = Duration::from_millis(200);
        self.store = store::open("s3://bucket/archive", &settings).unwrap();
    }
}

/// Puts what the snapshot file holds into `store`, as a full of the cluster called `prod`.
pub(crate) fn put_full(
    store: &Arc<dyn Store>,
    runtime: &tokio::runtime::Handle,
    snapshot: &Path,
    scratch: &Path,
) -> i64 {
    let source = Source::open(snapshot, scratch).unwrap();
    let revision = Horizon::of(&source.database).unwrap().current;
    let now = Timestamp::now();
    let cluster = Cluster { name: "prod".into(), id: ClusterUid(7) };
    let lineage = LineageId::new("2026-11-21T09:30:00Z".parse().unwrap(), 1);
    let program = "refloat 0.1.0".to_owned();
    let cluster_note = ClusterNote { format: FORMAT, cluster: cluster.clone(), made: now, program: program.clone() };
    let lineage_note = LineageNote {
        format: FORMAT,
        lineage: lineage.clone(),
        parent: None,
        began: now,
        why: "the first".into(),
        program,
    };
    for (name, json) in [
        (Name::Cluster, serde_json::to_vec(&cluster_note).unwrap()),
        (Name::Lineage(lineage.clone()), serde_json::to_vec(&lineage_note).unwrap()),
    ] {
        let key = Key::parse(format!("prod/{name}")).unwrap();
        runtime.block_on(store.put(&key, json.into(), &Put::default())).unwrap();
    }
    let which = Which { cluster: Some("prod".into()), layout: None };
    let archive = Archive::open(Arc::clone(store), runtime.clone(), &which, Arc::new(NoKeys)).unwrap();
    let revisions = RevisionRange::up_to(revision);
    let header = Header::original(ObjectKind::Full, cluster, lineage.clone(), Epoch(1), revisions, (now, now));
    let name = Name::Full(lineage, FullName { revision, time: now, form: FullForm::Logical });
    let writing = Writing { now, scratch, archive_key: None };
    let database = &source.database;
    let written = archive.publish(&name, header, WriteSettings::full(), &writing, |making| {
        database.visit::<archive::Error>(RevisionRange::ALL, |record| {
            making.push(record.at, record.value).unwrap();
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((Closing::default(), Some(database.tables().clone())))
    });
    written.unwrap().unwrap();
    revision.0
}

/// Puts `count` keys below `prefix`. Gives the last revision.
pub(crate) fn fill(etcd: &Etcd, prefix: &str, count: usize) -> i64 {
    let value = "x".repeat(400);
    let put = |_, number: usize| etcd.client().put(format!("{prefix}{number:05}"), format!("{number}{value}")).unwrap();
    (0..count).fold(0, put)
}

/// Waits until the cluster of `etcd` has a leader again after it lost a member.
pub(crate) fn led(etcd: &Etcd) {
    until("there is a leader again", || etcd.client().put("/registry/led", "1"));
}

/// Everything below a folder, with its bytes.
pub(crate) fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.path().is_dir() {
            true => found.extend(contents(&entry.path())),
            false => found.push((entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    found.sort();
    found
}

/// What was kept aside beside the data directory.
pub(crate) fn kept(data_dir: &Path) -> Vec<PathBuf> {
    let beside = fs::read_dir(data_dir.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    beside.filter(|path| path.to_string_lossy().contains(".before-")).collect()
}

/// Every member of a new cluster, running.
pub(crate) fn started(members: Vec<Member>) -> Vec<Etcd> {
    testkit::Cluster::start(members).members
}
