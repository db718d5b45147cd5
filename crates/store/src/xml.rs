//! As much XML as the answers of stores have: elements within elements, and text.
//!
//! Attributes, comments and declarations are passed over. What does not nest properly is refused; depth and size are
//! bounded, the size by whoever reads the answer.

/// An element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    text: String,
    children: Vec<Element>,
}

/// Answers of stores are four deep.
const MAX_DEPTH: usize = 16;

impl Element {
    /// Reads a document.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut rest = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?.trim_start_matches('\u{feff}');
        let mut open = vec![Self::default()];
        while let Some((text, after)) = rest.split_once('<') {
            let top = open.last_mut().ok_or("an element ends that never began")?;
            top.text.push_str(&unescape(text));
            if let Some(comment) = after.strip_prefix("!--") {
                rest = comment.split_once("-->").ok_or("a comment does not end")?.1;
                continue;
            }
            let (tag, after) = after.split_once('>').ok_or("a tag does not end")?;
            rest = after;
            if tag.starts_with(['?', '!']) {
                continue;
            }
            if let Some(name) = tag.strip_prefix('/') {
                let done =
                    open.pop().filter(|done| done.name == name.trim()).ok_or("an element ends that is not open")?;
                open.last_mut().ok_or("an element ends that never began")?.children.push(done);
                continue;
            }
            let is_whole = tag.ends_with('/');
            let name = tag.trim_end_matches('/').split_whitespace().next().unwrap_or_default();
            let element = Self { name: name.to_owned(), ..Self::default() };
            if is_whole {
                top.children.push(element);
            } else if open.len() > MAX_DEPTH {
                return Err("it is nested too deeply");
            } else {
                open.push(element);
            }
        }
        match (open.pop(), open.pop()) {
            (Some(document), None) => document.children.into_iter().next().ok_or("it has no elements"),
            _ => Err("an element does not end"),
        }
    }

    /// The elements of that name directly below.
    pub(crate) fn all<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The element at this path below.
    pub(crate) fn at(&self, path: &str) -> Option<&Self> {
        let mut at = self;
        for name in path.split('/') {
            at = at.children.iter().find(|child| child.name == name)?;
        }
        Some(at)
    }

    /// The text of the element at this path below.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.at(path).map(|element| element.text.as_str())
    }
}

/// Escapes text for a document.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&apos;")
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let named = after.split_once(';').and_then(|(name, after)| Some((character(name)?, after)));
        match named {
            Some((character, after)) => {
                plain.push(character);
                rest = after;
            }
            None => {
                plain.push('&');
                rest = after;
            }
        }
    }
    plain + rest
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_are_found_by_their_path() {
        let document = "<?xml version=\"1.0\"?>\n<L xmlns='x'><!-- <a> --><C><K>a &amp; &#228;&lt;&#x2F;</K><E/></C><C><K>b</K></C></L>";
        let root = Element::parse(document.as_bytes()).unwrap();
        assert_eq!(root.name, "L");
        assert_eq!(root.all("C").map(|c| c.text("K").unwrap()).collect::<Vec<_>>(), ["a & ä</", "b"]);
        assert_eq!((root.text("C/E"), root.text("C/X")), (Some(""), None));
        assert_eq!(Element::parse(format!("<a>{}</a>", escape("<&\"'>&amp;")).as_bytes()).unwrap().text, "<&\"'>&amp;");
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let deep = "<a>".repeat(1000);
        for bad in ["", "plain", "<a>", "<a></b>", "</a>", "<a", "<a><b></a></b>", "<!-- ", deep.as_str()] {
            assert!(Element::parse(bad.as_bytes()).is_err(), "{bad:.40}");
        }
        assert!(Element::parse(b"\xff").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, text in "[<>/&;!?a -]{0,60}") {
            let _ = Element::parse(&bytes);
            let _ = Element::parse(text.as_bytes());
        }
    }
}
