//! The members of a cluster that begins, as `--initial-cluster` names them: `a=http://1.2.3.4:2380,b=https://…`.
//!
//! A name may come several times, once for each of its URLs. What is refused here is what etcdutl refuses, but for
//! one thing: where the URLs of `--initial-advertise-peer-urls` and those in the list differ as text, etcdutl looks up
//! their hosts and compares addresses. Here they differ.

use std::collections::{BTreeMap, BTreeSet};

use crate::member_id::MemberId;
use crate::tables::Member;

/// The names and peer URLs of a cluster's first members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialCluster {
    /// The sorted URLs of each name.
    peers: BTreeMap<String, Vec<String>>,
}

/// Why a list is not that of a cluster's first members.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InitialClusterError {
    /// The list is empty.
    #[error("the initial cluster is empty")]
    Empty,
    /// Something that should be a URL is not.
    #[error("{url:?} is not a URL: {fault}")]
    Url {
        /// What is there.
        url: String,
        /// What is wrong with it.
        fault: UrlFault,
    },
    /// A URL comes twice.
    #[error("the initial cluster has {url} twice")]
    DuplicateUrl {
        /// The URL.
        url: String,
    },
    /// The member that is to be made is not in the list.
    #[error("the initial cluster has no member called {name:?}")]
    NoSuchName {
        /// Its name.
        name: String,
    },
    /// The member's URLs are others in the list than those it is to advertise.
    #[error("the initial cluster has {listed} for {name:?}, but it is to advertise {advertised}")]
    OtherUrls {
        /// Its name.
        name: String,
        /// Its URLs in the list.
        listed: String,
        /// The URLs that it is to advertise.
        advertised: String,
    },
    /// Two members come out with one id, or one with no id.
    #[error("{name:?} would get the id {id}, which it cannot have")]
    Id {
        /// The name of a member.
        name: String,
        /// Its id.
        id: MemberId,
    },
}

/// What is wrong with a peer URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// It begins with something else.
    #[error("the scheme must be http, https, unix or unixs")]
    Scheme,
    /// There is no port, or it is no number.
    #[error("it must have the form \"host:port\"")]
    HostPort,
    /// Something follows the port.
    #[error("it must not have a path, a query or a user")]
    Path,
}

impl InitialCluster {
    /// Reads a list of `name=url`, separated by commas.
    pub fn parse(list: &str) -> Result<InitialCluster, InitialClusterError> {
        let mut peers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for item in list.split(',').filter(|item| !item.is_empty()) {
            let (name, url) = item.split_once('=').unwrap_or((item, ""));
            peers.entry(name.into()).or_default().push(peer_url(url)?);
        }
        if peers.is_empty() {
            return Err(InitialClusterError::Empty);
        }
        let mut seen = BTreeSet::new();
        for url in peers.values().flatten() {
            if !seen.insert(url) {
                return Err(InitialClusterError::DuplicateUrl { url: url.clone() });
            }
        }
        peers.values_mut().for_each(|urls| urls.sort_unstable());
        Ok(InitialCluster { peers })
    }

    /// The members of the cluster of `token`, sorted by id.
    pub fn members(&self, token: &str) -> Result<Vec<Member>, InitialClusterError> {
        let mut members: BTreeMap<MemberId, Member> = BTreeMap::new();
        for (name, urls) in &self.peers {
            let id = MemberId::of(urls, token);
            let member = Member {
                id: id.0,
                peer_urls: urls.clone(),
                is_learner: false,
                name: name.clone(),
                client_urls: Vec::new(),
            };
            if id.0 == 0 || members.insert(id, member).is_some() {
                return Err(InitialClusterError::Id { name: name.clone(), id });
            }
        }
        Ok(members.into_values().collect())
    }

    /// Requires that `name` is in the list, with just the URLs of `advertised`, which are separated by commas.
    pub fn require(&self, name: &str, advertised: &str) -> Result<(), InitialClusterError> {
        let listed = self.peers.get(name).ok_or_else(|| InitialClusterError::NoSuchName { name: name.into() })?;
        let mut urls = advertised.split(',').map(peer_url).collect::<Result<Vec<_>, _>>()?;
        urls.sort_unstable();
        if urls != *listed {
            let (listed, advertised) = (listed.join(","), urls.join(","));
            return Err(InitialClusterError::OtherUrls { name: name.into(), listed, advertised });
        }
        Ok(())
    }
}

/// Checks a peer URL, and spells it as etcd does: the member's id depends on it.
fn peer_url(url: &str) -> Result<String, InitialClusterError> {
    let url = url.trim();
    let fault = |fault| InitialClusterError::Url { url: url.into(), fault };
    let (scheme, rest) = url.split_once("://").ok_or_else(|| fault(UrlFault::Scheme))?;
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "http" | "https" if rest.contains(['/', '?', '#', '@']) => Err(fault(UrlFault::Path)),
        "http" | "https" if !is_host_port(rest) => Err(fault(UrlFault::HostPort)),
        "http" | "https" | "unix" | "unixs" => Ok(format!("{scheme}://{rest}")),
        _ => Err(fault(UrlFault::Scheme)),
    }
}

/// Whether `text` is a host and a port. The host may be missing; one with colons stands in brackets.
fn is_host_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']'),
        None => Some(host).filter(|host| !host.contains([':', '[', ']'])),
    };
    let is_host_char = |c: char| !c.is_whitespace() && !c.is_control() && !"[]<>\"\\^`{|}%".contains(c);
    host.is_some_and(|host| host.chars().all(is_host_char)) && port.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: &str) -> InitialClusterError {
        InitialCluster::parse(list).unwrap_err()
    }

    #[test]
    fn names_may_have_several_urls() {
        let cluster = InitialCluster::parse("b=http://b:2,a=http://a:2, a=x").unwrap_err();
        assert!(matches!(cluster, InitialClusterError::Url { .. }));

        let cluster = InitialCluster::parse("b=HTTP://b:2,a=http://a:2,,a=http://a:1").unwrap();
        let members = cluster.members("token").unwrap();
        assert!(members.is_sorted_by_key(|member| member.id));
        let a = members.iter().find(|member| member.name == "a").unwrap();
        assert_eq!(a.peer_urls, ["http://a:1", "http://a:2"]);
        assert_eq!(a.id, MemberId::of(&["http://a:1", "http://a:2"], "token").0);
    }

    #[test]
    fn urls_that_etcd_refuses_are_refused() {
        for (url, fault) in [
            ("", UrlFault::Scheme),
            ("a:1", UrlFault::Scheme),
            ("ftp://a:1", UrlFault::Scheme),
            ("http://a", UrlFault::HostPort),
            ("http://a:b", UrlFault::HostPort),
            ("http://::1:1", UrlFault::HostPort),
            ("http://a b:1", UrlFault::HostPort),
            ("http://a:1/", UrlFault::Path),
        ] {
            assert_eq!(refused(&format!("n={url}")), InitialClusterError::Url { url: url.into(), fault });
        }
        for url in ["http://a:1", "https://[::1]:1", "http://:2380", "unix://a.sock:1", "unixs://localhost:1"] {
            assert!(InitialCluster::parse(&format!("n={url}")).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_url_belongs_to_one_member_once() {
        assert_eq!(
            refused("a=http://a:1,b=http://a:1"),
            InitialClusterError::DuplicateUrl { url: "http://a:1".into() }
        );
        assert_eq!(refused(""), InitialClusterError::Empty);
    }

    #[test]
    fn the_member_is_in_the_list_with_the_urls_that_it_advertises() {
        let cluster = InitialCluster::parse("a=http://a:1,a=http://a:2,b=http://b:1").unwrap();
        assert_eq!(cluster.require("a", "http://a:2,http://a:1"), Ok(()));
        assert!(matches!(cluster.require("c", "http://a:1"), Err(InitialClusterError::NoSuchName { .. })));
        assert!(matches!(cluster.require("a", "http://a:1"), Err(InitialClusterError::OtherUrls { .. })));
    }
}
