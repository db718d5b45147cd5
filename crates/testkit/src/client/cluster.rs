//! Membership.

use serde_json::{Value, json};

use super::json::{list, string, strings, unsigned};
use super::{Client, Result};

/// A member as the cluster lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMember {
    /// Its id.
    pub id: u64,
    /// Its name, empty until it has started once.
    pub name: String,
    /// Where its peers find it.
    pub peer_urls: Vec<String>,
    /// Where its clients find it, empty until it has started once.
    pub client_urls: Vec<String>,
    /// Whether it has no vote yet.
    pub is_learner: bool,
}

impl Client {
    /// The cluster's members, in the order of their ids.
    pub fn member_list(&self) -> Result<Vec<ListedMember>> {
        let reply = self.call("/v3/cluster/member/list", &json!({}))?;
        let mut members: Vec<ListedMember> = list(&reply["members"]).map(ListedMember::from_json).collect();
        members.sort_by_key(|member| member.id);
        Ok(members)
    }

    /// Adds a voting member; gives back its id.
    pub fn member_add(&self, peer_url: &str) -> Result<u64> {
        self.add(&json!({"peerURLs": [peer_url]}))
    }

    /// Adds a learner; gives back its id.
    pub fn learner_add(&self, peer_url: &str) -> Result<u64> {
        self.add(&json!({"peerURLs": [peer_url], "isLearner": true}))
    }

    /// Gives a learner its vote.
    pub fn member_promote(&self, id: u64) -> Result<()> {
        self.call("/v3/cluster/member/promote", &json!({"ID": id.to_string()})).map(drop)
    }

    /// Removes a member for good.
    pub fn member_remove(&self, id: u64) -> Result<()> {
        self.call("/v3/cluster/member/remove", &json!({"ID": id.to_string()})).map(drop)
    }

    fn add(&self, request: &Value) -> Result<u64> {
        let reply = self.call("/v3/cluster/member/add", request)?;
        Ok(unsigned(&reply["member"]["ID"]))
    }
}

impl ListedMember {
    fn from_json(member: &Value) -> ListedMember {
        ListedMember {
            id: unsigned(&member["ID"]),
            name: string(&member["name"]).to_owned(),
            peer_urls: strings(&member["peerURLs"]),
            client_urls: strings(&member["clientURLs"]),
            is_learner: member["isLearner"].as_bool().unwrap_or(false),
        }
    }
}
