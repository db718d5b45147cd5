//! A store that falters, before one that does not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::collections::BTreeMap;
use std::io;

use testkit::stores::{FakeGcs, Falter, Faltering, HttpAnswer};

#[test]
fn each_kind_comes_and_is_counted_and_none_on_a_good_day() {
    let gcs = FakeGcs::start();
    let faltering = Faltering::before_url(&gcs.url());
    let put = || HttpAnswer::of(faltering.address(), "PUT", "/archives/a", &[], b"some bytes");
    assert_eq!(put().unwrap().status, 401, "it is passed on");
    assert_eq!(faltering.counts(), BTreeMap::new());

    faltering.falter(1.0, 7);
    let asked = |found: io::Result<HttpAnswer>| found.map_or(0, |answer| answer.status);
    let mut found: Vec<u16> = Falter::ALL.iter().map(|_| asked(put())).collect();
    found.sort_unstable();
    // Of those that end the connection nothing is answered, and what stalls is answered in the end.
    assert_eq!(found, [0, 0, 401, 429, 500, 503, 504]);
    assert!(faltering.counts().values().eq(&[1; 7]), "{:?}", faltering.counts());
    // The first one, the one whose answer was cut off, the one whose answer was lost, and the one that stalled.
    assert_eq!(gcs.requests().len(), 4, "{:?}", gcs.requests());

    faltering.recover();
    assert_eq!(put().unwrap().status, 401);
    assert_eq!(faltering.counts().len(), Falter::ALL.len());
}
