//! Administration: users, roles and what roles permit. All of it needs the role `root`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::permission::{Asker, Permissions, ROOT};
use super::{Member, Stop};
use crate::request::{
    Command, RoleGrantPermissionRequest, RoleRevokePermissionRequest, UserAddRequest, UserChangePasswordRequest,
    UserGrantRoleRequest, UserRevokeRoleRequest,
};
use crate::tables::{Permission, Role, TableFault, Tables, User, UserOptions};

impl Member {
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
        if !self.permissions.enabled() {
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
        if self.permissions.enabled() && name == ROOT {
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
        if self.permissions.enabled() && request.name == ROOT && request.role == ROOT {
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
        if self.permissions.enabled() && name == ROOT {
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
