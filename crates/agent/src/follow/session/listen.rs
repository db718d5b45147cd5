//! Listening to one member: what comes is gathered, and sealed when it is time.

use std::collections::BTreeSet;
use std::time::Duration;

use archive::Anchor;
use futures::FutureExt;
use futures::StreamExt;
use futures::future::{BoxFuture, pending};
use tokio::time::sleep_until;

use super::anchors::{self, Answers};
use super::*;
use crate::follow::base::Base;
use crate::follow::choose::lags;
use crate::follow::live::{Seen, Watching};
use crate::follow::merged::MergedFull;
use crate::follow::{LONGEST_FULL_PAUSE, LOOK_EVERY};

/// What goes on beside listening.
struct Beside<'a> {
    /// When what is gathered has to be sealed.
    due: Option<Instant>,
    /// How many sealed deltas wait for the store.
    waiting: usize,
    /// When members are asked for hashes again.
    anchor_at: Option<Instant>,
    /// What they answer, and the merged full because of which they were asked, if it was one.
    anchoring: Option<BoxFuture<'a, (Option<MergedFull>, Answers)>>,
    /// When members are asked again how they are.
    look_at: Instant,
    /// How long is waited after the next look.
    look_pause: Duration,
    looking: Option<BoxFuture<'a, Result<Sight, Trouble>>>,
    full: Option<BoxFuture<'a, Result<Base, BaseError>>>,
    /// When a full that is lacking is taken again, after one that did not do.
    full_at: Option<Instant>,
    /// How long is waited after the next that does not do.
    full_pause: Duration,
    /// When the member is asked for users and roles, though nothing is sealed.
    users_at: Instant,
    /// Whether the store takes what is sealed: while it does not, a full is no use.
    store_takes: bool,
    /// Who waits for everything up to a revision to be delivered.
    wants_seal: order::Waiting,
}

impl Beside<'_> {
    /// Members are asked for hashes as soon as there is nothing later in between, if they are at all.
    fn anchor_soon(&mut self, follower: &Follower) {
        self.anchor_at = follower.rhythm.anchor_every.map(|_| Instant::now());
    }
}

/// What came while nobody listened is sealed so soon: it has waited for long enough.
const CAUGHT_UP_WITHIN: Duration = Duration::from_millis(500);
/// How long is waited after a full that did not do, before the next is taken: each reads all of etcd.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// How soon members are asked again after the first look: what they told before anybody wrote is old at once. Each pause is twice as
/// long as the last.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How often the member is asked for users and roles, though nothing is sealed.
const USERS_EVERY: Duration = Duration::from_secs(60);

impl Session {
    /// Follows the member that is best now, until it is told to stop or something breaks.
    pub(super) async fn watch_one(
        &mut self,
        follower: &Follower,
        orders: &mut mpsc::Receiver<Order>,
        stop: &mut Stop,
        delivered: watch::Receiver<Delivered>,
    ) -> Result<(), SessionError> {
        let sight = follower.look().await?;
        let avoided = follower.progress.distrusted().into_iter().chain(self.avoided);
        let member = choose(&sight, Some(self.plan.member), avoided)?;
        self.plan.member = member;
        self.told.see(&sight);
        let watching = follower.live.watch(member, self.line.reached().next()).await?;
        self.require_same_history(follower).await?;
        self.begins_to_hear();
        let name = sight.members.iter().find(|one| one.id == member).map(called);
        follower.progress.tell(|told| told.member = name);
        follower.progress.does(if self.is_founded() { Doing::Following } else { Doing::TakingFull });
        if delivered.borrow().waiting.is_none() {
            follower.progress.clear();
        }
        let mut beside = Beside {
            due: Some(Instant::now() + follower.rhythm.seal_after.min(CAUGHT_UP_WITHIN)),
            waiting: 0,
            anchor_at: None,
            anchoring: None,
            look_at: Instant::now() + FIRST_LOOK,
            look_pause: FIRST_LOOK * 2,
            looking: None,
            full: None,
            full_at: None,
            full_pause: FULL_PAUSE,
            users_at: Instant::now(),
            store_takes: delivered.borrow().waiting.is_none(),
            wants_seal: order::Waiting::default(),
        };
        beside.anchor_soon(follower);
        self.begin_full_if_lacking(follower, &mut beside);
        let heard = self.listen(follower, watching, &mut beside, orders, stop, delivered).await;
        let why = match &heard {
            Ok(()) => "the agent stops".into(),
            Err(error) => in_one_line(error),
        };
        beside.wants_seal.refuse(&why);
        heard
    }

    async fn listen<'a>(
        &mut self,
        follower: &'a Follower,
        mut watching: Watching,
        beside: &mut Beside<'a>,
        orders: &mut mpsc::Receiver<Order>,
        stop: &mut Stop,
        mut delivered: watch::Receiver<Delivered>,
    ) -> Result<(), SessionError> {
        let mut fill = follower.spool.fill();
        let (mut merged, mut mending) = (follower.merged.changes(), follower.mending.changes());
        let silence = follower.rhythm.silence;
        let mut silent_at = Instant::now() + silence;
        let far = Instant::now() + Duration::from_secs(1 << 30);
        loop {
            let has_room = fill.borrow_and_update().has_room(follower.rhythm.spool_bytes);
            beside.waiting = fill.borrow().objects;
            tokio::select! {
                seen = watching.next(), if has_room => {
                    self.hear(seen, &mut watching, follower, beside).await?;
                    silent_at = Instant::now() + silence;
                }
                () = sleep_until(beside.due.unwrap_or(far)) => self.seal_now(follower, beside).await?,
                () = sleep_until(silent_at), if has_room => {
                    let why = format!("it has said nothing for {} s", silence.as_secs());
                    return Err(Trouble::Away { place: format!("{:x}", self.plan.member), why }.into());
                }
                changed = delivered.changed() => {
                    if changed.is_ok() {
                        let now = delivered.borrow_and_update().clone();
                        self.tell_delivered(&now, follower, beside).await?;
                    }
                }
                _ = fill.changed() => {
                    silent_at = Instant::now() + silence;
                    let soon = Instant::now() + follower.rhythm.seal_within(fill.borrow().objects);
                    beside.due = beside.due.map(|due| due.min(soon));
                }
                Some(order) = orders.recv() => self.take_order(order, follower, beside).await?,
                () = sleep_until(beside.anchor_at.unwrap_or(far)), if self.segment.is_empty() && beside.anchoring.is_none() => {
                    self.begin_anchoring_if_due(follower, beside);
                }
                _ = merged.changed() => {
                    if follower.merged.wanted().is_some() {
                        beside.anchor_soon(follower);
                    }
                }
                _ = mending.changed() => {
                    if follower.mending.is_whole() && !self.told.lacks_full() {
                        beside.full_pause = FULL_PAUSE;
                    }
                    self.begin_full_if_lacking(follower, beside);
                }
                answers = done(&mut beside.anchoring) => self.take_answers(answers, follower)?,
                () = sleep_until(beside.look_at), if beside.looking.is_none() => {
                    beside.looking = Some(follower.look().boxed());
                }
                sight = done(&mut beside.looking) => self.take_sight(sight, beside)?,
                () = sleep_until(beside.users_at) => self.ask_for_users(follower, beside).await,
                () = sleep_until(beside.full_at.unwrap_or(far)) => {
                    beside.full_at = None;
                    self.begin_full_if_lacking(follower, beside);
                }
                base = done(&mut beside.full) => self.take_full(base, beside, follower),
                () = stop.told() => {
                    return self.seal(follower).await;
                }
            }
        }
    }

    /// Hears `first` and what has come behind it by now: a member that is written to says one thing to the transaction, and
    /// going round for each would cost more than the thing itself.
    async fn hear<'a>(
        &mut self,
        first: Option<Result<Seen, Trouble>>,
        watching: &mut Watching,
        follower: &'a Follower,
        beside: &mut Beside<'a>,
    ) -> Result<(), SessionError> {
        let now = Timestamp::now();
        let mut next = Some(first);
        let mut is_whole = false;
        while let Some(seen) = next {
            let ended = || Trouble::Away { place: format!("{:x}", self.plan.member), why: "it ended the watch".into() };
            let seen = seen.ok_or_else(ended)??;
            self.silent_since = None;
            self.line.take(&seen, &mut self.segment, now)?;
            self.has_heard();
            is_whole = !seen.is_partial && seen.revision == self.line.reached();
            let is_full = self.segment.size_bytes() >= follower.rhythm.seal_bytes;
            next = if is_full { None } else { watching.next().now_or_never() };
        }
        if is_whole {
            let mark = Mark { revision: self.line.reached(), seen: now };
            follower.progress.tell(|told| told.seen = Some(mark));
        }
        self.found(follower, beside).await?;
        if self.segment.is_empty() {
            return Ok(());
        }
        if beside.due.is_none() {
            beside.due = Some(Instant::now() + follower.rhythm.seal_within(beside.waiting));
        }
        let is_asked = beside.wants_seal.is_any(self.sealed.next()..=self.line.reached());
        if is_asked || self.segment.size_bytes() >= follower.rhythm.seal_bytes {
            self.seal_now(follower, beside).await?;
        }
        Ok(())
    }

    /// Seals what is whole, and begins what hangs on that.
    async fn seal_now<'a>(&mut self, follower: &'a Follower, beside: &mut Beside<'a>) -> Result<(), SessionError> {
        self.seal(follower).await?;
        let within = follower.rhythm.seal_within(beside.waiting);
        beside.due = (!self.segment.is_empty()).then(|| Instant::now() + within);
        self.begin_full_if_lacking(follower, beside);
        self.begin_anchoring_if_due(follower, beside);
        Ok(())
    }

    /// Asks members for the hash of what is sealed: there is nothing later in between, be it because it was sealed just now, or
    /// because nobody writes. A full that was merged of it comes first, at its own revision.
    fn begin_anchoring_if_due<'a>(&self, follower: &'a Follower, beside: &mut Beside<'a>) {
        if beside.anchor_at.is_some_and(|at| at <= Instant::now()) && beside.anchoring.is_none() {
            beside.anchor_at = follower.rhythm.anchor_every.map(|every| Instant::now() + every);
            let sight = follower.progress.sight();
            let (live, sealed) = (Arc::clone(&follower.live), self.sealed);
            // The same revision of another history is another state.
            let full = follower.merged.wanted().filter(|full| full.lineage == self.plan.lineage);
            let span = tracing::info_span!("anchor", revision = full.as_ref().map_or(sealed, |full| full.revision).0);
            let asking = async move {
                let answers = match &full {
                    Some(full) => anchors::ask_about_full(&*live, sight, full, sealed).await,
                    None => anchors::ask(&*live, sight, sealed).await,
                };
                (full, answers)
            };
            beside.anchoring = Some(asking.instrument(span).boxed());
        }
    }

    /// Notes how the members are. Whether one can be followed, its watch tells, but for one that has fallen behind: that tells
    /// nothing that is wrong.
    fn take_sight(&mut self, sight: Result<Sight, Trouble>, beside: &mut Beside<'_>) -> Result<(), SessionError> {
        beside.look_at = Instant::now() + beside.look_pause;
        beside.look_pause = (beside.look_pause * 2).min(LOOK_EVERY);
        match sight {
            Ok(sight) => {
                self.told.see(&sight);
                if lags(&sight, self.plan.member) {
                    let why = "it has fallen behind the others".into();
                    return Err(Trouble::Away { place: format!("{:x}", self.plan.member), why }.into());
                }
            }
            Err(trouble) => tracing::debug!(%trouble, "no member tells how it is"),
        }
        Ok(())
    }

    /// Users and roles change without a revision, so it may be that nothing is sealed that tells of them.
    async fn ask_for_users<'a>(&mut self, follower: &'a Follower, beside: &mut Beside<'a>) {
        self.told.ask_for_users(&*follower.live, self.plan.member).await;
        beside.users_at = Instant::now() + USERS_EVERY;
        self.begin_full_if_lacking(follower, beside);
    }

    fn begin_full_if_lacking<'a>(&self, follower: &'a Follower, beside: &mut Beside<'a>) {
        let Some(why) = self.why_full_is_lacking(follower) else {
            follower.progress.full_lacks_no_more();
            return;
        };
        if beside.store_takes && beside.full.is_none() && beside.full_at.is_none() {
            tracing::info!(why, "a full from etcd is needed");
            beside.full = Some(self.begin_full(follower));
        }
    }

    fn why_full_is_lacking(&self, follower: &Follower) -> Option<String> {
        if !self.is_founded() {
            return None;
        }
        let users = || "no full has the users and roles that there are now".to_owned();
        self.told.lacks_full().then(users).or_else(|| follower.mending.wants_full(&self.plan.lineage))
    }

    fn begin_full<'a>(&self, follower: &'a Follower) -> BoxFuture<'a, Result<Base, BaseError>> {
        let plan = self.plan.clone();
        let whom = follower.progress.askable();
        async move {
            let taking = plan.take(&whom, &*follower.live, &follower.home, Timestamp::now());
            follower.progress.full_taken(taking).await
        }
        .boxed()
    }

    async fn take_order<'a>(
        &mut self,
        order: Order,
        follower: &'a Follower,
        beside: &mut Beside<'a>,
    ) -> Result<(), SessionError> {
        let wanted = match follower.live.current(self.plan.member).await {
            Ok(current) => current,
            Err(trouble) => {
                order.refuse(&trouble.to_string());
                return Ok(());
            }
        };
        beside.wants_seal.add(wanted, order);
        if wanted <= self.line.reached() {
            self.seal_now(follower, beside).await?;
        }
        if !self.is_founded() {
            return Ok(());
        }
        // It may be there already.
        let last = follower.progress.standing().borrow().sealed.map(|mark| mark.revision);
        self.answer_up_to(last.unwrap_or_default(), follower, beside).await
    }

    /// Answers whoever waits for no more than what is delivered. What came of a cluster that has become another meanwhile is
    /// not what they asked for.
    async fn answer_up_to(
        &self,
        delivered: Revision,
        follower: &Follower,
        beside: &mut Beside<'_>,
    ) -> Result<(), SessionError> {
        if beside.wants_seal.is_any(..=delivered) {
            self.require_same_history(follower).await?;
            beside.wants_seal.answer(delivered);
        }
        Ok(())
    }

    async fn tell_delivered<'a>(
        &mut self,
        delivered: &Delivered,
        follower: &'a Follower,
        beside: &mut Beside<'a>,
    ) -> Result<(), SessionError> {
        if let Some(base) = &delivered.base {
            self.see_base(base);
            self.found(follower, beside).await?;
        }
        beside.store_takes = delivered.waiting.is_none();
        self.begin_full_if_lacking(follower, beside);
        match &delivered.waiting {
            Some(why) => follower.progress.trouble(why.clone(), Some(Doing::WaitingForStore)),
            None => follower.progress.clear(),
        }
        if let Some(last) = &delivered.last {
            follower.progress.sealed_up_to(Mark { revision: last.to, seen: last.seen.1 });
            self.answer_up_to(last.to, follower, beside).await?;
        }
        Ok(())
    }

    /// Founds the lineage, if that can be done by now.
    async fn found(&mut self, follower: &Follower, beside: &mut Beside<'_>) -> Result<(), SessionError> {
        let Some(mark) = self.found_if_reached(follower).await? else { return Ok(()) };
        self.tell_its_lineage(follower);
        follower.progress.tell(|told| told.sealed = Some(mark));
        follower.progress.does(Doing::Following);
        // What members have at what is sealed next is what it is compared with.
        beside.anchor_soon(follower);
        self.answer_up_to(mark.revision, follower, beside).await
    }

    /// Notes what members answered. One that has something else than most is not followed any longer.
    fn take_answers(
        &mut self,
        (full, answers): (Option<MergedFull>, Answers),
        follower: &Follower,
    ) -> Result<(), SessionError> {
        let Answers { anchors, differing, vote } = answers;
        let is_followed = vote.outvoted.contains(&self.plan.member);
        // What is restored is held against what the archive tells of their answers: that has to be what was written.
        let sight = follower.progress.sight();
        let right: BTreeSet<String> =
            sight.members.iter().filter(|member| vote.right.contains(&member.id)).map(called).collect();
        let is_disputed = differing.is_some();
        let believed = anchors.iter().filter(|anchor| !is_disputed || right.contains(&anchor.member));
        self.told.anchor(believed.cloned());
        if let Some(differing) = &differing {
            tracing::error!(differing, "members do not have the same");
        }
        // The next delta tells of them; until there is one, whoever compares hears of them from here.
        follower.progress.tell(|told| {
            let is_after = |known: &Anchor| anchors.iter().any(|anchor| anchor.revision < known.revision);
            if told.answers.iter().any(is_after) {
                // What was said of something later still holds.
                told.differing = differing.or(told.differing.take());
            } else {
                (told.differing, told.answers) = (differing, anchors.clone());
                told.outvoted.retain(|member| !vote.right.contains(member));
            }
            told.outvoted.extend(vote.outvoted);
        });
        // Where nobody has said anything, members are asked about it again when they are asked next.
        if let Some(full) = full.filter(|_| !anchors.is_empty()) {
            follower.merged.answer(&full, anchors);
        }
        match is_followed {
            true => {
                let why = "most of the others have something else".into();
                Err(Trouble::Away { place: format!("{:x}", self.plan.member), why }.into())
            }
            false => Ok(()),
        }
    }

    fn take_full(&mut self, base: Result<Base, BaseError>, beside: &mut Beside<'_>, follower: &Follower) {
        let lineage = &self.plan.lineage;
        let why = self.why_full_is_lacking(follower);
        // Whether it was of use shows when somebody looks again.
        let is_enough = match base {
            Ok(base) => {
                self.told.see_full(base.auth);
                follower.progress.full_lacks_no_more();
                // What members have at what is sealed next is what it is compared with.
                beside.anchor_soon(follower);
                let mends = follower.mending.wants_full(lineage).is_some();
                if mends {
                    let full = MergedFull { lineage: lineage.clone(), revision: base.revision };
                    follower.mending.mended(full.clone());
                    follower.merged.want(full);
                }
                !mends && !self.told.lacks_full()
            }
            Err(error) => {
                let why = why.map(|why| format!("{why}: ")).unwrap_or_default();
                follower.progress.full_failed(error.kind(), format!("{why}{}", in_one_line(&error)), error.remedy());
                false
            }
        };
        if !is_enough {
            beside.full_at = Some(Instant::now() + beside.full_pause);
            beside.full_pause = (beside.full_pause * 2).min(LONGEST_FULL_PAUSE);
        } else {
            beside.full_pause = FULL_PAUSE;
        }
    }
}

/// What goes on beside, when it is done; for ever if nothing does.
async fn done<T>(asked: &mut Option<BoxFuture<'_, T>>) -> T {
    let answer = match asked {
        Some(asked) => asked.await,
        None => pending().await,
    };
    *asked = None;
    answer
}
