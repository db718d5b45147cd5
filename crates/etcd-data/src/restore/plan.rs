//! What a restore will do, decided before anything is touched.

use std::fmt;

use super::destination::Destination;
use super::error::{PlanError, RestoreError};
use super::high_water::LAST_BUMPED;
use super::options::{Alarms, Bump, DEFAULT_PEER_URL, DigestRule, EtcdVersion, ForVersion, Leases, Options, Token};
use crate::data_dir::record::Account;
use crate::database::Database;
use crate::hash::HashKv;
use crate::initial_cluster::{InitialCluster, InitialClusterError};
use crate::member_id::{ClusterId, MemberId};
use crate::revision::Revision;
use crate::tables::{AlarmKind, BUCKETS, MARKS, Member, Tables};
use crate::view::Horizon;

/// What a restore will do.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Plan {
    /// Where the data directory appears, and what it replaces.
    pub destination: Destination,
    /// The moment, as it goes into names.
    pub stamp: String,
    /// The revision whose state is restored.
    pub revision: Revision,
    /// The revision that the member begins at: the same, or a higher one.
    pub current_revision: Revision,
    /// The compact revision that it begins with.
    pub compact_revision: Option<Revision>,
    /// What of history is left out.
    pub history: History,
    /// The member that the directory is for.
    pub member: MemberId,
    /// All members of its cluster, by id.
    pub members: Vec<Member>,
    /// Their cluster.
    pub cluster: ClusterId,
    /// The token that the ids were made with.
    pub token: String,
    /// The version that the directory is for.
    pub version: ForVersion,
    /// Whether the database says in which raft term it is, as it does since 3.5.
    pub schema: Schema,
    /// What becomes of leases.
    pub leases: Leases,
    /// What becomes of alarms.
    pub alarms: Alarms,
    /// The size of the database's pages: that of the source's. etcd makes them as large as those of its machine, and starts on
    /// others as well.
    pub page_size: u32,
    /// What is made of the digest at the end of a snapshot file.
    pub digest: DigestRule,
    /// What a member of the source's cluster once answered: the source has to give the same.
    pub anchor: Option<HashKv>,
    /// What the directory is to remember of why it was restored.
    #[serde(skip)]
    pub account: Option<Account>,
}

/// What of the history up to the restored revision is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Nothing.
    Whole,
    /// What a compaction at this revision drops.
    CompactedAt(Revision),
    /// Everything but the newest put of each live key: what a compaction after the restored revision drops.
    OnlyLive,
}

/// What the `meta` bucket says of raft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Schema {
    /// The index of the last entry: up to 3.4.
    Index,
    /// Its term, and who votes, too: since 3.5.
    IndexAndTerm,
}

/// What a plan depends on of the source.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Which revisions there are.
    pub horizon: Horizon,
    /// The small buckets.
    pub tables: &'a Tables,
    /// The size of a page.
    pub page_size: u32,
}

impl<'a> Facts<'a> {
    /// The facts of `database`.
    pub fn of(database: &'a Database) -> Result<Self, RestoreError> {
        let horizon = Horizon::of(database)?;
        Ok(Self { horizon, tables: database.tables(), page_size: database.page_size() })
    }
}

impl Plan {
    /// Decides how to do what `options` ask with what `source` has, as things stand at the destination.
    pub fn make(source: &Database, options: &Options) -> Result<Self, RestoreError> {
        let Options { data_dir, wal_dir, existing, stamp, .. } = options;
        let destination = Destination::look(data_dir, wal_dir.as_deref(), *existing, stamp)?;
        let facts = Facts::of(source)?;
        facts.horizon.at(source, options.at).map_err(PlanError::NotInHistory)?;
        Ok(Self::choose(&facts, options, destination)?)
    }

    /// Decides how to do what `options` ask with what the source has.
    pub fn choose(source: &Facts<'_>, options: &Options, destination: Destination) -> Result<Self, PlanError> {
        let revision = source.horizon.within(options.at).map_err(PlanError::NotInHistory)?;
        let (history, current_revision, compact_revision) = revisions(source, options, revision)?;
        let (member, members) = members(options)?;
        source.tables.refuse_uncarried()?;
        refuse_corrupt_alarm(source.tables, options.alarms)?;
        refuse_unknown(source.tables, options.version)?;
        let ids: Vec<MemberId> = members.iter().map(|member| MemberId(member.id)).collect();
        Ok(Self {
            destination,
            stamp: options.stamp.clone(),
            revision,
            current_revision,
            compact_revision,
            history,
            member,
            cluster: ClusterId::of(&ids),
            members,
            token: options.token.as_str().into(),
            version: options.version,
            schema: schema(source.tables, options.version)?,
            leases: options.leases,
            alarms: options.alarms,
            digest: options.digest,
            anchor: options.anchor,
            account: options.account.clone(),
            page_size: source.page_size,
        })
    }
}

/// What of history is kept, the revision to begin at, and the compact revision to begin with.
fn revisions(
    source: &Facts<'_>,
    options: &Options,
    revision: Revision,
) -> Result<(History, Revision, Option<Revision>), PlanError> {
    let compacted = source.horizon.compact;
    if let Bump::By(by) = options.bump {
        // From the highest revision that any client can have seen, which is not the restored one.
        let bumped = i64::try_from(by).ok().and_then(|by| source.horizon.current.0.checked_add(by));
        let bumped =
            bumped.map(Revision).filter(|bumped| by > 0 && *bumped <= LAST_BUMPED).ok_or(PlanError::Bump { by })?;
        // Both marks stand at the bumped revision and history ends before it: every version goes on from there, the
        // first releases of 3.4 too, with nothing left to compact and no record under an empty key.
        return Ok((History::OnlyLive, bumped, Some(bumped)));
    }
    let Some(at) = options.compact_at else {
        // A compaction that was begun is finished here, or the member would be busy with it when it starts.
        let finished = source.tables.finished_compaction()?;
        let history = match compacted {
            Some(compacted) if finished != Some(compacted) => History::CompactedAt(compacted),
            _ => History::Whole,
        };
        return Ok((history, revision, compacted));
    };
    let first = compacted.unwrap_or(Revision::FIRST);
    if !(first..=revision).contains(&at) {
        return Err(PlanError::CompactAt { at, first, last: revision });
    }
    Ok((History::CompactedAt(at), revision, Some(at)))
}

/// The member, and all members by id.
fn members(options: &Options) -> Result<(MemberId, Vec<Member>), PlanError> {
    let Options { name, peer_urls, token, .. } = options;
    let cluster = match &options.initial_cluster {
        Some(list) => InitialCluster::parse(list)?,
        None => alone(name, peer_urls.as_deref().unwrap_or(DEFAULT_PEER_URL))?,
    };
    if let Some(peer_urls) = peer_urls {
        cluster.require(name, peer_urls)?;
    }
    let members = cluster.members(token.as_str())?;
    if members.len() > 1 && matches!(token, Token::Unique(_)) {
        return Err(PlanError::TokenNeeded { members: members.len() });
    }
    let member = members.iter().find(|member| member.name == *name);
    let id = member.map(|member| MemberId(member.id)).ok_or_else(|| PlanError::NoSuchName { name: name.clone() })?;
    Ok((id, members))
}

/// The cluster of one member.
fn alone(name: &str, peer_urls: &str) -> Result<InitialCluster, InitialClusterError> {
    let entries: Vec<String> = peer_urls.split(',').map(|url| format!("{name}={url}")).collect();
    InitialCluster::parse(&entries.join(","))
}

/// An alarm for damage says that members differed: what is restored may be the wrong one.
fn refuse_corrupt_alarm(tables: &Tables, alarms: Alarms) -> Result<(), PlanError> {
    if alarms != Alarms::DropNoSpace {
        return Ok(());
    }
    for alarm in tables.alarms() {
        let alarm = alarm?;
        if alarm.kind == AlarmKind::Corrupt as i32 {
            return Err(PlanError::CorruptAlarm { member: MemberId(alarm.member) });
        }
    }
    Ok(())
}

/// Refuses to go back to a version that does not know what is in the source.
fn refuse_unknown(tables: &Tables, version: ForVersion) -> Result<(), PlanError> {
    let ForVersion::Version(version) = version else { return Ok(()) };
    let newest = newest_version(tables)?;
    let is_older =
        newest.as_ref().is_none_or(|newest| newest.parse().map_or(true, |newest: EtcdVersion| version < newest));
    let unknown = unknown_entries(tables);
    if is_older && !unknown.is_empty() {
        return Err(PlanError::CannotHold { version, unknown });
    }
    Ok(())
}

/// The version that the source says it is of, as text.
fn newest_version(tables: &Tables) -> Result<Option<String>, PlanError> {
    Ok(tables.storage_version()?.or(tables.cluster_version()?))
}

/// What is in `tables` that no version from 3.4 to 3.7 keeps, as people would name it.
fn unknown_entries(tables: &Tables) -> Vec<String> {
    let mut unknown = Vec::new();
    for (bucket, table) in tables.buckets() {
        let name = bucket.escape_ascii();
        let is_known = BUCKETS.iter().any(|known| known.as_bytes() == bucket);
        match known_keys(bucket) {
            _ if !is_known => unknown.push(format!("bucket {name}")),
            None => {}
            Some(known) => {
                let keys = table.keys().filter(|key| known.iter().all(|known| known.as_bytes() != key.as_slice()));
                unknown.extend(keys.map(|key| format!("{} in bucket {name}", key.escape_ascii())));
            }
        }
    }
    unknown
}

/// What those versions keep in a bucket; nothing where the entries are people's or members'.
fn known_keys(bucket: &[u8]) -> Option<&'static [&'static str]> {
    match bucket {
        b"auth" => Some(&["authEnabled", "authRevision"]),
        b"cluster" => Some(&["clusterVersion", "downgrade"]),
        b"meta" => Some(&MARKS),
        _ => None,
    }
}

fn schema(tables: &Tables, version: ForVersion) -> Result<Schema, PlanError> {
    let has_term = match version {
        ForVersion::Version(version) => version > EtcdVersion::V34,
        // Only if it is there: the last releases of 3.4 do not start on it.
        ForVersion::AsSource => tables.term()?.is_some() || tables.conf_state()?.is_some(),
    };
    Ok(if has_term { Schema::IndexAndTerm } else { Schema::Index })
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { destination, revision, .. } = self;
        write!(f, "restore revision {revision} to {}", destination.data_dir.display())?;
        match self.history {
            History::Whole => {}
            History::CompactedAt(at) => write!(f, ", compacted at {at}")?,
            History::OnlyLive => write!(f, ", without history, to go on after revision {}", self.current_revision)?,
        }
        let names: Vec<&str> = self.members.iter().map(|member| member.name.as_str()).collect();
        write!(f, "; member {} of cluster {} ({})", self.member, self.cluster, names.join(", "))?;
        if let ForVersion::Version(version) = self.version {
            write!(f, "; for etcd {version}")?;
        }
        if let Some(kept) = &destination.kept {
            let kept = destination.target().with_file_name(kept);
            write!(f, "; what is there is kept as {}", kept.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
