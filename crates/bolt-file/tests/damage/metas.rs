//! Meta pages that do not match their checksum, or lead elsewhere.

use crate::hand::meta;
use crate::{PAGE, PAGES, at, finds, put, put_meta};

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
