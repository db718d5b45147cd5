//! Whether a live cluster has the history that an archive ends with, and what follows from that.
//!
//! Names and ids prove nothing: a cluster that was restored may keep its id, and one that was pointed at a wrong archive
//! has a name. So what the archive holds of a revision is compared with what the cluster says of it. Where they differ,
//! the last revision that both have is looked for, as far back as the cluster still tells; and where it tells nothing any
//! more, by what has lived since.

mod at_rest;
mod compare;
mod witness;

use archive::Error;
use archive::plan::Parent;
use archive::tip::Tip;
use etcd_data::{Kind, Revision};

use crate::follow::live::{Live, Sight, Trouble};
use crate::home::Home;
use compare::Compare;
use witness::{Running, Witness};

pub(crate) use at_rest::AtRest;
pub(crate) use compare::{archived, tells};

/// How an archive goes on.
#[derive(Debug)]
pub enum Resume {
    /// The history goes on after this end of it.
    GoOn(Box<Tip>),
    /// The history is another from some point on, or nothing shows that it is the same, or there was none.
    NewLineage {
        /// The last point that both have, if there is one.
        parent: Option<Parent>,
        /// Why.
        why: String,
    },
}

/// It cannot be told how an archive goes on, or it must not.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The cluster did not answer.
    #[error(transparent)]
    Live(#[from] Trouble),
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] Error),
    /// Nothing shows that they belong together.
    #[error(
        "the archive ends with revision {tip} of another cluster: what this one, at revision {live}, has in common with it does not show"
    )]
    Stranger {
        /// Where the archive ends.
        tip: Revision,
        /// Where the cluster is.
        live: Revision,
    },
}

impl ResumeError {
    /// What a caller may do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Live(trouble) => trouble.kind(),
            Self::Archive(error) => error.kind(),
            Self::Stranger { .. } => Kind::Conflict,
        }
    }
}

/// What was found of a cluster and an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where the archive ends.
    pub tip: Revision,
    /// Where the cluster is.
    pub live: Revision,
    /// Whether etcd calls the cluster as it did then. Nothing if that was not told.
    pub same_id: Option<bool>,
    /// The last revision that both have, as far as both tell.
    pub shared: Shared,
}

/// How far two histories are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// Up to this revision, and the next differs or is not there.
    UpTo(Revision),
    /// Up to this revision, and perhaps further: what came after it has been compacted away.
    AtLeast(Revision),
    /// Nothing that can be compared is the same.
    Nothing,
    /// The cluster has compacted away everything that could be compared.
    Unknown,
}

/// What is done with the archive of a cluster with which this one has nothing in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForeignCluster {
    /// It is left alone: somebody may have given one archive to two clusters.
    #[default]
    Refuse,
    /// A person knows, or it was seen, that this cluster takes the place of that one: a new lineage begins.
    Replaces,
}

/// What follows from what was found.
pub fn decide(found: &Found, tip: Tip, foreign: ForeignCluster) -> Result<Resume, ResumeError> {
    let Found { tip: end, live, same_id, shared } = *found;
    let lineage = tip.lineage.clone();
    let parent = |revision| Some(Parent { lineage, revision });
    let replaced = |parent, how: &str| Ok(Resume::NewLineage { parent, why: how.to_owned() });
    match (shared, same_id) {
        (Shared::UpTo(at), Some(true) | None) if at == end => Ok(Resume::GoOn(Box::new(tip))),
        (Shared::UpTo(at), _) if at == end => {
            replaced(parent(at), &format!("the cluster was restored from revision {at}, and has another id"))
        }
        (Shared::UpTo(at), _) => replaced(
            parent(at),
            &format!("the cluster was restored from revision {at}; it is at {live}, and was at {end}"),
        ),
        (Shared::AtLeast(at), Some(true)) if live >= end => {
            replaced(parent(at), &format!("what came after revision {end} has been compacted away before it was seen"))
        }
        (Shared::AtLeast(at), _) => replaced(
            parent(at),
            &format!("the cluster was restored from revision {at} or a later one; it is at {live}, and was at {end}"),
        ),
        // It may be the same. But nobody could tell if it were not, and what is called one history is one.
        (Shared::Unknown, Some(true)) if live >= end => {
            replaced(None, &format!("what came after revision {end} has been compacted away before it was seen"))
        }
        (Shared::Unknown | Shared::Nothing, _) if foreign == ForeignCluster::Replaces => {
            replaced(None, &format!("the cluster was replaced; it is at revision {live}, and was at {end}"))
        }
        (Shared::Unknown, Some(true)) => {
            replaced(None, &format!("the cluster went back to revision {live}, and was at {end}"))
        }
        (Shared::Unknown | Shared::Nothing, _) => Err(ResumeError::Stranger { tip: end, live }),
    }
}

/// Finds out how an archive that ends with `tip` goes on with the cluster that `member` is of.
pub async fn resume(
    live: &dyn Live,
    member: u64,
    sight: &Sight,
    home: &Home,
    tip: Option<Tip>,
    foreign: ForeignCluster,
) -> Result<Resume, ResumeError> {
    let Some(tip) = tip else { return Ok(Resume::NewLineage { parent: None, why: "the first".into() }) };
    go_on(&Running { live, member }, Some(sight.cluster), home, tip, foreign).await
}

/// The same with the cluster that `witness` tells of. etcd calls it `cluster`, if that shows.
pub(crate) async fn go_on(
    witness: &dyn Witness,
    cluster: Option<u64>,
    home: &Home,
    tip: Tip,
    foreign: ForeignCluster,
) -> Result<Resume, ResumeError> {
    let reached = witness.current().await?;
    let told = tip.closing.etcd_cluster.as_ref();
    let same_id = told.zip(cluster).map(|(told, cluster)| *told == format!("{cluster:x}"));
    let compare = Compare { witness, home, tip: &tip };
    let shared = compare.shared(reached.min(tip.revision)).await?;
    decide(&Found { tip: tip.revision, live: reached, same_id, shared }, tip, foreign)
}

#[cfg(test)]
mod tests {
    use archive::{Closing, Epoch, LineageId};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn every_case_has_its_answer() {
        let tip = || Tip {
            lineage: LineageId::new(Timestamp::UNIX_EPOCH, 1),
            revision: Revision(100),
            seen: Timestamp::UNIX_EPOCH,
            link: None,
            epoch: Epoch(1),
            closing: Closing::default(),
            changes: vec![],
        };
        let up_to = |at| Shared::UpTo(Revision(at));
        use ForeignCluster::{Refuse, Replaces};
        let table = [
            (120, Some(true), up_to(100), Refuse, "go on"),
            (100, None, up_to(100), Refuse, "go on"),
            (120, Some(false), up_to(100), Refuse, "new lineage from 100"),
            (120, Some(true), up_to(80), Refuse, "new lineage from 80"),
            (90, Some(true), up_to(90), Refuse, "new lineage from 90"),
            (90, Some(false), up_to(90), Refuse, "new lineage from 90"),
            (900, Some(false), Shared::AtLeast(Revision(70)), Refuse, "new lineage from 70"),
            (900, None, Shared::AtLeast(Revision(70)), Refuse, "new lineage from 70"),
            (900, Some(true), Shared::AtLeast(Revision(70)), Refuse, "new lineage from 70"),
            (90, Some(true), Shared::AtLeast(Revision(70)), Refuse, "new lineage from 70"),
            (900, Some(true), Shared::Unknown, Refuse, "new lineage"),
            (90, Some(true), Shared::Unknown, Refuse, "new lineage"),
            (900, Some(false), Shared::Unknown, Refuse, "stranger"),
            (900, None, Shared::Unknown, Refuse, "stranger"),
            (900, Some(false), Shared::Unknown, Replaces, "new lineage"),
            (900, Some(true), Shared::Nothing, Refuse, "stranger"),
            (900, Some(true), Shared::Nothing, Replaces, "new lineage"),
        ];
        for (live, same_id, shared, foreign, expected) in table {
            let found = Found { tip: Revision(100), live: Revision(live), same_id, shared };
            let told = match decide(&found, tip(), foreign) {
                Ok(Resume::GoOn(_)) => "go on".to_owned(),
                Ok(Resume::NewLineage { parent: Some(parent), .. }) => format!("new lineage from {}", parent.revision),
                Ok(Resume::NewLineage { parent: None, .. }) => "new lineage".into(),
                Err(ResumeError::Stranger { .. }) => "stranger".into(),
                Err(error) => error.to_string(),
            };
            assert_eq!(told, expected, "{found:?} {foreign:?}");
        }
    }
}
