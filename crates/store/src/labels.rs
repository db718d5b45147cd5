//! Labels as S3 and Azure have them: tags beside an object, put on it and taken off at any time, also where the object
//! itself cannot be changed. Other stores have metadata alone, and labels are part of that.

use std::collections::BTreeMap;

use crate::error::Fault;
use crate::http::{Answer, escape};
use crate::xml::Element;

/// Longer than any answer about tags: an object has ten of at most 384 characters.
pub(crate) const MAX_BYTES: u64 = 64 << 10;

/// The value of the header by which an object gets labels.
pub(crate) fn header(labels: &BTreeMap<String, String>) -> String {
    let pairs = labels.iter().map(|(name, value)| format!("{}={}", escape(name, false), escape(value, false)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The labels in an answer. What is none is an object, from a server that does not know what was asked for.
pub(crate) fn read(answer: &Answer) -> Result<BTreeMap<String, String>, Fault> {
    let document = Element::parse(&answer.body).ok().filter(|root| matches!(root.name.as_str(), "Tagging" | "Tags"));
    let tags = document.as_ref().and_then(|root| root.at("TagSet")).ok_or_else(unable)?;
    let pair = |tag: &Element| Some((tag.text("Key")?.to_owned(), tag.text("Value").unwrap_or_default().to_owned()));
    Ok(tags.all("Tag").filter_map(pair).collect())
}

/// What a fault means when it was labels that were asked for.
pub(crate) fn fault(fault: Fault) -> Fault {
    match fault {
        // Servers without tags find the request wrong, or answer with all of the object.
        Fault::Invalid(_) | Fault::Nonsense(_) => unable(),
        other => other,
    }
}

fn unable() -> Fault {
    Fault::Unable("tell how objects are labelled")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use reqwest::StatusCode;
    use reqwest::header::HeaderMap;

    use super::*;

    fn labels_in(body: &'static str) -> Result<BTreeMap<String, String>, Fault> {
        read(&Answer { status: StatusCode::OK, headers: HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) })
    }

    #[test]
    fn both_forms_are_read_and_an_object_is_not_taken_for_one() {
        let tag = "<Tag><Key>a&amp;b</Key><Value>1</Value></Tag><Tag><Key>c</Key><Value/></Tag>";
        let expected = BTreeMap::from([("a&b", "1"), ("c", "")].map(|(name, value)| (name.into(), value.into())));
        for root in ["Tagging", "Tags"] {
            let body = format!("<?xml version=\"1.0\"?><{root}><TagSet>{tag}</TagSet></{root}>");
            assert_eq!(labels_in(body.leak()).unwrap(), expected);
        }
        assert!(labels_in("<Tagging><TagSet/></Tagging>").unwrap().is_empty());
        for object in ["", "\u{1f}\u{8b}", "<Object><TagSet/></Object>", "<Tagging></Tagging>"] {
            assert!(matches!(labels_in(object), Err(Fault::Unable(_))), "{object:?}");
        }
        assert_eq!(header(&expected), "a%26b=1&c=");
    }
}
