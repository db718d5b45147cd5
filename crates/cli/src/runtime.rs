//! What waits for networks and disks.

use etcd_data::error::kind_of;
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// A runtime that uses all cores.
pub fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::because(kind_of(&error), "cannot begin", &error))
}

/// What this machine is called, with what is done on it: who writes, as others are told.
pub fn holder(what: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{what} on {} (process {})", host.trim(), std::process::id())
}

/// When somebody says that it is time to stop: Ctrl-C, or SIGTERM.
pub fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};

    let cannot = |error| Failure::because(etcd_data::Kind::Unavailable, "cannot listen for signals", &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
