//! The database of a member, piece by piece as it comes.

use bytes::Bytes;
use tokio::time::timeout;
use tonic::Streaming;

use crate::fault::{Fault, RpcError};
use crate::maintenance::maintenance;
use crate::member::Member;
use crate::proto::etcdserverpb::{SnapshotRequest, SnapshotResponse};

const ACTION: &str = "taking a snapshot";

/// A snapshot on its way: the database file, and 32 bytes of SHA-256 behind it.
#[derive(Debug)]
pub struct Snapshot {
    member: Member,
    pieces: Streaming<SnapshotResponse>,
}

impl Member {
    /// Asks for the database as it is now.
    pub async fn snapshot(&self) -> Result<Snapshot, RpcError> {
        let pieces =
            self.ask(ACTION, SnapshotRequest {}, |channel, request| async move {
                maintenance(channel).snapshot(request).await
            })
            .await?;
        Ok(Snapshot { member: self.clone(), pieces })
    }
}

impl Snapshot {
    /// The next piece; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, RpcError> {
        let within = self.member.deadlines().piece;
        let piece = match timeout(within, self.pieces.message()).await {
            Ok(piece) => piece.map_err(|status| self.member.fault(&status)),
            Err(_) => Err(Fault::Deadline { after: within }),
        };
        piece.map(|piece| piece.map(|piece| piece.blob)).map_err(|fault| self.member.error(ACTION, fault))
    }
}
