//! A plan as people read it.

use std::fmt;

use super::{Part, Remark, RestorePlan};

impl fmt::Display for RestorePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target {
            Some(target) => write!(f, "to revision {target}")?,
            None => f.write_str("to whatever the snapshot holds")?,
        }
        if let Some(lineage) = &self.base.lineage {
            write!(f, " of lineage {lineage}")?;
        }
        writeln!(f, ": {} objects, {} bytes", 1 + self.deltas.len(), self.size_bytes())?;
        writeln!(f, "  full   {}", self.base.key)?;
        for Part { entry, take } in &self.deltas {
            write!(f, "  delta  {}", entry.key)?;
            match entry.changes() == Some(*take) {
                true => writeln!(f)?,
                false => writeln!(f, ", of which {} to {}", take.from, take.to)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HoleBeyond(hole) => write!(f, "later changes are in the archive, but {hole}"),
            Self::NewerLost { lineage } => {
                write!(
                    f,
                    "later changes are in the archive, but nothing of the newer lineage {lineage} can be restored"
                )
            }
            Self::LaterLost => f.write_str("later snapshots are in the archive, but none of them can be used"),
            Self::OlderLineage { newest, left_at: Some(revision) } => {
                write!(f, "the newest lineage, {newest}, went on from revision {revision} of this one")
            }
            Self::OlderLineage { newest, left_at: None } => {
                write!(f, "the newest lineage, {newest}, does not have it")
            }
            Self::Avoided { full } => {
                write!(f, "{full} is not used: it seems to be compacted, and its keys would lack their leases")
            }
            Self::LessExact => f.write_str(
                "the full seems to be compacted, and its keys may lack their leases; nothing else leads there",
            ),
            Self::InTheOpen { objects, since } => {
                let lie = if *objects == 1 { "lies" } else { "lie" };
                write!(
                    f,
                    "{objects} of the objects that it reads {lie} in the open, from before {since:.0}, since when the archive is \
                     encrypted: whoever may write to the store can have made such"
                )
            }
            Self::MarksUntold { why } => write!(
                f,
                "objects may be marked as not to be restored from, which cannot be read ({why}): allow reading their tags, \
                 which is s3:GetObjectTagging, and in Azure tags/read or `t` of a shared access signature"
            ),
            Self::LaterFull => f.write_str("the full is later, but has all history from the target on"),
        }
    }
}
