//! What can happen to an object.
//!
//! Not everything can happen to everything:
//!
//! | Kinds of damage | Happen to | And not to the rest because |
//! |---|---|---|
//! | bytes flipped, cut off, lost, repeated, others in their place | everything | |
//! | it is missing | everything | |
//! | another is in its place, two changed places | what there are several of | there is one `cluster.json`, one `writer.json` and one note of the lineage; that of another cluster is among the lies |
//! | one part of it is hit: header, chunk, index, digest | objects of ours | in a snapshot and in what others wrote, one digest is over all of it: wherever it is hit, it is hit alike |
//! | one of another history is behind the last | deltas of etcdbrctl | only those are chained by nothing but revisions |
//! | JSON that reads, and lies | what is JSON | |
//! | it is called otherwise | what tells in its name what it is | notes and lockboxes are looked for by name: called otherwise, they are missing |
//! | its digest is right, and its header is another | objects of ours in the open | of what is encrypted that takes the key; and what others wrote has no header: whoever makes its digest right again can make it say anything |
//!
//! What would change nothing of an object, as cutting one after ten bytes that has no more, is left out there.

mod forged;
mod json;
mod parts;
mod places;

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::sound::Subject;

/// What the sound archive is called among those that are damaged.
pub(crate) const NOTHING: &str = "nothing";

/// What objects of ours begin with.
const MAGIC: &[u8] = b"\x8fREFL";

/// What stands in an object's place when whoever answered for the store did not say so.
const ERROR_PAGE: &[u8] = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SlowDown</Code></Error>\n";

/// What is done to an archive, by a name for it.
pub(crate) struct Damage {
    pub(crate) what: String,
    pub(crate) objects: BTreeMap<String, Bytes>,
    /// The objects of which one is to be named: the victim, or what stands in its place.
    pub(crate) named: Vec<String>,
}

/// What is done to the bytes of an object.
type Changed = (&'static str, Vec<u8>);

/// Everything that can be done to the object of `subject`.
pub(crate) fn of(subject: &Subject) -> Vec<Damage> {
    let victim = &subject.objects[&subject.victim];
    let nothing = Damage { what: NOTHING.into(), objects: subject.objects.clone(), named: subject.named.clone() };
    let mut changed = bytes(victim);
    changed.extend(parts::of(subject, victim));
    changed.extend(json::lies(victim));
    changed.retain(|(_, bytes)| bytes[..] != victim[..]);
    let mut all = vec![nothing];
    all.extend(changed.into_iter().map(|(what, bytes)| put(subject, what, bytes)));
    all.extend(places::of(subject, victim));
    all.extend(forged::of(subject, victim).into_iter().map(|(what, bytes)| put(subject, what, bytes)));
    all
}

/// These bytes in the place of the object.
fn put(subject: &Subject, what: &str, bytes: Vec<u8>) -> Damage {
    let mut objects = subject.objects.clone();
    objects.insert(subject.victim.clone(), bytes.into());
    Damage { what: what.into(), objects, named: subject.named.clone() }
}

/// What can be done to any bytes.
fn bytes(victim: &Bytes) -> Vec<Changed> {
    let len = victim.len();
    let half = len / 2;
    let block = half..(half + 64).min(len);
    let mut all: Vec<Changed> = Vec::new();
    for (what, at) in [
        ("first byte flipped", 0),
        ("a tenth in flipped", len / 10),
        ("a quarter in flipped", len / 4),
        ("half in flipped", half),
        ("three quarters in flipped", len * 3 / 4),
        ("near the end flipped", len - len.min(20)),
        ("last byte flipped", len - 1),
    ] {
        let mut bytes = victim.to_vec();
        bytes[at] ^= 0x10;
        all.push((what, bytes));
    }
    for (what, keep) in [
        ("empty", 0),
        ("cut after 10 bytes", 10.min(len)),
        ("cut after a quarter", len / 4),
        ("cut in half", half),
        ("cut by 40 bytes", len - len.min(40)),
        ("cut by one byte", len - 1),
    ] {
        all.push((what, victim[..keep].to_vec()));
    }
    all.push(("its first half lost", victim[half..].to_vec()));
    all.push(("twice", [&victim[..], &victim[..]].concat()));
    all.push(("its halves changed places", [&victim[half..], &victim[..half]].concat()));
    all.push(("a block repeated", [&victim[..block.end], &victim[half..]].concat()));
    all.push(("garbage behind it", [&victim[..], &[0x5a; 100][..]].concat()));
    all.push(("zeros behind it", [&victim[..], &[0; 4096][..]].concat()));
    all.push(("zeros from the middle on", [&victim[..half], &vec![0; len - half][..]].concat()));
    all.push(("nothing but zeros", vec![0; len]));
    let mut zeros = victim.to_vec();
    zeros[block].fill(0);
    all.push(("zeros in the middle", zeros));
    let mut moved = victim.to_vec();
    moved.remove(half);
    all.push(("a byte lost in the middle", moved));
    all.push(("other bytes", (0..len).map(|at| (at as u8).wrapping_mul(73).wrapping_add(11)).collect()));
    all.push(("an error page in its place", ERROR_PAGE.to_vec()));
    all.push(("sent as text", as_text(victim)));
    all
}

/// What is left of bytes that somebody took for text, and gave the line ends of another system.
fn as_text(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        if byte == b'\n' {
            text.push(b'\r');
        }
        text.push(byte);
    }
    text
}
