//! Hashes, status, snapshots, defragmentation and alarms.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use etcd_rpc::proto::etcdserverpb::HashRequest;
use etcd_rpc::proto::etcdserverpb::maintenance_client::MaintenanceClient;
use serde_json::{Value, json};
use tonic::transport::Endpoint;

use super::json::{bytes, list, signed, string, strings, unsigned};
use super::{Client, ClientError, DEADLINE, Result, error_in, exchange, header_revision, text, unavailable};
use crate::http::Body;

/// The live server's HashKV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKv {
    /// The hash.
    pub hash: u32,
    /// The compact revision it was computed with, -1 for none.
    pub compact_revision: i64,
    /// The store's revision when it was asked.
    pub header_revision: i64,
    /// The revision it is for, as the server says since 3.6.
    pub hash_revision: Option<i64>,
}

/// What a member says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The server's version, such as `3.6.16`.
    pub version: String,
    /// The store's revision.
    pub revision: i64,
    /// The cluster's id.
    pub cluster_id: u64,
    /// This member's id.
    pub member_id: u64,
    /// The leader's id, 0 for none.
    pub leader: u64,
    /// The database's size, in bytes.
    pub db_size: i64,
    /// The part of it that is in use, in bytes.
    pub db_size_in_use: i64,
    /// The last index of the raft log.
    pub raft_index: u64,
    /// The raft term.
    pub raft_term: u64,
    /// The last index that was applied.
    pub raft_applied_index: u64,
    /// The storage version, empty below 3.6.
    pub storage_version: String,
    /// What is wrong, such as alarms.
    pub errors: Vec<String>,
}

/// A raised alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The member that it is about.
    pub member_id: u64,
    /// `NOSPACE` or `CORRUPT`.
    pub kind: String,
}

impl Client {
    /// HashKV at `revision`, 0 for now.
    ///
    /// Asked at the peer port, as members ask each other: the gateway of 3.4 has no HashKV (its
    /// `/v3/maintenance/hash` is another hash). 3.4 closes the connection instead of an error.
    pub fn hash_kv(&self, revision: i64) -> Result<HashKv> {
        let mut connection = self.connect(self.peer_address, DEADLINE).map_err(|error| unavailable(&error))?;
        let request = json!({"revision": revision});
        let (status, body) = exchange(&mut connection, "GET", "/members/hashkv", None, &request, text)
            .map_err(|error| unavailable(&error))?;
        if status != 200 {
            return Err(error_in(&body));
        }
        let reply: Value = serde_json::from_slice(&body).map_err(|error| unavailable(&error.into()))?;
        Ok(HashKv {
            hash: u32::try_from(unsigned(&reply["hash"])).unwrap(),
            compact_revision: signed(&reply["compact_revision"]),
            header_revision: header_revision(&reply),
            hash_revision: reply.get("hash_revision").map(signed),
        })
    }

    /// Hash: that of the whole database, as the member has it now.
    ///
    /// Asked by gRPC: what the gateway answers at `/v3/maintenance/hash` is HashKV in some versions.
    pub fn hash(&self) -> Result<u32> {
        assert!(self.tls.is_none(), "asked without certificates only");
        let mut request = tonic::Request::new(HashRequest {});
        request.set_timeout(DEADLINE);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.parse().unwrap());
        }
        let address = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async {
            let mut maintenance = MaintenanceClient::new(address.connect_lazy());
            maintenance.hash(request).await.map_err(|status| refused(&status))
        });
        answer.map(|answer| answer.into_inner().hash)
    }

    /// What the member says about itself.
    pub fn status(&self) -> Result<Status> {
        let reply = self.call("/v3/maintenance/status", &json!({}))?;
        Ok(Status {
            version: string(&reply["version"]).to_owned(),
            revision: header_revision(&reply),
            cluster_id: unsigned(&reply["header"]["cluster_id"]),
            member_id: unsigned(&reply["header"]["member_id"]),
            leader: unsigned(&reply["leader"]),
            db_size: signed(&reply["dbSize"]),
            db_size_in_use: signed(&reply["dbSizeInUse"]),
            raft_index: unsigned(&reply["raftIndex"]),
            raft_term: unsigned(&reply["raftTerm"]),
            raft_applied_index: unsigned(&reply["raftAppliedIndex"]),
            storage_version: string(&reply["storageVersion"]).to_owned(),
            errors: strings(&reply["errors"]),
        })
    }

    /// Takes a snapshot into the new file `path`: the database and its SHA-256, as
    /// `etcdctl snapshot save` writes it.
    pub fn snapshot_to(&self, path: impl AsRef<Path>) -> Result<()> {
        let (_, written) = self.exchange("/v3/maintenance/snapshot", &json!({}), |_, body| {
            write_blobs(body, File::create_new(path.as_ref())?)
        })?;
        written
    }

    /// Rewrites the member's database without free pages.
    pub fn defragment(&self) -> Result<()> {
        self.call("/v3/maintenance/defragment", &json!({})).map(drop)
    }

    /// Begins a downgrade of the cluster to `version`, such as `3.5`; 3.6 and later.
    pub fn downgrade_enable(&self, version: &str) -> Result<()> {
        let request = json!({"action": "ENABLE", "version": version});
        self.call("/v3/maintenance/downgrade", &request).map(drop)
    }

    /// The version that the cluster as a whole has agreed on, such as `3.6.0`.
    pub fn cluster_version(&self) -> Result<String> {
        let mut connection = self.connect(self.address, DEADLINE).map_err(|error| unavailable(&error))?;
        let (_, body) = exchange(&mut connection, "GET", "/version", None, &Value::Null, text)
            .map_err(|error| unavailable(&error))?;
        let reply: Value = serde_json::from_slice(&body).map_err(|error| unavailable(&error.into()))?;
        Ok(string(&reply["etcdcluster"]).to_owned())
    }

    /// The raised alarms.
    pub fn alarms(&self) -> Result<Vec<Alarm>> {
        let reply = self.call("/v3/maintenance/alarm", &json!({"action": "GET"}))?;
        Ok(list(&reply["alarms"]).map(Alarm::from_json).collect())
    }

    /// Raises `kind`, `NOSPACE` or `CORRUPT`, for a member.
    pub fn raise_alarm(&self, member_id: u64, kind: &str) -> Result<()> {
        self.alarm("ACTIVATE", member_id, kind)
    }

    /// Takes `kind` back for a member.
    pub fn disarm(&self, member_id: u64, kind: &str) -> Result<()> {
        self.alarm("DEACTIVATE", member_id, kind)
    }

    fn alarm(&self, action: &str, member_id: u64, kind: &str) -> Result<()> {
        let request = json!({"action": action, "memberID": member_id.to_string(), "alarm": kind});
        self.call("/v3/maintenance/alarm", &request).map(drop)
    }
}

impl Alarm {
    fn from_json(alarm: &Value) -> Alarm {
        Alarm { member_id: unsigned(&alarm["memberID"]), kind: string(&alarm["alarm"]).to_owned() }
    }
}

fn refused(status: &tonic::Status) -> ClientError {
    ClientError { code: i64::from(i32::from(status.code())), message: status.message().to_owned() }
}

/// The stream is a line of JSON per blob; an error comes as a line too.
fn write_blobs(body: Body<'_>, file: File) -> io::Result<std::result::Result<(), ClientError>> {
    let mut file = BufWriter::with_capacity(1 << 20, file);
    for line in BufReader::with_capacity(1 << 20, body).lines() {
        let line = line?;
        let reply: Value = serde_json::from_str(&line)?;
        let Some(result) = reply.get("result") else {
            let error = reply.get("error").filter(|error| error.is_object()).unwrap_or(&reply);
            return Ok(Err(error_in(error.to_string().as_bytes())));
        };
        file.write_all(&bytes(&result["blob"]))?;
    }
    file.flush()?;
    Ok(Ok(()))
}
