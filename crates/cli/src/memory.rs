//! What the allocator is told at run time.

use std::ffi::CStr;

use tikv_jemalloc_sys::mallctl;

/// Has what is freed given back at once, instead of within a second (`.cargo/config.toml`), by what there is of the
/// allocator and by what is yet to be. Whoever stays for months is measured by its peak, and the kernel's work for that is
/// small beside waiting (`docs/performance.md`, "Following"); a command that somebody waits for is a third slower with it.
pub(crate) fn give_back_at_once() {
    for setting in SETTINGS {
        set_to_zero(setting);
    }
}

const SETTINGS: [&CStr; 2] = [c"arenas.dirty_decay_ms", c"arena.0.dirty_decay_ms"];

/// Gives what it was before. Nothing if this allocator has no such setting.
#[allow(unsafe_code, reason = "there is no other way to ask the allocator for anything")]
fn set_to_zero(setting: &CStr) -> Option<isize> {
    let (mut before, mut zero) = (0_isize, 0_isize);
    let mut size = size_of_val(&before);
    // SAFETY: the name ends with a zero byte. What is written and what is read are values of the sizes that are said, which
    // outlive the call. Both settings are of C's `ssize_t`, which is `isize`, and jemalloc refuses another size.
    let failed = unsafe {
        let (before, zero) = ((&raw mut before).cast(), (&raw mut zero).cast());
        mallctl(setting.as_ptr(), before, &raw mut size, zero, size)
    };
    (failed == 0).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_is_kept_for_a_second_until_the_allocator_is_told() {
        assert_eq!(SETTINGS.map(set_to_zero), [Some(1000), Some(1000)], "as it is built");
        give_back_at_once();
        assert_eq!(SETTINGS.map(set_to_zero), [Some(0), Some(0)]);
        assert_eq!(set_to_zero(c"arenas.dirty_decay"), None, "there is no such setting");
    }
}
