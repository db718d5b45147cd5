//! The care that an agent takes of its cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agent::care::{Care, Policy, Waste};
use agent::schedule::Schedule;
use etcd_rpc::{Access, Endpoint};
use jiff::Timestamp;

use crate::duration::{parse_bytes, period};

/// The care of the cluster.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "The care of the cluster, by the agent that writes")]
pub struct CareArgs {
    /// When all members are defragmented, one at a time and only while all are healthy: as cron has it, `@daily`, or
    /// `@every 12h`; never if not given
    #[arg(long, value_name = "SCHEDULE")]
    defragment_at: Option<Schedule>,
    /// Defragment a member when so many percent of its database are unused
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=99))]
    defragment_waste: Option<u8>,
    /// A smaller database is left alone
    #[arg(long, value_name = "BYTES", default_value = "100MiB", value_parser = parse_bytes, requires = "defragment_waste")]
    defragment_least: u64,
    /// How long a member may take to defragment, or to compact
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = period("10m"))]
    defragment_timeout: Duration,
    /// When the space of etcd is used up: compact what the archive has, defragment, and take the alarm back
    #[arg(long)]
    relieve_no_space: bool,
    /// Leave learners that have caught up without a vote
    #[arg(long)]
    keep_learners: bool,
}

impl CareArgs {
    /// Of the cluster at `endpoints`. Peers should find members at `peer_urls`, by their names.
    pub fn care(
        &self,
        endpoints: Vec<Endpoint>,
        mut access: Access,
        peer_urls: BTreeMap<String, BTreeSet<String>>,
    ) -> Care {
        let waste = self.defragment_waste.map(|percent| Waste {
            ratio: f64::from(percent) / 100.0,
            least_bytes: i64::try_from(self.defragment_least).unwrap_or(i64::MAX),
        });
        let policy = Policy {
            defragment_at: self.defragment_at.clone(),
            defragment_from: waste,
            relieves_no_space: self.relieve_no_space,
            promotes_learners: !self.keep_learners,
            peer_urls,
            ..Policy::default()
        };
        access.deadlines.work = self.defragment_timeout;
        Care::new(endpoints, access, policy, Timestamp::now())
    }
}
