//! A free list that does not name what is free.

use crate::{FREELIST, at, finds, put};

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
            "page 2: the free list names page 18446744073709551615, which cannot be free",
            "page 2: the free list is out of order at 1",
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
