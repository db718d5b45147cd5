//! An etcd that does as it is told: a small history of real revisions behind etcd's own protocol, on loopback, and a script
//! of what goes wrong.
//!
//! ```no_run
//! # use testkit::FakeEtcd;
//! let mut etcd = FakeEtcd::start(1);
//! etcd.put("a", "1");
//! etcd.script(0, |script| script.stalls_watches = true);
//! // … whatever watches etcd.url(0) sees nothing of this:
//! etcd.put("a", "2");
//! etcd.drop_connections(0);
//! ```
//!
//! All members of a fake cluster share one history: there is no raft, and what one says all have agreed on. Sizes, alarms,
//! hashes and leadership are what the test says. Without a word in the script it answers as a real etcd does.

mod door;
mod history;
mod script;
mod services;
mod watching;
mod world;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use etcd_rpc::proto::etcdserverpb as pb;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Request;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use crate::ports::Port;
use crate::stores::in_thread::InThread;
use services::Serving;
use world::{Shared, World};

pub use script::Script;

/// A message may be as long as etcd's own limit allows when it is turned off.
const LONGEST: usize = 64 << 20;

/// A cluster that does as it is told. It is gone when it is dropped.
pub struct FakeEtcd {
    shared: Shared,
    seats: Vec<Seat>,
}

/// Where one member serves.
struct Seat {
    id: u64,
    port: Port,
    server: Option<InThread>,
}

impl FakeEtcd {
    /// `members` that all serve; the first leads. Their names are `m0`, `m1` and so on, their ids 1, 2 and so on.
    pub fn start(members: usize) -> FakeEtcd {
        let shared = Shared::new(World::new());
        let mut fake = FakeEtcd { shared, seats: Vec::new() };
        for number in 0..members {
            let port = Port::reserve();
            let peer = format!("http://m{number}:2380");
            let id = fake.shared.change(|world| world.add(&format!("m{number}"), vec![port.url()], vec![peer], false));
            fake.seats.push(Seat { id, port, server: None });
            fake.serve(number);
        }
        fake
    }

    /// The URL of member `number`.
    pub fn url(&self, number: usize) -> String {
        self.seats[number].port.url()
    }

    /// The id of member `number`.
    pub fn id(&self, number: usize) -> u64 {
        self.seats[number].id
    }

    /// Rewrites the script of member `number`.
    pub fn script(&self, number: usize, rewrite: impl FnOnce(&mut Script)) {
        let id = self.id(number);
        self.shared.change(|world| rewrite(&mut world.member(id).unwrap().script));
    }

    /// Breaks every connection to member `number`; new ones are taken.
    pub fn drop_connections(&mut self, number: usize) {
        self.stop(number);
        self.serve(number);
    }

    /// Member `number` no longer listens.
    pub fn stop(&mut self, number: usize) {
        self.seats[number].server = None;
    }

    /// Member `number` listens.
    pub fn serve(&mut self, number: usize) {
        let Seat { id, port, server } = &mut self.seats[number];
        let serving = Serving { shared: self.shared.clone(), id: *id };
        *server = Some(InThread::listen(port.address(), |listener| serve(serving, TcpListenerStream::new(listener))));
    }

    /// Puts a key; gives back the revision.
    pub fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> i64 {
        self.put_leased(key, value, 0)
    }

    /// Puts a key that hangs on `lease`; gives back the revision.
    pub fn put_leased(&self, key: impl Into<Bytes>, value: impl Into<Bytes>, lease: i64) -> i64 {
        let put = pb::PutRequest { key: key.into(), value: value.into(), lease, ..pb::PutRequest::default() };
        self.shared.change(|world| {
            world.history.put(&put).unwrap();
            world.history.revision
        })
    }

    /// Deletes a key; gives back the revision.
    pub fn delete(&self, key: impl Into<Bytes>) -> i64 {
        self.delete_range(key, Bytes::new())
    }

    /// Deletes the keys from `key` up to but not including `end`; gives back the revision.
    pub fn delete_range(&self, key: impl Into<Bytes>, end: impl Into<Bytes>) -> i64 {
        let range = pb::DeleteRangeRequest { key: key.into(), range_end: end.into(), prev_kv: false };
        self.shared.change(|world| {
            world.history.delete(&range);
            world.history.revision
        })
    }

    /// Carries out a transaction; gives back the revision.
    pub fn txn(&self, txn: &pb::TxnRequest) -> i64 {
        self.shared.change(|world| {
            world.history.txn(txn).unwrap();
            world.history.revision
        })
    }

    /// Compacts what is before `revision`.
    pub fn compact(&self, revision: i64) {
        self.shared.change(|world| world.history.compact(revision)).unwrap();
    }

    /// Grants a lease of `seconds` under `id`.
    pub fn grant(&self, seconds: i64, id: i64) {
        self.shared.change(|world| world.history.grant(seconds, id)).unwrap();
    }

    /// Revokes a lease; gives back the revision.
    pub fn revoke(&self, id: i64) -> i64 {
        self.shared.change(|world| {
            world.history.revoke(id).unwrap();
            world.history.revision
        })
    }

    /// The revision of the store.
    pub fn revision(&self) -> i64 {
        self.shared.read().history.revision
    }

    /// HashKV at `revision`, 0 for now, with the compact revision of now.
    pub fn hash_kv(&self, revision: i64) -> u32 {
        let world = self.shared.read();
        let revision = if revision == 0 { world.history.revision } else { revision };
        world.history.hash(revision, world.history.compacted)
    }

    /// What the key space is made of: each record's key and value as they stand in etcd's database, nothing compacted away.
    pub fn records(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.shared.read().history.changes.iter().map(history::Change::record).collect()
    }

    /// What a snapshot is made of: of the records a database file, with its digest behind it.
    pub fn snapshots_by(&self, make: impl Fn(&[(Vec<u8>, Vec<u8>)]) -> Vec<u8> + Send + Sync + 'static) {
        self.shared.change(|world| world.make_snapshot = Some(Arc::new(make)));
    }

    /// The cluster is another one from now on: restored, or somebody else's at the same place. Its history begins anew.
    pub fn replace_cluster(&self, cluster_id: u64) {
        self.shared.change(|world| {
            world.cluster_id = cluster_id;
            world.history = history::History::new();
        });
    }

    /// The store goes back to `revision`, as after a restore that nobody told of.
    pub fn go_back_to(&self, revision: i64) {
        self.shared.change(|world| world.history.go_back_to(revision));
    }

    /// From now on users are asked for. Every name is right, and until [`FakeEtcd::change_password`] every password.
    pub fn ask_for_users(&self) {
        self.shared.change(|world| world.door.asks_for_users = true);
    }

    /// Only `password` is right from now on, and the tokens that were given are good no longer, as in etcd.
    pub fn change_password(&self, password: &str) {
        self.shared.change(|world| {
            world.door.password = Some(password.to_owned());
            world.door.forget();
        });
    }

    /// The tokens that were given are good no longer, as if they had run out.
    pub fn forget_tokens(&self) {
        self.shared.change(|world| world.door.forget());
    }

    /// How often somebody has logged in.
    pub fn logins(&self) -> u64 {
        self.shared.read().door.logins
    }

    /// How often somebody has shown a token that is not good, or is no longer.
    pub fn refused_tokens(&self) -> u64 {
        self.shared.read().door.refused
    }

    /// Member `number` leads.
    pub fn lead(&self, number: usize) {
        let id = self.id(number);
        self.shared.change(|world| world.leader = id);
    }

    /// The size of the database of member `number`, and how much of it is in use.
    pub fn size(&self, number: usize, bytes: i64, in_use_bytes: i64) {
        let id = self.id(number);
        self.shared.change(|world| {
            let member = world.member(id).unwrap();
            (member.db_size, member.db_in_use) = (bytes, in_use_bytes);
        });
    }

    /// Member `number` has no vote; whether it has caught up with the leader.
    pub fn learner(&self, number: usize, has_caught_up: bool) {
        let id = self.id(number);
        self.shared.change(|world| {
            let member = world.member(id).unwrap();
            (member.listed.is_learner, member.has_caught_up) = (true, has_caught_up);
        });
    }

    /// Raises an alarm for member `number`.
    pub fn raise(&self, number: usize, alarm: pb::AlarmType) {
        let member_id = self.id(number);
        self.shared.change(|world| world.alarms.push(pb::AlarmMember { member_id, alarm: alarm.into() }));
    }

    /// What was done to the cluster beside its keys, in order, such as `Defragment m1`.
    pub fn calls(&self) -> Vec<String> {
        self.shared.read().calls.clone()
    }
}

impl fmt::Debug for FakeEtcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeEtcd").field("members", &self.seats.len()).finish_non_exhaustive()
    }
}

async fn serve(serving: Serving, listener: TcpListenerStream) {
    use pb::auth_server::AuthServer;
    use pb::cluster_server::ClusterServer;
    use pb::kv_server::KvServer;
    use pb::lease_server::LeaseServer;
    use pb::maintenance_server::MaintenanceServer;
    use pb::watch_server::WatchServer;
    let door = serving.clone();
    let guard = move |request: Request<()>| door.let_in(request);
    let kv = KvServer::new(serving.clone()).max_decoding_message_size(LONGEST);
    Server::builder()
        .add_service(InterceptedService::new(kv, guard.clone()))
        .add_service(WatchServer::with_interceptor(serving.clone(), guard.clone()))
        .add_service(LeaseServer::with_interceptor(serving.clone(), guard.clone()))
        .add_service(MaintenanceServer::with_interceptor(serving.clone(), guard.clone()))
        .add_service(ClusterServer::with_interceptor(serving.clone(), guard))
        .add_service(AuthServer::new(serving))
        .serve_with_incoming(listener)
        .await
        .expect("serving");
}
