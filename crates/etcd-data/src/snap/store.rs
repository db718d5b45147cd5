//! The version 2 store in a raft snapshot, as far as it tells who is in the cluster.
//!
//! What is written is the least that 3.4 to 3.6 accept. Watchers, statistics and whatever else is in the JSON of a
//! server are passed over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Membership, SnapError};
use crate::member_id::MemberId;
use crate::tables::Member;

/// Reads the members out of the JSON of a store.
pub(super) fn parse(json: &[u8]) -> Result<Membership, SnapError> {
    let store: Store = serde_json::from_slice(json).map_err(SnapError::Store)?;
    let Some(cluster) = store.root.child("0") else { return Ok(Membership::default()) };
    let mut membership = Membership {
        cluster_version: cluster.child("version").map(|version| version.value.clone()),
        ..Membership::default()
    };
    for (id, node) in cluster.children_of("members") {
        membership.members.push(member(id, node)?);
    }
    for (id, _) in cluster.children_of("removed_members") {
        membership.removed.push(member_id("/0/removed_members", id)?);
    }
    membership.members.sort_by_key(|member| member.id);
    membership.removed.sort_unstable();
    Ok(membership)
}

/// The JSON of a store with these members.
pub(super) fn encode(membership: &Membership) -> Vec<u8> {
    let mut members = Map::new();
    for member in &membership.members {
        let (id, node) = member_node(member);
        members.insert(id, node);
    }
    let mut cluster = Map::new();
    cluster.insert("members".into(), directory("/0/members", members));
    if !membership.removed.is_empty() {
        let path = |id: &MemberId| format!("/0/removed_members/{id}");
        let removed = membership.removed.iter().map(|id| (id.to_string(), leaf(&path(id), String::new())));
        cluster.insert("removed_members".into(), directory("/0/removed_members", removed.collect()));
    }
    if let Some(version) = &membership.cluster_version {
        cluster.insert("version".into(), leaf("/0/version", version.clone()));
    }
    let mut root = Map::new();
    root.insert("0".into(), directory("/0", cluster));
    root.insert("1".into(), directory("/1", Map::new()));
    let index = membership.members.len();
    json!({ "Root": directory("/", root), "CurrentIndex": index, "CurrentVersion": 2 }).to_string().into_bytes()
}

#[derive(Deserialize)]
struct Store {
    #[serde(rename = "Root")]
    root: Node,
}

#[derive(Deserialize)]
struct Node {
    #[serde(rename = "Value", default)]
    value: String,
    #[serde(rename = "Children", default)]
    children: Option<BTreeMap<String, Node>>,
}

impl Node {
    fn child(&self, name: &str) -> Option<&Node> {
        self.children.as_ref()?.get(name)
    }

    fn children_of(&self, name: &str) -> impl Iterator<Item = (&String, &Node)> {
        self.child(name).and_then(|child| child.children.as_ref()).into_iter().flatten()
    }
}

#[derive(Serialize, Deserialize)]
struct RaftAttributes {
    #[serde(rename = "peerURLs")]
    peer_urls: Option<Vec<String>>,
    #[serde(rename = "isLearner", default, skip_serializing_if = "std::ops::Not::not")]
    is_learner: bool,
}

/// What a member says about itself. 3.4 sends it in this form too.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Attributes {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(rename = "clientURLs", skip_serializing_if = "Option::is_none")]
    pub(crate) client_urls: Option<Vec<String>>,
}

fn member(id: &str, node: &Node) -> Result<Member, SnapError> {
    let fault = |name: &str| SnapError::Member { path: format!("/0/members/{id}/{name}") };
    let raft = node.child("raftAttributes").ok_or_else(|| fault("raftAttributes"))?;
    let raft: RaftAttributes = serde_json::from_str(&raft.value).map_err(|_| fault("raftAttributes"))?;
    let attributes = match node.child("attributes") {
        Some(attributes) => serde_json::from_str(&attributes.value).map_err(|_| fault("attributes"))?,
        None => Attributes::default(),
    };
    Ok(Member {
        id: member_id("/0/members", id)?.0,
        peer_urls: raft.peer_urls.unwrap_or_default(),
        is_learner: raft.is_learner,
        name: attributes.name,
        client_urls: attributes.client_urls.unwrap_or_default(),
    })
}

fn member_id(folder: &str, id: &str) -> Result<MemberId, SnapError> {
    MemberId::parse(id.as_bytes()).ok_or_else(|| SnapError::Member { path: format!("{folder}/{id}") })
}

fn member_node(member: &Member) -> (String, Value) {
    let id = MemberId(member.id).to_string();
    let path = format!("/0/members/{id}");
    let raft = RaftAttributes { peer_urls: Some(member.peer_urls.clone()), is_learner: member.is_learner };
    let mut children = Map::new();
    children.insert("raftAttributes".into(), leaf(&format!("{path}/raftAttributes"), json!(raft).to_string()));
    // etcdutl leaves the name to the member, which says it when it starts.
    if !member.client_urls.is_empty() {
        let urls = Some(member.client_urls.clone());
        let attributes = Attributes { name: member.name.clone(), client_urls: urls };
        children.insert("attributes".into(), leaf(&format!("{path}/attributes"), json!(attributes).to_string()));
    }
    (id, directory(&path, children))
}

fn leaf(path: &str, value: String) -> Value {
    node(path, value, Value::Null)
}

fn directory(path: &str, children: Map<String, Value>) -> Value {
    node(path, String::new(), Value::Object(children))
}

fn node(path: &str, value: String, children: Value) -> Value {
    json!({
        "Path": path,
        "CreatedIndex": 0,
        "ModifiedIndex": 0,
        "ExpireTime": "0001-01-01T00:00:00Z",
        "Value": value,
        "Children": children,
    })
}
