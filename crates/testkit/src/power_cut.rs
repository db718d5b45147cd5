//! What a power cut could take from a process: what it asks of the kernel, written down by `strace`, and what of that is
//! on the disk at each moment.
//!
//! A file that is written is on the disk when it is synced, and a name when its folder is. Names that begin with a dot are
//! for what is in the making, which nobody misses. What a rename gives any other name has to be on the disk by then, all
//! of it, and so has everything that was named before: who sees the later one relies on the earlier one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::servers;
use crate::waiting::Ends;

/// Everything that changes files, or makes changes last. Some of it not every architecture has.
const CALLS: &str = "trace=fsync,fdatasync,openat,write,writev,pwrite64,pwritev,pwritev2,copy_file_range,fallocate,\
                     ftruncate,mkdirat,?mkdir,unlinkat,?unlink,?rmdir,renameat2,?renameat,?rename,linkat,?link";

/// What a process has done below a folder.
#[derive(Debug, Default)]
pub struct Traced {
    folder: PathBuf,
    /// What got a name that others see, in order.
    pub published: Vec<PathBuf>,
    /// What was not on the disk yet when something else got its name, and that name.
    pub too_early: Vec<(PathBuf, PathBuf)>,
    /// Files with bytes, and folders with names, that are not on the disk.
    unsynced: BTreeSet<PathBuf>,
}

/// Runs `program` to its end. Gives what it printed, and what it did below `folder`, which is the path that the kernel has
/// for it.
pub fn traced(program: &str, args: &[impl AsRef<OsStr>], folder: &Path) -> (Output, Traced) {
    let trace = tempfile::NamedTempFile::with_prefix("strace-").unwrap();
    let output = strace(trace.path()).arg(program).args(args).stdin(Stdio::null()).output_in_time().unwrap();
    let traced = Traced::read(trace.path(), folder, &String::from_utf8_lossy(&output.stderr));
    (output, traced)
}

/// What starts `program`, which goes on until it is told to stop. The process that is started is the program's own, so that it
/// can be told. What it does is written down in the file `trace`, for [`Traced::of_stopped`].
pub fn tracing(program: &str, args: &[impl AsRef<OsStr>], trace: &Path) -> Command {
    let mut command = strace(trace);
    command.arg("-D").arg(program).args(args);
    command
}

/// `strace` but for what it is to run.
fn strace(trace: &Path) -> Command {
    let libraries = servers::libunwind();
    let mut command = Command::new(servers::strace());
    command
        .env("LD_LIBRARY_PATH", libraries.parent().unwrap())
        .args(["-f", "-y", "-q", "-s", "0", "-e", "signal=none", "-e", CALLS, "-E", "LD_LIBRARY_PATH", "-o"])
        .arg(trace);
    command
}

impl Traced {
    /// What a program of [`tracing`] that has ended did below `folder`.
    pub fn of_stopped(trace: &Path, folder: &Path) -> Self {
        Self::read(trace, folder, "")
    }

    /// What the file `trace` says of `folder`. `said` is what was printed instead if that is nothing.
    fn read(trace: &Path, folder: &Path, said: &str) -> Self {
        let trace = std::fs::read_to_string(trace).unwrap();
        assert!(trace.contains('('), "strace writes nothing down; is it permitted to trace here?\n{said}");
        Self::of(&trace, folder)
    }

    /// What `trace` says of `folder`.
    fn of(trace: &str, folder: &Path) -> Self {
        let mut traced = Self { folder: folder.to_owned(), ..Self::default() };
        calls(trace).iter().for_each(|call| traced.hear(call));
        traced
    }

    /// What others see and a power cut after the end would take back.
    pub fn lost(&self) -> Vec<&PathBuf> {
        self.unsynced.iter().filter(|path| !self.is_hidden(path)).collect()
    }

    fn hear(&mut self, call: &Call) {
        match call.name.as_str() {
            "fsync" | "fdatasync" => drop(self.unsynced.remove(&call.file(0))),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "fallocate" | "ftruncate" => {
                self.changed(call.file(0));
            }
            "copy_file_range" => self.changed(call.file(2)),
            "openat" if call.args[2].contains("O_CREAT") => {
                let made = in_angles(&call.result);
                self.named(&made);
                self.changed(made);
            }
            "mkdir" => self.named(&call.path(0)),
            "mkdirat" => self.named(&call.path_at(0)),
            "unlink" | "rmdir" => self.removed(&call.path(0)),
            "unlinkat" => self.removed(&call.path_at(0)),
            "rename" => self.renamed(&call.path(0), &call.path(1)),
            "renameat2" if call.args[4].contains("RENAME_EXCHANGE") => {
                self.exchanged(&call.path_at(0), &call.path_at(2));
            }
            "renameat" | "renameat2" => self.renamed(&call.path_at(0), &call.path_at(2)),
            "link" => self.publishes(&call.path(0), &call.path(1)),
            "linkat" => self.publishes(&call.path_at(0), &call.path_at(2)),
            _ => {}
        }
    }

    /// Whether nobody looks there: something on the way to it begins with a dot.
    fn is_hidden(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.folder).unwrap_or(path);
        below.iter().any(|name| name.as_encoded_bytes().starts_with(b"."))
    }

    fn changed(&mut self, path: PathBuf) {
        if path.starts_with(&self.folder) {
            self.unsynced.insert(path);
        }
    }

    /// A name came or went. What is hidden in a folder that is not, nobody misses there.
    fn named(&mut self, path: &Path) {
        let Some(parent) = path.parent() else { return };
        if !self.is_hidden(path) || self.is_hidden(parent) {
            self.changed(parent.to_owned());
        }
    }

    fn removed(&mut self, path: &Path) {
        self.unsynced.retain(|unsynced| !unsynced.starts_with(path));
        self.named(path);
    }

    fn publishes(&mut self, from: &Path, to: &Path) {
        if to.starts_with(&self.folder) && !self.is_hidden(to) {
            let relied_on = |path: &&PathBuf| path.starts_with(from) || !self.is_hidden(path);
            let early: Vec<PathBuf> = self.unsynced.iter().filter(relied_on).cloned().collect();
            self.too_early.extend(early.into_iter().map(|path| (path, to.to_owned())));
            self.published.push(to.to_owned());
        }
        self.named(to);
    }

    fn renamed(&mut self, from: &Path, to: &Path) {
        self.publishes(from, to);
        self.moved(|path| below(path, from, to));
        self.named(from);
    }

    fn exchanged(&mut self, one: &Path, other: &Path) {
        self.publishes(one, other);
        self.moved(|path| below(path, one, other).or_else(|| below(path, other, one)));
        self.named(one);
    }

    /// What is not on the disk is elsewhere now, if `there` says so.
    fn moved(&mut self, there: impl Fn(&Path) -> Option<PathBuf>) {
        let unsynced = std::mem::take(&mut self.unsynced).into_iter();
        self.unsynced = unsynced.map(|path| there(&path).unwrap_or(path)).collect();
    }
}

/// Where `path` is when `from` has become `to`. Nothing if it is not below.
fn below(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    Some(to.iter().chain(path.strip_prefix(from).ok()?).collect())
}

/// A call that succeeded.
struct Call {
    name: String,
    args: Vec<String>,
    result: String,
}

impl Call {
    /// Nothing if it did not succeed, or is none.
    fn parse(text: &str) -> Option<Self> {
        let (call, result) = text.rsplit_once(" = ").filter(|(_, result)| !result.starts_with(['-', '?']))?;
        let (name, args) = call.trim_end().strip_suffix(')')?.split_once('(')?;
        let args = args.split(", ").map(str::to_owned).collect();
        Some(Self { name: name.to_owned(), args, result: result.to_owned() })
    }

    /// The file of a descriptor.
    fn file(&self, at: usize) -> PathBuf {
        in_angles(&self.args[at])
    }

    fn path(&self, at: usize) -> PathBuf {
        PathBuf::from(self.args[at].trim_matches('"'))
    }

    /// The path that is told by the descriptor of a folder, and where from there.
    fn path_at(&self, at: usize) -> PathBuf {
        self.file(at).join(self.path(at + 1))
    }
}

/// `11</tmp/a>` has the path of descriptor 11.
fn in_angles(text: &str) -> PathBuf {
    let path = text.split_once('<').and_then(|(_, rest)| rest.rsplit_once('>')).map_or("", |(path, _)| path);
    PathBuf::from(path)
}

/// The calls that succeeded, in the order in which they were answered. One during which another thread had its say is
/// written in two parts.
fn calls(trace: &str) -> Vec<Call> {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    let mut calls = Vec::new();
    for (thread, said) in trace.lines().filter_map(|line| line.split_once(' ')) {
        let said = said.trim_start();
        if let Some(begin) = said.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, begin);
            continue;
        }
        let resumed = said.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"));
        let whole = match resumed {
            Some((_, end)) => format!("{}{end}", begun.remove(thread).unwrap_or_default()),
            None => said.to_owned(),
        };
        calls.extend(Call::parse(&whole));
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `strace` writes it, with `…` for the folder.
    fn check(trace: &str, too_early: &[(&str, &str)], lost: &[&str]) {
        let traced = Traced::of(&trace.replace('…', "/tmp/.of-a-test"), Path::new("/tmp/.of-a-test"));
        let short = |path: &Path| path.strip_prefix("/tmp/.of-a-test").unwrap().display().to_string();
        let found: Vec<_> = traced.too_early.iter().map(|(path, named)| (short(path), short(named))).collect();
        let found: Vec<_> = found.iter().map(|(path, named)| (path.as_str(), named.as_str())).collect();
        assert_eq!(found, too_early, "{trace}");
        assert_eq!(traced.lost().into_iter().map(|path| short(path)).collect::<Vec<_>>(), lost, "{trace}");
    }

    #[test]
    fn what_is_synced_before_and_after_it_gets_its_name_is_safe() {
        let begin = "7  openat(3<…>, \".t/x\", O_RDWR|O_CREAT|O_EXCL, 0600) = 4<…/.t/x>\n\
                     7  write(4<…/.t/x>, \"\"..., 12)       = 12\n";
        let rename = "7  renameat2(3<…>, \".t/x\", 5<…/a>, \"x\", RENAME_NOREPLACE) = 0\n";
        let (file, folder) = ("7  fsync(4<…/.t/x>) = 0\n", "7  fsync(5<…/a>)  = 0\n");
        check(&[begin, file, rename, folder].concat(), &[], &[]);
        check(&[begin, rename, folder].concat(), &[(".t/x", "a/x")], &["a/x"]);
        check(&[begin, "7  fsync(4<…/.t/x>) = -1 EIO (no)\n", rename, folder].concat(), &[(".t/x", "a/x")], &["a/x"]);
        check(&[begin, file, rename].concat(), &[], &["a"]);
        // The next one relies on it.
        check(&[begin, file, rename, &rename.replace("x\"", "y\"")].concat(), &[("a", "a/y")], &["a"]);
    }

    #[test]
    fn a_call_in_two_parts_counts_when_it_is_answered() {
        let begin = "7  mkdir(\"…/.t\", 0700) = 0\n7  fdatasync(4<…/b> <unfinished ...>\n";
        let other = "8  pwrite64(4<…/b>, \"\"..., 4096, 0) = 4096\n";
        let end = "7  <... fdatasync resumed>) = 0\n";
        check(&[other, begin, end].concat(), &[], &[]);
        check(&[begin, end, other].concat(), &[], &["b"]);
    }

    #[test]
    fn what_is_exchanged_or_removed_is_followed() {
        let dirty = "7  ftruncate(4<…/.t/new/db>, 100) = 0\n";
        let exchange = "7  renameat2(AT_FDCWD</>, \"…/.t/new\", AT_FDCWD</>, \"…/data\", RENAME_EXCHANGE) = 0\n";
        let synced = "7  fsync(4<…>) = 0\n";
        check(&[dirty, exchange, synced].concat(), &[(".t/new/db", "data")], &["data/db"]);
        check(
            &[exchange, &dirty.replace(".t/new", "data"), exchange, synced].concat(),
            &[("", "data"), ("data/db", "data")],
            &[],
        );
        check("7  unlinkat(4<…/a>, \"x\", 0) = 0\n", &[], &["a"]);
    }
}
