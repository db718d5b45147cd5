//! What every store promises, one case per promise, called for each of them: memory and a folder in
//! `memory_and_folder.rs`, the others, with their real servers, in `real_*.rs`.
//!
//! `contract!(open)` makes a test of each case. `open` is an async function that opens the same place anew each time.
//!
//! - [`objects`]: what is put; [`conditions`]: only if; [`listings`]: what is there, and gone; [`uploads`]: in parts
//! - [`bad_day`]: what arrives when requests go wrong
//! - [`names`]: names that no other test has; [`lesser`]: a store that says that it can do less

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

mod bad_day;
mod conditions;
mod lesser;
mod listings;
mod names;
mod objects;
mod uploads;

use std::sync::Arc;

use store::{Credentials, Settings, Store};

pub use bad_day::*;
pub use conditions::*;
pub use lesser::Lesser;
pub use listings::*;
pub use names::{assert_deleted, filled, keys, list, part_size, scratch};
pub use objects::*;
pub use uploads::*;

/// Makes a test of every case.
#[macro_export]
macro_rules! contract {
    ($open:path) => {
        $crate::contract!($open:
            what_is_put_is_read_back, an_empty_object_is_an_object, ranges_are_clipped_or_refused, what_is_not_there_is_told,
            a_put_replaces, only_one_of_many_is_first, no_change_is_lost_among_many, a_stale_tag_replaces_nothing,
            listings_are_in_order_of_bytes, listings_go_on_after_a_key, a_folder_is_not_its_namesakes, odd_names_are_names,
            many_are_deleted_at_once, metadata_comes_back, labels_come_back, parts_come_in_any_order, an_upload_is_gone_on_with_by_another,
            an_upload_is_given_up, nothing_shows_before_it_is_complete, completion_keeps_its_condition,
            what_is_retained_stays,
        );
    };
    ($open:path: $($case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let first = $open().await;
                let second = $open().await;
                $crate::contract::$case(first, second).await;
            }
        )+
    };
}

type Opened = Arc<dyn Store>;

/// How an S3 at `url` is reached with a key.
pub fn s3_settings(url: String, id: &str, secret: &str) -> Settings {
    let credentials = Credentials::Keys { id: id.into(), secret: secret.into(), token: None };
    Settings { credentials, endpoint: Some(url), region: Some("us-east-1".into()), ..Settings::default() }
}
