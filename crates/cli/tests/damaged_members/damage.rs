//! What happens to a member.

use std::ops::{ControlFlow, Range};

use etcd_data::Error;
use etcd_data::database::{Record, RevisionRange};

use crate::frames::{ENTRY, Frame, KINDS, STATE, frames};
use crate::member::{Content, Member, Node};
use crate::truth::Subject;

/// A member to which something has happened.
pub(crate) struct Damage {
    pub(crate) place: String,
    pub(crate) what: &'static str,
    pub(crate) member: Member,
    /// Whether nobody can know of it.
    pub(crate) unknowable: bool,
}

/// What is said of a member to which nothing has happened.
pub(crate) const NOTHING: &str = "nothing";
/// What is said of a file that nobody may read.
pub(crate) const UNREADABLE: &str = "not to be read";

const PAGE: usize = 4096;
const DB: &str = "member/snap/db";

/// Everything that happens to `subject`.
pub(crate) fn damages(subject: &Subject) -> Vec<Damage> {
    let mut damages = Damages { subject, all: Vec::new() };
    damages.add("-", NOTHING, |_| {});
    let segments = subject.member.files(".wal");
    for (number, name) in segments.iter().enumerate() {
        let (place, is_last) = (format!("segment {number}"), number + 1 == segments.len());
        damages.of_records(name, &place, is_last);
        damages.of_file(name, &place);
        damages.of_segment(name, &place);
        // Whether another one came after the last, no file tells.
        let goes =
            |damage: &&mut Damage| damage.place == place && ["missing", "called as no segment"].contains(&damage.what);
        damages.all.iter_mut().filter(goes).for_each(|damage| damage.unknowable = is_last);
    }
    for (number, name) in subject.member.files(".snap").iter().enumerate() {
        damages.of_file(name, &format!("raft snapshot {number}"));
        damages.of_snapshot(name, &format!("raft snapshot {number}"));
    }
    damages.of_file(DB, "database");
    damages.of_pages();
    damages.of_folders();
    damages.of_strangers();
    damages.all
}

struct Damages<'a> {
    subject: &'a Subject,
    all: Vec<Damage>,
}

impl Damages<'_> {
    fn add(&mut self, place: &str, what: &'static str, change: impl FnOnce(&mut Member)) {
        let mut member = self.subject.member.clone();
        change(&mut member);
        // What changes nothing shows nothing: a page that is all zeros, zeroed.
        if member.0 != self.subject.member.0 || what == NOTHING {
            self.all.push(Damage { place: place.into(), what, member, unknowable: false });
        }
    }

    /// Says of what was added last that nobody can know of it.
    fn is_unknowable(&mut self) {
        self.all.last_mut().unwrap().unknowable = true;
    }

    /// What happens to one record of each kind, in the segment `name`.
    fn of_records(&mut self, name: &str, segment: &str, is_last: bool) {
        let content = self.subject.member.file(name).clone();
        let frames = frames(&content.bytes);
        for (what, at) in self.chosen(&frames) {
            let place = format!("{segment}, {what}");
            let Range { start, end } = frames[at].place;
            let data = start + 8 + (end - start - 8 - frames[at].padding) / 2;
            let mut change = |what, change: &dyn Fn(&mut Vec<u8>)| {
                let mut bytes = content.bytes.clone();
                bytes.resize(bytes.len().max(end), 0);
                change(&mut bytes);
                let len = content.len.max(bytes.len() as u64);
                self.add(&place, what, |member| member.put(name, Content { bytes, len, mode: content.mode }));
            };
            change("a bit of its data flipped", &|bytes| bytes[data] ^= 4);
            change("a bit of its length flipped", &|bytes| bytes[start] ^= 1);
            change("a bit of its kind flipped", &|bytes| bytes[start + 9] ^= 1);
            change("zeroed", &|bytes| bytes[start..end].fill(0));
            change("gone", &|bytes| drop(bytes.drain(start..end)));
            change("twice", &|bytes| {
                let frame = bytes[start..end].to_vec();
                drop(bytes.splice(end..end, frame));
            });
            if let Some(next) = frames.get(at + 1) {
                let next = next.place.end;
                change("after the next one", &|bytes| {
                    bytes.resize(bytes.len().max(next), 0);
                    bytes[start..next].rotate_left(end - start);
                });
            }
            if frames[at].padding > 0 {
                change("its padding not zero", &|bytes| bytes[end - 1] = 7);
            }
            let cut = |at: usize| {
                let bytes = content.bytes[..at].to_vec();
                Content { len: at as u64, bytes, mode: content.mode }
            };
            self.add(&place, "the segment cut in the middle of it", |member| member.put(name, cut(data)));
            self.add(&place, "the segment cut before it", |member| member.put(name, cut(start)));
            if is_last {
                self.is_unknowable();
            }
        }
    }

    /// A record of each kind, and of entries some that differ in what the database has of them.
    fn chosen(&self, frames: &[Frame]) -> Vec<(String, usize)> {
        let of = |wanted: &dyn Fn(&Frame) -> bool| -> Vec<usize> {
            frames.iter().enumerate().filter(|(_, frame)| wanted(frame)).map(|(at, _)| at).collect()
        };
        let mut chosen = Vec::new();
        for kind in (1..).take(KINDS.len() - 1).filter(|&kind| kind != ENTRY) {
            let all = of(&|frame| frame.kind == kind);
            let at = if kind == STATE { all.get(all.len() / 2) } else { all.first() };
            chosen.extend(at.map(|&at| (KINDS[kind as usize].to_owned(), at)));
        }
        let had = of(&|frame| frame.index().is_some_and(|index| index <= self.subject.applied));
        let pending = of(&|frame| frame.index().is_some_and(|index| index > self.subject.applied));
        let last = of(&|frame| frame.kind == ENTRY).last().copied();
        chosen.extend(had.get(had.len() / 2).map(|&at| ("entry that the database has".to_owned(), at)));
        chosen.extend(pending.get(pending.len() / 2).map(|&at| ("entry that only the log has".to_owned(), at)));
        chosen.extend(last.map(|at| ("last entry".to_owned(), at)));
        chosen
    }

    /// What happens to any file.
    fn of_file(&mut self, name: &str, place: &str) {
        let content = self.subject.member.file(name).clone();
        let put = |content: Content| move |member: &mut Member| member.put(name, content);
        self.add(place, "missing", |member| member.remove(name));
        self.add(place, "empty", put(Content::new(Vec::new())));
        self.add(place, "all zeros", put(Content { bytes: Vec::new(), ..content.clone() }));
        self.add(place, "all ones", put(Content { bytes: vec![0xff; content.bytes.len()], ..content.clone() }));
        let half = content.bytes.len() / 2;
        self.add(place, "cut in half", put(Content::new(content.bytes[..half].to_vec())));
        let longer = Content { len: content.len + (1 << 20), ..content.clone() };
        self.add(place, "longer by zeros", put(longer));
        self.add(place, UNREADABLE, put(Content { mode: 0o000, ..content }));
        for (what, node) in [("a folder in its place", Node::Folder), ("a link to nothing in its place", Node::Link)] {
            self.add(place, what, |member| drop(member.0.insert(name.to_owned(), node)));
        }
    }

    /// What happens to a segment as such.
    fn of_segment(&mut self, name: &str, place: &str) {
        let content = self.subject.member.file(name).clone();
        let moved = |to: &'static str| {
            let content = content.clone();
            move |member: &mut Member| {
                member.remove(name);
                member.put(to, content);
            }
        };
        self.add(place, "called as a later one", moved("member/wal/0000000000000009-0000000000000000.wal"));
        self.add(place, "called as no segment", moved("member/wal/log.wal"));
        let copy = content.clone();
        self.add(place, "there again as a later one", |member| {
            member.put("member/wal/0000000000000002-0000000000000fff.wal", copy);
        });
        let end = content.bytes.len().next_multiple_of(8);
        let mut longer = content;
        longer.bytes.resize(end + 512, 0);
        longer.bytes.extend([0x55; 64]);
        longer.len = longer.len.max(longer.bytes.len() as u64);
        self.add(place, "something behind its end", |member| member.put(name, longer));
    }

    /// What happens to a raft snapshot as such.
    fn of_snapshot(&mut self, name: &str, place: &str) {
        let content = self.subject.member.file(name).clone();
        let flipped = |at: usize| {
            let mut flipped = content.clone();
            flipped.bytes[at] ^= 1;
            move |member: &mut Member| member.put(name, flipped)
        };
        self.add(place, "a bit of its checksum flipped", flipped(2));
        self.add(place, "a bit of its data flipped", flipped(content.bytes.len() / 2));
        let copy = content.clone();
        self.add(place, "called after another entry", |member| {
            member.remove(name);
            member.put("member/snap/0000000000000002-0000000000000077.snap", copy);
        });
    }

    fn of_pages(&mut self) {
        let content = self.subject.member.file(DB).clone();
        let change = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut changed = content.clone();
            changed.bytes.resize(changed.bytes.len().next_multiple_of(PAGE), 0);
            change(&mut changed.bytes);
            move |member: &mut Member| member.put(DB, changed)
        };
        let pages = content.bytes.len().div_ceil(PAGE);
        for page in 0..pages {
            let place = format!("database, page {page}{}", kind_of_page(&content.bytes, page));
            let start = page * PAGE;
            // Of a meta page it is not the header that counts.
            let byte = if page < 2 { start + 16 + 40 } else { start };
            self.add(&place, "a bit of its header flipped", change(&|bytes| bytes[byte] ^= 1));
            self.add(&place, "zeroed", change(&|bytes| bytes[start..start + PAGE].fill(0)));
            if page + 1 < pages {
                let swap = change(&|bytes| bytes[start..start + 2 * PAGE].rotate_left(PAGE));
                self.add(&place, "exchanged with the next one", swap);
            }
        }
        self.add("database, both meta pages", "zeroed", change(&|bytes| bytes[..2 * PAGE].fill(0)));
        let value = self.byte_of_a_value(&content.bytes);
        self.add("database, a value", "a bit flipped", change(&|bytes| bytes[value] ^= 1));
        self.is_unknowable();
    }

    /// Where in the database a byte is that is of no more than a value.
    fn byte_of_a_value(&self, bytes: &[u8]) -> usize {
        let mut place = None;
        let visit = |record: Record<'_>| {
            let value = record.key_value()?.value;
            let mut found = bytes.windows(record.value.len()).enumerate().filter(|(_, window)| *window == record.value);
            // It must be in the file once: old pages hold what they held.
            if let (Some((start, _)), None, true) = (found.next(), found.next(), value.len() > 16) {
                let inside = record.value.windows(value.len()).position(|window| window == value).unwrap();
                place = Some(start + inside + value.len() / 2);
                return Ok::<_, Error>(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        };
        self.subject.database.visit(RevisionRange::ALL, visit).unwrap();
        place.expect("a value that is in the file once")
    }

    fn of_folders(&mut self) {
        for name in ["member", "member/snap", "member/wal"] {
            self.add(name, "missing", |member| member.remove(name));
        }
        for (name, bytes) in [
            ("member/wal/0.tmp", vec![1; 100]),
            ("member/wal/0000000000000000-0000000000000000.wal.broken", vec![1; 100]),
            ("member/wal/notes.txt", b"mine".to_vec()),
            ("member/snap/db.tmp123", vec![1; 100]),
            ("member/snap/0000000000000fff.snap.db", vec![1; 100]),
            ("member/snap/0000000000000002-0000000000000fff.snap.broken", vec![1; 100]),
            ("notes.txt", b"mine".to_vec()),
        ] {
            self.add(name, "there as well", |member| member.put(name, Content::new(bytes)));
        }
    }

    /// Files of another member in the place of its own.
    fn of_strangers(&mut self) {
        let other = &self.subject.other;
        for (place, folder, suffix) in [
            ("database", "member/snap/", "/db"),
            ("raft snapshots", "member/snap/", ".snap"),
            ("log", "member/wal/", ".wal"),
        ] {
            self.add(place, "of another member", |member| member.take(folder, suffix, other));
        }
        self.add("log and raft snapshots", "of another member", |member| {
            member.take("member/wal/", ".wal", other);
            member.take("member/snap/", ".snap", other);
        });
    }
}

/// What the page says that it is.
fn kind_of_page(bytes: &[u8], page: usize) -> &'static str {
    match bytes.get(page * PAGE + 8) {
        Some(1) => ", a branch",
        Some(2) => ", a leaf",
        Some(4) => ", a meta page",
        Some(16) => ", a free list",
        _ => "",
    }
}
