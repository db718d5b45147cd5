//! Every combination of what can be seen, and what is done about it.
//!
//! The table is the middle of `docs/start-of-a-member.md`, which people on call read: `UPDATE_DOCS=1 cargo test -p agent`
//! writes it there. Its rows are made of words, and the words of values.

mod properties;
mod table;
mod words;
