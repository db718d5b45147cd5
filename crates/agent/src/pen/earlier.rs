//! Which process had the right to write last with this spool: whoever has the spool now need not wait for it.
//!
//! A spool is locked for as long as its agent lives, and the kernel gives the lock back when that ends, however it ends. So who
//! has got it knows that the one before is gone. That is so on one machine, and until it is booted: a copy of the folder, or a
//! volume that was attached elsewhere, says nothing of an agent that may still run where it was.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use archive::fence::Instance;
use serde::{Deserialize, Serialize};

use crate::whole_file;

/// Where it is noted.
#[derive(Debug)]
pub struct Earlier {
    file: PathBuf,
    /// What the machine is known by until it is booted again.
    boot: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    instance: Instance,
    boot: String,
}

const FILE: &str = "held-by.json";

impl Earlier {
    /// The note in `spool`, which nobody else has. Nothing where the machine does not tell when it was booted.
    pub fn in_spool(spool: &Path) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(Self { file: spool.join(FILE), boot: boot.trim().to_owned() })
    }

    /// The process that had the right last, if that is known to be gone.
    pub(super) fn gone(&self) -> Option<Instance> {
        // One that cannot be read is waited for.
        let note: Note = serde_json::from_slice(&fs::read(&self.file).ok()?).ok()?;
        Some(note.instance).filter(|_| note.boot == self.boot)
    }

    /// Notes that `instance` has it.
    pub(super) fn note(&self, instance: Instance) -> io::Result<()> {
        let note = Note { instance, boot: self.boot.clone() };
        whole_file::replace(&self.file, &serde_json::to_vec(&note)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_there_before_is_gone_unless_it_was_on_another_machine_or_before_a_boot() {
        let spool = tempfile::tempdir().unwrap();
        let here = Earlier::in_spool(spool.path()).unwrap();
        assert_eq!(here.gone(), None);
        here.note(Instance(7)).unwrap();
        assert_eq!(Earlier::in_spool(spool.path()).unwrap().gone(), Some(Instance(7)));
        let elsewhere = Earlier { boot: "another".into(), ..Earlier::in_spool(spool.path()).unwrap() };
        assert_eq!(elsewhere.gone(), None);
        fs::write(spool.path().join(FILE), "{\"instance\": ").unwrap();
        assert_eq!(here.gone(), None);
    }
}
