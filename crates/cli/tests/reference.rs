//! The documents that are made from the program are those in the tree.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[track_caller]
fn check(file: &str, made: &str) {
    let path = testkit::checkout::root().join("docs").join(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, made).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == made,
        "docs/{file} is not what the program says: UPDATE_DOCS=1 cargo test -p cli --test reference"
    );
}

#[test]
fn the_reference_of_commands_is_what_the_program_says() {
    check("reference/cli.md", &cli::reference::cli());
}

#[test]
fn the_table_of_etcdbrctls_flags_is_what_the_program_says() {
    check("reference/etcdbrctl-flags.md", &cli::reference::etcdbrctl_flags());
}

#[test]
fn the_table_of_errors_is_what_the_program_says() {
    check("errors.md", &cli::reference::errors());
}

#[test]
fn the_definition_of_arguments_holds_together() {
    cli::command().debug_assert();
}
