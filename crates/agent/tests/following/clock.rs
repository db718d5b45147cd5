//! That the clock of these tests is told to go on, and hurries nobody who works.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

use agent::follow::sealer::Sealer;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep};
use tracing::Instrument;

use crate::sealing;
use crate::time::in_its_own_time;
use crate::world::World;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// Takes a while by every clock but the world's.
fn compute() {
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(50) {
        spin_loop();
    }
}

/// On a thread that may block, as an archive does for a store that has to be asked again.
fn wait_a_minute() -> JoinHandle<()> {
    let runtime = Handle::current();
    spawn_blocking(move || runtime.block_on(async { sleep(MINUTE).await }))
}

#[test]
fn when_all_wait_time_goes_on() {
    let began = std::time::Instant::now();
    in_its_own_time(|| async {
        let began = Instant::now();
        wait_a_minute().await.unwrap();
        assert!(began.elapsed() >= MINUTE && began.elapsed() < MINUTE * 2, "{:?}", began.elapsed());
        sleep(DAY).await;
        assert!(began.elapsed() >= DAY);
    });
    assert!(began.elapsed() < MINUTE, "{:?}", began.elapsed());
}

#[test]
fn while_somebody_computes_time_stands_still_whoever_else_waits() {
    in_its_own_time(|| async {
        let began = Instant::now();
        let waiting = wait_a_minute();
        let computing = spawn_blocking(move || {
            // On a thread that nobody has told anybody of.
            thread::scope(|scope| drop(scope.spawn(compute)));
            began.elapsed()
        });
        assert_eq!(computing.await.unwrap(), Duration::ZERO);
        waiting.await.unwrap();
        assert!(began.elapsed() >= MINUTE);
    });
}

#[test]
fn while_something_is_sealed_time_stands_still() {
    in_its_own_time(|| async {
        let began = Instant::now();
        let waiting = tokio::spawn(sleep(MINUTE));
        let sealer = Sealer::start().unwrap();
        sealer.run(compute).instrument(tracing::info_span!("seal")).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        waiting.await.unwrap();

        // Following says when it seals, or all this is for nothing.
        let before = sealing::begun();
        let _world = World::with_a_delta(1).await;
        assert!(sealing::begun() > before);
    });
}
