//! Elements that lead elsewhere, or tell of other lengths.

use crate::{element, finds, put};

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
