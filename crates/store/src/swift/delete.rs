//! Deleting objects with everything they are made of.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::Value;

use super::account::Ask;
use super::faults::{fault, of_status};
use super::object::{Large, percent_decoded};
use super::{Swift, at_once, names};
use crate::error::Fault;
use crate::http::escape;
use crate::key::Key;

/// From so many on, deleting all at once takes fewer requests than one after the other.
const WORTH_A_BULK: usize = 3;
/// More are deleted in several requests, so that none takes too long.
const MAX_BULK: usize = 1000;

impl Swift {
    /// Deletes objects and their segments; tells of each.
    pub(super) async fn delete_objects(&self, keys: &[Key]) -> Vec<Result<(), Fault>> {
        let looks = at_once(keys.iter().map(|key| self.look(key.as_str())).collect()).await;
        // Objects that are not there count as deleted, but not where nothing can be.
        let absence = match looks.iter().any(|look| matches!(look, Ok(None))) {
            true => self.absence().await,
            false => Fault::NotFound,
        };

        let mut results: Vec<Option<Result<(), Fault>>> = Vec::with_capacity(keys.len());
        let mut whole = Vec::new();
        for (key, look) in keys.iter().zip(looks) {
            let made_of = match look {
                Err(fault) => Err(fault),
                Ok(None) => {
                    results.push(Some(not_there(&absence)));
                    continue;
                }
                Ok(Some(head)) => self.delete_segments(&head.large).await,
            };
            match made_of {
                Err(fault) => results.push(Some(Err(fault))),
                Ok(()) => {
                    whole.push(self.path(key.as_str()));
                    results.push(None);
                }
            }
        }
        let mut deleted = self.delete_paths(&whole).await.into_iter();
        results.into_iter().map(|result| result.or_else(|| deleted.next()).unwrap_or(Ok(()))).collect()
    }

    /// Deletes names below the root; tells of each.
    pub(super) async fn delete_names(&self, names: &[String]) -> Vec<Result<(), Fault>> {
        let paths: Vec<String> = names.iter().map(|name| self.path(name)).collect();
        self.delete_paths(&paths).await
    }

    /// Deletes what an object is made of, apart from itself.
    async fn delete_segments(&self, large: &Large) -> Result<(), Fault> {
        let segments = self.segments(large).await?;
        self.delete_paths(&segments).await.into_iter().collect()
    }

    /// The paths of what an object is made of, apart from itself.
    pub(super) async fn segments(&self, large: &Large) -> Result<Vec<String>, Fault> {
        match large {
            Large::No => Ok(Vec::new()),
            Large::Static { name } => self.segments_of_manifest(&self.path(name)).await,
            Large::Dynamic { container, prefix } => self.segments_of_prefix(container, prefix).await,
        }
    }

    async fn segments_of_manifest(&self, path: &str) -> Result<Vec<String>, Fault> {
        let query = [("multipart-manifest", "get"), ("format", "raw")];
        let answer = self.account.ask(Method::GET, Ask { path, query: &query, ..Ask::default() }).await?;
        match answer.status.as_u16() {
            200 => {}
            // Somebody else was quicker.
            404 => return Ok(Vec::new()),
            _ => return Err(fault(&answer)),
        }
        let nonsense = || Fault::Nonsense("a manifest that lists no segments".into());
        let manifest: Value = serde_json::from_slice(&answer.body).map_err(|_| nonsense())?;
        let segments = manifest.as_array().ok_or_else(nonsense)?.iter();
        // Some clusters know one form of a manifest only. Bytes within it have no path.
        let path = |segment: &Value| Some(segment.get("path").or(segment.get("name"))?.as_str()?.to_owned());
        Ok(segments.filter_map(path).collect())
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
                _ => return Ok(segments),
            }
        }
    }

    /// Deletes plainly what is at each path; what is not there counts as deleted.
    pub(super) async fn delete_paths(&self, paths: &[String]) -> Vec<Result<(), Fault>> {
        let bulk = match paths.len() {
            ..WORTH_A_BULK => None,
            _ => match self.account.abilities().await {
                Ok(abilities) => abilities.bulk_delete,
                Err(fault) => return all(paths, &fault),
            },
        };
        let Some(at_once) = bulk else {
            return at_once(paths.iter().map(|path| self.delete_path(path)).collect()).await;
        };
        let mut results = Vec::with_capacity(paths.len());
        for some in paths.chunks(at_once.min(MAX_BULK)) {
            match self.delete_bulk(some).await {
                Ok(told) => results.extend(told),
                Err(fault) => results.extend(all(some, &fault)),
            }
        }
        results
    }

    async fn delete_path(&self, path: &str) -> Result<(), Fault> {
        let answer = self.account.ask(Method::DELETE, Ask { path, ..Ask::default() }).await?;
        match answer.status.as_u16() {
            200..300 | 404 => Ok(()),
            _ => Err(fault(&answer)),
        }
    }

    async fn delete_bulk(&self, paths: &[String]) -> Result<Vec<Result<(), Fault>>, Fault> {
        let lines: Vec<String> = paths.iter().map(|path| escape(path, true)).collect();
        let ask = Ask {
            query: &[("bulk-delete", "")],
            headers: &[("content-type", "text/plain"), ("accept", "application/json")],
            body: lines.join("\n").into(),
            ..Ask::default()
        };
        let answer = self.account.ask(Method::POST, ask).await?;
        match answer.status.as_u16() {
            200..300 => told(&answer.body, paths),
            _ => Err(fault(&answer)),
        }
    }
}

/// What the report of a deletion, which is always answered with 200, says of each path.
fn told(report: &[u8], paths: &[String]) -> Result<Vec<Result<(), Fault>>, Fault> {
    let nonsense = || Fault::Nonsense("a deletion without a report".into());
    let report: Value = serde_json::from_slice(report).map_err(|_| nonsense())?;
    let text = |name: &str| report.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("Response Status").is_empty() {
        return Err(nonsense());
    }
    let mut errors = BTreeMap::new();
    for error in report.get("Errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default() {
        if let [Value::String(path), Value::String(status)] = error.as_array().map(Vec::as_slice).unwrap_or_default() {
            errors.insert(percent_decoded(path), status.clone());
        }
    }
    // It says more where it gave up before the end; then nobody knows of the others.
    let gave_up = text("Response Body");
    let each = paths.iter().map(|path| match errors.get(path) {
        Some(status) => Err(of_words(status)),
        None if gave_up.is_empty() => Ok(()),
        None => Err(Fault::Unavailable { what: gave_up.to_owned(), source: None }),
    });
    Ok(each.collect())
}

/// What `409 Conflict` means.
fn of_words(status: &str) -> Fault {
    let number = status.split(' ').next().and_then(|number| number.parse().ok());
    number
        .and_then(|number| of_status(number, status))
        .unwrap_or_else(|| Fault::Unavailable { what: status.to_owned(), source: None })
}

/// What it means for an object that it was not found, where `absence` is why.
fn not_there(absence: &Fault) -> Result<(), Fault> {
    match absence {
        Fault::NotFound => Ok(()),
        other => Err(likewise(other)),
    }
}

/// The same fault for every path.
fn all(paths: &[String], fault: &Fault) -> Vec<Result<(), Fault>> {
    paths.iter().map(|_| Err(likewise(fault))).collect()
}

fn likewise(fault: &Fault) -> Fault {
    match fault {
        Fault::NoSuchPlace => Fault::NoSuchPlace,
        Fault::Credentials(what) => Fault::Credentials(what.clone()),
        Fault::Forbidden(what) => Fault::Forbidden(what.clone()),
        Fault::Throttled { after } => Fault::Throttled { after: *after },
        other => Fault::Unavailable { what: other.to_string(), source: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_of_each() {
        let paths = ["/c/a", "/c/b ü", "/c/d"].map(str::to_owned);
        let show = |report: &str| match told(report.as_bytes(), &paths) {
            Ok(each) => each
                .iter()
                .map(|one| one.as_ref().map_or_else(|fault| format!("{fault:?}"), |()| "ok".into()))
                .collect(),
            Err(fault) => vec![format!("{fault:?}")],
        };
        assert_eq!(
            show(r#"{"Response Status":"200 OK","Response Body":"","Number Deleted":3,"Errors":[]}"#),
            ["ok"; 3]
        );
        let one =
            r#"{"Response Status":"400 Bad Request","Response Body":"","Errors":[["/c/b%20%C3%BC","403 Forbidden"]]}"#;
        assert_eq!(show(one), ["ok", r#"Forbidden("403 Forbidden")"#, "ok"]);
        let cut = r#"{"Response Status":"400 Bad Request","Response Body":"Max delete failures exceeded","Errors":[["/c/a","500 Oops"]]}"#;
        assert!(show(cut).iter().all(|one| one.starts_with("Unavailable")));
        for nonsense in ["", "[]", "{}"] {
            assert!(show(nonsense)[0].starts_with("Nonsense"), "{nonsense}");
        }
    }
}
