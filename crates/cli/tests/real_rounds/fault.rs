//! What goes wrong in a round.

use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use testkit::stores::Falter;

use crate::stage::{Cast, Stage, Store};
use crate::traffic::Traffic;

/// One thing that goes wrong, and is over at the end of the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The agent that writes is killed, and comes again.
    AgentKilled,
    /// So is a member.
    EtcdKilled,
    /// Both are, as when a machine loses power.
    BothKilled,
    /// The agent that writes is asked to stop.
    AgentStopped,
    /// A member is.
    EtcdStopped,
    /// The store is away while much is written.
    StoreAway,
    /// The store is away, and the agent is killed meanwhile.
    StoreAwayAndAgentKilled,
    /// The store does much of what it is asked wrongly, late or in vain, in each way that there is.
    StoreFalters,
    /// So it does, and an agent is killed and begins meanwhile.
    StoreFaltersAndAgentKilled,
    /// The agent that writes is frozen until another one has taken over, and then goes on.
    WriterFrozen,
    /// The clock of the agent that writes jumps, forth and back.
    ClockJumps,
}

/// Several times what a loaded machine takes to make so many requests.
const LONG: Duration = Duration::from_secs(180);

/// How often the store falters in each way, at the least.
const TIMES: u64 = 3;

impl Fault {
    pub(crate) const ALL: [Self; 11] = [
        Self::AgentKilled,
        Self::EtcdKilled,
        Self::BothKilled,
        Self::AgentStopped,
        Self::EtcdStopped,
        Self::StoreAway,
        Self::StoreAwayAndAgentKilled,
        Self::StoreFalters,
        Self::StoreFaltersAndAgentKilled,
        Self::WriterFrozen,
        Self::ClockJumps,
    ];

    /// Whether it can happen there.
    pub(crate) fn is_possible_with(self, cast: &Cast) -> bool {
        match self {
            Self::WriterFrozen => cast.agents > 1,
            // A folder is there or is not; a disk that is full has a test of its own.
            Self::StoreFalters | Self::StoreFaltersAndAgentKilled => cast.store == Store::Bucket,
            _ => true,
        }
    }

    /// Lets it happen, while `traffic` goes on.
    pub(crate) fn happen(self, stage: &mut Stage, traffic: &Traffic, random: &mut StdRng) {
        let writer = stage.agents.writer();
        let member = random.random_range(0..stage.member_count());
        match self {
            Self::AgentKilled => {
                stage.agents.kill(writer);
                traffic.until_more(random.random_range(1..100));
                stage.start_agent(writer);
            }
            Self::EtcdKilled => {
                stage.kill_member(member);
                do_without(stage, traffic);
                stage.start_member(member);
            }
            Self::BothKilled => {
                stage.kill_member(member);
                stage.agents.kill(writer);
                do_without(stage, traffic);
                if random.random_ratio(1, 2) {
                    stage.start_agent(writer);
                    stage.start_member(member);
                } else {
                    stage.start_member(member);
                    stage.start_agent(writer);
                }
            }
            Self::AgentStopped => {
                stage.agents.stop(writer);
                traffic.until_more(random.random_range(1..100));
                stage.start_agent(writer);
            }
            Self::EtcdStopped => {
                stage.stop_member(member);
                do_without(stage, traffic);
                stage.start_member(member);
            }
            Self::StoreAway => {
                stage.place.goes_away();
                traffic.until_more(random.random_range(100..400));
                stage.place.returns();
            }
            Self::StoreAwayAndAgentKilled => {
                stage.place.goes_away();
                traffic.until_more(random.random_range(100..300));
                stage.agents.kill(writer);
                traffic.until_more(random.random_range(1..50));
                stage.place.returns();
                stage.start_agent(writer);
            }
            Self::StoreFalters => {
                stage.place.falters(random.random());
                until_everything_went_wrong(stage, traffic);
                stage.place.recovers();
            }
            Self::StoreFaltersAndAgentKilled => {
                stage.place.falters(random.random());
                traffic.until_more(random.random_range(100..300));
                stage.agents.kill(writer);
                traffic.until_more(random.random_range(1..50));
                stage.start_agent(writer);
                until_everything_went_wrong(stage, traffic);
                stage.place.recovers();
            }
            Self::WriterFrozen => {
                let right = stage.agents.right_of(writer);
                stage.agents.freeze(writer);
                stage.agents.until_another_writes(writer);
                traffic.until_more(50);
                stage.agents.thaw(writer);
                stage.agents.until_it_knows_a_later_right(writer, right);
            }
            Self::ClockJumps => {
                stage.agents.kill(writer);
                stage.start_agent_by_clock(writer, 0);
                let far = stage.place.clock_tolerance_seconds();
                for jump in [random.random_range(-far..far), random.random_range(-5..5), 0] {
                    stage.set_clock(jump);
                    let reached = traffic.until_more(150);
                    stage.agents.until_sealed(reached);
                }
            }
        }
    }
}

/// Goes on until the store has faltered in each way since this fault began, several times.
fn until_everything_went_wrong(stage: &Stage, traffic: &Traffic) {
    let deadline = Instant::now() + LONG;
    let is_enough = |times: Option<&u64>| times.is_some_and(|times| *times >= TIMES);
    while !Falter::ALL.iter().all(|way| is_enough(stage.place.faltered().get(way))) {
        assert!(Instant::now() < deadline, "the store falters only so: {:?}", stage.place.faltered());
        traffic.until_more(20);
    }
}

/// Several members go on without one. A single one has nobody to do its work.
fn do_without(stage: &Stage, traffic: &Traffic) {
    if stage.member_count() > 1 {
        traffic.until_more(60);
    }
}
