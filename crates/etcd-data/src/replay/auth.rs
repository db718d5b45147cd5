//! Users, roles, and what they permit.
//!
//! A request carries who asked, and the revision of users and roles that the permission was checked against before it
//! went into the log. It is checked once more as it is applied, and one that was checked against an older revision is
//! refused. Administration needs the role `root`.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::store::Store;
use super::txn::Depth;
use super::{Member, Stop};
use crate::request::{
    Command, DeleteRangeRequest, Header, Op, PutRequest, RoleGrantPermissionRequest, RoleRevokePermissionRequest,
    TxnRequest, UserAddRequest, UserChangePasswordRequest, UserGrantRoleRequest, UserRevokeRoleRequest,
};
use crate::tables::{LeaseId, Permission, PermissionKind, Role, TableFault, Tables, User, UserOptions};

const ROOT: &str = "root";

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

    /// Carries out what has to do with users and roles.
    pub(super) fn administer(&mut self, asker: &Asker, command: &Command) -> Result<(), Stop> {
        match command {
            Command::AuthEnable(_)
            | Command::AuthDisable(_)
            | Command::UserAdd(_)
            | Command::UserDelete(_)
            | Command::UserChangePassword(_)
            | Command::UserGrantRole(_)
            | Command::UserRevokeRole(_)
            | Command::RoleAdd(_)
            | Command::RoleDelete(_)
            | Command::RoleGrantPermission(_)
            | Command::RoleRevokePermission(_) => {}
            // The rest only reads.
            _ => return Ok(()),
        }
        self.permissions.require_root(asker)?;
        let changed = match command {
            Command::AuthEnable(_) => self.enable_auth(),
            Command::AuthDisable(_) => self.disable_auth(),
            Command::UserAdd(request) => self.add_user(request),
            Command::UserDelete(request) => self.delete_user(&request.name),
            Command::UserChangePassword(request) => self.change_password(request),
            Command::UserGrantRole(request) => self.grant_role(request),
            Command::UserRevokeRole(request) => self.revoke_role(request),
            Command::RoleAdd(request) => self.add_role(&request.name),
            Command::RoleDelete(request) => self.delete_role(&request.role),
            Command::RoleGrantPermission(request) => self.grant_permission(request),
            Command::RoleRevokePermission(request) => self.revoke_permission(request),
            _ => Ok(Outcome::AsBefore),
        }?;
        if let Outcome::Changed = changed {
            let revision = self.tables.auth_revision()?.unwrap_or_default();
            self.tables.set_auth_revision(revision.wrapping_add(1));
        }
        self.permissions = Permissions::of(&self.tables)?;
        Ok(())
    }

    fn enable_auth(&mut self) -> Result<Outcome, Stop> {
        let root = user(&self.tables, ROOT)?;
        if !root.roles.iter().any(|role| role == ROOT) {
            return Err(Stop::Refused);
        }
        self.tables.set_auth_enabled(true);
        Ok(Outcome::AsBefore)
    }

    fn disable_auth(&mut self) -> Result<Outcome, Stop> {
        if !self.permissions.enabled {
            return Err(Stop::Refused);
        }
        self.tables.set_auth_enabled(false);
        Ok(Outcome::Changed)
    }

    fn add_user(&mut self, request: &UserAddRequest) -> Result<Outcome, Stop> {
        if request.name.is_empty() || found(user(&self.tables, &request.name))? {
            return Err(Stop::Refused);
        }
        let options = request.options.unwrap_or_default();
        let password_hash = if options.no_password {
            Vec::new()
        } else {
            self.password(&request.name, &request.password, &request.hashed_password)?
        };
        let name = request.name.clone().into_bytes();
        self.tables.put_user(&User { name, password_hash, roles: Vec::new(), options: Some(options) });
        Ok(Outcome::Changed)
    }

    fn delete_user(&mut self, name: &str) -> Result<Outcome, Stop> {
        if self.permissions.enabled && name == ROOT {
            return Err(Stop::Refused);
        }
        user(&self.tables, name)?;
        self.tables.remove_user(name.as_bytes());
        Ok(Outcome::Changed)
    }

    fn change_password(&mut self, request: &UserChangePasswordRequest) -> Result<Outcome, Stop> {
        let mut user = user(&self.tables, &request.name)?;
        user.password_hash = match user.options {
            Some(UserOptions { no_password: true }) => Vec::new(),
            _ => self.password(&request.name, &request.password, &request.hashed_password)?,
        };
        self.tables.put_user(&user);
        Ok(Outcome::Changed)
    }

    /// What is kept of a password. From 3.5 on the log has the hash.
    fn password(&mut self, user: &str, password: &str, hashed: &str) -> Result<Vec<u8>, Stop> {
        if !password.is_empty() && hashed.is_empty() {
            self.lost_passwords.push(user.into());
            return Ok(Vec::new());
        }
        BASE64.decode(hashed).map_err(|_| Stop::Refused)
    }

    fn grant_role(&mut self, request: &UserGrantRoleRequest) -> Result<Outcome, Stop> {
        let mut user = user(&self.tables, &request.user)?;
        if request.role != ROOT {
            role(&self.tables, &request.role)?;
        }
        if user.roles.contains(&request.role) {
            return Ok(Outcome::AsBefore);
        }
        user.roles.push(request.role.clone());
        user.roles.sort_unstable();
        self.tables.put_user(&user);
        Ok(Outcome::Changed)
    }

    fn revoke_role(&mut self, request: &UserRevokeRoleRequest) -> Result<Outcome, Stop> {
        if self.permissions.enabled && request.name == ROOT && request.role == ROOT {
            return Err(Stop::Refused);
        }
        let mut user = user(&self.tables, &request.name)?;
        if !user.roles.contains(&request.role) {
            return Err(Stop::Refused);
        }
        user.roles.retain(|role| *role != request.role);
        self.tables.put_user(&user);
        Ok(Outcome::Changed)
    }

    fn add_role(&mut self, name: &str) -> Result<Outcome, Stop> {
        if name.is_empty() || found(role(&self.tables, name))? {
            return Err(Stop::Refused);
        }
        self.tables.put_role(&Role { name: name.into(), permissions: Vec::new() });
        Ok(Outcome::Changed)
    }

    fn delete_role(&mut self, name: &str) -> Result<Outcome, Stop> {
        if self.permissions.enabled && name == ROOT {
            return Err(Stop::Refused);
        }
        role(&self.tables, name)?;
        self.tables.remove_role(name.as_bytes());
        let users = self.tables.users().collect::<Result<Vec<User>, TableFault>>()?;
        for mut user in users {
            if user.roles.iter().any(|role| role == name) {
                user.roles.retain(|role| role != name);
                self.tables.put_user(&user);
            }
        }
        Ok(Outcome::Changed)
    }

    fn grant_permission(&mut self, request: &RoleGrantPermissionRequest) -> Result<Outcome, Stop> {
        let permission = request.permission.as_ref().filter(|permission| is_range(permission)).ok_or(Stop::Refused)?;
        let mut role = role(&self.tables, &request.name)?;
        // etcd looks only at the first permission that begins with the key.
        let first = role.permissions.partition_point(|known| known.key < permission.key);
        match role.permissions.get_mut(first) {
            Some(known) if same_range(known, &permission.key, &permission.range_end) => known.kind = permission.kind,
            _ => {
                role.permissions.push(permission.clone());
                role.permissions.sort_by(|one, other| one.key.cmp(&other.key));
            }
        }
        self.tables.put_role(&role);
        Ok(Outcome::Changed)
    }

    fn revoke_permission(&mut self, request: &RoleRevokePermissionRequest) -> Result<Outcome, Stop> {
        let mut role = role(&self.tables, &request.role)?;
        let before = role.permissions.len();
        role.permissions.retain(|known| !same_range(known, &request.key, &request.range_end));
        if role.permissions.len() == before {
            return Err(Stop::Refused);
        }
        self.tables.put_role(&role);
        Ok(Outcome::Changed)
    }
}

/// Whether a request that was carried out changed users or roles, which counts their revision on.
enum Outcome {
    Changed,
    AsBefore,
}

fn user(tables: &Tables, name: &str) -> Result<User, Stop> {
    tables.user(name.as_bytes())?.ok_or(Stop::Refused)
}

fn role(tables: &Tables, name: &str) -> Result<Role, Stop> {
    tables.role(name.as_bytes())?.ok_or(Stop::Refused)
}

fn found<T>(looked_up: Result<T, Stop>) -> Result<bool, Stop> {
    match looked_up {
        Ok(_) => Ok(true),
        Err(Stop::Refused) => Ok(false),
        Err(fault) => Err(fault),
    }
}

fn is_range(permission: &Permission) -> bool {
    let Permission { key, range_end, .. } = permission;
    !key.is_empty() && (range_end.is_empty() || key < range_end || range_end == &[0])
}

fn same_range(permission: &Permission, key: &[u8], range_end: &[u8]) -> bool {
    permission.key == key && permission.range_end == range_end
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

    fn require_root(&self, asker: &Asker) -> Result<(), Stop> {
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
