//! The messages and services as etcd publishes them: `proto/` of this crate, with the server's side under the feature
//! `server`.

#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, reason = "made from what etcd publishes")]

/// Users, roles and permissions.
pub mod authpb {
    tonic::include_proto!("authpb");
}

/// Keys with their values, and events.
pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// Requests, answers and services.
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

/// A message as it is written.
#[cfg(feature = "server")]
pub fn encoded(message: &impl prost::Message) -> Vec<u8> {
    message.encode_to_vec()
}
