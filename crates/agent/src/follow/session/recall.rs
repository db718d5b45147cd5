//! Standing where the spool ends, without the archive: by what this machine delivered last, or has not delivered yet.

use super::*;

impl Session {
    /// Stands there, if the cluster shows that it has the same history there. Nothing if the spool does not tell where it
    /// ends.
    pub(in crate::follow) async fn recall(follower: &Follower) -> Result<Option<Self>, SessionError> {
        let Follower { live, spool, progress, .. } = follower;
        spool.settle().await;
        let Some(tip) = left_over::tip(follower).await else { return Ok(None) };
        let sight = follower.look().await?;
        let member = choose(&sight, None, None)?;
        require_history(&**live, member, &sight, &tip).await?;
        let sealed = spool.last().map(|(last, _)| Mark { revision: last.header.to, seen: last.header.seen.1 });
        progress.tell(|told| told.sealed = told.sealed.or(sealed));
        let plan = BasePlan { member, etcd_cluster: sight.cluster, lineage: tip.lineage, epoch: tip.epoch };
        let mut told = ClosingFacts::by(&tip.closing);
        told.see(&sight);
        Ok(Some(Self::after(plan, (tip.revision, tip.changes), tip.link, told)))
    }

    /// Watches and seals, and delivers nothing: until it is told to stop, or what came after what is sealed cannot be had
    /// any more.
    pub(in crate::follow) async fn watch_meanwhile(mut self, follower: &Follower, mut stop: Stop) -> End {
        // What is asked for is answered by whoever waits for the right to write.
        let (_nobody, mut orders) = mpsc::channel(1);
        let waiting = Some("the right to write is waited for".to_owned());
        let (_told, delivered) = watch::channel(Delivered { waiting, ..Delivered::default() });
        self.watch(follower, &mut orders, &mut stop, delivered).await
    }
}

/// Requires that the cluster is the one that `tip` is of, and has it. With the archive, what a cluster has in common with it
/// can be looked for further back, and a full can be taken; without it, only what is certain is gone on from.
async fn require_history(live: &dyn Live, member: u64, sight: &Sight, tip: &Tip) -> Result<(), SessionError> {
    let (at, found) = (tip.revision, live.current(member).await?);
    let was = tip.closing.etcd_cluster.as_deref().and_then(|id| u64::from_str_radix(id, 16).ok());
    if let Some(was) = was.filter(|was| *was != sight.cluster) {
        return Err(Break::OtherCluster { was, found: sight.cluster }.into());
    }
    if found < at {
        return Err(Break::Behind { after: at, found }.into());
    }
    match tells(live, member, at, &tip.changes).await? {
        Some(true) => Ok(()),
        Some(false) => Err(Break::OtherHistory { at }.into()),
        None => Err(Trouble::Compacted { from: Some(at.next()) }.into()),
    }
}
