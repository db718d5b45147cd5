//! Small files that are there whole or not at all, also after the power has failed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Puts a file with `content` in the place of `path` at once, readable for ourselves. Its folder is made if need be.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}
