//! A real browser that a script drives.

use std::path::Path;
use std::process::Command;

use crate::cache;

/// `node` with a script that finds playwright in the folder `$PLAYWRIGHT`, and what to give its `launch` in `$CHROMIUM`,
/// as JSON.
///
/// # Panics
/// If the browser or what drives it is not installed.
pub fn script(script: &Path) -> Command {
    let (chromium, playwright) = (cache::installed("chromium", "debian"), cache::installed("playwright-core", "1.65"));
    let libraries = ["", "pulseaudio", "nss"]
        .map(|folder| format!("{}/usr/lib/{}-linux-gnu/{folder}", chromium.display(), std::env::consts::ARCH));
    let launch = serde_json::json!({
        "executablePath": chromium.join("usr/lib/chromium/chromium"),
        // It shows only what the test serves, and its own sandbox wants rights that not every machine gives.
        "args": ["--no-sandbox"],
        "env": {
            "HOME": std::env::temp_dir(),
            "LD_LIBRARY_PATH": format!("{}:{}/lib/{}-linux-gnu", libraries.join(":"), chromium.display(), std::env::consts::ARCH),
            "FONTCONFIG_FILE": chromium.join("fonts.conf"),
            "TZ": "UTC",
        },
    });
    let mut command = Command::new("node");
    command.arg(script).env("PLAYWRIGHT", playwright.join("node_modules")).env("CHROMIUM", launch.to_string());
    command
}
