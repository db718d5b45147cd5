//! What agents have on their machine's disk.

use std::path::Path;

use etcd_data::Revision;
use tokio::time::{Instant, sleep};

use crate::world::{A_MOMENT, SOON, World};

impl World {
    /// Waits until the first agent has sealed `last`, delivered or not.
    pub(crate) async fn until_spooled(&self, last: Revision) {
        let (spool, end) = (self.folder.path().join("spool-0"), format!("{}.delta", last.0));
        let until = Instant::now() + SOON;
        while !deltas_below(&spool).iter().any(|name| name.ends_with(&end)) {
            assert!(Instant::now() < until, "{end}: {:?}", deltas_below(&spool));
            sleep(A_MOMENT).await;
        }
    }

    /// What agents have set aside.
    pub(crate) fn set_aside(&self) -> Vec<String> {
        let all = deltas_below(self.folder.path());
        all.into_iter().filter(|name| name.contains("set-aside")).collect()
    }
}

/// Copies a folder, as who keeps an earlier state of a machine.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    std::fs::set_permissions(to, std::fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

fn deltas_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        match entry.path().is_dir() {
            true => found.extend(deltas_below(&entry.path())),
            false => found.push(entry.path().display().to_string()),
        }
    }
    found
}
