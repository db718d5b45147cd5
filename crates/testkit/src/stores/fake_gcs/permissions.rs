//! What a request takes permission for, and how it is refused who has it not.

use axum::http::Method;
use axum::response::Response;

use super::Asked;
use super::bucket::xml;
use super::xml::{document, element};

/// The permissions that a request takes, by their names in IAM. To write over something is to delete it as well.
pub(super) fn needed(asked: &Asked, is_there: bool) -> Vec<&'static str> {
    let has = |parameter: &str| asked.query.contains_key(parameter);
    let writing = match is_there {
        true => vec!["storage.objects.create", "storage.objects.delete"],
        false => vec!["storage.objects.create"],
    };
    match (&asked.method, asked.key.is_empty()) {
        (&Method::GET, true) if has("uploads") => vec!["storage.multipartUploads.list"],
        (&Method::GET, true) => vec!["storage.objects.list"],
        // Nobody else is told what is not there.
        (&Method::GET | &Method::HEAD, false) if !is_there => vec!["storage.objects.get", "storage.objects.list"],
        (&Method::GET | &Method::HEAD, false) => vec!["storage.objects.get"],
        (&Method::PATCH, false) => vec!["storage.objects.update"],
        (&Method::DELETE, false) if has("uploadId") => vec!["storage.multipartUploads.abort"],
        (&Method::DELETE, false) => vec!["storage.objects.delete"],
        (&Method::PUT, false) if has("uploadId") => vec!["storage.multipartUploads.create"],
        (&Method::POST, false) if has("uploads") => vec!["storage.multipartUploads.create"],
        (&Method::PUT | &Method::POST, false) => writing,
        _ => Vec::new(),
    }
}

/// What is told to whoever has not `permission`.
pub(super) fn refused(permission: &str) -> Response {
    let details = format!(
        "backup@project.iam.gserviceaccount.com does not have {permission} access to the Google Cloud Storage object. \
         Permission '{permission}' denied on resource (or it may not exist)."
    );
    let inner = element("Code", "AccessDenied") + &element("Message", "Access denied.") + &element("Details", &details);
    xml(403, document("Error", &inner))
}
