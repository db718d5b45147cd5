//! Everything that keeping an etcd recoverable stands on, tried before it matters.
//!
//! - [`finding`]: what a check ends with
//! - `store`, `permission`: what may be done in a store
//! - `archive`, `history`: what is there, and whether it is this cluster's; `destinations`: the same of the other destinations
//! - `members` looks at etcd; `cluster`, `member`, `rights`, `agreement` judge what was seen; `configured`: what it is told by its file
//! - `certificate`, `clock`, `disk`, `metrics_text`: what those have in common; [`remedy`]: what to do where etcd does not answer
//!
//! Looking and judging are apart: what was seen is a plain value, and a judgement is a function of it. Nothing of the cluster is
//! changed. In the store, objects of a folder of its own are written and deleted, and nothing else is.

mod agreement;
mod archive;
mod certificate;
mod clock;
mod cluster;
mod configured;
mod destinations;
mod disk;
pub mod finding;
mod history;
mod member;
mod members;
mod metrics_text;
mod permission;
pub mod remedy;
mod rights;
mod store;

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use etcd_rpc::{Access, Endpoint};
use futures::future::join_all;
use jiff::Timestamp;
use tokio::time::timeout;

use crate::home::Site;
use finding::{Area, Check, Finding};

/// What is looked at.
pub struct Patient {
    /// The archive's place, if it has one.
    pub archive: Option<Site>,
    /// Where else it is to be kept.
    pub others: Vec<Site>,
    /// The cluster, if there is one.
    pub etcd: Option<Cluster>,
    /// This machine.
    pub machine: Machine,
}

/// How a cluster is reached.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Where members serve.
    pub endpoints: Vec<Endpoint>,
    /// How they are reached.
    pub access: Access,
}

/// What of this machine is needed: folders, and a file.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// A member's data directory.
    pub data_dir: Option<PathBuf>,
    /// The file that its etcd is configured by.
    pub etcd_config: Option<PathBuf>,
    /// The folder for what is sealed while the store is away, and how much may be there.
    pub spool: Option<(PathBuf, u64)>,
    /// The folder for scratch files.
    pub scratch: PathBuf,
}

/// How long each trial of the store may take.
const TRIAL: Duration = Duration::from_secs(15);
/// How long the archive may take to be read.
const READING: Duration = Duration::from_secs(60);
/// How long a member may take for what is a second's work on a database of a gigabyte.
const WORK: Duration = Duration::from_secs(60);
/// After that, what etcd has not told is not known.
const LOOKING: Duration = Duration::from_secs(150);

/// Tries everything, and tells of each thing that was tried.
pub async fn examine(patient: Patient) -> Vec<Finding> {
    let Patient { archive: place, others, etcd, machine } = patient;
    let etcd = etcd.map(patiently);
    let trials = async {
        match &place {
            Some(place) => store::examine(&*place.store, TRIAL).await,
            None => Vec::new(),
        }
    };
    let reading = async {
        match &place {
            Some(place) => within(READING, archive::look(place)).await.unwrap_or_else(archive::Looked::unread),
            None => archive::Looked::default(),
        }
    };
    let looking = async {
        match &etcd {
            Some(etcd) => within(LOOKING, members::look(etcd)).await,
            None => Err(LOOKING),
        }
    };
    let measuring = disk::look(&machine);
    let (trials, read, seen, disks) = tokio::join!(trials, reading, looking, measuring);

    let mut findings = Area::Store.findings(trials);
    findings.extend(Area::Archive.findings(read.findings));
    let elsewhere = others.iter().map(|place| destinations::examine(place, read.cluster.as_ref()));
    findings.extend(join_all(elsewhere).await.into_iter().flatten());
    if let (Some(place), Some(etcd), Some(tip)) = (&place, &etcd, read.cluster.zip(read.tip)) {
        let compared = within(READING, history::examine(place, etcd, tip)).await;
        findings.extend(Area::Archive.findings(compared.unwrap_or_else(|late| vec![Check::of("history").late(late)])));
    }
    let mut database_bytes = None;
    if etcd.is_some() {
        match &seen {
            Ok(seen) => {
                findings.extend(Area::Etcd.findings(members::judge(seen, Timestamp::now())));
                database_bytes = seen.largest_database();
            }
            Err(late) => findings.extend(Area::Etcd.findings(vec![Check::of("reach").late(*late)])),
        }
    }
    if let Some(etcd) = &etcd {
        findings
            .extend(Area::Etcd.findings(certificate::examine_ours(etcd.access.tls.as_ref(), Timestamp::now()).await));
    }
    if let Some(file) = &machine.etcd_config {
        let told = configured::look(file).await;
        findings.extend(Area::Etcd.findings(configured::judge(&told, Timestamp::now())));
    }
    findings.extend(Area::Machine.findings(clock::judge_service()));
    findings.extend(Area::Machine.findings(disk::judge(&disks, database_bytes)));
    findings
}

/// The same cluster, with less patience for what takes work: nobody waits for ten minutes here.
fn patiently(mut etcd: Cluster) -> Cluster {
    etcd.access.deadlines.work = etcd.access.deadlines.work.min(WORK);
    etcd.access.deadlines.piece = etcd.access.deadlines.piece.min(etcd.access.deadlines.answer);
    etcd
}

/// What comes of `work`, or the time that it was given.
async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Result<T, Duration> {
    timeout(time, work).await.map_err(|_| time)
}
