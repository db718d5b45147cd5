//! Asking a person for a passphrase, at the terminal and nowhere else: what is typed is not shown, and no pipe is read.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

const TERMINAL: &str = "/dev/tty";

/// Whether there is a terminal to ask at.
pub fn somebody_is_there() -> bool {
    File::open(TERMINAL).is_ok_and(|terminal| tcgetattr(&terminal).is_ok())
}

/// Asks for the passphrase of `what`.
pub fn ask(what: &str) -> Result<String, String> {
    let asked = || {
        let terminal = File::options().read(true).write(true).open(TERMINAL)?;
        let silence = Silence::begin(&terminal)?;
        write!(&terminal, "passphrase for {}: ", crate::quoted::Visible(what))?;
        let mut line = String::new();
        BufReader::new(&terminal).read_line(&mut line)?;
        drop(silence);
        writeln!(&terminal)?;
        Ok::<_, std::io::Error>(line)
    };
    let line = asked().map_err(|error| format!("the terminal could not be asked: {error}"))?;
    match line.trim_end_matches(['\n', '\r']) {
        "" => Err("none was typed".into()),
        typed => Ok(typed.to_owned()),
    }
}

/// The terminal does not show what is typed, until this is dropped.
struct Silence<'t> {
    terminal: &'t File,
    before: Termios,
}

impl<'t> Silence<'t> {
    fn begin(terminal: &'t File) -> rustix::io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO;
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        // There is nothing else to do about it: the shell resets its terminal.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}
