//! An archive in an object store, on this machine but as far away and as slow as one likes.

use std::any::Any;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use archive::archive::{Archive, Which};
use archive::sealing::NoKeys;
use store::upload::writer;
use store::{Bag, Counting, Credentials, Key, Pieces, Put, Secret, Settings, Store, Uploader};
use testkit::stores::{FakeGcs, S3sFs, Toxic};
use tokio::runtime::Runtime;

use super::place;
use crate::Result;

/// A server with one bucket, and the line to it.
pub(super) struct Remote {
    pub(super) line: Toxic,
    url: String,
    settings: Settings,
    _server: Box<dyn Any>,
}

const BUCKET: &str = "archive";

impl Remote {
    /// Serves the archive in `folder` from S3. For every range that is asked for, this server reads all of the object.
    pub(super) fn s3(folder: &Path) -> Result<Self> {
        let server = S3sFs::start();
        place::link_all(folder, &server.bucket(BUCKET))?;
        let line = Toxic::before_url(&server.url());
        let (id, secret) = (S3sFs::ACCESS_KEY.into(), S3sFs::SECRET_KEY.into());
        let settings = Settings {
            credentials: Credentials::Keys { id, secret, token: None },
            endpoint: Some(line.url()),
            region: Some("us-east-1".into()),
            ..Settings::default()
        };
        Ok(Self { line, url: format!("s3://{BUCKET}"), settings, _server: Box::new(server) })
    }

    /// Serves the archive in `folder` from a server that answers a range of a large object as fast as one of a small
    /// one. It speaks Google's dialect of S3, and a token is had without the line.
    pub(super) fn gcs(folder: &Path) -> Result<Self> {
        let server = FakeGcs::start();
        server.bucket(BUCKET);
        let line = Toxic::before_url(&server.url());
        let key = [("serviceaccount.json".to_owned(), Secret::new(server.service_account_key()))];
        let credentials = Credentials::Bag(Bag::Values(key.into()));
        let settings = Settings { credentials, endpoint: Some(line.url()), ..Settings::default() };
        let url = format!("gs://{BUCKET}");
        let (runtime, store) = (super::ours::runtime()?, store::open(&url, &settings)?);
        upload(&runtime, &store, folder, "")?;
        Ok(Self { line, url, settings, _server: Box::new(server) })
    }

    /// Opens the archive as somebody does who has not been there before. What it is asked for is counted.
    pub(super) fn open(&self, runtime: &Runtime) -> Result<(Archive, Arc<Counting>)> {
        let counting = Arc::new(Counting::new(store::open(&self.url, &self.settings)?));
        let store = Arc::clone(&counting) as Arc<dyn Store>;
        let archive = Archive::open(store, runtime.handle().clone(), &Which::default(), Arc::new(NoKeys))?;
        Ok((archive, counting))
    }
}

/// Puts all files of `folder` below `prefix`.
fn upload(runtime: &Runtime, store: &Arc<dyn Store>, folder: &Path, prefix: &str) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().display());
        if entry.file_type()?.is_dir() {
            upload(runtime, store, &entry.path(), &format!("{name}/"))?;
            continue;
        }
        let uploader = Uploader::new(Arc::clone(store), Key::parse(name)?, Put::default(), Pieces::default());
        let (mut out, sending) = writer(uploader);
        let sending = runtime.spawn(sending);
        std::io::copy(&mut File::open(entry.path())?, &mut out)?;
        out.finish()?;
        runtime.block_on(sending)??;
    }
    Ok(())
}
