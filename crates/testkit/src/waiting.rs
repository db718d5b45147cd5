//! Waiting for what has to come: longer than a loaded machine takes for it, and not for ever. Whoever waits in vain tells what there
//! was instead.

use std::fmt::Debug;
use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

/// How long something may take that takes moments on a machine with nothing else to do.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How long a program may take to do its work and end.
const ENDS_WITHIN: Duration = Duration::from_secs(600);
/// How often somebody looks again.
const POLL: Duration = Duration::from_millis(10);

/// Looks until there is what is waited for. What there is instead is an error.
///
/// # Panics
/// With the last of those, if it does not come.
#[track_caller]
pub fn until<T, I: Debug>(what: &str, mut look: impl FnMut() -> Result<T, I>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) => assert!(Instant::now() < deadline, "waiting until {what}: {instead:?}"),
        }
        thread::sleep(POLL);
    }
}

/// The same, where to look is to ask and to wait for the answer.
///
/// # Panics
/// With the last error, if it does not come.
pub async fn until_told<T, I: Debug>(what: &str, mut look: impl AsyncFnMut() -> Result<T, I>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match in_time(what, look()).await {
            Ok(found) => return found,
            Err(instead) => assert!(Instant::now() < deadline, "waiting until {what}: {instead:?}"),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What comes of `future`.
///
/// # Panics
/// If nothing does.
pub async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    let come = tokio::time::timeout(PATIENCE, future).await;
    come.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain: {what}"))
}

/// A program that does its work and ends.
pub trait Ends {
    /// Runs it to its end, with nothing to read. Gives what it printed; an error if it cannot be started.
    ///
    /// # Panics
    /// With what it has printed so far, if it does not end.
    fn output_in_time(&mut self) -> io::Result<Output>;
}

impl Ends for Command {
    #[track_caller]
    fn output_in_time(&mut self) -> io::Result<Output> {
        // Files, and not pipes: what it leaves behind when it is killed may hold those open.
        let [out, err] = ["stdout-", "stderr-"].map(|name| NamedTempFile::with_prefix(name).unwrap());
        self.stdin(Stdio::null()).stdout(out.reopen().unwrap()).stderr(err.reopen().unwrap());
        let mut child = self.spawn()?;
        let ended = ended_within(&mut child, ENDS_WITHIN);
        let [stdout, stderr] = [out, err].map(|file| fs::read(file.path()).unwrap());
        let Some(status) = ended else {
            let [stdout, stderr] = [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
            panic!("{self:?} does not end:\n{stdout}\n{stderr}")
        };
        Ok(Output { status, stdout, stderr })
    }
}

/// How `child` has ended within `patience`. It is killed if it has not.
pub fn ended_within(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    // Most programs here end at once.
    let mut pause = Duration::from_millis(1);
    loop {
        let ended = child.try_wait().unwrap();
        if ended.is_some() {
            return ended;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_and_how_it_ends_is_told() {
        let output = Command::new("sh").args(["-c", "echo out; echo err >&2; exit 7"]).output_in_time().unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(7));
        assert!(Command::new("/nowhere/program").output_in_time().is_err());
    }

    #[test]
    fn what_does_not_end_is_killed() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(ended_within(&mut child, Duration::from_millis(20)), None);
        assert!(child.try_wait().unwrap().is_some_and(|status| !status.success()));
    }

    #[test]
    fn who_looks_often_enough_finds_it() {
        let mut looks = 0;
        let found = until("it was looked at three times", || {
            looks += 1;
            if looks == 3 { Ok("found") } else { Err(looks) }
        });
        assert_eq!((found, looks), ("found", 3));
    }
}
