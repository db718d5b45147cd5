//! What an open point needs, and with which bytes: to tell how far it is proven, to record what was shown of all of it at
//! once, and to tell which keys it takes.

use std::collections::BTreeMap;

use etcd_data::Revision;
use jiff::Timestamp;
use store::Key;

use crate::agree::{Agreed, told};
use crate::archive::Archive;
use crate::encryption::{KeyId, Lockbox, MAX_LOCKBOX_BYTES};
use crate::error::Error;
use crate::identity::LineageId;
use crate::name::Name;
use crate::proof::{Evidence, Item, Level, Need, ObjectDigest, Proven};

/// An archive key that a point takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededKey {
    /// Which one.
    pub id: KeyId,
    /// Where its lockbox is.
    pub lockbox: Key,
    /// Who can open that, as it is now. What objects say is who could when they were written.
    pub recipients: Vec<String>,
    /// How many of the point's objects it opens.
    pub objects: usize,
}

impl Archive {
    /// The archive keys that open what the point which `agreed` leads to needs. None if nothing of it is encrypted.
    pub fn needed_keys(&self, agreed: &Agreed) -> Result<Vec<NeededKey>, Error> {
        let told = told(&agreed.objects);
        let mut opens: BTreeMap<KeyId, usize> = BTreeMap::new();
        for (key, _) in needed(agreed) {
            if let Some(encryption) = told.get(&key).and_then(|told| told.header.encryption.as_ref()) {
                *opens.entry(encryption.archive_key).or_default() += 1;
            }
        }
        let needed_key = |(id, objects): (KeyId, usize)| -> Result<NeededKey, Error> {
            let name = Name::Lockbox(id);
            let bytes = self.read_small(&name, MAX_LOCKBOX_BYTES as u64 + 1)?;
            let recipients = Lockbox::parse(id, &bytes)?.recipients();
            Ok(NeededKey { id, lockbox: self.key(&name), recipients, objects })
        };
        opens.into_iter().map(needed_key).collect()
    }

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
