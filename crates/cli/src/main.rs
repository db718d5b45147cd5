//! The refloat program. Everything is in the library beside it, where tests and tools reach it too.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
