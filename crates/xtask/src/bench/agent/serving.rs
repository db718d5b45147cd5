//! From the loss of the only member's disk until etcd serves again.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_rpc::{Access, Member};
use testkit::{Port, Version};

use super::super::archive::{link_all, restoring, scratch, w1};
use super::super::measure::{self, Run};
use super::super::work;
use super::{Bench, etcd, tell_table};
use crate::{Result, say};

const ROUNDS: usize = 3;
const SERVES_WITHIN: Duration = Duration::from_secs(120);
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Measures and prints.
pub(super) fn measure(bench: &Bench) -> Result<()> {
    let archive = w1()?;
    let folder = scratch()?;
    let restore = restoring(&bench.refloat, "restore", &archive, &folder.path().join("restored"));
    let mut restores = Vec::new();
    let mut times = Vec::new();
    let place = Place { client: Port::reserve(), peer: Port::reserve(), folder: folder.path().join("standalone") };
    // The first start finds no disk either, but nothing was lost before it.
    place.fill(&archive)?;
    let mut standalone = place.start(bench)?;
    place.wait_until_it_serves(&mut standalone)?;
    for _ in 0..ROUNDS {
        standalone.kill();
        place.wait_until_it_is_gone()?;
        restores.push(work::run(&restore)?);
        place.fill(&archive)?;
        let lost = Instant::now();
        fs::remove_dir_all(place.folder.join("etcd"))?;
        standalone = place.start(bench)?;
        place.wait_until_it_serves(&mut standalone)?;
        times.push(Run { wall: lost.elapsed().as_secs_f64(), cpu: 0.0, peak_mib: 0.0 });
    }
    let (restore, serving) = (measure::median(&restores), measure::median(&times));
    tell_table("| W1 | Seconds | ÷ `restore` |");
    say(&format!("| `restore` to a data directory | {:.2} | 1 |", restore.wall));
    say(&format!(
        "| disk lost → etcd answers a linearizable read | {:.2} | {:.2} |",
        serving.wall,
        serving.wall / restore.wall
    ));
    Ok(())
}

/// Where it all lies, and where etcd serves.
struct Place {
    client: Port,
    peer: Port,
    folder: PathBuf,
}

impl Place {
    /// Puts W1 in the place of whatever is archived here.
    fn fill(&self, archive: &Path) -> Result<()> {
        let here = self.folder.join("archive");
        work::remove(&here)?;
        work::remove(&self.folder.join("spool"))?;
        link_all(archive, &here)
    }

    fn start(&self, bench: &Bench) -> Result<Standalone> {
        let log = File::create(self.folder.join("log"))?;
        let mut command = Command::new(&bench.refloat);
        command.arg("standalone").arg("--dir").arg(&self.folder).arg("--etcd").arg(Version::V36.etcd());
        command.args(["--client-port", &self.client.number().to_string()]);
        command.args(["--peer-port", &self.peer.number().to_string(), "--listen", "127.0.0.1:0"]);
        Ok(Standalone(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?))
    }

    /// Asks until a linearizable read is answered.
    fn wait_until_it_serves(&self, standalone: &mut Standalone) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let until = Instant::now() + SERVES_WITHIN;
        loop {
            // A connection that was refused is not tried again at once, so each question has its own.
            let member = {
                let _inside = runtime.enter();
                Member::new(self.client.url().parse()?, &Access::default())
            };
            match etcd::revision(&runtime, &member) {
                Ok(revision) if revision > 1 => return Ok(()),
                Ok(_) => return Err("etcd serves, and has nothing".into()),
                Err(error) => {
                    let ended = standalone.0.try_wait()?;
                    if ended.is_some() || Instant::now() > until {
                        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                        return Err(format!("etcd does not serve: {error}\n{log}").into());
                    }
                }
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// Waits until etcd, which ends with whoever started it, has ended.
    fn wait_until_it_is_gone(&self) -> Result<()> {
        let until = Instant::now() + SERVES_WITHIN;
        while TcpStream::connect(self.client.address()).is_ok() {
            if Instant::now() > until {
                return Err("etcd goes on after refloat was killed".into());
            }
            std::thread::sleep(ASK_EVERY);
        }
        Ok(())
    }
}

/// `refloat standalone`. Killed when it is dropped, and etcd with it.
struct Standalone(Child);

impl Standalone {
    fn kill(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        self.kill();
    }
}
