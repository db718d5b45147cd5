//! Clusters for tests of judgements, drawn with a few strokes.

use etcd_rpc::{Header, ListedMember};

use super::*;

pub(crate) const MIB: i64 = 1 << 20;

/// A healthy cluster of so many members.
pub(crate) fn healthy(size: u64) -> Seen {
    let statuses: Vec<Status> = (1..=size).map(status).collect();
    let members = statuses.iter().map(|status| MemberSeen {
        listed: ListedMember {
            id: status.header.member_id,
            name: format!("m{}", status.header.member_id),
            peer_urls: vec!["http://127.0.0.1:2380".into()],
            client_urls: vec!["http://127.0.0.1:2379".into()],
            is_learner: false,
        },
        status: Ok(status.clone()),
    });
    Seen {
        user: None,
        endpoints: vec![("http://127.0.0.1:2379".into(), Ok(status(1)))],
        cluster: Ok(ClusterSeen { cluster_id: 9, members: members.collect(), alarms: Vec::new(), users_untold: None }),
        alarms: Ok(Vec::new()),
        looks: statuses.iter().map(look).collect(),
    }
}

fn status(id: u64) -> Status {
    Status {
        header: Header { cluster_id: 9, member_id: id, revision: 5000, raft_term: 2 },
        version: "3.6.16".into(),
        leader: 1,
        db_size_bytes: 200 * MIB,
        db_in_use_bytes: 190 * MIB,
        quota_bytes: Some(2048 * MIB),
        raft_index: 100,
        raft_applied_index: 100,
        raft_term: 2,
        ..Status::default()
    }
}

fn look(status: &Status) -> Look {
    let header = status.header;
    let all = [Right::Read, Right::Watch, Right::Leases, Right::Snapshot, Right::Hash];
    Look {
        name: format!("m{}", header.member_id),
        status: Some(status.clone()),
        rights: all.map(|right| (right, Ok(()))).to_vec(),
        hash: Ok(HashKv { hash: 7, compact_revision: 4000, hash_revision: None, header }),
        page: Err(Fault::NotEtcd { why: "no page in this test".into() }),
    }
}
