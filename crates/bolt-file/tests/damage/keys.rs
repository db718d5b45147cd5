//! Keys that are out of order, or not where branches say.

use crate::{finds, place_of, put};

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
