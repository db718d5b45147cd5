//! `refloat completions`

use clap_complete::Shell;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::ui::Ui;

/// Writes the completions for a shell
///
/// For bash: `refloat completions bash > /etc/bash_completion.d/refloat`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Writes them.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    // The generator takes no error of writing, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "refloat", &mut script);
    std::io::Write::write_all(ui.out(), &script)?;
    Ok(Exit::Success)
}
