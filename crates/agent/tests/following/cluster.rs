//! A cluster that follows a script: a key space with revisions, which is compacted, restored to the past, and goes away.
//!
//! - [`members`]: how it is seen by whoever follows, with watches that lose, repeat, drop and stall

mod members;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use agent::follow::live::{Auth, Change, PutChange, Seen, Trouble};
use bytes::Bytes;
use etcd_data::database::RevisionRange;
use etcd_data::hash::hash_kv;
use etcd_data::records::TailRecord;
use etcd_data::{Database, KeyValue, LeaseId, RevKey, Revision, Tables};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;

use crate::told::Mishaps;
pub(crate) use members::Scripted;

/// How often a watch or a snapshot does what, of a thousand answers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Whims {
    pub(crate) drops: u32,
    pub(crate) loses: u32,
    pub(crate) repeats: u32,
    pub(crate) stalls: u32,
    pub(crate) mutes: u32,
    pub(crate) slow_snapshots: u32,
}

pub(crate) struct Cluster {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

struct State {
    id: u64,
    /// Everything that ever happened in this history.
    records: Vec<TailRecord>,
    keys: BTreeMap<String, (i64, i64)>,
    current: i64,
    compacted: Option<i64>,
    leases: BTreeMap<i64, i64>,
    auth: Auth,
    /// How many snapshots are refused before one is given.
    refused_snapshots: u32,
    /// Whose disk is damaged: what they give is torn.
    damaged: Vec<u64>,
    /// Who was asked for a snapshot, one after the other.
    asked_for_snapshots: Vec<u64>,
    /// What each member says of the size of its database.
    size_bytes: u64,
    /// Whether nobody may read.
    refuses: bool,
    /// Whether whoever watches is told other values than there are.
    lies: bool,
    random: StdRng,
    whims: Whims,
    mishaps: Mishaps,
    is_away: bool,
    /// One more whenever it becomes another: watches of the one before end.
    era: u64,
    /// Who leads; nobody if it is 0.
    leader: u64,
    /// Members that apply nothing any more, and the revision that each stopped at.
    behind: BTreeMap<u64, i64>,
    /// A member whose disk gives something else for one record than what was written, and tells nothing of that.
    erring: Option<Erring>,
    /// Whether it is so old that it tells nothing of what was deleted at the revision that it was compacted at.
    is_old: bool,
}

/// What a member has that was never written.
#[derive(Debug, Clone)]
struct Erring {
    member: u64,
    record: TailRecord,
}

impl Cluster {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let state = State {
            id: 0xabc,
            records: Vec::new(),
            keys: BTreeMap::new(),
            current: 1,
            compacted: None,
            leases: BTreeMap::new(),
            auth: Auth { revision: 1, is_enabled: false },
            refused_snapshots: 0,
            damaged: Vec::new(),
            asked_for_snapshots: Vec::new(),
            size_bytes: 0,
            refuses: false,
            lies: false,
            random: StdRng::seed_from_u64(seed),
            whims: Whims::default(),
            mishaps: Mishaps::default(),
            is_away: false,
            era: 0,
            leader: 1,
            behind: BTreeMap::new(),
            erring: None,
            is_old: seed.is_multiple_of(2),
        };
        Arc::new(Self { state: Mutex::new(state), changed: watch::Sender::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn whims(&self, whims: Whims) {
        self.lock().whims = whims;
    }

    /// What has befallen it and its watches.
    pub(crate) fn mishaps(&self) -> Mishaps {
        self.lock().mishaps
    }

    /// Whether anybody answers.
    pub(crate) fn goes_away(&self, is_away: bool) {
        let mut state = self.lock();
        state.mishaps.went_away += u64::from(is_away && !state.is_away);
        state.is_away = is_away;
        state.era += u64::from(is_away);
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Some transactions.
    pub(crate) fn write(&self, transactions: usize) {
        let mut state = self.lock();
        for _ in 0..transactions {
            state.transaction();
        }
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn current(&self) -> i64 {
        self.lock().current
    }

    pub(crate) fn compact(&self, keep: i64) {
        let mut state = self.lock();
        let at = state.current - keep;
        if at > state.compacted.unwrap_or(1) {
            state.compacted = Some(at);
            state.mishaps.compactions += 1;
            // It is a change like others: who is compacted has applied all before.
            state.behind.retain(|_, stopped| *stopped >= at);
        }
    }

    /// Somebody else leads from now on, or nobody: then those who watch are sent away.
    pub(crate) fn elect(&self, leader: u64) {
        let mut state = self.lock();
        state.mishaps.elections += u64::from(leader != state.leader);
        state.leader = leader;
        state.era += u64::from(leader == 0);
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// A member applies nothing from now on.
    pub(crate) fn falls_behind(&self, member: u64) {
        let mut state = self.lock();
        let current = state.current;
        state.behind.entry(member).or_insert(current);
        state.mishaps.fell_behind += 1;
    }

    /// All have applied everything.
    pub(crate) fn catch_up(&self) {
        self.lock().behind.clear();
        self.changed.send_modify(|count| *count += 1);
    }

    /// The disk of a member gives another value from now on for what it was given at `revision` or before, where it still has that.
    pub(crate) fn err(&self, member: u64, revision: i64) {
        let mut state = self.lock();
        let from = state.compacted.unwrap_or(0);
        let is_put = |record: &&TailRecord| !record.at.tombstone && (from + 1..=revision).contains(&record.at.main.0);
        let Some(mut record) = state.records.iter().rev().find(is_put).cloned() else { return };
        // It ends with the value, unless a lease is behind that.
        if KeyValue::parse(&record.value).unwrap().lease == LeaseId(0) {
            *record.value.last_mut().unwrap() ^= 1;
            state.erring = Some(Erring { member, record });
            state.mishaps.erred += 1;
        }
    }

    /// The member whose hash is another one than that of the others now.
    pub(crate) fn who_differs(&self) -> Option<u64> {
        let member = self.lock().erring.as_ref()?.member;
        let hash = |member| hash_kv(&self.as_it_is(member), None, None).unwrap().hash;
        let another = member % 3 + 1;
        (hash(member) != hash(another)).then_some(member)
    }

    pub(crate) fn change_users(&self) {
        let mut state = self.lock();
        state.auth.revision += 1;
        state.mishaps.changes_of_users += 1;
    }

    /// From now on users are asked for, which is no revision of theirs.
    pub(crate) fn enable_auth(&self) {
        self.lock().auth.is_enabled = true;
    }

    pub(crate) fn auth(&self) -> Auth {
        self.lock().auth
    }

    pub(crate) fn refuse_snapshots(&self, count: u32) {
        self.lock().refused_snapshots = count;
    }

    /// From now on the disks of these members are damaged, and of no others.
    pub(crate) fn damage(&self, members: &[u64]) {
        self.lock().damaged = members.to_vec();
    }

    /// Its members say that their databases are that large.
    pub(crate) fn say_size(&self, size_bytes: u64) {
        self.lock().size_bytes = size_bytes;
    }

    /// Who was asked for a snapshot so far, one after the other.
    pub(crate) fn asked_for_snapshots(&self) -> Vec<u64> {
        self.lock().asked_for_snapshots.clone()
    }

    /// Whether it tells whoever watches other values than there are, which shows in hashes alone.
    pub(crate) fn lies(&self, lies: bool) {
        self.lock().lies = lies;
    }

    /// It lets nobody read any more.
    pub(crate) fn refuse(&self) {
        self.lock().refuses = true;
    }

    /// Whether something befalls a watch that does so often, of a thousand times.
    fn befalls(&self, often: u32, mishap: impl FnOnce(&mut Mishaps) -> &mut u64) -> bool {
        let mut state = self.lock();
        let befalls = state.random.random_ratio(often, 1000);
        *mishap(&mut state.mishaps) += u64::from(befalls);
        befalls
    }

    fn refuses_snapshot(&self) -> bool {
        let mut state = self.lock();
        let is_refused = state.refused_snapshots > 0;
        state.refused_snapshots = state.refused_snapshots.saturating_sub(1);
        is_refused
    }

    /// It goes back to an earlier revision, as after a restore, and goes on from one that is so much higher: then history
    /// before that is gone. Whoever watches is disconnected.
    pub(crate) fn restore_to(&self, revision: i64, new_id: bool, bump: i64) {
        let mut state = self.lock();
        state.records.retain(|record| record.at.main.0 <= revision);
        // Where revisions were raised before, there are some that never were.
        let revision = state.records.last().map_or(1, |record| record.at.main.0);
        state.current = revision;
        state.compacted = state.compacted.filter(|at| *at <= revision);
        state.keys.clear();
        let State { records, keys, .. } = &mut *state;
        for record in records {
            let value = KeyValue::parse(&record.value).unwrap();
            let key = String::from_utf8(value.key.to_vec()).unwrap();
            match record.at.tombstone {
                true => drop(keys.remove(&key)),
                false => drop(keys.insert(key, (value.create_revision.0, value.version))),
            }
        }
        if bump > 0 {
            state.current += bump;
            state.compacted = Some(state.current);
            // Somebody always writes at once.
            state.transaction();
        }
        state.id += u64::from(new_id);
        state.era += 1;
        state.behind.clear();
        state.erring = None;
        state.mishaps.restores += 1;
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Everything that ever happened, as a database that was never compacted.
    pub(crate) fn truth(&self) -> Database {
        let records = self.lock().records.clone();
        Database::empty(Tables::default()).followed_by(RevisionRange::ALL, Arc::new(records))
    }

    /// The same, with what a member has that was never written, where no hash of now tells of it: the key was changed since. A full of
    /// that member has it, and nobody can know.
    pub(crate) fn truth_with_untold_error(&self) -> Option<Database> {
        if self.who_differs().is_some() {
            return None;
        }
        let state = self.lock();
        let records = state.records_of(state.erring.as_ref()?.member);
        Some(Database::empty(Tables::default()).followed_by(RevisionRange::ALL, Arc::new(records)))
    }

    /// As `member` has it.
    fn as_it_is(&self, member: u64) -> Database {
        let state = self.lock();
        let mut tables = Tables::default();
        tables.set_auth_revision(state.auth.revision);
        tables.set_auth_enabled(state.auth.is_enabled);
        if let Some(at) = state.compacted {
            tables.set_scheduled_compaction(Revision(at));
            tables.set_finished_compaction(Revision(at));
        }
        let records = state.records_of(member);
        drop(state);
        let records = Database::empty(Tables::default()).followed_by(RevisionRange::ALL, Arc::new(records));
        records.with_tables(tables)
    }

    fn require_there(&self) -> Result<(), Trouble> {
        match self.lock().is_away {
            true => Err(Trouble::Away { place: "the cluster".into(), why: "it went away".into() }),
            false => Ok(()),
        }
    }

    /// What needs the word of a majority.
    fn require_leader(&self) -> Result<(), Trouble> {
        self.require_there()?;
        match self.lock().leader {
            0 => Err(Trouble::Away { place: "the cluster".into(), why: "it has no leader".into() }),
            _ => Ok(()),
        }
    }

    /// What a watch of `member` says next.
    fn next(&self, member: u64, era: u64, from: &mut i64) -> Option<Result<Seen, Trouble>> {
        let mut state = self.lock();
        if state.era != era || state.is_away {
            return Some(Err(Trouble::Away { place: "a member".into(), why: "it was disconnected".into() }));
        }
        if state.compacted.is_some_and(|at| *from < at) {
            return Some(Err(Trouble::Compacted { from: state.compacted.map(Revision) }));
        }
        let Whims { drops, loses, repeats, .. } = state.whims;
        if state.random.random_ratio(drops, 1000) {
            state.mishaps.drops += 1;
            return Some(Err(Trouble::Away { place: "a member".into(), why: "it dropped the watch".into() }));
        }
        let (records, reached) = (state.records_of(member), state.revision_of(member));
        let start = records.partition_point(|record| record.at.main.0 < *from);
        if start == records.len() {
            return None;
        }
        let most = state.random.random_range(1..40).min(records.len() - start);
        let is_cut = state.random.random_ratio(1, 3);
        let mut end = start + most;
        if !is_cut {
            while end < records.len() && records[end].at.main == records[end - 1].at.main {
                end += 1;
            }
        }
        let is_partial = end < records.len() && records[end].at.main == records[end - 1].at.main;
        let mut changes: Vec<Change> = records[start..end].iter().map(change).collect();
        let began = *from;
        *from = records[end - 1].at.main.0 + 1;
        if is_partial {
            // The rest comes with the next answer; this one ends in the middle of a revision.
            let main = records[end].at.main;
            let rest: Vec<Change> =
                records[end..].iter().take_while(|record| record.at.main == main).map(change).collect();
            changes.extend(rest);
        }
        if state.lies {
            let puts = changes.iter_mut().filter_map(|change| change.put.as_mut());
            puts.for_each(|put| put.value = Bytes::from_static(b"a lie"));
        }
        if state.is_old && state.compacted == Some(began) {
            changes.retain(|change| change.put.is_some() || change.revision.0 != began);
            if changes.is_empty() {
                return None;
            }
        }
        if changes.len() > 2 && state.random.random_ratio(loses, 1000) {
            let lost = changes[1].revision;
            changes.retain(|change| change.revision != lost);
            state.mishaps.losses += 1;
        }
        // A change that comes twice in one revision might be two of a transaction: that shows in anchors alone.
        let is_of_many = changes.first().map(|change| change.revision) != changes.last().map(|change| change.revision);
        if is_of_many && state.random.random_ratio(repeats, 1000) {
            let again = changes[0].clone();
            changes.push(again);
            state.mishaps.repeats += 1;
        }
        Some(Ok(Seen { cluster: state.id, revision: Revision(reached), changes, is_partial: false }))
    }
}

impl State {
    /// How far a member is.
    fn revision_of(&self, member: u64) -> i64 {
        self.behind.get(&member).copied().unwrap_or(self.current)
    }

    /// What a member has.
    fn records_of(&self, member: u64) -> Vec<TailRecord> {
        let reached = self.records.partition_point(|record| record.at.main.0 <= self.revision_of(member));
        let mut records = self.records[..reached].to_vec();
        if let Some(Erring { record, .. }) = self.erring.as_ref().filter(|erring| erring.member == member)
            && let Ok(at) = records.binary_search_by_key(&record.at, |other| other.at)
        {
            records[at] = record.clone();
        }
        records
    }

    fn transaction(&mut self) {
        self.current += 1;
        let main = self.current;
        let changes = match main {
            2 => 4,
            _ if self.random.random_ratio(1, 8) => self.random.random_range(2..6),
            _ => 1,
        };
        let mut changed: Vec<String> = Vec::new();
        for _ in 0..changes {
            // What comes first stays as it is, as namespaces do.
            let key = match main {
                2 => format!("/registry/namespaces/{:02}", changed.len()),
                _ => format!("/registry/things/{:02}", self.random.random_range(0..40)),
            };
            if changed.contains(&key) {
                continue;
            }
            let sub = changed.len() as i64;
            let is_deleted = self.keys.contains_key(&key) && self.random.random_ratio(1, 4);
            let lease = if self.random.random_ratio(1, 10) { self.random.random_range(1..6) } else { 0 };
            let value = format!("{key} at {main} {}", self.random.random::<u32>());
            let mut record = KeyValue { key: key.as_bytes(), ..KeyValue::default() };
            if is_deleted {
                self.keys.remove(&key);
            } else {
                let (created, version) = self.keys.get(&key).copied().unwrap_or((main, 0));
                self.keys.insert(key.clone(), (created, version + 1));
                record.create_revision = Revision(created);
                record.mod_revision = Revision(main);
                record.version = version + 1;
                record.value = value.as_bytes();
                record.lease = LeaseId(lease);
                if lease != 0 {
                    self.leases.insert(lease, 60 + lease);
                }
            }
            let mut encoded = Vec::new();
            record.encode(&mut encoded);
            let at = RevKey { main: Revision(main), sub, tombstone: is_deleted };
            self.records.push(TailRecord { at, value: encoded });
            changed.push(key);
        }
    }
}

fn change(record: &TailRecord) -> Change {
    let value = KeyValue::parse(&record.value).unwrap();
    let put = (!record.at.tombstone).then(|| PutChange {
        value: Bytes::copy_from_slice(value.value),
        created: value.create_revision,
        version: value.version,
        lease: value.lease,
    });
    Change { key: Bytes::copy_from_slice(value.key), revision: record.at.main, put }
}
