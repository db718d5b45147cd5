//! The small buckets of a restored database: those of the source, for another cluster.

use super::options::{Alarms, EtcdVersion, ForVersion, Leases};
use super::plan::{Plan, Schema};
use crate::raft::ConfState;
use crate::tables::{AlarmKind, LeaseId, TableFault, Tables};
use crate::wal::fresh::FIRST_TERM;

/// The tables that `plan` makes of those of the source.
pub(crate) fn new_tables(plan: &Plan, source: &Tables) -> Result<Tables, TableFault> {
    let mut tables = source.clone();
    set_members(&mut tables, plan);
    set_version(&mut tables, plan.version)?;
    if let Some(compact) = plan.compact_revision {
        tables.set_scheduled_compaction(compact);
        tables.set_finished_compaction(compact);
    }
    set_alarms(&mut tables, plan.alarms)?;
    set_leases(&mut tables, plan.leases)?;
    Ok(tables)
}

/// The members, and what raft has to say of them. It agrees with the log: one entry for each member, in term 1.
fn set_members(tables: &mut Tables, plan: &Plan) {
    tables.clear_members();
    for member in &plan.members {
        tables.put_member(member);
    }
    tables.set_consistent_index(plan.members.len() as u64);
    let voters = ConfState::of_voters(plan.members.iter().map(|member| member.id).collect());
    match plan.schema {
        Schema::Index => {
            tables.set_term(None);
            tables.set_conf_state(None);
        }
        Schema::IndexAndTerm => {
            tables.set_term(Some(FIRST_TERM));
            tables.set_conf_state(Some(&voters));
        }
    }
}

/// Servers find out by themselves which version their cluster and its database are of, and refuse to start if what
/// stands there is newer than they are.
fn set_version(tables: &mut Tables, version: ForVersion) -> Result<(), TableFault> {
    let ForVersion::Version(version) = version else { return Ok(()) };
    tables.set_storage_version(None);
    tables.set_cluster_version(None);
    let goes_there = |target: &str| target.parse::<EtcdVersion>().is_ok_and(|target| target == version);
    if version == EtcdVersion::V34
        || !tables.downgrade()?.is_some_and(|downgrade| goes_there(&downgrade.target_version))
    {
        tables.set_downgrade(None);
    }
    Ok(())
}

fn set_alarms(tables: &mut Tables, alarms: Alarms) -> Result<(), TableFault> {
    for alarm in tables.alarms().collect::<Result<Vec<_>, _>>()? {
        let is_dropped = match alarms {
            Alarms::DropNoSpace => alarm.kind == AlarmKind::NoSpace as i32,
            Alarms::DropAll => true,
            Alarms::Keep => false,
        };
        if is_dropped {
            tables.remove_alarm(alarm);
        }
    }
    Ok(())
}

fn set_leases(tables: &mut Tables, leases: Leases) -> Result<(), TableFault> {
    if leases == Leases::Keep {
        return Ok(());
    }
    for lease in tables.leases().collect::<Result<Vec<_>, _>>()? {
        tables.remove_lease(LeaseId(lease.id));
    }
    Ok(())
}
