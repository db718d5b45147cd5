//! Which point a moment is.
//!
//! Names do not tell when the changes in an object happened, the objects do. They follow each other in time as they
//! do in revisions, so asking a few of them is enough: the search says whom to ask next, and whoever runs it reads
//! that and tells the answer. Only of the one object in which the moment lies all moments are wanted.
//!
//! A clock that was set back between two deltas told some moments twice. What is found for such a moment was there when the
//! clock told it: its last change had been told by then, and the next one was told later. Which of several such states it
//! is, hangs on how the deltas are merged, and is not promised: a revision says it exactly.
//!
//! The names of other systems' objects do tell when they were taken, so of those at most one is asked.

use std::collections::BTreeMap;

use etcd_data::Revision;
use jiff::Timestamp;
use store::Key;

use crate::catalogue::History;
use crate::closing::Moment;
use crate::entry::{Entry, Form};
use crate::plan::{Known, Target};

#[cfg(test)]
mod tests;

/// A search for the last state at or before the end of a second.
#[derive(Debug, Clone)]
pub struct TimeSearch<'c> {
    second: i64,
    /// Objects by their end, each reaching further than the one before, as far as each is wanted.
    line: Vec<&'c Entry>,
    /// Ends at or before the moment: how many of the first ones are known to.
    before: usize,
    /// Ends after it: the first one that is known to.
    after: usize,
    answers: BTreeMap<Key, Answer>,
    /// Objects that would be among them, and cannot be used.
    lost: Vec<&'c Entry>,
}

/// What an object told when it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// When its first and its last change were seen: [`crate::Header::seen`].
    Seen(Timestamp, Timestamp),
    /// The last revision of each second that had one: [`crate::Closing::moments`].
    Moments(Vec<Moment>),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'c> {
    /// Ask this object when its changes were seen.
    AskSeen(&'c Entry),
    /// Ask this object for all its moments.
    AskMoments(&'c Entry),
    /// This is it.
    Found {
        /// What is to be planned.
        target: Target,
        /// Whether that is all there was.
        covered: Covered,
    },
    /// The moment is before the first object's.
    Before {
        /// The first object, with which history begins here.
        first: &'c Entry,
    },
    /// There is nothing to ask.
    Nothing,
}

/// Whether there may have been more changes up to the moment than what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covered {
    /// What was found is the state at that moment.
    Exactly,
    /// Changes between this revision and the next known point are in no delta that can be used; when they happened is not
    /// known.
    UpTo {
        /// The next point that is known, if its revision is.
        next: Option<Revision>,
    },
    /// All that is there had happened before the moment, and nothing tells what came between the two.
    Beyond {
        /// When the last change was seen that is there.
        last: Timestamp,
        /// Whether the archive had a writer at the moment: what is missing then is what it had not sealed yet.
        is_followed: bool,
    },
}

impl Covered {
    /// Whether changes up to the moment may be missing that nobody is about to add.
    pub fn is_short(self) -> bool {
        matches!(self, Self::UpTo { .. } | Self::Beyond { is_followed: false, .. })
    }

    /// Its name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exactly => "exactly",
            Self::UpTo { .. } => "up_to",
            Self::Beyond { .. } => "beyond",
        }
    }

    /// What a person should know who asked for a moment, and gets the state of `revision`.
    pub(crate) fn note(self, revision: Option<Revision>) -> Option<String> {
        let some = "some of them may have been before that time";
        let after = revision.map_or_else(String::new, |revision| format!(" after revision {revision}"));
        match (self, revision) {
            (Self::Exactly, _) => None,
            (Self::UpTo { next: Some(next) }, Some(revision)) => {
                Some(format!("changes between revision {revision} and {next} are in no delta that can be used: {some}"))
            }
            (Self::UpTo { .. }, _) => Some(format!("changes{after} are in no delta that can be used: {some}")),
            (Self::Beyond { last, is_followed: false }, _) => {
                Some(format!("the last change that is there is of {last}: nothing tells what came after it"))
            }
            (Self::Beyond { last, is_followed: true }, _) => Some(format!(
                "the last change that is there is of {last}: the archive had its writer at that time, so only what was not \
                 sealed yet can be missing"
            )),
        }
    }
}

impl<'c> TimeSearch<'c> {
    /// Looks for `time` in `history`.
    pub fn new(history: &'c History, time: Timestamp, known: &Known) -> Self {
        let line = line(history, known);
        let after = line.len();
        let all = history.fulls().iter().chain(history.deltas());
        let lost = all.filter(|entry| known.without.contains(&entry.key)).collect();
        Self { second: time.as_second(), line, before: 0, after, answers: BTreeMap::new(), lost }
    }

    /// What to do next.
    pub fn step(&mut self) -> Step<'c> {
        while self.before < self.after {
            let middle = self.before + (self.after - self.before) / 2;
            let Some(entry) = self.line.get(middle).copied() else { break };
            match self.ended_by(entry) {
                None => return Step::AskSeen(entry),
                Some(true) => self.before = middle + 1,
                Some(false) => self.after = middle,
            }
        }
        self.between()
    }

    /// Notes what `entry` told.
    pub fn tell(&mut self, entry: &Entry, answer: Answer) {
        self.answers.insert(entry.key.clone(), answer);
    }

    /// Whether all of an object happened by the moment, as far as is known.
    fn ended_by(&self, entry: &Entry) -> Option<bool> {
        match (self.answers.get(&entry.key), told_by_name(entry)) {
            (Some(Answer::Seen(_, last)), _) => Some(last.as_second() <= self.second),
            (Some(Answer::Moments(moments)), _) => {
                Some(moments.last().is_none_or(|moment| moment.second <= self.second))
            }
            (None, Some(taken)) => Some(taken.as_second() <= self.second),
            (None, None) => None,
        }
    }

    /// The moment lies after the end of one object and before the end of the next.
    fn between(&self) -> Step<'c> {
        let ended = self.before.checked_sub(1).and_then(|at| self.line.get(at)).copied();
        let Some(next) = self.line.get(self.after).copied() else {
            return ended.map_or(Step::Nothing, |last| found(last, self.at_the_end(last)));
        };
        if next.is_full() {
            let Some(ended) = ended else { return Step::Before { first: next } };
            let has_all = ended.to.is_some() && ended.to == next.to;
            return found(ended, if has_all { Covered::Exactly } else { Covered::UpTo { next: next.to } });
        }
        match self.answers.get(&next.key) {
            Some(Answer::Moments(moments)) => self.within(ended, next, moments),
            Some(Answer::Seen(first, _)) if first.as_second() > self.second => self.ahead_of(ended, next),
            _ => Step::AskMoments(next),
        }
    }

    /// Nothing that can be used ends after the moment; `last` is the last that does before.
    fn at_the_end(&self, last: &Entry) -> Covered {
        let is_later = |lost: &&Entry| match (lost.to, last.to) {
            (Some(to), Some(end)) => to > end,
            _ => lost.time() > last.time(),
        };
        if self.lost.iter().any(is_later) {
            return Covered::UpTo { next: None };
        }
        let seen = match (self.answers.get(&last.key), told_by_name(last)) {
            (Some(Answer::Seen(_, seen)), _) => Some(*seen),
            (Some(Answer::Moments(moments)), _) => {
                moments.last().and_then(|moment| Timestamp::from_second(moment.second).ok())
            }
            (None, taken) => taken,
        };
        let beyond = seen.filter(|seen| seen.as_second() < self.second);
        beyond.map_or(Covered::Exactly, |last| Covered::Beyond { last, is_followed: false })
    }

    /// The moment lies within a delta.
    fn within(&self, ended: Option<&'c Entry>, next: &'c Entry, moments: &[Moment]) -> Step<'c> {
        let at = moments.partition_point(|moment| moment.second <= self.second);
        let found_here = at.checked_sub(1).and_then(|at| moments.get(at)).map(|moment| moment.revision);
        // What a delta has of before the end of its predecessor is no news.
        match found_here.filter(|revision| ended.and_then(|ended| ended.to).is_none_or(|to| to <= *revision)) {
            Some(revision) => Step::Found { target: Target::Revision(revision), covered: Covered::Exactly },
            None => self.ahead_of(ended, next),
        }
    }

    /// The moment lies before the first change of a delta.
    fn ahead_of(&self, ended: Option<&'c Entry>, next: &'c Entry) -> Step<'c> {
        let Some(ended) = ended else { return Step::Before { first: next } };
        let begins = next.changes().map(|range| range.from);
        let joins = ended.to.is_some_and(|to| begins.is_some_and(|from| from <= to.next()));
        found(ended, if joins { Covered::Exactly } else { Covered::UpTo { next: begins } })
    }
}

/// The end of an object, as what is to be planned.
fn found<'c>(entry: &'c Entry, covered: Covered) -> Step<'c> {
    let target = match entry.to {
        Some(to) => Target::Revision(to),
        None => Target::Name(entry.key.to_string()),
    };
    Step::Found { target, covered }
}

/// When an object of another system was taken, as its name tells: all in it happened by then, and after what was taken
/// before.
fn told_by_name(entry: &Entry) -> Option<Timestamp> {
    match entry.form {
        Form::Snapshot => Some(entry.time()),
        Form::Events { .. } => entry.taken,
        Form::Full(_) | Form::Delta { .. } => None,
    }
}

/// The objects to ask, by their ends. Merged deltas stand for what they were merged of, so the fewest are asked; a full
/// is asked only where no delta leads to it.
fn line<'c>(history: &'c History, known: &Known) -> Vec<&'c Entry> {
    let mut deltas: Vec<&Entry> = Vec::new();
    for delta in history.deltas().iter().filter(|delta| !known.without.contains(&delta.key)) {
        let Some(range) = delta.changes() else { continue };
        // Sorted by their first: one that begins where the last began and reaches further stands for it.
        while deltas.last().and_then(|last| last.changes()).is_some_and(|last| range.from <= last.from) {
            deltas.pop();
        }
        if deltas.last().is_none_or(|last| last.to < Some(range.to)) {
            deltas.push(delta);
        }
    }
    let is_covered = |full: &Entry| {
        let at = deltas.partition_point(|delta| delta.to < full.to);
        deltas.get(at).and_then(|delta| delta.changes()).is_some_and(|range| Some(range.from) <= full.to)
    };
    let fulls = history.fulls().iter().filter(|full| !known.without.contains(&full.key));
    let mut line: Vec<&Entry> = fulls.filter(|full| full.to.is_none() || !is_covered(full)).collect();
    line.append(&mut deltas);
    line.sort_by_key(|entry| (entry.to, entry.to.is_none().then(|| entry.time())));
    line
}
