//! The refloat program. Everything is in the library beside it, where tests and tools reach it too.

mod memory;

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// An agent seals, merges and checks on threads that come and go, for months. The C library's allocator keeps for each of
/// them what it needed at its most; this one gives back what nobody has used for a second (`.cargo/config.toml`).
#[global_allocator]
static MEMORY: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    cli::main(memory::keep)
}
