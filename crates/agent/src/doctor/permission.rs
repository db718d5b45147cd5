//! What a trial takes, as each kind of store calls it.

use store::Trial;

/// The permission that `trial` takes at `place`, a URL of a store.
pub(super) fn permission(place: &str, trial: Trial) -> String {
    let (scheme, rest) = place.split_once("://").unwrap_or(("file", place));
    match scheme {
        "s3" => of_s3(rest, trial),
        "gs" => format!("{} on the bucket: the role Storage Object Admin has it", of_google(trial)),
        "az" => format!("{} on the container: the role Storage Blob Data Contributor has it", of_azure(trial)),
        "swift" => of_swift(trial),
        _ => format!("the user who runs this to {} in {rest}", of_folder(trial)),
    }
}

fn of_s3(rest: &str, trial: Trial) -> String {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.trim_matches('/');
    let objects = if prefix.is_empty() { format!("{bucket}/*") } else { format!("{bucket}/{prefix}/*") };
    let (bucket, objects) = (format!("arn:aws:s3:::{bucket}"), format!("arn:aws:s3:::{objects}"));
    match trial {
        Trial::Put | Trial::PutIfAbsent | Trial::PutIfUnchanged | Trial::Upload => format!("s3:PutObject on {objects}"),
        Trial::Get | Trial::Head => format!("s3:GetObject on {objects}"),
        Trial::List => format!("s3:ListBucket on {bucket}"),
        Trial::GiveUp => {
            format!("s3:AbortMultipartUpload on {objects} and s3:ListBucketMultipartUploads on {bucket}")
        }
        Trial::Kept => format!("s3:GetObject, s3:GetObjectRetention and s3:GetObjectLegalHold on {objects}"),
        Trial::Retain => format!("s3:PutObjectRetention and s3:GetObjectRetention on {objects}"),
        Trial::Delete => format!("s3:DeleteObject on {objects}"),
    }
}

fn of_google(trial: Trial) -> &'static str {
    match trial {
        // Whoever replaces an object deletes what was there.
        Trial::Put | Trial::PutIfAbsent => "storage.objects.create",
        Trial::PutIfUnchanged => "storage.objects.create and storage.objects.delete",
        Trial::Upload => "storage.objects.create and storage.multipartUploads.create",
        Trial::Get | Trial::Head | Trial::Kept => "storage.objects.get",
        Trial::List => "storage.objects.list",
        Trial::GiveUp => "storage.multipartUploads.abort and storage.multipartUploads.list",
        Trial::Retain => "storage.objects.create and storage.objects.setRetention",
        Trial::Delete => "storage.objects.delete",
    }
}

fn of_azure(trial: Trial) -> &'static str {
    match trial {
        Trial::Put | Trial::PutIfAbsent | Trial::PutIfUnchanged | Trial::Upload | Trial::GiveUp => {
            "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write"
        }
        Trial::Retain => {
            "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write, and i in a shared access signature,"
        }
        Trial::Get | Trial::Head | Trial::List | Trial::Kept => {
            "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read"
        }
        Trial::Delete => "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete",
    }
}

fn of_swift(trial: Trial) -> String {
    match trial {
        Trial::Get | Trial::Head | Trial::Kept => "reading to the user in the container's X-Container-Read".into(),
        Trial::List => "listing to the user: .rlistings in the container's X-Container-Read".into(),
        _ => "writing to the user in the container's X-Container-Write".into(),
    }
}

fn of_folder(trial: Trial) -> &'static str {
    match trial {
        Trial::Get | Trial::Head | Trial::Kept => "read files",
        Trial::List => "list folders",
        _ => "make, replace and delete files and folders (chmod, chown, or a volume that is not mounted read-only)",
    }
}
