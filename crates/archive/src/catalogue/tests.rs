use super::*;

const FIRST: &str = "20261121T093000Z-1a2b3c4d";
const SECOND: &str = "20261122T093000Z-00000001";

fn listed(keys: &[String]) -> Vec<Info> {
    let modified = "2026-11-23T00:00:00Z".parse().unwrap();
    let info = |key: &String| Info {
        key: Key::parse(key.as_str()).unwrap(),
        size_bytes: 7,
        modified,
        tag: None,
        metadata: Default::default(),
        retention: None,
    };
    keys.iter().map(info).collect()
}

fn full(folder: &str, lineage: &str, revision: i64) -> String {
    format!("{folder}{lineage}/full/{revision:020}-20261121T093001Z.full")
}

fn delta(folder: &str, lineage: &str, level: u8, from: i64, to: i64) -> String {
    format!("{folder}{lineage}/delta/{level}/{from:020}-{to:020}.delta")
}

fn keys(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.key.as_str()).collect()
}

#[test]
fn what_no_cluster_comes_to_is_not_the_highest_revision_whatever_a_name_says() {
    let listing =
        |to| Catalogue::of_listing("prod", &listed(&[full("prod/", FIRST, 100), delta("prod/", FIRST, 0, 101, to)]));
    assert_eq!(listing(150).highest(), Some(Revision(150)));
    assert_eq!(listing(i64::MAX).highest(), Some(Revision(100)));
}

#[test]
fn every_object_of_a_listing_is_accounted_for() {
    let names = [
        "prod/cluster.json".into(),
        "prod/writer.json".into(),
        format!("prod/{FIRST}/lineage.json"),
        delta("prod/", FIRST, 1, 101, 200),
        delta("prod/", FIRST, 0, 151, 200),
        delta("prod/", FIRST, 0, 101, 150),
        full("prod/", FIRST, 100),
        format!("{}.json", full("prod/", FIRST, 100)),
        format!("{}.json", full("prod/", FIRST, 99)),
        full("prod/", SECOND, 300),
        format!("prod/{SECOND}/proof/20261121T093100Z-00000007.json"),
        format!("prod/{SECOND}/full/notes.txt"),
        "prod/readme".into(),
        full("prod2/", FIRST, 5),
    ];
    let found = Catalogue::of_listing("prod", &listed(&names));
    let [first, second] = &found.histories[..] else { panic!("{:?}", found.histories) };
    assert!(first.is_described && !second.is_described);
    assert_eq!(keys(first.fulls()), [full("prod/", FIRST, 100)]);
    let deltas = [(0, 101, 150), (1, 101, 200), (0, 151, 200)];
    assert_eq!(keys(first.deltas()), deltas.map(|(level, from, to)| delta("prod/", FIRST, level, from, to)));
    assert_eq!(keys(second.fulls()), [full("prod/", SECOND, 300)]);
    assert_eq!((found.notes.len(), found.lone_notes().count(), found.proofs.len()), (2, 1, 1));
    let strangers: Vec<&str> = found.strangers.iter().map(|stranger| stranger.key.as_str()).collect();
    let expected = [format!("prod/{SECOND}/full/notes.txt"), "prod/readme".into(), full("prod2/", FIRST, 5)];
    assert_eq!(strangers, expected);
}

#[test]
fn the_cluster_that_is_asked_for_is_picked() {
    #[track_caller]
    fn check(keys: &[String], wanted: Option<&str>, expected: Result<&str, PickError>) {
        let mut survey = Survey::default();
        let infos = listed(keys);
        infos.chunks(2).for_each(|page| survey.take(page));
        let picked = survey.pick(wanted);
        assert_eq!(picked.as_ref().map(|(name, _)| name.as_str()), expected.as_ref().map(|name| *name));
        if let Ok((name, catalogue)) = picked {
            let of_it = |key: &&String| name.is_empty() || key.starts_with(&format!("{name}/"));
            let known = catalogue.entries().count() + catalogue.strangers.len();
            assert_eq!(known, keys.iter().filter(of_it).filter(|key| !key.ends_with("cluster.json")).count());
        }
    }
    let several = [full("a/", FIRST, 1), "a/x".into(), full("b/", FIRST, 1), "c/other".into(), "d".into()];
    let there = vec!["a".to_owned(), "b".to_owned()];
    check(&several, Some("a"), Ok("a"));
    check(&several, None, Err(PickError::Several { there: there.clone() }));
    check(&several, Some("c"), Err(PickError::NotThere { wanted: "c".into(), there }));
    check(&several[3..], None, Err(PickError::Nothing));
    check(&several[2..], None, Ok("b"));
    check(&["cluster.json".into(), full("", FIRST, 1), "d".into()], Some("prod"), Ok(""));
}

#[test]
fn a_cluster_whose_name_begins_like_another_is_another() {
    let found = Catalogue::of_listing("etcd", &listed(&[full("etcd-2/", FIRST, 1), full("etcd/", FIRST, 2)]));
    assert_eq!((found.entries().count(), found.strangers.len()), (1, 1));
}

/// Stores that go on with the last key of a page instead of the one after it list that twice.
#[test]
fn what_is_listed_twice_is_there_once() {
    let names = [full("prod/", FIRST, 100), delta("prod/", FIRST, 0, 101, 150), full("prod/", FIRST, 150)];
    let pages = [&names[..2], &names[1..], &names[2..]];
    let listed: Vec<Info> = pages.iter().flat_map(|page| listed(page)).collect();
    let found = Catalogue::of_listing("prod", &listed);
    let [history] = &found.histories[..] else { panic!("{:?}", found.histories) };
    assert_eq!(keys(history.fulls()), [&names[0], &names[2]]);
    assert_eq!(keys(history.deltas()), [&names[1]]);
}
