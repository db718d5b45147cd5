//! What the allocator is told at run time.

use std::ffi::CStr;

use agent::free_memory::Keep;
use tikv_jemalloc_sys::mallctl;

/// Keeps what is free so long from now on, of what there is and of what is yet to be allocated.
pub(crate) fn keep(keep: Keep) {
    let milliseconds = match keep {
        Keep::ForAWhile => A_WHILE,
        Keep::Nothing => 0,
    };
    for setting in SETTINGS {
        set(setting, milliseconds);
    }
}

/// As it is built (`.cargo/config.toml`).
const A_WHILE: isize = 1000;
const SETTINGS: [&CStr; 2] = [c"arenas.dirty_decay_ms", c"arena.0.dirty_decay_ms"];

/// Gives what it was before. Nothing if this allocator has no such setting.
#[allow(unsafe_code, reason = "there is no other way to ask the allocator for anything")]
fn set(setting: &CStr, mut value: isize) -> Option<isize> {
    let mut before = 0_isize;
    let mut size = size_of_val(&before);
    // SAFETY: the name ends with a zero byte. What is written and what is read are values of the sizes that are said, which
    // outlive the call. Both settings are of C's `ssize_t`, which is `isize`, and jemalloc refuses another size.
    let failed = unsafe {
        let (before, value) = ((&raw mut before).cast(), (&raw mut value).cast());
        mallctl(setting.as_ptr(), before, &raw mut size, value, size)
    };
    (failed == 0).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_kept_as_the_allocator_is_told_last() {
        let told = || SETTINGS.map(|setting| set(setting, 7));
        assert_eq!(told(), [Some(A_WHILE); 2], "as it is built");
        keep(Keep::Nothing);
        assert_eq!(told(), [Some(0); 2]);
        keep(Keep::ForAWhile);
        assert_eq!(told(), [Some(A_WHILE); 2]);
        assert_eq!(set(c"arenas.dirty_decay", 7), None, "there is no such setting");
    }
}
