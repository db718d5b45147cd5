//! As much XML as these answers and one request take.

/// `<name>text</name>`, with the text made harmless.
pub(super) fn element(name: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<{name}>{text}</{name}>")
}

/// A document with `inner` in its root.
pub(super) fn document(root: &str, inner: &str) -> String {
    format!(
        "<?xml version='1.0' encoding='UTF-8'?><{root} xmlns='http://doc.s3.amazonaws.com/2006-03-01'>{inner}</{root}>"
    )
}

/// What stands in each element called `name`.
pub(super) fn all<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    text.split(open.as_str()).skip(1).filter_map(|rest| rest.split(close.as_str()).next()).collect()
}
