//! That a child takes signals as any program does, whatever started us.
//!
//! A signal that is ignored stays ignored in what a process starts, and one that is blocked stays blocked. `nohup` ignores one, and so do
//! shells for what they run in the background: what is passed on would then not reach the child. One that is caught, though, is
//! at its default there. So those that are ignored are caught, by what does nothing with them, which makes no difference here,
//! needs no code between fork and exec, and so no `unsafe`.

use std::fs;
use std::io;
use std::sync::OnceLock;

use nix::sys::signal::SigSet;
use rustix::process::Signal;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Those that were ignored when the first child was started. From then on they are caught.
static IGNORED: OnceLock<Vec<i32>> = OnceLock::new();

/// What a hangup of the terminal means to whoever started us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hangup {
    /// We end, and so does what we started.
    Heard,
    /// All of us outlive it.
    Ignored,
}

/// Lets children that this thread starts hear all signals that are sent to them.
pub(super) fn let_through() -> io::Result<Hangup> {
    let ignored = match IGNORED.get() {
        Some(ignored) => ignored,
        None => {
            let ignored = ignored()?;
            catch(&ignored)?;
            IGNORED.get_or_init(|| ignored)
        }
    };
    SigSet::empty().thread_set_mask()?;
    Ok(if ignored.contains(&Signal::HUP.as_raw()) { Hangup::Ignored } else { Hangup::Heard })
}

fn catch(signals: &[i32]) -> io::Result<()> {
    // What catches them stays when the runtime is gone.
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    signals.iter().try_for_each(|number| signal(SignalKind::from_raw(*number)).map(drop))
}

/// What this process ignores.
fn ignored() -> io::Result<Vec<i32>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let mask = mask.ok_or_else(|| io::Error::other("/proc/self/status does not say which signals are ignored"))?;
    let is_ignored = |number: &i32| mask >> (number - 1) & 1 == 1;
    Ok((1..=31).filter(is_ignored).filter(|number| !LEFT.iter().any(|left| left.as_raw() == *number)).collect())
}

/// What nobody passes on: faults, which cannot be caught so, and broken pipes, which the standard library ignores in every
/// program and puts right in children.
const LEFT: [Signal; 4] = [Signal::ILL, Signal::FPE, Signal::SEGV, Signal::PIPE];
