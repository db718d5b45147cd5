//! Where what is sealed waits for a store that is away, if nobody says where: among what this machine keeps, and not among
//! temporary files, which are cleaned away and of which others may be first to make one.

use std::ffi::OsString;
use std::path::PathBuf;

/// What the folder is called where it is beside something else.
pub const SPOOLS: &str = "refloat-spool";

/// Where root's programs keep what they need again.
const STATE: &str = "/var/lib/refloat";

/// The folder for all spools: in that of the service, if systemd gives it one, in that of the system, or in that of the user.
pub fn usual_spools() -> PathBuf {
    usual(|name| std::env::var_os(name), rustix::process::geteuid().is_root())
}

fn usual(variable: impl Fn(&str) -> Option<OsString>, is_root: bool) -> PathBuf {
    let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // StateDirectory= may name several, with colons between.
    let of_service = variable("STATE_DIRECTORY").and_then(|folders| std::env::split_paths(&folders).next());
    let of_service = of_service.filter(|path| path.is_absolute());
    let of_user = || match folder("XDG_STATE_HOME") {
        Some(state) => Some(state.join("refloat")),
        // Root's services have a HOME or none, depending on who starts them: its folder is the same in both cases.
        None if is_root => None,
        None => folder("HOME").map(|home| home.join(".local/state/refloat")),
    };
    of_service.or_else(of_user).unwrap_or_else(|| STATE.into()).join("spool")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn it_is_kept_where_things_are_kept() {
        let service = ("STATE_DIRECTORY", "/var/lib/etcd-agent:/var/lib/other");
        let (state, home) = (("XDG_STATE_HOME", "/home/a/state"), ("HOME", "/home/a"));
        for (variables, is_root, expected) in [
            (vec![service, state, home], false, "/var/lib/etcd-agent/spool"),
            (vec![state, home], false, "/home/a/state/refloat/spool"),
            (vec![home], false, "/home/a/.local/state/refloat/spool"),
            (vec![("XDG_STATE_HOME", "state"), home], false, "/home/a/.local/state/refloat/spool"),
            (vec![("STATE_DIRECTORY", ""), home], false, "/home/a/.local/state/refloat/spool"),
            (vec![], false, "/var/lib/refloat/spool"),
            (vec![("HOME", "/root")], true, "/var/lib/refloat/spool"),
            (vec![state], true, "/home/a/state/refloat/spool"),
        ] {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(usual(variable, is_root), Path::new(expected), "{variables:?} {is_root}");
        }
    }
}
