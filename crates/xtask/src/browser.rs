//! Chromium as Debian has it, with every library and a few fonts, without touching the system.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::debian::Apt;

const PACKAGES: [&str; 3] = ["chromium", "fonts-liberation2", "fonts-dejavu-core"];

/// Whoever starts the browser does so with the C library of this machine, which is of the same release.
const WITHOUT: [&str; 2] = ["libc6", "libc-bin"];

/// What no browser without a screen reads, and takes room.
const NOT_NEEDED: [&str; 6] = ["doc", "man", "locale", "icons", "perl", "bug"];

/// Where fonts are, as the browser is told by the variable `FONTCONFIG_FILE`.
const FONTS: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias><family>sans-serif</family><prefer><family>Liberation Sans</family><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>Liberation Mono</family><family>DejaVu Sans Mono</family></prefer></alias>
  <match target="pattern">
    <edit name="family" mode="append_last"><string>Liberation Sans</string><string>DejaVu Sans</string></edit>
  </match>
</fontconfig>
"#;

/// Unpacks it into the folder `into`.
pub(crate) fn install(apt: &Apt, into: &Path) -> Result<()> {
    apt.unpack_with_needs(&PACKAGES, &WITHOUT, into)?;
    let program = into.join("usr/lib/chromium/chromium");
    if !program.is_file() {
        return Err(format!("the package has no {}", program.display()).into());
    }
    for folder in NOT_NEEDED {
        let folder = into.join("usr/share").join(folder);
        if folder.is_dir() {
            fs::remove_dir_all(folder)?;
        }
    }
    Ok(fs::write(into.join("fonts.conf"), FONTS)?)
}
