//! The member beside an agent: where its configuration is, and what its start may do without asking.

use etcd_data::restore::high_water::HighWater;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::follow::etcd::Etcd;
use agent::follow::resume::ForeignCluster;
use agent::home::Home;
use agent::http::Guard;
use agent::http::published::Prepare;
use agent::member::outlive::Wrapper;
use agent::member::shared::Shared;
use agent::member::{Member, Prepared};
use agent::run::Agent;
use agent::sidecar::NoMember;
use agent::start::Setup;
use agent::start::archived::ArchivePlace;
use agent::start::place::Place;
use agent::start::policy::{Outdated, Policy, QuorumLost};
use agent::start::ready::BroughtBack;
use clap::ValueEnum;
use etcd_data::Kind;
use etcd_data::error::kind_of;
use etcd_rpc::{Access, Endpoint};
use tokio::sync::watch;

use crate::duration::period;
use crate::failure::Failure;
use crate::prerequisites::require_archive_of_one;
use crate::spool_place::SPOOLS;

/// The member beside the agent.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "The member beside it, if `refloat wrap` or the like asks this agent to prepare it")]
pub struct MemberArgs {
    /// etcd's configuration, as all members share it
    #[arg(long, value_name = "FILE", env = "ETCD_CONF")]
    etcd_config: Option<PathBuf>,
    /// The member's name in that file, without the prefix that it may have there; that of the machine if not given
    #[arg(long, value_name = "NAME", env = "POD_NAME", requires = "etcd_config")]
    member: Option<String>,
    /// The namespace that the volume of the data directory has to be of
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    namespace: Option<String>,
    /// The data directory, if it is not the one of that file
    #[arg(long, value_name = "DIR", requires = "etcd_config")]
    data_dir: Option<PathBuf>,
    /// Build the cluster anew when quorum has been lost for so long; it is waited for if not given
    #[arg(long, value_name = "SPAN", value_parser = parse_longer_than_an_election, requires = "etcd_config")]
    rebuild_after: Option<Duration>,
    /// Build it here whatever the member's name, where no member has data or none tells how far it is: for one member only
    #[arg(long, requires = "rebuild_after")]
    rebuild_here: bool,
    /// Keep a sound directory aside whose member the cluster knows no more, and join anew
    #[arg(long, requires = "etcd_config")]
    set_outdated_aside: bool,
    /// Where `refloat wrap`, or the published wrapper, listens for POST /stop: etcd has to end when the cluster is built anew. If
    /// not given, port 9095 of 127.0.0.1, by https where etcd serves its clients so: its certificate has to be for that host. It
    /// is shown the certificate that etcd is shown, and the token of --token-file
    #[arg(long, value_name = "URL", requires = "etcd_config")]
    wrapper: Option<String>,
    /// When revisions go on from a higher one after a restore, so that nobody who watched meets one twice
    #[arg(long, value_name = "WHEN", default_value = "kubernetes", requires = "etcd_config")]
    high_water: HighWaterArg,
}

/// When revisions go on from a higher one.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum HighWaterArg {
    /// Where the data is Kubernetes'
    Kubernetes,
    /// After every restore
    Always,
    /// Never
    Never,
}

/// A member that is to be prepared, as far as it is known before anything is touched.
pub struct Named {
    file: PathBuf,
    place: Place,
    policy: Policy,
    own: Vec<Endpoint>,
    others: Vec<Endpoint>,
    wrapper: Wrapper,
}

impl MemberArgs {
    /// The member, if there is one to be prepared. Members that are not in its configuration are at `endpoints`. Its wrapper is
    /// shown what etcd is shown, and the token that opens changing calls here.
    pub fn named(&self, endpoints: &[Endpoint], access: &Access, guard: &Guard) -> Result<Option<Named>, Failure> {
        let Some(file) = &self.etcd_config else { return Ok(None) };
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::because(kind_of(&error), format!("cannot read {}", file.display()), &error))?;
        let refused = |error| Failure::because(Kind::Usage, format!("cannot use {}", file.display()), &error);
        let shared = Shared::read(&text).map_err(refused)?;
        let name = shared.member_name(&self.pod(file)?);
        let mut place = shared.place(&name, "", self.data_dir.clone()).map_err(refused)?;
        place.namespace.clone_from(&self.namespace);
        let mut others = shared.others(&name).map_err(refused)?;
        others.extend(endpoints.iter().filter(|endpoint| !others.contains(endpoint)).cloned().collect::<Vec<_>>());
        let own = shared.clients(&name).map_err(refused)?;
        let scheme = if own.iter().any(Endpoint::is_https) { "https" } else { "http" };
        let wrapper = self.wrapper.clone().unwrap_or_else(|| format!("{scheme}://127.0.0.1:9095"));
        let wrapper = Wrapper::at(wrapper, access.tls.clone(), guard.token.clone())
            .map_err(|error| Failure::because(error.kind(), "--wrapper cannot be used", &error))?;
        let policy = Policy { cluster: shared.cluster_age(), ..self.policy() };
        if policy.quorum_lost.after().is_some() && others.len() + 1 < place.names().len() {
            let message =
                format!("--rebuild-after, and {} does not tell where every member serves its clients", file.display());
            let hint =
                "who is not asked is taken for gone: advertise-client-urls by member, or --endpoints with all of them";
            return Err(Failure::new(Kind::Usage, message).hint(hint));
        }
        Ok(Some(Named { file: file.clone(), place, policy, own, others, wrapper }))
    }

    fn pod(&self, file: &Path) -> Result<String, Failure> {
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).ok();
        self.member.clone().or_else(host).filter(|name| !name.is_empty()).ok_or_else(|| {
            Failure::new(Kind::Usage, "nothing says which member this is")
                .hint(format!("--member, or POD_NAME, says which of those in {} it is", file.display()))
        })
    }

    fn policy(&self) -> Policy {
        Policy {
            quorum_lost: match (self.rebuild_after, self.rebuild_here) {
                (None, _) => QuorumLost::Wait,
                (Some(after), false) => QuorumLost::Rebuild(after),
                (Some(after), true) => QuorumLost::RebuildHere(after),
            },
            outdated: if self.set_outdated_aside { Outdated::SetAside } else { Outdated::Stop },
            high_water: match self.high_water {
                HighWaterArg::Kubernetes => HighWater::Kubernetes,
                HighWaterArg::Always => HighWater::Always,
                HighWaterArg::Never => HighWater::Never,
            },
            ..Policy::default()
        }
    }
}

impl Named {
    /// Where its peers should find it, if it is alone: others will join it there. One of several tells its peers when it
    /// starts, and not while it may still be where they look for it.
    pub fn peer_urls(&self) -> BTreeMap<String, BTreeSet<String>> {
        let Place { name, peer_urls, .. } = &self.place;
        let alone = Some(name.clone()).filter(|_| self.place.is_alone());
        alone.into_iter().map(|name| (name, peer_urls.iter().cloned().collect())).collect()
    }

    /// Requires that the archive at `home` is not another cluster's, as far as that shows before its etcd runs.
    pub async fn require_own_archive(
        &self,
        access: &Access,
        home: &Home,
        foreign: ForeignCluster,
    ) -> Result<(), Failure> {
        let place = Place { cluster: home.cluster.name.clone(), ..self.place.clone() };
        let all = self.own.iter().chain(&self.others).cloned().collect();
        let live = Arc::new(Etcd::at(all, access.clone()));
        require_archive_of_one(&place, live, home, foreign).await
    }

    /// Where what is on its way to the store outlives the agent: on the member's own volume.
    pub fn spools(&self) -> Option<PathBuf> {
        Some(self.place.data_dir.parent()?.join(SPOOLS))
    }
}

/// A span in which a member elects a leader, if it can.
fn parse_longer_than_an_election(text: &str) -> Result<Duration, String> {
    match period("5m")(text)? {
        short if short < Duration::from_secs(1) => Err("a cluster that elects a leader has none for a second".into()),
        span => Ok(span),
    }
}

/// Whoever prepares `named` for `agent`, if there is one to be prepared.
pub fn prepare(
    named: Option<Named>,
    agent: &mut Agent,
    access: Access,
    prepared: watch::Sender<Prepared>,
    brought_back: watch::Sender<Option<BroughtBack>>,
) -> Arc<dyn Prepare> {
    let Some(Named { file, place, policy, own, others, wrapper }) = named else { return Arc::new(NoMember) };
    let cluster = agent.home.cluster.name.clone();
    let setup = Setup {
        place: Place { cluster, ..place },
        policy,
        archive: Some(ArchivePlace::from(&agent.home)),
        own,
        endpoints: others,
        access,
        scratch: None,
        on_its_way: Some(agent.on_its_way.clone()),
        metrics: Arc::clone(&agent.metrics),
    };
    let member = Member::new(setup, file, prepared, brought_back);
    if member.outlives_its_cluster() {
        agent.look_after(member.clone(), wrapper);
    }
    Arc::new(member)
}
