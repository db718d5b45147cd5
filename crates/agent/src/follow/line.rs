//! Whole revisions, one after the other, out of what a watch gives.
//!
//! Main revisions are contiguous. So it is seen when a member leaves something out, gives something twice, or has become
//! another cluster's, whatever the reason: then nothing more is believed of that watch.

use etcd_data::Revision;
use jiff::Timestamp;

use crate::follow::live::Seen;
use crate::follow::segment::Segment;

/// How far a watch has come.
#[derive(Debug, Clone)]
pub struct Line {
    cluster: u64,
    /// The last revision of which everything is there.
    reached: Revision,
    /// The revision that is not whole yet, and how many of its changes are there.
    open: Option<(Revision, i64)>,
}

/// A watch that cannot be believed any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    /// Revisions are missing.
    #[error("the changes between revision {after} and {found} did not come")]
    Gap {
        /// The last that came.
        after: Revision,
        /// What came then, or what the member has reached.
        found: Revision,
    },
    /// What came is not next.
    #[error("revision {found} came after {after}")]
    Back {
        /// The last that came.
        after: Revision,
        /// What came then.
        found: Revision,
    },
    /// The member is behind what was seen of the cluster.
    #[error("the member is at revision {found}, and {after} was seen before: it was restored, or replaced")]
    Behind {
        /// The last that was seen.
        after: Revision,
        /// Where it is.
        found: Revision,
    },
    /// What the cluster says of the last revision is not what was seen.
    #[error("revision {at} is not what it was: the cluster was restored, or replaced")]
    OtherHistory {
        /// The last that was seen.
        at: Revision,
    },
    /// It is another cluster's.
    #[error("the cluster is {found:x} now, and was {was:x}")]
    OtherCluster {
        /// Which it was.
        was: u64,
        /// Which it is.
        found: u64,
    },
}

impl Line {
    /// One that goes on after `reached` of `cluster`.
    pub fn after(cluster: u64, reached: Revision) -> Self {
        Self { cluster, reached, open: None }
    }

    /// The last revision of which everything is there.
    pub fn reached(&self) -> Revision {
        self.reached
    }

    /// Takes what came at `now`, and puts it into `segment`.
    pub fn take(&mut self, seen: &Seen, segment: &mut Segment, now: Timestamp) -> Result<(), Break> {
        if seen.cluster != self.cluster {
            return Err(Break::OtherCluster { was: self.cluster, found: seen.cluster });
        }
        for change in &seen.changes {
            let sub = self.place(change.revision)?;
            segment.push(change, sub, now);
        }
        if !seen.is_partial {
            self.close();
            if seen.revision < self.reached {
                return Err(Break::Behind { after: self.reached, found: seen.revision });
            }
            // A member that has nothing to tell says how far that is so.
            if seen.changes.is_empty() && seen.revision > self.reached {
                return Err(Break::Gap { after: self.reached, found: seen.revision });
            }
        }
        Ok(())
    }

    /// Forgets what is not whole: whoever watches again begins after what is. Gives how far that is.
    pub fn rewind(&mut self, segment: &mut Segment) -> Revision {
        self.open = None;
        segment.split_after(self.reached);
        self.reached
    }

    /// Which change of its revision one of `revision` is that comes now.
    fn place(&mut self, revision: Revision) -> Result<i64, Break> {
        if let Some((open, count)) = &mut self.open
            && *open == revision
        {
            *count += 1;
            return Ok(*count - 1);
        }
        self.close();
        let after = self.reached;
        if revision <= after {
            return Err(Break::Back { after, found: revision });
        }
        if revision > after.next() {
            return Err(Break::Gap { after, found: revision });
        }
        self.open = Some((revision, 1));
        Ok(0)
    }

    fn close(&mut self) {
        if let Some((revision, _)) = self.open.take() {
            self.reached = revision;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::live::Change;

    fn seen(revisions: &[i64], is_partial: bool) -> Seen {
        let change = |revision: &i64| Change { key: "k".into(), revision: Revision(*revision), put: None };
        let revision = Revision(revisions.last().copied().unwrap_or(9));
        Seen { cluster: 1, revision, changes: revisions.iter().map(change).collect(), is_partial }
    }

    fn line() -> (Line, Segment) {
        (Line::after(1, Revision(4)), Segment::default())
    }

    fn subs(segment: &Segment) -> Vec<(i64, i64)> {
        segment.records().map(|(at, _)| (at.main.0, at.sub)).collect()
    }

    #[test]
    fn revisions_are_put_together_over_pieces() {
        let (mut line, mut segment) = line();
        line.take(&seen(&[5, 6, 6], true), &mut segment, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(line.reached(), Revision(5), "6 may go on");
        line.take(&seen(&[6], true), &mut segment, Timestamp::UNIX_EPOCH).unwrap();
        line.take(&seen(&[6, 7], false), &mut segment, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(line.reached(), Revision(7));
        assert_eq!(subs(&segment), [(5, 0), (6, 0), (6, 1), (6, 2), (6, 3), (7, 0)]);
    }

    #[test]
    fn who_watches_again_has_nothing_twice() {
        let (mut line, mut segment) = line();
        line.take(&seen(&[5, 6, 6], true), &mut segment, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(line.rewind(&mut segment), Revision(5));
        line.take(&seen(&[6, 6, 6], false), &mut segment, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(subs(&segment), [(5, 0), (6, 0), (6, 1), (6, 2)]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let cases = [
            (seen(&[6], false), "the changes between revision 4 and 6 did not come"),
            (seen(&[4], false), "revision 4 came after 4"),
            (seen(&[5, 7], false), "the changes between revision 5 and 7 did not come"),
            (seen(&[5, 6, 5], false), "revision 5 came after 6"),
            (seen(&[], false), "the changes between revision 4 and 9 did not come"),
            (
                Seen { revision: Revision(3), ..seen(&[], false) },
                "the member is at revision 3, and 4 was seen before: it was restored, or replaced",
            ),
            (Seen { cluster: 2, ..seen(&[5], false) }, "the cluster is 2 now, and was 1"),
        ];
        for (seen, expected) in cases {
            let (mut line, mut segment) = line();
            let error = line.take(&seen, &mut segment, Timestamp::UNIX_EPOCH).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let (mut line, mut segment) = line();
        let progress = Seen { revision: Revision(4), ..seen(&[], false) };
        assert_eq!(line.take(&progress, &mut segment, Timestamp::UNIX_EPOCH), Ok(()));
    }
}
