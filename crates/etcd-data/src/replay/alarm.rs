//! Alarms, and what they forbid.

use super::{Member, Stop};
use crate::request::{AlarmAction, AlarmRequest, Command, Op, RequestOp, TxnRequest};
use crate::tables::{Alarm, AlarmKind, TableFault};

impl Member {
    pub(super) fn alarm(&mut self, request: &AlarmRequest) -> Result<(), Stop> {
        let alarm = Alarm { member: request.member_id, kind: request.alarm };
        match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Activate) if request.alarm != AlarmKind::None as i32 => self.tables.put_alarm(alarm),
            Ok(AlarmAction::Deactivate) => self.tables.remove_alarm(alarm),
            Ok(AlarmAction::Activate | AlarmAction::Get) | Err(_) => {}
        }
        Ok(())
    }

    /// Refuses what a standing alarm forbids. A corrupt cluster changes no key and no lease any more; one without space
    /// takes nothing that could need some.
    pub(super) fn require_no_alarm(&self, command: &Command) -> Result<(), Stop> {
        let (changes_keys, needs_space) = match command {
            Command::Put(_) | Command::LeaseGrant(_) => (true, true),
            Command::Txn(txn) => (true, has_puts(txn)),
            Command::DeleteRange(_) | Command::Compaction(_) | Command::LeaseRevoke(_) => (true, false),
            _ => (false, false),
        };
        if changes_keys && self.stands(AlarmKind::Corrupt)? || needs_space && self.stands(AlarmKind::NoSpace)? {
            return Err(Stop::Refused);
        }
        Ok(())
    }

    fn stands(&self, kind: AlarmKind) -> Result<bool, TableFault> {
        for alarm in self.tables.alarms() {
            if alarm?.kind == kind as i32 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether either branch puts a key.
fn has_puts(txn: &TxnRequest) -> bool {
    let puts = |op: &RequestOp| match &op.op {
        Some(Op::Put(_)) => true,
        Some(Op::Txn(txn)) => has_puts(txn),
        _ => false,
    };
    txn.success.iter().chain(&txn.failure).any(puts)
}
