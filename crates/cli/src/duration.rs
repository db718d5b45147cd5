//! Spans of time and sizes, as people type them.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// A span of time: `36h`, `7d`, `4w`. Days have 24 hours.
pub fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let span: Span = text.parse().map_err(|_| format!("{text:?} is no span of time as in `36h`, `7d` or `4w`"))?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let duration = duration.map_err(|_| "months and years are of different lengths: give days or weeks".to_owned())?;
    if duration.is_negative() { Err("it is less than nothing".into()) } else { Ok(duration) }
}

/// A span of time that somebody waits: `25s`, `5m`.
pub fn parse_wait(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(SignedDuration::unsigned_abs)
}

/// A number of bytes: `500`, `10GiB`, `2T`. Units are powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("{text:?} is no size as in `500MiB` or `10GiB`")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no size as in `500MiB` or `10GiB`"))?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is more than any store has".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_read_as_people_mean_them() {
        assert_eq!(parse_duration("36h"), Ok(SignedDuration::from_hours(36)));
        assert_eq!(parse_duration("7d"), Ok(SignedDuration::from_hours(168)));
        assert_eq!(parse_duration("1w 1d"), Ok(SignedDuration::from_hours(192)));
        for text in ["", "7", "1mo", "-1h", "week"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_bytes("500"), Ok(500));
        assert_eq!(parse_bytes("10GiB"), Ok(10 << 30));
        assert_eq!(parse_bytes("2T"), Ok(2 << 40));
        assert_eq!(parse_bytes("3 MB"), Ok(3 << 20));
        for text in ["", "GiB", "1.5G", "-1", "9999999999999T"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
