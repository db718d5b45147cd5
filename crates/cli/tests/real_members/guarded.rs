//! Members that ask everybody who they are: clients and peers for certificates, and clients for a user with a password.
//!
//! Agents run beside them from before there are users. Not with 3.4, which tells nobody when users change, so that the newest
//! full may be without them.

use testkit::Version;

use crate::doors::Users;
use crate::losses::{lose_one_disk_and_then_all, lose_the_only_disk, lose_the_quorum};
use crate::world::{Access, World, at_once};

/// Requires that users, roles and passwords are what they were when `before` was told.
#[track_caller]
fn require_users(world: &World, before: &Users) {
    let version = world.version;
    assert_eq!(Users::told(&world.client()), *before, "{version}");
    let reader = world.pods[0].reader().unwrap();
    reader.get("r1").unwrap();
    assert!(reader.get("key 3").is_err() && reader.put("r1", "2").is_err(), "{version}");
    let refused = world.pods[0].guesser().unwrap_err();
    assert!(refused.message.contains("invalid user ID or password"), "{version}: {refused}");
}

#[test]
fn the_only_member_comes_back_with_its_users_and_is_followed_on() {
    at_once([Version::V35, Version::V36, Version::V37], |version| {
        let mut world = World::new(1, version, Access::Guarded, &[]);
        let wrap = world.begin().remove(0);
        let users = Users::told(&world.client());
        require_users(&world, &users);

        let (mut wrap, before) = lose_the_only_disk(&world, wrap);
        require_users(&world, &users);
        world.client().put("afterwards", "2").unwrap();
        let after = world.truth();
        world.until_sealed(after.0);
        world.require(after);
        world.require(before);

        // A user who is made then is in a full before anybody asks for it.
        world.client().user_add("late", "comer").unwrap();
        world.client().put("later", "3").unwrap();
        world.until_sealed(world.truth().0);
        wrap.until("a full has the one who came late", || world.archived_users() == Some(4));
        wrap.kill();
        world.pods[0].lose_disk();
        let mut wrap = world.pods[0].wrap(version);
        wrap.until("it is back once more", || world.reads(0, "later", "3"));
        assert!(world.client().users().unwrap().contains(&"late".to_owned()), "{version}");
        wrap.stop();
        assert!(world.agents.remove(0).stop().success());
    });
}

/// In one cluster, one after the other: there is no other way in which members are started, joined and built anew.
#[test]
fn three_members_join_anew_are_restored_and_are_built_anew_with_their_users() {
    at_once([Version::V35, Version::V37], |version| {
        let mut world = World::new(3, version, Access::Guarded, &["--rebuild-after", "3s", "--set-outdated-aside"]);
        let mut wraps = world.begin();
        let users = Users::told(&world.client());
        lose_one_disk_and_then_all(&mut world, &mut wraps);
        require_users(&world, &users);
        lose_the_quorum(&mut world, &mut wraps);
        require_users(&world, &users);
    });
}

/// Sixteen puts of what the test puts.
const QUOTA_BYTES: i64 = 16 << 20;

#[test]
fn a_member_is_defragmented_on_schedule_and_relieved_when_its_space_is_used_up() {
    at_once([Version::V35, Version::V37], |version| {
        let mut world =
            World::new(1, version, Access::Guarded, &["--relieve-no-space", "--defragment-at", "@every 5s"]);
        world.pods[0].configure(&format!("quota-backend-bytes: {QUOTA_BYTES}"));
        let mut wrap = world.begin().remove(0);
        let is_defragmented = |status: &serde_json::Value| status["upkeep"]["defragment"]["last"]["succeeded"] == true;
        world.agents[0].until("it is defragmented on schedule", is_defragmented);

        let (client, long) = (world.client(), vec![b'x'; 1_000_000]);
        let refused = (0..100).find_map(|_| client.put("key 3", &long).err()).unwrap();
        // The alarm may be over by now.
        assert!(refused.message.contains("database space exceeded"), "{version}: {refused}");
        wrap.until("its space is relieved", || client.alarms().unwrap().is_empty());
        client.put("key 3", "short").unwrap();
        // What was sealed a moment before could be compacted.
        assert!(client.status().unwrap().db_size < QUOTA_BYTES / 4 * 3, "{version}");
        world.until_sealed(client.status().unwrap().revision);
    });
}
