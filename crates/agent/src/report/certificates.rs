//! Our own certificates, and from when to when they hold.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use crate::http::validity;

/// How often the files are read: of one that was renewed nothing is told any more soon after.
const EVERY: SignedDuration = SignedDuration::from_secs(60);
/// With so much left, there is time for whoever renews it by hand.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// The files, and what was in them last.
#[derive(Debug)]
pub(super) struct Certificates {
    files: Vec<PathBuf>,
    read: Option<Timestamp>,
    found: Vec<Certificate>,
}

/// Of those in one file, the one that runs out first.
#[derive(Debug, Clone)]
pub(super) struct Certificate {
    pub(super) file: PathBuf,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

impl Certificates {
    /// Nothing is read yet.
    pub(super) fn of(files: Vec<PathBuf>) -> Self {
        Self { files, read: None, found: Vec::new() }
    }

    /// As they are now, or were a moment ago. What cannot be read is told by who connects with it.
    pub(super) async fn at(&mut self, now: Timestamp) -> &[Certificate] {
        let is_fresh = self.read.is_some_and(|read| (read..read + EVERY).contains(&now));
        if !is_fresh {
            self.read = Some(now);
            self.found.clear();
            for file in &self.files {
                if let Some((from, until)) = validity::soonest_in(file).await {
                    self.found.push(Certificate { file: file.clone(), from, until });
                }
            }
        }
        &self.found
    }
}

impl Certificate {
    /// Whether it has to be renewed by now. One that is renewed by a machine lasts for hours or days: it is late when a fifth of
    /// that is left.
    pub(super) fn is_late(&self, now: Timestamp) -> bool {
        let enough = SOON.min(self.until.duration_since(self.from) / 5);
        self.until.duration_since(now) < enough
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[tokio::test]
    async fn a_certificate_that_was_renewed_is_seen_a_minute_later() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tls.crt");
        let renew = |year: i32| {
            let mut params = CertificateParams::new(vec!["a".into()]).unwrap();
            params.not_after = date_time_ymd(year, 1, 1);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            fs::write(&file, certificate.pem()).unwrap();
        };
        let mut ours = Certificates::of(vec![file.clone(), folder.path().join("missing")]);
        for (renewed, now, expected) in [
            (2027, "2026-11-22T00:00:00Z", "2027-01-01T00:00:00Z"),
            (2028, "2026-11-22T00:00:59Z", "2027-01-01T00:00:00Z"),
            (2028, "2026-11-22T00:01:00Z", "2028-01-01T00:00:00Z"),
            // The clock was set back.
            (2029, "2026-11-21T00:00:00Z", "2029-01-01T00:00:00Z"),
        ] {
            renew(renewed);
            let found = ours.at(now.parse().unwrap()).await;
            let until: Vec<String> = found.iter().map(|one| one.until.to_string()).collect();
            assert_eq!(until, [expected], "{now}");
        }
    }
}
