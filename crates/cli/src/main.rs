//! The refloat program. Everything is in the library beside it, where tests and tools reach it too.

use std::process::ExitCode;

/// What an agent needs at its most it needs seldom, to merge and to check, and each time on another thread. This one gives it
/// back; glibc's keeps it for each thread, and musl's is slow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
