//! Programs from Debian packages of any release, without touching the system: apt with lists,
//! sources and a package state of its own, in a folder that is removed afterwards.
//!
//! The mirror is the one that this machine's own release comes from; signatures are checked.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::Result;
use crate::process::{require, run};

/// Together they hold etcd 3.4 and 3.5, whose programs are static and run on any of them.
const RELEASES: [&str; 3] = ["bookworm", "trixie", "sid"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// An apt of our own.
pub(crate) struct Apt {
    root: TempDir,
}

/// A version of a package as Debian writes it: `3.5.30-2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackageVersion(String);

impl Apt {
    /// Reads the package lists of all `RELEASES`.
    pub(crate) fn open() -> Result<Apt> {
        require("apt-get", "--version")?;
        require("dpkg-deb", "--version")?;
        let root = tempfile::Builder::new().prefix("refloat-apt-").tempdir()?;
        let sources: String = {
            let mirror = mirror()?;
            RELEASES.iter().map(|release| format!("deb [signed-by={KEYRING}] {mirror} {release} main\n")).collect()
        };
        for folder in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(root.path().join(folder))?;
        }
        fs::write(root.path().join("state/status"), "")?;
        fs::write(root.path().join("sources.list"), sources)?;
        fs::write(root.path().join("apt.conf"), configuration(root.path()))?;

        let apt = Apt { root };
        run(apt.command("apt-get").arg("update"))?;
        Ok(apt)
    }

    /// The newest version of `package` that belongs to `series`, in any release.
    pub(crate) fn newest(&self, package: &str, series: &str) -> Result<PackageVersion> {
        let listed = run(self.command("apt-cache").args(["madison", package]))?;
        newest_of(&listed, series)
            .ok_or_else(|| format!("the Debian mirror has no {package} {series}:\n{listed}").into())
    }

    /// Unpacks `package` into the new folder `into`.
    pub(crate) fn unpack(&self, package: &str, version: &PackageVersion, into: &Path) -> Result<()> {
        let downloads = tempfile::tempdir_in(self.root.path())?;
        let wanted = format!("{package}={version}");
        run(self.command("apt-get").args(["download", &wanted]).current_dir(&downloads))?;
        let downloaded =
            fs::read_dir(&downloads)?.next().ok_or_else(|| format!("apt-get downloaded nothing for {wanted}"))??;
        fs::create_dir(into)?;
        run(Command::new("dpkg-deb").arg("-x").arg(downloaded.path()).arg(into))?;
        Ok(())
    }

    /// Unpacks `packages` of this machine's own release into the folder `into`, with everything that they need but what
    /// is named in `without`.
    pub(crate) fn unpack_with_needs(&self, packages: &[&str], without: &[&str], into: &Path) -> Result<()> {
        let downloads = tempfile::tempdir_in(self.root.path())?;
        fs::create_dir(downloads.path().join("partial"))?;
        let os_release = fs::read_to_string("/etc/os-release")?;
        let place = format!("Dir::Cache::archives={}", downloads.path().display());
        let release = format!("APT::Default-Release={}", codename(&os_release));
        let mut command = self.command("apt-get");
        command.args(["-y", "--no-install-recommends", "--download-only", "-o", &place, "-o", &release, "install"]);
        run(command.args(packages))?;
        for downloaded in fs::read_dir(&downloads)? {
            let path = downloaded?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let package = file.split('_').next().unwrap_or_default();
            if file.ends_with(".deb") && !without.contains(&package) {
                run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(into))?;
            }
        }
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-q").arg("-c").arg(self.root.path().join("apt.conf"));
        command
    }
}

impl PackageVersion {
    /// The version of the program in the package.
    pub(crate) fn upstream(&self) -> &str {
        let without_epoch = self.0.split_once(':').map_or(self.0.as_str(), |(_, rest)| rest);
        let end = without_epoch.find(|c: char| !c.is_ascii_digit() && c != '.');
        end.and_then(|end| without_epoch.get(..end)).unwrap_or(without_epoch)
    }

    fn numbers(&self) -> Vec<u64> {
        self.upstream().split('.').map_while(|number| number.parse().ok()).collect()
    }
}

impl fmt::Display for PackageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Read after the system's own settings, so its proxies hold and its hooks do not.
fn configuration(root: &Path) -> String {
    let root = root.display();
    format!(
        r#"#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::State "{root}/state";
Dir::State::status "{root}/state/status";
Dir::Cache "{root}/cache";
Dir::Etc::sourcelist "{root}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
// A mirror may lag behind; an old signature by the right key is still a signature.
Acquire::Check-Valid-Until "false";
"#
    )
}

/// Where the packages of this machine's own release come from.
fn mirror() -> Result<String> {
    let os_release = fs::read_to_string("/etc/os-release")?;
    let codename = codename(&os_release);
    let sources = run(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(RELEASE) $(REPO_URI)",
        "Created-By: Packages",
        "Component: main",
    ]))?;
    mirror_of(codename, &sources)
        .map(str::to_owned)
        .ok_or_else(|| format!("apt's sources name no mirror for Debian {codename}").into())
}

/// What this machine's own release is called.
fn codename(os_release: &str) -> &str {
    os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or("sid")
}

fn mirror_of<'s>(codename: &str, sources: &'s str) -> Option<&'s str> {
    let own = [codename, "stable", "testing", "unstable", "sid"];
    sources
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(release, _)| own.contains(release))
        .map(|(_, uri)| uri)
}

/// `apt-cache madison` prints `package | version | where from`.
fn newest_of(listed: &str, series: &str) -> Option<PackageVersion> {
    let prefix = format!("{series}.");
    listed
        .lines()
        .filter_map(|line| line.split('|').nth(1))
        .map(|version| PackageVersion(version.trim().to_owned()))
        .filter(|version| version.upstream() == series || version.upstream().starts_with(&prefix))
        .max_by_key(PackageVersion::numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_series_is_chosen_by_number() {
        let listed = "\
etcd-server | 3.5.9-4 | http://mirror sid/main amd64 Packages
etcd-server | 3.5.30-2+b1 | http://mirror sid/main amd64 Packages
etcd-server | 3.4.23-4+b4 | http://mirror bookworm/main amd64 Packages";

        assert_eq!(newest_of(listed, "3.5").unwrap().to_string(), "3.5.30-2+b1");
        assert_eq!(newest_of(listed, "3.4").unwrap().upstream(), "3.4.23");
        assert_eq!(newest_of(listed, "3.5.9").unwrap().to_string(), "3.5.9-4");
        assert_eq!(newest_of(listed, "3.6"), None);
    }

    #[test]
    fn the_mirror_is_that_of_our_own_release_and_not_a_third_party() {
        let sources = "\
nodistro http://elsewhere/node/
bookworm-security http://mirror/security/
bookworm http://mirror/debian/";

        assert_eq!(mirror_of("bookworm", sources), Some("http://mirror/debian/"));
        assert_eq!(mirror_of("trixie", sources), None);
    }
}
