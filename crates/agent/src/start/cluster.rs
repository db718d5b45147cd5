//! The cluster, seen through its other members before this one starts, or while it runs and has no leader.
//!
//! A member that does not answer says nothing, unless its peers' door is open: then it is there. Of those that answer, one
//! with a leader whom it can ask speaks for the cluster. Where members of two clusters answer, the one whose data this
//! member has counts if it has a quorum, and then one that was built anew of the same members: it is not to be outvoted by
//! those that come back later. Learners tell neither how far the cluster is nor whether it has a leader.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use etcd_data::member_id::ClusterId;
use etcd_data::{MemberId, Revision};
use etcd_rpc::{Access, Endpoint, Fault, ListedMember, Member, RpcError, Word};
use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::place::Place;
use super::seen::{self, Ahead, Directory, Membership, Others, Standing};

/// What was seen of the others, and who of them can be asked to change the membership.
pub struct Met {
    /// What was seen.
    pub others: Others,
    /// The names of all that answer.
    pub answering: BTreeSet<String>,
    /// A member that speaks for a cluster with a quorum.
    pub spokesman: Option<Member>,
}

impl Met {
    /// Nobody who can be asked.
    fn only(others: Others, answering: BTreeSet<String>) -> Self {
        Self { others, answering, spokesman: None }
    }
}

/// What a member that runs says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// Who it is, and how far.
    pub member: seen::Member,
    /// Whether it has a leader.
    pub has_leader: bool,
}

/// What one member answered.
struct Answer {
    member: Member,
    id: MemberId,
    cluster: u64,
    /// Its name, or its endpoint where its cluster does not know a name.
    name: String,
    revision: i64,
    is_learner: bool,
    says: Says,
}

/// What a member says of its cluster.
enum Says {
    /// Those are its members, as a majority has it.
    Members(Vec<ListedMember>),
    /// It has no leader, or is a learner and would not know.
    NoLeader,
    /// It has a leader, and does not tell.
    Withheld(RpcError),
}

impl Answer {
    fn members(&self) -> Option<&Vec<ListedMember>> {
        match &self.says {
            Says::Members(members) => Some(members),
            Says::NoLeader | Says::Withheld(_) => None,
        }
    }
}

/// How long a look at the others takes at the most, however many there are, and whatever becomes of packets. It is repeated every
/// few seconds, and what is decided by it must not be much older. Who is there answers within milliseconds; a packet that was
/// lost is sent again after one second.
pub const LOOK: Duration = Duration::from_secs(5);
/// What of that answers may take, all that one member is asked for together.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// What is left for the door of the peers of those who have not answered.
const KNOCKS_FOR: Duration = LOOK.saturating_sub(ANSWERS_WITHIN);

/// Asks the member itself, at all its `doors` at once. Nothing if it does not run, or if it is another that answers there.
pub async fn ask_own(place: &Place, doors: &[Member]) -> Option<Own> {
    let by = Instant::now() + ANSWERS_WITHIN;
    join_all(doors.iter().map(|door| ask_own_at(place, door, by))).await.into_iter().flatten().next()
}

async fn ask_own_at(place: &Place, door: &Member, by: Instant) -> Option<Own> {
    let status = timeout_at(by, door.status()).await.ok()?.ok()?;
    let header = &status.header;
    let member = seen::Member {
        id: MemberId(header.member_id),
        cluster: ClusterId(header.cluster_id),
        revision: Revision(header.revision),
        remarks: Vec::new(),
    };
    if status.leader != 0 {
        return Some(Own { member, has_leader: true });
    }
    let listed = timeout_at(by, door.members(Word::Own)).await.ok()?.ok()?;
    let own = listed.members.into_iter().find(|listed| listed.id == header.member_id);
    own.is_some_and(|own| own.name == place.name).then_some(Own { member, has_leader: false })
}

/// Asks the members at `endpoints`, all at once, and takes no longer than [`LOOK`]. This one may be among them.
pub async fn meet(place: &Place, endpoints: &[Endpoint], access: &Access, directory: &Directory) -> Met {
    if place.is_alone() {
        return Met::only(Others::Alone, BTreeSet::new());
    }
    let held = match directory {
        Directory::Sound(member) => Some(member),
        _ => None,
    };
    let by = Instant::now() + ANSWERS_WITHIN;
    let asked = join_all(endpoints.iter().map(|endpoint| ask(endpoint, access, by))).await;
    let mut refusal = None;
    let mut clusters: BTreeMap<u64, Vec<Answer>> = BTreeMap::new();
    for answer in asked {
        match answer {
            Ok(answer) if held.is_some_and(|held| held.id == answer.id && held.cluster.0 == answer.cluster) => {}
            Ok(answer) => clusters.entry(answer.cluster).or_default().push(answer),
            Err(error) if is_silence(&error.fault) => {}
            Err(error) => refusal = refusal.or(Some(told(&error))),
        }
    }
    let answering: BTreeSet<String> = clusters.values().flatten().map(|answer| answer.name.clone()).collect();
    let speaking = |answers: &[Answer]| answers.iter().any(|answer| answer.members().is_some());
    if held.is_none() && clusters.values().filter(|answers| speaking(answers)).count() > 1 {
        let why = "members of two clusters answer, and both have a quorum".into();
        return Met::only(Others::Refused { why }, answering);
    }
    let first = clusters.into_iter().min_by_key(|(cluster, answers)| rank(place, held, *cluster, answers));
    let answers = first.map(|(_, answers)| answers).unwrap_or_default();
    if let Some((answer, members)) = answers.iter().find_map(|answer| Some((answer, answer.members()?))) {
        let held = held.map(|held| held.id);
        let (membership, is_elsewhere) = (membership(place, held, members), is_elsewhere(place, held, members));
        let standing = Standing { cluster: ClusterId(answer.cluster), membership, is_elsewhere };
        return Met { others: Others::Quorum(standing), answering, spokesman: Some(answer.member.clone()) };
    }
    Met::only(without_quorum(place, answers, refusal).await, answering)
}

/// Of several clusters the first speaks for the others.
fn rank(place: &Place, held: Option<&seen::Member>, cluster: u64, answers: &[Answer]) -> u8 {
    let is_ours = held.is_some_and(|held| held.cluster.0 == cluster);
    let members = answers.iter().find_map(Answer::members);
    match members {
        Some(_) if is_ours => 0,
        Some(members) if held.is_none() || is_built_anew(place, members) => 1,
        None if is_ours => 2,
        Some(_) => 3,
        None => 4,
    }
}

/// Whether one of `members` has the name and the address of a member that this one's cluster is to have.
fn is_built_anew(place: &Place, members: &[ListedMember]) -> bool {
    let is_one = |(name, url): (&str, &str)| {
        members.iter().any(|member| member.name == name && member.peer_urls.iter().any(|of_one| of_one == url))
    };
    place.peers().any(is_one)
}

/// What there is of members that have no quorum.
async fn without_quorum(place: &Place, answers: Vec<Answer>, refusal: Option<String>) -> Others {
    let withheld = answers.iter().find_map(|answer| match &answer.says {
        Says::Withheld(error) => Some(told(error)),
        Says::Members(_) | Says::NoLeader => None,
    });
    if let Some(why) = withheld.or(refusal) {
        return Others::Refused { why };
    }
    let voters: Vec<Answer> = answers.into_iter().filter(|answer| !answer.is_learner).collect();
    let answered = |name: &str| voters.iter().any(|answer| answer.name == name);
    let unheard: BTreeSet<&str> =
        place.peers().map(|(name, _)| name).filter(|name| *name != place.name && !answered(name)).collect();
    let knocked = join_all(unheard.into_iter().map(async |name| opens(place, name).await.then(|| name.to_owned())));
    if let Some(name) = knocked.await.into_iter().flatten().next() {
        return Others::Mute { name };
    }
    // Of those that are as far, the first by name.
    let furthest = voters.into_iter().min_by_key(|one| (std::cmp::Reverse(one.revision), one.name.clone()));
    furthest.map_or(Others::Silent, |one| Others::NoQuorum {
        ahead: Ahead { is_before: one.name < place.name, name: one.name, revision: Revision(one.revision) },
    })
}

/// Whether somebody listens where the peers of member `name` find it: before it serves any client, it does.
pub(super) async fn opens(place: &Place, name: &str) -> bool {
    let urls = place.peers().filter(|(of, _)| *of == name).filter_map(|(_, url)| reqwest::Url::parse(url).ok());
    let knocked = urls.map(async |url| {
        let address =
            (url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned(), url.port_or_known_default());
        let (host, Some(port)) = address else { return false };
        matches!(timeout(KNOCKS_FOR, TcpStream::connect((host, port))).await, Ok(Ok(_)))
    });
    join_all(knocked).await.contains(&true)
}

/// What this member is among `members`. One that was started has told where its clients find it.
pub(super) fn membership(place: &Place, held: Option<MemberId>, members: &[ListedMember]) -> Membership {
    let by_id = members.iter().find(|member| held.is_some_and(|held| held.0 == member.id));
    let by_name = || members.iter().find(|member| member.name == place.name);
    let is_here = |member: &&ListedMember| member.peer_urls.iter().any(|url| place.peer_urls.contains(url));
    match by_id.or_else(by_name).or_else(|| members.iter().find(is_here)) {
        None => Membership::No,
        Some(member) if member.client_urls.is_empty() => Membership::Added(MemberId(member.id)),
        Some(member) => Membership::Started(MemberId(member.id)),
    }
}

/// Whether the peers of the member whose data is here look for it elsewhere. Older servers forget of a learner whose URLs are
/// changed that it is one, so learners are left alone.
fn is_elsewhere(place: &Place, held: Option<MemberId>, members: &[ListedMember]) -> bool {
    let own = members.iter().find(|member| held.is_some_and(|held| held.0 == member.id));
    let set = |urls: &[String]| urls.iter().cloned().collect::<BTreeSet<String>>();
    own.is_some_and(|own| !own.is_learner && set(&own.peer_urls) != set(&place.peer_urls))
}

async fn ask(endpoint: &Endpoint, access: &Access, by: Instant) -> Result<Answer, RpcError> {
    let member = Member::new(endpoint.clone(), access);
    let status = answer_by(by, endpoint, member.status()).await?;
    // Without a leader the question would only wait for one, and of a learner nobody can ask it.
    let has_word = status.leader != 0 && !status.is_learner;
    let says = match has_word {
        false => Says::NoLeader,
        true => match answer_by(by, endpoint, member.members(Word::Majority)).await {
            Ok(members) => Says::Members(members.members),
            Err(error) => Says::Withheld(error),
        },
    };
    let listed = match &says {
        Says::Members(members) => members.clone(),
        _ => {
            let own = answer_by(by, endpoint, member.members(Word::Own)).await;
            own.map(|members| members.members).unwrap_or_default()
        }
    };
    let own = listed.into_iter().find(|listed| listed.id == status.header.member_id);
    let name = own.map(|own| own.name).filter(|name| !name.is_empty()).unwrap_or_else(|| endpoint.to_string());
    let (id, cluster) = (MemberId(status.header.member_id), status.header.cluster_id);
    Ok(Answer { member, id, cluster, name, revision: status.header.revision, is_learner: status.is_learner, says })
}

/// What is answered at `endpoint` until then.
async fn answer_by<T>(
    by: Instant,
    endpoint: &Endpoint,
    asked: impl Future<Output = Result<T, RpcError>>,
) -> Result<T, RpcError> {
    let late = |_| RpcError {
        endpoint: endpoint.clone(),
        action: "looking at the cluster",
        fault: Fault::Deadline { after: ANSWERS_WITHIN },
    };
    timeout_at(by, asked).await.map_err(late)?
}

/// Whether nobody is there, or may be there again soon: as opposed to one who does not let us in.
fn is_silence(fault: &Fault) -> bool {
    fault.is_transient() || matches!(fault, Fault::Learner)
}

fn told(error: &RpcError) -> String {
    format!("{error}: {}", error.fault)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Whoever connects is let in by the system, and nobody ever says a word.
    #[tokio::test(start_paused = true)]
    async fn however_many_say_nothing_a_look_ends() {
        let silent: [TcpListener; 4] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let endpoints: Vec<Endpoint> = silent.iter().map(|listener| url(listener).parse().unwrap()).collect();
        // Nobody listens there.
        let nowhere = "http://127.0.0.1:1";
        let place = Place {
            cluster: "prod".into(),
            name: "m0".into(),
            peer_urls: vec![nowhere.into()],
            initial_cluster: format!("m0={nowhere},m1={nowhere},m2={nowhere}"),
            token: "etcd-cluster".into(),
            data_dir: "data".into(),
            wal_dir: None,
            namespace: None,
        };
        let began = Instant::now();
        let met = meet(&place, &endpoints, &Access::default(), &Directory::Empty).await;
        assert_eq!((met.others, met.answering), (Others::Silent, BTreeSet::new()));
        assert!(began.elapsed() <= LOOK, "{:?}", began.elapsed());

        let began = Instant::now();
        let doors: Vec<Member> =
            endpoints.iter().map(|endpoint| Member::new(endpoint.clone(), &Access::default())).collect();
        assert_eq!(ask_own(&place, &doors).await, None);
        assert!(began.elapsed() <= LOOK, "{:?}", began.elapsed());
    }
}
