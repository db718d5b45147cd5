//! What all actors share: the clock, the store, what is true, and what was promised.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use archive::archive::{Archive, Which};
use archive::fence::Claim;
use archive::identity::ClusterUid;
use archive::object::read_header;
use archive::plan::{Remark, Wanted};
use archive::point::{At, Covered};
use archive::publish::Writing;
use archive::retention::{Deltas, Policy, Rule};
use archive::sealing::NoKeys;
use archive::{Cluster, Epoch, Error, Header, LineageId, MergePolicy, ObjectKind};
use bytes::Bytes;
use etcd_data::hash::hash_kv;
use etcd_data::{LeaseId, Revision};
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::{Key, Memory, Patience, Retrying, Store};
use testkit::{Faults, FaultyStore, ManualClock};
use tokio::runtime::Handle;

use crate::etcd::Etcd;
use crate::network::{Fate, Network, Sea};
use crate::told::Told;

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) random: StdRng,
    pub(crate) runtime: Handle,
    pub(crate) scratch: PathBuf,
    pub(crate) clock: ManualClock,
    pub(crate) began: Timestamp,
    pub(crate) memory: Arc<Memory>,
    pub(crate) sea: Sea,
    pub(crate) etcd: Etcd,
    pub(crate) policy: Policy,
    pub(crate) merge_policy: MergePolicy,
    pub(crate) faults: Faults,
    pub(crate) told: Told,
    /// The revisions of which a writer that reigned was told that they are sealed.
    pub(crate) acknowledged: BTreeMap<i64, Epoch>,
    /// The newest proven full that any retention plan knew: what comes before may be retired.
    pub(crate) floor: i64,
    posts: u64,
}

/// An actor's way to the store.
pub(crate) struct Post {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) network: Arc<Network>,
    faulty: Arc<FaultyStore>,
}

pub(crate) fn cluster() -> Cluster {
    Cluster { name: "prod".into(), id: ClusterUid(7) }
}

impl World {
    pub(crate) fn new(seed: u64, runtime: Handle, scratch: PathBuf) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let began: Timestamp = "2026-11-21T09:30:00Z".parse().unwrap();
        let clock = ManualClock::at(began);
        let memory =
            Memory::new().with_clock(clock.skewed(SignedDuration::ZERO)).with_page_size(random.random_range(3..40));
        // Without torn writes: all stores put an object whole or not at all. Without late sights: what was put is found by all that
        // are known here. Writes that arrive after later requests are the sea's, which knows who sent them and who died.
        let faults = [Faults::NONE, Faults::ROUGH, Faults::WILD, Faults::WILD][random.random_range(0..4)];
        // By how much the store's clock is wrong. What is kept must not hang on it: it is what graces are counted by, alone.
        let skew = SignedDuration::from_secs([0, 0, -3600, -20, 20, 3600][random.random_range(0..6)]);
        let rules = match random.random_range(0..4) {
            0 => Vec::new(),
            1 => vec![Rule::Window(SignedDuration::from_secs(300))],
            count => vec![Rule::Number(count - 1)],
        };
        let deltas = if random.random() { Deltas::WithFulls } else { Deltas::For(SignedDuration::from_secs(200)) };
        let policy = Policy {
            rules,
            deltas,
            merged_grace: SignedDuration::from_secs(30),
            failed_grace: SignedDuration::from_secs(200),
            ..Policy::default()
        };
        let merge_policy = MergePolicy {
            windows: [30, 120].map(SignedDuration::from_secs).to_vec(),
            full_window: Some(SignedDuration::from_secs(240)),
            settle: SignedDuration::from_secs(3),
            lineage: None,
        };
        Self {
            seed,
            random,
            runtime,
            scratch,
            etcd: Etcd::new(began),
            clock,
            began,
            memory: Arc::new(memory),
            sea: Sea::default(),
            policy,
            merge_policy,
            faults: Faults { longest_stall: Duration::from_secs(5), skew, ..faults },
            told: Told { skewed: u64::from(!skew.is_zero()), ..Told::default() },
            acknowledged: BTreeMap::new(),
            floor: 0,
            posts: 0,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The true time since all began.
    pub(crate) fn time(&self) -> Duration {
        self.now().duration_since(self.began).unsigned_abs()
    }

    pub(crate) fn writing(&self) -> (Timestamp, PathBuf) {
        (self.now(), self.scratch.clone())
    }

    /// A new way to the store, for an actor that has just started.
    pub(crate) fn post(&mut self, may_fail: bool) -> Post {
        self.posts += 1;
        let seed = self.seed << 20 | self.posts;
        let dies = self.random.random_bool(0.4).then(|| (self.random.random_range(1..25), self.random.random()));
        let late = [0.0, 0.03, 0.15][self.random.random_range(0..3)];
        let piece_bytes = [300, 1000, 64 << 20, 64 << 20][self.random.random_range(0..4)];
        let calm = Fate { late: 0.0, dies: None, piece_bytes };
        let fate = if may_fail { Fate { late, dies, piece_bytes } } else { calm };
        let network =
            Network::new(Arc::clone(&self.memory), Arc::clone(&self.sea), self.clock.clone(), self.began, fate, seed);
        let network = Arc::new(network);
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&network) as Arc<dyn Store>, self.faults, seed));
        let patience = Patience { spare_tries: 1_000_000, ..Patience::default() };
        let is_patient = self.random.random_bool(0.75);
        let store: Arc<dyn Store> = match is_patient {
            true => Arc::new(Retrying::with_dice(Arc::clone(&faulty) as Arc<dyn Store>, patience, Box::new(|| 0.5))),
            false => Arc::clone(&faulty) as Arc<dyn Store>,
        };
        Post { store, network, faulty }
    }

    /// Notes what became of an actor's requests when it is gone.
    pub(crate) fn closed(&mut self, post: &Post) {
        let (stalls, _) = post.network.told();
        self.told.long_puts += stalls;
        self.told.deaths += u64::from(post.network.is_dead());
        self.told.injected += post.faulty.injected();
    }

    /// The archive, as who asks `store` sees it.
    pub(crate) fn open(&self, store: &Arc<dyn Store>) -> Result<Archive, Error> {
        let which = Which { cluster: Some("prod".into()), layout: None };
        Archive::open(Arc::clone(store), self.runtime.clone(), &which, Arc::new(NoKeys))
    }

    pub(crate) fn truth(&self) -> Option<Archive> {
        self.open(&(Arc::clone(&self.memory) as Arc<dyn Store>)).ok()
    }

    /// Who holds the claim, in truth.
    pub(crate) fn holder(&self) -> Option<Claim> {
        let key = Key::parse("prod/writer.json").unwrap();
        let bytes = self.runtime.block_on(self.memory.get(&key, 0..1 << 16)).ok()?;
        Some(Claim::parse(&bytes).unwrap())
    }

    /// What has arrived by now is carried out, in the order of arrival.
    pub(crate) fn arrivals(&mut self, by: Duration) {
        let mut arrived = Vec::new();
        self.sea.lock().unwrap().retain_mut(|late| {
            let is_there = late.arrives <= by;
            if is_there {
                arrived.push((late.arrives, late.what.clone()));
            }
            !is_there
        });
        arrived.sort_by_key(|(arrives, _)| *arrives);
        for (_, request) in arrived {
            self.told.late_arrivals += 1;
            drop(self.runtime.block_on(request.carry_out(&*self.memory)));
        }
    }

    /// Whether a revision that was acknowledged may be gone by now.
    pub(crate) fn may_be_retired(&self, revision: i64) -> bool {
        let is_young = |span: &SignedDuration| self.etcd.moment(revision) >= self.now().checked_sub(*span).unwrap();
        let is_kept = self.policy.rules.iter().any(|rule| matches!(rule, Rule::Window(span) if is_young(span)));
        !self.policy.rules.is_empty() && revision < self.floor && !is_kept
    }

    /// Requires that `revision`, which was acknowledged, is there as the cluster had it.
    pub(crate) fn require(&mut self, revision: i64) {
        let archive = self.truth().expect("what was acknowledged is in an archive");
        let agreed = archive.agree(&Wanted::default(), &At::Revision(Revision(revision)), &self.scratch);
        let agreed = agreed.unwrap_or_else(|error| {
            panic!("revision {revision} was acknowledged, and is lost: {error:?}\n{}", self.listing())
        });
        self.compare(&archive, &agreed, &At::Revision(Revision(revision)), true);
    }

    /// Compares a point with the cluster. Only what cannot be read may fail.
    pub(crate) fn compare(&mut self, archive: &Archive, agreed: &archive::agree::Agreed, at: &At, must: bool) {
        let refused = |error: &dyn std::fmt::Display| assert!(!must, "{at} cannot be read: {error}");
        let point = match archive.open_whole(agreed, &self.scratch) {
            Ok(point) => point,
            Err(error) => {
                refused(&error);
                self.told.restores_refused += 1;
                return;
            }
        };
        let revision = point.revision.0;
        match at {
            At::Revision(wanted) => assert_eq!(revision, wanted.0),
            At::Time(time) => {
                let then = self.etcd.at_second(time.as_second());
                assert!(revision <= then, "{revision} was not there yet at {time}, but {then}");
                let newest = archive.catalogue().entries().filter_map(|entry| entry.to).max();
                if agreed.covered == Covered::Exactly && Some(point.revision) < newest {
                    assert_eq!(revision, then, "at {time}");
                }
            }
            _ => {}
        }
        let compact = point.compacted;
        let found = match hash_kv(&point.database, Some(Revision(revision)), compact) {
            Ok(found) => found,
            Err(error) => {
                refused(&error);
                self.told.restores_refused += 1;
                return;
            }
        };
        let expected = self.etcd.hash(revision, compact.map(|compact| compact.0));
        assert_eq!(found.hash, expected, "HashKV at {at}: {}\n{}", agreed.plan, self.listing());
        let compact = compact.map(|compact| compact.0);
        let (least, mut most) = self.etcd.compacted_at(revision);
        if agreed.plan.remarks.contains(&Remark::LaterFull) {
            // What was compacted between the two is gone from it.
            most = Some(revision);
        }
        assert!(least <= compact && compact <= most, "compacted at {compact:?}, and not {least:?} to {most:?}");
        self.require_leases(&point.database, revision);
        self.require_one_writer(archive, agreed);
        self.told.restores_compared += 1;
    }

    /// No live key has lost its lease, if the lease was there when the object that ends here was closed.
    fn require_leases(&self, database: &etcd_data::Database, revision: i64) {
        if revision != self.etcd.current {
            return;
        }
        for id in self.etcd.leases() {
            assert!(database.tables().has_lease(LeaseId(id)), "lease {id} is lost at {revision}");
        }
    }

    /// Nothing of a writer is taken where the one who reigns has written.
    fn require_one_writer(&self, archive: &Archive, agreed: &archive::agree::Agreed) {
        let Some(lineage) = &agreed.plan.base.lineage else { return };
        let there = self.headers(archive, lineage);
        let Some(highest) = there.values().map(|header| header.epoch).max() else { return };
        for part in &agreed.plan.deltas {
            let Some(own) = there.get(&part.entry.key).filter(|own| own.epoch < highest) else { continue };
            let clashes = |header: &&Header| {
                // What is merged has the epoch of its last source, and tells of no more than its end.
                let begin = if header.stands_for.is_none() { header.from } else { header.to };
                let is_apart = header.to < part.take.from || begin > part.take.to;
                header.kind == ObjectKind::Delta && header.epoch == highest && !is_apart
            };
            if let Some(rival) = there.values().find(clashes) {
                panic!(
                    "{} of writer {} is taken, though {} wrote {} to {}\n{}",
                    part.entry.key,
                    own.epoch,
                    rival.epoch,
                    rival.from,
                    rival.to,
                    self.listing()
                );
            }
        }
    }

    /// What the objects of a lineage that are there now say of themselves.
    fn headers(&self, archive: &Archive, lineage: &LineageId) -> BTreeMap<Key, Header> {
        let Some(history) = archive.catalogue().history(lineage) else { return BTreeMap::new() };
        let header = |key: &Key| {
            let bytes = self.runtime.block_on(self.memory.get(key, 0..1 << 30)).ok()?;
            Some((key.clone(), read_header(&bytes).unwrap()))
        };
        history.fulls().iter().chain(history.deltas()).filter_map(|entry| header(&entry.key)).collect()
    }

    /// All that is there, for whoever looks at a failure.
    pub(crate) fn listing(&self) -> String {
        let Some(archive) = self.truth() else { return "there is no archive".into() };
        let mut text = String::new();
        for history in &archive.catalogue().histories {
            let headers = self.headers(&archive, history.lineage.as_ref().unwrap());
            for entry in history.fulls().iter().chain(history.deltas()) {
                let Some(header) = headers.get(&entry.key) else { continue };
                let bytes: Bytes = self.runtime.block_on(self.memory.get(&entry.key, 0..1 << 30)).unwrap();
                let object = archive::Object::open("", Arc::new(bytes), &NoKeys).unwrap();
                let short = |link: Option<archive::header::Link>| {
                    link.map(|link| format!("{:02x}{:02x}", link.0[0], link.0[1]))
                };
                text += &format!(
                    "{} epoch {} link {:?} follows {:?}\n",
                    entry.key,
                    header.epoch,
                    short(Some(object.link())),
                    short(header.follows)
                );
            }
        }
        text
    }
}

/// How an actor writes.
pub(crate) fn writing((now, scratch): &(Timestamp, PathBuf)) -> Writing<'_> {
    Writing { now: *now, scratch, archive_key: None }
}
