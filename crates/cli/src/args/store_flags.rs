//! Which flags say something of which place. What would be left out in silence is refused.

use etcd_data::Kind;

use crate::args::archive::{ArchiveArgs, StoreArgs};
use crate::failure::Failure;
use crate::failure::archive::keeps_nothing;
use crate::source::Location;

/// A flag of a store.
struct Flag {
    name: &'static str,
    is_given: fn(&StoreArgs) -> bool,
    stores: &'static Stores,
    /// Whether services that open archive keys are reached by it, too: then it says something wherever the archive is.
    serves_keys: bool,
}

/// Kinds of stores.
struct Stores {
    schemes: &'static [&'static str],
    shown: &'static str,
}

const S3: &Stores = &Stores { schemes: &["s3"], shown: "S3" };
const BUCKETS: &Stores = &Stores { schemes: &["s3", "gs", "az"], shown: "S3, Google Cloud Storage and Azure" };
const ALL: &Stores =
    &Stores { schemes: &["s3", "gs", "az", "swift"], shown: "S3, Google Cloud Storage, Azure and Swift" };

const fn flag(name: &'static str, stores: &'static Stores, is_given: fn(&StoreArgs) -> bool) -> Flag {
    Flag { name, is_given, stores, serves_keys: false }
}

const fn serving_keys(name: &'static str, is_given: fn(&StoreArgs) -> bool) -> Flag {
    Flag { name, is_given, stores: ALL, serves_keys: true }
}

/// All but those that are for everything that is read or written: how much, and how long.
static FLAGS: [Flag; 14] = [
    flag("endpoint", ALL, |args| args.endpoint.is_some()),
    flag("anonymous", ALL, |args| args.anonymous),
    flag("flavour", S3, |args| args.flavour.is_some()),
    flag("path-style", S3, |args| args.path_style.is_some()),
    flag("conditional-writes", BUCKETS, |args| args.conditional_writes.is_some()),
    flag("sse", BUCKETS, |args| args.sse.is_some()),
    flag("sse-key-file", BUCKETS, |args| args.sse_key_file.is_some()),
    flag("storage-class", BUCKETS, |args| args.storage_class.is_some()),
    flag("retain", BUCKETS, |args| args.retain.is_some()),
    serving_keys("region", |args| args.region.is_some()),
    serving_keys("profile", |args| args.profile.is_some()),
    serving_keys("credentials", |args| args.credentials.is_some()),
    serving_keys("ca-file", |args| args.ca_file.is_some()),
    serving_keys("insecure-skip-tls-verify", |args| args.insecure_skip_tls_verify),
];

impl Flag {
    fn is_for(&self, place: &Location) -> bool {
        place.scheme().is_some_and(|scheme| self.stores.schemes.contains(&scheme))
    }
}

/// Requires that all of `said` says something of the archive at `place`.
pub fn require_heeded(place: &Location, said: &StoreArgs) -> Result<(), Failure> {
    let unheard = |flag: &&Flag| (flag.is_given)(said) && !flag.serves_keys && !flag.is_for(place);
    FLAGS.iter().find(unheard).map_or(Ok(()), |flag| Err(unheeded(place, "--", flag)))
}

/// What of all that is `said` says something of the archive at `place`.
pub fn what_is_heeded(place: &Location, said: &StoreArgs) -> StoreArgs {
    let is_for = |name| FLAGS.iter().any(|flag| flag.name == name && flag.is_for(place));
    StoreArgs {
        endpoint: said.endpoint.clone().filter(|_| is_for("endpoint")),
        anonymous: said.anonymous && is_for("anonymous"),
        flavour: said.flavour.filter(|_| is_for("flavour")),
        path_style: said.path_style.filter(|_| is_for("path-style")),
        conditional_writes: said.conditional_writes.filter(|_| is_for("conditional-writes")),
        sse: said.sse.clone().filter(|_| is_for("sse")),
        sse_key_file: said.sse_key_file.clone().filter(|_| is_for("sse-key-file")),
        storage_class: said.storage_class.clone().filter(|_| is_for("storage-class")),
        retain: said.retain.filter(|_| is_for("retain")),
        ..said.clone()
    }
}

/// Requires that all that is `said` by the flags for DEST says something of `dest`.
pub fn require_heeded_by_dest(dest: &Location, said: &StoreArgs) -> Result<(), Failure> {
    let unheard = |flag: &&Flag| (flag.is_given)(said) && !flag.is_for(dest);
    FLAGS.iter().find(unheard).map_or(Ok(()), |flag| Err(unheeded(dest, "--dest-", flag)))
}

/// Requires that nothing is `said` of SRC that is meant for DEST: at `src` nothing would come of it.
pub fn require_of_source(src: &Location, said: &StoreArgs, dest: &Location) -> Result<(), Failure> {
    let is_of_both = |flag: &Flag| !flag.serves_keys && flag.name != "anonymous";
    let meant = |flag: &&Flag| (flag.is_given)(said) && is_of_both(flag) && !flag.is_for(src) && flag.is_for(dest);
    let Some(Flag { name, .. }) = FLAGS.iter().find(meant) else { return Ok(()) };
    Err(Failure::new(Kind::Usage, format!("--{name} is said of {src}, to which it says nothing"))
        .hint(format!("--dest-{name} says it of {dest}")))
}

/// Requires that nothing is `said` of a store where no archive is named.
pub fn require_no_store(said: &StoreArgs) -> Result<(), Failure> {
    let Some(flag) = FLAGS.iter().find(|flag| (flag.is_given)(said)) else { return Ok(()) };
    Err(Failure::new(Kind::Usage, format!("--{} says how an archive is reached, and not where it is", flag.name))
        .hint("name ARCHIVE"))
}

/// Refuses a lineage that `command` would leave out of account.
pub fn require_all_lineages(said: &ArchiveArgs, command: &str) -> Result<(), Failure> {
    match said.lineage {
        Some(_) => Err(Failure::new(Kind::Usage, format!("--lineage says nothing to `{command}`"))
            .hint(format!("`{command}` is about all histories of an archive: leave it away"))),
        None => Ok(()),
    }
}

/// Requires that nothing is `said` of archives where `src` is a file or a data directory.
pub fn require_nothing_of_archives(src: &Location, said: &ArchiveArgs) -> Result<(), Failure> {
    require_heeded(src, &said.store)?;
    let given = [
        ("--cluster", said.cluster.is_some()),
        ("--lineage", said.lineage.is_some()),
        ("--identity, --passphrase-file and --key-file", said.keys.are_given()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((flags, _)) => Err(Failure::new(
            Kind::Usage,
            format!("{src} is a file or a data directory, and {flags} say something of archives only"),
        )
        .hint("leave it away; an archive is the folder that has the objects, or its URL")),
        None => Ok(()),
    }
}

fn unheeded(place: &Location, prefix: &str, flag: &Flag) -> Failure {
    let instead = match flag.name {
        // An S3 may be unable to, too, which only its settings tell: whoever cannot is refused in the same words.
        "retain" => return keeps_nothing(&place.to_string(), &format!("{prefix}retain")),
        "sse" | "sse-key-file" | "storage-class" => "--encrypt-for encrypts wherever the archive is",
        _ => "leave it away",
    };
    Failure::new(Kind::Usage, format!("{prefix}{} says nothing to {place}", flag.name))
        .hint(format!("it is for {}; {instead}", flag.stores.shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Location {
        Location::from(std::ffi::OsString::from(text))
    }

    #[track_caller]
    fn said(result: Result<(), Failure>) -> String {
        result.err().map_or_else(|| "nothing".into(), |failure| format!("{failure:?}"))
    }

    #[test]
    fn what_says_nothing_to_a_place_is_refused_there_and_taken_elsewhere() {
        let endpoint = StoreArgs { endpoint: Some("http://minio:9000".into()), ..StoreArgs::default() };
        for (args, heeded, unheeded) in [
            (endpoint, &["s3://b", "gs://b", "az://b", "swift://b"][..], &["/backups"][..]),
            (StoreArgs { path_style: Some(true), ..StoreArgs::default() }, &["s3://b"], &["gs://b", "/backups"]),
            (StoreArgs { conditional_writes: Some(true), ..StoreArgs::default() }, &["az://b"], &["swift://b", "b"]),
            (StoreArgs { storage_class: Some("COLD".into()), ..StoreArgs::default() }, &["gs://b"], &["swift://b"]),
        ] {
            for url in heeded {
                assert_eq!(said(require_heeded(&place(url), &args)), "nothing", "{url}");
                assert_eq!(said(require_heeded_by_dest(&place(url), &args)), "nothing", "{url}");
            }
            for url in unheeded {
                assert!(said(require_heeded(&place(url), &args)).contains("says nothing to"), "{url}");
                assert!(said(require_heeded_by_dest(&place(url), &args)).contains("--dest-"), "{url}");
            }
        }
    }

    #[test]
    fn of_two_places_each_is_told_what_says_something_of_it() {
        let said = StoreArgs {
            endpoint: Some("http://minio:9000".into()),
            flavour: Some(store::Flavour::Minio),
            patience: Some(7),
            region: Some("eu-1".into()),
            ..StoreArgs::default()
        };
        for (url, endpoint, flavour) in [("s3://b", true, true), ("gs://b", true, false), ("/backups", false, false)] {
            let heeded = what_is_heeded(&place(url), &said);
            assert_eq!((heeded.endpoint.is_some(), heeded.flavour.is_some()), (endpoint, flavour), "{url}");
            assert_eq!((heeded.patience, heeded.region.as_deref()), (Some(7), Some("eu-1")), "{url}");
        }
    }

    /// A folder may have an archive whose keys a service opens.
    #[test]
    fn what_reaches_a_key_service_is_taken_of_a_folder_and_not_of_where_it_goes() {
        let region = StoreArgs { region: Some("eu-1".into()), ..StoreArgs::default() };
        assert_eq!(said(require_heeded(&place("/backups"), &region)), "nothing");
        assert!(said(require_heeded_by_dest(&place("/copy"), &region)).contains("--dest-region says nothing"));
    }

    #[test]
    fn who_says_of_the_source_what_is_meant_for_the_target_is_told_how_to_say_it() {
        let endpoint = StoreArgs { endpoint: Some("http://minio:9000".into()), ..StoreArgs::default() };
        let told = said(require_of_source(&place("/backups"), &endpoint, &place("s3://b")));
        assert!(told.contains("--dest-endpoint says it of s3://b"), "{told}");
        assert_eq!(said(require_of_source(&place("s3://a"), &endpoint, &place("s3://b"))), "nothing");
        assert_eq!(said(require_of_source(&place("/backups"), &endpoint, &place("/copy"))), "nothing");
    }

    #[test]
    fn a_file_is_of_no_cluster_and_locked_by_nobody() {
        let args = ArchiveArgs { cluster: Some("prod".into()), ..ArchiveArgs::default() };
        let told = said(require_nothing_of_archives(&place("snap.db"), &args));
        assert!(told.contains("--cluster"), "{told}");
        assert_eq!(said(require_nothing_of_archives(&place("snap.db"), &ArchiveArgs::default())), "nothing");
    }
}
