//! The few numbers that are looked up in a page of metrics.

/// The value of the metric `name`, the sum if it has labels.
pub(super) fn value(page: &str, name: &str) -> Option<f64> {
    let of_name = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let rest = match rest.strip_prefix('{') {
            Some(labelled) => labelled.split_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    page.lines().filter_map(of_name).reduce(|sum, value| sum + value)
}

/// The upper end of the bucket of the histogram `name` that `share` of all lie at or below, from 0 to 1. Nothing if it has
/// counted nothing.
pub(super) fn quantile(page: &str, name: &str, share: f64) -> Option<f64> {
    let prefix = format!("{name}_bucket{{");
    let bucket = |line: &str| {
        let (labels, count) = line.strip_prefix(&prefix)?.rsplit_once("} ")?;
        let bound = labels.split("le=\"").nth(1)?.split('"').next()?;
        Some((bound.parse::<f64>().ok()?, count.trim().parse::<f64>().ok()?))
    };
    let buckets: Vec<(f64, f64)> = page.lines().filter_map(bucket).collect();
    let total = buckets.iter().map(|(_, count)| *count).fold(0.0, f64::max);
    let reached = |(_, count): &&(f64, f64)| total > 0.0 && *count >= share * total;
    buckets.iter().find(reached).map(|(bound, _)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP x_seconds Something.
# TYPE x_seconds histogram
x_seconds_bucket{le=\"0.001\"} 50
x_seconds_bucket{le=\"0.008\"} 98
x_seconds_bucket{le=\"0.016\"} 99
x_seconds_bucket{le=\"+Inf\"} 100
x_seconds_count 100
none_bucket{le=\"+Inf\"} 0
quota_bytes 2.147483648e+09
quota_bytes_other 5
sent{To=\"a b\"} 1
sent{To=\"c\"} 2
";

    #[test]
    fn numbers_are_found_on_the_page() {
        assert_eq!(value(PAGE, "quota_bytes"), Some(2147483648.0));
        assert_eq!(value(PAGE, "sent"), Some(3.0));
        assert_eq!(value(PAGE, "quota"), None);
        assert_eq!(quantile(PAGE, "x_seconds", 0.5), Some(0.001));
        assert_eq!(quantile(PAGE, "x_seconds", 0.99), Some(0.016));
        assert_eq!(quantile(PAGE, "x_seconds", 1.0), Some(f64::INFINITY));
        assert_eq!(quantile(PAGE, "none", 0.5), None);
        assert_eq!(quantile("x_seconds_bucket{le=\"", "x_seconds", 0.5), None);
    }
}
