//! Alarms, and what they forbid.

use super::txn::Depth;
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
    pub(super) fn require_no_alarm(&mut self, command: &Command) -> Result<(), Stop> {
        let (changes_keys, needs_space) = match command {
            Command::Put(_) | Command::LeaseGrant(_) => (true, true),
            Command::Txn(txn) => (true, has_puts(txn, Depth::Nested)),
            Command::DeleteRange(_) | Command::Compaction(_) | Command::LeaseRevoke(_) => (true, false),
            _ => (false, false),
        };
        if changes_keys && self.stands(AlarmKind::Corrupt)? {
            return Err(Stop::Refused);
        }
        if needs_space && self.stands(AlarmKind::NoSpace)? && !self.overlooks_puts(command)? {
            return Err(Stop::Refused);
        }
        Ok(())
    }

    /// Whether the server does not see that a transaction puts keys, for only transactions within it do.
    ///
    /// That was so in all of 3.4 and in most releases of 3.5, and was mended in late ones of 3.5, 3.6 and 3.7. A log
    /// does not tell which release it is from, so such an entry is in doubt.
    fn overlooks_puts(&mut self, command: &Command) -> Result<bool, TableFault> {
        match command {
            Command::Txn(txn) if !has_puts(txn, Depth::Outermost) => {
                if self.is_of_3_5_or_later()? {
                    self.in_doubt.push(self.index);
                }
                Ok(!self.is_of_3_6_or_later()?)
            }
            _ => Ok(false),
        }
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

/// Whether either branch puts a key, down to a depth.
fn has_puts(txn: &TxnRequest, down_to: Depth) -> bool {
    let puts = |op: &RequestOp| match &op.op {
        Some(Op::Put(_)) => true,
        Some(Op::Txn(txn)) => down_to == Depth::Nested && has_puts(txn, down_to),
        _ => false,
    };
    txn.success.iter().chain(&txn.failure).any(puts)
}
