//! Leases: granted, counted down, and ended.

use super::*;
use crate::tables::LeaseId;

#[test]
fn the_end_of_a_lease_deletes_what_hangs_on_it_in_the_order_of_keys() {
    let mut scene = Scene::new();
    scene.asks(Command::LeaseGrant(LeaseGrantRequest { ttl: 1, id: -5 }));
    for key in ["z", "m", "a"] {
        scene.asks(Command::Put(PutRequest { lease: -5, ..put(key, "") }));
    }
    scene.asks(Command::Put(put("m", "left")));
    scene.asks(Command::LeaseRevoke(LeaseRevokeRequest { id: -5 }));
    scene.asks(Command::LeaseRevoke(LeaseRevokeRequest { id: 7 }));
    scene.asks(Command::LeaseRevoke(LeaseRevokeRequest { id: 7 }));
    assert_eq!(scene.records()[4..], ["9/0t a", "9/1t z", "10/0t c"]);
    assert_eq!(scene.done().tables.leases().count(), 0);
}

#[test]
fn a_lease_is_granted_once_and_not_for_too_short_a_time() {
    let mut scene = Scene::new();
    for (id, ttl) in [(7, 90), (0, 90), (9, 9_000_000_001), (8, -1), (10, 90)] {
        scene.asks(Command::LeaseGrant(LeaseGrantRequest { ttl, id }));
    }
    let leases: Vec<(i64, i64)> =
        scene.done().tables.leases().map(|lease| lease.map(|lease| (lease.id, lease.ttl_seconds)).unwrap()).collect();
    assert_eq!(leases, [(7, 60), (8, 2), (10, 90)]);
}

#[test]
fn what_a_lease_has_left_is_kept_from_cluster_version_3_6_on() {
    for (version, expected) in [("3.5.0", 0), ("3.6.0", 33), ("3.10.0", 33)] {
        let mut scene = Scene::new();
        scene.asks(Command::ClusterVersionSet(ClusterVersionSetRequest { version: version.into() }));
        let checkpoints =
            vec![LeaseCheckpoint { id: 7, remaining_ttl: 33 }, LeaseCheckpoint { id: 99, remaining_ttl: 1 }];
        scene.asks(Command::LeaseCheckpoint(LeaseCheckpointRequest { checkpoints }));
        let lease = scene.done().tables.lease(LeaseId(7)).unwrap().unwrap();
        assert_eq!(lease.remaining_seconds, expected, "{version}");
    }
}
