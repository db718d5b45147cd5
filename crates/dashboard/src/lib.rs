//! The page for people on call, as files in the program.

#![forbid(unsafe_code)]
