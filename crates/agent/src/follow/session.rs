//! From the right to write to its loss: stand where the archive ends, watch, seal, deliver.

pub(crate) mod anchors;
mod founding;
mod left_over;
mod listen;
mod recall;

use std::sync::Arc;
use std::time::Duration;

use archive::about::LineageNote;
use archive::error::in_one_line;
use archive::header::{FORMAT, Link, PROGRAM};
use archive::plan::{Parent, Target, Wanted};
use archive::point::At;
use archive::tip::Tip;
use archive::{Epoch, Error, Header, LineageId};
use etcd_data::records::TailRecord;
use etcd_data::{Kind, Revision};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::Instrument;

use crate::follow::base::{Base, BaseError, BasePlan};
use crate::follow::choose::{Nobody, called, choose};
use crate::follow::closing_facts::ClosingFacts;
use crate::follow::deliver::{Delivered, Undelivered, deliver};
use crate::follow::line::{Break, Line};
use crate::follow::live::{Auth, Live, Sight, Trouble};
use crate::follow::order::{self, Order};
use crate::follow::progress::{Doing, Mark};
use crate::follow::resume::{ForeignCluster, Resume, ResumeError, resume, tells};
use crate::follow::segment::Segment;
use crate::follow::{Follower, LONGEST_FULL_PAUSE, LONGEST_PAUSE};
use crate::home::Home;
use crate::stop::Stop;
use founding::Founding;

/// How a session ended.
#[derive(Debug)]
pub enum End {
    /// It was told to stop.
    Stopped,
    /// Somebody else writes, or has written.
    Overtaken,
    /// Something is in the way.
    Failed(SessionError),
}

/// What is in the way of following.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The cluster.
    #[error(transparent)]
    Live(#[from] Trouble),
    /// No member can be followed.
    #[error(transparent)]
    Nobody(#[from] Nobody),
    /// The archive.
    #[error(transparent)]
    Archive(#[from] Error),
    /// A full could not be taken.
    #[error(transparent)]
    Base(#[from] BaseError),
    /// How the archive goes on cannot be told.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// What a member tells cannot be.
    #[error(transparent)]
    Broken(#[from] Break),
    /// What was sealed cannot be delivered.
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
}

impl SessionError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Live(trouble) => trouble.kind(),
            Self::Nobody(_) => Kind::Unavailable,
            Self::Archive(error) => error.kind(),
            Self::Base(error) => error.kind(),
            Self::Resume(error) => error.kind(),
            Self::Broken(_) => Kind::Conflict,
            Self::Undelivered(error) => error.kind(),
        }
    }

    /// What a person can do, where waiting does not help.
    pub(crate) fn remedy(&self) -> Option<&str> {
        match self {
            Self::Live(trouble) | Self::Resume(ResumeError::Live(trouble)) => trouble.remedy(),
            Self::Base(error) => error.remedy(),
            Self::Resume(ResumeError::Stranger { .. }) => Some(
                "if this cluster takes the place of that one, --replaces says so; otherwise --cluster gives it a name of its own",
            ),
            Self::Nobody(_) | Self::Archive(_) | Self::Broken(_) | Self::Undelivered(_) => None,
            Self::Resume(ResumeError::Archive(_)) => None,
        }
    }

    /// What is waited for.
    pub(crate) fn waits_for(&self) -> Doing {
        match self {
            Self::Base(BaseError::Archive(_))
            | Self::Resume(ResumeError::Archive(_))
            | Self::Archive(_)
            | Self::Undelivered(_) => Doing::WaitingForStore,
            Self::Live(_) | Self::Nobody(_) | Self::Broken(_) | Self::Base(_) | Self::Resume(_) => {
                Doing::WaitingForEtcd
            }
        }
    }

    /// Whether it does not pass by waiting, though another agent may be able to write.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Resume(ResumeError::Stranger { .. })) || self.kind() == Kind::Denied
    }

    /// How long is waited at the most before it is tried again.
    pub(crate) fn longest_pause(&self) -> Duration {
        match self {
            Self::Base(error) if error.is_costly() => LONGEST_FULL_PAUSE,
            _ => LONGEST_PAUSE,
        }
    }

    /// Whether the cluster that was followed has become another, or gone back.
    pub(crate) fn shows_another_history(&self) -> bool {
        matches!(self, Self::Broken(Break::Behind { .. } | Break::OtherHistory { .. } | Break::OtherCluster { .. }))
    }
}

/// Following, by one right to write, one history.
pub struct Session {
    plan: BasePlan,
    line: Line,
    segment: Segment,
    /// What the next delta follows on. Nothing after a full from etcd, on which nothing needs to follow.
    link: Option<Link>,
    /// The last revision that is sealed, if only on this machine.
    sealed: Revision,
    /// The changes of that revision: who watches again compares them with what the cluster says of it.
    last: Vec<TailRecord>,
    told: ClosingFacts,
    avoided: Option<u64>,
    /// The lineage that it begins, as long as that has no full.
    founding: Option<Founding>,
    /// Since when nobody has told anything.
    silent_since: Option<Instant>,
}

/// How long what was sealed at the end may take to reach the store.
const LAST_DELIVERY: Duration = Duration::from_secs(10);

impl Session {
    /// Stands where the archive ends, or begins anew with a full.
    pub async fn begin(follower: &Follower, epoch: Epoch, foreign: ForeignCluster) -> Result<Self, SessionError> {
        let Follower { live, home, progress, .. } = follower;
        progress.does(Doing::Starting);
        follower.spool.settle().await;
        // One request that fails ends this, and then it is begun anew.
        let looking = home.recalling();
        let mut tip = looking.with(|archive, home| archive.tip(&home.scratch)).await?;
        if let Some(end) = &tip {
            forget_what_is_over(follower, end);
        }
        let left = left_over::sort_out(follower, tip.as_ref()).await?;
        if let Some(end) = tip.as_ref().filter(|_| left.is_next && !left.is_of_earlier) {
            let sealed = Mark { revision: end.revision, seen: end.seen };
            if let Some(session) = Self::go_on_after_spool(follower, epoch, sealed).await {
                return Ok(session);
            }
        }
        if left.is_next || left.is_of_earlier {
            left_over::deliver_all(follower, epoch).await?;
            tip = looking.with(|archive, home| archive.tip(&home.scratch)).await?;
        }
        let sight = follower.look().await?;
        let member = choose(&sight, None, None)?;
        let now = Timestamp::now();
        let (parent, why) = match resume(&**live, member, &sight, &looking, tip, foreign).await? {
            Resume::GoOn(tip) => {
                let sealed = Mark { revision: tip.revision, seen: tip.seen };
                return Self::go_on(follower, epoch, *tip, sealed, &sight, member).await;
            }
            Resume::NewLineage { parent, why } => (parent, why),
        };
        let note = new_lineage(&looking, parent, why, now).await?;
        let lineage = note.lineage.clone();
        follower.spool.forget_last();
        tracing::info!(%lineage, why = note.why, "a chain begins with a full from etcd");
        // What comes is captured from here on, and the full is of this revision or a later one: etcd does not wait with
        // compacting until it is there.
        let reached = live.current(member).await?;
        follower.spool.begin(&note.lineage)?;
        let plan = BasePlan { member, etcd_cluster: sight.cluster, lineage, epoch };
        let mut told = ClosingFacts::default();
        told.see(&sight);
        // What the archive has is of the history before, until the full is there.
        let seen = Mark { revision: reached, seen: Timestamp::now() };
        progress.tell(|told| (told.epoch, told.holder, told.seen) = (Some(epoch), None, Some(seen)));
        Ok(Self { founding: Some(Founding::of(note)), ..Self::after(plan, (reached, Vec::new()), None, told) })
    }

    /// Goes on after what waits in the spool, if the cluster has the same history there. Nothing if that does not show.
    async fn go_on_after_spool(follower: &Follower, epoch: Epoch, sealed: Mark) -> Option<Self> {
        let Follower { live, home, .. } = follower;
        let tip = left_over::tip(follower).await?;
        let sight = follower.look().await.ok()?;
        let (member, looking) = (choose(&sight, None, None).ok()?, home.recalling());
        match resume(&**live, member, &sight, &looking, Some(tip), ForeignCluster::Refuse).await.ok()? {
            Resume::GoOn(tip) => Self::go_on(follower, epoch, *tip, sealed, &sight, member).await.ok(),
            Resume::NewLineage { .. } => None,
        }
    }

    /// Goes on after `tip`; up to `sealed` the archive has everything.
    async fn go_on(
        follower: &Follower,
        epoch: Epoch,
        tip: Tip,
        sealed: Mark,
        sight: &Sight,
        member: u64,
    ) -> Result<Self, SessionError> {
        let mut told = ClosingFacts::by(&tip.closing);
        told.see_full(auth_in_full(&follower.home.recalling(), &tip.lineage, sealed.revision).await?);
        let plan = BasePlan { member, etcd_cluster: sight.cluster, lineage: tip.lineage, epoch };
        follower.progress.tell(|told| told.sealed = Some(sealed));
        Ok(Self::stand(follower, plan, (tip.revision, tip.changes), tip.link, told, sight))
    }

    fn stand(
        follower: &Follower,
        plan: BasePlan,
        (reached, last): (Revision, Vec<TailRecord>),
        link: Option<Link>,
        mut told: ClosingFacts,
        sight: &Sight,
    ) -> Self {
        told.see(sight);
        let session = Self::after(plan, (reached, last), link, told);
        session.tell_its_lineage(follower);
        session
    }

    /// Tells which history is written, of which the archive has all up to where this stands.
    fn tell_its_lineage(&self, follower: &Follower) {
        follower.mending.forget();
        let (epoch, lineage) = (self.plan.epoch, self.plan.lineage.clone());
        follower.progress.tell(|told| {
            (told.epoch, told.lineage, told.holder) = (Some(epoch), Some(lineage), None);
            told.uncaptured = None;
            // They may have been about another history.
            told.answers.clear();
        });
    }

    fn after(
        plan: BasePlan,
        (reached, last): (Revision, Vec<TailRecord>),
        link: Option<Link>,
        told: ClosingFacts,
    ) -> Self {
        let line = Line::after(plan.etcd_cluster, reached);
        Self {
            plan,
            line,
            segment: Segment::default(),
            link,
            sealed: reached,
            last,
            told,
            avoided: None,
            founding: None,
            silent_since: None,
        }
    }

    /// Follows until something ends it. What was sealed by then is delivered, if the store takes it in time.
    pub async fn run(&mut self, follower: &Follower, orders: &mut mpsc::Receiver<Order>, stop: &mut Stop) -> End {
        let (told, delivered) = watch::channel(Delivered::default());
        let (taking, epoch) = (self.taking(), self.plan.epoch);
        let delivering = async {
            if let Some(taking) = taking
                && let Err(end) = taking.found(follower, &told).await
            {
                return end;
            }
            let (right, metrics) = (follower.right.clone(), &*follower.progress.metrics);
            undelivered_end(follower, deliver(&follower.home, &follower.spool, epoch, right, &told, metrics).await)
        };
        let mut delivering = std::pin::pin!(delivering);
        let end = tokio::select! {
            end = &mut delivering => return end,
            end = self.watch(follower, orders, stop, delivered) => end,
        };
        let mut fill = follower.spool.fill();
        let emptied = async { fill.wait_for(|fill| fill.objects == 0).await.is_ok() };
        tokio::select! {
            _ = delivering => {}
            _ = emptied => {}
            () = tokio::time::sleep(LAST_DELIVERY) => {}
        }
        let last = told.borrow().last.clone();
        if let Some(last) = last {
            follower.progress.sealed_up_to(Mark { revision: last.to, seen: last.seen.1 });
        }
        end
    }

    /// Watches one member after the other.
    async fn watch(
        &mut self,
        follower: &Follower,
        orders: &mut mpsc::Receiver<Order>,
        stop: &mut Stop,
        delivered: watch::Receiver<Delivered>,
    ) -> End {
        let mut broken_in_a_row = 0;
        loop {
            let before = self.line.reached();
            let heard = self.watch_one(follower, orders, stop, delivered.clone()).await;
            if self.line.reached() > before {
                broken_in_a_row = 0;
            }
            let error = match heard {
                Ok(()) => return End::Stopped,
                Err(error) => error,
            };
            self.line.rewind(&mut self.segment);
            self.avoided = Some(self.plan.member);
            broken_in_a_row += 1;
            follower.progress.failed(&error);
            let is_passing = match &error {
                SessionError::Live(Trouble::Away { .. }) | SessionError::Nobody(_) => {
                    self.silent_since.get_or_insert_with(Instant::now).elapsed() < LOST_AFTER
                }
                SessionError::Broken(Break::Gap { .. } | Break::Back { .. }) => broken_in_a_row < BROKEN_IN_A_ROW,
                _ => false,
            };
            if !is_passing {
                // What came before it is as good as ever.
                return match self.seal(follower).await {
                    Ok(()) => End::Failed(error),
                    Err(sealing) => End::Failed(sealing),
                };
            }
            if let Err(error) = self.seal(follower).await {
                return End::Failed(error);
            }
            // A member that dropped the watch is watched again at once, and most often that was all.
            if broken_in_a_row > 1 {
                follower.progress.does(Doing::WaitingForEtcd);
            }
            let pause = PAUSE * broken_in_a_row.min(20);
            if order::refuse_during(pause, orders, &in_one_line(&error), stop).await.is_break() {
                return End::Stopped;
            }
        }
    }

    /// Requires that the cluster has the last revision as it was seen. A member that was restored may have come as far again
    /// with something else, under the same name and id. The watch that goes on after it is open already, so nobody can
    /// be put in its place in between.
    async fn require_same_history(&self, follower: &Follower) -> Result<(), SessionError> {
        let at = self.line.reached();
        let found = follower.live.current(self.plan.member).await?;
        if found < at {
            return Err(Break::Behind { after: at, found }.into());
        }
        let seen = match self.segment.revisions() {
            Some((first, _)) if first <= at => self.segment.changes_of(at),
            _ => self.last.clone(),
        };
        match tells(&*follower.live, self.plan.member, at, &seen).await? {
            // An etcd that is new has no changes yet, and of what was compacted away there is nothing to compare.
            Some(true) | None => Ok(()),
            Some(false) => Err(Break::OtherHistory { at }.into()),
        }
    }

    /// Seals what is whole. Nothing if there is nothing.
    async fn seal(&mut self, follower: &Follower) -> Result<(), SessionError> {
        let rest = self.segment.split_after(self.line.reached());
        let segment = std::mem::replace(&mut self.segment, rest);
        let (Some((from, to)), Some(seen)) = (segment.revisions(), segment.seen()) else { return Ok(()) };
        let last = segment.changes_of(to);
        if let Some(trouble) = self.told.ask(&*follower.live, self.plan.member, &segment).await {
            tracing::warn!(%trouble, "leases and compactions are told as they were");
        }
        let now = Timestamp::now();
        let base = self.plan.header(&follower.home.cluster, now);
        let header = Header { from, to, seen, follows: self.link, ..base };
        let closing = self.told.closing(&segment);
        let (home, spool) = (follower.home.clone(), Arc::clone(&follower.spool));
        let span = tracing::info_span!("seal", from = from.0, to = to.0);
        let sealing = move || {
            let writing = home.writing(now).map_err(Error::from);
            (writing.and_then(|writing| spool.seal(header, &segment, closing, &writing)), segment)
        };
        let (written, segment) = follower.spool.sealer().run(sealing).instrument(span).await;
        self.segment = segment.reused_for(&self.segment);
        self.link = Some(written?.link);
        follower.progress.metrics.sealed(now.duration_since(seen.0).try_into().unwrap_or_default());
        (self.sealed, self.last) = (to, last);
        Ok(())
    }
}

/// How often in a row a member may tell what cannot be, before everything begins anew.
const BROKEN_IN_A_ROW: u32 = 5;
/// How long nobody may tell anything, before the right to write is no use here.
const LOST_AFTER: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

fn undelivered_end(follower: &Follower, undelivered: Undelivered) -> End {
    match undelivered {
        Undelivered::Overtaken => End::Overtaken,
        Undelivered::Damaged { sealed, .. } => {
            // etcd still has it, so it is seen again.
            let damaged = follower.spool.all().into_iter().skip_while(|kept| kept.name != sealed.name);
            match damaged.into_iter().try_for_each(|kept| follower.spool.remove(&kept)) {
                Ok(()) => End::Overtaken,
                Err(error) => End::Failed(error.into()),
            }
        }
        Undelivered::Taken { .. } | Undelivered::Archive(_) => End::Failed(undelivered.into()),
    }
}

/// Forgets what was delivered last from here, where another one has written since.
fn forget_what_is_over(follower: &Follower, end: &Tip) {
    let is_over = |last: &Header| last.lineage != end.lineage || last.epoch < end.epoch;
    if follower.spool.last().is_some_and(|(last, _)| is_over(&last.header)) {
        follower.spool.forget_last();
    }
}

/// The users and roles of the full that leads to `end` of `lineage`, if that can be read: whoever has nothing but a public
/// key follows all the same, and so does who finds it damaged. A merged one has those of the full that it was made of,
/// whatever it tells at its end.
async fn auth_in_full(home: &Home, lineage: &LineageId, end: Revision) -> Result<Option<Auth>, Error> {
    let wanted = Wanted { lineage: Some(lineage.clone()), target: Target::Revision(end) };
    let found = home.with(move |archive, home| {
        let agreed = archive.agree(&wanted, &At::Revision(end), &home.scratch)?;
        Ok(Auth::of(archive.open_in_place(&agreed)?.database.tables()))
    });
    match found.await {
        Err(error) if error.kind() != Kind::Unavailable => {
            tracing::warn!(why = in_one_line(&error), "which users the newest full has is not known");
            Ok(None)
        }
        found => found,
    }
}

/// What tells of a lineage that is yet to begin, from `parent` if it comes from there.
pub(crate) async fn new_lineage(
    home: &Home,
    parent: Option<Parent>,
    why: String,
    now: Timestamp,
) -> Result<LineageNote, SessionError> {
    // It comes after every other, also after one that began in this second, or by a clock that was ahead.
    let newest = home.with(|archive, _| {
        let lineages = archive.catalogue().histories.iter().filter_map(|history| history.lineage.as_ref()?.began());
        Ok(lineages.max())
    });
    let after = newest.await?.and_then(|newest| newest.checked_add(SignedDuration::from_secs(1)).ok());
    let lineage = LineageId::new(after.map_or(now, |after| after.max(now)), rand::random());
    Ok(LineageNote { format: FORMAT, lineage, parent, began: now, why, program: PROGRAM.into() })
}
