//! Who may do what.
//!
//! A request carries who asked, and the revision of users and roles that the permission was checked against before it
//! went into the log. It is checked once more as it is applied, and one that was checked against an older revision is
//! refused.

use std::collections::HashMap;

use super::store::Store;
use super::txn::Depth;
use super::{Member, Stop};
use crate::request::{DeleteRangeRequest, Header, Op, PutRequest, TxnRequest};
use crate::tables::{LeaseId, Permission, PermissionKind, TableFault, Tables};

/// The role that may do everything, and the user who must have it.
pub(super) const ROOT: &str = "root";

/// Who asked for a request, and the revision of users and roles then.
#[derive(Default)]
pub(super) struct Asker {
    username: String,
    revision: u64,
}

impl Asker {
    pub(super) fn of(header: Option<Header>) -> Asker {
        let header = header.unwrap_or_default();
        Asker { username: header.username, revision: header.auth_revision }
    }
}

/// What somebody wants to do with keys.
pub(super) enum Act<'a> {
    Put(&'a PutRequest),
    Delete(&'a DeleteRangeRequest),
    Txn(&'a TxnRequest),
    /// Ending a lease, or hanging a key on it: for that one must be able to write all keys that hang on it.
    Lease(i64),
}

impl Member {
    /// Refuses what `asker` may not do.
    pub(super) fn require(&self, act: Act<'_>, asker: &Asker) -> Result<(), Stop> {
        if !self.permissions.enabled {
            return Ok(());
        }
        let check = Check { permissions: &self.permissions, asker, store: &self.store, tables: &self.tables };
        match act {
            Act::Put(put) => check.put(put),
            Act::Delete(delete) => check.delete(delete),
            Act::Txn(txn) => check.txn(txn, Depth::Outermost),
            Act::Lease(lease) => check.lease(lease),
        }
    }
}

/// What users may do, worked out from their roles.
#[derive(Default)]
pub(super) struct Permissions {
    enabled: bool,
    revision: u64,
    users: HashMap<String, Allowed>,
}

/// What one user may do.
#[derive(Default)]
struct Allowed {
    is_root: bool,
    read: Vec<Span>,
    write: Vec<Span>,
}

/// All keys from the first on, up to the second if there is one.
struct Span(Vec<u8>, Option<Vec<u8>>);

/// Reading or writing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Permissions {
    /// Those of `tables`; nobody's where users need not log in.
    pub(super) fn of(tables: &Tables) -> Result<Permissions, TableFault> {
        if !tables.auth_enabled() {
            return Ok(Permissions::default());
        }
        let roles = tables.roles().map(|role| role.map(|role| (role.name, role.permissions)));
        let roles = roles.collect::<Result<HashMap<_, _>, _>>()?;
        let mut users = HashMap::new();
        for user in tables.users() {
            let user = user?;
            let mut allowed = Allowed { is_root: user.roles.iter().any(|role| role == ROOT), ..Allowed::default() };
            for permission in user.roles.iter().filter_map(|role| roles.get(role.as_bytes())).flatten() {
                allowed.add(permission);
            }
            users.insert(String::from_utf8_lossy(&user.name).into_owned(), allowed);
        }
        Ok(Permissions { enabled: true, revision: tables.auth_revision()?.unwrap_or_default(), users })
    }

    /// Whether users must log in.
    pub(super) fn enabled(&self) -> bool {
        self.enabled
    }

    /// Refuses who has not the role of root.
    pub(super) fn require_root(&self, asker: &Asker) -> Result<(), Stop> {
        let is_root = self.users.get(&asker.username).is_some_and(|allowed| allowed.is_root);
        if self.enabled && !is_root { Err(Stop::Refused) } else { Ok(()) }
    }

    fn require(&self, asker: &Asker, access: Access, key: &[u8], range_end: &[u8]) -> Result<(), Stop> {
        if asker.revision == 0 || asker.revision < self.revision {
            return Err(Stop::Refused);
        }
        let allowed = self.users.get(&asker.username).ok_or(Stop::Refused)?;
        if allowed.is_root || allowed.covers(access, key, range_end) { Ok(()) } else { Err(Stop::Refused) }
    }
}

impl Allowed {
    fn add(&mut self, permission: &Permission) {
        let kind = PermissionKind::try_from(permission.kind);
        if let Ok(PermissionKind::Read | PermissionKind::ReadWrite) = kind {
            insert(&mut self.read, span(&permission.key, &permission.range_end));
        }
        if let Ok(PermissionKind::Write | PermissionKind::ReadWrite) = kind {
            insert(&mut self.write, span(&permission.key, &permission.range_end));
        }
    }

    /// Whether the permitted spans together cover all of a range.
    fn covers(&self, access: Access, key: &[u8], range_end: &[u8]) -> bool {
        let spans = if access == Access::Read { &self.read } else { &self.write };
        let Span(from, wanted_end) = span(key, range_end);
        let mut covered_to = from;
        for Span(start, end) in spans {
            if *start > covered_to {
                return false;
            }
            let Some(end) = end else { return true };
            if *end > covered_to {
                covered_to.clone_from(end);
            }
            if wanted_end.as_ref().is_some_and(|wanted| covered_to >= *wanted) {
                return true;
            }
        }
        false
    }
}

/// Keeps spans in the order of where they begin.
fn insert(spans: &mut Vec<Span>, span: Span) {
    let at = spans.partition_point(|known| known.0 <= span.0);
    spans.insert(at, span);
}

fn span(key: &[u8], range_end: &[u8]) -> Span {
    let end = match range_end {
        // The least key after this one.
        [] => Some([key, &[0]].concat()),
        [0] => None,
        end => Some(end.to_vec()),
    };
    Span(key.to_vec(), end)
}

/// One request being checked.
struct Check<'a> {
    permissions: &'a Permissions,
    asker: &'a Asker,
    store: &'a Store,
    tables: &'a Tables,
}

impl Check<'_> {
    fn read(&self, key: &[u8], range_end: &[u8]) -> Result<(), Stop> {
        self.permissions.require(self.asker, Access::Read, key, range_end)
    }

    fn write(&self, key: &[u8], range_end: &[u8]) -> Result<(), Stop> {
        self.permissions.require(self.asker, Access::Write, key, range_end)
    }

    fn put(&self, put: &PutRequest) -> Result<(), Stop> {
        self.write(&put.key, &[])?;
        self.lease(put.lease)?;
        if put.prev_kv { self.read(&put.key, &[]) } else { Ok(()) }
    }

    fn delete(&self, delete: &DeleteRangeRequest) -> Result<(), Stop> {
        self.write(&delete.key, &delete.range_end)?;
        if delete.prev_kv { self.read(&delete.key, &delete.range_end) } else { Ok(()) }
    }

    fn lease(&self, lease: i64) -> Result<(), Stop> {
        if !self.tables.has_lease(LeaseId(lease)) || self.permissions.require_root(self.asker).is_ok() {
            return Ok(());
        }
        self.store.keys_on(lease).try_for_each(|key| self.write(key, &[]))
    }

    /// Both branches are checked, whichever is chosen.
    fn txn(&self, txn: &TxnRequest, depth: Depth) -> Result<(), Stop> {
        for compare in &txn.compare {
            self.read(&compare.key, &compare.range_end)?;
        }
        txn.success.iter().chain(&txn.failure).filter_map(|op| op.op.as_ref()).try_for_each(|op| match op {
            Op::Put(put) => self.put(put),
            Op::DeleteRange(delete) => self.delete(delete),
            Op::Txn(txn) => self.txn(txn, Depth::Nested),
            // Those are dropped before: see `txn`.
            Op::Range(_) if depth == Depth::Outermost => Ok(()),
            Op::Range(range) => self.read(&range.key, &range.range_end),
        })
    }
}
