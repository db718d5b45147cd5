//! Asking a person for a passphrase, at the terminal and nowhere else: what is typed is not shown, and no pipe is read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

const TERMINAL: &str = "/dev/tty";

/// Whether there is a terminal to ask at.
pub fn somebody_is_there() -> bool {
    File::open(TERMINAL).is_ok_and(|terminal| tcgetattr(&terminal).is_ok())
}

/// What was typed so far: an archive may have several keys, and one passphrase for all of them.
#[derive(Default)]
pub struct Typed(Mutex<BTreeMap<String, String>>);

impl Typed {
    /// Asks for the passphrase of `what`, once.
    pub fn ask(&self, what: &str) -> Result<String, String> {
        let mut typed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = typed.get(what) {
            return Ok(known.clone());
        }
        let answer = answer(&format!("passphrase for {what}"))?;
        typed.insert(what.into(), answer.clone());
        Ok(answer)
    }
}

/// Asks for a passphrase that `what` is going to have, twice: what was mistyped would lock everybody out.
pub fn ask_for_new(what: &str) -> Result<String, String> {
    let first = answer(&format!("new passphrase for {what}"))?;
    let again = answer("the same again")?;
    if first == again { Ok(first) } else { Err("what was typed is not twice the same".into()) }
}

fn answer(question: &str) -> Result<String, String> {
    let asked = || {
        let terminal = File::options().read(true).write(true).open(TERMINAL)?;
        let silence = Silence::begin(&terminal)?;
        write!(&terminal, "{}: ", crate::output::quoted::Visible(question))?;
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
