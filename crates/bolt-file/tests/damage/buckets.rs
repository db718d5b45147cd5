//! Buckets whose headers lie, and those that are in the element that names them.

use crate::{element, finds, place_of, put};

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
