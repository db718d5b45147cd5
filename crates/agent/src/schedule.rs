//! When something is due: five fields as cron has them, a name such as `@hourly`, or `@every 5m`.
//!
//! The syntax is that of etcdbrctl, so that its schedules can be taken over: `?` for `*`, `5/15` for "from 5 on, every 15",
//! and `CRON_TZ=Europe/Berlin` in front. Where the clock is put forward or back, a fixed time comes once.

use std::fmt;
use std::str::FromStr;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Names, and the fields that they stand for.
const NAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Units of durations in nanoseconds, as Go writes them; the longer names first.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// No `@every` is shorter.
const SHORTEST: SignedDuration = SignedDuration::from_secs(1);
/// Where a schedule that fires at all fires within: from one 29 February to the next that is a given weekday.
const BEGIN: Timestamp = Timestamp::UNIX_EPOCH;

/// When something is due, again and again.
#[derive(Debug, Clone)]
pub struct Schedule {
    text: String,
    when: When,
}

#[derive(Debug, Clone)]
enum When {
    Every(SignedDuration),
    Cron { cron: Box<Cron>, zone: TimeZone },
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no schedule: {why}")]
pub struct NoSchedule {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl Schedule {
    /// The first time after `moment`; `None` if there is none that can be written down.
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Every(duration) => moment.checked_add(*duration).ok(),
            When::Cron { cron, zone } => {
                let next = cron.find_next_occurrence(&moment.to_zoned(zone.clone()), false).ok()?;
                Some(next.timestamp())
            }
        }
    }
}

impl FromStr for Schedule {
    type Err = NoSchedule;

    fn from_str(text: &str) -> Result<Self, NoSchedule> {
        let no = |why: String| NoSchedule { text: text.to_owned(), why };
        let when = read(text.trim()).map_err(no)?;
        let schedule = Schedule { text: text.trim().to_owned(), when };
        match schedule.next_after(BEGIN) {
            Some(_) => Ok(schedule),
            None => Err(no("it never fires".to_owned())),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

fn read(text: &str) -> Result<When, String> {
    let (zone, text) = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
        Some(rest) => {
            let (name, fields) = rest.split_once(' ').ok_or("nothing follows the time zone")?;
            let zone = TimeZone::get(name).map_err(|_| format!("there is no time zone {name:?}"))?;
            (zone, fields.trim())
        }
        None => (TimeZone::system(), text),
    };
    if let Some(duration) = text.strip_prefix("@every ") {
        return every(duration.trim()).map(When::Every);
    }
    let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, fields)| *fields);
    if named.is_none() && text.starts_with('@') {
        return Err("it is none of the names that there are, such as @hourly or @every 5m".to_owned());
    }
    let cron = cron(named.unwrap_or(text))?;
    Ok(When::Cron { cron: Box::new(cron), zone })
}

fn cron(text: &str) -> Result<Cron, String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("it has {} fields and not 5: minute, hour, day, month, weekday", fields.len()));
    }
    if let Some(field) = fields.iter().find(|field| field.split(',').any(|part| part.starts_with('/'))) {
        return Err(format!("{field:?} does not say from where on"));
    }
    let fields = fields.join(" ").replace('?', "*");
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).sloppy_ranges(true).build();
    parser.parse(&fields).map_err(|error| error.to_string().trim_end_matches('.').to_owned())
}

fn every(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("{text:?} is no duration such as 90s, 5m or 1h30m");
    let (mut rest, mut nanoseconds) = (text, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(wrong)?;
        let (number, behind) = rest.split_at(end);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let letters = behind.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        nanoseconds += number * factor;
        rest = behind;
    }
    let duration = SignedDuration::try_from_secs_f64(nanoseconds / 1e9).map_err(|_| wrong())?;
    if duration < SHORTEST { Err(format!("{text:?} is shorter than a second")) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times after `from`, or why there are none.
    #[track_caller]
    fn check(schedule: &str, from: &str, expected: &[&str]) {
        let read: Schedule = schedule.parse().unwrap();
        let mut moment: Timestamp = from.parse().unwrap();
        for expected in expected {
            moment = read.next_after(moment).unwrap();
            assert_eq!(moment.to_string(), *expected, "{schedule}");
        }
    }

    #[test]
    fn schedules_fire_when_they_say() {
        let noon = "2026-11-21T12:00:00Z";
        check("CRON_TZ=UTC 30 2 * * *", noon, &["2026-11-22T02:30:00Z", "2026-11-23T02:30:00Z"]);
        check("TZ=UTC */20 * * * *", noon, &["2026-11-21T12:20:00Z", "2026-11-21T12:40:00Z", "2026-11-21T13:00:00Z"]);
        check(
            "CRON_TZ=UTC 5/25 * * * *",
            noon,
            &["2026-11-21T12:05:00Z", "2026-11-21T12:30:00Z", "2026-11-21T12:55:00Z"],
        );
        check("CRON_TZ=UTC 0 0 ? * MON", noon, &["2026-11-23T00:00:00Z"]);
        check("CRON_TZ=UTC @hourly", noon, &["2026-11-21T13:00:00Z"]);
        check("CRON_TZ=UTC @midnight", noon, &["2026-11-22T00:00:00Z"]);
        check("@every 1h30m", noon, &["2026-11-21T13:30:00Z", "2026-11-21T15:00:00Z"]);
        check("@every 1.5s", noon, &["2026-11-21T12:00:01.5Z"]);
        // Either of the two days, where both are given.
        check(
            "CRON_TZ=UTC 0 0 1 * SUN",
            noon,
            &["2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z", "2026-12-01T00:00:00Z"],
        );
    }

    #[test]
    fn a_zone_is_obeyed_and_a_time_that_is_skipped_or_repeated_comes_once() {
        check("CRON_TZ=Europe/Berlin 0 6 * * *", "2026-07-01T00:00:00Z", &["2026-07-01T04:00:00Z"]);
        let spring = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
        check("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-27T12:00:00Z", &spring);
        let autumn = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
        check("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", &autumn);
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_the_reason() {
        for (text, expected) in [
            ("0 0 30 2 *", "it never fires"),
            ("* * * * * *", "it has 6 fields and not 5: minute, hour, day, month, weekday"),
            ("", "it has 0 fields and not 5: minute, hour, day, month, weekday"),
            ("CRON_TZ=Mars/Base 0 0 * * *", "there is no time zone \"Mars/Base\""),
            ("CRON_TZ=UTC", "nothing follows the time zone"),
            ("@sometimes", "it is none of the names that there are, such as @hourly or @every 5m"),
            ("@every soon", "\"soon\" is no duration such as 90s, 5m or 1h30m"),
            ("@every 5", "\"5\" is no duration such as 90s, 5m or 1h30m"),
            ("@every 0s", "\"0s\" is shorter than a second"),
            ("/5 * * * *", "\"/5\" does not say from where on"),
        ] {
            let refused = text.parse::<Schedule>().unwrap_err();
            assert_eq!(refused.why, expected, "{text}");
        }
        for text in ["61 * * * *", "* 24 * * *", "x * * * *", "@every 1e400h"] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}
