//! Why something with an archive failed, and what to do about it.

#[cfg(test)]
mod tests;

use std::io;
use std::iter;
use std::path::Path;

use agent::doctor::remedy::to_trust;
use archive::agree::in_words;
use archive::catalogue::PickError;
use archive::encryption::KeyError;
use archive::error::{ObjectError, SnapshotError};
use archive::fetch::Unkept;
use archive::plan::{Hole, PlanError};
use archive::read_at::ReadFailed;
use archive::{At, Error};
use etcd_data::Kind;
use etcd_data::container::ExpandError;
use store::{Fault, Key, StoreError};

use crate::archive_point::OpenArchive;
use crate::failure::Failure;
use crate::source::{Location, SourceArgs};

/// What was asked for, as far as messages need it.
pub struct Asked<'a> {
    /// Where.
    pub source: &'a SourceArgs,
    /// Which point.
    pub at: Option<&'a At>,
    /// The archive, once it was open.
    pub archive: Option<&'a OpenArchive>,
}

/// Says why something with the archive at SRC failed.
pub fn archive_failure(asked: &Asked<'_>, error: &Error) -> Failure {
    let shown = asked.source.src.to_string();
    let kind = error.kind();
    if let Some(failure) = unkept_failure(&shown, error) {
        return failure;
    }
    match error {
        Error::Store(error) => store_failure(error),
        Error::Key(error) => key_failure(error),
        Error::Pick { source: PickError::Nothing, .. } if asked.source.archive.layout.is_some() => {
            Failure::new(kind, format!("{shown} has nothing in the layout that --layout names"))
                .hint("without --layout it is found out who laid it out")
        }
        Error::Pick { source, .. } => pick_failure(&asked.source.src, source),
        Error::Plan(error) => plan_failure(&shown, error),
        Error::NothingLeft { source, set_aside, .. } => {
            let failure = nothing_left(kind, &shown, source, set_aside);
            if error.is_of_newer() { failure.hint(NEWER) } else { failure }
        }
        Error::TooEarly { time, first } => {
            let begins = first.map(|first| format!("what it has begins at {first}")).unwrap_or_default();
            let failure = Failure::new(kind, format!("{shown} has nothing from {time} or before"));
            if begins.is_empty() { failure } else { failure.hint(begins) }
        }
        Error::Scratch { folder, source } => scratch_failure(&shown, folder, source),
        Error::Snapshot { key, source } => snapshot_failure(&shown, key, source),
        Error::Object { key, source } => object_failure(asked, key, source),
        Error::Undecided { .. } => Failure::new(error.kind(), error.to_string()).hint(format!(
            "nothing was deleted; `refloat verify {shown}` lists what is wrong, and another destination may still have it"
        )),
        error if error.is_of_newer() => Failure::because(kind, format!("cannot read {shown}"), error).hint(NEWER),
        error => Failure::because(kind, format!("cannot read {shown}"), error),
    }
}

/// What to do about what this version does not understand.
pub const NEWER: &str = "a newer refloat wrote it, and a newer one is needed to read it";

fn scratch_failure(shown: &str, folder: &Path, error: &io::Error) -> Failure {
    let message = format!("what is fetched of {shown} cannot be kept in {}", folder.display());
    Failure::because(etcd_data::error::kind_of(error), message, error)
        .hint("--scratch names another folder, with room for the whole point")
}

/// Says so if `error` came of what was fetched of SRC, which is `shown`, and could not be kept on this machine.
pub fn unkept_failure(shown: &str, error: &(dyn std::error::Error + 'static)) -> Option<Failure> {
    let mut causes = iter::successors(Some(error), |error| error.source());
    let failed = causes.find_map(|error| error.downcast_ref::<ReadFailed>())?;
    let Unkept { folder, source } = failed.source.downcast_ref()?;
    Some(scratch_failure(shown, folder, source))
}

fn pick_failure(src: &Location, error: &PickError) -> Failure {
    match (error, src) {
        (PickError::Nothing, Location::Path(path)) => {
            let shown = path.display();
            let message = format!("{shown} is a folder, but neither a data directory nor an archive");
            Failure::new(Kind::Missing, message).hint(
                "a data directory has member/snap/db; an archive has objects as refloat, etcdbrctl, K3s or OpenShift name \
                 them, and --layout tells which where that cannot be seen",
            )
        }
        (PickError::Nothing, Location::Remote(url)) => Failure::new(
            Kind::Missing,
            format!("there is no archive at {url}"),
        )
        .hint(
            "nothing below it has a name as refloat, etcdbrctl, K3s or OpenShift give them: check bucket and prefix; \
                 --layout tells which where that cannot be seen",
        ),
        (PickError::Several { there }, _) => {
            let message = format!("{src} has the archives of several clusters: {}", named(there));
            Failure::new(Kind::Usage, message).hint("choose one with --cluster")
        }
        (PickError::NotThere { wanted, there }, _) => {
            let message = format!("{src} has no archive of a cluster {wanted:?}");
            Failure::new(Kind::Missing, message).hint(format!("there is: {}", named(there)))
        }
    }
}

/// Names of clusters, of which that of the place itself is empty.
fn named(there: &[String]) -> String {
    let shown = |name: &String| if name.is_empty() { "\"\" (the place itself)".into() } else { name.clone() };
    there.iter().map(shown).collect::<Vec<String>>().join(", ")
}

fn plan_failure(shown: &str, error: &PlanError) -> Failure {
    let plain = |message: String| Failure::new(error.kind(), message);
    match error {
        PlanError::NoFull => plain(format!("nothing in {shown} can be restored: it has no full snapshot"))
            .hint("changes alone are of no use without the full that they follow on"),
        PlanError::Before { target, first } => {
            let message = format!("revision {target} is before everything that {shown} can restore");
            match first {
                Some(first) => plain(message).hint(format!("--at {first} is the first that it has")),
                None => plain(message).hint(list_points(shown)),
            }
        }
        PlanError::After { target, last } => plain(format!("revision {target} is after everything that {shown} has"))
            .hint(format!("--at {last} is the last that it has")),
        PlanError::Hole { target, hole, .. } => {
            plain(format!("cannot restore revision {target} of {shown}: {}", missing(hole)))
                .hint(beside_hole(shown, hole))
        }
        PlanError::NoLineage { lineage } => plain(format!("{shown} has no lineage {lineage}")).hint(list_points(shown)),
        PlanError::NoName { name } => plain(format!("{shown} has no snapshot {name:?}")).hint(list_points(shown)),
        PlanError::Ambiguous { name, keys } => {
            let keys: Vec<&str> = keys.iter().map(Key::as_str).collect();
            plain(format!("{shown} has several snapshots that are called {name:?}"))
                .hint(format!("give one of them in full: {}", keys.join(", ")))
        }
        error => plain(error.to_string()),
    }
}

/// What a hole is, without what can be restored around it.
fn missing(hole: &Hole) -> String {
    let text = hole.to_string();
    text.split_once(';').map_or(text.clone(), |(missing, _)| missing.to_owned())
}

fn beside_hole(shown: &str, hole: &Hole) -> String {
    let before = format!("--at {} restores the last revision before the hole", hole.before.to);
    let beyond = hole.beyond.map(|beyond| format!(", --at {} the first after it", beyond.from)).unwrap_or_default();
    format!("{before}{beyond}; `refloat points {shown} --around {}` shows what is there", hole.before.to)
}

fn list_points(shown: &str) -> String {
    format!("`refloat points {shown}` lists what it has")
}

fn nothing_left(kind: Kind, shown: &str, error: &PlanError, set_aside: &[(Key, String)]) -> Failure {
    let message = match error {
        PlanError::Hole { target, hole, .. } => {
            format!("cannot restore revision {target} of {shown}: {}", missing(hole))
        }
        PlanError::After { target, .. } | PlanError::Before { target, .. } => {
            format!("cannot restore revision {target} of {shown}")
        }
        _ => format!("nothing in {shown} can be restored"),
    };
    let failure = Failure::Said { kind, message, causes: in_words(set_aside).collect(), hint: None };
    match error {
        PlanError::Hole { hole, .. } => failure.hint(beside_hole(shown, hole)),
        PlanError::After { last, .. } => {
            failure.hint(format!("--at {last} is the last that can be restored without it"))
        }
        PlanError::Before { first: Some(first), .. } => {
            failure.hint(format!("--at {first} is the first that can be restored without it"))
        }
        _ => {
            failure.hint("no other way leads there; another destination or an older copy may still have these objects")
        }
    }
}

fn snapshot_failure(shown: &str, key: &Key, error: &SnapshotError) -> Failure {
    let failure = Failure::because(error.kind(), format!("cannot read {key} of {shown}"), error);
    match error {
        SnapshotError::Expand(ExpandError::Scratch { folder, .. } | ExpandError::NoRoom { folder, .. }) => failure
            .hint(format!("{} needs room for the whole database; --scratch names another folder", folder.display())),
        SnapshotError::Read(failed) => because_of_store(failed).unwrap_or(failure),
        _ => failure.hint("choose another snapshot with --at"),
    }
}

fn object_failure(asked: &Asked<'_>, key: &Key, error: &ObjectError) -> Failure {
    let shown = &asked.source.src;
    let failure = Failure::because(error.kind(), format!("cannot read {key} of {shown}"), error);
    match error {
        ObjectError::NoKey { recipients } => {
            let refused = asked.archive.and_then(|archive| archive.unlocking.refused());
            match refused.as_deref() {
                Some(Error::Key(error)) => key_failure(error),
                Some(Error::Store(error)) => store_failure(error),
                _ => Failure::new(error.kind(), format!("{key} is encrypted for {}", recipients.join(", ")))
                    .hint(KEY_FLAGS),
            }
        }
        ObjectError::Newer { .. } | ObjectError::UnknownCipher { .. } => failure.hint(NEWER),
        ObjectError::Read(failed) => because_of_store(failed).unwrap_or(failure),
        _ => failure.hint("choose another point with --at"),
    }
}

/// What the store said, if reading failed because of it.
fn because_of_store(failed: &ReadFailed) -> Option<Failure> {
    failed.source.downcast_ref::<StoreError>().map(store_failure)
}

const KEY_FLAGS: &str =
    "--identity, --passphrase-file and --key-file name files with keys; --kms-region and --vault-address name services";

/// Says why a key is of no use, or is missing.
pub fn key_failure(error: &KeyError) -> Failure {
    let failure = match error {
        KeyError::Unreadable { path, source } => {
            Failure::because(error.kind(), format!("cannot read {}", path.display()), source)
        }
        _ => Failure::new(error.kind(), error.to_string()),
    };
    match error {
        KeyError::NoKey { .. } | KeyError::NoPassphrase { .. } => failure.hint(KEY_FLAGS),
        KeyError::WrongPassphrase { .. } => {
            failure.hint("check what was typed, or the first line of what --passphrase-file names")
        }
        KeyError::Missing { .. } => {
            failure.hint("without it nothing that it locked can be read; another destination may still have it")
        }
        KeyError::Exposed { path, .. } => failure.hint(format!("chmod 600 {}", path.display())),
        KeyError::Tampered { .. } | KeyError::DataKey { .. } | KeyError::Malformed { .. } => {
            failure.hint("somebody or something changed the archive; another destination may still have it as it was")
        }
        KeyError::OtherArchive { .. } => failure.hint("objects of one archive were put into another"),
        KeyError::Newer { .. } | KeyError::UnknownCipher { .. } => failure.hint(NEWER),
        KeyError::Unavailable { .. } => failure.hint("try again when it answers"),
        KeyError::ForWhom { .. } => failure.hint("--encrypt-for says for whom"),
        KeyError::TakenAway { .. } => failure.hint(
            "--encrypt-for without them leaves them out; `refloat recipients ARCHIVE --encrypt-for …` lets them in again",
        ),
        KeyError::NotAKey { expected, .. } if expected.starts_with("a key:") => {
            failure.hint("`openssl rand -hex 32` makes one")
        }
        _ => failure,
    }
}

/// Says why a store did not do what it was asked.
pub fn store_failure(error: &StoreError) -> Failure {
    let what = match &error.key {
        Some(key) => format!("{}/{key}", error.place.trim_end_matches('/')),
        None => error.place.clone(),
    };
    fault_failure(&what, error.action, &error.fault)
}

/// Says that the store at `place` keeps nothing from being deleted, which `flag` is about.
pub fn keeps_nothing(place: &str, flag: &str) -> Failure {
    let message = format!("the store at {place} cannot keep objects from being deleted");
    Failure::new(Kind::Unsupported, message).hint(who_keeps(flag))
}

fn who_keeps(flag: &str) -> String {
    format!("S3 with object lock, Google Cloud Storage and Azure can: docs/stores.md; leave {flag} away")
}

/// Says why `action`, as in "reading", did not work with `what`.
pub fn fault_failure(what: &str, action: &str, fault: &Fault) -> Failure {
    let failure = Failure::because(archive::error::kind_of(fault), format!("{action} {what} failed"), fault);
    if action == FETCHING {
        return match fault {
            Fault::Full | Fault::Forbidden(_) => failure.hint("--scratch names another folder, with room for it"),
            _ => failure,
        };
    }
    let place = PlaceKind::of(what);
    match fault {
        Fault::Credentials(_) => failure.hint(
            "credentials are found where the provider's own tools find them; --profile or --credentials names others",
        ),
        Fault::Untrusted(why) => failure.hint(to_trust(why)),
        Fault::OtherKey(_) => failure.hint(
            "--sse-key-file names the key that the store encrypted it with; what was written without one is read without",
        ),
        Fault::Forbidden(_) => failure.hint(permission(place, action)),
        Fault::ForbiddenOrOtherKey(_) => failure.hint(format!(
            "if --sse-key-file (`sseCustomerKey` in a secret) has another key than it was written with, the store says the same; \
             otherwise {}",
            permission(place, action)
        )),
        Fault::WrongRegion { region: Some(region) } => failure.hint(format!("--region {region}")),
        Fault::WrongRegion { region: None } => failure.hint("--region names the one that the bucket is in"),
        Fault::NoSuchPlace => failure.hint(match place {
            PlaceKind::Folder => "check the path: the folder has to be there",
            PlaceKind::S3 => "check the name of the bucket, --endpoint and --region",
            PlaceKind::Google => "check the name of the bucket and --endpoint",
            PlaceKind::Azure => "check the names of the container and of the account, and --endpoint",
            PlaceKind::Swift => "check the name of the container and --region",
        }),
        Fault::NotFound => failure.hint("it was deleted meanwhile, or is not visible yet; try again"),
        Fault::Retained { .. } => {
            failure.hint("the store lets nobody change or delete it before its retention ends and every hold is lifted")
        }
        Fault::Unable(store::KEEPING) if action == "opening" => keeps_nothing(what, "--retain"),
        Fault::Unable(store::KEEPING) => failure.hint(who_keeps("--retain")),
        // What was refused before anything was asked is said in full.
        Fault::Unable(_) if action == "opening" => failure,
        Fault::Unable(what) if place == PlaceKind::S3 && what.contains("only if") => failure.hint(
            "--flavour says whose S3 it is, and with it what it can; --conditional-writes true says that it keeps the \
             conditions of writes all the same",
        ),
        Fault::Unable(_) => failure.hint("`refloat doctor` tries what a store can; another one may be able to"),
        Fault::ClockSkew => failure.hint("set the clock of this machine"),
        Fault::Full => failure.hint("make room there"),
        Fault::Throttled { .. } => failure.hint("try again later, or slower with --max-requests-per-second"),
        Fault::TimedOut { .. } | Fault::Unavailable { .. } => failure.hint(match place {
            PlaceKind::Folder => "check the disk, or what is mounted there; --patience tells how long to go on trying",
            _ => "check --endpoint and the network; --patience tells how long to go on trying",
        }),
        Fault::Nonsense(_) => failure.hint("what answers at --endpoint may be something else than this kind of store"),
        _ => failure,
    }
}

/// What a store calls keeping on this machine what it read: a fault is then one of the disk here.
const FETCHING: &str = "writing what was read from";

/// What a place is, as far as advice differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    Folder,
    S3,
    Google,
    Azure,
    Swift,
}

impl PlaceKind {
    /// Of a place, or of something there, as messages show it.
    fn of(shown: &str) -> Self {
        match shown.split_once("://").map(|(scheme, _)| scheme) {
            None | Some("file") => Self::Folder,
            Some("gs") => Self::Google,
            Some("az") => Self::Azure,
            Some("swift") => Self::Swift,
            Some(_) => Self::S3,
        }
    }
}

/// What is to be allowed, for `action`.
fn permission(place: PlaceKind, action: &str) -> String {
    let (doing, requests) = match action {
        "writing" | "beginning" | "writing a part of" | "completing" | "going on with" => {
            ("writing", "put, to list and to get objects, and with --retain to set their retention")
        }
        "giving up" | "listing uploads of" | "looking for uploads in" => {
            ("clearing uploads away that nobody finished", "list and to abort uploads")
        }
        "deleting" => ("deleting", "list and to delete objects"),
        "keeping" | "retaining" => ("keeping objects from being deleted", "set the retention of objects"),
        _ => ("reading", "list and to get objects"),
    };
    match (place, doing) {
        (PlaceKind::Google, "writing") => {
            "these credentials may not do this; writing needs permission to put, to list, to get and to delete objects, as what is \
             replaced there is deleted, and with --retain to set their retention"
                .into()
        }
        (PlaceKind::Folder, "reading") => {
            "whoever this runs as has to be allowed to read the files there, and to enter every folder above them"
                .into()
        }
        (PlaceKind::Folder, _) => {
            "whoever this runs as has to be allowed to write there, and it must not be mounted read-only".into()
        }
        _ => format!("these credentials may not do this; {doing} needs permission to {requests}"),
    }
}
