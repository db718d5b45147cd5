//! Which fulls a rule keeps.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use store::Key;

use crate::entry::Entry;

/// A rule by which fulls are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The newest, this many.
    Number(u32),
    /// The newest, as long as all of them together, with what goes with each, are no larger. The newest one is not
    /// spared by this rule.
    SizeBytes(u64),
    /// What makes every moment of this last span of time restorable.
    Window(SignedDuration),
    /// The newest of each hour, day, week, month and year.
    Generations(Generations),
    /// Gardener's: of today the newest of each hour, of the week before that of each day, of the four weeks before
    /// that of each week. Days are those of UTC.
    Exponential,
}

/// Of how many hours, days, weeks, months and years that have a full the newest is kept. Weeks begin on Monday, and all
/// is in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generations {
    /// Hours.
    pub hourly: u32,
    /// Days.
    pub daily: u32,
    /// Weeks.
    pub weekly: u32,
    /// Months.
    pub monthly: u32,
    /// Years.
    pub yearly: u32,
}

impl Rule {
    /// Those of `fulls`, which come newest first, that it keeps. `beside` is how many bytes go with some of them.
    pub(super) fn keeps<'c>(
        &self,
        fulls: &[&'c Entry],
        beside: &BTreeMap<&Key, u64>,
        now: Timestamp,
    ) -> Vec<&'c Entry> {
        match self {
            Self::Number(count) => fulls.iter().take(*count as usize).copied().collect(),
            Self::SizeBytes(limit) => up_to_size(fulls, beside, *limit),
            // Which fulls a window needs hangs on histories, not on fulls alone.
            Self::Window(_) => Vec::new(),
            Self::Generations(generations) => generations.keeps(fulls),
            Self::Exponential => exponential(fulls, now),
        }
    }
}

fn up_to_size<'c>(fulls: &[&'c Entry], beside: &BTreeMap<&Key, u64>, limit: u64) -> Vec<&'c Entry> {
    let mut total = 0_u64;
    let fits = |full: &&&Entry| {
        let beside = beside.get(&full.key).copied().unwrap_or_default();
        total = total.saturating_add(full.size_bytes).saturating_add(beside);
        total <= limit
    };
    fulls.iter().take_while(fits).copied().collect()
}

impl Generations {
    fn keeps<'c>(&self, fulls: &[&'c Entry]) -> Vec<&'c Entry> {
        let mut kept = Vec::new();
        kept.extend(newest_of_each(fulls, self.hourly, |time| time.timestamp().as_second().div_euclid(3600)));
        kept.extend(newest_of_each(fulls, self.daily, |time| time.date()));
        kept.extend(newest_of_each(fulls, self.weekly, |time| monday(time.date())));
        kept.extend(newest_of_each(fulls, self.monthly, |time| (time.year(), time.month())));
        kept.extend(newest_of_each(fulls, self.yearly, |time| time.year()));
        kept
    }
}

/// The first of each run of `fulls` that are in the same period, for `count` periods.
fn newest_of_each<'c, P: PartialEq>(fulls: &[&'c Entry], count: u32, period: impl Fn(&Zoned) -> P) -> Vec<&'c Entry> {
    let period_of = |full: &Entry| period(&full.time().to_zoned(TimeZone::UTC));
    let runs = fulls.chunk_by(|a, b| period_of(a) == period_of(b));
    runs.take(count as usize).filter_map(|run| run.first().copied()).collect()
}

fn monday(date: Date) -> Date {
    let days = i64::from(date.weekday().to_monday_zero_offset());
    date.checked_sub(SignedDuration::from_hours(24 * days)).unwrap_or(date)
}

/// What Gardener's etcd-backup-restore keeps. Each full is compared with the next newer one, kept or not, and stays if
/// the two lie in different windows, which are counted back from the end of today.
fn exponential<'c>(fulls: &[&'c Entry], now: Timestamp) -> Vec<&'c Entry> {
    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;
    let now = now.as_second();
    let mut end_of_day = now - now.rem_euclid(DAY) + DAY - 1;
    let mut weeks_began = false;
    let mut kept: Vec<&Entry> = fulls.first().copied().into_iter().collect();
    for pair in fulls.windows(2) {
        let [newer, full] = *pair else { continue };
        let (time, next) = (full.time().as_second(), newer.time().as_second());
        let age = end_of_day - time;
        let window = match age {
            ..DAY if time.rem_euclid(DAY) / HOUR == now.rem_euclid(DAY) / HOUR => {
                kept.push(full);
                continue;
            }
            ..DAY => HOUR,
            _ if age < 8 * DAY => DAY,
            _ if age < 35 * DAY => {
                // Weeks end with the day before; the shift holds for all that are older.
                end_of_day -= if weeks_began { 0 } else { DAY };
                weeks_began = true;
                7 * DAY
            }
            _ => continue,
        };
        let index = |time: i64, window: i64| (end_of_day - time) / window;
        let apart = |unit: i64| (index(time, unit) - index(next, unit)) * unit / window != 0;
        if [HOUR, DAY, 7 * DAY].into_iter().any(apart) {
            kept.push(full);
        }
    }
    kept
}
