//! Why a drill came to nothing or showed that something is wrong, and what to do about it.

use agent::drill::DrillError;

use crate::failure::Failure;
use crate::failure::build::build_failure;
use crate::output::table::bytes;
use crate::source::out_of_view;

/// Says why the drill of SRC, which is `shown`, did not succeed.
pub fn drill_failure(shown: &str, error: &DrillError) -> Failure {
    let kind = error.kind();
    let plain = || Failure::new(kind, error.to_string());
    match error {
        DrillError::NoEtcd { .. } | DrillError::NotEtcd { .. } => etcd_failure("--etcd", error),
        DrillError::OlderEtcd { data, .. } => plain().hint(format!("--etcd names one of {data} or later")),
        DrillError::NoRoom { folder, needed_bytes, free_bytes } => Failure::new(
            kind,
            format!("{} has {} free, and {} are needed", folder.display(), bytes(*free_bytes), bytes(*needed_bytes)),
        )
        .hint("--scratch names another folder"),
        DrillError::Io { source, .. } => Failure::because(kind, format!("{error} failed"), source),
        DrillError::Build(error) => build_failure(shown, error),
        DrillError::Archive(error) => Failure::because(kind, format!("cannot read {shown}"), &**error),
        DrillError::Count(error) => out_of_view(shown, error),
        DrillError::Ended { log, .. } | DrillError::NotReady { log, .. } => {
            Failure::because(kind, error.to_string(), &Log(log))
                .hint(format!("nothing is left behind; `refloat verify {shown}` tells whether the data is sound"))
        }
        DrillError::Ask(error) => Failure::because(kind, "etcd started, and does not answer", &error.fault),
        DrillError::OtherHash { .. } | DrillError::OtherCount { .. } => plain().hint(format!(
            "{shown} does not become what it says; `refloat verify {shown}` tells more, and do not rely on it before"
        )),
        DrillError::Record(error) => Failure::because(kind, "it was drilled, and that could not be recorded", &**error)
            .hint("--no-record does without"),
        DrillError::Interrupted => plain().hint("nothing is left behind"),
        error => Failure::because(kind, "the drill failed", error),
    }
}

/// Says why no etcd can be used for drills: the one that `flag` names, or the one on the PATH.
pub fn etcd_failure(flag: &str, error: &DrillError) -> Failure {
    let failure = Failure::new(error.kind(), error.to_string());
    match error {
        DrillError::NoEtcd { .. } => failure.hint(format!(
            "{flag} names one; releases are at github.com/etcd-io/etcd, and distributions call the package etcd-server"
        )),
        _ => failure.hint(format!("{flag} names the program of a server of 3.4 to 3.7")),
    }
}

/// What a server wrote last.
#[derive(Debug)]
struct Log<'a>(&'a str);

impl std::error::Error for Log<'_> {}

impl std::fmt::Display for Log<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<&str> = self.0.lines().filter(|line| !line.is_empty()).collect();
        f.write_str(lines.last().copied().unwrap_or("it wrote nothing"))
    }
}
