//! Writes `testdata/golden/`: small database files by real servers of every version, and what
//! the live server said about each.
//!
//! For each case a server is started, sent the case's traffic, asked about its state, and
//! ended; then its database file is kept.

mod cases;
mod truth;

use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, ClusterPlan, Golden, Member, Version};

use crate::{Result, say};
use cases::CASES;

/// A kind of database file.
struct Case {
    /// Its name, and that of its files.
    name: &'static str,
    /// The oldest version that can write it.
    since: Version,
    /// How many members the cluster has; the first one's file is kept.
    members: usize,
    /// The flags its servers need.
    flags: fn(Version) -> &'static [&'static str],
    /// Sends the traffic; gives back a client that may ask about everything.
    traffic: fn(Client) -> Result<Client>,
    end: End,
}

/// How the server ends before its file is kept.
enum End {
    /// By SIGTERM, so that the file is complete.
    Stop,
    /// By SIGKILL, so that the file shows work that was not finished.
    Kill,
}

/// Makes all cases with all versions.
pub(crate) fn make() -> Result<()> {
    for version in Version::ALL {
        for case in CASES.iter().filter(|case| version >= case.since) {
            make_one(case, version).map_err(|error| format!("{} of {version}: {error}", case.name))?;
            say(&format!("etcd {version}: {}", case.name));
        }
    }
    Ok(())
}

fn make_one(case: &Case, version: Version) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let plan = ClusterPlan::of(case.members);
    let data_dirs: Vec<_> = plan.names().iter().map(|name| folder.path().join(name)).collect();
    let with_flags = |member: Member| (case.flags)(version).iter().fold(member, |member, flag| member.flag(*flag));
    let members = plan.members(version, &data_dirs).into_iter().map(with_flags).collect();
    let mut cluster = testkit::Cluster::start(members);
    wait_for_cluster_version(&cluster.client(), version)?;

    let client = (case.traffic)(cluster.client())?;
    let truth = truth::ask(&client, case.name)?;
    let kept = cluster.members.remove(0);
    let kept = match case.end {
        End::Stop => kept.stop(),
        End::Kill => kept.kill(),
    };
    Golden::get(version, case.name).write(&kept.db(), &truth)?;
    Ok(())
}

/// A new cluster agrees on its version some seconds after its start, which is a write.
fn wait_for_cluster_version(client: &Client, version: Version) -> Result<()> {
    retry(|| {
        let agreed = client.cluster_version()?;
        require(agreed.starts_with(version.minor()), &format!("the cluster's version is still {agreed}"))
    })
}

/// Fails with `otherwise` unless `condition` holds.
fn require(condition: bool, otherwise: &str) -> Result<()> {
    if condition { Ok(()) } else { Err(otherwise.into()) }
}

/// Tries again and again, for a minute at most.
fn retry(mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let result = attempt();
        if result.is_ok() || Instant::now() > deadline {
            return result;
        }
        thread::sleep(Duration::from_millis(50));
    }
}
