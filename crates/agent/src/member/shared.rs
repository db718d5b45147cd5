//! etcd's configuration as all members share it, and for one of them.
//!
//! The shared file differs from etcd's own in two keys: `initial-advertise-peer-urls` and `advertise-client-urls` have the URLs of
//! every member, by name. A member gets its own. What else is different for a member depends on the cluster as it is: only members
//! that are in it already are named as its initial cluster, and it is an existing one where a learner waits to join.

use std::path::PathBuf;

use etcd_rpc::Endpoint;
use serde_json::{Map, Value};

use crate::start::place::Place;
use crate::start::policy::ClusterAge;
use crate::start::ready::Launch;
use crate::wrap::first_line;

/// Why there is no configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoConfig {
    /// The file is none.
    #[error("etcd's configuration cannot be understood: {0}")]
    Yaml(String),
    /// It does not know this member.
    #[error("{key} in etcd's configuration does not name the member {member}")]
    NotNamed {
        /// Where it should be.
        key: &'static str,
        /// The member.
        member: String,
    },
    /// It does not say what has to be known.
    #[error("etcd's configuration has no {0}")]
    Missing(&'static str),
    /// Where members are is no address.
    #[error("{url} in etcd's configuration: {why}")]
    Endpoint {
        /// What is there.
        url: String,
        /// Why it is none.
        why: String,
    },
}

/// What is known of the cluster that a member is to be part of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The names of its members; empty if nobody could be asked.
    pub members: Vec<String>,
    /// Whether one of them is a learner.
    pub has_learner: bool,
}

/// The configuration that all members share.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared(Map<String, Value>);

/// A URL's key, and where its values stand.
const PEER_URLS: &str = "initial-advertise-peer-urls";
const CLIENT_URLS: &str = "advertise-client-urls";
const INITIAL_CLUSTER: &str = "initial-cluster";

impl Shared {
    /// It, from its file's text.
    pub fn read(text: &str) -> Result<Self, NoConfig> {
        serde_saphyr::from_str(text).map(Self).map_err(|error| NoConfig::Yaml(first_line(&error)))
    }

    /// The name of the member that runs in `pod`.
    pub fn member_name(&self, pod: &str) -> String {
        match self.text("member-name-prefix").filter(|prefix| !prefix.is_empty()) {
            Some(prefix) => format!("{prefix}-{pod}"),
            None => pod.to_owned(),
        }
    }

    /// The configuration for the member `name` of a cluster of which `known` is known.
    pub fn for_member(&self, name: &str, known: &Known) -> Result<String, NoConfig> {
        let mut config = self.own(name)?;
        if let Some(initial) = self.text(INITIAL_CLUSTER) {
            let narrowed = narrowed(initial, name, known);
            let state = state(&narrowed, known);
            config.insert("initial-cluster-state".into(), state.into());
            config.insert(INITIAL_CLUSTER.into(), narrowed.into());
        }
        written(&config)
    }

    /// The configuration for the member `name`, whose start has told how it has to be launched.
    pub fn for_launch(&self, name: &str, launch: &Launch) -> Result<String, NoConfig> {
        let mut config = self.own(name)?;
        config.insert(INITIAL_CLUSTER.into(), launch.initial_cluster.clone().into());
        config.insert("initial-cluster-state".into(), launch.state.as_str().into());
        config.insert("initial-cluster-token".into(), launch.token.clone().into());
        written(&config)
    }

    /// Where the member `name` of the cluster `cluster` is, and where it keeps its data: in `data_dir`, if that is given.
    pub fn place(&self, name: &str, cluster: &str, data_dir: Option<PathBuf>) -> Result<Place, NoConfig> {
        let peer_urls = self.own(name)?.get(PEER_URLS).and_then(Value::as_str).map(urls);
        let data_dir = data_dir.or_else(|| self.text("data-dir").map(PathBuf::from));
        Ok(Place {
            cluster: cluster.into(),
            name: name.into(),
            peer_urls: peer_urls.ok_or(NoConfig::Missing(PEER_URLS))?,
            initial_cluster: self.text(INITIAL_CLUSTER).ok_or(NoConfig::Missing(INITIAL_CLUSTER))?.into(),
            token: self.text("initial-cluster-token").unwrap_or("etcd-cluster").into(),
            data_dir: data_dir.ok_or(NoConfig::Missing("data-dir"))?,
            wal_dir: self.text("wal-dir").filter(|dir| !dir.is_empty()).map(PathBuf::from),
            namespace: None,
        })
    }

    /// Whether the cluster may be one that never was.
    pub fn cluster_age(&self) -> ClusterAge {
        match self.text("initial-cluster-state") {
            Some("existing") => ClusterAge::Existing,
            _ => ClusterAge::New,
        }
    }

    /// Where the member `name` serves its clients.
    pub fn clients(&self, name: &str) -> Result<Vec<Endpoint>, NoConfig> {
        let own = self.own(name)?;
        endpoints(own.get(CLIENT_URLS).into_iter().collect())
    }

    /// Where members other than `name` serve their clients, if that is told by member.
    pub fn others(&self, name: &str) -> Result<Vec<Endpoint>, NoConfig> {
        let Some(Value::Object(of_members)) = self.0.get(CLIENT_URLS) else { return Ok(Vec::new()) };
        endpoints(of_members.iter().filter(|(member, _)| *member != name).map(|(_, of_one)| of_one).collect())
    }

    /// Everything, with what is told by member only as far as it is the member's own.
    fn own(&self, name: &str) -> Result<Map<String, Value>, NoConfig> {
        let not_named = |key| NoConfig::NotNamed { key, member: name.to_owned() };
        let mut config = self.0.clone();
        for key in [PEER_URLS, CLIENT_URLS] {
            if let Some(Value::Object(of_members)) = config.get(key) {
                let own = of_members.get(name).and_then(joined).ok_or_else(|| not_named(key))?;
                config.insert(key.into(), own.into());
            }
        }
        if let Some(initial) = self.text(INITIAL_CLUSTER)
            && !names(initial).any(|named| named == name)
        {
            return Err(not_named(INITIAL_CLUSTER));
        }
        config.insert("name".into(), name.into());
        Ok(config)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }
}

fn written(config: &Map<String, Value>) -> Result<String, NoConfig> {
    serde_saphyr::to_string(config).map_err(|error| NoConfig::Yaml(first_line(&error)))
}

fn endpoints(of_members: Vec<&Value>) -> Result<Vec<Endpoint>, NoConfig> {
    let urls = of_members.into_iter().filter_map(joined).flat_map(|joined| urls(&joined));
    let endpoint = |url: String| url.parse().map_err(|error| NoConfig::Endpoint { url, why: format!("{error}") });
    urls.map(endpoint).collect()
}

fn urls(joined: &str) -> Vec<String> {
    joined.split(',').map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()).collect()
}

/// Those of the initial cluster that are in the cluster already, and `name`. A cluster of one, or none, is the initial one.
fn narrowed(initial: &str, name: &str, known: &Known) -> String {
    if known.members.len() < 2 {
        return initial.to_owned();
    }
    let stays = |pair: &&str| {
        let named = pair.split('=').next().unwrap_or_default().trim();
        named == name || known.members.iter().any(|member| member == named)
    };
    initial.split(',').filter(stays).collect::<Vec<_>>().join(",")
}

fn state(initial: &str, known: &Known) -> &'static str {
    let mut members: Vec<&str> = names(initial).collect();
    members.sort_unstable();
    members.dedup();
    if members.len() > 1 && known.has_learner { "existing" } else { "new" }
}

fn names(initial: &str) -> impl Iterator<Item = &str> {
    initial.split(',').filter_map(|pair| Some(pair.split_once('=')?.0.trim()))
}

/// A list of URLs as one text, which is how etcd has it.
fn joined(urls: &Value) -> Option<String> {
    match urls {
        Value::String(url) => Some(url.clone()),
        Value::Array(urls) if !urls.is_empty() => {
            urls.iter().map(Value::as_str).collect::<Option<Vec<_>>>().map(|urls| urls.join(","))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::ready::ClusterState;
    use serde_json::json;

    const SHARED: &str = r#"
name: etcd-config
data-dir: /var/etcd/data/new.etcd
metrics: basic
quota-backend-bytes: 8589934592
enable-grpc-gateway: false
auto-compaction-mode: periodic
auto-compaction-retention: "1"
initial-cluster-token: etcd-cluster
initial-cluster-state: new
initial-cluster: m-0=https://m-0.p:2380,m-1=https://m-1.p:2380,m-2=https://m-2.p:2380
listen-client-urls: https://0.0.0.0:2379
initial-advertise-peer-urls:
  m-0: [https://m-0.p:2380]
  m-1: [https://m-1.p:2380, "https://elsewhere:2380"]
  m-2: [https://m-2.p:2380]
advertise-client-urls:
  m-0: [https://m-0.p:2379]
  m-1: [https://m-1.p:2379]
  m-2: [https://m-2.p:2379]
client-transport-security:
  cert-file: /c
  client-cert-auth: true
  auto-tls: false
next-cluster-version-compatible: true
"#;

    fn known(members: &[&str], has_learner: bool) -> Known {
        Known { members: members.iter().map(|name| (*name).to_owned()).collect(), has_learner }
    }

    fn for_member(shared: &str, pod: &str, known: &Known) -> Result<String, NoConfig> {
        let shared = Shared::read(shared)?;
        shared.for_member(&shared.member_name(pod), known)
    }

    fn read(yaml: &str) -> Value {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn a_member_gets_what_fits_the_cluster_as_it_is() {
        let all = "m-0=https://m-0.p:2380,m-1=https://m-1.p:2380,m-2=https://m-2.p:2380";
        let two = "m-0=https://m-0.p:2380,m-1=https://m-1.p:2380";
        for (pod, known, initial, state) in [
            // Nobody there yet, or one: the cluster begins as it is written.
            ("m-0", known(&[], false), all, "new"),
            ("m-0", known(&["m-0"], false), all, "new"),
            // Growing by one: the learner waits, and who is not there yet is left out.
            ("m-1", known(&["m-0", "m-1"], true), two, "existing"),
            ("m-1", known(&["m-0", ""], true), two, "existing"),
            ("m-2", known(&["m-0", "m-1", "m-2"], true), all, "existing"),
            // All there, nobody waits.
            ("m-2", known(&["m-0", "m-1", "m-2"], false), all, "new"),
            // A learner, and nobody else whom the file knows.
            ("m-1", known(&["x", "y"], true), "m-1=https://m-1.p:2380", "new"),
        ] {
            let made = read(&for_member(SHARED, pod, &known).unwrap());
            assert_eq!(made["initial-cluster"], initial, "{pod} {known:?}");
            assert_eq!(made["initial-cluster-state"], state, "{pod} {known:?}");
            assert_eq!(made["name"], pod);
        }
    }

    #[test]
    fn what_is_not_the_members_own_stays_as_it_was() {
        let made = read(&for_member(SHARED, "m-1", &Known::default()).unwrap());
        let mut expected = read(SHARED);
        expected["name"] = json!("m-1");
        expected["initial-advertise-peer-urls"] = json!("https://m-1.p:2380,https://elsewhere:2380");
        expected["advertise-client-urls"] = json!("https://m-1.p:2379");
        assert_eq!(made, expected);
        // What is a text stays one, and a number a number.
        assert_eq!(made["auto-compaction-retention"], json!("1"));
        assert_eq!(made["quota-backend-bytes"], json!(8_589_934_592_u64));
    }

    #[test]
    fn a_prefix_is_part_of_the_name() {
        let shared = "member-name-prefix: east\ninitial-cluster: east-m-0=http://a\n\
                      advertise-client-urls: {east-m-0: http://b}\n";
        let made = read(&for_member(shared, "m-0", &Known::default()).unwrap());
        assert_eq!((&made["name"], &made["advertise-client-urls"]), (&json!("east-m-0"), &json!("http://b")));
        let plain = "initial-cluster: m-0=http://a,m-0=http://c\nadvertise-client-urls: http://b\n";
        let made = read(&for_member(plain, "m-0", &known(&["m-0"], true)).unwrap());
        assert_eq!(
            (&made["initial-cluster-state"], &made["advertise-client-urls"]),
            (&json!("new"), &json!("http://b"))
        );
    }

    #[test]
    fn what_a_start_has_told_goes_before_what_is_written() {
        let shared = Shared::read(SHARED).unwrap();
        let alone = "m-1=https://m-1.p:2380".to_owned();
        let launch = Launch { initial_cluster: alone.clone(), state: ClusterState::New, token: "t".into() };
        let made = read(&shared.for_launch("m-1", &launch).unwrap());
        assert_eq!(made["initial-cluster"], json!(alone));
        assert_eq!((&made["initial-cluster-state"], &made["initial-cluster-token"]), (&json!("new"), &json!("t")));
        assert_eq!(made["advertise-client-urls"], json!("https://m-1.p:2379"));
    }

    #[test]
    fn a_member_finds_its_place_in_it() {
        let shared = Shared::read(SHARED).unwrap();
        let place = shared.place("m-1", "c", None).unwrap();
        assert_eq!(place.data_dir, PathBuf::from("/var/etcd/data/new.etcd"));
        assert_eq!(place.peer_urls, ["https://m-1.p:2380", "https://elsewhere:2380"]);
        assert_eq!(place.names(), ["m-0", "m-1", "m-2"]);
        assert_eq!((place.token.as_str(), place.cluster.as_str()), ("etcd-cluster", "c"));
        let others: Vec<String> = shared.others("m-1").unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(others, ["https://m-0.p:2379", "https://m-2.p:2379"]);
        assert_eq!(shared.place("m-1", "c", Some("/d".into())).unwrap().data_dir, PathBuf::from("/d"));
        let bare = Shared::read("initial-cluster: a=http://x:1\ninitial-advertise-peer-urls: http://x:1\n").unwrap();
        assert_eq!(bare.place("a", "c", None).unwrap_err(), NoConfig::Missing("data-dir"));
        assert_eq!(bare.others("a").unwrap(), []);
    }

    #[test]
    fn what_names_nobody_is_refused() {
        let not_named = |key| NoConfig::NotNamed { key, member: "m-9".into() };
        let refused = |shared: &str| for_member(shared, "m-9", &Known::default()).unwrap_err();
        assert_eq!(refused(SHARED), not_named("initial-advertise-peer-urls"));
        assert_eq!(refused("advertise-client-urls: {m-9: []}"), not_named("advertise-client-urls"));
        assert_eq!(refused("initial-cluster: m-0=http://a"), not_named("initial-cluster"));
        for text in ["a: [", "- a", "text", "a: &a [*a]"] {
            assert!(matches!(refused(text), NoConfig::Yaml(_)), "{text}");
        }
    }
}
