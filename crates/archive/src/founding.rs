//! Writing what is written once: whose archive this is, and where a lineage came from.
//!
//! Both are put only if nothing is there. Of two who found an archive at once, one does, and the other finds that it is
//! another cluster's and stops before it has written anything else. So two clusters that are pointed at one place by
//! mistake never share it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::{Fault, Key, Put, Store, StoreError};

use crate::about::{ClusterNote, LineageNote};
use crate::digested;
use crate::error::{Error, ObjectError};
use crate::fence::FenceError;
use crate::header::FORMAT;
use crate::name::Name;

const MAX_NOTE_BYTES: u64 = 1 << 20;

/// Makes the archive of a cluster in `folder`, which is empty or ends with a slash, or finds it there. An archive of
/// another cluster is refused.
pub async fn found_cluster(store: &dyn Store, folder: &str, note: &ClusterNote) -> Result<ClusterNote, Error> {
    let found = put_once(store, &Name::Cluster.below(folder)?, note).await?;
    if found.cluster != note.cluster {
        return Err(FenceError::OtherCluster { theirs: found.cluster, ours: note.cluster.clone() }.into());
    }
    Ok(found)
}

/// Whose archive is in `folder`, if there is one.
pub async fn cluster_at(store: &dyn Store, folder: &str) -> Result<Option<ClusterNote>, Error> {
    read(store, &Name::Cluster.below(folder)?).await
}

/// Begins a lineage, or finds that it was begun just so.
pub async fn found_lineage(store: &dyn Store, folder: &str, note: &LineageNote) -> Result<(), Error> {
    let key = Name::Lineage(note.lineage.clone()).below(folder)?;
    let found = put_once(store, &key, note).await?;
    if (&found.lineage, &found.parent) == (&note.lineage, &note.parent) {
        return Ok(());
    }
    let told = |note: &LineageNote| match &note.parent {
        Some(parent) => format!("{} from {} at {}", note.lineage, parent.lineage, parent.revision),
        None => format!("{} from nothing", note.lineage),
    };
    let source = ObjectError::Misplaced { name: told(note), itself: told(&found) };
    Err(Error::Object { key, source })
}

/// What stands at `key` after `note` was put there if nothing did.
pub(crate) async fn put_once<T>(store: &dyn Store, key: &Key, note: &T) -> Result<T, Error>
where
    T: Serialize + DeserializeOwned,
{
    // Looked for first: a store that cannot put conditionally must not write over what is there.
    if let Some(found) = read(store, key).await? {
        return Ok(found);
    }
    let json = serde_json::to_vec_pretty(note).expect("a note is plain JSON");
    match store.put(key, digested::ended(json).into(), &Put::lasting(store.abilities())).await {
        Ok(_) | Err(StoreError { fault: Fault::Exists, .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = || StoreError {
        action: "reading",
        place: store.place().into(),
        key: Some(key.clone()),
        fault: Fault::NotFound,
    };
    read(store, key).await?.ok_or_else(|| gone().into())
}

pub(crate) async fn read<T: DeserializeOwned>(store: &dyn Store, key: &Key) -> Result<Option<T>, Error> {
    let of_object = |source| Error::Object { key: key.clone(), source };
    let damaged = |what: String| of_object(ObjectError::Damaged { offset: 0, what });
    let bytes = match store.get(key, 0..MAX_NOTE_BYTES).await {
        Err(StoreError { fault: Fault::NotFound, .. }) => return Ok(None),
        bytes => bytes?,
    };
    let version: Version = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if version.format > FORMAT {
        return Err(of_object(ObjectError::Newer { found: version.format, known: FORMAT }));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(error.to_string()))
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use store::memory::Memory;

    use super::*;
    use crate::identity::{Cluster, ClusterUid, LineageId};

    fn cluster(id: u128, minute: i64) -> ClusterNote {
        let cluster = Cluster { name: "prod".into(), id: ClusterUid(id) };
        let made = Timestamp::from_second(60 * minute).unwrap();
        ClusterNote { format: FORMAT, cluster, made, program: "refloat".into() }
    }

    #[tokio::test]
    async fn a_place_is_one_clusters_for_good() {
        let store = Memory::new();
        let first = cluster(1, 0);
        assert_eq!(found_cluster(&store, "prod/", &first).await.unwrap(), first);
        assert_eq!(found_cluster(&store, "prod/", &cluster(1, 9)).await.unwrap(), first, "the first stays");
        let other = found_cluster(&store, "prod/", &cluster(2, 9)).await;
        assert!(matches!(other, Err(Error::Fence(FenceError::OtherCluster { .. }))), "{other:?}");

        let key = Key::parse("prod/cluster.json").unwrap();
        for bytes in ["", "{}", r#"{"format": 2}"#] {
            store.put(&key, bytes.into(), &Put::default()).await.unwrap();
            assert!(matches!(found_cluster(&store, "prod/", &first).await, Err(Error::Object { .. })), "{bytes}");
        }
    }

    #[tokio::test]
    async fn a_lineage_begins_once() {
        let store = Memory::new();
        let began = Timestamp::UNIX_EPOCH;
        let lineage = LineageId::new(began, 7);
        let note = LineageNote {
            format: FORMAT,
            lineage,
            parent: None,
            began,
            why: "it was restored".into(),
            program: "refloat".into(),
        };
        found_lineage(&store, "prod/", &note).await.unwrap();
        found_lineage(&store, "prod/", &note).await.unwrap();
        let key = Name::Lineage(note.lineage.clone()).below("prod/").unwrap();
        let other = LineageNote { lineage: LineageId::new(began, 8), ..note.clone() };
        let bytes = serde_json::to_vec(&other).unwrap();
        store.put(&key, bytes.into(), &Put::default()).await.unwrap();
        let told = found_lineage(&store, "prod/", &note).await;
        assert!(matches!(told, Err(Error::Object { source: ObjectError::Misplaced { .. }, .. })), "{told:?}");
    }
}
