//! What the members of a fake cluster share, and what each of them is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etcd_rpc::proto::etcdserverpb as pb;
use tokio::sync::watch;

use super::door::Door;
use super::history::History;
use super::script::Script;

/// Records of the key space in order to a database file with its digest behind it.
pub(crate) type MakeSnapshot = Arc<dyn Fn(&[(Vec<u8>, Vec<u8>)]) -> Vec<u8> + Send + Sync>;

/// Everything there is.
pub(crate) struct World {
    pub(crate) cluster_id: u64,
    pub(crate) history: History,
    pub(crate) door: Door,
    pub(crate) members: Vec<FakeMember>,
    pub(crate) leader: u64,
    pub(crate) alarms: Vec<pb::AlarmMember>,
    pub(crate) make_snapshot: Option<MakeSnapshot>,
    pub(crate) next_member: u64,
    /// Every call that changes more than keys, in order: `Defragment m1`, `MoveLeader m0 m2`.
    pub(crate) calls: Vec<String>,
}

/// One member.
#[derive(Debug, Clone)]
pub(crate) struct FakeMember {
    pub(crate) listed: pb::Member,
    pub(crate) script: Script,
    pub(crate) db_size: i64,
    pub(crate) db_in_use: i64,
    /// A learner that has.
    pub(crate) has_caught_up: bool,
}

/// The world, and the news that it has changed.
#[derive(Clone)]
pub(crate) struct Shared {
    world: Arc<Mutex<World>>,
    changed: watch::Sender<()>,
}

impl Shared {
    pub(crate) fn new(world: World) -> Shared {
        Shared { world: Arc::new(Mutex::new(world)), changed: watch::Sender::new(()) }
    }

    /// To read; nobody is told.
    pub(crate) fn read(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes it, and tells the watches.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let done = change(&mut self.read());
        self.changed.send_replace(());
        done
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl World {
    /// One member with a vote, which leads; its id is 1.
    pub(crate) fn new() -> World {
        World {
            cluster_id: 0xfa4e,
            history: History::new(),
            door: Door::default(),
            members: Vec::new(),
            leader: 1,
            alarms: Vec::new(),
            make_snapshot: None,
            next_member: 1,
            calls: Vec::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        name: &str,
        client_urls: Vec<String>,
        peer_urls: Vec<String>,
        is_learner: bool,
    ) -> u64 {
        let id = self.next_member;
        self.next_member += 1;
        let name = name.to_owned();
        let listed = pb::Member { id, name, peer_ur_ls: peer_urls, client_ur_ls: client_urls, is_learner };
        let script = Script::default();
        self.members.push(FakeMember { listed, script, db_size: 1 << 20, db_in_use: 1 << 20, has_caught_up: false });
        id
    }

    pub(crate) fn member(&mut self, id: u64) -> Option<&mut FakeMember> {
        self.members.iter_mut().find(|member| member.listed.id == id)
    }

    pub(crate) fn script(&self, id: u64) -> Script {
        let member = self.members.iter().find(|member| member.listed.id == id);
        member.map(|member| member.script.clone()).unwrap_or_default()
    }

    pub(crate) fn name(&self, id: u64) -> String {
        let member = self.members.iter().find(|member| member.listed.id == id);
        member.map_or_else(|| id.to_string(), |member| member.listed.name.clone())
    }

    /// What member `id` writes above its answers.
    pub(crate) fn header(&self, id: u64) -> Option<pb::ResponseHeader> {
        let script = self.script(id);
        Some(pb::ResponseHeader {
            cluster_id: script.claims_cluster.unwrap_or(self.cluster_id),
            member_id: id,
            revision: script.claims_revision.unwrap_or(self.history.revision),
            raft_term: 2,
        })
    }

    pub(crate) fn has_alarm(&self, kind: pb::AlarmType) -> bool {
        self.alarms.iter().any(|alarm| alarm.alarm() == kind)
    }
}
