//! SRC, where it is an archive: opened at a point.

use std::path::Path;
use std::sync::Arc;

use archive::agree::Agreed;
use archive::archive::Archive;
use archive::encryption::Keyring;
use archive::encryption::unlock::Unlocking;
use archive::needs::NeededKey;
use archive::opened::OpenPoint;
use archive::plan::Wanted;
use archive::proof::Evidence;
use archive::rebuild::BuildPoint;
use archive::{At, Error, Layout};
use etcd_data::Kind;
use etcd_data::restore::RestoreError;
use jiff::Timestamp;
use store::Key;
use tokio::runtime::Runtime;

use crate::failure::Failure;
use crate::failure::archive::{Asked, archive_failure};
use crate::failure::build::unopened;
use crate::opened::Opened;
use crate::output::progress::Reading;
use crate::runtime::runtime;
use crate::source::{Location, Part, SourceArgs};

/// An archive that is open, and what waits for its store.
pub struct OpenArchive {
    /// The archive.
    pub archive: Archive,
    /// What opens what is encrypted in it.
    pub unlocking: Arc<Unlocking>,
    /// The keys at hand.
    pub keyring: Arc<Keyring>,
    /// Which point is to be planned, except for its place in the history.
    pub wanted: Wanted,
    /// What waits for the store. Gone last.
    runtime: Runtime,
}

/// A point of an archive, open for reading.
pub struct ArchivePoint {
    /// What it is made of.
    pub agreed: Agreed,
    /// The point.
    pub opened: OpenPoint,
    /// Where the archive is, as a URL.
    pub place: String,
    /// Who laid the archive out.
    pub layout: Layout,
    archive: OpenArchive,
}

/// Opens the point `at` of the archive at SRC, as far as `part` asks for.
pub fn open(source: &SourceArgs, at: &At, part: Part<'_>, scratch: &Path) -> Result<Opened, Failure> {
    open_in(open_archive(source)?, source, at, part, scratch, Vec::new())
}

fn open_in(
    archive: OpenArchive,
    source: &SourceArgs,
    at: &At,
    part: Part<'_>,
    scratch: &Path,
    set_aside: Vec<(Key, String)>,
) -> Result<Opened, Failure> {
    let _reading = Reading::begin("opening", 0);
    let point = archive.point(at, part, scratch, set_aside);
    let (agreed, opened) = point.map_err(|error| archive.failure(source, Some(at), &error))?;
    let (place, layout) = (archive.archive.store().place().to_owned(), archive.archive.catalogue().layout);
    Ok(Opened::of_point(source.src.to_string(), ArchivePoint { agreed, opened, place, layout, archive }))
}

/// Opens the archive at SRC.
pub fn open_archive(source: &SourceArgs) -> Result<OpenArchive, Failure> {
    let (archive, unknown) = open_damaged_archive(source)?;
    unknown.map_or(Ok(()), |error| Err(archive.failure(source, None, &error))).map(|()| archive)
}

/// Opens the archive at SRC also if what tells whose it is cannot be used, and says why not.
pub fn open_damaged_archive(source: &SourceArgs) -> Result<(OpenArchive, Option<Error>), Failure> {
    source.require_no_log_place()?;
    let args = &source.archive;
    let _reading = Reading::begin("listing", 0);
    let runtime = runtime()?;
    let failed = |error: Error| archive_failure(&Asked { source, at: None, archive: None }, &error);
    let url = url(&source.src)?;
    let settings = args.store.settings(&source.src)?;
    let keyring = Arc::new(args.keys.keyring(&settings)?);
    let store = store::open(&url, &settings).map_err(|error| failed(error.into()))?;
    let opened = Archive::open_damaged(store, runtime.handle().clone(), &args.which(), keyless());
    let (mut archive, unknown) = opened.map_err(failed)?;
    let unlocking = archive.unlock_with(Arc::clone(&keyring));
    let wanted = Wanted { lineage: args.lineage.clone(), ..Wanted::default() };
    Ok((OpenArchive { archive, unlocking, keyring, wanted, runtime }, unknown))
}

fn keyless() -> Arc<archive::sealing::NoKeys> {
    Arc::new(archive::sealing::NoKeys)
}

pub(crate) fn url(src: &Location) -> Result<String, Failure> {
    let path = match src {
        Location::Remote(url) => return Ok(url.clone()),
        Location::Path(path) => path,
    };
    let found = path.metadata().map_err(|error| unopened(path, &error))?;
    if !found.is_dir() {
        return Err(Failure::new(Kind::Usage, format!("{} is a file, and no archive", path.display()))
            .hint("an archive is a folder, or a place in a store: give that"));
    }
    let absolute = std::path::absolute(path).ok();
    let text = absolute.as_deref().and_then(Path::to_str);
    let unusual = || Failure::new(Kind::Usage, format!("{} is no archive: its path is not UTF-8", path.display()));
    text.map(|text| format!("file://{text}")).ok_or_else(unusual)
}

impl OpenArchive {
    fn point(
        &self,
        at: &At,
        part: Part<'_>,
        scratch: &Path,
        set_aside: Vec<(Key, String)>,
    ) -> Result<(Agreed, OpenPoint), Error> {
        let BuildPoint { agreed, opened } = match part {
            Part::Whole => self.archive.open_point(&self.wanted, at, scratch, set_aside),
            Part::Keys(keys) => self.archive.open_point_for(&self.wanted, at, keys, scratch, set_aside),
        }?;
        Ok((agreed, opened))
    }

    /// Says why something with it failed.
    pub fn failure(&self, source: &SourceArgs, at: Option<&At>, error: &Error) -> Failure {
        let archive = Some(self);
        archive_failure(&Asked { source, at, archive }, error)
    }

    /// Does something that waits for the store.
    pub fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

impl ArchivePoint {
    /// The archive that it is a point of.
    pub fn archive(&self) -> &OpenArchive {
        &self.archive
    }

    /// What a person has to know before they rely on what is shown of it.
    pub fn notes(&self) -> Vec<String> {
        self.agreed.notes()
    }

    /// Opens the point `at` in another way, as far as `part` asks for, without the object whose fault `error` is. Nothing if
    /// it is no object's.
    pub fn around(
        self,
        error: &RestoreError,
        source: &SourceArgs,
        at: &At,
        part: Part<'_>,
        scratch: &Path,
    ) -> Option<Result<Opened, Failure>> {
        let Self { archive, agreed, opened, .. } = self;
        let set_aside = agreed.set_aside_after(error)?;
        // What was fetched for the first way goes before the second needs room.
        drop((agreed, opened));
        Some(open_in(archive, source, at, part, scratch, set_aside))
    }

    /// What the archive does not tell of it.
    pub fn unknown(&self) -> Vec<String> {
        self.opened.unknown.iter().map(|unknown| format!("the archive does not tell {unknown}")).collect()
    }

    /// Whether it is less than what was asked for: later changes are or were there, and nothing leads to them.
    pub fn falls_short(&self) -> bool {
        self.agreed.falls_short()
    }

    /// How many revisions the archive saw after it, as far as names tell.
    pub fn revisions_after(&self) -> u64 {
        let newest = self.archive.archive.catalogue().highest();
        let after = newest.map_or(0, |newest| newest.0.saturating_sub(self.opened.revision.0));
        u64::try_from(after).unwrap_or_default()
    }

    /// Whether the archive went on after it though no higher revision shows that: a later lineage may begin lower, and names
    /// of other systems tell no revision.
    pub fn went_on_unnumbered(&self) -> bool {
        let base = &self.agreed.plan.base;
        let mut entries = self.archive.archive.catalogue().entries();
        entries.any(|entry| entry.lineage > base.lineage || (entry.to.is_none() && entry.time() > base.time()))
    }

    /// Records what was shown of everything that it needs.
    pub fn record(&self, evidence: &Evidence) -> Result<Vec<Key>, Error> {
        self.archive.archive.record_of_point(&self.agreed, evidence, Timestamp::now())
    }

    /// The archive keys that open what it is made of; none if nothing of it is encrypted.
    pub fn needed_keys(&self, source: &SourceArgs) -> Result<Vec<NeededKey>, Failure> {
        let keys = self.archive.archive.needed_keys(&self.agreed);
        keys.map_err(|error| self.archive.failure(source, None, &error))
    }

    /// How many objects it is made of, and their bytes.
    pub fn size(&self) -> (usize, u64) {
        (self.agreed.plan.objects().count(), self.agreed.plan.size_bytes())
    }
}

/// The name of a layout, as `--layout` takes it.
pub fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Refloat => "refloat",
        Layout::Etcdbrctl => "etcdbrctl",
        Layout::K3s => "k3s",
        Layout::OpenShift => "openshift",
    }
}
