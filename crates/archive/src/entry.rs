//! An object as the catalogue knows it: ours, or one that another system wrote.
//!
//! An entry is made of a listing alone, so it is what an object claims to be. Whoever opens the object compares.

use etcd_data::Revision;
use etcd_data::database::RevisionRange;
use jiff::Timestamp;
use store::Key;

use crate::identity::LineageId;
use crate::name::FullForm;

/// Who laid out the place that an object is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// We did.
    Refloat,
    /// Gardener's etcd-backup-restore.
    Etcdbrctl,
    /// K3s or RKE2.
    K3s,
    /// OpenShift's backup pods and scripts.
    OpenShift,
}

/// An object of an archive that holds records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is, from the place that the store was opened at.
    pub key: Key,
    /// What its layout calls it: what people find in their own tools.
    pub name: String,
    /// Who laid it out.
    pub layout: Layout,
    /// The lineage that it is of. Only our own archives tell lineages apart.
    pub lineage: Option<LineageId>,
    /// What it is.
    pub form: Form,
    /// The last revision in it, as its name has it; nothing if the name does not tell. etcdbrctl's fulls may hold
    /// more than their name says.
    pub to: Option<Revision>,
    /// When it was taken, as far as its name tells.
    pub taken: Option<Timestamp>,
    /// When the store says that it was written.
    pub modified: Timestamp,
    /// Its size.
    pub size_bytes: u64,
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A full of ours, logical or plain.
    Full(FullForm),
    /// A delta of ours, from this revision on.
    Delta {
        /// How often it was merged.
        level: u8,
        /// The first revision in it.
        from: Revision,
    },
    /// A snapshot file that another system keeps, in whatever it is wrapped.
    Snapshot,
    /// A delta of etcdbrctl, from this revision on.
    Events {
        /// The first revision in it.
        from: Revision,
    },
}

impl Entry {
    /// Whether a restore can begin with it.
    pub fn is_full(&self) -> bool {
        matches!(self.form, Form::Full(_) | Form::Snapshot)
    }

    /// The revisions whose changes it claims to have; nothing if it is a full, or does not tell.
    pub fn changes(&self) -> Option<RevisionRange> {
        match (self.form, self.to) {
            (Form::Delta { from, .. } | Form::Events { from }, Some(to)) => Some(RevisionRange { from, to }),
            _ => None,
        }
    }
}
