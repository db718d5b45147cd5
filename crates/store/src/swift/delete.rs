//! Deleting objects with everything they are made of.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::Value;

use super::account::Ask;
use super::faults::{fault, of_status};
use super::object::{Head, percent_decoded};
use super::{Swift, at_once};
use crate::error::Fault;
use crate::http::escape;
use crate::key::Key;

/// From so many on, deleting all at once takes fewer requests than one after the other.
const WORTH_A_BULK: usize = 3;
/// More are deleted in several requests, so that none takes too long.
const MAX_BULK: usize = 1000;

/// An object that is to go. The paths begin with the container.
struct Doomed {
    object: String,
    /// What goes after it.
    segments: Vec<String>,
}

impl Swift {
    /// Deletes objects and their segments; tells of each.
    pub(super) async fn delete_objects(&self, keys: &[Key]) -> Vec<Result<(), Fault>> {
        let looks = at_once(keys.iter().map(|key| self.look(key.as_str())).collect()).await;
        // Objects that are not there count as deleted, but not where nothing can be.
        let absence = match looks.iter().any(|look| matches!(look, Ok(None))) {
            true => self.absence().await,
            false => Fault::NotFound,
        };

        let mut doomed = Vec::with_capacity(keys.len());
        for (key, look) in keys.iter().zip(looks) {
            doomed.push(match look {
                Err(fault) => Err(fault),
                Ok(None) => not_there(&absence).map(|()| None),
                Ok(Some(head)) => self.doomed(key, &head).await.map(Some),
            });
        }
        let objects: Vec<String> = doomed.iter().flatten().flatten().map(|doomed| doomed.object.clone()).collect();
        let mut deleted = self.delete_paths(&objects).await.into_iter();
        let mut left_of = |doomed: Result<Option<Doomed>, Fault>| -> Result<Vec<String>, Fault> {
            let Some(Doomed { segments, .. }) = doomed? else { return Ok(Vec::new()) };
            deleted.next().unwrap_or(Ok(())).map(|()| segments)
        };
        let left: Vec<Result<Vec<String>, Fault>> = doomed.into_iter().map(&mut left_of).collect();

        let segments: Vec<String> = left.iter().flatten().flatten().cloned().collect();
        let mut deleted = self.delete_paths(&segments).await.into_iter();
        let mut told = |left: Result<Vec<String>, Fault>| -> Result<(), Fault> {
            let own: Vec<Result<(), Fault>> = deleted.by_ref().take(left?.len()).collect();
            own.into_iter().collect()
        };
        left.into_iter().map(&mut told).collect()
    }

    /// What of an object is deleted, and in which order: whoever dies in between must leave nothing that can be listed but
    /// not read, nor anything that nobody finds.
    async fn doomed(&self, key: &Key, head: &Head) -> Result<Doomed, Fault> {
        let object = self.path(key.as_str());
        let segments = self.segments(&head.large).await?;
        // Ours goes before its segments, so that it is whole as long as it is there. What is left is found as an upload
        // that nobody completed, and given up like one.
        if head.upload.is_some() {
            return Ok(Doomed { object, segments });
        }
        // Of the segments that others wrote only their object tells, so it goes last: it is deleted anew as long as it is there.
        self.delete_paths(&segments).await.into_iter().collect::<Result<(), Fault>>()?;
        Ok(Doomed { object, segments: Vec::new() })
    }

    /// Deletes names below the root; tells of each.
    pub(super) async fn delete_names(&self, names: &[String]) -> Vec<Result<(), Fault>> {
        let paths: Vec<String> = names.iter().map(|name| self.path(name)).collect();
        self.delete_paths(&paths).await
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
