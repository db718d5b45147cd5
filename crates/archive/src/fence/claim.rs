//! A claim: `writer.json`, who may write and for how long.
//!
//! ```text
//! {
//!   "format": 1,
//!   "cluster": { "name": "prod", "id": "<32 hexadecimal digits>" },
//!   "epoch": 7,                            one more than all before
//!   "holder": "etcd-main-0",               for people
//!   "serves": "https://etcd-main-0:8080",  where other agents reach it; not there if it was not told
//!   "instance": "<32 hexadecimal digits>", the process, drawn when it starts
//!   "number": 12,                          counts what the process has put, so that no two claims are the same
//!   "lasts_ms": 30000,                     others wait so long after they saw the claim change last
//!   "is_released": false,                  whether the holder has given it up
//!   "renewed": "2026-11-21T09:30:00Z",     by the holder's clock, for people alone
//!   "program": "refloat 0.1.0"
//! }
//! ```
//!
//! A copy has one that nobody holds, with the last epoch that was handed out where it comes from.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fence::{Candidate, FenceError};
use crate::header::PROGRAM;
use crate::identity::{Cluster, Epoch, NotAnIdentity};

/// The version of the format that is written.
pub(crate) const FORMAT: u32 = 1;

/// A claim that is larger is refused.
pub const MAX_CLAIM_BYTES: usize = 64 << 10;

/// Claims that ask for more are not waited for longer, so nobody may hold one for longer either.
pub(super) const MAX_LASTS: Duration = Duration::from_secs(3600);

/// What `writer.json` has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The version of the format.
    pub format: u32,
    /// Whose archive it is.
    pub cluster: Cluster,
    /// The writer's epoch.
    pub epoch: Epoch,
    /// What people call the writer.
    pub holder: String,
    /// Where other agents reach the writer, if it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<String>,
    /// Which process it is.
    pub instance: Instance,
    /// Which of its claims this is.
    pub number: u64,
    /// How long it is good for after it was last seen to change, in milliseconds.
    pub lasts_ms: u64,
    /// Whether it was given up.
    pub is_released: bool,
    /// When it was put, by the writer's clock. It tells people until when there was a writer; who may write is not decided
    /// by it.
    pub renewed: Timestamp,
    /// The program that put it.
    pub program: String,
}

/// A process: 128 bits, drawn when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Instance(pub u128);

impl Claim {
    pub(crate) fn new(me: &Candidate, epoch: Epoch, number: u64, lasts: Duration, clock: Timestamp) -> Self {
        Self {
            format: FORMAT,
            cluster: me.cluster.clone(),
            epoch,
            holder: me.holder.clone(),
            serves: me.serves.clone(),
            instance: me.instance,
            number,
            lasts_ms: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
            is_released: false,
            renewed: clock,
            program: PROGRAM.into(),
        }
    }

    /// The claim that `bytes` are.
    pub fn parse(bytes: &[u8]) -> Result<Self, FenceError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let malformed = |error: serde_json::Error| FenceError::Malformed { what: error.to_string() };
        if bytes.len() > MAX_CLAIM_BYTES {
            return Err(FenceError::Malformed { what: format!("it is larger than {MAX_CLAIM_BYTES} bytes") });
        }
        let version: Version = serde_json::from_slice(bytes).map_err(malformed)?;
        if version.format > FORMAT {
            return Err(FenceError::Newer { found: version.format, known: FORMAT });
        }
        serde_json::from_slice(bytes).map_err(malformed)
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a claim is plain JSON")
    }

    /// How long it is good for after it was last seen to change.
    pub fn lasts(&self) -> Duration {
        Duration::from_millis(self.lasts_ms).min(MAX_LASTS)
    }

    /// Why a candidate of `ours` must not touch it.
    pub(crate) fn refusal(&self, ours: &Cluster) -> Option<FenceError> {
        let is_other = self.cluster.id != ours.id;
        is_other.then(|| FenceError::OtherCluster { theirs: self.cluster.clone(), ours: ours.clone() })
    }
}

impl Instance {
    /// A new one.
    pub fn draw() -> Self {
        Self(rand::random())
    }
}

impl TryFrom<String> for Instance {
    type Error = NotAnIdentity;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let fits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(&text, 16).ok().filter(|_| fits);
        number.map(Self).ok_or(NotAnIdentity { text, expected: "an instance" })
    }
}

impl From<Instance> for String {
    fn from(instance: Instance) -> Self {
        instance.to_string()
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
