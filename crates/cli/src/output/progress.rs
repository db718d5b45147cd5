//! A bar for what takes long: how far, how fast, how much longer. On a terminal only, and not for what is over at once.

use std::fs;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is over sooner needs no bar.
const PATIENCE: Duration = Duration::from_millis(600);
const TICK: Duration = Duration::from_millis(150);

/// A bar, gone when it is dropped.
pub struct Bar {
    bar: ProgressBar,
    what: &'static str,
    begun: Instant,
}

impl Bar {
    /// A bar for `what`.
    pub fn new(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_message(what);
        bar.set_style(style("{spinner} {msg}  {bytes}  {bytes_per_sec}  {elapsed}"));
        Self { bar, what, begun: Instant::now() }
    }

    /// Shows that so many bytes of `what` are done, of about so many.
    pub fn show(&mut self, what: &'static str, done_bytes: u64, of_bytes: u64) {
        if self.what != what {
            self.what = what;
            self.bar.reset();
            self.bar.set_message(what);
        }
        self.bar.set_position(done_bytes);
        if of_bytes > 0 && self.bar.length() != Some(of_bytes) {
            self.bar.set_length(of_bytes);
            self.bar.set_style(style("{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"));
        }
        if self.bar.is_hidden() && self.begun.elapsed() > PATIENCE && io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()).progress_chars("=> ")
}

/// A bar that moves by itself, by what this process reads. Gone when it is dropped.
pub struct Reading {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    /// A bar for `what`, which will read about `of_bytes`.
    pub fn begin(what: &'static str, of_bytes: u64) -> Self {
        let Some(before) = read_bytes().filter(|_| io::stderr().is_terminal()) else {
            return Self { over: None, thread: None };
        };
        let (over, is_over) = channel();
        let mut bar = Bar::new(what);
        let thread = thread::spawn(move || {
            while is_over.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                bar.show(what, read_bytes().unwrap_or(before).saturating_sub(before), of_bytes);
            }
        });
        Self { over: Some(over), thread: Some(thread) }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The bytes that this process has read so far, as far as the system counts them.
fn read_bytes() -> Option<u64> {
    let counts = fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}
