//! A plan that its objects agree with.
//!
//! Plans are made of names. Here the objects are opened, and asked: a full may reach further than its name says, an
//! object may be damaged, gone, or not what it seems. What is learned goes into the next plan, until one stands. What had
//! to be set aside on the way is told, because a person has to look at it. A store that does not answer ends it:
//! nothing is ever taken for missing because it could not be asked.
//!
//! What objects say of their writers is compared with `writer.json`, where that decides what counts of them: see
//! [`crate::plan`]. `culprit` tells which object is to blame when what was opened cannot be read.

pub(crate) mod culprit;
mod opening;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use etcd_data::tables::TableFault;
use etcd_data::view::Horizon;
use etcd_data::{Database, Kind, Revision};
use jiff::Timestamp;
use store::Key;

use crate::archive::Archive;
use crate::catalogue::History;
use crate::entry::{Entry, Layout};
use crate::error::{Error, ObjectError, SnapshotError, is_its_own, reason};
use crate::identity::LineageId;
use crate::layout::etcdbrctl::lacks_leases;
use crate::object::Object;
use crate::plan::{
    Contradiction, Fault, FullFacts, Known, PlanError, Remark, RestorePlan, Target, Told, Wanted, perhaps,
    remark_on_lineage,
};
use crate::point::{Answer, At, Covered, Step, TimeSearch};

pub(crate) use opening::Opened;
use opening::{is_of_this_machine, open, open_several};

/// A plan whose objects are open, and are what it takes them for.
pub struct Agreed {
    /// The plan.
    pub plan: RestorePlan,
    /// Whether that is all there was at the moment that was asked for, if one was.
    pub covered: Covered,
    /// What could not be used, and why.
    pub set_aside: Vec<(Key, String)>,
    /// Of those, the ones whose bytes contradict the format. Others may be there or be understood another time.
    pub(crate) damaged: BTreeSet<Key>,
    pub(crate) objects: BTreeMap<Key, Opened>,
}

impl Archive {
    /// Chooses what leads to the point `at`, of `history` and those before it if it is given, and opens it.
    /// What has to be on this machine is kept in the folder `scratch`.
    pub fn agree(&self, wanted: &Wanted, at: &At, scratch: &Path) -> Result<Agreed, Error> {
        self.agree_without(wanted, at, scratch, Vec::new())
    }

    /// Chooses and opens what leads to the point `at` without the objects in `set_aside`, which have been found to be of
    /// no use, and why.
    pub fn agree_without(
        &self,
        wanted: &Wanted,
        at: &At,
        scratch: &Path,
        set_aside: Vec<(Key, String)>,
    ) -> Result<Agreed, Error> {
        let without: BTreeSet<Key> = set_aside.iter().map(|(key, _)| key.clone()).collect();
        let unread = self.unread.iter().filter(|(key, _)| !without.contains(key));
        let unread = unread.map(|(key, error)| (key.clone(), reason(error)));
        let set_aside = set_aside.into_iter().chain(unread).collect();
        let mut desk = Desk {
            archive: self,
            scratch,
            known: Known { parents: self.parents.clone(), without, ..Known::default() },
            objects: BTreeMap::new(),
            set_aside,
            damaged: BTreeSet::new(),
            newer: self.unread.iter().filter(|(_, error)| error.is_of_newer()).map(|(key, _)| key.clone()).collect(),
            suspects: BTreeMap::new(),
        };
        let (LookedUp { covered, lineage, .. }, mut plan) = desk.find(wanted, at)?;
        if wanted.lineage.is_none() && lineage.is_some() {
            // That it was found in an older one is nothing that the person asked for.
            let newest = self.catalogue().histories.last().and_then(|history| history.lineage.as_ref());
            remark_on_lineage(&mut plan, newest, &desk.known);
        }
        plan.remarks.extend(self.marks_untold.get().map(|why| Remark::MarksUntold { why: why.clone() }));
        let Desk { objects, set_aside, damaged, .. } = desk;
        let mut agreed = Agreed { plan, covered, set_aside, damaged, objects };
        self.remark_on_the_open(&mut agreed)?;
        Ok(agreed)
    }

    /// Opens what `plan` reads, and requires that it is what the plan takes it for.
    pub(crate) fn stand(&self, plan: &RestorePlan, scratch: &Path) -> Result<Agreed, Error> {
        let objects = self.open_entries(plan.to_confirm(), scratch)?;
        if let Some(contradiction) = self.contradiction(plan, &objects)? {
            return Err(contradiction.into());
        }
        let (set_aside, damaged) = Default::default();
        Ok(Agreed { plan: plan.clone(), covered: Covered::Exactly, set_aside, damaged, objects })
    }

    /// What of `objects` is not what `plan` takes it for. Other systems' do not say what they are. Which epochs were handed
    /// out is asked for where it decides something.
    fn contradiction(
        &self,
        plan: &RestorePlan,
        objects: &BTreeMap<Key, Opened>,
    ) -> Result<Option<Contradiction>, Error> {
        let Some(cluster) = self.cluster() else { return Ok(None) };
        let told = told(objects);
        let telling = |key: &Key| told.get(key);
        let chain = plan.chain();
        let last = if chain.is_contested(cluster, telling, []) { self.last_epoch()? } else { None };
        Ok(chain.confirm(cluster, telling, [], last).err())
    }
}

/// What is being worked with until a plan stands.
struct Desk<'a> {
    archive: &'a Archive,
    scratch: &'a Path,
    known: Known,
    objects: BTreeMap<Key, Opened>,
    set_aside: Vec<(Key, String)>,
    /// Those of them whose bytes contradict the format.
    damaged: BTreeSet<Key>,
    /// Those of them that a newer version may understand.
    newer: BTreeSet<Key>,
    /// What is done without because something that comes after it does not follow on it, by what comes after.
    suspects: BTreeMap<Key, Vec<Key>>,
}

/// What is to be planned for.
struct LookedUp {
    target: Target,
    covered: Covered,
    /// The history in which a moment was found: the same revision of another one is another state.
    lineage: Option<LineageId>,
}

/// What could not be used, and why, for people.
pub fn in_words(set_aside: &[(Key, String)]) -> impl Iterator<Item = String> {
    set_aside.iter().map(|(key, why)| format!("{key} is of no use: {why}"))
}

impl Agreed {
    /// Whether it is less than what was asked for: later changes are or were there, and nothing leads to them.
    pub fn falls_short(&self) -> bool {
        self.plan.falls_short() || self.covered.is_short()
    }

    /// What a person should know about how the point was found.
    pub fn notes(&self) -> Vec<String> {
        let covered = self.covered.note(self.plan.target);
        in_words(&self.set_aside).chain(covered).chain(self.plan.remarks.iter().map(Remark::to_string)).collect()
    }
}

impl Desk<'_> {
    /// What is to be planned for, and the plan. Where no plan leads to what was found for a moment, because of something that
    /// turned out to be of no use just then, the moment is looked up without that.
    fn find(&mut self, wanted: &Wanted, at: &At) -> Result<(LookedUp, RestorePlan), Error> {
        loop {
            let found = self.look_up(wanted, at)?;
            let lineage = wanted.lineage.clone().or_else(|| found.lineage.clone());
            let before = self.known.without.len();
            match self.settle(&Wanted { target: found.target.clone(), lineage }) {
                Ok(plan) => return Ok((found, plan)),
                Err(Error::NothingLeft { .. }) if matches!(at, At::Time(_)) && before < self.known.without.len() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What is to be planned for: a moment is looked up, in the newest history that had begun by then.
    fn look_up(&mut self, wanted: &Wanted, at: &At) -> Result<LookedUp, Error> {
        let At::Time(time) = at else {
            let target = at.target().unwrap_or_default();
            return Ok(LookedUp { target, covered: Covered::Exactly, lineage: None });
        };
        let archive = self.archive;
        let histories = archive.catalogue().histories.iter().rev();
        let meant = |history: &&History| wanted.lineage.is_none() || history.lineage == wanted.lineage;
        let (mut first, mut is_lost) = (None, false);
        for history in histories.filter(meant) {
            match self.search(history, *time)? {
                Step::Found { target, covered } => {
                    let covered = match covered {
                        _ if is_lost => Covered::UpTo { next: None },
                        Covered::Beyond { last, .. } => {
                            Covered::Beyond { last, is_followed: self.is_followed(history, *time)? }
                        }
                        covered => covered,
                    };
                    return Ok(LookedUp { target, covered, lineage: history.lineage.clone() });
                }
                Step::Before { first: entry } => first = Some(entry.time()),
                _ => {}
            }
            is_lost |= self.has_lost(history, *time);
        }
        Err(Error::TooEarly { time: *time, first })
    }

    /// Whether `history` had begun at the moment, with something that cannot be used.
    fn has_lost(&self, history: &History, time: Timestamp) -> bool {
        let mut lost = history.fulls().iter().filter(|full| self.known.without.contains(&full.key));
        lost.any(|full| full.time() <= time)
    }

    /// Whether the archive had a writer at the moment, who goes on with `history`.
    fn is_followed(&self, history: &History, time: Timestamp) -> Result<bool, Error> {
        let newest = self.archive.catalogue().histories.last();
        let goes_on = newest.is_some_and(|newest| newest.lineage == history.lineage);
        Ok(goes_on && self.archive.held_until()? >= Some(time))
    }

    /// Asks one object after the other until it is known where the moment lies. What is of no use is not asked again.
    fn search<'c>(&mut self, history: &'c History, time: Timestamp) -> Result<Step<'c>, Error> {
        'anew: loop {
            let mut search = TimeSearch::new(history, time, &self.known);
            loop {
                let (entry, answer) = match search.step() {
                    Step::AskSeen(entry) => (entry, self.seen(entry)?),
                    Step::AskMoments(entry) => (entry, self.moments(entry)?),
                    end => return Ok(end),
                };
                match answer {
                    Some(answer) => search.tell(entry, answer),
                    None => continue 'anew,
                }
            }
        }
    }

    /// When the changes of an object were seen; nothing if it is of no use.
    fn seen(&mut self, entry: &Entry) -> Result<Option<Answer>, Error> {
        let seen = match self.opened(entry)? {
            Some(Opened::Ours { object, .. }) => Ok(object.header().seen),
            Some(Opened::Events { events, .. }) => events.facts().map(|facts| facts.times),
            Some(Opened::Snapshot { .. }) => Ok((entry.time(), entry.time())),
            None => return Ok(None),
        };
        self.answer(entry, seen.map(|(first, last)| Answer::Seen(first, last)))
    }

    fn moments(&mut self, entry: &Entry) -> Result<Option<Answer>, Error> {
        let moments = match self.opened(entry)? {
            Some(Opened::Ours { object, .. }) => object.closing().map(|closing| closing.moments.clone()),
            Some(Opened::Events { events, .. }) => events.facts().map(|facts| facts.moments.clone()),
            Some(Opened::Snapshot { .. }) => Ok(Vec::new()),
            None => return Ok(None),
        };
        self.answer(entry, moments.map(Answer::Moments))
    }

    fn answer(&mut self, entry: &Entry, answer: Result<Answer, ObjectError>) -> Result<Option<Answer>, Error> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(source) => self.set_aside(&entry.key, Error::Object { key: entry.key.clone(), source }).map(|()| None),
        }
    }

    /// Plans, asks the objects, and plans again with what they said.
    fn settle(&mut self, wanted: &Wanted) -> Result<RestorePlan, Error> {
        loop {
            let plan = match RestorePlan::choose(self.archive.catalogue(), wanted, &self.known) {
                Ok(plan) => plan,
                Err(PlanError::Unopened { fulls }) => {
                    self.open_fulls(&fulls)?;
                    continue;
                }
                // A later full may have all history from there on.
                Err(error) => match perhaps(self.archive.catalogue(), wanted, &self.known) {
                    Some(full) => {
                        self.learn_history(&full)?;
                        continue;
                    }
                    None => return Err(self.no_plan(error)),
                },
            };
            let before = (self.known.without.len(), self.known.fulls.len());
            self.open_all(&plan)?;
            if before != (self.known.without.len(), self.known.fulls.len()) {
                continue;
            }
            let Some(contradiction) = self.archive.contradiction(&plan, &self.objects)? else {
                self.hear(&plan)?;
                if before.0 == self.known.without.len() {
                    return Ok(plan);
                }
                continue;
            };
            match self.way_around(wanted, &plan, &contradiction) {
                Some(before) => self.suspect(before, contradiction.key),
                None => self.convict(contradiction),
            }
        }
    }

    /// Reads what the objects tell of the cluster: whoever opens the point needs it of all of them.
    fn hear(&mut self, plan: &RestorePlan) -> Result<(), Error> {
        for entry in plan.objects() {
            let Some(Opened::Ours { object, .. }) = self.objects.get(&entry.key) else { continue };
            let heard = object.closing().and_then(|_| if entry.is_full() { object.tables().map(drop) } else { Ok(()) });
            if let Err(source) = heard {
                self.set_aside(&entry.key, Error::Object { key: entry.key.clone(), source })?;
            }
        }
        Ok(())
    }

    /// Where an object does not follow on the one before it, one of the two is wrong. If as much can be reached without
    /// the one before, then that.
    fn way_around(&self, wanted: &Wanted, plan: &RestorePlan, contradiction: &Contradiction) -> Option<Key> {
        let Fault::Link { before } = &contradiction.fault else { return None };
        let mut known = self.known.clone();
        known.without.insert(before.clone());
        let around = RestorePlan::choose(self.archive.catalogue(), wanted, &known).ok()?;
        (around.target >= plan.target).then(|| before.clone())
    }

    /// Does without `before`, as long as it may be that and not `after` that is wrong.
    fn suspect(&mut self, before: Key, after: Key) {
        self.known.without.insert(before.clone());
        self.set_aside.push((before.clone(), format!("is not what {after} follows on")));
        self.suspects.entry(after).or_default().push(before);
    }

    /// Does without what contradicts. Those that were suspected in its place are as good as before.
    fn convict(&mut self, contradiction: Contradiction) {
        let cleared = self.suspects.remove(&contradiction.key).unwrap_or_default();
        self.known.without.retain(|key| !cleared.contains(key));
        self.set_aside.retain(|(key, _)| !cleared.contains(key));
        self.set_aside.push((contradiction.key.clone(), contradiction.fault.to_string()));
        self.known.learn(contradiction);
    }

    /// That there is no plan may be because of what had to be set aside: then that is why.
    fn no_plan(&self, error: PlanError) -> Error {
        if self.set_aside.is_empty() {
            return error.into();
        }
        let is_newer = self.set_aside.iter().all(|(key, _)| self.newer.contains(key));
        let kind = if is_newer { Kind::Unsupported } else { Kind::Corrupt };
        Error::NothingLeft { source: error, set_aside: self.set_aside.as_slice().into(), kind }
    }

    fn open_fulls(&mut self, fulls: &[Key]) -> Result<(), Error> {
        let archive = self.archive;
        for entry in archive.catalogue().entries().filter(|entry| fulls.contains(&entry.key)) {
            self.opened(entry)?;
        }
        Ok(())
    }

    /// Learns how far the history of a full goes back, or does without it from here on.
    fn learn_history(&mut self, full: &Key) -> Result<(), Error> {
        let Some(entry) = self.archive.catalogue().entries().find(|entry| entry.key == *full) else { return Ok(()) };
        let compact = match self.opened(entry)? {
            Some(Opened::Ours { object, .. }) => compact_revision(full, &object),
            Some(Opened::Snapshot { database, told: Some(_) }) => {
                let facts = facts(&database, entry.layout);
                facts.map(|facts| facts.compact).map_err(|source| Error::Snapshot { key: full.clone(), source })
            }
            // What others hold was learned when it was opened.
            _ => return Ok(()),
        };
        match (compact, entry.to) {
            (Ok(compact), Some(last)) => {
                self.known.fulls.insert(full.clone(), FullFacts { last, compact, lost_leases: false });
                Ok(())
            }
            (Ok(_), None) => Ok(()),
            (Err(error), _) => self.set_aside(full, error),
        }
    }

    /// Opens what is not open yet, several at once.
    fn open_all(&mut self, plan: &RestorePlan) -> Result<(), Error> {
        let missing: Vec<&Entry> = plan.to_confirm().filter(|entry| !self.objects.contains_key(&entry.key)).collect();
        for (entry, opened) in missing.iter().zip(open_several(self.archive, &missing, self.scratch)) {
            self.keep(entry, opened)?;
        }
        Ok(())
    }

    /// The object of `entry`, opened if it was not; nothing if it is of no use.
    fn opened(&mut self, entry: &Entry) -> Result<Option<Opened>, Error> {
        if self.known.without.contains(&entry.key) {
            return Ok(None);
        }
        if !self.objects.contains_key(&entry.key) {
            let opened = open(self.archive, entry, self.scratch);
            self.keep(entry, opened)?;
        }
        Ok(self.objects.get(&entry.key).cloned())
    }

    fn keep(&mut self, entry: &Entry, opened: Result<Opened, Error>) -> Result<(), Error> {
        let facts = match &opened {
            Ok(Opened::Snapshot { database, told: None }) => Some(facts(database, entry.layout)),
            _ => None,
        };
        match (opened, facts.transpose()) {
            (Ok(opened), Ok(facts)) => {
                self.known.fulls.extend(facts.map(|facts| (entry.key.clone(), facts)));
                self.objects.insert(entry.key.clone(), opened);
                Ok(())
            }
            (Ok(_), Err(source)) => self.set_aside(&entry.key, Error::Snapshot { key: entry.key.clone(), source }),
            (Err(error), _) => self.set_aside(&entry.key, error),
        }
    }

    /// Does without an object from here on, if that is the object's fault and not that of what is between.
    fn set_aside(&mut self, key: &Key, error: Error) -> Result<(), Error> {
        if !is_its_own(error.kind()) || is_of_this_machine(&error) {
            return Err(error);
        }
        if error.kind() == Kind::Corrupt {
            self.damaged.insert(key.clone());
        }
        if error.is_of_newer() {
            self.newer.insert(key.clone());
        }
        self.known.without.insert(key.clone());
        self.set_aside.push((key.clone(), reason(&error)));
        Ok(())
    }
}

/// What objects of ours say of themselves.
pub(crate) fn told(objects: &BTreeMap<Key, Opened>) -> BTreeMap<Key, Told> {
    objects.iter().filter_map(|(key, opened)| Some((key.clone(), opened.told()?))).collect()
}

/// Where the history of a full of ours begins, if not at its beginning.
fn compact_revision(key: &Key, full: &Object) -> Result<Option<Revision>, Error> {
    let of_object = |source| Error::Object { key: key.clone(), source };
    let tables = full.tables().map_err(of_object)?.unwrap_or_default();
    let unread = |fault: TableFault| ObjectError::Damaged { offset: 0, what: fault.to_string() };
    tables.compact_revision().map_err(unread).map_err(of_object)
}

/// What an opened snapshot of another system is.
fn facts(database: &Database, layout: Layout) -> Result<FullFacts, SnapshotError> {
    let Horizon { compact, current } = Horizon::of(database)?;
    let lost_leases = layout == Layout::Etcdbrctl && lacks_leases(database)?;
    Ok(FullFacts { last: current, compact, lost_leases })
}
