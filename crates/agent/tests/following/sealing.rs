//! Work on the thread that seals. It is none of tokio's, whose clock would go on as if nobody did anything.
//!
//! Following says by a span that something is being sealed. While there is one, a thread of tokio's own waits for its end,
//! and as long as such a thread is not done, a paused clock stands still.

use std::cell::{Cell, RefCell};
use std::sync::Once;
use std::sync::mpsc::{Sender, channel};

use tokio::task::spawn_blocking;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_global_default;
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    /// One for each span: who waits is done when it is dropped. Spans begin and end on the thread that their runtime has.
    static UNDER_WAY: RefCell<Vec<Sender<()>>> = const { RefCell::new(Vec::new()) };
    static BEGUN: Cell<u64> = const { Cell::new(0) };
}

/// From now on time stands still while something is sealed.
pub(crate) fn holds_time_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_global_default(Listener).unwrap());
}

/// How often sealing has begun in this world.
pub(crate) fn begun() -> u64 {
    BEGUN.get()
}

fn begins() {
    BEGUN.set(BEGUN.get() + 1);
    let (under_way, end) = channel::<()>();
    spawn_blocking(move || {
        let _ = end.recv();
    });
    UNDER_WAY.with_borrow_mut(|all| all.push(under_way));
}

fn ends() {
    UNDER_WAY.with_borrow_mut(|all| drop(all.pop()));
}

/// Who hears of spans.
struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "seal"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        begins();
        Id::from_u64(1)
    }

    fn clone_span(&self, id: &Id) -> Id {
        begins();
        id.clone()
    }

    fn try_close(&self, _: Id) -> bool {
        ends();
        true
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
