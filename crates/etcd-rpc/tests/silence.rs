//! A peer that falls silent on a connection that was made, as behind a cable that was cut: nobody hangs up, and nothing comes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "these are tests")]

use std::sync::Arc;
use std::time::Duration;

use etcd_rpc::{Access, Fault, Member, Watch};
use testkit::{FakeEtcd, in_time, until_told};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, pause, resume, timeout};

/// When the server is asked whether it is there, and how long it may take to say so; and a little.
const NOTICED_WITHIN: Duration = Duration::from_secs(10 + 5 + 1);
/// Longer than that, and shorter than hashing may take.
const LONG: Duration = Duration::from_secs(300);

/// A network before a server.
struct Network {
    url: String,
    cut: Arc<Notify>,
}

impl Network {
    /// The one before the server at `url`.
    async fn before(url: &str) -> Self {
        let server = url.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let cut = Arc::new(Notify::new());
        let heard = Arc::clone(&cut);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(carry(client, server, Arc::clone(&heard)));
            }
        });
        Self { url, cut }
    }

    /// From now on nothing comes through on the connections that there are, and they stay.
    fn cut(&self) {
        self.cut.notify_waiters();
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, cut: Arc<Notify>) {
    let is_cut = tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => false,
        () = cut.notified() => true,
    };
    if is_cut {
        std::future::pending::<()>().await;
    }
}

async fn until(watch: &mut Watch, revision: i64) {
    loop {
        let seen = in_time("the next change", watch.next()).await.unwrap();
        if seen.events.last().is_some_and(|event| event.revision() >= revision) {
            return;
        }
    }
}

/// The clock of this test stands still except while nothing else is left to be done, and then goes on to what is due next. So
/// nobody waits, and what is told of time is exact.
#[tokio::test]
async fn who_falls_silent_is_noticed_and_what_is_waited_for_ends() {
    let etcd = FakeEtcd::start(1);
    let network = Network::before(&etcd.url(0)).await;
    let member = Member::new(network.url.parse().unwrap(), &Access::default());
    let mut watch = member.watch(0).await.unwrap();
    until(&mut watch, etcd.put("a", "1")).await;

    network.cut();
    etcd.put("a", "2");
    pause();
    let silent_since = Instant::now();
    let (watched, hashed) = tokio::join!(timeout(LONG, watch.next()), timeout(LONG, member.hash_kv(0)));
    let noticed_after = silent_since.elapsed();
    let watched = watched.expect("the watch does not end").unwrap_err();
    let hashed = hashed.expect("what was asked does not end").unwrap_err();
    for error in [watched, hashed] {
        assert!(matches!(error.fault, Fault::Unreachable { .. }), "{error:?}");
        assert!(error.is_transient(), "{error:?}");
    }
    assert!(noticed_after <= NOTICED_WITHIN, "noticed after {noticed_after:?}");

    // On another connection the same member is there, and nothing is missing.
    resume();
    let mut watch = until_told("it is watched again", async || {
        let watch = member.watch(1).await;
        watch.inspect_err(|error| assert!(error.is_transient(), "{error:?}"))
    })
    .await;
    until(&mut watch, 3).await;
}
