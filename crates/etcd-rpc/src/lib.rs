//! A client of etcd that knows members: what is asked of one is asked of that one, and every wait ends.

#![forbid(unsafe_code)]
