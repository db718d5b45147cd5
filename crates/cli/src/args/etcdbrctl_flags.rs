//! The flags of etcdbrctl's `server`, and what becomes of them here: whoever changes over keeps what they mean.
//!
//! A flag that means the same is taken for ours. One that means nothing here is ignored, and that is said. One whose meaning would be
//! lost without anybody noticing is refused. The table is all there is; the page of the reference is made of it.

mod place;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt::Write;

use clap::Command;
use etcd_data::Kind;
use jiff::SignedDuration;
use store::Environment;

use crate::duration::span;
use crate::failure::Failure;
use place::{Part, Place};

/// The command that takes them.
const COMMAND: &str = "agent";

/// One flag of theirs.
#[derive(Debug)]
pub struct Row {
    name: &'static str,
    short: Option<char>,
    takes: Takes,
    meaning: Meaning,
}

/// Whether a flag has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Value,
    /// True if it is there; `=false` may follow.
    Switch,
}

/// What becomes of a flag.
#[derive(Debug, Clone, Copy)]
enum Meaning {
    /// Ours has the same name and means the same.
    Same,
    /// It is called so here.
    Called(&'static str),
    /// It is this flag of ours, whose value is made of theirs.
    Made(&'static str, fn(&str) -> String),
    /// With a value it is called so here; ours of its name has none, and means something else.
    CalledWithValue(&'static str),
    /// Where it turns something off, it is this flag of ours, which has no value. Otherwise it means nothing here, because of this.
    Off(&'static str, fn(&str) -> bool, &'static str),
    /// Ours of the same name means something else, as this says. Whoever comes with flags of theirs is told.
    Another(&'static str),
    /// It is a part of where the archive is.
    Archive(Part),
    /// It is a part of where the other destination is.
    Other(Part),
    /// Whether there is anything at the other destination.
    OtherKept,
    /// It means nothing here, because of this.
    Ignored(&'static str),
    /// It must not be lost; this is to be done.
    Refused(&'static str),
}

use Meaning::{Another, Archive, Called, CalledWithValue, Ignored, Made, Off, Other, OtherKept, Refused, Same};
use Part::{Container, Prefix, Provider};
use Takes::{Switch, Value};

const fn row(name: &'static str, short: Option<char>, takes: Takes, meaning: Meaning) -> Row {
    Row { name, short, takes, meaning }
}

const MERGED: &str = "fulls are merged from what is archived, when it is worth it";
const KEPT: &str = "--window and --daily say in days what stays; nothing is deleted before its replacement is proven";
const LEASES: &str = "leases that tell Gardener of snapshots and members are not renewed";
const SELF: &str = "whoever has the right to write is the leader; it is told in the archive (--takeover)";
const RETRIES: &str = "what may succeed later is tried again anyway (--patience)";
const PACKED: &str = "what is archived is always compressed";
const NO_ETCD: &str = "a restore starts no etcd";
const CONFIGURED: &str = "etcd's own configuration says it (--etcd-config)";
const ELSEWHERE: &str = "`--also` names another destination, and what is otherwise there (docs/destinations.md)";

/// All flags that are known, in the order of etcdbrctl's own groups.
const ROWS: &[Row] = &[
    row("endpoints", Some('e'), Value, Same),
    row("service-endpoints", None, Value, Ignored("members that are not named are found through those that are")),
    row("etcd-username", None, Value, Same),
    row(
        "etcd-password",
        None,
        Value,
        Refused("a secret is never the value of a flag: --etcd-password-file names a file with it"),
    ),
    row("etcd-connection-timeout", None, Value, Called("etcd-timeout")),
    row("etcd-snapshot-timeout", None, Value, Ignored("a snapshot may take its time as long as pieces of it come")),
    row("etcd-defrag-timeout", None, Value, Called("defragment-timeout")),
    row("insecure-transport", None, Switch, Ignored("http:// or https:// of --endpoints says it")),
    row("insecure-skip-tls-verify", None, Switch, CalledWithValue("insecure-skip-etcd-verify")),
    row("cacert", None, Value, Same),
    row("cert", None, Value, Same),
    row("key", None, Value, Same),
    row("schedule", Some('s'), Value, Ignored(MERGED)),
    row("delta-snapshot-period", None, Value, Called("seal-after")),
    row("delta-snapshot-memory-limit", None, Value, Ignored("what waits to be sealed is on disk (--spool-limit)")),
    row("garbage-collection-period", None, Value, Off("keep-all", deletes_nothing, KEPT)),
    row("garbage-collection-policy", None, Value, Ignored(KEPT)),
    row("max-backups", Some('m'), Value, Ignored(KEPT)),
    row("delta-snapshot-retention-period", None, Value, Ignored(KEPT)),
    row("storage-provider", None, Value, Archive(Provider)),
    row("store-container", None, Value, Archive(Container)),
    row("store-prefix", None, Value, Archive(Prefix)),
    row("store-endpoint-override", None, Value, Called("endpoint")),
    row("snapstore-temp-directory", None, Value, Called("scratch")),
    row("max-parallel-chunk-uploads", None, Value, Ignored("pieces are uploaded several at a time anyway")),
    row("min-chunk-size", None, Value, Ignored("pieces are as large as the store wants them")),
    row("secondary-storage-provider", None, Value, Other(Provider)),
    row("secondary-store-container", None, Value, Other(Container)),
    row("secondary-store-prefix", None, Value, Other(Prefix)),
    row("secondary-store-endpoint-override", None, Value, Refused(ELSEWHERE)),
    row("secondary-backup-sync-enabled", None, Switch, OtherKept),
    row(
        "secondary-backup-sync-period",
        None,
        Value,
        Ignored("what is new is copied every 15 s; `copy-every` in a file that `--also` names says otherwise"),
    ),
    row("max-parallel-copy-operations", None, Value, Ignored("several objects are copied at a time anyway")),
    row("compress-snapshots", None, Switch, Ignored(PACKED)),
    row("compression-policy", None, Value, Ignored(PACKED)),
    row("enable-snapshot-lease-renewal", None, Switch, Ignored(LEASES)),
    row("enable-member-lease-renewal", None, Switch, Ignored(LEASES)),
    row("k8s-heartbeat-duration", None, Value, Ignored(LEASES)),
    row("full-snapshot-lease-name", None, Value, Ignored(LEASES)),
    row("delta-snapshot-lease-name", None, Value, Ignored(LEASES)),
    row("etcd-connection-timeout-leader-election", None, Value, Ignored(SELF)),
    row("reelection-period", None, Value, Ignored(SELF)),
    row("backoff-multiplier", None, Value, Ignored(RETRIES)),
    row("backoff-attempt-limit", None, Value, Ignored(RETRIES)),
    row("backoff-threshold-time", None, Value, Ignored(RETRIES)),
    row("server-port", Some('p'), Value, Made("listen", on_all_addresses)),
    row("server-cert", None, Value, Same),
    row("server-key", None, Value, Same),
    row("data-dir", Some('d'), Value, Same),
    row(
        "name",
        None,
        Value,
        Another("what the agent calls itself; which member is beside it, --member or POD_NAME says"),
    ),
    row("initial-cluster", None, Value, Ignored(CONFIGURED)),
    row("initial-cluster-token", None, Value, Ignored(CONFIGURED)),
    row("initial-advertise-peer-urls", None, Value, Ignored(CONFIGURED)),
    row("skip-hash-check", None, Switch, Ignored("what is brought back is checked anyway")),
    row("max-fetchers", None, Value, Ignored("several objects are fetched at a time anyway")),
    row("max-call-send-message-size", None, Value, Ignored(NO_ETCD)),
    row("max-request-bytes", None, Value, Ignored(NO_ETCD)),
    row("max-txn-ops", None, Value, Ignored(NO_ETCD)),
    row(
        "restoration-temp-snapshots-dir",
        None,
        Value,
        Ignored("what a restore has to have on this machine meanwhile is where --scratch says"),
    ),
    row("auto-compaction-mode", None, Value, Ignored(NO_ETCD)),
    row("auto-compaction-retention", None, Value, Ignored(NO_ETCD)),
    row("embedded-etcd-quota-bytes", None, Value, Ignored(NO_ETCD)),
    row("defragmentation-schedule", None, Value, Called("defragment-at")),
    row("enable-profiling", None, Switch, Ignored("there is no profiler in it")),
    row(
        "use-etcd-wrapper",
        None,
        Switch,
        Ignored("whether `refloat wrap` or another wrapper asks makes no difference"),
    ),
    row("config-file", None, Value, Refused("its settings are of another form: --settings names a file with ours")),
    row("log-level", None, Value, Same),
];

/// The flag of etcdbrctl called `name`, for a command that takes them.
pub fn row_called(command: &str, name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| command == COMMAND && row.name == name && !matches!(row.meaning, Same | Another(_)))
}

/// Whether etcdbrctl deletes nothing with this period: one of a second or less turns deleting off.
fn deletes_nothing(period: &str) -> bool {
    let is_short = |period: SignedDuration| period <= SignedDuration::from_secs(1);
    period == "0" || period.starts_with('-') || span("1m")(period).is_ok_and(is_short)
}

fn on_all_addresses(port: &str) -> String {
    format!("0.0.0.0:{port}")
}

/// Turns their flags into ours.
#[derive(Debug, Default)]
pub struct Translator {
    /// What was ignored, and why.
    pub notes: Vec<String>,
    archive: Place,
    other: Place,
    keeps_other: bool,
}

impl Translator {
    /// The arguments of the program, with ours in the place of theirs. What is neither is left for clap to refuse.
    pub fn translate(&mut self, program: &Command, args: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
        let is_ours = args.get(1).is_some_and(|name| name == COMMAND);
        let Some(command) = program.find_subcommand(COMMAND).filter(|_| is_ours) else { return Ok(args) };
        let (mut translated, mut others, mut has_theirs) = (Vec::new(), Vec::new(), false);
        let mut args = args.into_iter().peekable();
        while let Some(arg) = args.next() {
            let Some((row, value)) = arg.to_str().and_then(|text| theirs(command, text)) else {
                others.extend(arg.to_str().and_then(another));
                translated.push(arg);
                continue;
            };
            has_theirs = true;
            let value = match (value, row.takes) {
                (None, Value) => {
                    let next = args.next().and_then(|value| value.into_string().ok());
                    let missing = || Failure::new(Kind::Usage, format!("--{} has no value", row.name));
                    Some(next.ok_or_else(missing)?)
                }
                (value, _) => value.map(str::to_owned),
            };
            let as_word = |(name, value): (&str, String)| match (row.meaning, value.as_str()) {
                (CalledWithValue(_) | Off(..), "true") => Some(format!("--{name}")),
                (CalledWithValue(_), _) => None,
                _ => Some(format!("--{name}={value}")),
            };
            let ours = self.take(row, value.as_deref())?;
            translated.extend(ours.and_then(as_word).map(OsString::from));
        }
        if has_theirs {
            self.notes.extend(others);
        }
        Ok(translated)
    }

    /// What one of theirs is here, as the name of a flag and its value.
    pub fn take(&mut self, row: &Row, value: Option<&str>) -> Result<Option<(&'static str, String)>, Failure> {
        let given = value.unwrap_or("true");
        match row.meaning {
            Same | Another(_) => return Ok(Some((row.name, given.to_owned()))),
            Called(ours) | CalledWithValue(ours) => return Ok(Some((ours, given.to_owned()))),
            Made(ours, of) => return Ok(Some((ours, of(given)))),
            Off(ours, is_off, _) if is_off(given) => return Ok(Some((ours, "true".to_owned()))),
            Archive(part) => {
                self.archive.tell(part, given);
                let flavour = self.archive.flavour().filter(|_| matches!(part, Provider));
                return Ok(flavour.map(|flavour| ("flavour", flavour.to_owned())));
            }
            Other(part) => self.other.tell(part, given),
            OtherKept => self.keeps_other = given == "true",
            Off(_, _, why) | Ignored(why) => self.notes.push(format!("--{} is ignored: {why}", row.name)),
            Refused(why) => {
                let message = format!("--{} of etcdbrctl is not taken", row.name);
                return Err(Failure::new(Kind::Usage, message).hint(why));
            }
        }
        Ok(None)
    }

    /// Where the archive is, if any part of that was told.
    pub fn archive(&self, environment: &Environment) -> Result<Option<String>, Failure> {
        self.archive.url("", environment)
    }

    /// Makes the folders that etcdbrctl would, of what was told.
    pub fn make_folders(&self, environment: &Environment) {
        self.archive.make_folder("", environment);
        if self.keeps_other {
            self.other.make_folder(SECOND, environment);
        }
    }

    /// Where it is kept too, if that was told and asked for.
    pub fn also(&mut self, environment: &Environment) -> Result<Option<String>, Failure> {
        if !self.keeps_other {
            if self.other.is_told() {
                self.notes.push(
                    "where etcdbrctl's second store is is ignored: --secondary-backup-sync-enabled is not given".into(),
                );
            }
            return Ok(None);
        }
        let place = self.other.url(SECOND, environment)?.ok_or_else(|| {
            Failure::new(Kind::Usage, "--secondary-backup-sync-enabled does not say which bucket it is")
                .hint("--secondary-store-container names it; or `--also` gives it as a URL")
        })?;
        let (flavour, first) = (self.other.flavour(), self.archive.flavour());
        if place.starts_with("s3://") && flavour != first {
            let says = flavour.map(|flavour| format!(", `flavour: {flavour}`")).unwrap_or_default();
            return Err(Failure::new(Kind::Usage, "the two stores speak S3 in different ways")
                .hint(format!("`--also` names a file with `archive: {place}`{says}, and how it is reached")));
        }
        let is_set = |variable: &&String| environment.get(variable).is_some();
        match credentials_of_second().iter().find(is_set) {
            None => Ok(Some(place)),
            Some(variable) => Err(Failure::new(Kind::Usage, format!("{variable} is not read")).hint(format!(
                "`--also` names a file with `archive: {place}` and `credentials:`, the path that the variable has"
            ))),
        }
    }
}

/// What the flags of the second store begin with; in capitals, its variables too.
const SECOND: &str = "secondary-";

/// The variables by which etcdbrctl is told who it is at the second store.
fn credentials_of_second() -> Vec<String> {
    let owners = ["AWS", "AZURE", "GOOGLE", "OPENSTACK", "ALICLOUD", "OPENSHIFT"];
    let variable = |owner| format!("SECONDARY_{owner}_APPLICATION_CREDENTIALS");
    owners.map(variable).into_iter().flat_map(|variable| [format!("{variable}_JSON"), variable]).collect()
}

/// What is said of an argument that is ours, and of the same name as one of theirs that means something else.
fn another(text: &str) -> Option<String> {
    let name = text.strip_prefix("--")?.split('=').next()?;
    let row = ROWS.iter().find(|row| row.name == name)?;
    match row.meaning {
        Another(what) => Some(format!("--{name} is not etcdbrctl's here: it is {what}")),
        _ => None,
    }
}

/// The row of an argument that is theirs, and the value that it carries itself.
fn theirs<'a>(command: &Command, text: &'a str) -> Option<(&'static Row, Option<&'a str>)> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let is_ours = command.get_arguments().any(|arg| arg.get_long() == Some(name));
        let is_theirs = |row: &&Row| match row.meaning {
            CalledWithValue(_) => value.is_some(),
            _ => !is_ours,
        };
        return Some((row_called(COMMAND, name).filter(is_theirs)?, value));
    }
    let mut letters = text.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let rest = letters.as_str();
    let is_ours = |arg: &clap::Arg| arg.get_short() == Some(letter);
    let row = ROWS.iter().find(|row| row.short == Some(letter))?;
    let value = Some(rest.trim_start_matches('=')).filter(|rest| !rest.is_empty());
    (!command.get_arguments().any(is_ours)).then_some((row, value))
}

/// The text of `docs/reference/etcdbrctl-flags.md`.
pub fn page(made_from: &str) -> String {
    let mut text = format!(
        "# Flags of etcdbrctl\n\n{made_from}\n`refloat agent` takes the flags of `etcdbrctl server` where they mean the same; so does its \
         file of settings. What is ignored is said at the start, what would be lost without anybody noticing is refused, and what is not in \
         this table is unknown.\n\n\
         | Of etcdbrctl | Here |\n|---|---|\n"
    );
    for row in ROWS {
        let short = row.short.map(|short| format!("-{short}, ")).unwrap_or_default();
        let here = match row.meaning {
            Same => "the same".to_owned(),
            Called(ours) => format!("`--{ours}`"),
            Made(ours, of) => format!("`--{ours} {}`", of("PORT")),
            CalledWithValue(ours) => format!("with `=true` or `=false`: `--{ours}`, or nothing"),
            Off(ours, _, why) => format!("with a second or less: `--{ours}`; otherwise ignored: {why}"),
            Another(what) => format!("something else: {what}"),
            Archive(Provider) => {
                "with the two below: ARCHIVE, as in `s3://container/prefix`; of OSS, OCS and ECS `--flavour` too"
                    .to_owned()
            }
            Archive(Container) => "the bucket, container or folder of ARCHIVE; `STORAGE_CONTAINER` too".to_owned(),
            Archive(Prefix) => "the prefix of ARCHIVE".to_owned(),
            Other(Provider) => "with the two below: `--also`, as in `s3://container/prefix`".to_owned(),
            Other(Container) => {
                "the bucket, container or folder of `--also`; `SECONDARY_STORAGE_CONTAINER` too".to_owned()
            }
            Other(Prefix) => "the prefix of `--also`".to_owned(),
            OtherKept => "whether those three are `--also`".to_owned(),
            Ignored(why) => format!("ignored: {why}"),
            Refused(why) => format!("refused: {why}"),
        };
        let _ = writeln!(text, "| `{short}--{}` | {here} |", row.name);
    }
    text.push_str(
        "\n`--insecure-skip-tls-verify` without a value is about the store here; for etcd it is `--insecure-skip-etcd-verify`. The archive that etcdbrctl wrote at \
         the same place is left as it is; `refloat copy` makes one of ours of it. Where `SECONDARY_` variables tell etcdbrctl its credentials for the \
         second store, `--also` names a file with them.\n",
    );
    text
}
