//! The present moment, as it goes into names.

use jiff::Timestamp;

/// The time in UTC, as in `20261121T031502-127Z`, so fine that a person cannot meet it twice.
pub fn stamp() -> String {
    Timestamp::now().strftime("%Y%m%dT%H%M%S-%3fZ").to_string()
}
