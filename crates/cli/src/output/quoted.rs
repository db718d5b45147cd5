//! Keys and values come from anybody: nothing in them may reach a terminal as a control sequence.

use std::fmt::{self, Display, Formatter, Write};

/// A key as it is shown: as it is if that is plain text, else in double quotes with escapes.
pub struct Quoted<'a>(pub &'a [u8]);

/// Text in which everything is visible; lines and tabs stay.
pub struct Visible<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text) if is_plain(text) => f.write_str(text),
            _ => quote(self.0, f),
        }
    }
}

impl Display for Visible<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\n' | '\t' => f.write_char(c)?,
                c if is_hidden(c) => write!(f, "{}", c.escape_default())?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The bytes that [`Quoted`] shows as `text`.
pub fn unquote(text: &str) -> Option<Vec<u8>> {
    let Some(inside) = text.strip_prefix('"') else { return Some(text.into()) };
    let mut rest = inside.strip_suffix('"')?;
    let mut bytes = Vec::new();
    loop {
        let (plain, escape) = rest.split_once('\\').map_or((rest, None), |(plain, escape)| (plain, Some(escape)));
        if plain.contains('"') {
            return None;
        }
        bytes.extend_from_slice(plain.as_bytes());
        let Some(escape) = escape else { return Some(bytes) };
        rest = unescape(escape, &mut bytes)?;
    }
}

/// Reads what follows a backslash, and returns what follows that.
fn unescape<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let mut chars = text.chars();
    match chars.next()? {
        'n' => bytes.push(b'\n'),
        't' => bytes.push(b'\t'),
        'r' => bytes.push(b'\r'),
        c @ ('"' | '\\') => bytes.push(c as u8),
        'x' => {
            bytes.push(u8::from_str_radix(text.get(1..3)?, 16).ok()?);
            return text.get(3..);
        }
        'u' => {
            let (code, after) = text.strip_prefix("u{")?.split_once('}')?;
            let c = char::from_u32(u32::from_str_radix(code, 16).ok()?)?;
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(after);
        }
        _ => return None,
    }
    Some(chars.as_str())
}

/// `json` with everything in it visible: what is hidden can only stand in strings, where escapes mean the same.
pub fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if c != '\n' && is_hidden(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
            c => shown.push(c),
        }
    }
    shown
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('"') && text.trim() == text && !text.contains(is_hidden)
}

/// Whether a terminal would obey `c`, or show nothing, instead of showing it.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn quote(bytes: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' | '\n' | '\t' | '\r' => write!(f, "{}", c.escape_default())?,
                c if c.is_ascii_control() => write!(f, "\\x{:02x}", u32::from(c))?,
                c if is_hidden(c) => write!(f, "{}", c.escape_default())?,
                c => f.write_char(c)?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(key: &[u8], shown: &str) {
        assert_eq!(Quoted(key).to_string(), shown);
        assert_eq!(unquote(shown).as_deref(), Some(key));
    }

    #[test]
    fn plain_keys_are_shown_as_they_are() {
        check(b"/registry/pods/default/a b", "/registry/pods/default/a b");
        check("/städte/東京".as_bytes(), "/städte/東京");
        check(br"back\slash", r"back\slash");
    }

    #[test]
    fn what_a_terminal_would_obey_is_quoted() {
        check(b"", r#""""#);
        check(b" padded ", r#"" padded ""#);
        check(b"\"quoted\"", r#""\"quoted\"""#);
        check(b"\x1b[2Jgone\r\n", r#""\x1b[2Jgone\r\n""#);
        check(b"\xff\x00\\", r#""\xff\x00\\""#);
        check("right\u{202e}left".as_bytes(), r#""right\u{202e}left""#);
        check("c1 \u{9b}".as_bytes(), r#""c1 \u{9b}""#);
    }

    #[test]
    fn bad_escapes_are_refused() {
        for text in ["\"open", r#""\q""#, r#""\x4""#, r#""\u{110000}""#, r#""\""#, "\"", r#""a"b""#, r#""\\"b""#] {
            assert_eq!(unquote(text), None, "{text}");
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let text = "a\u{9b}b\u{202e}c\u{e0001}d\n\u{1b}";
        let shown = visible_json(&serde_json::to_string(text).unwrap());
        assert!(shown.chars().all(|c| !is_hidden(c)), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }
}
