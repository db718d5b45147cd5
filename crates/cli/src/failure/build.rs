//! Why a directory or a file was not built, and what to do about it.

use std::io;
use std::path::Path;

use bolt_file::write::WriteError;
use etcd_data::error::kind_of;
use etcd_data::restore::{PlanError, RestoreError};
use etcd_data::{Error, Kind};

use crate::failure::Failure;
use crate::failure::archive::unkept_failure;
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
        RestoreError::Source(error @ Error::Record { at: Some(at), .. }) => damaged(shown, error).hint(format!(
            "`refloat verify {shown}` lists everything that is wrong with it; `restore` and `export` with --at {} build what was \
             before that, unless it was compacted away",
            at.main.0.saturating_sub(1)
        )),
        RestoreError::Source(error) => damaged(shown, error),
        RestoreError::Digest => {
            plain(format!("{shown} is not as it was made: its digest differs")).hint(format!(
                "choose another snapshot; `refloat verify {shown}` tells how bad it is, --skip-hash-check goes on all the same"
            ))
        }
        RestoreError::Anchor { .. } => plain(format!("{shown} is not what the cluster had: {error}")).hint(format!(
            "`refloat verify --deep {shown}` tells since when; --at names an earlier point, --skip-hash-check goes on all the same"
        )),
        RestoreError::ReadSource(error) => {
            Failure::because(kind, format!("cannot read {shown}"), error).hint(read_hint(kind))
        }
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
            plain(error.to_string()).hint("`restore` and `export` with --at take an earlier revision; or choose another snapshot")
        }
        RestoreError::Io { source, .. } => {
            Failure::because(kind, format!("{error} failed"), source).hint(io_hint(kind))
        }
        RestoreError::Proof(_) => plain(error.to_string())
            .hint("nothing was left behind; this is a defect in refloat or of the disk: please report it"),
        RestoreError::NotAFolder { .. } => {
            plain(error.to_string()).hint("choose another place, or move that file away")
        }
        RestoreError::Name { .. } => {
            plain(error.to_string()).hint("give a path that ends in a name, in UTF-8, and is no way back up")
        }
        RestoreError::WalInside { data_dir, .. } => plain(error.to_string()).hint(format!(
            "--wal-dir names a folder outside of {0}, or one of its own in {0} or in its `member`",
            data_dir.display()
        )),
        RestoreError::WalMount { path } => {
            plain(error.to_string()).hint(format!("give --wal-dir {}", path.join("wal").display()))
        }
        RestoreError::Write { source: cause @ WriteError::Io { .. }, .. } => {
            Failure::because(kind, error.to_string(), cause).hint(io_hint(kind))
        }
        RestoreError::Write { source, .. } => Failure::because(kind, format!("{shown} cannot be written anew"), source)
            .hint(format!("nothing was left behind; `refloat verify {shown}` lists what is wrong with it")),
        RestoreError::Stamp { .. } => {
            plain(error.to_string()).hint("nothing was built; this is a defect in refloat: please report it")
        }
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
        PlanError::CompactAt { .. } => plain().hint("--whole-history builds all the history that there is"),
        PlanError::Bump { .. } => plain().hint("give --bump-revision a smaller COUNT; 1000000000 is more than enough"),
        PlanError::InitialCluster(_) => {
            plain().hint("--initial-cluster takes NAME=URL,NAME=URL,…, each URL with http:// or https:// and a port")
        }
    }
}

/// Something in it has no place in what we write.
fn unwritten(shown: &str, kind: Kind, what: &dyn std::error::Error) -> Failure {
    Failure::because(kind, format!("{shown} cannot be written anew"), what).hint(
        "no etcd makes such a thing, so what put it there has to take it out; `refloat keys` and `get` read the keys all the same",
    )
}

/// A file or folder that cannot be opened, and what to do.
pub(crate) fn unopened(path: &Path, error: &io::Error) -> Failure {
    let kind = kind_of(error);
    Failure::because(kind, format!("cannot open {}", path.display()), error).hint(read_hint(kind))
}

/// What to do where a file cannot be read.
pub fn read_hint(kind: Kind) -> &'static str {
    match kind {
        Kind::Denied => "this user may not read it: run this as the user whom it belongs to",
        Kind::Missing => "look whether the path is right, and what it is on is mounted",
        _ => "try again; if that ends the same way, look at the disk, and copy it from there",
    }
}

fn io_hint(kind: Kind) -> &'static str {
    match kind {
        Kind::Denied => "this user may not write there",
        Kind::Missing => "the folder that it is to be in must exist",
        _ => "nothing was left behind",
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use etcd_data::hash::HashKv;
    use etcd_data::initial_cluster::InitialCluster;
    use etcd_data::restore::options::EtcdVersion;
    use etcd_data::tables::{NestedBucket, PairAmongBuckets, TableFault};
    use etcd_data::view::ViewError;
    use etcd_data::{MemberId, Revision};

    use super::*;

    fn path() -> PathBuf {
        "etcd".into()
    }

    fn io_error() -> io::Error {
        io::ErrorKind::PermissionDenied.into()
    }

    fn fault() -> TableFault {
        TableFault { bucket: "meta", entry: "term".into(), expected: "8 bytes" }
    }

    fn plans() -> Vec<PlanError> {
        let [at, first, last] = [5, 7, 9].map(Revision);
        vec![
            PlanError::NotInHistory(ViewError::Hole { at, last }),
            PlanError::CompactAt { at, first, last },
            PlanError::Bump { by: u64::MAX },
            PlanError::InitialCluster(InitialCluster::parse("a").unwrap_err()),
            PlanError::NoSuchName { name: "a".into() },
            PlanError::TokenNeeded { members: 3 },
            PlanError::CorruptAlarm { member: MemberId(7) },
            PlanError::CannotHold { version: EtcdVersion::V34, unknown: vec!["a".into()] },
            PlanError::Table(fault()),
            PlanError::NestedBucket(NestedBucket { bucket: b"quotas".to_vec(), inside: b"inner".to_vec() }),
            PlanError::PairAmongBuckets(PairAmongBuckets { key: b"quotas".to_vec() }),
        ]
    }

    fn errors() -> Vec<RestoreError> {
        let (at, last) = (Revision(5), Revision(7));
        let anchor = HashKv { hash: 1, revision: at, compact_revision: None };
        let write = |source| RestoreError::Write { path: path(), source };
        let mut errors: Vec<RestoreError> = plans().into_iter().map(RestoreError::from).collect();
        errors.extend([
            RestoreError::Digest,
            RestoreError::Anchor { anchor, found: 2 },
            RestoreError::ReadSource(io_error()),
            RestoreError::Exists { path: path() },
            RestoreError::NotAFolder { path: path() },
            RestoreError::Name { path: path() },
            RestoreError::Stamp { stamp: "/".into() },
            RestoreError::WalInside { wal_dir: path(), data_dir: path() },
            RestoreError::WalMount { path: path() },
            RestoreError::InUse { path: path() },
            RestoreError::Busy { path: path() },
            RestoreError::Changed { path: path() },
            RestoreError::NothingToUndo { path: path() },
            RestoreError::NoSpace { folder: path(), needed_bytes: 2, free_bytes: 1 },
            RestoreError::Io { action: "making", path: path(), source: io_error() },
            write(WriteError::Io { doing: "writing", source: io_error() }),
            write(WriteError::BucketName { len: 0 }),
            RestoreError::Source(Error::NoKeySpace),
            RestoreError::Source(Error::Io { action: "reading", path: path(), source: io_error() }),
            RestoreError::View(ViewError::Compacted { at, compact: last }),
            RestoreError::View(ViewError::Future { at, current: last }),
            RestoreError::View(ViewError::Hole { at, last }),
            RestoreError::Table(fault()),
            RestoreError::View(ViewError::Table(fault())),
            RestoreError::Hole { missing: at, last },
            RestoreError::Proof("it differs".into()),
        ]);
        errors
    }

    /// Matches without a rest see to it that no variant is forgotten above all this.
    #[test]
    fn whatever_keeps_something_from_being_built_it_is_told_what_to_do() {
        for error in errors() {
            for failure in [build_failure("snap.db", &error), file_failure("snap.db", &path(), &error)] {
                let Failure::Said { hint, .. } = &failure else { panic!("{failure:?}") };
                assert!(hint.as_ref().is_some_and(|hint| !hint.is_empty()), "{error:?}: {failure:?}");
            }
        }
    }
}
