//! The etcd that is followed.

use etcd_rpc::{Access, Member, RangeRequest};
use testkit::{Etcd, Version};

use super::super::archive::scratch;
use super::load::Write;
use super::load::sending::Sending;
use crate::Result;

/// A real etcd without fsync, on a folder of its own, and what talks to it.
pub(super) struct Followed {
    pub(super) runtime: tokio::runtime::Runtime,
    etcd: Etcd,
    _folder: tempfile::TempDir,
}

/// Room for everything that is written to it here.
const QUOTA: &str = "--quota-backend-bytes=8589934592";

impl Followed {
    pub(super) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let folder = scratch()?;
        let member = testkit::Member::new(Version::V36, folder.path().join("data"));
        let etcd = member.without_fsync().flag(QUOTA).start();
        Ok(Self { runtime, etcd, _folder: folder })
    }

    pub(super) fn url(&self) -> String {
        self.etcd.client_url()
    }

    /// A connection of its own.
    pub(super) fn member(&self) -> Result<Member> {
        let _inside = self.runtime.enter();
        Ok(Member::new(self.url().parse()?, &Access::default()))
    }

    /// Writes everything, some at once, and gives what was acknowledged when.
    pub(super) fn write(&self, writes: impl Iterator<Item = Write> + Send + 'static) -> Result<Sending> {
        let mut sending = Sending::to(self.member()?);
        let mut writes = super::load::made_ahead(writes);
        self.runtime.block_on(async {
            while let Some(write) = writes.recv().await {
                sending.send(write).await?;
            }
            sending.settle_all().await?;
            Ok(sending)
        })
    }

    /// The revision that it has reached.
    pub(super) fn revision(&self) -> Result<i64> {
        revision(&self.runtime, &self.member()?)
    }
}

/// The revision of a member, by a linearizable read.
pub(super) fn revision(runtime: &tokio::runtime::Runtime, member: &Member) -> Result<i64> {
    let question = RangeRequest { key: vec![0].into(), count_only: true, ..RangeRequest::default() };
    let answer = runtime.block_on(member.range(question))?;
    Ok(answer.header.map_or(0, |header| header.revision))
}
