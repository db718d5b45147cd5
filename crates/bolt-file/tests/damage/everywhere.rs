//! The same damage at every byte and at every page.

use crate::exercise::exercise;
use crate::hand::sample;
use crate::{FREELIST, PAGE, PAGES, at, element, put};

const FREE: [usize; 2] = [3, 4];
/// Pages that hold nothing but a value that began on the page before them.
const INSIDE_VALUE: [usize; 2] = [7, 8];

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
