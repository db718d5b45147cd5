//! What a restore of a point would read, and what it would mean.

use api::points::Proof;
use api::problem::Problem;
use api::restore::{Here, Loss, Plan, Read, Wish};
use api::status::Status;
use archive::agree::{Agreed, in_words};
use archive::proof::Level;
use archive::{Entry, Layout};
use base16ct::lower::encode_string;
use sha2::{Digest, Sha256};

use crate::http::looks::place::{find, lineage};
use crate::http::looks::points::{layout_name, proof};
use crate::http::looks::problem::of_archive;
use crate::http::looks::shelf::Shelved;

/// A plan as far as the archive decides about it.
pub(super) struct Reading {
    /// What was wished for, with what was found.
    pub(super) wish: Wish,
    /// What is read.
    pub(super) read: Read,
    loss: Option<Loss>,
    command: String,
}

/// What leads to what is wished for.
pub(super) fn read(open: &Shelved, wish: &Wish, status: &Status) -> Result<Reading, Problem> {
    let agreed = find(open, &wish.at, wish.lineage.as_deref())?;
    let plan = &agreed.plan;
    let revision = plan.target.or(plan.base.to).map(|revision| revision.0);
    let lineage = lineage(&agreed);
    let last = plan.objects().last().unwrap_or(&plan.base);
    let read = Read {
        destination: open.archive.store().place().to_owned(),
        layout: layout_name(open.archive.catalogue().layout).into(),
        lineage: lineage.clone(),
        revision,
        time: Some(last.time()),
        proof: proven(open, &agreed)?,
        full: plan.base.key.to_string(),
        deltas: plan.deltas.iter().map(|part| part.entry.key.to_string()).collect(),
        size_bytes: plan.size_bytes(),
        estimated_seconds: status.recoverable.restore_seconds,
        set_aside: in_words(&agreed.set_aside).collect(),
        notes: agreed.notes(),
    };
    // The newest point moves on while a person reads: what they agree to is the one that they saw.
    let at = revision.map_or_else(|| wish.at.clone(), |revision| revision.to_string());
    let wish = Wish { at, lineage };
    Ok(Reading { loss: loss(open, &read, status), command: command(open, &wish), wish, read })
}

impl Reading {
    /// The whole plan, with what would be done `here`, or why nothing can be.
    pub(super) fn with(self, here: Result<Here, String>) -> Plan {
        let Self { wish, read, loss, command } = self;
        let (here, why_not_here) = match here {
            Ok(here) => (Some(here), None),
            Err(why) => (None, Some(why)),
        };
        let id = id(&wish, &read, here.as_ref());
        Plan { id, wish, read, loss, here, why_not_here, command }
    }
}

/// What tells a plan from another is the point and what is done with it. Which objects lead there may change meanwhile.
fn id(wish: &Wish, read: &Read, here: Option<&Here>) -> String {
    let here = here.map(|here| (&here.data_dir, &here.steps));
    let text = format!("{:?}", (wish, &read.destination, &read.lineage, read.revision, here));
    let mut digits = encode_string(&Sha256::digest(text));
    digits.truncate(16);
    digits
}

/// The least of what is proven of anything that is read.
fn proven(open: &Shelved, agreed: &Agreed) -> Result<Proof, Problem> {
    let recorded = open.archive.proven().map_err(|error| of_archive(&error))?;
    let proven = open.archive.proven_objects(&recorded.proven, Level::Sealed).map_err(|error| of_archive(&error))?;
    let level = |entry: &Entry| proof(proven.get(&entry.key).map(|item| item.evidence.level()));
    Ok(agreed.plan.objects().map(level).min().unwrap_or_default())
}

fn loss(open: &Shelved, read: &Read, status: &Status) -> Option<Loss> {
    let archived = open.archive.catalogue().entries().filter_map(|entry| entry.to).max().map(|newest| newest.0);
    let newest = archived.max(status.capture.revision_seen)?;
    let revisions = u64::try_from(newest.saturating_sub(read.revision?)).unwrap_or_default();
    let seconds = read.time.map(|time| status.now.duration_since(time).as_secs());
    Some(Loss { revisions, newest, seconds: seconds.and_then(|seconds| u64::try_from(seconds).ok()) })
}

fn command(open: &Shelved, wish: &Wish) -> String {
    let archive = &open.archive;
    let mut command = format!("refloat restore {} --at {}", quoted(archive.store().place()), quoted(&wish.at));
    if archive.catalogue().layout == Layout::Refloat && !archive.folder().is_empty() {
        command.push_str(&format!(" --cluster {}", quoted(archive.folder())));
    }
    if let Some(lineage) = &wish.lineage {
        command.push_str(&format!(" --lineage {}", quoted(lineage)));
    }
    command + " --data-dir DIR"
}

/// Text as a shell takes it.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@=+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
