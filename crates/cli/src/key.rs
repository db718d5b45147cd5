//! KEY and PREFIX: keys as people type them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::output::quoted::unquote;

/// A key, or the beginning of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyArg(pub Vec<u8>);

/// Reads a key: as it is, or in double quotes as the commands show it, so that every key that is shown can be typed.
pub fn parser() -> impl TypedValueParser<Value = KeyArg> {
    OsStringValueParser::new().try_map(parse)
}

fn parse(given: OsString) -> Result<KeyArg, &'static str> {
    match given.to_str() {
        Some(text) => unquote(text)
            .map(KeyArg)
            .ok_or("a key that begins with a double quote is read with escapes, as `keys` shows it"),
        None => Ok(KeyArg(given.into_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_shown_can_be_typed() {
        for key in [&b"/plain"[..], b"\"", b"\x00\xff", b"", b" a"] {
            let shown = crate::output::quoted::Quoted(key).to_string();
            assert_eq!(parse(shown.into()), Ok(KeyArg(key.to_vec())));
        }
        assert_eq!(parse(OsString::from_vec(vec![0xff])), Ok(KeyArg(vec![0xff])));
        assert!(parse("\"open".into()).is_err());
    }
}
