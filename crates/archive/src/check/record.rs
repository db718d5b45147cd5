//! Recording what was shown, and what turned out wrong of which something had been shown.

use std::collections::BTreeMap;

use etcd_data::Revision;
use jiff::Timestamp;

use super::deep::Shown;
use super::report::Looked;
use crate::archive::Archive;
use crate::error::Error;
use crate::identity::LineageId;
use crate::name::Name;
use crate::proof::proven::Recorded;
use crate::proof::{Evidence, Item, Level, Need, Refutation};

impl Archive {
    /// Records what was shown of objects by themselves, and by rebuilding. Gives how many objects something was recorded
    /// of. In archives of other systems nothing is.
    pub(super) fn record_all(
        &self,
        looked: &[Looked],
        shown: &Shown,
        recorded: &Recorded,
        now: Timestamp,
    ) -> Result<usize, Error> {
        if self.cluster().is_none() {
            return Ok(0);
        }
        let mut lineages: BTreeMap<LineageId, (Vec<Item>, Vec<Refutation>)> = BTreeMap::new();
        for looked in looked {
            let Some(lineage) = looked.report.entry.lineage.clone() else { continue };
            let (items, refuted) = lineages.entry(lineage).or_default();
            items.extend(self.item(looked, now));
            refuted.extend(self.refutation(looked, recorded, now));
        }
        let count = lineages.values().map(|(items, _)| items.len()).sum();
        for (key, (digest, evidence)) in shown {
            let object = self.name_of(key);
            let Some(lineage) = Name::parse(object).and_then(|name| name.lineage().cloned()) else { continue };
            let item = Item { object: object.into(), digest: *digest, time: now, evidence: evidence.clone() };
            lineages.entry(lineage).or_default().0.push(item);
        }
        for (lineage, (items, refuted)) in &lineages {
            // First what speaks against something: half of it is better lost than this.
            self.refute(lineage, refuted, now)?;
            self.record(lineage, items, now)?;
        }
        Ok(count)
    }

    /// What is shown of an object by itself.
    fn item(&self, looked: &Looked, now: Timestamp) -> Option<Item> {
        let evidence = match looked.report.level? {
            Level::Sealed => Evidence::Sealed { bytes: looked.report.bytes },
            _ => Evidence::Sound { records: looked.report.records },
        };
        let object = self.name_of(&looked.report.entry.key).to_owned();
        Some(Item { object, digest: looked.digest?, time: now, evidence })
    }

    /// That an object is less than it was proven to be.
    fn refutation(&self, looked: &Looked, recorded: &Recorded, now: Timestamp) -> Option<Refutation> {
        let wrong = looked.report.findings.iter().find(|finding| !finding.is_note())?;
        let object = self.name_of(&looked.report.entry.key);
        let need = Need { object, digest: looked.digest?, up_to: Revision(0) };
        let before = recorded.proven.object(&need)?;
        let is_less = looked.report.level < Some(before.evidence.level());
        let time = recorded.proven.found_at(object, need.digest, now);
        let refutation = || Refutation { object: object.into(), digest: need.digest, time, finding: wrong.to_string() };
        is_less.then(refutation)
    }
}
