//! `refloat recipients`

use archive::Error;
use archive::encryption::{KeyId, Lockbox, Lockboxes, Recipient, Relock};
use archive::error::in_one_line;
use etcd_data::Kind;
use jiff::Timestamp;

use crate::archive_point::{OpenArchive, open_archive};
use crate::args::store_flags::require_all_lineages;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::documented;
use crate::output::progress::Reading;
use crate::output::table::Table;
use crate::output::ui::{Format, FormatArgs, Ui};
use crate::recipient::{self, Named};
use crate::source::SourceArgs;

/// Shows who can open an archive that is encrypted, and changes that
///
/// Objects are encrypted with archive keys, and each of these is locked once for each who can open it. With
/// `--encrypt-for` every archive key that opens here is locked anew; no object is written again. Whoever is taken away
/// may have kept what they could open until then, so nothing new is written with a key that was theirs: whoever writes
/// draws another, agents that run within a minute.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Let exactly these open it: `age1…`, `@FILE` with several, `key-file:FILE`, `aws-kms:ARN`, `vault:MOUNT/KEY` or
    /// `passphrase`; may be given several times (docs/encryption.md)
    #[arg(long, value_name = "RECIPIENT", value_parser = recipient::parse)]
    encrypt_for: Vec<Named>,
    /// Do so too if nothing that is given here opens it afterwards
    #[arg(long, requires = "encrypt_for")]
    lock_myself_out: bool,
    /// Show what would be done, and do nothing
    #[arg(long, requires = "encrypt_for")]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

documented! {
    /// Who can open an archive.
    pub struct RecipientsReport {
        /// Where the archive is, as a URL.
        pub destination: String,
        /// What the archive calls the cluster.
        pub cluster: String,
        /// Whether nothing was done: nothing was asked for, or it is a dry run.
        pub dry_run: bool,
        /// One for each archive key.
        pub keys: Vec<ArchiveKeyJson>,
    }
}

documented! {
    /// An archive key, as it is now or would be.
    pub struct ArchiveKeyJson {
        /// Its id, as objects name it.
        pub id: String,
        /// When it was made; null if that cannot be read.
        pub created: Option<String>,
        /// Since when nothing new is written with it; null if it is written with.
        pub superseded: Option<String>,
        /// Who can open it.
        pub recipients: Vec<String>,
        /// Who could open it before, and may have kept it.
        pub taken: Vec<String>,
        /// Who can open it now and could not before, or would.
        pub added: Vec<String>,
        /// Who could open it before and cannot any more, or would. A passphrase that is another now is here and in `added`.
        pub removed: Vec<String>,
        /// `relocked`; in a dry run `relock`; `failed` if it stays as it was; null if nothing was asked for.
        pub outcome: Option<&'static str>,
        /// Why it cannot be read, or was not locked anew; null if neither is so.
        pub error: Option<String>,
    }
}

/// Shows them, or changes them.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    require_all_lineages(&args.source.archive, "recipients")?;
    let open = open_archive(&args.source)?;
    let cluster = open.archive.cluster().ok_or_else(|| others(&open))?;
    let folder = match open.archive.folder() {
        "" => String::new(),
        folder => format!("{folder}/"),
    };
    let lockboxes = Lockboxes { store: &**open.archive.store(), folder: &folder, cluster, keyring: &open.keyring };
    if args.encrypt_for.is_empty() { show(ui, args, &open, &lockboxes) } else { change(ui, args, &open, &lockboxes) }
}

fn others(open: &OpenArchive) -> Failure {
    let place = open.archive.store().place();
    Failure::new(Kind::Unsupported, format!("{place} is laid out by another system, which locks nothing for anybody"))
        .hint("`refloat copy --name` makes an archive of ours of it, with --encrypt-for an encrypted one")
}

fn show(ui: &mut Ui, args: &Args, open: &OpenArchive, lockboxes: &Lockboxes<'_>) -> Result<Exit, Failure> {
    let failed = |error: &Error| open.failure(&args.source, None, error);
    let each = open.wait_for(lockboxes.each()).map_err(|error| failed(&error))?;
    let keys = each.iter().map(|(id, read)| match read {
        Ok(lockbox) => ArchiveKeyJson::of(lockbox),
        Err(error) => ArchiveKeyJson::unread(*id, error),
    });
    let report = RecipientsReport::of(lockboxes, true, keys.collect());
    match args.format.format {
        Format::Json => ui.json(&report)?,
        Format::Text if report.keys.is_empty() => ui.line("nothing here was encrypted: it has no archive key")?,
        Format::Text => ui.line(report.table())?,
    }
    for (_, read) in &each {
        if let Err(error) = read {
            ui.failed(&failed(error))?;
        }
    }
    Ok(ui.exit_so_far)
}

fn change(ui: &mut Ui, args: &Args, open: &OpenArchive, lockboxes: &Lockboxes<'_>) -> Result<Exit, Failure> {
    let (src, now) = (&args.source.src, Timestamp::now());
    let failed = |error: &Error| open.failure(&args.source, None, error);
    let before = open.wait_for(lockboxes.each()).map_err(|error| failed(&error))?;
    if before.is_empty() {
        return Err(Failure::new(Kind::Missing, format!("nothing in {src} was encrypted: it has no archive key"))
            .hint("--encrypt-for of `agent`, `backup` and `copy --name` encrypts what they write from then on"));
    }
    let settings = args.source.archive.store.settings(src)?;
    let recipients = args.source.archive.keys.recipients(&args.encrypt_for, &settings)?;
    let relocked = {
        let _reading = Reading::begin("locking", 0);
        let is_way_in = open.wait_for(lockboxes.leave_a_way_in(&recipients, now)).map_err(|error| failed(&error))?;
        if !is_way_in && !args.lock_myself_out {
            return Err(Failure::new(Kind::Usage, format!("nothing that is given here would open {src} afterwards"))
                .hint("--identity names the file with the key of one who is named; --lock-myself-out does it anyway"));
        }
        match args.dry_run {
            true => open.wait_for(lockboxes.plan_relock(&recipients)),
            false => open.wait_for(lockboxes.relock(&recipients, now)),
        }
    };
    let relocked = relocked.map_err(|error| failed(&error))?;
    let keys = relocked.iter().map(|(id, relock)| match relock {
        Ok(relock) => ArchiveKeyJson::relocked(relock, &recipients, now, args.dry_run),
        Err(error) => ArchiveKeyJson::failed(*id, before.iter().find(|(before, _)| before == id), error),
    });
    let report = RecipientsReport::of(lockboxes, args.dry_run, keys.collect());
    match args.format.format {
        Format::Json => ui.json(&report)?,
        Format::Text => ui.line(report.changes())?,
    }
    tell(ui, args, &report)?;
    end(ui, &relocked, failed)
}

/// Says what a person should know who changed something.
fn tell(ui: &mut Ui, args: &Args, report: &RecipientsReport) -> Result<(), Failure> {
    if report.keys.iter().any(|key| !key.removed.is_empty()) {
        ui.note("note: who is taken away may have kept what they could open: what was written so far is no secret from them")?;
    }
    if !args.dry_run && report.keys.iter().any(|key| key.outcome == Some("relocked")) {
        ui.note("note: whoever writes to it draws new keys for those whom its own --encrypt-for names: let it name the same")?;
    }
    Ok(())
}

/// How it ends: as its first failure does if nothing opened, and otherwise with something to look at.
fn end(
    ui: &mut Ui,
    relocked: &[(KeyId, Result<Relock, Error>)],
    failed: impl Fn(&Error) -> Failure,
) -> Result<Exit, Failure> {
    let mut errors = relocked.iter().filter_map(|(_, relock)| relock.as_ref().err());
    if relocked.iter().all(|(_, relock)| relock.is_err())
        && let Some(first) = errors.next()
    {
        let first = failed(first);
        errors.try_for_each(|error| ui.failed(&failed(error)))?;
        return Err(first);
    }
    errors.try_for_each(|error| ui.failed(&failed(error)))?;
    Ok(ui.exit_so_far)
}

impl RecipientsReport {
    fn of(lockboxes: &Lockboxes<'_>, dry_run: bool, mut keys: Vec<ArchiveKeyJson>) -> Self {
        keys.sort_by(|one, other| (&one.created, &one.id).cmp(&(&other.created, &other.id)));
        let (destination, cluster) = (lockboxes.store.place().to_owned(), lockboxes.cluster.name.clone());
        Self { destination, cluster, dry_run, keys }
    }

    /// A line for each who can open each key.
    fn table(&self) -> Table {
        let mut table = Table::with_header(["KEY", "MADE", "WRITTEN WITH", "WHO CAN OPEN IT"]);
        for key in &self.keys {
            let unknown = || "unknown".to_owned();
            let until = key.superseded.as_ref().map_or("yes".into(), |since| format!("until {since}"));
            let mut first = Some([key.id.clone(), key.created.clone().unwrap_or_else(unknown), until]);
            let taken = key.taken.iter().map(|name| format!("(taken away: {name})"));
            let mut who: Vec<String> = key.recipients.iter().cloned().chain(taken).collect();
            if key.error.is_some() {
                first = Some([key.id.clone(), unknown(), unknown()]);
                who.push(unknown());
            }
            for name in who {
                let [id, made, until] = first.take().unwrap_or_default();
                table.row([id, made, until, name]);
            }
        }
        table
    }

    /// What becomes of each key.
    fn changes(&self) -> String {
        let mut lines = Vec::new();
        for key in &self.keys {
            let retires = key.superseded.is_some() && !key.removed.is_empty();
            lines.push(match key.outcome {
                Some("failed") => format!("{}: stays as it was", key.id),
                _ if key.added.is_empty() && key.removed.is_empty() => format!("{}: for the same as before", key.id),
                _ if retires => format!("{}: nothing new is written with it any more", key.id),
                _ => format!("{}:", key.id),
            });
            lines.extend(key.added.iter().map(|name| format!("  + {name}")));
            lines.extend(key.removed.iter().map(|name| format!("  - {name}")));
        }
        let done = self.keys.iter().filter(|key| key.outcome != Some("failed")).count();
        let (count, all) = (self.keys.len(), if self.keys.len() == 1 { "key" } else { "keys" });
        lines.push(match self.dry_run {
            true => {
                format!("{done} of {count} archive {all} would be locked anew\n\nnothing was done: this is a dry run")
            }
            false => format!("{done} of {count} archive {all} locked anew"),
        });
        lines.join("\n")
    }
}

impl ArchiveKeyJson {
    fn of(lockbox: &Lockbox) -> Self {
        Self {
            id: lockbox.id.to_string(),
            created: Some(shown(lockbox.created)),
            superseded: lockbox.superseded.map(shown),
            recipients: lockbox.recipients(),
            taken: lockbox.taken.clone(),
            added: Vec::new(),
            removed: Vec::new(),
            outcome: None,
            error: None,
        }
    }

    /// One that stays as it was, `before`, as far as that could be read.
    fn failed(id: KeyId, before: Option<&(KeyId, Result<Lockbox, Error>)>, error: &Error) -> Self {
        let unread = Self::unread(id, error);
        let (outcome, error) = (Some("failed"), unread.error.clone());
        match before {
            Some((_, Ok(lockbox))) => Self { outcome, error, ..Self::of(lockbox) },
            _ => Self { outcome, ..unread },
        }
    }

    /// One that cannot be read.
    fn unread(id: KeyId, error: &Error) -> Self {
        Self {
            id: id.to_string(),
            created: None,
            superseded: None,
            recipients: Vec::new(),
            taken: Vec::new(),
            added: Vec::new(),
            removed: Vec::new(),
            outcome: None,
            error: Some(in_one_line(error)),
        }
    }

    fn relocked(relock: &Relock, recipients: &[Recipient], now: Timestamp, dry_run: bool) -> Self {
        let Relock { lockbox, added, removed, retires, .. } = relock;
        let superseded = lockbox.superseded.or(retires.then_some(now));
        Self {
            superseded: superseded.map(shown),
            recipients: recipients.iter().map(Recipient::name).collect(),
            taken: relock.taken(recipients),
            added: added.clone(),
            removed: removed.clone(),
            outcome: Some(if dry_run { "relock" } else { "relocked" }),
            ..Self::of(lockbox)
        }
    }
}

fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
