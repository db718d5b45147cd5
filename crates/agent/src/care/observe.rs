//! Looking at a cluster: its list of members from one who answers, and from each what it says itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use etcd_rpc::{Access, Endpoint, Fault, ListedMember, Member, RpcError, Status, Word};
use futures::future::join_all;

use super::cluster::{ClusterSeen, MemberSeen, Untold};

/// What is being done while a member is looked for.
pub(crate) const REACHING: &str = "reaching a member";

/// Connections to the members, which are kept from one look to the next.
#[derive(Debug)]
pub(crate) struct Members {
    endpoints: Vec<Endpoint>,
    access: Access,
    connected: Mutex<BTreeMap<String, Member>>,
}

impl Members {
    /// Nobody is connected to yet.
    pub(crate) fn new(endpoints: Vec<Endpoint>, access: Access) -> Self {
        Self { endpoints, access, connected: Mutex::default() }
    }

    /// Asks everybody.
    pub(crate) async fn observe(&self) -> Result<ClusterSeen, RpcError> {
        let (speaker, listed) = self.listed().await?;
        let reached = join_all(listed.members.iter().map(|member| self.reach(member))).await;
        let members = listed.members.into_iter().zip(reached);
        let members = members.map(|(listed, reached)| MemberSeen {
            listed,
            status: reached.map(|(_, status)| status).map_err(|error| error.fault),
        });
        let members = members.collect();
        let told = speaker.auth_status().await.map_err(|error| error.fault);
        let users_untold = Untold::by(&told, &self.access);
        Ok(ClusterSeen { cluster_id: listed.cluster_id, members, alarms: speaker.alarms().await?, users_untold })
    }

    /// The first of the endpoints that knows who is a member. What a majority says goes before what one says.
    pub(crate) async fn listed(&self) -> Result<(Member, etcd_rpc::Members), RpcError> {
        let mut last = None;
        for word in [Word::Majority, Word::Own] {
            for endpoint in &self.endpoints {
                let member = self.at(endpoint);
                match member.members(word).await {
                    Ok(listed) => return Ok((member, listed)),
                    Err(error) => last = Some(error),
                }
            }
        }
        let nowhere = Fault::Unreachable { why: "no endpoint is given".to_owned() };
        Err(last.unwrap_or_else(|| self.error("listing the members", nowhere)))
    }

    /// A listed member, by the first way that leads to it, and what it says.
    pub(crate) async fn reach(&self, listed: &ListedMember) -> Result<(Member, Status), RpcError> {
        let mut first = None;
        for member in self.ways_to(listed) {
            match member.status().await {
                Ok(status) if status.header.member_id == listed.id => return Ok((member, status)),
                // Somebody else answers there.
                Ok(_) => {}
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        Err(first.unwrap_or_else(|| {
            self.error(REACHING, Fault::Unreachable { why: "it serves nowhere that is known".to_owned() })
        }))
    }

    /// Where a member may be reached: where it says it serves, and if that is not reachable from here, where we were told to look.
    fn ways_to(&self, listed: &ListedMember) -> Vec<Member> {
        let own = listed.client_urls.iter().filter_map(|url| url.parse::<Endpoint>().ok());
        let mut ways: Vec<Endpoint> = own.collect();
        for endpoint in &self.endpoints {
            // A member that has not started yet serves nowhere.
            if !listed.client_urls.is_empty() && !ways.contains(endpoint) {
                ways.push(endpoint.clone());
            }
        }
        ways.iter().map(|endpoint| self.at(endpoint)).collect()
    }

    fn at(&self, endpoint: &Endpoint) -> Member {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let member = connected.entry(endpoint.to_string());
        member.or_insert_with(|| Member::new(endpoint.clone(), &self.access)).clone()
    }

    pub(crate) fn error(&self, action: &'static str, fault: Fault) -> RpcError {
        RpcError { endpoint: self.endpoints.first().cloned().unwrap_or_default(), action, fault }
    }
}
