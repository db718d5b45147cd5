//! Listings for tests.

use store::{Info, Key};

use super::PeerArchive;

/// What a store says of `keys`, each with seven bytes.
pub(crate) fn listed(keys: &[&str]) -> Vec<Info> {
    let info = |key: &&str| Info {
        key: Key::parse(*key).unwrap(),
        size_bytes: 7,
        modified: "2026-11-23T00:00:00Z".parse().unwrap(),
        tag: None,
        metadata: Default::default(),
        retention: None,
    };
    keys.iter().map(info).collect()
}

/// Archives as text: the folder, then the keys of entries, then `+` companions and `-` what is ignored.
pub(crate) fn told(archives: &[PeerArchive]) -> Vec<String> {
    let text = archives.iter().map(|archive| {
        let entries = archive.entries.iter().map(|entry| entry.key.to_string());
        let companions = archive.companions.iter().map(|companion| format!("+{}", companion.key));
        let ignored = archive.ignored.iter().map(|ignored| format!("-{} {:?}", ignored.key, ignored.why));
        let all: Vec<String> = entries.chain(companions).chain(ignored).collect();
        format!("{}: {}", archive.folder, all.join(", "))
    });
    text.collect()
}
