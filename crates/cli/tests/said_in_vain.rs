//! What is said and would come to nothing is refused, with what to do about it, before anything is opened or made.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

#[path = "desk/alone.rs"]
mod alone;
#[path = "desk/own_archive.rs"]
mod own_archive;

use alone::{Original, fail, succeed};

/// Requires that `args` are refused as what makes no sense, because of `why`, and with `remedy`.
#[track_caller]
fn require_refused(args: &[&str], why: &str, remedy: &str) {
    let (code, said) = fail(args, &[]);
    assert_eq!(code, 2, "{args:?}: {said}");
    assert!(said.contains(why) && said.contains(remedy), "{args:?} does not say {why:?} and {remedy:?}:\n{said}");
}

#[test]
fn of_a_store_where_there_is_none() {
    let original = Original::new();
    let (archive, out) = (original.archive(), original.beside("out.db"));
    let (archive, out) = (archive.as_str(), out.to_str().unwrap());
    for flag in [
        &["--dest-endpoint", "http://minio:9000"][..],
        &["--dest-region", "eu-1"],
        &["--dest-profile", "backup"],
        &["--dest-credentials", "/secret"],
        &["--dest-flavour", "minio"],
        &["--dest-path-style", "true"],
        &["--dest-conditional-writes", "true"],
        &["--dest-sse", "s3"],
        &["--dest-storage-class", "COLD"],
        &["--dest-ca-file", "ca.pem"],
        &["--dest-insecure-skip-tls-verify"],
    ] {
        let why = format!("{} says nothing to {out}", flag[0]);
        require_refused(&[&["export", archive, "--output", out][..], flag].concat(), &why, "it is for S3");
        require_refused(&[&["copy", archive, out][..], flag].concat(), &why, "it is for S3");
    }
    assert!(!original.beside("out.db").exists());
    let minio = ["--endpoint", "http://minio:9000"];
    for command in [&["inspect"][..], &["verify"], &["prune", "--keep-last", "1"], &["restore", "--data-dir", out]] {
        require_refused(&[command, &[archive], &minio].concat(), "--endpoint says nothing to", "leave it away");
    }
    let agent = ["agent", archive, "--listen", "127.0.0.1:0"];
    require_refused(&[&agent[..], &minio].concat(), "--endpoint says nothing to", "leave it away");
    let copy = [&["copy", archive, "s3://backups/prod"][..], &minio].concat();
    require_refused(&copy, "--endpoint is said of", "--dest-endpoint says it of s3://backups/prod");
    let export = ["export", archive, "--output", "s3://backups/k3s", "--for", "k3s"];
    require_refused(&[&export[..], &minio].concat(), "--endpoint is said of", "--dest-endpoint");
}

#[test]
fn of_an_archive_where_there_is_a_file() {
    for flag in [&["--cluster", "prod"][..], &["--key-file", "key"], &["--passphrase-file", "secret"]] {
        let args = [&["hashkv", "snap.db"][..], flag].concat();
        require_refused(&args, flag[0], "an archive is the folder");
    }
    require_refused(&["restore", "snap.db", "--data-dir", "x", "--whole-history"], "--whole-history", "anyway");
    // Said of two, it may be for either of them, and for neither it is for none.
    let endpoint = ["--endpoint", "http://127.0.0.1:1", "--patience", "1"];
    let other = [&["diff", "snap.db", "--other", "other.db"][..], &endpoint].concat();
    require_refused(&other, "--endpoint says nothing to snap.db", "leave it away");
    let (code, said) = fail(&[&["diff", "snap.db", "--other", "s3://b/x"][..], &endpoint].concat(), &[]);
    assert!(code == 3 && said.contains("cannot open snap.db"), "{code}: {said}");
}

#[test]
fn of_what_another_flag_rules_out() {
    for (args, why, remedy) in [
        (&["prune", "x", "--policy", "exponential", "--keep-last", "3"][..], "--keep-last", "leave one of them away"),
        (&["prune", "x", "--policy", "limit-based", "--keep-size", "1GiB"], "--keep-size", "leave one of them away"),
        (&["prune", "x", "--keep-last", "1", "--lineage", LINEAGE], "--lineage says nothing", "all histories"),
        (&["recipients", "x", "--lineage", LINEAGE], "--lineage says nothing", "all histories"),
        (&["export", "x", "--output", "y", "--for", "openshift", "--node", "n"], "--node", "leave it away"),
        (&["export", "x", "--output", "y", "--node", "n"], "--for", "--help"),
        (&["restore", "x", "--data-dir", "y", "--whole-history", "--bump-revision", "9"], "--bump-revision", "leave"),
        (&["restore", "x", "--data-dir", "y", "--bump-revision", "0", "--mark-compacted"], "keeps it", "leave"),
        (&["restore", "x", "--data-dir", "y", "--bump-revision", "0", "--mark-compacted=true"], "keeps it", "leave"),
        (&["restore", "x", "--data-dir", "y", "--mark-compacted=true"], "--bump-revision", "--help"),
        (&["doctor", "x", "--etcd-server-name", "etcd"], "not where it is", "--endpoints names it"),
        (&["doctor", "--endpoints", "http://127.0.0.1:1", "--endpoint", "http://minio:9000"], "--endpoint", "ARCHIVE"),
        (&["agent", "x", "--etcd-server-name", "etcd"], "--etcd-server-name", "https://"),
        (&["agent", "x", "--defragment-least", "1GiB"], "--defragment-waste", "--help"),
        (&["agent", "x", "--high-water", "always"], "--etcd-config", "--help"),
        (&["wrap", "--agent-cert", "a", "--agent-key", "b", "--", "etcd"], "--agent <URL>", "--help"),
        (&["copy", "x", "y", "--name", "prod", "--lineage", LINEAGE], "cannot be used with", "--help"),
    ] {
        require_refused(args, why, remedy);
    }
}

/// What is said as etcdutl is told it is understood, also that a flag is off.
#[test]
fn of_what_etcdutl_is_told_nothing_is() {
    let original = Original::new();
    let (snapshot, data_dir) = (original.beside("snap.db"), original.beside("data"));
    let (snapshot, data_dir) = (snapshot.to_str().unwrap(), data_dir.to_str().unwrap());
    succeed(&["export", &original.archive(), "--output", snapshot], &[]);
    let mut bytes = std::fs::read(snapshot).unwrap();
    // The digest is what a snapshot ends with.
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(snapshot, bytes).unwrap();
    let restoring = ["restore", "--data-dir", data_dir, "--dry-run"];
    for flags in [
        &["--skip-hash-check"][..],
        &["--skip-hash-check=true"],
        &["--skip-hash-check", "--mark-compacted=false"],
        &["--skip-hash-check", "--bump-revision", "0", "--mark-compacted=false"],
        &["--skip-hash-check", "--bump-revision", "5", "--mark-compacted=true"],
        &["--skip-hash-check", "--initial-memory-map-size", "10737418240"],
    ] {
        // A bare flag takes no part of what follows.
        succeed(&[&restoring[..], flags, &[snapshot]].concat(), &[]);
    }
    for flags in [&[][..], &["--skip-hash-check=false"]] {
        let (code, said) = fail(&[&restoring[..], flags, &[snapshot]].concat(), &[]);
        assert!(code == 4 && said.contains("its digest differs"), "{flags:?}: {code}: {said}");
    }
}

const LINEAGE: &str = "20261121T093000Z-1a2b3c4d";

/// A number without a unit, no time at all, and nonsense are told apart, and the example fits the flag.
#[test]
fn of_time_in_words_that_are_no_time() {
    for (args, why, remedy) in [
        (&["agent", "x", "--seal-after", "5"][..], "it has no unit", "`5s`"),
        (&["agent", "x", "--seal-after", "soon"], "no span of time", "as in `5s`"),
        (&["agent", "x", "--seal-after", "0s"], "no time at all", "as in `5s`"),
        (&["agent", "x", "--window", "week"], "no span of time", "as in `7d`"),
        (&["agent", "x", "--takeover", "x"], "no span of time", "as in `8s`"),
        (&["backup", "x", "--wait", "long"], "no span of time", "as in `15s`"),
        (&["merge", "x", "--windows", "5"], "it has no unit", "`5m`"),
        (&["merge", "x", "--full-window", "1 month"], "months and years", "days or weeks"),
        (&["prune", "x", "--merged-grace", "x"], "no span of time", "as in `1h`"),
    ] {
        require_refused(args, why, remedy);
    }
}

/// What a beginner types for an address, a place or a number, and what they are told to type.
#[test]
fn of_what_is_nearly_right() {
    for (args, why, remedy) in [
        (&["agent", "x", "--listen", "8379"][..], "no address with a port", "127.0.0.1:8379"),
        (&["standalone", "--listen", ":8379"], "no address with a port", "127.0.0.1:8379"),
        (&["wrap", "--listen", "localhost", "--", "etcd"], "no address with a port", "0.0.0.0:8379"),
        (&["inspect", "s3:/backups/prod"], "two slashes", "s3://backups/prod"),
        (&["inspect", "gcs://backups/prod"], "Google", "gs://backups/prod"),
        (&["backup", "https://minio:9000/backups"], "leads to no store", "--endpoint"),
        (&["inspect", "s3://b", "--patience", "soon"], "no span of time", "`30s`"),
        (&["inspect", "s3://b", "--max-bytes-per-second", "fast"], "it is no size", "`10GiB`"),
        (&["copy", "x", "y", "--dest-flavour", "wasabi"], "none of aws", "--help"),
        (&["export", "x", "--output", "y", "--for", "k3s", "--container", "tar"], "invalid value", "zip"),
    ] {
        require_refused(args, why, remedy);
    }
}
