//! Which objects are checked, and why: decided before any is read.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::index;
use store::Key;

use crate::catalogue::Catalogue;
use crate::entry::Entry;

/// Which objects are of interest. By default, all are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Only these, which a point needs.
    pub needed: Option<BTreeSet<Key>>,
    /// Only what is not among these, which are proven.
    pub proven: Option<BTreeSet<Key>>,
    /// Of what is left, only some.
    pub sample: Option<Sample>,
}

/// How many objects are drawn, by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// How many.
    pub share: Share,
    /// What chance begins with: the same seed draws the same of the same objects.
    pub seed: u64,
}

/// A number of objects, or a part of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// So many.
    Count(NonZeroU32),
    /// So many of a hundred, and at least one.
    Percent(NonZeroU32),
}

/// What is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckPlan {
    /// Those objects, history by history, fulls before deltas.
    pub due: Vec<Due>,
    /// How many others there are.
    pub left_out: usize,
    /// Whether it is about what a point needs, and not about the archive as a whole.
    pub is_of_point: bool,
}

/// An object that is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The object.
    pub entry: Entry,
    /// Why.
    pub why: Reason,
}

/// Why an object is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// All are.
    All,
    /// The point needs it.
    Needed,
    /// It is not proven.
    Unproven,
    /// It was drawn.
    Drawn,
}

impl CheckPlan {
    /// What is checked of `catalogue`.
    pub fn choose(catalogue: &Catalogue, choice: &Choice) -> Self {
        let is_needed = |entry: &&Entry| choice.needed.as_ref().is_none_or(|needed| needed.contains(&entry.key));
        let is_new = |entry: &&Entry| choice.proven.as_ref().is_none_or(|proven| !proven.contains(&entry.key));
        let meant: Vec<&Entry> = catalogue.entries().filter(is_needed).filter(is_new).collect();
        let drawn = choice.sample.map_or_else(|| (0..meant.len()).collect(), |sample| sample.draw(meant.len()));
        let why = match choice {
            Choice { sample: Some(_), .. } => Reason::Drawn,
            Choice { proven: Some(_), .. } => Reason::Unproven,
            Choice { needed: Some(_), .. } => Reason::Needed,
            _ => Reason::All,
        };
        let due = drawn.iter().filter_map(|&at| meant.get(at));
        let due: Vec<Due> = due.map(|&entry| Due { entry: entry.clone(), why }).collect();
        let left_out = catalogue.entries().count() - due.len();
        Self { due, left_out, is_of_point: choice.needed.is_some() }
    }

    /// The bytes of all objects that are read.
    pub fn size_bytes(&self) -> u64 {
        self.due.iter().map(|due| due.entry.size_bytes).fold(0, u64::saturating_add)
    }
}

impl Sample {
    /// The places of those that are drawn of `count`, in order.
    fn draw(self, count: usize) -> BTreeSet<usize> {
        let wanted = match self.share {
            Share::Count(wanted) => wanted.get() as usize,
            Share::Percent(percent) => count.saturating_mul(percent.get() as usize).div_ceil(100),
        };
        index::sample(&mut StdRng::seed_from_u64(self.seed), count, wanted.min(count)).into_iter().collect()
    }
}

impl FromStr for Share {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "it is neither a number of objects, as in 20, nor a part of them, as in 10%";
        match text.strip_suffix('%') {
            Some(percent) => {
                percent.parse().ok().filter(|percent: &NonZeroU32| percent.get() <= 100).map(Self::Percent)
            }
            None => text.parse().ok().map(Self::Count),
        }
        .ok_or(EXPECTED)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Reason {
    /// It in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Needed => "needed",
            Self::Unproven => "unproven",
            Self::Drawn => "drawn",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::catalogue;

    fn keys(plan: &CheckPlan) -> BTreeSet<Key> {
        plan.due.iter().map(|due| due.entry.key.clone()).collect()
    }

    #[test]
    fn all_or_what_a_point_needs_or_what_is_not_proven() {
        let catalogue = catalogue("0-100 101-110 111-120");
        let all: Vec<Key> = catalogue.entries().map(|entry| entry.key.clone()).collect();
        let choose = |choice: &Choice| CheckPlan::choose(&catalogue, choice);
        let plan = choose(&Choice::default());
        assert_eq!((keys(&plan).len(), plan.left_out), (3, 0));
        let some: BTreeSet<Key> = all.iter().take(2).cloned().collect();
        let plan = choose(&Choice { needed: Some(some.clone()), ..Choice::default() });
        assert_eq!((keys(&plan), plan.left_out), (some.clone(), 1));
        let plan = choose(&Choice { proven: Some(some.clone()), ..Choice::default() });
        assert_eq!((keys(&plan).into_iter().next(), plan.left_out), (all.get(2).cloned(), 2));
        let plan = choose(&Choice { needed: Some(some.clone()), proven: Some(some), ..Choice::default() });
        assert_eq!((plan.due.len(), plan.size_bytes()), (0, 0));
    }

    #[test]
    fn a_sample_is_as_large_as_was_asked_for_and_the_same_for_a_seed() {
        let names: Vec<String> = (0..100).map(|at| format!("{}-{}", 10 * at + 1, 10 * at + 10)).collect();
        let catalogue = catalogue(&format!("0-0 {}", names.join(" ")));
        let draw = |share: &str, seed| {
            let sample = Some(Sample { share: share.parse().unwrap(), seed });
            keys(&CheckPlan::choose(&catalogue, &Choice { sample, ..Choice::default() }))
        };
        for (share, count) in [("1", 1), ("20", 20), ("500", 101), ("10%", 11), ("1%", 2), ("100%", 101)] {
            assert_eq!(draw(share, 7).len(), count, "{share}");
        }
        assert_eq!(draw("20", 7), draw("20", 7));
        assert_ne!(draw("20", 7), draw("20", 8));
        for text in ["", "0", "0%", "101%", "-1", "ten"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
