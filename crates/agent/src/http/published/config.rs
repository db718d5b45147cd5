//! etcd's configuration for one member, made of the one that all members share.
//!
//! The shared file differs from etcd's own in two keys: `initial-advertise-peer-urls` and `advertise-client-urls` have the URLs of
//! every member, by name. A member gets its own. What else is different for a member depends on the cluster as it is: only members
//! that are in it already are named as its initial cluster, and it is an existing one where a learner waits to join.

use serde_json::{Map, Value};

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
}

/// What is known of the cluster that a member is to be part of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The names of its members; empty if nobody could be asked.
    pub members: Vec<String>,
    /// Whether one of them is a learner.
    pub has_learner: bool,
}

/// The configuration for the member that runs in `pod`.
pub fn for_member(shared: &str, pod: &str, known: &Known) -> Result<String, NoConfig> {
    let mut config: Map<String, Value> =
        serde_saphyr::from_str(shared).map_err(|error| NoConfig::Yaml(first_line(&error)))?;
    let name = member_name(&config, pod);
    for key in ["initial-advertise-peer-urls", "advertise-client-urls"] {
        if let Some(Value::Object(of_members)) = config.get(key) {
            let own = of_members.get(&name).and_then(joined);
            let own = own.ok_or_else(|| NoConfig::NotNamed { key, member: name.clone() })?;
            config.insert(key.into(), own.into());
        }
    }
    if let Some(initial) = config.get("initial-cluster").and_then(Value::as_str) {
        let narrowed = narrowed(initial, &name, known);
        let key = "initial-cluster";
        if !names(&narrowed).any(|named| named == name) {
            return Err(NoConfig::NotNamed { key, member: name });
        }
        let state = state(&narrowed, known);
        config.insert(key.into(), narrowed.into());
        config.insert("initial-cluster-state".into(), state.into());
    }
    config.insert("name".into(), name.into());
    serde_saphyr::to_string(&config).map_err(|error| NoConfig::Yaml(first_line(&error)))
}

/// The name of the member that runs in `pod`, by the shared configuration.
fn member_name(config: &Map<String, Value>, pod: &str) -> String {
    match config.get("member-name-prefix").and_then(Value::as_str).filter(|prefix| !prefix.is_empty()) {
        Some(prefix) => format!("{prefix}-{pod}"),
        None => pod.to_owned(),
    }
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
