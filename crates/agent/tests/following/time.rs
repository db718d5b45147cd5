//! Time that goes on only when everybody waits. A world has a thread, a runtime and a clock of its own, and hours of it take
//! no longer than what is done in them.
//!
//! Tokio's paused clock goes on to the next timer when its runtime has nothing to do, and stands still while something is under
//! way on threads that may block. Two things are left:
//!
//! - What is under way there may itself wait for a timer, as a request does that is made again after a pause. Then everybody
//!   waits, and the clock stands still all the same. So somebody looks whether all threads sleep; if they do, a little
//!   time goes by.
//! - The thread that seals: see [`crate::sealing`].
//!
//! Whether a thread sleeps, the kernel tells, not how long it has said nothing. So no deadline passes because a machine is slow.

use std::fs::{self, File};
use std::io::Read;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{advance, sleep};

use crate::sealing;

/// So much time goes by at once where somebody waits on a thread that may block: little beside every deadline.
const STEP: Duration = Duration::from_millis(200);
/// How often, by a real clock, somebody looks whether all wait.
const LOOK_EVERY: Duration = Duration::from_micros(400);

/// How long a world may take by a real clock: it is done in seconds, or waits for something that does not come.
const LIVES: Duration = Duration::from_secs(600);

/// Longer than anybody goes on with something that nobody waits for.
const REST: Duration = Duration::from_secs(900);

/// The threads of a world are called so, with its number.
const WORLD: &str = "world-";
/// Whoever lets time go on is called so.
const DRIVER: &str = "time";

/// Does `work` in a world of its own.
pub(crate) fn in_its_own_time<T: Send, F: Future<Output = T>>(work: impl FnOnce() -> F + Send) -> T {
    static WORLDS: AtomicU64 = AtomicU64::new(0);
    sealing::holds_time_up();
    let name = format!("{WORLD}{}", WORLDS.fetch_add(1, Ordering::Relaxed));
    thread::scope(|scope| {
        let world = thread::Builder::new().name(name.clone()).spawn_scoped(scope, || live(&name, work)).unwrap();
        world.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn live<T, F: Future<Output = T>>(name: &str, work: impl FnOnce() -> F) -> T {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).thread_name(name).build().unwrap();
    let is_over = AtomicBool::new(false);
    let main = Path::new("/proc").join(fs::read_link("/proc/thread-self").unwrap()).join("stat");
    let (gives_up, is_given_up) = oneshot::channel();
    let driver = Driver { world: name, main, runtime: runtime.handle().clone(), is_over: &is_over, gives_up };
    thread::scope(|scope| {
        // Also when the work panics.
        let _end = End(&is_over);
        thread::Builder::new().name(DRIVER.into()).spawn_scoped(scope, || driver.drive()).unwrap();
        runtime.block_on(async {
            let done = tokio::select! {
                biased;
                done = work() => done,
                Ok(()) = is_given_up => panic!("it has not come to its end within {LIVES:?}"),
            };
            // What is still under way on threads that may block comes to its end, which it cannot without a runtime.
            sleep(REST).await;
            done
        })
    })
}

/// Dropped, the world is over.
struct End<'w>(&'w AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Who lets time go on.
struct Driver<'w> {
    world: &'w str,
    /// Where the kernel tells of the thread that its runtime has.
    main: PathBuf,
    runtime: Handle,
    is_over: &'w AtomicBool,
    gives_up: oneshot::Sender<()>,
}

impl Driver<'_> {
    fn drive(self) {
        let began = Instant::now();
        while !self.is_over.load(Ordering::SeqCst) {
            if began.elapsed() > LIVES {
                let _ = self.gives_up.send(());
                return;
            }
            match self.do_all_wait() {
                true => self.let_time_go_on(),
                false => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Whether nobody goes on unless time does. Threads are looked at one after the other, and one that slept may have been
    /// woken by one that sleeps by now: so all are looked at twice.
    fn do_all_wait(&self) -> bool {
        // That one mostly does something, and then nobody else need be looked at.
        let is_idle = Seen::at(&self.main).is_none_or(|main| main.sleeps);
        is_idle && self.do_all_sleep() && self.do_all_sleep()
    }

    fn do_all_sleep(&self) -> bool {
        let threads = fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
        let mut seen = threads.filter_map(|thread| Seen::at(&thread.path().join("stat")));
        seen.all(|thread| thread.sleeps || self.is_elsewhere(&thread.name))
    }

    /// Whether a thread is of another world. Those that a world begins without a name have the world's; those that it gives a
    /// name may be anybody's.
    fn is_elsewhere(&self, name: &str) -> bool {
        name == DRIVER || (name.starts_with(WORLD) && name != self.world)
    }

    fn let_time_go_on(&self) {
        let (gone, has_gone) = channel::<()>();
        self.runtime.spawn(async move {
            advance(STEP).await;
            let _ = gone.send(());
        });
        let is_waited_for = || !self.is_over.load(Ordering::SeqCst);
        while has_gone.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) && is_waited_for() {}
    }
}

/// A thread, as the kernel tells of it.
struct Seen {
    name: String,
    sleeps: bool,
}

impl Seen {
    /// Nothing if it has ended. One that waits for a disk does not sleep.
    fn at(stat: &Path) -> Option<Self> {
        // What counts is at its beginning, and this is asked for hundreds of thousands of times.
        let mut beginning = [0; 128];
        let len = File::open(stat).and_then(|mut file| file.read(&mut beginning)).ok()?;
        let told = str::from_utf8(beginning.get(..len)?).ok()?;
        let (name, state) = told.split_once('(')?.1.rsplit_once(") ")?;
        Some(Self { name: name.to_owned(), sleeps: state.starts_with(['S', 'Z', 'X']) })
    }
}
