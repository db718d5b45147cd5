//! Spans of time and sizes, as people type them.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// Reads a span of time. Who gives none is shown `example`, as they could have given it. Days have 24 hours.
pub fn span(example: &'static str) -> impl Fn(&str) -> Result<SignedDuration, String> + Clone + Send + Sync + 'static {
    move |text| parse(text, example)
}

/// Reads a span of time that somebody waits.
pub fn wait(example: &'static str) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| parse(text, example).map(SignedDuration::unsigned_abs)
}

/// Reads a span of time that is more than none: how often something is done, or how long it may take.
pub fn period(example: &'static str) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| match wait(example)(text)? {
        Duration::ZERO => Err(format!("that is no time at all: give some, as in `{example}`")),
        period => Ok(period),
    }
}

fn parse(text: &str, example: &str) -> Result<SignedDuration, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("it has no unit: is it `{text}s`, `{text}m` or `{text}h`?"));
    }
    let span: Span = text.parse().map_err(|_| format!("it is no span of time, as in `{example}`"))?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let duration = duration.map_err(|_| "months and years are of different lengths: give days or weeks".to_owned())?;
    if duration.is_negative() { Err("it is less than nothing".into()) } else { Ok(duration) }
}

/// Reads a number of seconds, or a span of time.
pub fn parse_seconds(text: &str) -> Result<u64, String> {
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => period("30s")(text)?.as_secs(),
    };
    if seconds == 0 { Err("it is less than a second".into()) } else { Ok(seconds) }
}

/// Reads a number of bytes that is not 0.
pub fn parse_some_bytes(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        0 => Err("that is nothing at all".into()),
        some => Ok(some),
    }
}

const NO_SIZE: &str = "it is no size: a whole number and a unit, as in `500MiB` or `10GiB`";

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
        _ => return Err(NO_SIZE.into()),
    };
    let number: u64 = number.parse().map_err(|_| NO_SIZE)?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is more than any store has".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_read_as_people_mean_them() {
        let parse = span("7d");
        assert_eq!(parse("36h"), Ok(SignedDuration::from_hours(36)));
        assert_eq!(parse("7d"), Ok(SignedDuration::from_hours(168)));
        assert_eq!(parse("1w 1d"), Ok(SignedDuration::from_hours(192)));
        assert_eq!(parse("0s"), Ok(SignedDuration::ZERO));
        for text in ["", "7", "1mo", "-1h", "week"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse_bytes("500"), Ok(500));
        assert_eq!(parse_bytes("10GiB"), Ok(10 << 30));
        assert_eq!(parse_bytes("2T"), Ok(2 << 40));
        assert_eq!(parse_bytes("3 MB"), Ok(3 << 20));
        for text in ["", "GiB", "1.5G", "-1", "9999999999999T"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn how_long_and_how_much_is_given_with_units_or_without() {
        assert_eq!((parse_seconds("30"), parse_seconds("5m"), parse_seconds("90s")), (Ok(30), Ok(300), Ok(90)));
        assert_eq!((parse_some_bytes("500"), parse_some_bytes("10MiB")), (Ok(500), Ok(10 << 20)));
        for text in ["0", "0s", "300ms", "-5", "soon", ""] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
        assert!(parse_some_bytes("0").is_err());
    }

    #[test]
    fn who_gives_no_span_is_shown_one_that_fits() {
        let refused = |text: &str| period("5s")(text).unwrap_err();
        assert!(refused("soon").contains("as in `5s`"), "{}", refused("soon"));
        assert!(refused("5").contains("`5s`, `5m` or `5h`"), "{}", refused("5"));
        assert!(refused("0s").contains("no time at all"), "{}", refused("0s"));
        assert_eq!(period("5s")("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(period("5s")("5m0s"), Ok(Duration::from_secs(300)));
        assert_eq!(wait("5s")("0s"), Ok(Duration::ZERO));
    }
}
