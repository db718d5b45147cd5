//! A plan compared with what its objects say themselves.
//!
//! Names can lie: an object can lie in the wrong place, come from another cluster, be put back where a newer one was,
//! or be written by a writer who had lost the right to, or never had it. Each contradicts something that is compared here.
//! Whoever contradicts goes into [`super::Known::without`], and another plan is chosen.
//!
//! A later writer takes from an earlier one what both wrote, so whom objects name as theirs is not believed where that takes
//! something away, and `writer.json` tells of no such writer: what claims an epoch that was never handed out is named, and
//! what the others wrote is taken. Where nobody else wrote the same, it is not asked: an epoch keeps mistakes apart, and is
//! no defence against somebody who may write to the store.

use std::fmt;

use etcd_data::Revision;
use store::Key;

use super::{Known, Part, RestorePlan};
use crate::entry::Entry;
use crate::fence::Reigns;
use crate::header::{Header, Kind, Link};
use crate::identity::{Cluster, Epoch, LineageId};

/// What an object says of itself, with the digest that it ends with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its header.
    pub header: Header,
    /// Its SHA-256.
    pub digest: [u8; 32],
}

/// An object that is not what the plan takes it for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} {fault}")]
pub struct Contradiction {
    /// Which. The plan has to do without it.
    pub key: Key,
    /// How it contradicts.
    pub fault: Fault,
}

/// How an object contradicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Its header is not known.
    Untold,
    /// It is of another cluster.
    Cluster(Cluster),
    /// It is of another lineage.
    Lineage(LineageId),
    /// It holds other revisions than its name says.
    Range {
        /// The first.
        from: Revision,
        /// The last.
        to: Revision,
    },
    /// It is not a full where its name says so, or the other way round.
    Kind,
    /// It follows on another history than the object before it.
    Link {
        /// The object before it. One of the two is wrong, and only a way around either tells which.
        before: Key,
    },
    /// A later writer reigned over revisions that are taken of it.
    Deposed {
        /// Its writer.
        epoch: Epoch,
        /// The last revision for which it counts, if it counts at all.
        until: Option<Revision>,
    },
    /// Its writer has an epoch that was never handed out, and so takes nothing from the others.
    Overreaching {
        /// The epoch.
        epoch: Epoch,
        /// The last that was handed out.
        last: Epoch,
    },
}

impl Told {
    /// What tells the end of its history.
    pub fn link(&self) -> Link {
        self.header.link(self.digest)
    }
}

impl RestorePlan {
    /// What it reads, to be compared with what that says.
    pub(crate) fn chain(&self) -> Chain<'_> {
        Chain { base: Some(&self.base), deltas: &self.deltas, rivals: &self.rivals }
    }
}

/// Objects that follow on each other, and those that claim the same.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'p> {
    pub(crate) base: Option<&'p Entry>,
    pub(crate) deltas: &'p [Part],
    pub(crate) rivals: &'p [Entry],
}

impl Chain<'_> {
    /// Whether its objects are what they are taken for: of `cluster`, in their place, by writers that had the right to, each
    /// following on the one before. `told` gives what they say, of [`RestorePlan::to_confirm`]; `others` are headers of other
    /// objects of the lineage, as far as those were read and are trusted. `last` is the last epoch that was handed out, where
    /// that was asked for, and is told.
    pub(crate) fn confirm<'t>(
        self,
        cluster: &Cluster,
        told: impl Fn(&Key) -> Option<&'t Told>,
        others: impl IntoIterator<Item = &'t Header>,
        last: Option<Epoch>,
    ) -> Result<(), Contradiction> {
        let Heard { line, headers } = hear(self, cluster, told, others)?;
        let reigns = Reigns::of_entitled(headers, last);
        for &(entry, to, told) in &line {
            require_handed_out(entry, &told.header, last)?;
            require_authority(&reigns, entry, &told.header, to)?;
        }
        for pair in line.windows(2) {
            if let [(before, _, old), (after, _, new)] = *pair {
                require_link((before, old), (after, new))?;
            }
        }
        Ok(())
    }

    /// Whether it hangs on epochs what counts of its objects: then it matters which were handed out.
    pub(crate) fn is_contested<'t>(
        self,
        cluster: &Cluster,
        told: impl Fn(&Key) -> Option<&'t Told>,
        others: impl IntoIterator<Item = &'t Header>,
    ) -> bool {
        let Ok(Heard { headers, .. }) = hear(self, cluster, told, others) else { return false };
        let reigns = Reigns::of(headers.iter().copied());
        !headers.into_iter().all(|header| reigns.counts_whole(header))
    }
}

/// What objects say of themselves, as far as they are what their names say.
struct Heard<'p, 't> {
    /// Those that are taken, and up to where.
    line: Vec<(&'p Entry, Option<Revision>, &'t Told)>,
    /// Theirs, and those of all others that say something of who wrote.
    headers: Vec<&'t Header>,
}

fn hear<'p, 't>(
    chain: Chain<'p>,
    cluster: &Cluster,
    told: impl Fn(&Key) -> Option<&'t Told>,
    others: impl IntoIterator<Item = &'t Header>,
) -> Result<Heard<'p, 't>, Contradiction> {
    let whole = chain.base.map(|base| (base, base.to));
    let parts = chain.deltas.iter().map(|part| (&part.entry, Some(part.take.to)));
    let mut line = Vec::new();
    for (entry, to) in whole.into_iter().chain(parts) {
        let told = told(&entry.key).ok_or(Fault::Untold).map_err(|fault| fault_of(entry, fault))?;
        require_itself(entry, &told.header, cluster).map_err(|fault| fault_of(entry, fault))?;
        line.push((entry, to, told));
    }
    // A rival that is not of this history, or cannot be read, takes nothing from anybody.
    let rivals = chain.rivals.iter().filter_map(|rival| Some((rival, &told(&rival.key)?.header)));
    let trusted = rivals.filter(|(rival, header)| require_itself(rival, header, cluster).is_ok());
    let headers = line.iter().map(|&(_, _, told)| &told.header).chain(trusted.map(|(_, header)| header));
    let headers = headers.chain(others).collect();
    Ok(Heard { line, headers })
}

impl Known {
    /// Notes a contradiction, so that the next plan does without what it is about.
    pub fn learn(&mut self, contradiction: Contradiction) {
        match contradiction.fault {
            Fault::Deposed { until: Some(until), .. } => {
                self.counts_until.insert(contradiction.key, until);
            }
            _ => {
                self.without.insert(contradiction.key);
            }
        }
    }
}

/// Whether an object is what its name says.
pub(crate) fn require_itself(entry: &Entry, header: &Header, cluster: &Cluster) -> Result<(), Fault> {
    let range = header.revisions();
    if header.cluster != *cluster {
        return Err(Fault::Cluster(header.cluster.clone()));
    }
    if entry.lineage.as_ref() != Some(&header.lineage) {
        return Err(Fault::Lineage(header.lineage.clone()));
    }
    if entry.is_full() != (header.kind == Kind::Full) {
        return Err(Fault::Kind);
    }
    let fits = entry.to == Some(range.to) && entry.changes().is_none_or(|named| named == range);
    if fits { Ok(()) } else { Err(Fault::Range { from: range.from, to: range.to }) }
}

/// Whether the writer of an object was let write, as far as `last` tells, the last epoch that was handed out.
fn require_handed_out(entry: &Entry, header: &Header, last: Option<Epoch>) -> Result<(), Contradiction> {
    match last {
        Some(last) if header.epoch > last => Err(fault_of(entry, Fault::Overreaching { epoch: header.epoch, last })),
        _ => Ok(()),
    }
}

/// Whether an object counts up to `to`.
fn require_authority(
    reigns: &Reigns,
    entry: &Entry,
    header: &Header,
    to: Option<Revision>,
) -> Result<(), Contradiction> {
    let until = reigns.authority(header).map(|range| range.to);
    if until.is_some() && until >= to {
        return Ok(());
    }
    Err(fault_of(entry, Fault::Deposed { epoch: header.epoch, until }))
}

/// Where one object begins right after the other ends, it names the history that it goes on with. A full from etcd that
/// was taken in the middle of a chain is not what the next delta follows on, so that one may name another.
fn require_link(before: (&Entry, &Told), after: (&Entry, &Told)) -> Result<(), Contradiction> {
    let (old, new) = (before.1, after.1);
    let meets = new.header.from == old.header.to.next();
    let is_linked = new.header.follows == Some(old.link());
    if !meets || is_linked || is_from_etcd(&old.header) {
        return Ok(());
    }
    Err(fault_of(after.0, Fault::Link { before: before.0.key.clone() }))
}

pub(crate) fn is_from_etcd(header: &Header) -> bool {
    header.kind == Kind::Full && header.stands_for.is_none()
}

fn fault_of(entry: &Entry, fault: Fault) -> Contradiction {
    Contradiction { key: entry.key.clone(), fault }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untold => f.write_str("does not tell what it is"),
            Self::Cluster(cluster) => write!(f, "is of the cluster {} ({})", cluster.name, cluster.id),
            Self::Lineage(lineage) => write!(f, "is of the lineage {lineage}"),
            Self::Range { from, to } => write!(f, "holds revisions {from} to {to}"),
            Self::Kind => f.write_str("is a delta called a full, or the other way round"),
            Self::Link { before } => write!(f, "does not follow on {before}"),
            Self::Deposed { epoch, until: Some(until) } => {
                write!(f, "is of writer {epoch}, whom another had replaced from revision {} on", until.next())
            }
            Self::Deposed { epoch, until: None } => write!(f, "is of writer {epoch}, whom another had replaced"),
            Self::Overreaching { epoch, last } => {
                write!(f, "is of writer {epoch}, and no writer after {last} was ever let write")
            }
        }
    }
}
