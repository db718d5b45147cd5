//! Keys: ranges, puts, deletions, transactions, compaction. Requests and answers are the published messages.

use bytes::Bytes;
use tonic::transport::Channel;

use crate::fault::RpcError;
use crate::header::Header;
use crate::member::{Asking, LONGEST_ANSWER, Member};
use crate::proto::etcdserverpb::kv_client::KvClient;
use crate::proto::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    TxnRequest, TxnResponse,
};
use crate::proto::mvccpb::KeyValue;

/// Begin and end of the range that is the whole key space.
pub const EVERYTHING: Bytes = Bytes::from_static(&[0]);

impl Member {
    /// Reads a range.
    pub async fn range(&self, range: RangeRequest) -> Result<RangeResponse, RpcError> {
        self.ask("reading a range", range, |channel, request| async move { kv(channel).range(request).await }).await
    }

    /// Reads one key.
    pub async fn get(&self, key: impl Into<Bytes>) -> Result<Option<KeyValue>, RpcError> {
        let range = RangeRequest { key: key.into(), ..RangeRequest::default() };
        self.range(range).await.map(|answer| answer.kvs.into_iter().next())
    }

    /// Puts a key.
    pub async fn put(&self, put: PutRequest) -> Result<PutResponse, RpcError> {
        self.ask("putting a key", put, |channel, request| async move { kv(channel).put(request).await }).await
    }

    /// Deletes a range.
    pub async fn delete(&self, range: DeleteRangeRequest) -> Result<DeleteRangeResponse, RpcError> {
        self.ask("deleting a range", range, |channel, request| async move { kv(channel).delete_range(request).await })
            .await
    }

    /// Carries out a transaction.
    pub async fn txn(&self, txn: TxnRequest) -> Result<TxnResponse, RpcError> {
        self.ask("carrying out a transaction", txn, |channel, request| async move { kv(channel).txn(request).await })
            .await
    }

    /// Compacts what is before `revision`, and waits until it is gone from the database.
    pub async fn compact(&self, revision: i64) -> Result<Header, RpcError> {
        let compaction = CompactionRequest { revision, physical: true };
        let answer = self
            .ask(Asking::for_work("compacting"), compaction, |channel, request| async move {
                kv(channel).compact(request).await
            })
            .await?;
        Ok(answer.header.into())
    }
}

fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(LONGEST_ANSWER).max_encoding_message_size(LONGEST_ANSWER)
}
