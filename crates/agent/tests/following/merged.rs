//! What members are asked about a full that was merged.

use agent::follow::merged::{MergedFull, Stage};
use agent::follow::progress::Doing;
use archive::Anchor;
use etcd_data::Revision;
use etcd_data::hash::hash_kv;
use jiff::Timestamp;
use tokio::time::timeout;

use crate::time::in_its_own_time;
use crate::world::{Running, SOON, World};

impl World {
    fn running(&self) -> &Running {
        self.agents[0].as_ref().unwrap()
    }

    /// Seals everything; whoever merges makes a full of that. The cluster goes on, and what comes then is sealed too, up to
    /// the revision that is given with it.
    async fn with_a_full_and_more(&mut self) -> (MergedFull, Revision) {
        let revision = self.seal(SOON).await.unwrap();
        let full = MergedFull { lineage: self.lineage_of(0), revision };
        self.cluster.write(20);
        (full, self.seal(SOON).await.unwrap())
    }

    /// What members answer because of `full`: who, about which revision, and the hash.
    async fn answers_about(&self, full: &MergedFull) -> Vec<(String, Revision, u32)> {
        let merged = &self.running().merged;
        let mut changes = merged.changes();
        let is_answered = |stage: &Stage| matches!(stage, Stage::Answered(about, _) if about == full);
        drop(timeout(SOON, changes.wait_for(is_answered)).await.expect("they are asked").unwrap());
        let (_, anchors) = merged.answered().unwrap();
        anchors.into_iter().map(|Anchor { member, revision, hash, .. }| (member, revision, hash)).collect()
    }

    /// What they are to answer about `revision` of a cluster that was compacted at `compact`, by what it is in truth.
    fn answers_of_all(&self, revision: Revision, compact: Option<Revision>) -> Vec<(String, Revision, u32)> {
        let hash = hash_kv(&self.cluster.truth(), Some(revision), compact).unwrap().hash;
        ["m1", "m2", "m3"].map(|member| (member.to_owned(), revision, hash)).into()
    }
}

#[test]
fn members_are_asked_about_a_merged_full_at_its_own_revision() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(15).await;
        let (full, later) = world.with_a_full_and_more().await;
        assert!(later > full.revision);
        world.running().merged.want(full.clone());
        assert_eq!(world.answers_about(&full).await, world.answers_of_all(full.revision, None));
    });
}

/// What of the full still counts then is compared at least.
#[test]
fn about_a_merged_full_whose_revision_was_compacted_away_members_are_asked_at_what_is_sealed_since() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(16).await;
        let (full, later) = world.with_a_full_and_more().await;
        world.cluster.compact(1);
        let compact = Revision(world.cluster.current() - 1);
        assert!(full.revision < compact);
        world.running().merged.want(full.clone());
        assert_eq!(world.answers_about(&full).await, world.answers_of_all(later, Some(compact)));
    });
}

#[test]
fn members_that_are_away_are_asked_about_a_merged_full_when_they_are_back() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(17).await;
        let (full, _) = world.with_a_full_and_more().await;
        world.cluster.goes_away(true);
        let mut standing = world.running().progress.standing();
        let waiting = standing.wait_for(|told| told.doing == Doing::WaitingForEtcd);
        drop(timeout(SOON, waiting).await.unwrap().unwrap());
        world.running().merged.want(full.clone());
        world.cluster.goes_away(false);
        assert_eq!(world.answers_about(&full).await, world.answers_of_all(full.revision, None));
    });
}

/// The cluster has something else there.
#[test]
fn of_another_history_members_are_not_asked() {
    in_its_own_time(|| async {
        let mut world = World::with_a_delta(18).await;
        let (full, _) = world.with_a_full_and_more().await;
        world.cluster.restore_to(full.revision.0 - 10, true, 0);
        world.cluster.write(40);
        world.seal(SOON).await.unwrap();
        assert_ne!(world.lineage_of(0), full.lineage);
        let before = Timestamp::now();
        world.running().merged.want(full.clone());
        let mut standing = world.running().progress.standing();
        let asked = standing.wait_for(|told| told.answers.iter().any(|answer| answer.taken > before));
        drop(timeout(SOON, asked).await.expect("they are asked about what is sealed").unwrap());
        assert_eq!(world.running().merged.wanted(), Some(full));
    });
}
