//! Damage of every kind at every place: reading ends without a panic, and a check names the page.
//!
//! bbolt keeps no checksum of data: values can change unseen, and so can a key that stays between its neighbours.
//! That is asserted too, so that nobody believes more.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod exercise;
mod hand;

use bolt_file::check::Severity;
use exercise::{agree, exercise};
use hand::{SAMPLE_PAGE_SIZE as PAGE, meta, sample};

/// The number of pages of [`sample`].
const PAGES: u64 = 18;
const FREELIST: usize = 2;
const FREE: [usize; 2] = [3, 4];
/// Pages that hold nothing but a value that began on the page before them.
const INSIDE_VALUE: [usize; 2] = [7, 8];

/// What a check of `bytes` says, a finding per line.
fn findings(bytes: Vec<u8>) -> Vec<String> {
    match exercise(bytes) {
        Some(report) => report.findings.iter().map(ToString::to_string).collect(),
        None => vec!["does not open".to_owned()],
    }
}

#[track_caller]
fn finds(damage: impl FnOnce(&mut Vec<u8>), expected: &[&str]) {
    let (mut bytes, _) = sample();
    damage(&mut bytes);
    agree(bytes.clone());
    assert_eq!(findings(bytes), expected);
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}

fn put_meta(bytes: &mut [u8], longs: [u64; 5]) {
    put(bytes, 0, &meta(0, PAGE as u32, longs));
}

#[test]
fn the_sample_is_sound() {
    let (bytes, _) = sample();
    let report = exercise(bytes).unwrap();
    assert_eq!((report.findings.as_slice(), report.further, report.worst()), (&[][..], 0, None));
    let counted = report.statistics;
    assert_eq!((counted.branch_pages, counted.leaf_pages, counted.overflow_pages), (3, 7, 3));
    assert_eq!((counted.freelist_pages, counted.free_pages, counted.depth), (1, 2, 4));
    assert_eq!((counted.entries, counted.buckets, counted.inline_buckets), (21, 4, 1));
}

/// Byte `offset` of `page`.
fn at(page: usize, offset: usize) -> usize {
    page * PAGE + offset
}

/// The word `field` of the element at `index` of `page`.
fn element(page: usize, index: usize, field: usize) -> usize {
    at(page, 16 + index * 16 + field)
}

/// Where in the file `needle` stands on `page`.
fn place_of(bytes: &[u8], page: usize, needle: &[u8]) -> usize {
    let after = &bytes[at(page, 16)..];
    at(page, 16) + after.windows(needle.len()).position(|window| window == needle).unwrap()
}

#[test]
fn damaged_page_headers_are_named() {
    finds(|file| file[at(5, 0)] ^= 8, &["page 5, bucket key: the page says it is page 13"]);
    finds(|file| file[at(5, 8)] = 0, &["page 5, bucket key: flags 0x0000 name no kind of page"]);
    finds(|file| file[at(5, 8)] = 4, &["page 5, bucket key: a meta page where branch or leaf is needed"]);
    finds(
        |file| file[at(5, 8)] = 1,
        &[
            "page 5, bucket key: element 0 begins at byte 16, not at 80",
            "page 5, bucket key: element 1 begins at byte 32, not at 80",
            "page 5, bucket key: element 2 begins at byte 48, not at 124",
            "page 5, bucket key: element 3 begins at byte 64, not at 169",
            "page 5, bucket key: bytes after the last element, from 215 on, are not zero",
            "page 5, bucket key: element 0 leads to page 171798691844, which is no page of a tree",
            "page 5, bucket key: element 1 leads to page 176093659140, which is no page of a tree",
            "page 5, bucket key: element 2 leads to page 180388626436, which is no page of a tree",
            "page 5, bucket key: element 3 leads to page 184683593732, which is no page of a tree",
        ],
    );
    finds(
        |file| file[at(12, 8)] = 2,
        &[
            "page 12, bucket key: element 0 has flags 0x20",
            "page 12, bucket key: element 1 has flags 0x14",
            "page 12, bucket key: bytes after the last element, from 48 on, are not zero",
        ],
    );
    finds(
        |file| put(file, at(5, 10), &[0, 0]),
        &[
            "page 5, bucket key: bytes after the last element, from 16 on, are not zero",
            "page 5, bucket key: an empty leaf below a branch",
        ],
    );
    finds(
        |file| put(file, at(5, 10), &[3, 0]),
        &[
            "page 5, bucket key: element 0 begins at byte 80, not at 64",
            "page 5, bucket key: bytes after the last element, from 215 on, are not zero",
        ],
    );
    finds(
        |file| put(file, at(5, 10), &[5, 0]),
        &[
            "page 5, bucket key: element 0 begins at byte 80, not at 96",
            "page 5, bucket key: element 4 has flags 0x3030306b",
        ],
    );
    finds(|file| put(file, at(5, 10), &[0xff, 0xff]), &["page 5, bucket key: 65535 elements do not fit on the page"]);
    finds(|file| put(file, at(12, 10), &[0, 0]), &["page 12, bucket key: a branch without children"]);
    finds(
        |file| put(file, at(12, 10), &[1, 0]),
        &[
            "page 6: neither in use nor free (4 in a row)",
            "page 12, bucket key: element 0 begins at byte 48, not at 32",
            "page 12, bucket key: a branch with a single child",
            "page 12, bucket key: bytes after the last element, from 52 on, are not zero",
        ],
    );
    finds(|file| put(file, at(5, 12), &[1]), &["page 6: used more than once, by pages 5, 12"]);
    finds(
        |file| put(file, at(6, 12), &[2]),
        &[
            "page 6, bucket key: element 2 reaches to byte 3181 of a page of 3072",
            "page 6, bucket key: element 3 reaches to byte 3232 of a page of 3072",
            "page 6, bucket key: 2 pages of overflow are not needed",
            "page 6, bucket key: bytes after the last element, from 177 on, are not zero",
        ],
    );
    finds(
        |file| put(file, at(6, 12), &[4]),
        &[
            "page 6, bucket key: 1 pages of overflow are not needed",
            "page 6, bucket key: bytes after the last element, from 3232 on, are not zero",
            "page 10: used more than once, by pages 6, 13",
        ],
    );
    finds(|file| put(file, at(5, 12), &[0xff; 4]), &["page 5, bucket key: outside the file, which has 18 pages"]);
}

#[test]
fn damaged_elements_are_named() {
    finds(
        |file| file[element(5, 1, 0)] = 1,
        &[
            "page 5, bucket key: bucket 1 has the sequence 7089336938131513954",
            "page 5, bucket key: the header of bucket 1 is followed by 25 bytes",
            "page 5, bucket key: element 1 leads to page 7089336938131513954, which is no page of a tree",
        ],
    );
    finds(
        |file| file[element(5, 1, 0)] = 2,
        &[
            "page 5, bucket key: element 1 has flags 0x2",
            "page 5, bucket key: element 2 begins at byte 169, not at 124",
        ],
    );
    finds(
        |file| file[element(5, 1, 4)] ^= 1,
        &[
            "page 5, bucket key: element 1 begins at byte 125, not at 124",
            "page 5, bucket key: key 1 is not greater than the one before it",
            "page 5, bucket key: element 2 begins at byte 169, not at 170",
        ],
    );
    finds(
        |file| file[element(5, 1, 7)] = 0x80,
        &[
            "page 5, bucket key: element 1 reaches to byte 2147483817 of a page of 1024",
            "page 5, bucket key: element 2 begins at byte 169, not at 124",
        ],
    );
    finds(
        |file| file[element(5, 1, 8)] = 3,
        &[
            "page 5, bucket key: key 1 is not greater than the one before it",
            "page 5, bucket key: element 2 begins at byte 169, not at 168",
        ],
    );
    finds(
        |file| file[element(5, 1, 8)] = 0,
        &[
            "page 5, bucket key: element 1 has a key of 0 bytes",
            "page 5, bucket key: key 1 is not greater than the one before it",
            "page 5, bucket key: element 2 begins at byte 169, not at 165",
        ],
    );
    finds(|file| file[element(5, 1, 12)] -= 1, &["page 5, bucket key: element 2 begins at byte 169, not at 168"]);
    finds(
        |file| file[element(5, 3, 12)] -= 1,
        &["page 5, bucket key: bytes after the last element, from 261 on, are not zero"],
    );
    finds(
        |file| put(file, element(5, 3, 12), &[0xff; 4]),
        &[
            "page 5, bucket key: element 3 reaches to byte 4294967514 of a page of 1024",
            "page 5, bucket key: bytes after the last element, from 215 on, are not zero",
        ],
    );
    finds(
        |file| file[element(12, 1, 0)] ^= 1,
        &[
            "page 5, bucket key: key 0 reaches past what the branches above allow",
            "page 12, bucket key: element 1 begins at byte 53, not at 52",
            "page 12, bucket key: key 1 is not greater than the one before it",
            "page 12, bucket key: key 1 is not the first key of page 6, to which it leads",
        ],
    );
    finds(
        |file| file[element(12, 1, 4)] = 3,
        &[
            "page 5, bucket key: key 0 reaches past what the branches above allow",
            "page 12, bucket key: key 1 is not greater than the one before it",
            "page 12, bucket key: bytes after the last element, from 55 on, are not zero",
            "page 12, bucket key: key 1 is not the first key of page 6, to which it leads",
        ],
    );
    finds(
        |file| put(file, element(12, 0, 8), &[0]),
        &["page 12, bucket key: element 0 leads to page 0, which is no page of a tree"],
    );
    finds(
        |file| put(file, element(12, 0, 8), &[18]),
        &["page 12, bucket key: element 0 leads to page 18, which is no page of a tree"],
    );
    finds(
        |file| put(file, element(12, 0, 8), &[0xff; 8]),
        &["page 12, bucket key: element 0 leads to page 18446744073709551615, which is no page of a tree"],
    );
    finds(
        |file| put(file, element(12, 0, 8), &[3]),
        &["page 3, bucket key: the page says it is page 0", "page 3: in use and in the free list (1 in a row)"],
    );
    finds(
        |file| put(file, element(12, 0, 8), &[6]),
        &[
            "page 5: neither in use nor free (1 in a row)",
            "page 6, bucket key: key 0 reaches past what the branches above allow",
            "page 6: used more than once, by pages 12, 12",
            "page 12, bucket key: key 0 is not the first key of page 6, to which it leads",
        ],
    );
    finds(
        |file| put(file, element(12, 0, 8), &[12]),
        &["page 5: neither in use nor free (1 in a row)", "page 12: used more than once, by pages 12, 14"],
    );
    finds(
        |file| put(file, element(12, 0, 8), &[14]),
        &["page 5: neither in use nor free (1 in a row)", "page 14: used more than once, by pages 12, 17"],
    );
    finds(
        |file| put(file, element(12, 0, 8), &[8]),
        &[
            "page 8, bucket key: the page says it is page 8680820740569200760",
            "page 8: used more than once, by pages 6, 12",
        ],
    );
}

#[test]
fn damaged_keys_are_named() {
    let key = |file: &mut Vec<u8>, page, key: &[u8], new: &[u8]| {
        let place = place_of(file, page, key);
        put(file, place, new);
    };
    finds(
        |file| key(file, 5, b"k000", b"k00!"),
        &["page 12, bucket key: key 0 is not the first key of page 5, to which it leads"],
    );
    finds(
        |file| key(file, 5, b"k001", b"k009"),
        &[
            "page 5, bucket key: key 1 reaches past what the branches above allow",
            "page 5, bucket key: key 2 is not greater than the one before it",
        ],
    );
    finds(
        |file| key(file, 5, b"k003", b"k009"),
        &["page 5, bucket key: key 3 reaches past what the branches above allow"],
    );
    finds(|file| key(file, 5, b"k001", b"k000"), &["page 5, bucket key: key 1 is not greater than the one before it"]);
    finds(
        |file| key(file, 5, b"k001", b"k00z"),
        &[
            "page 5, bucket key: key 1 reaches past what the branches above allow",
            "page 5, bucket key: key 2 is not greater than the one before it",
        ],
    );
    finds(
        |file| key(file, 12, b"k004", b"k003"),
        &[
            "page 5, bucket key: key 3 reaches past what the branches above allow",
            "page 12, bucket key: key 1 is not the first key of page 6, to which it leads",
        ],
    );
    finds(
        |file| key(file, 12, b"k004", b"k005"),
        &["page 12, bucket key: key 1 is not the first key of page 6, to which it leads"],
    );
    finds(
        |file| key(file, 14, b"k008", b"k007"),
        &[
            "page 6, bucket key: key 3 reaches past what the branches above allow",
            "page 14, bucket key: key 1 is not the first key of page 13, to which it leads",
        ],
    );
    finds(|file| key(file, 17, b"key", b"zzz"), &["page 17: key 2 is not greater than the one before it"]);
}

#[test]
fn damaged_buckets_are_named() {
    finds(
        |file| {
            let place = place_of(file, 17, b"key");
            put(file, place + 3, &[0]);
        },
        &["page 17: inline bucket 1: cut short: 0 of 16 bytes are there"],
    );
    finds(
        |file| {
            let place = place_of(file, 17, b"key");
            put(file, place + 3, &[15]);
        },
        &["page 5: neither in use nor free (10 in a row)", "page 15: used more than once, by pages 16, 17"],
    );
    finds(
        |file| {
            let place = place_of(file, 17, b"key");
            put(file, place + 11, &[1]);
        },
        &["page 17: bucket 1 has the sequence 1"],
    );
    finds(
        |file| {
            let place = place_of(file, 17, b"inline");
            put(file, place + 6, &[4]);
        },
        &[
            "page 4, bucket inline: the page says it is page 0",
            "page 4: in use and in the free list (1 in a row)",
            "page 17: the header of bucket 0 is followed by 58 bytes",
        ],
    );
    finds(
        |file| {
            let place = place_of(file, 17, b"inline");
            put(file, place + 6 + 16, &[1]);
        },
        &["page 17: inline bucket 0: the page says it is page 1"],
    );
    finds(
        |file| {
            let place = place_of(file, 17, b"inline");
            put(file, place + 6 + 16 + 8, &[1]);
        },
        &["page 17: inline bucket 0: a branch page where inline leaf is needed"],
    );
    finds(
        |file| {
            let place = place_of(file, 17, b"inline");
            put(file, place + 6 + 16 + 10, &[9]);
        },
        &["page 17: inline bucket 0: 9 elements do not fit on the page"],
    );
    finds(
        |file| {
            let place = place_of(file, 17, b"i2");
            put(file, place, b"i0");
        },
        &["page 17: inline bucket 0: key 1 is not greater than the one before it"],
    );
    finds(
        |file| file[element(17, 1, 12)] = 15,
        &["page 17: bucket 1 has a header of 15 bytes, not 16", "page 17: element 2 begins at byte 163, not at 162"],
    );
    finds(|file| file[element(17, 2, 12)] = 17, &["page 17: the header of bucket 2 is followed by 1 bytes"]);
}

#[test]
fn a_damaged_free_list_is_named() {
    finds(
        |file| put(file, at(FREELIST, 16), &[4]),
        &["page 2: the free list names page 4 more than once", "page 3: neither in use nor free (1 in a row)"],
    );
    finds(
        |file| put(file, at(FREELIST, 16), &[1]),
        &["page 2: the free list names page 1, which cannot be free", "page 3: neither in use nor free (1 in a row)"],
    );
    finds(
        |file| put(file, at(FREELIST, 16), &[5]),
        &[
            "page 2: the free list is out of order at 1",
            "page 3: neither in use nor free (1 in a row)",
            "page 5: in use and in the free list (1 in a row)",
        ],
    );
    finds(
        |file| put(file, at(FREELIST, 16), &[4, 0, 0, 0, 0, 0, 0, 0, 3]),
        &["page 2: the free list is out of order at 1"],
    );
    finds(
        |file| put(file, at(FREELIST, 16), &[0xff; 8]),
        &[
            "page 2: the free list is out of order at 1",
            "page 2: the free list names page 18446744073709551615, which cannot be free",
            "page 3: neither in use nor free (1 in a row)",
        ],
    );
    finds(|file| put(file, at(FREELIST, 10), &[1]), &["page 4: neither in use nor free (1 in a row)"]);
    finds(
        |file| put(file, at(FREELIST, 10), &[0xff; 2]),
        &[
            "page 2: the free list is out of order at 1",
            "page 2: the free list names page 0, which cannot be free",
            "page 2: the free list names page 0, which cannot be free",
            "page 3: neither in use nor free (1 in a row)",
        ],
    );
    finds(|file| put(file, at(FREELIST, 10), &[200]), &["page 2: a free list of 200 pages does not fit on its page"]);
    finds(|file| put(file, at(FREELIST, 8), &[2]), &["page 2: a leaf page where free list is needed"]);
    finds(|file| put(file, at(FREELIST, 12), &[1]), &["page 3: in use and in the free list (1 in a row)"]);
}

#[test]
fn damaged_metas_are_named() {
    finds(|file| file[at(0, 70)] ^= 1, &["page 0: meta page does not match its checksum"]);
    finds(|file| file[at(1, 16)] ^= 1, &["page 1: meta page has magic 0xed0cdaec"]);
    finds(|file| file[at(0, 0)] = 5, &["page 0: header of a meta page: the page says it is page 5"]);
    finds(|file| file[at(1, 8)] = 2, &["page 1: header of a meta page: a leaf page where meta is needed"]);
    finds(|file| put(file, at(0, 16), &[0; 64]), &["page 0: meta page has magic 0x00000000"]);
    finds(|file| put(file, 0, &vec![0; 2 * PAGE]), &["does not open"]);
    finds(
        |file| put_meta(file, [18, 0, 2, PAGES, 8]),
        &["page 0: element 0 leads to page 18, which is no page of a tree"],
    );
    finds(
        |file| put_meta(file, [0, 0, 2, PAGES, 8]),
        &["page 0: element 0 leads to page 0, which is no page of a tree"],
    );
    finds(
        |file| put_meta(file, [2, 0, 2, PAGES, 8]),
        &["page 2: used more than once, by pages 0, 0", "page 5: neither in use nor free (13 in a row)"],
    );
    finds(|file| put_meta(file, [17, 7, 2, PAGES, 8]), &["page 0: bucket 0 has the sequence 7"]);
    finds(
        |file| put_meta(file, [17, 0, 17, PAGES, 8]),
        &["page 17: used more than once, by pages 0, 0", "page 17: a leaf page where free list is needed"],
    );
    finds(
        |file| put_meta(file, [17, 0, u64::MAX - 1, PAGES, 8]),
        &["page 0: element 0 leads to page 18446744073709551614, which is no page of a tree"],
    );
    finds(
        |file| put_meta(file, [17, 0, 2, PAGES - 1, 8]),
        &["page 0: element 0 leads to page 17, which is no page of a tree"],
    );
    finds(
        |file| put_meta(file, [17, 0, 2, PAGES + 1, 8]),
        &["page 18: the file has 18432 bytes, its pages need 19456"],
    );
    finds(
        |file| put_meta(file, [17, 0, 2, u64::MAX, 8]),
        &["page 18: the file has 18432 bytes, its pages need 18446744073709551615"],
    );
    finds(
        |file| put_meta(file, [17, 0, 2, 1 << 60, 8]),
        &["page 18: the file has 18432 bytes, its pages need 18446744073709551615"],
    );
    finds(
        |file| put_meta(file, [17, 0, 2, 0, 8]),
        &[
            "page 0: element 0 leads to page 2, which is no page of a tree",
            "page 0: element 0 leads to page 17, which is no page of a tree",
        ],
    );
    finds(|file| put_meta(file, [17, 0, 2, PAGES, 11]), &["page 0: the meta pages are of transactions 11 and 7"]);
    finds(
        |file| put(file, 0, &meta(0, 2048, [17, 0, 2, PAGES, 8])),
        &[
            "page 1: meta page has magic 0x00000003",
            "page 2: the page says it is page 0",
            "page 9: the file has 18432 bytes, its pages need 36864",
            "page 17: cut short: 0 of 2048 bytes are there",
        ],
    );
}

#[test]
fn whole_pages_that_are_gone_or_elsewhere_are_named() {
    let copy = |file: &mut Vec<u8>, from: usize, to: usize| file.copy_within(at(from, 0)..at(from + 1, 0), at(to, 0));
    let swap = |file: &mut Vec<u8>, a: usize, b: usize| {
        let (first, second) = file.split_at_mut(at(b, 0));
        first[at(a, 0)..at(a + 1, 0)].swap_with_slice(&mut second[..PAGE]);
    };
    finds(|file| put(file, at(5, 0), &[0; PAGE]), &["page 5, bucket key: the page says it is page 0"]);
    finds(|file| put(file, at(7, 0), &[0; PAGE]), &[]);
    finds(|file| put(file, at(12, 0), &[0; PAGE]), &["page 12, bucket key: the page says it is page 0"]);
    finds(|file| put(file, at(17, 0), &[0; PAGE]), &["page 17: the page says it is page 0"]);
    finds(|file| copy(file, 5, 10), &["page 10, bucket key: the page says it is page 5"]);
    finds(
        |file| swap(file, 5, 10),
        &["page 5, bucket key: the page says it is page 10", "page 10, bucket key: the page says it is page 5"],
    );
    finds(
        |file| swap(file, 12, 13),
        &["page 12, bucket key: the page says it is page 13", "page 13, bucket key: the page says it is page 12"],
    );
    finds(
        |file| file.truncate(at(17, 0)),
        &["page 17: the file has 17408 bytes, its pages need 18432", "page 17: cut short: 0 of 1024 bytes are there"],
    );
    finds(
        |file| file.truncate(at(17, 100)),
        &["page 17: the file has 17508 bytes, its pages need 18432", "page 17: cut short: 100 of 1024 bytes are there"],
    );
    finds(
        |file| file.truncate(at(8, 0)),
        &["page 8: the file has 8192 bytes, its pages need 18432", "page 17: cut short: 0 of 1024 bytes are there"],
    );
    finds(
        |file| file.truncate(at(1, 0)),
        &[
            "page 1: meta page cut short",
            "page 1: the file has 1024 bytes, its pages need 18432",
            "page 2: cut short: 0 of 1024 bytes are there",
            "page 17: cut short: 0 of 1024 bytes are there",
        ],
    );
    finds(|file| file.extend([7; 5000]), &[]);
}

#[test]
fn severity_says_what_a_server_makes_of_it() {
    let worst = |damage: &dyn Fn(&mut Vec<u8>)| {
        let (mut bytes, _) = sample();
        damage(&mut bytes);
        exercise(bytes).unwrap().worst()
    };
    assert_eq!(worst(&|file| file[at(12, 10)] = 1), Some(Severity::Fatal), "a branch with one child");
    assert_eq!(worst(&|file| file[at(1, 70)] ^= 1), Some(Severity::Unsound), "a torn meta page");
    assert_eq!(worst(&|file| put_meta(file, [17, 7, 2, PAGES, 8])), Some(Severity::Harmless), "a sequence");
    assert_eq!(worst(&|file| file.push(1)), None, "a byte past the end");
}

/// Every byte of the file, flipped in two ways: what a check does not see is a value, a key that stays in its
/// place, or a byte that means nothing; and values it never sees.
#[test]
fn every_flipped_byte_is_seen_unless_it_is_data() {
    let (sound, data) = sample();
    for offset in 0..sound.len() {
        let (page, inside) = (offset / PAGE, offset % PAGE);
        let means_nothing = match page {
            // Of the headers of meta pages, only id and kind mean something.
            0 | 1 => (10..16).contains(&inside) || inside >= 80,
            FREELIST => inside >= 32,
            page => FREE.contains(&page),
        };
        let is_value = data.values.iter().any(|value| value.contains(&offset));
        let is_key = data.keys.iter().any(|key| key.contains(&offset));
        // The last element can grow into the zeros behind it.
        let is_last_length =
            (element(page, usize::from(sound[at(page, 10)].max(1)) - 1, 8)..).take(8).any(|at| at == offset);
        for flip in [0x01, 0x80] {
            let mut bytes = sound.clone();
            bytes[offset] ^= flip;
            let seen = exercise(bytes).is_none_or(|report| !report.is_sound());
            let place = format!("byte {inside} of page {page} ^ {flip:#x}");
            if is_value || means_nothing {
                assert!(!seen, "{place}: nobody can see this");
            } else if !is_key && !is_last_length {
                assert!(seen, "{place}");
            }
        }
    }
}

/// Whatever happens to whole pages, everything ends, and structure that is gone is seen.
#[test]
fn pages_lost_cut_copied_and_swapped_are_survived_and_seen() {
    let (sound, _) = sample();
    let silent = |page: usize| FREE.contains(&page) || INSIDE_VALUE.contains(&page);
    let seen = |bytes: Vec<u8>| exercise(bytes).is_none_or(|report| !report.is_sound());
    for page in 0..PAGES as usize {
        let mut zeroed = sound.clone();
        put(&mut zeroed, at(page, 0), &[0; PAGE]);
        assert_eq!(seen(zeroed), !silent(page), "zeroed page {page}");

        for inside in [0, 1, 16, 80, 500] {
            let mut cut = sound.clone();
            cut.truncate(at(page, inside));
            assert!(seen(cut), "cut at byte {inside} of page {page}");
        }
        for other in (0..PAGES as usize).filter(|&other| other != page) {
            let mut copied = sound.clone();
            copied.copy_within(at(page, 0)..at(page + 1, 0), at(other, 0));
            assert_eq!(seen(copied), !silent(other), "page {page} over {other}");

            let mut swapped = sound.clone();
            swapped.copy_within(at(page, 0)..at(page + 1, 0), at(other, 0));
            put(&mut swapped, at(page, 0), &sound[at(other, 0)..at(other + 1, 0)]);
            assert_eq!(seen(swapped), !(silent(page) && silent(other)), "pages {page} and {other} swapped");
        }
    }
}
