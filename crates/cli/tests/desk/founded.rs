//! What an archive tells of the cluster `prod` and of its first lineage.

use archive::about::{ClusterNote, LineageNote};
use archive::header::FORMAT;
use archive::identity::ClusterUid;
use archive::name::Name;
use archive::{Cluster, LineageId};
use jiff::Timestamp;
use store::{Key, Put, Store};
use tokio::runtime::Runtime;

/// What wrote it.
pub(crate) const PROGRAM: &str = "refloat 0.1.0";

/// Writes that below `prod/`. Gives whose objects there are to be, and of which history.
pub(crate) fn found(runtime: &Runtime, store: &dyn Store, began: Timestamp) -> (Cluster, LineageId) {
    let cluster = Cluster { name: "prod".into(), id: ClusterUid(7) };
    let lineage = LineageId::new(began, 1);
    let program = PROGRAM.to_owned();
    let cluster_note = ClusterNote { format: FORMAT, cluster: cluster.clone(), made: began, program: program.clone() };
    let why = "the first".to_owned();
    let lineage_note = LineageNote { format: FORMAT, lineage: lineage.clone(), parent: None, began, why, program };
    for (name, json) in [
        (Name::Cluster, serde_json::to_vec(&cluster_note).unwrap()),
        (Name::Lineage(lineage.clone()), serde_json::to_vec(&lineage_note).unwrap()),
    ] {
        let key = Key::parse(format!("prod/{name}")).unwrap();
        runtime.block_on(store.put(&key, json.into(), &Put::default())).unwrap();
    }
    (cluster, lineage)
}
