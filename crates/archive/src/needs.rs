//! What an open point needs, and with which bytes: to tell how far it is proven, and to record what was shown of all of
//! it at once.

use std::collections::BTreeMap;

use etcd_data::Revision;
use jiff::Timestamp;
use store::Key;

use crate::agree::{Agreed, told};
use crate::archive::Archive;
use crate::error::Error;
use crate::identity::LineageId;
use crate::name::Name;
use crate::proof::{Evidence, Item, Level, Need, ObjectDigest, Proven};

impl Archive {
    /// How far the point that `agreed` leads to is proven. Nothing if something that it needs is not proven at all.
    pub fn proven_level(&self, agreed: &Agreed, proven: &Proven) -> Option<Level> {
        let digests = digests(agreed);
        let need = |(key, up_to): (Key, Revision)| {
            let digest = digests.get(&key).copied()?;
            Some((key, digest, up_to))
        };
        let needs: Option<Vec<(Key, ObjectDigest, Revision)>> = needed(agreed).into_iter().map(need).collect();
        let needs = needs?;
        let needs: Vec<Need<'_>> = needs
            .iter()
            .map(|(key, digest, up_to)| Need { object: self.name_of(key), digest: *digest, up_to: *up_to })
            .collect();
        proven.point(&needs).map(|point| point.level)
    }

    /// Records `evidence` of everything that the point which `agreed` leads to needs. Gives the proofs' keys; none in
    /// archives of other systems, where nothing is recorded.
    pub fn record_of_point(&self, agreed: &Agreed, evidence: &Evidence, now: Timestamp) -> Result<Vec<Key>, Error> {
        let digests = digests(agreed);
        let mut lineages: BTreeMap<LineageId, Vec<Item>> = BTreeMap::new();
        for (key, _) in needed(agreed) {
            let (object, digest) = (self.name_of(&key), digests.get(&key).copied());
            let lineage = Name::parse(object).and_then(|name| name.lineage().cloned());
            let Some((lineage, digest)) = lineage.zip(digest) else { continue };
            let item = Item { object: object.into(), digest, time: now, evidence: evidence.clone() };
            lineages.entry(lineage).or_default().push(item);
        }
        let mut keys = Vec::new();
        for (lineage, items) in &lineages {
            keys.extend(self.record(lineage, items, now)?);
        }
        Ok(keys)
    }
}

/// The objects that a point is made of, each with the last revision that is taken of it.
fn needed(agreed: &Agreed) -> Vec<(Key, Revision)> {
    let plan = &agreed.plan;
    let base_up_to = plan.base.to.into_iter().chain(plan.target).min().unwrap_or_default();
    let deltas = plan.deltas.iter().map(|part| (part.entry.key.clone(), part.take.to));
    std::iter::once((plan.base.key.clone(), base_up_to)).chain(deltas).collect()
}

fn digests(agreed: &Agreed) -> BTreeMap<Key, ObjectDigest> {
    told(&agreed.objects).into_iter().map(|(key, told)| (key, ObjectDigest(told.digest))).collect()
}
