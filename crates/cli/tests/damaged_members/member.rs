//! A data directory in memory: it is damaged there, and written out to be looked at.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

/// What a data directory has, by its path in it.
#[derive(Clone, Default)]
pub(crate) struct Member(pub(crate) BTreeMap<String, Node>);

/// One thing in a data directory.
#[derive(Clone, PartialEq)]
pub(crate) enum Node {
    File(Content),
    Folder,
    /// A link to nothing.
    Link,
}

/// A file.
#[derive(Clone, PartialEq)]
pub(crate) struct Content {
    /// Up to the last byte that is not zero.
    pub(crate) bytes: Vec<u8>,
    /// With the zeros behind that.
    pub(crate) len: u64,
    pub(crate) mode: u32,
}

/// Of the zeros that a segment is begun with, so many are kept: looking at more of them takes time and tells nothing.
const ZEROS_KEPT: u64 = 64 << 10;

impl Content {
    pub(crate) fn new(bytes: Vec<u8>) -> Content {
        Content { len: bytes.len() as u64, bytes, mode: 0o600 }
    }
}

impl Member {
    /// Reads the directory at `path`.
    pub(crate) fn read(path: &Path) -> Member {
        let mut member = Member::default();
        let mut folders = vec![path.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let entry = entry.unwrap().path();
                let name = entry.strip_prefix(path).unwrap().to_str().unwrap().to_owned();
                let node = if entry.is_dir() { Node::Folder } else { Node::File(read_file(&entry)) };
                if node == Node::Folder {
                    folders.push(entry);
                }
                member.0.insert(name, node);
            }
        }
        member
    }

    /// Writes it to the new folder `path`.
    pub(crate) fn write(&self, path: &Path) {
        fs::create_dir(path).unwrap();
        // A folder comes before what is in it.
        for (name, node) in &self.0 {
            let at = path.join(name);
            match node {
                Node::Folder => fs::create_dir(at).unwrap(),
                Node::Link => symlink("nowhere", at).unwrap(),
                Node::File(Content { bytes, len, mode }) => {
                    let file = File::create_new(&at).unwrap();
                    file.write_all_at(bytes, 0).unwrap();
                    file.set_len(*len).unwrap();
                    fs::set_permissions(&at, fs::Permissions::from_mode(*mode)).unwrap();
                }
            }
        }
    }

    /// The names of the files in it that end in `suffix`, in order.
    pub(crate) fn files(&self, suffix: &str) -> Vec<String> {
        let is_wanted = |name: &&String| name.ends_with(suffix) && matches!(self.0[*name], Node::File(_));
        self.0.keys().filter(is_wanted).cloned().collect()
    }

    pub(crate) fn file(&self, name: &str) -> &Content {
        let Some(Node::File(content)) = self.0.get(name) else { panic!("no file {name}") };
        content
    }

    pub(crate) fn put(&mut self, name: &str, content: Content) {
        self.0.insert(name.to_owned(), Node::File(content));
    }

    /// Removes `name`, and all in it.
    pub(crate) fn remove(&mut self, name: &str) {
        let below = format!("{name}/");
        self.0.retain(|found, _| found != name && !found.starts_with(&below));
    }

    /// Puts what `other` has in `folder` in the place of what is there.
    pub(crate) fn take(&mut self, folder: &str, suffix: &str, other: &Member) {
        for name in self.files(suffix).into_iter().filter(|name| name.starts_with(folder)) {
            self.remove(&name);
        }
        for name in other.files(suffix).into_iter().filter(|name| name.starts_with(folder)) {
            self.put(&name, other.file(&name).clone());
        }
    }
}

fn read_file(path: &Path) -> Content {
    let mut bytes = fs::read(path).unwrap();
    let whole = bytes.len() as u64;
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(used);
    let is_log = path.to_str().unwrap().contains("/wal/");
    let len = if is_log { whole.min(used.next_multiple_of(8) as u64 + ZEROS_KEPT) } else { whole };
    Content { bytes, len, mode: 0o600 }
}
