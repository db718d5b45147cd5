//! How one version of a value becomes the next: what is kept of it, and what is put in between.
//!
//! | size   | field                                                  |
//! |--------|--------------------------------------------------------|
//! | varint | the number of changes                                  |
//! | varint | for each: bytes kept since the change before           |
//! | varint | bytes of the old value that go                         |
//! | varint | bytes that come in their place                         |
//!
//! That is the shape of an edit; the bytes that come stand elsewhere. What is left of the old value after the last
//! change is kept. Most edits of most keys have one of few shapes, as a renewed lease or a heartbeat does.

use crate::fields::{Fault, Fields, put_number};

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    /// Bytes kept since the change before.
    keep: u32,
    /// Bytes that go.
    go: u32,
    /// Bytes that come.
    come: u32,
}

/// The changes from one version to the next.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Shape {
    changes: Vec<Change>,
}

/// Values larger than this are not compared: they are kept as they are, and zstd finds what they share.
const LARGEST_VALUE: usize = 16 << 20;
/// How far behind a difference the two versions are searched for where they agree again.
const SEARCH: usize = 40;
/// By how many bytes the one may have grown or shrunk meanwhile.
const SHIFT: usize = 4;
/// Bytes that must agree for a difference to be over.
const AGREE: usize = 4;
/// Versions that differ in more places are better kept as they are.
const MOST_CHANGES: usize = 64;

impl Shape {
    /// What turns `old` into `new`. Nothing if that would be no gain.
    pub(crate) fn between(old: &[u8], new: &[u8]) -> Option<Self> {
        if old.len().max(new.len()) > LARGEST_VALUE {
            return None;
        }
        let mut changes = Vec::new();
        let (mut old, mut new) = (old, new);
        loop {
            let keep = common_start(old, new);
            (old, new) = (old.get(keep..)?, new.get(keep..)?);
            if old.is_empty() && new.is_empty() {
                return Some(Self { changes });
            }
            if changes.len() == MOST_CHANGES {
                return None;
            }
            let (go, come) = difference(old, new);
            changes.push(Change { keep: keep as u32, go: go as u32, come: come as u32 });
            (old, new) = (old.get(go..)?, new.get(come..)?);
        }
    }

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        let mut changes = Vec::new();
        for _ in 0..fields.size(MOST_CHANGES)? {
            let mut part = || Ok(fields.size(LARGEST_VALUE)? as u32);
            changes.push(Change { keep: part()?, go: part()?, come: part()? });
        }
        Ok(Self { changes })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.changes.len() as u64);
        for change in &self.changes {
            for part in [change.keep, change.go, change.come] {
                put_number(out, part.into());
            }
        }
    }

    pub(crate) fn changes(&self) -> usize {
        self.changes.len()
    }

    /// How many bytes come.
    pub(crate) fn comes(&self) -> usize {
        self.changes.iter().map(|change| change.come as usize).sum()
    }

    /// Whether this shape, with other bytes, turns `old` into `new`.
    pub(crate) fn fits(&self, old: &[u8], new: &[u8]) -> bool {
        let (mut old, mut new) = (old, new);
        for Change { keep, go, come } in self.changes.iter().copied() {
            let [keep, go, come] = [keep, go, come].map(|part| part as usize);
            if old.len() < keep + go || new.len() < keep + come || old.get(..keep) != new.get(..keep) {
                return false;
            }
            old = old.get(keep + go..).unwrap_or_default();
            new = new.get(keep + come..).unwrap_or_default();
        }
        old == new
    }

    /// Appends the bytes of `new` that come to `out`.
    pub(crate) fn take(&self, new: &[u8], out: &mut Vec<u8>) {
        let mut rest = new;
        for Change { keep, come, .. } in &self.changes {
            let come = *come as usize;
            rest = rest.get(*keep as usize..).unwrap_or_default();
            out.extend_from_slice(rest.get(..come).unwrap_or_default());
            rest = rest.get(come..).unwrap_or_default();
        }
    }

    /// Appends what becomes of `old` to `out`, with bytes that come from `source`, and what goes to `gone`.
    pub(crate) fn apply(
        &self,
        old: &[u8],
        source: &mut Fields<'_>,
        out: &mut Vec<u8>,
        mut gone: Option<&mut Vec<u8>>,
    ) -> Result<(), Fault> {
        let mut old = Fields::of(old);
        for Change { keep, go, come } in &self.changes {
            out.extend_from_slice(old.bytes(*keep as usize)?);
            let goes = old.bytes(*go as usize)?;
            if let Some(gone) = &mut gone {
                gone.extend_from_slice(goes);
            }
            out.extend_from_slice(source.bytes(*come as usize)?);
        }
        out.extend_from_slice(old.rest());
        Ok(())
    }

    /// What turns the new value into the old one again.
    pub(crate) fn reversed(&self) -> Self {
        let changes = self.changes.iter().map(|&Change { keep, go, come }| Change { keep, go: come, come: go });
        Self { changes: changes.collect() }
    }
}

/// How many bytes both begin with.
fn common_start(old: &[u8], new: &[u8]) -> usize {
    let words = old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0);
    let start = words.take_while(|(old, new)| old == new).count() * 8;
    let rest = old.iter().skip(start).zip(new.iter().skip(start));
    start + rest.take_while(|(old, new)| old == new).count()
}

fn common_end(old: &[u8], new: &[u8]) -> usize {
    old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count()
}

/// How many bytes of each are behind the difference that both begin with: up to where they agree again, nearby or
/// at their ends.
fn difference(old: &[u8], new: &[u8]) -> (usize, usize) {
    let agree = |go: usize, come: usize| {
        let old = old.get(go..go + AGREE);
        old.is_some() && old == new.get(come..come + AGREE)
    };
    for far in 1..=SEARCH {
        for near in (far.saturating_sub(SHIFT)..=far).rev() {
            if agree(far, near) {
                return (far, near);
            }
            if agree(near, far) {
                return (near, far);
            }
        }
    }
    let end = common_end(old, new);
    (old.len() - end, new.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &[u8], new: &[u8], changes: usize) {
        let shape = Shape::between(old, new).unwrap();
        assert_eq!(shape.changes(), changes, "{shape:?}");
        let mut encoded = Vec::new();
        shape.encode(&mut encoded);
        let mut fields = Fields::of(&encoded);
        assert_eq!(Shape::parse(&mut fields), Ok(shape.clone()));
        assert_eq!(fields.end(), Ok(()));
        assert!(shape.fits(old, new));

        let (mut comes, mut gone, mut made, mut back) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        shape.take(new, &mut comes);
        assert_eq!(comes.len(), shape.comes());
        shape.apply(old, &mut Fields::of(&comes), &mut made, Some(&mut gone)).unwrap();
        assert_eq!(made, new);
        shape.reversed().apply(new, &mut Fields::of(&gone), &mut back, None).unwrap();
        assert_eq!(back, old);
    }

    #[test]
    fn an_edit_makes_the_new_value_and_gives_back_the_old() {
        check(b"", b"", 0);
        check(b"same", b"same", 0);
        check(b"", b"all new", 1);
        check(b"all gone", b"", 1);
        check(b"time 10:00:00, count 7 of ten", b"time 10:00:10, count 8 of ten", 2);
        check(b"length 9 is shorter", b"length 10 is shorter", 1);
        check(b"abcdefgh", b"ijklmnop", 1);
        check(&[b"head", &[b'x'; 500][..], b"tail"].concat(), &[b"head", &[b'y'; 400][..], b"tail"].concat(), 1);
    }

    #[test]
    fn a_shape_fits_only_where_what_is_kept_is_the_same() {
        let shape = Shape::between(b"at 10 o'clock", b"at 11 o'clock").unwrap();
        assert!(shape.fits(b"at 10 o'clock", b"at 19 o'clock"));
        for (old, new) in [("at 10 o'clock", "at 20 o'clock"), ("at 1", "at 2"), ("at 10 o'clock", "at 11 o'clock.")] {
            assert!(!shape.fits(old.as_bytes(), new.as_bytes()), "{old} {new}");
        }
    }

    #[test]
    fn an_edit_of_more_than_there_is_is_refused() {
        let shape = Shape::between(b"at 10 o'clock", b"at 11 o'clock").unwrap();
        let mut out = Vec::new();
        assert!(shape.apply(b"at", &mut Fields::of(b"1"), &mut out, None).is_err());
        assert!(shape.apply(b"at 10 o'clock", &mut Fields::of(b""), &mut out, None).is_err());
    }
}
