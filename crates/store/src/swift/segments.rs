//! What objects are made of, apart from themselves.

use reqwest::Method;
use serde_json::Value;

use super::account::Ask;
use super::faults::fault;
use super::object::{Large, plain_tag};
use super::{Swift, at_once, names};
use crate::error::Fault;
use crate::key::Key;

impl Swift {
    /// The paths of what an object is made of, apart from itself.
    pub(super) async fn segments(&self, large: &Large) -> Result<Vec<String>, Fault> {
        match large {
            Large::No => Ok(Vec::new()),
            Large::Static { name } => self.segments_of_manifest(&self.path(name)).await,
            Large::Dynamic { container, prefix } => self.segments_of_prefix(container, prefix).await,
        }
    }

    async fn segments_of_manifest(&self, path: &str) -> Result<Vec<String>, Fault> {
        Ok(self.manifest_at(path).await?.iter().filter_map(path_of).collect())
    }

    /// The entries of a manifest; none if it is not there.
    async fn manifest_at(&self, path: &str) -> Result<Vec<Value>, Fault> {
        let query = [("multipart-manifest", "get"), ("format", "raw")];
        let answer = self.account.ask(Method::GET, Ask { path, query: &query, ..Ask::default() }).await?;
        match answer.status.as_u16() {
            200 => serde_json::from_slice(&answer.body)
                .map_err(|_| Fault::Nonsense("a manifest that lists no segments".into())),
            // Somebody else was quicker.
            404 => Ok(Vec::new()),
            _ => Err(fault(&answer)),
        }
    }

    async fn segments_of_prefix(&self, container: &str, prefix: &str) -> Result<Vec<String>, Fault> {
        let path = format!("/{container}");
        let mut segments: Vec<String> = Vec::new();
        let mut marker = String::new();
        loop {
            let query = [("prefix", prefix), ("marker", &marker)];
            let answer = self.account.ask(Method::GET, Ask { path: &path, query: &query, ..Ask::default() }).await?;
            match answer.status.as_u16() {
                200..300 | 404 => {}
                _ => return Err(fault(&answer)),
            }
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let names = if answer.status == 404 { "" } else { text.as_str() };
            let meant = names.lines().filter(|name| names::is_meant(prefix, name));
            segments.extend(meant.map(|name| format!("{path}/{name}")));
            match names.lines().next_back() {
                Some(last) if last > marker.as_str() => marker = last.to_owned(),
                // What was not listed would be left behind for good.
                Some(last) => {
                    return Err(Fault::Nonsense(format!("a listing after {marker:?} that ends with {last:?}")));
                }
                None => return Ok(segments),
            }
        }
    }

    /// Why a large object is not delivered. Swift says the same where a segment is gone and where its disk does not answer
    /// just now; only the first stays so, and only that may be called damage.
    pub(super) async fn undelivered(&self, key: &Key) -> Fault {
        let segments = match self.manifest_at(&self.path(key.as_str())).await {
            Ok(segments) => segments,
            Err(fault) => return fault,
        };
        let looks = at_once(segments.iter().map(|segment| self.look_at_segment(segment)).collect()).await;
        match looks.into_iter().find_map(Result::err) {
            Some(fault) => fault,
            None => {
                let what = "not all segments of this large object were reached".into();
                Fault::Unavailable { what, source: None }
            }
        }
    }

    /// Whether a segment is there and is what the manifest says.
    async fn look_at_segment(&self, segment: &Value) -> Result<(), Fault> {
        let Some(path) = path_of(segment) else { return Ok(()) };
        let answer = self.account.ask(Method::HEAD, Ask { path: &path, ..Ask::default() }).await?;
        let written = segment.get("etag").or(segment.get("hash")).and_then(Value::as_str).map(plain_tag);
        let found = answer.header("etag").map(plain_tag);
        match answer.status.as_u16() {
            200..300 if written.is_none() || found.is_none() || found == written => Ok(()),
            200..300 => Err(Fault::Damaged(format!("its segment {path} was changed"))),
            404 => Err(Fault::Damaged(format!("its segment {path} is gone"))),
            _ => Err(fault(&answer)),
        }
    }
}

/// Where a segment is. Some clusters know one form of a manifest only. Bytes within a manifest have no path.
fn path_of(segment: &Value) -> Option<String> {
    Some(segment.get("path").or(segment.get("name"))?.as_str()?.to_owned())
}
