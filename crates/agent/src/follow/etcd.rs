//! A live cluster over its protocol.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_data::hash::HashKv;
use etcd_data::{LeaseId, Revision};
use etcd_rpc::{Access, Endpoint, Event, Fault, ListedMember, Member, RangeRequest, RpcError, Status, Word, page};
use futures::stream::BoxStream;
use futures::{StreamExt, future, stream};
use jiff::Timestamp;
use tokio::time::{Instant, timeout};

use crate::doctor::remedy::remedy;
use crate::follow::live::{Auth, Change, Live, MemberAnswer, MemberSight, PutChange, Seen, Sight, Trouble, Watching};
use crate::follow::recognise::is_lasting;

/// A cluster that is found at some endpoints.
pub struct Etcd {
    access: Access,
    given: Vec<Member>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Members at addresses that they told of themselves.
    by_url: HashMap<String, Member>,
    /// Who answered as which member last.
    by_id: HashMap<u64, (Member, String)>,
    /// What members' pages of metrics said of their quotas, and when they were asked.
    quotas: HashMap<u64, (Option<i64>, Instant)>,
}

/// Who was asked, and what it says of itself, or why it says nothing.
type Answer = (Member, Result<Status, Silence>);

/// Why a member says nothing of itself.
#[derive(Debug, Clone)]
struct Silence {
    why: String,
    /// What a person can do, where waiting does not help.
    remedy: Option<String>,
}

/// How long a member may take to say how it is.
const LOOK: Duration = Duration::from_secs(3);
/// How long what a page of metrics says of a quota is believed, or that it says nothing: a member may be started with
/// another one.
const QUOTA_HOLDS: Duration = Duration::from_secs(600);
/// How often a member is asked how far it is while it has nothing to tell.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What a watch has told, of a member that cannot be asked by the watch how far it is.
struct Heard {
    member: Member,
    /// The last revision that it told of.
    reached: Revision,
    is_partial: bool,
}

impl Etcd {
    /// The cluster that has members at `endpoints`.
    ///
    /// # Panics
    /// Outside a runtime of tokio.
    pub fn at(endpoints: Vec<Endpoint>, access: Access) -> Self {
        let given = endpoints.into_iter().map(|endpoint| Member::new(endpoint, &access)).collect();
        Self { access, given, known: Mutex::default() }
    }

    /// The member with this id, as it answered last.
    pub fn member(&self, id: u64) -> Option<Member> {
        self.known().by_id.get(&id).map(|(member, _)| member.clone())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn require(&self, id: u64) -> Result<Member, Trouble> {
        let unknown = || Trouble::Away { place: format!("member {id:x}"), why: "it has not answered yet".into() };
        self.member(id).ok_or_else(unknown)
    }

    /// Where a member that was not given says that it is.
    fn told(&self, member: &ListedMember) -> Option<Member> {
        let url = member.client_urls.first()?;
        let endpoint: Endpoint = url.parse().ok()?;
        Some(self.known().by_url.entry(url.clone()).or_insert_with(|| Member::new(endpoint, &self.access)).clone())
    }

    async fn ask(&self, member: Member) -> Answer {
        let status = timeout(LOOK, member.status()).await;
        let status = status.map_err(|_| Silence::passing(format!("it did not answer within {} s", LOOK.as_secs())));
        let mut status = status.and_then(|status| status.map_err(|error| Silence::by(&error.fault)));
        if let Ok(status) = &mut status
            && status.quota_bytes.is_none()
        {
            status.quota_bytes = self.quota(&member, status.header.member_id).await;
        }
        (member, status)
    }

    /// The quota of a member that is too old to tell it with its status.
    async fn quota(&self, member: &Member, id: u64) -> Option<i64> {
        let held = self.known().quotas.get(&id).copied();
        if let Some((quota, _)) = held.filter(|(_, asked)| asked.elapsed() < QUOTA_HOLDS) {
            return quota;
        }
        let asked = timeout(LOOK, page(member.endpoint(), &self.access, "/metrics")).await;
        let got = asked.ok().and_then(Result::ok).filter(|page| page.status.is_success());
        let quota = got.and_then(|page| quota_in(&page.text));
        self.known().quotas.insert(id, (quota, Instant::now()));
        quota
    }

    /// What those said who were `asked`, by who they are, and what the others of the `members` say.
    async fn ask_the_rest(&self, asked: Vec<Answer>, members: &[ListedMember]) -> HashMap<u64, Answer> {
        let mut answers = HashMap::new();
        for (member, status) in asked {
            if let Ok(found) = &status {
                answers.insert(found.header.member_id, (member, status));
            }
        }
        let rest = members.iter().filter(|member| !answers.contains_key(&member.id));
        let rest = rest.filter_map(|member| Some((member.id, self.told(member)?)));
        let rest = rest.map(async |(id, member)| (id, self.ask(member).await));
        for (id, (member, status)) in future::join_all(rest).await {
            let itself = |status: Status| match status.header.member_id == id {
                true => Ok(status),
                false => Err(Silence::passing(format!("{} answers as another member", member.endpoint()))),
            };
            answers.insert(id, (member.clone(), status.and_then(itself)));
        }
        answers
    }

    /// Notes who answered as which member. Whoever is none any more is forgotten, and so is the connection.
    fn note(&self, answers: &HashMap<u64, Answer>, members: &[ListedMember]) {
        let mut known = self.known();
        for (id, (member, status)) in answers {
            if let Ok(status) = status {
                known.by_id.insert(*id, (member.clone(), status.version.clone()));
            }
        }
        known.by_id.retain(|id, _| members.iter().any(|member| member.id == *id));
        known.quotas.retain(|id, _| members.iter().any(|member| member.id == *id));
        known.by_url.retain(|url, _| members.iter().any(|member| member.client_urls.first() == Some(url)));
    }
}

#[async_trait]
impl Live for Etcd {
    async fn look(&self) -> Result<Sight, Trouble> {
        let asked = future::join_all(self.given.iter().map(|member| self.ask(member.clone()))).await;
        let listed = listed_by(&asked).await?;
        let mut answers = self.ask_the_rest(asked, &listed.members).await;
        self.note(&answers, &listed.members);
        let versions = answers.values().filter_map(|(_, status)| Some(status.as_ref().ok()?.version.clone()));
        let oldest = versions.min_by_key(|version| numbers(version));
        let sights = listed.members.into_iter().map(|member| {
            let answered = answers.remove(&member.id);
            sight(member, answered)
        });
        let members = sights.collect();
        Ok(Sight { cluster: listed.cluster_id, version: oldest, members, taken: Timestamp::now(), silence: None })
    }

    async fn current(&self, id: u64) -> Result<Revision, Trouble> {
        let question = RangeRequest { key: Bytes::from_static(b"\0"), count_only: true, ..RangeRequest::default() };
        let answer = self.require(id)?.range(question).await.map_err(trouble)?;
        Ok(Revision(answer.header.map_or(0, |header| header.revision)))
    }

    async fn watch(&self, id: u64, from: Revision) -> Result<Watching, Trouble> {
        let member = self.require(id)?;
        let version = self.known().by_id.get(&id).map(|(_, version)| version.clone()).unwrap_or_default();
        let watch = member.watch(from.0).await.map_err(trouble)?;
        let ask = tells_progress_right(&version).then(|| watch.ask_progress());
        let heard = Heard { member, reached: Revision(from.0 - 1), is_partial: false };
        let watching = stream::try_unfold((watch, ask, heard), move |(mut watch, ask, mut heard)| async move {
            loop {
                match timeout(PROGRESS_EVERY, watch.next()).await {
                    Ok(seen) => {
                        let seen = self::seen(seen.map_err(trouble)?);
                        heard.note(&seen);
                        return Ok(Some((seen, (watch, ask, heard))));
                    }
                    // What begins after the newest revision is told nothing of, before the next one comes.
                    Err(_) => match &ask {
                        Some(ask) if heard.reached >= from => ask.now(),
                        _ => {
                            if let Some(nothing) = heard.nothing_since().await {
                                return Ok(Some((nothing, (watch, ask, heard))));
                            }
                        }
                    },
                }
            }
        });
        Ok(watching.boxed())
    }

    async fn snapshot(&self, id: u64) -> Result<BoxStream<'static, Result<Bytes, Trouble>>, Trouble> {
        let snapshot = self.require(id)?.snapshot().await.map_err(trouble)?;
        let pieces = stream::try_unfold(snapshot, |mut snapshot| async move {
            let piece = snapshot.next().await.map_err(trouble)?;
            Ok(piece.map(|piece| (piece, snapshot)))
        });
        Ok(pieces.boxed())
    }

    async fn hash_kv(&self, id: u64, revision: Revision) -> Result<HashKv, Trouble> {
        let answer = self.require(id)?.hash_kv(revision.0).await.map_err(trouble)?;
        let compact_revision = (answer.compact_revision > 0).then_some(Revision(answer.compact_revision));
        let revision = answer.hash_revision.filter(|told| *told > 0).map_or(revision, Revision);
        Ok(HashKv { hash: answer.hash, revision, compact_revision })
    }

    async fn leases(&self, id: u64) -> Result<Vec<LeaseId>, Trouble> {
        let leases = self.require(id)?.leases().await.map_err(trouble)?;
        Ok(leases.into_iter().map(LeaseId).collect())
    }

    async fn granted(&self, id: u64, lease: LeaseId) -> Result<Option<i64>, Trouble> {
        let lease = self.require(id)?.lease(lease.0).await.map_err(trouble)?;
        Ok(lease.map(|lease| lease.granted_seconds))
    }

    async fn key(&self, id: u64, key: &[u8]) -> Result<Option<Change>, Trouble> {
        let found = self.require(id)?.get(key.to_vec()).await.map_err(trouble)?;
        Ok(found.map(|found| Change {
            key: found.key,
            revision: Revision(found.mod_revision),
            put: Some(PutChange {
                value: found.value,
                created: Revision(found.create_revision),
                version: found.version,
                lease: LeaseId(found.lease),
            }),
        }))
    }

    async fn has(&self, id: u64, revision: Revision) -> Result<bool, Trouble> {
        // Counting what is not there is the cheapest question about a revision.
        let question = RangeRequest {
            key: Bytes::from_static(b"\0"),
            revision: revision.0,
            count_only: true,
            serializable: true,
            ..RangeRequest::default()
        };
        match self.require(id)?.range(question).await {
            Ok(_) => Ok(true),
            Err(RpcError { fault: Fault::Compacted { .. }, .. }) => Ok(false),
            Err(error) => Err(trouble(error)),
        }
    }

    async fn auth(&self, id: u64) -> Result<Option<Auth>, Trouble> {
        match self.require(id)?.auth_status().await {
            Ok(status) => Ok(Some(Auth { revision: status.revision, is_enabled: status.is_enabled })),
            // Versions that do not tell, and users who may not ask.
            Err(RpcError { fault: Fault::Unsupported | Fault::Denied, .. }) => Ok(None),
            Err(error) => Err(trouble(error)),
        }
    }
}

/// Who is a member, by the first of those who were `asked` that can tell. Where all of them refuse, that is what is in the way: they
/// are there, and waiting does not help. Who is only away may be back in a moment.
async fn listed_by(asked: &[Answer]) -> Result<etcd_rpc::Members, Trouble> {
    let (mut told, mut remedies) = (Vec::new(), Vec::new());
    for (member, status) in asked {
        let silence = match status {
            Ok(_) => match timeout(LOOK, list(member)).await {
                Ok(Ok(members)) => return Ok(members),
                Ok(Err(error)) => Silence::by(&error.fault),
                Err(_) => Silence::passing("it did not list its members in time".into()),
            },
            Err(silence) => silence.clone(),
        };
        told.push(format!("{}: {}", member.endpoint(), silence.why));
        remedies.extend(silence.remedy);
    }
    let (place, why) = ("the cluster".into(), told.join("; "));
    let all_refuse = remedies.len() == told.len();
    Err(match remedies.into_iter().next().filter(|_| all_refuse) {
        Some(remedy) => Trouble::Refused { place, why, remedy },
        None => Trouble::Away { place, why },
    })
}

impl Silence {
    fn by(fault: &Fault) -> Self {
        // A learner, or one whose space is used up, is not in order; but it lets us in.
        let refuses = is_lasting(fault) || matches!(fault, Fault::NoPassword { .. });
        Self { why: fault.to_string(), remedy: refuses.then(|| remedy(fault)) }
    }

    fn passing(why: String) -> Self {
        Self { why, remedy: None }
    }
}

/// The members by the word of a majority, or else by that of the one who is asked: a cluster without quorum has members
/// too.
async fn list(member: &Member) -> Result<etcd_rpc::Members, RpcError> {
    match timeout(LOOK / 2, member.members(Word::Majority)).await {
        Ok(Ok(members)) => Ok(members),
        Ok(Err(_)) | Err(_) => member.members(Word::Own).await,
    }
}

fn sight(member: ListedMember, answered: Option<Answer>) -> MemberSight {
    let silent = || Err("it tells no address that it answers at".into());
    MemberSight {
        id: member.id,
        name: member.name,
        client_urls: member.client_urls,
        peer_urls: member.peer_urls,
        is_learner: member.is_learner,
        answer: answered.map_or_else(silent, |(_, status)| status.map(answer).map_err(|silence| silence.why)),
    }
}

fn answer(status: Status) -> MemberAnswer {
    // Every member tells the alarms of all, as errors among others.
    let (told, others): (Vec<String>, Vec<String>) =
        status.errors.into_iter().partition(|error| raised(error).is_some());
    let own = told.iter().filter_map(|error| raised(error)).filter(|(member, _)| *member == status.header.member_id);
    let alarms = own.map(|(_, alarm)| alarm.into()).collect();
    MemberAnswer {
        version: status.version,
        revision: Revision(status.header.revision),
        leader: status.leader,
        applied: status.raft_applied_index.max(status.raft_index),
        size_bytes: u64::try_from(status.db_size_bytes).unwrap_or_default(),
        used_bytes: u64::try_from(status.db_in_use_bytes).unwrap_or_default(),
        quota_bytes: status.quota_bytes.and_then(|quota| u64::try_from(quota).ok()).filter(|quota| *quota > 0),
        alarms,
        errors: others,
    }
}

/// The quota, as a page of metrics has it.
fn quota_in(page: &str) -> Option<i64> {
    let told = page.lines().find_map(|line| line.strip_prefix("etcd_server_quota_backend_bytes "))?;
    told.trim().parse::<f64>().ok().map(|quota| quota as i64).filter(|quota| *quota > 0)
}

/// Whose alarm `error` is, and which, if it is one: `memberID:10501334649042878790 alarm:NOSPACE `, with spaces as it
/// pleases the version.
fn raised(error: &str) -> Option<(u64, &str)> {
    let field = |name: &str| error.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
    Some((field("memberID")?.parse().ok()?, field("alarm")?))
}

fn seen(seen: etcd_rpc::Seen) -> Seen {
    let changes = seen.events.into_iter().map(|event| match event {
        Event::Delete { key, revision } => Change { key, revision: Revision(revision), put: None },
        Event::Put(put) => Change {
            key: put.key,
            revision: Revision(put.mod_revision),
            put: Some(PutChange {
                value: put.value,
                created: Revision(put.create_revision),
                version: put.version,
                lease: LeaseId(put.lease),
            }),
        },
    });
    Seen {
        cluster: seen.header.cluster_id,
        revision: Revision(seen.header.revision),
        changes: changes.collect(),
        is_partial: seen.is_fragment,
    }
}

fn trouble(error: RpcError) -> Trouble {
    if let Fault::Compacted { compact_revision } = error.fault {
        return Trouble::Compacted { from: compact_revision.map(Revision) };
    }
    let (place, why) = (error.endpoint.to_string(), format!("{}: {}", error.action, error.fault));
    match error.fault.is_transient() {
        true => Trouble::Away { place, why },
        false => Trouble::Refused { place, why, remedy: remedy(&error.fault) },
    }
}

impl Heard {
    fn note(&mut self, seen: &Seen) {
        if let Some(last) = seen.changes.last() {
            self.reached = last.revision;
        }
        self.is_partial = seen.is_partial;
    }

    /// That nothing has happened since, where the cluster's revision is the last that was told of.
    async fn nothing_since(&self) -> Option<Seen> {
        let question = RangeRequest { key: Bytes::from_static(b"\0"), count_only: true, ..RangeRequest::default() };
        let header = self.member.range(question).await.ok()?.header?;
        let is_all = header.revision == self.reached.0 && !self.is_partial;
        is_all.then(|| Seen { cluster: header.cluster_id, revision: self.reached, ..Seen::default() })
    }
}

/// Whether a member that is asked how far it is tells that after everything up to there. Older ones may tell too early.
fn tells_progress_right(version: &str) -> bool {
    let [major, minor, patch] = numbers(version);
    match (major, minor) {
        (3, 4) => patch >= 25,
        (3, 5) => patch >= 8,
        _ => (major, minor) > (3, 5),
    }
}

fn numbers(version: &str) -> [u64; 3] {
    let mut parts = version.split(['.', '-']).map(|part| part.parse().unwrap_or_default());
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests;
