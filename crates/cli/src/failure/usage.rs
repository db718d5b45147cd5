//! Arguments that clap refuses, with a better tip than it has where what was given as a flag has its place without one.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// `told`, with the tip that helps: clap would have `--archive` itself passed as the archive.
pub(crate) fn advised(mut told: Error) -> Error {
    let Some(ContextValue::String(flag)) = told.get(ContextKind::InvalidArg) else { return told };
    if told.kind() != ErrorKind::UnknownArgument {
        return told;
    }
    if let Some(place) = place_of(flag, &told) {
        let tip = format!("{place} is given without a flag");
        told.remove(ContextKind::SuggestedArg);
        told.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    } else if is_far_fetched(flag, &told) {
        told.remove(ContextKind::SuggestedArg);
        told.remove(ContextKind::Usage);
    }
    told
}

/// Whether another flag is advised that nobody writes `flag` for: clap takes `--to` for `--storage-class`.
fn is_far_fetched(flag: &str, told: &Error) -> bool {
    let Some(ContextValue::String(advised)) = told.get(ContextKind::SuggestedArg) else { return false };
    let letters = |flag: &str| flag.trim_start_matches('-').to_owned();
    let (flag, advised) = (letters(flag), letters(advised));
    flag.chars().next() != advised.chars().next() && advised.len() > flag.len() * 2
}

/// What the usage calls the place of what `flag` wants to name.
fn place_of(flag: &str, told: &Error) -> Option<String> {
    let place = flag.strip_prefix("--")?.to_uppercase();
    let usage = told.get(ContextKind::Usage)?.to_string();
    let stands = |(open, close)| usage.contains(&format!(" {open}{place}{close}"));
    [('<', '>'), ('[', ']')].into_iter().any(stands).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, tip: Option<&str>) {
        let told = advised(crate::command().try_get_matches_from(line.split(' ')).unwrap_err()).to_string();
        let found = told.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        assert_eq!(found, tip, "{line}: {told}");
    }

    #[test]
    fn what_is_advised_is_what_was_meant_or_nothing() {
        check("refloat restore --src a --data-dir b", Some("SRC is given without a flag"));
        check("refloat restore a --data-dri b", Some("a similar argument exists: '--data-dir'"));
        check("refloat restore a --to b", None);
    }
}
