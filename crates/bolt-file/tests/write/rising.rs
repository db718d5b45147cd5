//! A file that is checked while it is written is found to be what it is: sound, or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use bolt_file::check::Problem;
use bolt_file::check::rising::{Risen, Rising, Unsound};
use bolt_file::write::{Builder, Options};
use bolt_file::{BoltFile, Meta, PageId, check};
use proptest::prelude::*;

use crate::model::{Buckets, buckets, build};
use crate::strict::Pairs;

/// What was seen of a file that was read in steps of `steps` pages, and said in the end.
fn risen(file: &[u8], page_size: u32, steps: &[u8]) -> Result<(Pairs, Vec<Risen>), Unsound> {
    let storage = Arc::new(file.to_vec());
    let mut rising = Rising::new(Arc::clone(&storage) as _, page_size);
    let (mut pairs, mut last_page) = (Pairs::new(), PageId(0));
    let mut end = 0;
    for step in steps.iter().cycle() {
        end = (end + u64::from(*step) * u64::from(page_size)).min(file.len() as u64);
        rising.read_up_to(end, &mut |page, leaf| {
            assert!(last_page < page, "page {page} after {last_page}");
            last_page = page;
            for entry in (0..leaf.len()).filter_map(|index| leaf.get(index).unwrap()).filter(|entry| !entry.is_bucket) {
                pairs.push((entry.key.to_vec(), entry.value.to_vec()));
            }
        })?;
        if end == file.len() as u64 {
            break;
        }
    }
    let buckets = rising.finish(&BoltFile::open(storage)?)?;
    Ok((pairs, buckets))
}

/// The pairs of each bucket that has pages of its own, which come in the order in which it was built.
fn on_pages(file: &[u8], buckets: &Buckets) -> (Pairs, BTreeMap<Vec<u8>, u64>) {
    let shapes = crate::strict::read(file).buckets;
    let outside = buckets.iter().rev().filter(|(name, _)| shapes[*name].depth > 0);
    let pairs = outside.clone().flat_map(|(_, pairs)| pairs.clone()).collect();
    (pairs, outside.map(|(name, pairs)| (name.clone(), pairs.len() as u64)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_pair_is_seen_once_and_every_bucket_named(
        page_shift in 10u32..15,
        buckets in buckets(),
        steps in prop::collection::vec(1u8..90, 1..5),
    ) {
        let file = build(1 << page_shift, &buckets);
        let (pairs, named) = risen(&file, 1 << page_shift, &steps).unwrap();
        let (expected, entries) = on_pages(&file, &buckets);
        prop_assert!(pairs == expected);
        prop_assert_eq!(named.into_iter().map(|risen| (risen.name, risen.entries)).collect::<BTreeMap<_, _>>(), entries);
    }

    #[test]
    fn what_is_wrong_is_found_where_a_check_finds_it(
        buckets in buckets(),
        changes in prop::collection::vec((any::<u32>(), any::<u16>(), 0u8..6), 1..4),
    ) {
        const PAGE: usize = 1024;
        let mut file = build(PAGE as u32, &buckets);
        for (place, what, kind) in changes {
            change(&mut file, PAGE, place as usize, what, kind);
        }
        let Ok(opened) = BoltFile::open(Arc::new(file.clone())) else { return Ok(()) };
        let report = check(&opened, 1).unwrap();
        let found = risen(&file, PAGE as u32, &[7]);
        prop_assert_eq!(found.is_ok(), report.is_sound(), "{:?}\n{:?}", found.err(), report.findings);
    }
}

/// Changes one thing on a page: most often of its header or its elements.
fn change(file: &mut [u8], page_size: usize, place: usize, what: u16, kind: u8) {
    let pages = file.len() / page_size;
    let (page, number) = (place % pages * page_size, usize::from(what));
    let other = number % pages * page_size;
    // On the page of the free list a check does not mind what comes after the ids, and this does.
    if [page, other].contains(&(2 * page_size)) {
        return;
    }
    match kind {
        0 => file[page + number % page_size] ^= 1 << (place % 8),
        1 => file[page + 8 + number % 8] = place as u8,
        2 => file[page + 16 + number % 64] = (place >> 16) as u8,
        3 => file[page + 24 + number % 16] ^= 1,
        _ => {
            file.copy_within(page..page + page_size, other);
            if kind == 4 {
                let id = (other / page_size) as u64;
                file[other..other + 8].copy_from_slice(&id.to_le_bytes());
            }
        }
    }
}

#[test]
fn what_was_not_said_to_be_there_is_not_read() {
    let pairs = (0..5000u32).map(|number| (number.to_be_bytes().to_vec(), vec![7; 100])).collect();
    let mut file = build(4096, &Buckets::from([(b"key".to_vec(), pairs)]));
    let half = file.len() / 2;
    file[half..].fill(0xFF);
    let mut rising = Rising::new(Arc::new(file), 4096);
    let mut leaves = 0;
    rising.read_up_to(half as u64, &mut |_, _| leaves += 1).unwrap();
    assert!(leaves > 10);
    assert!(rising.read_up_to(half as u64 + 4096, &mut |_, _| ()).is_err());
}

#[test]
fn a_value_of_many_pages_is_seen_when_all_of_it_is_there() {
    let mut file = Vec::new();
    let mut builder = Builder::create(&mut file, Options::default()).unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    bucket.push(b"large", &vec![3; 3 << 20]).unwrap();
    bucket.push(b"small", b"value").unwrap();
    let root = bucket.finish().unwrap().unwrap();
    builder.finish().unwrap();

    let mut rising = Rising::new(Arc::new(file.clone()), 4096);
    let mut seen = Vec::new();
    for end in (0..=file.len() as u64).step_by(100_000).chain([file.len() as u64]) {
        rising.read_up_to(end, &mut |page, leaf| seen.push((page, leaf.len()))).unwrap();
    }
    // The large one alone, the small one, and the bucket's name.
    assert_eq!(seen.iter().map(|(_, len)| *len).collect::<Vec<_>>(), [1, 1, 1]);
    assert!(seen[1].0 < root && root < seen[2].0);
    let risen = rising.finish(&BoltFile::open(Arc::new(file)).unwrap()).unwrap();
    assert_eq!(risen, [Risen { name: b"key".to_vec(), entries: 2 }]);
}

/// A bucket of many leaves, and where the first of them is.
fn many_leaves() -> (Vec<u8>, usize) {
    let pairs = (0..500u32).map(|number| (number.to_be_bytes().to_vec(), vec![7; 100])).collect();
    (build(1024, &Buckets::from([(b"key".to_vec(), pairs)])), 3 * 1024)
}

#[track_caller]
fn require_finding(file: &[u8], page: u64, problem: &Problem) {
    let Err(Unsound::Found(finding)) = risen(file, 1024, &[3]) else { panic!("nothing was found") };
    assert_eq!((finding.page, &finding.problem), (PageId(page), problem));
}

#[test]
fn keys_have_to_ascend_from_leaf_to_leaf() {
    let (mut file, leaf) = many_leaves();
    let last_key = file[leaf..leaf + 1024].windows(4).rposition(|bytes| bytes[..3] == [0; 3] && bytes[3] > 0).unwrap();
    let next_leaf = file[leaf + 1024..].windows(4).position(|bytes| bytes[..3] == [0; 3] && bytes[3] > 5).unwrap();
    assert!(file[leaf + last_key + 3] < file[leaf + 1024 + next_leaf + 3]);
    file[leaf + last_key] = 0xFF;
    require_finding(&file, 4, &Problem::KeysOutOfOrder { index: 0 });
}

#[test]
fn every_page_has_to_hang_from_the_root() {
    let (mut file, leaf) = many_leaves();
    let pages = (file.len() / 1024) as u64;
    file.extend_from_within(leaf..leaf + 1024);
    let added = file.len() - 1024;
    file[added..added + 8].copy_from_slice(&pages.to_le_bytes());
    let meta = BoltFile::open(Arc::new(file.clone())).unwrap().meta();
    for page in 0..2 {
        let meta = Meta { high_water: pages + 1, txid: meta.txid - page, ..meta };
        let bytes = meta.encode(PageId(page));
        file[page as usize * 1024..][..bytes.len()].copy_from_slice(&bytes);
    }
    require_finding(&file, pages, &Problem::Unreachable { pages: 1 });
}

#[test]
fn what_was_not_read_to_its_end_is_not_sound() {
    let (file, _) = many_leaves();
    let storage = Arc::new(file.clone());
    let mut rising = Rising::new(Arc::clone(&storage) as _, 1024);
    rising.read_up_to(file.len() as u64 - 1024, &mut |_, _| ()).unwrap();
    let Err(Unsound::Found(finding)) = rising.finish(&BoltFile::open(storage).unwrap()) else { panic!() };
    assert_eq!(finding.problem, Problem::Unreachable { pages: 1 });
}
