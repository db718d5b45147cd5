//! Pages whose headers are damaged, and whole ones that are gone or elsewhere.

use crate::{PAGE, at, finds, put};

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
        &["page 6, bucket key: 1 pages of overflow are not needed", "page 10: used more than once, by pages 6, 13"],
    );
    finds(|file| put(file, at(5, 12), &[0xff; 4]), &["page 5, bucket key: outside the file, which has 18 pages"]);
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
