//! Requests and changes of members as a log has them, carried out on a small member.

mod alarms;
mod keys;
mod leases;
mod members;
mod of_a_log;
mod scene;
mod txns;
mod users;

use prost::Message;
use prost::bytes::Bytes;

use super::*;
use crate::raft::ConfChangeKind;
use crate::request::*;
use scene::{Scene, compare, delete, op, put};

#[test]
fn an_entry_that_cannot_be_understood_stops() {
    let mut scene = Scene::new();
    scene.entry(EntryKind::Normal, vec![0xff, 0xff]);
    assert!(matches!(scene.result(), Err(ReplayError::Entry { index: 11 })));

    let mut scene = Scene::new();
    // Field 1400, as some later version may have it.
    scene.entry(EntryKind::Normal, vec![8, 1, 0xc2, 0x57, 0]);
    assert!(matches!(scene.result(), Err(ReplayError::UnknownRequest { index: 11 })));

    let mut scene = Scene::new();
    scene.changes_members(ConfChangeKind::AddNode, 5, "{}");
    assert!(matches!(scene.result(), Err(ReplayError::Entry { index: 11 })));
}
