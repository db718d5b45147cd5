//! The documents say what the tree says.
//!
//! `UPDATE_DOCS=1 cargo test -p xtask --test docs` writes the pages that are made from the source.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

fn root() -> PathBuf {
    testkit::checkout::root()
}

/// Each page of `docs/format`, and the modules whose heads are its sections.
const PAGES: &[(&str, &str, &[&str])] = &[
    (
        "bolt.md",
        "The bolt file",
        &["bolt-file/src/page.rs", "bolt-file/src/meta.rs", "bolt-file/src/freelist.rs", "bolt-file/src/write.rs"],
    ),
    (
        "database.md",
        "What etcd keeps in it",
        &["etcd-data/src/revision.rs", "etcd-data/src/key_value.rs", "etcd-data/src/tables.rs"],
    ),
    (
        "files.md",
        "Log, raft snapshots and snapshot files",
        &[
            "etcd-data/src/wal/record.rs",
            "etcd-data/src/snap.rs",
            "etcd-data/src/digest.rs",
            "etcd-data/src/container.rs",
        ],
    ),
    ("names.md", "What objects are called", &["archive/src/name.rs", "archive/src/identity.rs"]),
    (
        "notes.md",
        "What is told of clusters, lineages and plain fulls",
        &["archive/src/about.rs", "archive/src/digested.rs"],
    ),
    (
        "objects.md",
        "Fulls and deltas",
        &[
            "archive/src/object.rs",
            "archive/src/object/index.rs",
            "archive/src/object/tables.rs",
            "archive/src/chunk.rs",
            "archive/src/chunk/column.rs",
            "archive/src/chunk/edit.rs",
            "archive/src/key_index.rs",
            "archive/src/fields.rs",
        ],
    ),
    ("header.md", "The header of an object", &["archive/src/header.rs"]),
    ("closing.md", "The closing of an object", &["archive/src/closing.rs"]),
    (
        "encryption.md",
        "Encrypted archives",
        &[
            "archive/src/encryption.rs",
            "archive/src/encryption/lockbox.rs",
            "archive/src/encryption/archive_key.rs",
            "archive/src/encryption/segment.rs",
        ],
    ),
    (
        "writers-and-proofs.md",
        "Who may write, and what is proven",
        &[
            "archive/src/fence.rs",
            "archive/src/fence/claim.rs",
            "archive/src/fence/claims.rs",
            "archive/src/fence/reign.rs",
            "archive/src/proof.rs",
        ],
    ),
];

#[test]
fn the_format_pages_are_the_heads_of_their_modules() {
    for &(page, title, modules) in PAGES {
        let sections = modules.iter().map(|module| format!("## {}\n\n{}", section_title(module), head(module)));
        let made = format!(
            "# {title}\n\nMade from the heads of the modules that read and write these bytes.\n\n{}",
            sections.collect::<Vec<_>>().join("\n")
        );
        let path = root().join("docs/format").join(page);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &made).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == made, "docs/format/{page} is not what the modules say; set UPDATE_DOCS=1 to write it");
    }
}

fn section_title(module: &str) -> String {
    format!("`crates/{module}`")
}

/// The text at the head of a module, without links that only rustdoc follows.
fn head(module: &str) -> String {
    let source = fs::read_to_string(root().join("crates").join(module)).unwrap();
    let lines = source.lines().take_while(|line| line.starts_with("//!"));
    let text: String = lines.map(|line| format!("{}\n", line[3..].strip_prefix(' ').unwrap_or(""))).collect();
    text.replace("[`", "`").replace("`]", "`")
}

#[test]
fn what_the_architecture_names_exists() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let defined = definitions();
    let mut names = 0;
    for name in text.split('`').skip(1).step_by(2).filter(|name| !name.is_empty() && !name.contains(['\n', ' '])) {
        names += 1;
        let exists = match name.split_once('*') {
            _ if name.contains('/') => root().join(name).exists(),
            Some((begin, end)) => defined.iter().any(|file| file.starts_with(begin) && file.ends_with(end)),
            None => name.split("::").all(|part| defined.contains(part)),
        };
        assert!(exists, "ARCHITECTURE.md names `{name}`, which nothing here is called");
    }
    assert!(names > 20, "only {names} names were found");
}

fn all_source() -> String {
    let mut text = String::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                text += path.file_name().unwrap().to_str().unwrap();
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests/docs.rs") {
                text += path.file_stem().unwrap().to_str().unwrap();
                text += &fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

/// What files, folders, crates, modules and items below `crates` are called. What a comment, a text or an expression says is none.
fn definitions() -> BTreeSet<String> {
    const KEYWORDS: [&str; 8] = ["struct", "enum", "trait", "fn", "const", "type", "mod", "static"];
    let mut defined = BTreeSet::new();
    let mut paths = vec![root().join("crates")];
    while let Some(path) = paths.pop() {
        let name = |part: Option<&OsStr>| part.unwrap().to_str().unwrap().to_owned();
        defined.extend([name(path.file_name()), name(path.file_stem()), name(path.file_name()).replace('-', "_")]);
        if path.is_dir() {
            paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            for line in fs::read_to_string(path).unwrap().lines().filter(|line| !line.trim_start().starts_with("//")) {
                let words: Vec<&str> = line.split_whitespace().collect();
                let items = words.array_windows().filter(|[keyword, _]| KEYWORDS.contains(keyword));
                let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
                defined.extend(items.map(|[_, item]| item.chars().take_while(|&letter| is_part(letter)).collect()));
            }
        }
    }
    defined
}

#[test]
fn names_that_only_a_comment_or_an_expression_has_are_not_defined() {
    let defined = definitions();
    for there in ["etcd-data", "etcd_data", "xtask", "docs.rs", "definitions", "Database", "scan", "Cursor"] {
        assert!(defined.contains(there), "{there}");
    }
    for spoken in ["atab", "Databas", "pread", "array_windows", "definitely"] {
        assert!(!defined.contains(spoken), "{spoken}");
    }
}

#[test]
fn the_tests_that_the_pages_of_promises_and_reliability_name_exist() {
    let source = all_source();
    let is_test = |name: &&str| name.matches('_').count() > 2 && !name.contains(['/', ' ', '.', '\n']);
    for (page, least) in [("docs/promises.md", 15), ("docs/reliability.md", 50)] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let mut names = 0;
        for name in text.split('`').skip(1).step_by(2).filter(is_test) {
            names += 1;
            assert!(source.contains(&format!("fn {name}(")), "{page} names the test `{name}`, which is not there");
        }
        assert!(names > least, "{page}: only {names} names were found");
    }
}

#[test]
fn every_row_of_the_page_of_reliability_says_what_shows_it() {
    let text = fs::read_to_string(root().join("docs/reliability.md")).unwrap();
    for row in text.lines().filter(|line| line.starts_with("| ") && !line.contains("Shown by")) {
        let shown = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let says = ["`", "not shown", "the rounds"].iter().any(|word| shown.contains(word));
        assert!(says, "docs/reliability.md does not say what shows this: {row}");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut pages = vec![root().join("docs")];
    let mut links = 0;
    pages.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name)));
    while let Some(page) = pages.pop() {
        if page.is_dir() {
            pages.extend(fs::read_dir(page).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            links += 1;
            let there = page.parent().unwrap().join(target).exists();
            assert!(there, "{} links to {link}, which is not there", page.display());
        }
    }
    assert!(links > 0);
}

/// Whoever reads a crate begins at its root, which says what there is.
#[test]
fn the_root_of_a_crate_names_its_modules() {
    let mut modules = 0;
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path().join("src/lib.rs");
        // A tool is read from its `main`.
        let Ok(source) = fs::read_to_string(&path) else { continue };
        let head: String = source.lines().take_while(|line| line.starts_with("//!")).collect();
        let lines: Vec<&str> = source.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let declared = line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod "));
            let Some(module) = declared.and_then(|rest| rest.strip_suffix(';')) else { continue };
            let is_for_tests = index > 0 && lines[index - 1].contains("cfg(test)");
            let named = [format!("`{module}`"), format!("mod@{module}`")].iter().any(|name| head.contains(name));
            assert!(is_for_tests || named, "the head of {} does not name {module}", path.display());
            modules += 1;
        }
    }
    assert!(modules > 100, "only {modules} modules were found");
}
