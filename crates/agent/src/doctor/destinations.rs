//! The other destinations: what is tried of the first is tried of each, but for what is done at the first alone.

use ::archive::Cluster;

use super::archive::{Looked, look};
use super::finding::{Area, Check, Finding};
use super::{READING, TRIAL, within};
use crate::home::Site;

/// What keeps two writers apart, and what is shown once for all: whoever copies needs none of it.
const AT_THE_FIRST: [&str; 7] =
    ["one-writer", "put-if-absent", "put-if-unchanged", "writer", "encryption", "anchored", "drilled"];

/// Tries one, where the `first` is that cluster's as far as is known.
pub(super) async fn examine(place: &Site, first: Option<&Cluster>) -> Vec<Finding> {
    let name = first.map(|first| first.name.clone()).or_else(|| place.cluster.clone());
    let there = Site { cluster: name, ..place.clone() };
    let (trials, read) = tokio::join!(super::store::examine(&*there.store, TRIAL), within(READING, look(&there)));
    let Looked { findings, cluster, .. } = read.unwrap_or_else(Looked::unread);
    let mut found = Area::Store.findings(trials);
    found.extend(Area::Archive.findings(findings));
    found.extend(Area::Archive.findings(whose(first, cluster.as_ref()).into_iter().collect()));
    found.retain(|finding| !AT_THE_FIRST.contains(&finding.check));
    for finding in &mut found {
        let subject = finding.subject.take().filter(|subject| subject != there.store.place());
        let of_it = subject.map(|subject| format!(" {subject}")).unwrap_or_default();
        finding.subject = Some(format!("{}{of_it}", there.store.place()));
    }
    found
}

/// Whether it is the same cluster's: another's is never written to.
fn whose(first: Option<&Cluster>, there: Option<&Cluster>) -> Option<Finding> {
    let (first, there) = first.zip(there)?;
    let check = Check::of("whose");
    Some(match first == there {
        true => check.ok("it is the same cluster's as the first"),
        false => check.broken(
            format!(
                "it is that of {} ({}), and the first is that of {} ({})",
                there.name, there.id, first.name, first.id
            ),
            "--also names a place that no other cluster has",
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use store::Memory;

    use super::super::finding::Verdict;
    use super::*;
    use crate::home::Home;

    #[tokio::test]
    async fn a_place_of_the_same_cluster_is_well_and_one_of_another_is_refused() {
        let site = || Site::open_to_all(Arc::new(Memory::new()), &std::env::temp_dir());
        let (ours, empty) = (site(), site());
        let cluster = Home::find(ours.clone(), Timestamp::UNIX_EPOCH).await.unwrap().cluster;
        let broken = async |place: &Site, first: &Cluster| {
            let found = examine(place, Some(first)).await;
            let named = found.iter().all(|finding| finding.subject.as_ref().is_some_and(|on| on.starts_with("memory")));
            assert!(named, "{found:#?}");
            let broken = found.into_iter().filter(|finding| finding.verdict == Verdict::Broken);
            broken.map(|finding| finding.check).collect::<Vec<_>>()
        };
        assert_eq!(broken(&ours, &cluster).await, [""; 0]);
        assert_eq!(broken(&empty, &cluster).await, [""; 0]);
        let other = Home::find(site(), Timestamp::UNIX_EPOCH).await.unwrap().cluster;
        assert_eq!(broken(&ours, &other).await, ["whose"]);
    }
}
