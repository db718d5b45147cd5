//! Why a directory or a file was not built, and what to do about it.

use std::path::Path;

use etcd_data::Kind;
use etcd_data::restore::{PlanError, RestoreError};

use crate::archive_failure::unkept_failure;
use crate::failure::Failure;
use crate::source::{damaged, out_of_view};

/// Says why nothing was built from SRC, which is `shown`.
pub fn build_failure(shown: &str, error: &RestoreError) -> Failure {
    let kind = error.kind();
    let plain = |message: String| Failure::new(kind, message);
    if let Some(failure) = unkept_failure(shown, error) {
        return failure;
    }
    match error {
        RestoreError::Plan(error) => plan_failure(shown, error),
        RestoreError::View(error) => out_of_view(shown, error),
        RestoreError::Source(error) => damaged(shown, error),
        RestoreError::Digest => {
            plain(format!("{shown} is not as it was made: its digest differs")).hint(format!(
                "choose another snapshot; `refloat verify {shown}` tells how bad it is, --skip-hash-check goes on all the same"
            ))
        }
        RestoreError::Anchor { .. } => plain(format!("{shown} is not what the cluster had: {error}")).hint(format!(
            "`refloat verify --deep {shown}` tells since when; --at names an earlier point, --skip-hash-check goes on all the same"
        )),
        RestoreError::ReadSource(error) => Failure::because(kind, format!("cannot read {shown}"), error),
        RestoreError::Table(fault) => Failure::because(kind, format!("{shown} is damaged"), fault)
            .hint(format!("`refloat verify {shown}` lists everything that is wrong with it")),
        RestoreError::Exists { path } => plain(format!("{} exists and is not empty", path.display())).hint(
            "choose another place, or give --replace to keep what is there aside, from where `undo` brings it back",
        ),
        RestoreError::InUse { .. } => plain(error.to_string()).hint("stop that etcd first"),
        RestoreError::Busy { .. } => plain(error.to_string()).hint("wait until it has ended"),
        RestoreError::Changed { .. } => plain(error.to_string()).hint("look at what is there now, then try again"),
        RestoreError::NothingToUndo { .. } => plain(error.to_string())
            .hint("only a restore with --replace replaces anything; what it keeps aside has .before- in its name"),
        RestoreError::NoSpace { .. } => {
            plain(error.to_string()).hint("nothing was left behind; make room, or choose a --data-dir on another disk")
        }
        RestoreError::Hole { .. } => {
            plain(error.to_string()).hint("--at names an earlier revision; or choose another snapshot")
        }
        RestoreError::MissingLeases { .. } => plain(error.to_string()),
        RestoreError::Io { source, .. } => {
            Failure::because(kind, format!("{error} failed"), source).hint(io_hint(kind))
        }
        RestoreError::Proof(_) => plain(error.to_string())
            .hint("nothing was left behind; this is a defect in refloat or of the disk: please report it"),
        error => Failure::because(kind, "nothing was built", error),
    }
}

/// Says why no file was built from SRC, which is `shown`, where it was to be at `path`. What was made beside that on the
/// way is nobody's concern.
pub fn file_failure(shown: &str, path: &Path, error: &RestoreError) -> Failure {
    let target = path.display();
    match error {
        RestoreError::Exists { path } => in_the_way(path),
        RestoreError::NoSpace { needed_bytes, free_bytes, .. } => {
            let message =
                format!("no room for {target}: {free_bytes} bytes are free there, and {needed_bytes} are needed");
            Failure::new(error.kind(), message)
                .hint("nothing was left behind; make room, or choose an --output on another disk")
        }
        RestoreError::Io { source, .. } => {
            let kind = error.kind();
            Failure::because(kind, format!("cannot write {target}"), source).hint(io_hint(kind))
        }
        error => build_failure(shown, error),
    }
}

/// Says that a file is never replaced.
pub fn in_the_way(path: &Path) -> Failure {
    Failure::new(Kind::Conflict, format!("{} exists", path.display()))
        .hint("choose another --output, or remove it first")
}

fn plan_failure(shown: &str, error: &PlanError) -> Failure {
    let plain = || Failure::new(error.kind(), error.to_string());
    match error {
        PlanError::NotInHistory(error) => out_of_view(shown, error),
        PlanError::Table(fault) => Failure::because(error.kind(), format!("{shown} is damaged"), fault)
            .hint(format!("`refloat verify {shown}` lists everything that is wrong with it")),
        PlanError::TokenNeeded { .. } => {
            plain().hint("give --initial-cluster-token, the same for each member, and one that no cluster had before")
        }
        PlanError::CannotHold { .. } => plain().hint("choose a later version with --etcd-version"),
        PlanError::CorruptAlarm { .. } => plain().hint(
            "compare `refloat hashkv` of several members' data, and choose the one that is right; \
             --alarms drop restores this one all the same",
        ),
        PlanError::NestedBucket(nested) => unwritten(shown, error.kind(), nested),
        PlanError::PairAmongBuckets(pair) => unwritten(shown, error.kind(), pair),
        PlanError::NoSuchName { .. } => plain().hint("--name must be one of the names in --initial-cluster"),
        _ => plain(),
    }
}

/// Something in it has no place in what we write.
fn unwritten(shown: &str, kind: Kind, what: &dyn std::error::Error) -> Failure {
    Failure::because(kind, format!("{shown} cannot be written anew"), what).hint(
        "no etcd makes such a thing, so what put it there has to take it out; `refloat keys` and `get` read the keys all the same",
    )
}

fn io_hint(kind: Kind) -> &'static str {
    match kind {
        Kind::Denied => "this user may not write there",
        Kind::Missing => "the folder that it is to be in must exist",
        _ => "nothing was left behind",
    }
}
