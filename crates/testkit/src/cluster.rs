//! Several members as one cluster, new or from data directories that were made for it.
//!
//! ```no_run
//! # use testkit::{ClusterPlan, Version};
//! # let folder = tempfile::tempdir().unwrap();
//! let plan = ClusterPlan::of(3);
//! let dirs: Vec<_> = plan.names().iter().map(|name| folder.path().join(name)).collect();
//! // … restore into dirs[i], as plan.names()[i], with plan.initial_cluster() and plan.peer_urls()[i] …
//! let mut cluster = plan.start(Version::V36, &dirs);
//! let lost = cluster.members.remove(1).kill();
//! cluster.members[0].client().put("still", "alive").unwrap();
//! cluster.members.push(lost.start());
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use crate::member::{Etcd, Member, Starting};
use crate::ports::MemberPorts;
use crate::servers::Version;

/// How long a member may take to compact.
const COMPACTED_WITHIN: Duration = Duration::from_secs(60);

/// Names and peer URLs of members that are yet to be restored or started.
#[derive(Debug)]
pub struct ClusterPlan {
    names: Vec<String>,
    ports: Vec<MemberPorts>,
}

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    /// Its members, all ready when the cluster was handed out.
    pub members: Vec<Etcd>,
}

impl ClusterPlan {
    /// Reserves the ports of `size` members, named `m0`, `m1` and so on.
    pub fn of(size: usize) -> ClusterPlan {
        ClusterPlan {
            names: (0..size).map(|number| format!("m{number}")).collect(),
            ports: (0..size).map(|_| MemberPorts::reserve()).collect(),
        }
    }

    /// The members' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The members' peer URLs, in the order of their names.
    pub fn peer_urls(&self) -> Vec<String> {
        self.ports.iter().map(|ports| ports.peer.url()).collect()
    }

    /// The value of `--initial-cluster`: `m0=http://…,m1=http://…`.
    pub fn initial_cluster(&self) -> String {
        let pairs: Vec<String> =
            self.names.iter().zip(self.peer_urls()).map(|(name, url)| format!("{name}={url}")).collect();
        pairs.join(",")
    }

    /// Makes the members, not yet running, one per data directory.
    pub fn members(self, version: Version, data_dirs: &[impl AsRef<Path>]) -> Vec<Member> {
        assert_eq!(self.names.len(), data_dirs.len(), "one data directory per member");
        let initial_cluster = self.initial_cluster();
        self.names
            .iter()
            .zip(self.ports)
            .zip(data_dirs)
            .map(|((name, ports), data_dir)| {
                Member::new(version, data_dir).name(name).ports(ports).initial_cluster(&initial_cluster)
            })
            .collect()
    }

    /// Starts all members and waits until each answers.
    ///
    /// # Panics
    /// With the log of the first that does not become ready.
    pub fn start(self, version: Version, data_dirs: &[impl AsRef<Path>]) -> Cluster {
        Cluster::start(self.members(version, data_dirs))
    }
}

impl Cluster {
    /// Starts `members` together and waits until each answers.
    ///
    /// # Panics
    /// With the log of the first that does not become ready.
    pub fn start(members: Vec<Member>) -> Cluster {
        let starting: Vec<Starting> = members.into_iter().map(Member::spawn).collect();
        let ready = |member: Starting| member.wait_ready().unwrap_or_else(|failure| panic!("a member {failure}"));
        Cluster { members: starting.into_iter().map(ready).collect() }
    }

    /// A client of the first member.
    pub fn client(&self) -> crate::Client {
        self.members[0].client()
    }

    /// Makes most of what each member has on disk unused. Gives how large that is.
    ///
    /// # Panics
    /// If a member does not compact.
    pub fn waste(&self) -> i64 {
        let client = self.client();
        for _ in 0..40 {
            client.put("a", vec![b'x'; 500_000]).unwrap();
        }
        client.compact(client.status().unwrap().revision).unwrap();
        // Each member compacts by itself, and finds out how much is free when it writes the next time.
        let deadline = Instant::now() + COMPACTED_WITHIN;
        for member in &self.members {
            while member.client().status().is_ok_and(|status| status.db_size_in_use * 4 > status.db_size) {
                assert!(Instant::now() < deadline, "a member does not compact");
                client.put("b", "1").unwrap();
            }
        }
        client.status().unwrap().db_size
    }
}
