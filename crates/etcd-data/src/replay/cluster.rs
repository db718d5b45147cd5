//! Who is in the cluster, and which version it speaks.

use super::{Member as Replaying, Stop};
use crate::member_id::MemberId;
use crate::raft::{ConfChange, ConfChangeKind};
use crate::request::{DowngradeInfoSetRequest, MemberAttributes, MemberAttributesSetRequest, V2Request};
use crate::snap::Attributes;
use crate::tables::{Downgrade, Member, TableFault};

/// The member that a change of members is about, in JSON.
#[derive(serde::Deserialize)]
struct ChangeContext {
    #[serde(flatten)]
    member: Member,
    /// Whether a learner becomes a voter, and nothing else changes.
    #[serde(rename = "isPromote", default)]
    is_promote: bool,
}

impl Replaying {
    /// Changes the members, unless the change contradicts who they are.
    pub(super) fn change_members(&mut self, change: &ConfChange) -> Result<(), Stop> {
        let id = MemberId(change.node_id);
        if change.node_id == 0 {
            return Err(Stop::Refused);
        }
        match ConfChangeKind::try_from(change.kind).map_err(|_| Stop::Entry)? {
            ConfChangeKind::AddNode | ConfChangeKind::AddLearnerNode => {
                let context: ChangeContext = serde_json::from_slice(&change.context).map_err(|_| Stop::Entry)?;
                if context.member.id != id.0 {
                    return Err(Stop::Entry);
                }
                if context.is_promote { self.promote(id)? } else { self.add_member(context.member)? }
            }
            ConfChangeKind::RemoveNode => self.tables.remove_member(id),
            ConfChangeKind::UpdateNode => {
                let updated: Member = serde_json::from_slice(&change.context).map_err(|_| Stop::Entry)?;
                let mut member = self.tables.member(id)?.ok_or(Stop::Refused)?;
                member.peer_urls = updated.peer_urls;
                self.tables.put_member(&member);
            }
        }
        self.conf_state.apply(change);
        if self.is_of_3_5_or_later()? {
            self.tables.set_conf_state(Some(&self.conf_state));
        }
        Ok(())
    }

    fn promote(&mut self, id: MemberId) -> Result<(), Stop> {
        let mut member = self.tables.member(id)?.filter(|member| member.is_learner).ok_or(Stop::Refused)?;
        member.is_learner = false;
        self.tables.put_member(&member);
        Ok(())
    }

    /// Adds a member, unless it was removed before. 3.4 may have it in its table already, ahead of the index up to
    /// which its database is applied; then it stays as it is there.
    fn add_member(&mut self, member: Member) -> Result<(), Stop> {
        let id = MemberId(member.id);
        for removed in self.tables.removed_members() {
            if removed? == id {
                return Err(Stop::Refused);
            }
        }
        match self.tables.member(id)? {
            Some(known) if known.peer_urls == member.peer_urls => {}
            Some(_) => return Err(Stop::Refused),
            None => self.tables.put_member(&member),
        }
        Ok(())
    }

    pub(super) fn set_attributes(&mut self, request: &MemberAttributesSetRequest) -> Result<(), Stop> {
        let mut member = self.tables.member(MemberId(request.member_id))?.ok_or(Stop::Refused)?;
        let MemberAttributes { name, client_urls } = request.attributes.clone().unwrap_or_default();
        (member.name, member.client_urls) = (name, client_urls);
        self.tables.put_member(&member);
        Ok(())
    }

    pub(super) fn set_cluster_version(&mut self, version: &str) -> Result<(), Stop> {
        self.tables.set_cluster_version(Some(version));
        Ok(())
    }

    pub(super) fn set_downgrade(&mut self, request: &DowngradeInfoSetRequest) -> Result<(), Stop> {
        let target_version = if request.enabled { request.version.clone() } else { String::new() };
        self.tables.set_downgrade(Some(&Downgrade { target_version, enabled: request.enabled }));
        Ok(())
    }

    /// Carries out the requests of version 2 that say something about the cluster. All others are about a store that
    /// is not in the database.
    pub(super) fn version_2(&mut self, request: &V2Request) -> Result<(), Stop> {
        if request.method != "PUT" {
            return Ok(());
        }
        if request.path == "/0/version" {
            return self.set_cluster_version(&request.value);
        }
        let id = request.path.strip_prefix("/0/members/").and_then(|path| path.strip_suffix("/attributes"));
        let Some(id) = id.and_then(|id| MemberId::parse(id.as_bytes())) else { return Ok(()) };
        let Attributes { name, client_urls } = serde_json::from_str(&request.value).map_err(|_| Stop::Entry)?;
        let attributes = MemberAttributes { name, client_urls: client_urls.unwrap_or_default() };
        self.set_attributes(&MemberAttributesSetRequest { member_id: id.0, attributes: Some(attributes) })
    }

    /// Whether the database is one of 3.5 or later, which keep terms and members of raft. 3.4 must not find such.
    pub(super) fn is_of_3_5_or_later(&self) -> Result<bool, TableFault> {
        Ok(self.tables.term()?.is_some() || self.cluster_version()? >= (3, 5))
    }

    pub(super) fn is_of_3_6_or_later(&self) -> Result<bool, TableFault> {
        Ok(self.cluster_version()? >= (3, 6))
    }

    /// The version that the cluster speaks; (0, 0) where it is not settled yet.
    fn cluster_version(&self) -> Result<(u64, u64), TableFault> {
        let version = self.tables.cluster_version()?.unwrap_or_default();
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or_default());
        Ok((numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()))
    }
}
