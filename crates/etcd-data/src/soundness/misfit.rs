//! Whether changes follow on what came before them, where nothing but their revisions says that they do.
//!
//! A put tells which version it makes of its key, and since when the key is there; a deletion deletes what is there. So
//! the first change of each key tells what the history before it has to have left.
//!
//! One pass over the changes, and one over what comes before them. Memory holds 83 to 166 bytes for each key that they
//! change, and 37 to 75 more if it was there before; keys that they leave alone cost nothing.

use std::fmt;
use std::ops::ControlFlow;

use crate::batch::Batch;
use crate::database::{Database, Direction, Next, Record, RevisionRange};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter, KeyMap};
use crate::key_value::KeyValue;
use crate::revision::Revision;

/// A change that does not follow on what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit {
    /// Its revision.
    pub at: Revision,
    needs: Needs,
    found: Option<Standing>,
}

/// What a put made of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    create: Revision,
    version: i64,
}

/// What a change needs its key to be before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Not there: the change makes it.
    Nothing,
    /// There, whatever it is.
    Anything,
    /// Just this.
    Just(Standing),
}

#[derive(Clone, Copy)]
struct Change {
    at: Revision,
    needs: Needs,
    /// What it leaves; nothing if it deletes.
    leaves: Option<Standing>,
}

/// What is known of a key that changes.
struct Changed {
    first: Change,
    /// What it was left as so far.
    stands: Option<Standing>,
}

/// The first of the changes of `database` after `after` that does not follow on what comes before it. Nothing if all do.
pub fn first_misfit(database: &Database, after: Revision) -> Result<Option<Misfit>, Error> {
    let prints = Fingerprinter::default();
    let (changed, among_themselves) = follow(database, after, &prints)?;
    let before = standings(database, after, &changed, &prints)?;
    let misfits = changed.iter().filter_map(|(print, key)| key.first.misfit(before.get(print).copied()));
    Ok(misfits.chain(among_themselves).min_by_key(|misfit| misfit.at))
}

/// The keys that change after `after`, and the first change that does not follow on another one.
fn follow(
    database: &Database,
    after: Revision,
    prints: &Fingerprinter,
) -> Result<(KeyMap<Changed>, Option<Misfit>), Error> {
    let mut changed: KeyMap<Changed> = KeyMap::default();
    let mut misfit = None;
    let step = |batch: &mut Batch<(Fingerprint, Change)>, record: Record<'_>| {
        let (key, change) = Change::of(&record)?;
        Ok(batch.push((prints.of(key), change), &[]))
    };
    let take = |batch: Batch<(Fingerprint, Change)>| {
        for (&(print, change), _) in batch.iter() {
            let (known, again) = changed.find_or_add(print, Changed { first: change, stands: change.leaves });
            if let Some(Changed { stands, .. }) = again {
                let stands = std::mem::replace(&mut known.stands, stands);
                // All is read all the same: what turns out to be damaged in the end is no other history.
                misfit = misfit.or_else(|| change.misfit(stands));
            }
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    let range = RevisionRange { from: after.next(), ..RevisionRange::ALL };
    database.scan(range, Direction::Forwards, step, take)?;
    Ok((changed, misfit))
}

/// What the keys that are `changed` after `after` are until then, of those that are there.
fn standings(
    database: &Database,
    after: Revision,
    changed: &KeyMap<Changed>,
    prints: &Fingerprinter,
) -> Result<KeyMap<Standing>, Error> {
    let mut found: KeyMap<Standing> = KeyMap::default();
    let step = |batch: &mut Batch<(Fingerprint, Option<Standing>)>, record: Record<'_>| {
        let (key, change) = Change::of(&record)?;
        let print = prints.of(key);
        Ok(if changed.get(print).is_some() { batch.push((print, change.leaves), &[]) } else { Next::More })
    };
    let take = |batch: Batch<(Fingerprint, Option<Standing>)>| {
        for (&(print, leaves), _) in batch.iter() {
            match leaves {
                Some(standing) => {
                    found.set(print, standing);
                }
                None => {
                    found.remove(print);
                }
            }
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    };
    database.scan(RevisionRange::up_to(after), Direction::Forwards, step, take)?;
    Ok(found)
}

impl Change {
    /// What `record` changes, and how.
    fn of<'a>(record: &Record<'a>) -> Result<(&'a [u8], Self), Error> {
        let at = record.at.main;
        let KeyValue { key, create_revision: create, version, .. } = record.key_value()?;
        let made = Standing { create, version };
        let (needs, leaves) = match record.at.tombstone {
            true => (Needs::Anything, None),
            false if made == (Standing { create: at, version: 1 }) => (Needs::Nothing, Some(made)),
            false => (Needs::Just(Standing { version: version.saturating_sub(1), ..made }), Some(made)),
        };
        Ok((key, Self { at, needs, leaves }))
    }

    /// Nothing if it follows on a key that was `found` like that.
    fn misfit(&self, found: Option<Standing>) -> Option<Misfit> {
        let fits = match self.needs {
            Needs::Nothing => found.is_none(),
            Needs::Anything => found.is_some(),
            Needs::Just(needed) => found == Some(needed),
        };
        (!fits).then_some(Misfit { at: self.at, needs: self.needs, found })
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, needs, found } = self;
        match needs {
            Needs::Nothing => write!(f, "revision {at} makes a key that is there")?,
            Needs::Anything => write!(f, "revision {at} deletes a key")?,
            Needs::Just(Standing { create, version }) => {
                write!(f, "revision {at} changes a key that has to be version {version} since {create}")?;
            }
        }
        match found {
            Some(Standing { create, version }) => write!(f, ", and is version {version} since {create}"),
            None => write!(f, ", and is not there"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::records::TailRecord;
    use crate::revision::RevKey;
    use crate::tables::Tables;

    /// A record of `key`: its revision, since when it is there, and its version; 0 if it is deleted.
    fn record(main: i64, key: &str, create: i64, version: i64) -> TailRecord {
        let main = Revision(main);
        let mut value = Vec::new();
        let (key, create_revision) = (key.as_bytes(), Revision(create));
        KeyValue { key, create_revision, mod_revision: main, version, ..KeyValue::default() }.encode(&mut value);
        TailRecord { at: RevKey { main, sub: 0, tombstone: version == 0 }, value }
    }

    fn first(changes: &[TailRecord]) -> Option<i64> {
        let before = vec![record(2, "a", 2, 1), record(3, "b", 3, 1), record(4, "a", 2, 2), record(5, "b", 0, 0)];
        let database = Database::empty(Tables::default())
            .followed_by(RevisionRange::up_to(Revision(5)), Arc::new(before))
            .followed_by(RevisionRange { from: Revision(6), ..RevisionRange::ALL }, Arc::new(changes.to_vec()));
        first_misfit(&database, Revision(5)).unwrap().map(|misfit| misfit.at.0)
    }

    #[test]
    fn what_changes_say_of_their_keys_is_what_was_there() {
        let fits = [record(6, "a", 2, 3), record(7, "b", 7, 1), record(8, "a", 0, 0), record(9, "a", 9, 1)];
        assert_eq!(first(&fits), None);
        for (misfit, what) in [
            (record(7, "a", 2, 2), "a version twice"),
            (record(7, "a", 2, 4), "a version left out"),
            (record(7, "a", 3, 3), "made at another revision"),
            (record(7, "a", 7, 1), "made though it is there"),
            (record(7, "b", 3, 2), "goes on though it was deleted"),
            (record(7, "b", 0, 0), "deleted twice"),
            (record(7, "c", 4, 2), "goes on though it never was"),
            (record(7, "c", 6, 1), "made, and not then"),
        ] {
            assert_eq!(first(&[record(6, "d", 6, 1), misfit]), Some(7), "{what}");
        }
    }

    #[test]
    fn the_first_is_told_whether_it_is_at_odds_with_what_was_before_or_with_the_others() {
        let of_others = [record(6, "d", 6, 1), record(7, "d", 6, 3), record(8, "a", 2, 9)];
        assert_eq!(first(&of_others), Some(7));
        let of_before = [record(6, "d", 6, 1), record(7, "a", 2, 9), record(8, "d", 6, 3)];
        assert_eq!(first(&of_before), Some(7));
    }
}
