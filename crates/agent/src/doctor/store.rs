//! The store: everything that is asked of it, tried with objects that are gone afterwards, but for one that it is told to keep.

use std::time::Duration;

use archive::fence::Terms;
use store::probe::probe;
use store::{Abilities, Fault, Probe, Retention, Store, StoreClock, Trial, Tried};

use super::clock;
use super::finding::{Check, Finding};
use super::permission::permission;
use super::remedy::to_trust;
use crate::pen::USUAL_TERM;

/// The folder for what is tried. No layout of an archive has one of this name.
const FOLDER: &str = "refloat-doctor";

/// From so long a request on, somebody should know.
const SLOW: Duration = Duration::from_secs(2);

/// What was seen of a store.
#[derive(Debug)]
struct Seen {
    place: String,
    told: Abilities,
    /// For how long it is told to keep what lasts.
    retains: Option<Duration>,
    probe: Probe,
}

/// Tries it, no longer than `within` for each thing.
pub(super) async fn examine(store: &dyn Store, within: Duration) -> Vec<Finding> {
    match probe(store, FOLDER, within).await {
        Ok(probe) => {
            let (place, told, retains) = (store.place().to_owned(), store.abilities(), store.retains());
            judge(&Seen { place, told, retains, probe })
        }
        Err(error) => vec![Check::of("reach").unknown(error.to_string())],
    }
}

fn judge(seen: &Seen) -> Vec<Finding> {
    let Seen { place, told, probe, .. } = seen;
    // A store that nobody gets to fails at everything, in the same way: that is said once.
    let unreached = probe.results.iter().find_map(|tried| Some((tried, tried.result.as_ref().err()?)));
    if let Some((tried, error)) = unreached
        && let Some(remedy) = unreached_remedy(&error.fault)
        && probe.results.iter().all(|tried| tried.result.is_err())
    {
        return vec![Check::of("reach").on(place).took(tried.took).broken(error.fault.to_string(), remedy)];
    }
    let mut findings = vec![Check::of("reach").on(place).ok("it answers, and knows who asks")];
    findings.extend(probe.results.iter().map(|tried| match (tried.trial, &tried.result) {
        (Trial::Kept, Ok(())) => of_place(seen, tried),
        (Trial::Retain, Ok(())) => of_retaining(probe, tried),
        _ => of_trial(place, tried),
    }));
    findings.extend(one_writer(told));
    if !probe.left.is_empty() {
        let left: Vec<String> = probe.left.iter().map(ToString::to_string).collect();
        findings.push(
            Check::of("leftovers").advice(
                format!("{} could not be deleted", left.join(" and ")),
                "they are nobody's: delete them by hand",
            ),
        );
    }
    // A folder's clock is ours.
    if let Some(StoreClock { sent, acknowledged, written }) = probe.clock.filter(|_| !place.starts_with("file:")) {
        findings.push(clock::judge(Check::of("clock"), "the store", written, sent, acknowledged));
    }
    findings
}

fn of_trial(place: &str, tried: &Tried) -> Finding {
    let check = Check::of(tried.trial.name()).took(tried.took);
    let Err(error) = &tried.result else {
        return match tried.took > SLOW {
            true => check.warning(
                format!("it works, and took {:.1} s", tried.took.as_secs_f64()),
                "what is sealed waits for this: use a store nearer by, or look at the network",
            ),
            false => check.ok("it works"),
        };
    };
    let seen = error.fault.to_string();
    match (&error.fault, tried.trial) {
        (Fault::Unable(_), Trial::Retain) => check.broken(seen, format!("{}, or leave --retain out", keeper(place))),
        // What S3 may not tell, it leaves out.
        (Fault::Nonsense(_), Trial::Retain) => {
            check.broken(seen, format!("{}; and allow {}", keeper(place), permission(place, Trial::Retain)))
        }
        (Fault::Invalid(_), Trial::Retain) if !place.starts_with("s3:") => {
            check.broken(seen, format!("{}, or leave --retain out", keeper(place)))
        }
        (Fault::Retained { .. }, Trial::Delete) => check.advice(
            format!("the place keeps every object: {seen}"),
            "`refloat prune` deletes what is due when that time is over",
        ),
        (fault, Trial::GiveUp) => check.warning(
            fault.to_string(),
            format!("uploads that were broken off stay there and cost: allow {}", permission(place, Trial::GiveUp)),
        ),
        (Fault::Forbidden(_), trial) => check.broken(seen, format!("allow {}", permission(place, trial))),
        // Whoever writes says so again and again, and here that is an object each time.
        (Fault::Retained { .. }, Trial::PutIfUnchanged) => {
            let terms = Terms::lasting(USUAL_TERM).renewed_seldom();
            check.ok(format!(
                "nothing that is there is replaced, so the right to write lasts longer: {} objects a day, and an agent that is \
                 gone is followed after {} min",
                terms.claims_a_day(),
                terms.lasts.as_secs() / 60
            ))
        }
        (Fault::Invalid(_), _) if place.starts_with("s3:") => check.broken(
            seen,
            "--flavour says whose S3 it is, and with it which checksums it knows; if that is right, look at what the server \
             logs",
        ),
        (Fault::Unable(_), Trial::PutIfAbsent | Trial::PutIfUnchanged) => check.broken(
            seen,
            "this server ignores conditions of puts, so that two writers cannot be kept apart: upgrade it, or use a folder, S3, \
             GCS or Azure",
        ),
        (fault, _) => check.broken(seen, unreached_remedy(fault).unwrap_or_else(|| "look at what the server logs".into())),
    }
}

/// What keeps what is written there, whoever wrote it.
fn of_place(seen: &Seen, tried: &Tried) -> Finding {
    let check = Check::of(tried.trial.name()).took(tried.took);
    match (seen.probe.kept, seen.retains) {
        (Some(Retention { until: Some(until), .. }), _) => {
            check.ok(format!("the place keeps what is written now until {until}"))
        }
        (Some(Retention { legal_hold: true, .. }), _) => {
            check.ok("the place keeps what is written until somebody lifts its hold")
        }
        (Some(_), _) => check.ok("the place keeps what is written, and does not tell until when"),
        (None, Some(_)) => check.ok("the place keeps nothing that it is not told to"),
        (None, None) => check.advice(
            "nothing is known to keep what is written from being deleted",
            format!(
                "whoever gets hold of the credentials can delete the archive: give --retain ({}), or have versions kept, or \
                 copy it elsewhere with `refloat copy`",
                keeper(&seen.place)
            ),
        ),
    }
}

fn of_retaining(probe: &Probe, tried: &Tried) -> Finding {
    let stays = match &probe.retained {
        Some((key, until)) => format!("; {key} stays there until {until}, and who looks an hour later deletes it"),
        None => String::new(),
    };
    Check::of(tried.trial.name()).took(tried.took).ok(format!("what it is told to keep, it keeps{stays}"))
}

/// What a place needs to keep what it is told to.
fn keeper(place: &str) -> &'static str {
    match place.split_once(':').map(|(scheme, _)| scheme) {
        Some("s3") => "the bucket needs object lock",
        Some("gs") => "the bucket needs object retention",
        Some("az") => "the container needs version-level immutability",
        _ => "S3 with object lock, Google Cloud Storage and Azure can",
    }
}

/// Whether two writers are kept apart, by what the store says of itself.
fn one_writer(told: &Abilities) -> Option<Finding> {
    let is_able = told.put_if_absent && told.put_if_unchanged;
    (!is_able).then(|| {
        Check::of("one-writer").broken(
            "this kind of store does not promise to keep the conditions of puts, so that two writers cannot be kept apart",
            "use a folder, S3, GCS or Azure; --flavour says whose S3 it is",
        )
    })
}

/// What to do where it is not this one request that fails. Nothing where the store was reached.
fn unreached_remedy(fault: &Fault) -> Option<String> {
    Some(match fault {
        Fault::NoSuchPlace => "make the bucket, container or folder; or check its name, --endpoint and --region".into(),
        Fault::Credentials(_) => {
            "credentials are found where the provider's own tools find them; --profile or --credentials names others"
                .into()
        }
        Fault::Untrusted(why) => to_trust(why).into(),
        Fault::OtherKey(_) | Fault::ForbiddenOrOtherKey(_) => {
            "--sse-key-file names the key that it was written with".into()
        }
        Fault::WrongRegion { region: Some(region) } => format!("--region {region}"),
        Fault::WrongRegion { region: None } => "--region names the one that the bucket is in".into(),
        Fault::ClockSkew => "set the clock of this machine".into(),
        Fault::Throttled { .. } => "--max-requests-per-second asks less often".into(),
        Fault::TimedOut { .. } | Fault::Unavailable { .. } => "check --endpoint and the network".into(),
        Fault::Nonsense(_) => "what answers at --endpoint may be something else than this kind of store".into(),
        Fault::Full => "make room there".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::{SignedDuration, Timestamp};
    use store::{KEEPING, Key, Memory, Retaining};
    use testkit::KeepingStore;

    use super::super::finding::{Verdict, short};
    use super::*;

    fn tried(trial: Trial, result: Result<(), Fault>) -> Tried {
        let key = Key::parse("refloat-doctor/x/plain").unwrap();
        Tried { trial, result: result.map_err(|fault| fault.at("trying", "s3://b", Some(&key))), took: Duration::ZERO }
    }

    fn seen(results: Vec<Tried>) -> Seen {
        let told = Memory::new().abilities();
        let probe = Probe { results, left: Vec::new(), kept: None, retained: None, clock: None };
        Seen { place: "s3://b/etcd".into(), told, retains: None, probe }
    }

    #[tokio::test]
    async fn a_store_that_can_everything_is_well() {
        let minute = Duration::from_secs(60);
        let store = Retaining::new(Arc::new(Memory::new()), minute).unwrap();
        let findings = examine(&store, minute).await;
        assert!(findings.iter().all(|finding| finding.verdict == Verdict::Ok), "{findings:#?}");
        assert_eq!(findings.len(), 13);
    }

    #[tokio::test]
    async fn where_nothing_is_kept_that_is_advised_of_and_no_more_is_tried() {
        let findings = examine(&Memory::new(), Duration::from_secs(60)).await;
        let is_other = |verdict: &&String| !verdict.ends_with(" ok");
        let others: Vec<String> = short(&findings).iter().filter(is_other).cloned().collect();
        assert_eq!((others, findings.len()), (vec!["kept advice".to_owned()], 12), "{findings:#?}");
    }

    #[tokio::test]
    async fn a_place_where_nothing_is_replaced_is_good_and_what_that_means_is_told() {
        let store = KeepingStore::of(Arc::new(Memory::new()), SignedDuration::from_hours(24));
        let findings = examine(&store, Duration::from_secs(60)).await;
        let is_other = |verdict: &&String| !verdict.ends_with(" ok");
        let others: Vec<String> = short(&findings).iter().filter(is_other).cloned().collect();
        assert_eq!(others, ["delete advice", "leftovers advice"], "{findings:#?}");
        let told = findings.iter().find(|finding| finding.seen.contains("288 objects a day"));
        assert!(told.is_some_and(|told| told.seen.contains("after 10 min")), "{findings:#?}");
    }

    #[tokio::test]
    async fn a_store_that_is_cut_off_is_told_once() {
        use testkit::{Faults, FaultyStore};

        let store = FaultyStore::new(Arc::new(Memory::new()), Faults::NONE, 1);
        store.cut_off(true);
        let findings = examine(&store, Duration::from_secs(60)).await;
        assert_eq!(short(&findings), [format!("reach[{}] broken", store.place())], "{findings:?}");
    }

    #[test]
    fn what_fails_is_told_with_the_permission_that_it_takes() {
        let forbidden = || Err(Fault::Forbidden("AccessDenied".into()));
        for (trial, result, expected, remedy) in [
            (Trial::Put, forbidden(), "put broken", "allow s3:PutObject on arn:aws:s3:::b/etcd/*"),
            (Trial::List, forbidden(), "list broken", "allow s3:ListBucket on arn:aws:s3:::b"),
            (Trial::Get, forbidden(), "get broken", "allow s3:GetObject on arn:aws:s3:::b/etcd/*"),
            (Trial::Delete, forbidden(), "delete broken", "allow s3:DeleteObject on arn:aws:s3:::b/etcd/*"),
            (Trial::PutIfAbsent, Err(Fault::Unable("x")), "put-if-absent broken", "two writers cannot be kept apart"),
            (Trial::GiveUp, forbidden(), "give-up warning", "s3:AbortMultipartUpload"),
            (Trial::Kept, forbidden(), "kept broken", "s3:GetObjectRetention"),
            (
                Trial::Retain,
                forbidden(),
                "retain broken",
                "allow s3:PutObjectRetention and s3:GetObjectRetention on arn:",
            ),
            (Trial::Retain, Err(Fault::Unable(KEEPING)), "retain broken", "the bucket needs object lock"),
            (Trial::Retain, Err(Fault::Nonsense("untold".into())), "retain broken", "s3:GetObjectRetention"),
            (Trial::Retain, Err(Fault::Invalid("Content-MD5 is required".into())), "retain broken", "--flavour"),
            (Trial::Kept, Ok(()), "kept advice", "give --retain (the bucket needs object lock)"),
            (Trial::Delete, Err(Fault::Retained { until: None }), "delete advice", "refloat prune"),
            (Trial::Put, Err(Fault::Invalid("Content-MD5 is required".into())), "put broken", "--flavour"),
            (Trial::Upload, Err(Fault::Invalid("Unsupported header".into())), "upload broken", "--flavour"),
            (Trial::Put, Err(Fault::Full), "put broken", "make room there"),
        ] {
            let findings = judge(&seen(vec![tried(Trial::Head, Ok(())), tried(trial, result)]));
            assert_eq!(short(&findings), ["reach[s3://b/etcd] ok", "head ok", expected]);
            let told = findings.last().and_then(|finding| finding.remedy.clone()).unwrap();
            assert!(told.contains(remedy), "{trial:?}: {told}");
        }
    }

    #[test]
    fn a_store_that_nobody_gets_to_is_told_once() {
        for (fault, remedy) in [
            (Fault::NoSuchPlace, "make the bucket"),
            (Fault::Credentials("none".into()), "--credentials"),
            (Fault::WrongRegion { region: Some("eu-1".into()) }, "--region eu-1"),
            (Fault::TimedOut { after: Duration::from_secs(1) }, "--endpoint"),
        ] {
            let away = || Err(Fault::TimedOut { after: Duration::from_secs(1) });
            let findings = judge(&seen(vec![tried(Trial::Put, Err(fault)), tried(Trial::Delete, away())]));
            assert_eq!(short(&findings), ["reach[s3://b/etcd] broken"]);
            assert!(findings[0].remedy.as_ref().unwrap().contains(remedy), "{findings:?}");
        }
    }

    #[test]
    fn a_store_without_conditions_and_what_is_left_are_told() {
        let mut seen = seen(vec![tried(Trial::Put, Ok(()))]);
        seen.told.put_if_absent = false;
        seen.probe.left = vec![Key::parse("refloat-doctor/x/plain").unwrap()];
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().unwrap();
        seen.probe.clock =
            Some(StoreClock { sent: now, acknowledged: now, written: now + SignedDuration::from_mins(5) });
        let expected = ["reach[s3://b/etcd] ok", "put ok", "one-writer broken", "leftovers advice", "clock warning"];
        assert_eq!(short(&judge(&seen)), expected);
    }
}
