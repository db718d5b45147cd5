//! `refloat man`

use etcd_data::Kind;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::ui::Ui;

/// Writes a manual page
///
/// `refloat man | man -l -` shows the page of the program, `refloat man restore | man -l -` that of a command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command that the page is about; the program itself if not given
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Writes it.
pub fn run(ui: &mut Ui, args: &Args) -> Result<Exit, Failure> {
    let mut program = crate::command();
    program.build();
    let subject = match &args.command {
        None => program,
        Some(name) => program.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::new(Kind::Usage, format!("there is no command called {name}"))
                .hint("`refloat help` lists the commands")
        })?,
    };
    clap_mangen::Man::new(subject).render(ui.out())?;
    Ok(Exit::Success)
}
