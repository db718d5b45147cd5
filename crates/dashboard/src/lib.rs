//! The page for people on call, as files in the program.
//!
//! Its source is in `web/`, and what Vite makes of it in `dist/`, which is checked in: building the program needs no
//! Node. A test builds it anew and compares.

#![forbid(unsafe_code)]

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// What it is called.
    pub name: &'static str,
    /// What it is, as HTTP says it.
    pub content_type: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
}

/// The page itself; the others belong to it.
pub const INDEX: &str = "index.html";

/// All files.
pub const FILES: &[File] = &[
    File { name: INDEX, content_type: "text/html; charset=utf-8", bytes: include_bytes!("../dist/index.html") },
    File { name: "app.js", content_type: "text/javascript; charset=utf-8", bytes: include_bytes!("../dist/app.js") },
    File { name: "app.css", content_type: "text/css; charset=utf-8", bytes: include_bytes!("../dist/app.css") },
    File { name: "icon.svg", content_type: "image/svg+xml", bytes: include_bytes!("../dist/icon.svg") },
];
