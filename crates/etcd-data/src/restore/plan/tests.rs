use super::*;
use crate::error::Kind;
use crate::restore::destination::{Unit, WalPlace};
use crate::restore::sample::Sample;
use crate::tables::Alarm;

fn nowhere() -> Destination {
    Destination {
        data_dir: "/data".into(),
        unit: Unit::DataDir,
        kept: None,
        wal: WalPlace::Inside("member/wal".into()),
    }
}

fn options() -> Options {
    Options::new("/data", Token::Named("token".into()), "now")
}

fn plan(sample: &Sample, options: &Options) -> Result<Plan, String> {
    let database = sample.database();
    let facts = Facts::of(&database).unwrap();
    Plan::choose(&facts, options, nowhere()).map_err(|error| format!("{:?}: {error}", error.kind()))
}

/// Revisions 2 to 10 of two keys, compacted at 4.
fn ten() -> Sample {
    let mut sample = Sample::new();
    for number in 2..=10 {
        sample.put(["a", "b"][number % 2], number.to_string());
    }
    sample.compact(4);
    sample
}

#[track_caller]
fn check(sample: &Sample, change: impl FnOnce(&mut Options), expected: &str) {
    let mut options = options();
    change(&mut options);
    let found = match plan(sample, &options) {
        Ok(plan) => format!(
            "{} of {:?}, begins at {}, compacted {:?}",
            plan.revision,
            plan.history,
            plan.current_revision,
            plan.compact_revision.map(|revision| revision.0)
        ),
        Err(error) => error,
    };
    assert!(found.contains(expected), "{found}\nshould have {expected:?}");
}

#[test]
fn any_revision_that_is_still_there_can_be_restored() {
    check(&ten(), |_| {}, "10 of Whole, begins at 10, compacted Some(4)");
    check(&ten(), |options| options.at = Some(Revision(7)), "7 of Whole, begins at 7, compacted Some(4)");
    check(&ten(), |options| options.at = Some(Revision(4)), "4 of Whole, begins at 4, compacted Some(4)");
    check(&ten(), |options| options.at = Some(Revision(3)), "Missing: revision 3 lies before the compact revision 4");
    check(&ten(), |options| options.at = Some(Revision(11)), "Missing: revision 11 lies after the current revision 10");
}

#[test]
fn an_empty_store_is_at_revision_1() {
    check(&Sample::new(), |_| {}, "1 of Whole, begins at 1, compacted None");
    check(&Sample::new(), |options| options.at = Some(Revision(1)), "1 of Whole");
    check(&Sample::new(), |options| options.at = Some(Revision(2)), "Missing");
}

#[test]
fn a_compaction_that_was_begun_is_finished() {
    let mut sample = ten();
    sample.tables.set_scheduled_compaction(Revision(6));
    check(&sample, |_| {}, "10 of CompactedAt(Revision(6)), begins at 10, compacted Some(6)");
    check(&sample, |options| options.at = Some(Revision(5)), "Missing");
}

#[test]
fn history_can_be_cut_later_but_not_earlier() {
    let at = |at| move |options: &mut Options| options.compact_at = Some(Revision(at));
    check(&ten(), at(8), "10 of CompactedAt(Revision(8)), begins at 10, compacted Some(8)");
    check(&ten(), at(10), "compacted Some(10)");
    check(&ten(), at(3), "Usage: revision 3 cannot be compacted at, only 4 to 10");
    check(&ten(), at(11), "Usage");
    let earlier = |options: &mut Options| (options.at, options.compact_at) = (Some(Revision(7)), Some(Revision(8)));
    check(&ten(), earlier, "Usage: revision 8 cannot be compacted at, only 4 to 7");
}

#[test]
fn a_bump_goes_on_after_the_highest_revision_that_anybody_saw() {
    let bumped = |options: &mut Options| options.bump = Bump::By(1000);
    check(&ten(), bumped, "10 of OnlyLive, begins at 1010, compacted Some(1010)");
    let back = |options: &mut Options| (options.at, options.bump) = (Some(Revision(6)), Bump::By(1000));
    check(&ten(), back, "6 of OnlyLive, begins at 1010, compacted Some(1010)");
    check(&ten(), |options| options.bump = Bump::By(0), "Usage: revisions cannot be raised by 0");
    check(&ten(), |options| options.bump = Bump::By(i64::MAX as u64), "Usage");
    // What would leave too few for what is to come.
    check(&ten(), |options| options.bump = Bump::By(i64::MAX as u64 / 2), "Usage");
    check(&ten(), |options| options.bump = Bump::By(u64::MAX), "Usage");
}

#[test]
fn a_member_that_is_alone_needs_nothing_but_a_name() {
    let plan = plan(&ten(), &options()).unwrap();
    assert_eq!(plan.members.len(), 1);
    assert_eq!(plan.members[0].peer_urls, ["http://localhost:2380"]);
    assert_eq!(plan.member, MemberId::of(&["http://localhost:2380"], "token"));
    assert_eq!(plan.cluster, ClusterId::of(&[plan.member]));
}

#[test]
fn a_member_is_one_of_its_cluster() {
    let cluster = |name: &str, list: &str, urls: Option<&str>| {
        let (name, list, urls) = (name.to_owned(), list.to_owned(), urls.map(str::to_owned));
        move |options: &mut Options| {
            (options.name, options.initial_cluster, options.peer_urls) = (name, Some(list), urls);
        }
    };
    let three = "a=http://a:1,b=http://b:1,c=http://c:1";
    check(&ten(), cluster("b", three, None), "10 of Whole");
    check(&ten(), cluster("b", three, Some("http://b:1")), "10 of Whole");
    check(&ten(), cluster("d", three, None), "Usage: the initial cluster has no member called \"d\"");
    check(&ten(), cluster("b", three, Some("http://a:1")), "Usage");
    check(&ten(), cluster("b", "b", None), "Usage");
}

#[test]
fn members_that_are_restored_one_by_one_need_a_token_in_common() {
    let several = |options: &mut Options| {
        options.token = Token::Unique("refloat-1".into());
        options.name = "a".into();
        options.initial_cluster = Some("a=http://a:1,b=http://b:1".into());
    };
    check(&ten(), several, "Usage: 2 members need a cluster token that is given to all of them");
}

#[test]
fn an_alarm_for_damage_is_only_passed_over_on_request() {
    let mut sample = ten();
    sample.tables.put_alarm(Alarm { member: 0xab, kind: AlarmKind::NoSpace as i32 });
    check(&sample, |_| {}, "10 of Whole");
    sample.tables.put_alarm(Alarm { member: 0xcd, kind: AlarmKind::Corrupt as i32 });
    check(&sample, |_| {}, "Corrupt: member cd raised an alarm");
    check(&sample, |options| options.alarms = Alarms::DropAll, "10 of Whole");
    check(&sample, |options| options.alarms = Alarms::Keep, "10 of Whole");
}

#[test]
fn what_an_older_version_does_not_know_is_refused_by_name() {
    let mut sample = ten();
    sample.tables.set_storage_version(Some("3.7.0"));
    let older = |options: &mut Options| options.version = ForVersion::Version(EtcdVersion::V36);
    check(&sample, older, "10 of Whole");
    sample.tables.bucket_mut("quotas").insert(b"a".to_vec(), b"1".to_vec());
    sample.tables.bucket_mut("meta").insert(b"epoch".to_vec(), b"1".to_vec());
    check(&sample, older, "Unsupported: etcd 3.6 cannot hold epoch in bucket meta, bucket quotas");
    check(&sample, |options| options.version = ForVersion::Version(EtcdVersion::V37), "10 of Whole");
    check(&sample, |_| {}, "10 of Whole");

    sample.tables.set_storage_version(Some("3.8.0"));
    check(&sample, |options| options.version = ForVersion::Version(EtcdVersion::V37), "Unsupported");
}

#[test]
fn the_term_is_written_where_the_version_knows_it() {
    let schema = |term: Option<u64>, version| {
        let mut sample = ten();
        sample.tables.set_term(term);
        plan(&sample, &Options { version, ..options() }).unwrap().schema
    };
    assert_eq!(schema(Some(2), ForVersion::AsSource), Schema::IndexAndTerm);
    assert_eq!(schema(None, ForVersion::AsSource), Schema::Index);
    assert_eq!(schema(Some(2), ForVersion::Version(EtcdVersion::V34)), Schema::Index);
    assert_eq!(schema(None, ForVersion::Version(EtcdVersion::V35)), Schema::IndexAndTerm);
}

#[test]
fn a_plan_can_be_read() {
    let mut options = Options { at: Some(Revision(7)), ..options() };
    options.version = ForVersion::Version(EtcdVersion::V35);
    let plan = plan(&ten(), &options).unwrap();
    let id = plan.member;
    assert_eq!(
        plan.to_string(),
        format!("restore revision 7 to /data; member {id} of cluster {} (default); for etcd 3.5", plan.cluster)
    );
}

#[test]
fn a_bucket_inside_a_bucket_is_named_and_refused() {
    let database = ten().database_with_nested_bucket();
    let error = Plan::choose(&Facts::of(&database).unwrap(), &options(), nowhere()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert_eq!(error.to_string(), "bucket quotas: it holds a bucket, inner, which cannot be carried along");
}

#[test]
fn a_pair_among_the_buckets_is_named_and_refused() {
    let database = ten().database_with_pair_among_buckets();
    let error = Plan::choose(&Facts::of(&database).unwrap(), &options(), nowhere()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert_eq!(error.to_string(), "among the buckets there is a pair, quotas, which cannot be carried along");
}
