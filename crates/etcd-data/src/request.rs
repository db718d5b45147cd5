//! The requests that entries of the raft log carry.
//!
//! Tags and types are those of `etcdserverpb/raft_internal.proto`, `etcdserverpb/rpc.proto`, `etcdserverpb/etcdserver.proto`,
//! `membershippb/membership.proto` and `authpb/auth.proto`, for all of 3.4 to 3.7. Keys and values are slices of the
//! entry that they came in, not copies. What a request does is in [`crate::replay`].

#![allow(missing_docs, reason = "fields are called as in etcd's messages, which say what they are")]

use prost::Message;
use prost::bytes::Bytes;

use crate::tables::{AlarmKind, Permission, UserOptions};

/// What an entry of kind `Normal` carries: at most one [`Command`], and who asked for it.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// The number under which the proposer waits for it, in old entries.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Who asked. Absent only in entries older than 3.0.
    #[prost(message, optional, tag = "100")]
    pub header: Option<Header>,
    /// What is to be done.
    #[prost(
        oneof = "Command",
        tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1000, 1011, 1012, 1013, 1100, 1101, 1102, 1103, 1104, 1105, 1106, \
                1107, 1200, 1201, 1202, 1203, 1204, 1300, 1301, 1302, 9900"
    )]
    pub command: Option<Command>,
}

impl Request {
    /// Reads what an entry carries. Entries that 3.4 writes for its own needs are requests of etcd's version 2, bare;
    /// they come out as [`Command::V2`].
    pub fn parse(data: Bytes) -> Result<Request, prost::DecodeError> {
        Request::decode(data.clone()).or_else(|fault| {
            // Whatever has other fields decodes as one without a method, which is no request: nobody asked for nothing.
            let request = V2Request::decode(data).ok().filter(|request| !request.method.is_empty()).ok_or(fault)?;
            Ok(Request { id: request.id, header: None, command: Some(Command::V2(request)) })
        })
    }
}

/// Who asked for a request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Header {
    /// The number under which the proposer waits for it.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The user, if authentication was on.
    #[prost(string, tag = "2")]
    pub username: String,
    /// The revision of the auth store that the permission to ask was checked against.
    #[prost(uint64, tag = "3")]
    pub auth_revision: u64,
}

/// One thing that etcd can be asked to do.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Command {
    #[prost(message, tag = "2")]
    V2(V2Request),
    #[prost(message, tag = "3")]
    Range(RangeRequest),
    #[prost(message, tag = "4")]
    Put(PutRequest),
    #[prost(message, tag = "5")]
    DeleteRange(DeleteRangeRequest),
    #[prost(message, tag = "6")]
    Txn(TxnRequest),
    #[prost(message, tag = "7")]
    Compaction(CompactionRequest),
    #[prost(message, tag = "8")]
    LeaseGrant(LeaseGrantRequest),
    #[prost(message, tag = "9")]
    LeaseRevoke(LeaseRevokeRequest),
    #[prost(message, tag = "10")]
    Alarm(AlarmRequest),
    #[prost(message, tag = "11")]
    LeaseCheckpoint(LeaseCheckpointRequest),
    #[prost(message, tag = "1000")]
    AuthEnable(Empty),
    #[prost(message, tag = "1011")]
    AuthDisable(Empty),
    #[prost(message, tag = "1012")]
    Authenticate(Empty),
    #[prost(message, tag = "1013")]
    AuthStatus(Empty),
    #[prost(message, tag = "1100")]
    UserAdd(UserAddRequest),
    #[prost(message, tag = "1101")]
    UserDelete(UserDeleteRequest),
    #[prost(message, tag = "1102")]
    UserGet(Empty),
    #[prost(message, tag = "1103")]
    UserChangePassword(UserChangePasswordRequest),
    #[prost(message, tag = "1104")]
    UserGrantRole(UserGrantRoleRequest),
    #[prost(message, tag = "1105")]
    UserRevokeRole(UserRevokeRoleRequest),
    #[prost(message, tag = "1106")]
    UserList(Empty),
    #[prost(message, tag = "1107")]
    RoleList(Empty),
    #[prost(message, tag = "1200")]
    RoleAdd(RoleAddRequest),
    #[prost(message, tag = "1201")]
    RoleDelete(RoleDeleteRequest),
    #[prost(message, tag = "1202")]
    RoleGet(Empty),
    #[prost(message, tag = "1203")]
    RoleGrantPermission(RoleGrantPermissionRequest),
    #[prost(message, tag = "1204")]
    RoleRevokePermission(RoleRevokePermissionRequest),
    #[prost(message, tag = "1300")]
    ClusterVersionSet(ClusterVersionSetRequest),
    #[prost(message, tag = "1301")]
    MemberAttributesSet(MemberAttributesSetRequest),
    #[prost(message, tag = "1302")]
    DowngradeInfoSet(DowngradeInfoSetRequest),
    #[prost(message, tag = "9900")]
    DowngradeVersionTest(Empty),
}

/// A request of which nothing matters but that it was made: it changes nothing, or has no fields.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Empty {}

/// A read. It matters inside a transaction, which fails as a whole when the revision cannot be read.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    #[prost(int64, tag = "4")]
    pub revision: i64,
}

/// Writes one key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    #[prost(int64, tag = "3")]
    pub lease: i64,
    #[prost(bool, tag = "4")]
    pub prev_kv: bool,
    #[prost(bool, tag = "5")]
    pub ignore_value: bool,
    #[prost(bool, tag = "6")]
    pub ignore_lease: bool,
}

/// Deletes one key, or all in a range.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    #[prost(bool, tag = "3")]
    pub prev_kv: bool,
}

/// Does one thing or another, in one revision.
#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

/// One step of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct RequestOp {
    /// The step; absent is nothing to do.
    #[prost(oneof = "Op", tags = "1, 2, 3, 4")]
    pub op: Option<Op>,
}

/// What a step of a transaction may be.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Op {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
    #[prost(message, tag = "4")]
    Txn(TxnRequest),
}

/// One condition of a transaction: every key of a range is to compare so.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// A [`CompareResult`], kept as the number that was found.
    #[prost(enumeration = "CompareResult", tag = "1")]
    pub result: i32,
    /// A [`CompareTarget`], kept as the number that was found.
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "64")]
    pub range_end: Bytes,
    /// What is compared with; one of another kind than `target`, or none, counts as zero.
    #[prost(oneof = "CompareWith", tags = "4, 5, 6, 7, 8")]
    pub with: Option<CompareWith>,
}

/// How the two sides of a [`Compare`] are to relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum CompareResult {
    Equal = 0,
    Greater = 1,
    Less = 2,
    NotEqual = 3,
}

/// Which part of a key's state a [`Compare`] looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum CompareTarget {
    Version = 0,
    Create = 1,
    Mod = 2,
    Value = 3,
    Lease = 4,
}

/// The right side of a [`Compare`].
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum CompareWith {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
    #[prost(int64, tag = "8")]
    Lease(i64),
}

/// Forgets history up to a revision.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// Makes a lease.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseGrantRequest {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
    #[prost(int64, tag = "2")]
    pub id: i64,
}

/// Ends a lease and deletes what hangs on it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// Notes how long leases have left.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LeaseCheckpointRequest {
    #[prost(message, repeated, tag = "1")]
    pub checkpoints: Vec<LeaseCheckpoint>,
}

/// How long one lease has left.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseCheckpoint {
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// Seconds.
    #[prost(int64, tag = "2")]
    pub remaining_ttl: i64,
}

/// Raises or disarms an alarm.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AlarmRequest {
    /// An [`AlarmAction`], kept as the number that was found.
    #[prost(enumeration = "AlarmAction", tag = "1")]
    pub action: i32,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// An [`AlarmKind`], kept as the number that was found.
    #[prost(enumeration = "AlarmKind", tag = "3")]
    pub alarm: i32,
}

/// What is done to an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum AlarmAction {
    Get = 0,
    Activate = 1,
    Deactivate = 2,
}

/// Adds a user.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UserAddRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    /// In the clear, from servers up to 3.4.
    #[prost(string, tag = "2")]
    pub password: String,
    #[prost(message, optional, tag = "3")]
    pub options: Option<UserOptions>,
    /// The bcrypt hash in base64, from 3.5 on.
    #[prost(string, tag = "4")]
    pub hashed_password: String,
}

/// Deletes a user.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UserDeleteRequest {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Replaces a user's password.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UserChangePasswordRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    /// In the clear, from servers up to 3.4.
    #[prost(string, tag = "2")]
    pub password: String,
    /// The bcrypt hash in base64, from 3.5 on.
    #[prost(string, tag = "3")]
    pub hashed_password: String,
}

/// Gives a role to a user.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UserGrantRoleRequest {
    #[prost(string, tag = "1")]
    pub user: String,
    #[prost(string, tag = "2")]
    pub role: String,
}

/// Takes a role from a user.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UserRevokeRoleRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub role: String,
}

/// Adds a role.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RoleAddRequest {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Deletes a role.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RoleDeleteRequest {
    #[prost(string, tag = "1")]
    pub role: String,
}

/// Lets a role read or write a range.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RoleGrantPermissionRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub permission: Option<Permission>,
}

/// Takes a permission from a role.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RoleRevokePermissionRequest {
    #[prost(string, tag = "1")]
    pub role: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub range_end: Bytes,
}

/// Says which version all members speak.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ClusterVersionSetRequest {
    #[prost(string, tag = "1")]
    pub version: String,
}

/// A member says what it is called and where clients find it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MemberAttributesSetRequest {
    #[prost(uint64, tag = "1")]
    pub member_id: u64,
    #[prost(message, optional, tag = "2")]
    pub attributes: Option<MemberAttributes>,
}

/// What a member says about itself.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MemberAttributes {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub client_urls: Vec<String>,
}

/// Begins or ends a downgrade of the cluster.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DowngradeInfoSetRequest {
    #[prost(bool, tag = "1")]
    pub enabled: bool,
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A request of etcd's version 2. 3.4 still sets the cluster version and member attributes with these.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct V2Request {
    #[prost(uint64, required, tag = "1")]
    pub id: u64,
    #[prost(string, required, tag = "2")]
    pub method: String,
    #[prost(string, required, tag = "3")]
    pub path: String,
    #[prost(string, required, tag = "4")]
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_slices_of_the_entry() {
        let put = PutRequest { key: "k".into(), value: "v".into(), ..PutRequest::default() };
        let request = Request { id: 7, header: None, command: Some(Command::Put(put)) };
        let data = Bytes::from(request.encode_to_vec());
        let Some(Command::Put(put)) = Request::parse(data.clone()).unwrap().command else { panic!("not a put") };
        assert!(data.as_ptr_range().contains(&put.value.as_ptr()));
    }

    #[test]
    fn a_bare_request_of_version_2_is_told_from_one_of_version_3() {
        for method in ["PUT", "POST", "DELETE", "GET", "QGET", "SYNC"] {
            let v2 = V2Request { id: 9, method: method.into(), path: "/0/version".into(), value: "3.4.0".into() };
            let request = Request::parse(Bytes::from(v2.encode_to_vec())).unwrap();
            assert_eq!(request.command, Some(Command::V2(v2)));
        }
    }
}
