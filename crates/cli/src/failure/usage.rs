//! Arguments that clap refuses, with a better tip than it has where what was given as a flag has its place without one.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// `told`, with the tip that helps: clap would have `--archive` itself passed as the archive.
pub(crate) fn advised(mut told: Error) -> Error {
    if told.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(flag)) = told.get(ContextKind::InvalidArg)
        && let Some(place) = place_of(flag, &told)
    {
        let tip = format!("{place} is given without a flag");
        told.remove(ContextKind::SuggestedArg);
        told.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    told
}

/// What the usage calls the place of what `flag` wants to name.
fn place_of(flag: &str, told: &Error) -> Option<String> {
    let place = flag.strip_prefix("--")?.to_uppercase();
    let usage = told.get(ContextKind::Usage)?.to_string();
    let stands = |(open, close)| usage.contains(&format!(" {open}{place}{close}"));
    [('<', '>'), ('[', ']')].into_iter().any(stands).then_some(place)
}
