//! The documents that are made from the program: `docs/reference/cli.md`, `docs/reference/etcdbrctl-flags.md` and `docs/errors.md`.

use std::fmt::Write;

use clap::{Arg, Command};

use crate::commands::{self, JsonOutput};
use crate::exit::{ASSERTION, KINDS};
use crate::output::json::Field;

const MADE_FROM: &str = "<!-- Made from the program: UPDATE_DOCS=1 cargo test -p cli --test reference -->\n";

/// The text of `docs/reference/cli.md`.
pub fn cli() -> String {
    let mut program = crate::command().term_width(0);
    program.build();
    let mut text = format!("# refloat\n\n{MADE_FROM}\n{}\n\n", about(&program));
    text.push_str("| Command | Does |\n|---|---|\n");
    for command in visible(&program) {
        let short = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "| [`{0}`](#refloat-{0}) | {short} |", command.get_name());
    }
    text.push_str("\nExit codes are listed in [errors.md](../errors.md).\n");
    for command in visible(&program) {
        write_command(&mut text, command);
    }
    text
}

/// The text of `docs/reference/etcdbrctl-flags.md`.
pub fn etcdbrctl_flags() -> String {
    crate::args::etcdbrctl_flags::page(MADE_FROM)
}

fn visible(program: &Command) -> impl Iterator<Item = &Command> {
    program.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn write_command(text: &mut String, command: &Command) {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _ = write!(text, "\n## `refloat {}`\n\n{}\n\n```text\n{usage}\n```\n\n", command.get_name(), about(command));
    text.push_str("| Argument | Meaning |\n|---|---|\n");
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let _ = writeln!(text, "| {} | {} |", name(arg), meaning(arg));
    }
    if let Some(JsonOutput { shape, fields }) = commands::json_output(command.get_name()) {
        let _ = write!(text, "\nWith `-o json`: {shape}.\n\n| Field | Is | Says |\n|---|---|---|\n");
        write_fields(text, "", &fields);
    }
}

fn about(command: &Command) -> String {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let (first, rest) = about.split_once('\n').unwrap_or((&about, ""));
    format!("{first}.\n{rest}").trim_end().into()
}

/// Whether it has a value. One that may be left away is for those who are used to write it.
fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn name(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
    let mut name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => return format!("`{}`", value.unwrap_or_else(|| arg.get_id().as_str().to_uppercase())),
    };
    if let Some(value) = value.filter(|_| takes_value(arg)) {
        let _ = write!(name, " {value}");
    }
    format!("`{name}`")
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = help.replace("\n\n", ". ").replace('\n', " ").replace('|', "\\|");
    let possible: Vec<String> = match arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
        true => arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect(),
        false => Vec::new(),
    };
    if !possible.is_empty() {
        let _ = write!(meaning, ": {}", possible.join(", "));
    }
    if let Some(default) = arg.get_default_values().first().filter(|_| takes_value(arg)) {
        let _ = write!(meaning, " (default: `{}`)", default.to_string_lossy());
    }
    meaning
}

fn write_fields(text: &mut String, prefix: &str, fields: &[Field]) {
    for field in fields {
        let _ = writeln!(text, "| `{prefix}{}` | {} | {} |", field.name, field.shape, field.doc.trim());
        let inside = if field.shape.starts_with("list") { "[]." } else { "." };
        write_fields(text, &format!("{prefix}{}{inside}", field.name), &field.fields);
    }
}

/// The text of `docs/errors.md`.
pub fn errors() -> String {
    let mut text = format!("# Errors and exit codes\n\n{MADE_FROM}\n");
    text.push_str(
        "An error says what failed and on which object, then why, then what to do:\n\n\
         ```text\n\
         error: cannot open /backup/etcd.db\n  cause: No such file or directory\n\
         \x20 hint: look whether the path is right, and what it is on is mounted\n\
         ```\n\n\
         Every error has a kind. Commands, documents and programs use the same words for it, and it gives the exit\n\
         code. A finding, a refusal and a half success never exit 0.\n\n\
         | Exit | Kind | Means | Who acts | Try again? |\n|---|---|---|---|---|\n\
         | 0 | | success | | |\n\
         | 1 | | it finished, and there is something to look at | the person who asks | no |\n",
    );
    for row in &KINDS {
        let _ = writeln!(text, "| {} | `{}` | {} | {} | {} |", row.code, row.name, row.means, row.who, row.retried);
    }
    let _ = writeln!(text, "| {ASSERTION} | | a defect in refloat: something it relies on did not hold | us | no |");
    text.push_str("\n## What ends how\n\n| Command | What happened | Exit |\n|---|---|---|\n");
    for (command, happened, exit) in ENDINGS {
        let _ = writeln!(text, "| {command} | {happened} | {exit} |");
    }
    text
}

/// The endings that people ask about.
const ENDINGS: &[(&str, &str, &str)] = &[
    ("all", "an unknown command or flag, a value that makes no sense, a time or a name where `SRC` is no archive", "2"),
    (
        "all",
        "`SRC` has archives of several clusters, and `--cluster` does not say which; the bucket is in another region",
        "2",
    ),
    ("all", "`SRC` does not exist, or is neither a data directory nor an archive; there is no such bucket", "3"),
    ("all", "the archive does not reach the point, has a hole there, or knows no such name", "3"),
    ("all", "a revision that is newer than the data, or compacted away", "3"),
    ("all but `verify`", "`SRC` is damaged where the command has to read", "4"),
    ("all but `verify`", "a revision that a file lacks, and that no compaction took", "4"),
    ("all", "`SRC` is empty, no etcd database, or cannot be unwrapped", "4"),
    ("all", "what leads to the point in an archive is damaged, and nothing else leads there", "4"),
    ("all", "an object of an archive is in a newer format", "5"),
    ("all", "`--retain` is given, and the store cannot keep objects from being deleted", "5"),
    ("`defrag`", "`SRC` is a URL", "5"),
    ("all", "a running etcd holds `SRC`; it was changed while it was read", "6"),
    ("all", "a store does not answer, or its answers make no sense", "7"),
    ("all", "there is no room here (`--scratch`) for what has to be fetched", "7"),
    ("all", "`SRC` may not be read, or what is to be written may not be", "8"),
    ("all", "credentials are missing or refused, or do not allow it; no key opens what is encrypted", "8"),
    ("all", "the reader of the output went away (`refloat keys … \\| head`)", "as if it had not"),
    ("`verify`", "nothing is wrong; there may be notes of what is unusual and harmless", "0"),
    (
        "`verify`",
        "there are findings: damage, inconsistency, a digest that differs, a hole, changes that no full leads to",
        "1",
    ),
    ("`verify`", "nothing is wrong with what could be checked, but objects of an archive could not be reached", "7"),
    ("`verify`", "nothing is wrong with what could be checked, but no key opens objects of an archive", "8"),
    ("`verify`", "nothing is wrong, but the archive cannot be written to, and `--no-record` is not given", "8"),
    ("`recipients`", "a lockbox is damaged, or does not open and stays as it was; the others are locked anew", "1"),
    ("`recipients`", "nothing that is given would open the archive afterwards", "2"),
    ("`recipients`", "nothing in the archive was encrypted, and `--encrypt-for` is given", "3"),
    ("`recipients`", "no key that is given opens any lockbox that is to be locked anew", "8"),
    ("all that write", "`--encrypt-for` names nobody but those who were taken away", "2"),
    ("`backup`", "somebody whom `--encrypt-for` names was taken away, and is left out", "1"),
    ("`points`", "there are holes, changes that no full leads to, or objects that cannot be used", "1"),
    (
        "all with `--at`, but `verify`",
        "the latest point is done, but later changes are in the archive, behind a hole or in what cannot be used",
        "1",
    ),
    (
        "all with `--at`, but `verify`",
        "a time was asked for, and changes before it may be missing: they are in a hole or in what cannot be used, or the \
         last that is there is older, and no writer held the archive at that time",
        "1",
    ),
    (
        "all with `--at`, but `verify`",
        "the last change is older than the time, and a writer held the archive then",
        "0",
    ),
    (
        "`restore`, `export`, `defrag`, `drill`",
        "it was built, but a file of `SRC` or a full lacks revisions, and so does what was built; so does \
         `restore --dry-run` end",
        "1",
    ),
    ("`inspect`, `keys`, `get`, `history`", "it was shown, but a file of `SRC` lacks revisions: a note tells it", "0"),
    ("`merge`", "something was made, and something else could not be", "1"),
    ("`merge`", "something could not be made, and nothing was", "that of the first error"),
    ("`merge`", "the archive is another system's, which is left as it is", "5"),
    ("`prune`", "something that was to go is still there, or what decides cannot be recorded; nothing is proven", "1"),
    ("`prune`", "something that stays could not be kept for longer (`--extend-retention`): nothing is deleted", "1"),
    ("`prune`", "something could not be deleted, and nothing was", "that of the first error"),
    ("`prune`", "nothing says what is to be kept", "2"),
    ("`prune`", "what tells what must stay cannot be used; nothing is deleted", "4"),
    ("`prune`", "`--extend-retention` is given, and the store cannot keep objects from being deleted", "5"),
    ("`copy`", "something was copied or was there, and something else could not be, or is lost behind a hole", "1"),
    ("`copy`", "something could not be copied, and nothing was or was there", "that of the first error"),
    ("`copy`", "`DEST` has the archive of another cluster, or another archive", "6"),
    ("`diff`", "the two states are the same", "0"),
    ("`diff`", "they differ", "1"),
    ("`get`", "the key does not exist at that point, or was deleted", "3"),
    ("`history`", "the key has no history in the data", "3"),
    ("`keys`", "no key begins with the prefix", "0"),
    ("`restore`, `export`, `defrag`", "the target exists already", "6"),
    (
        "`restore`, `export`, `defrag`, `drill`",
        "the digest of the snapshot differs, and `--skip-hash-check` is not given",
        "4",
    ),
    ("`restore`", "the version that is asked for cannot hold what is in the data", "5"),
    ("`restore`, `export`, `defrag`", "the data have a bucket inside a bucket, which no etcd makes", "5"),
    ("`restore`, `export`, `defrag`", "the disk is full; nothing is left behind", "7"),
    ("`undo`", "there is nothing that a restore replaced", "3"),
    ("`wrap`", "etcd ended by itself", "etcd's own"),
    ("`wrap`", "a signal ended etcd, which is how it stops", "128 and the signal's number"),
    ("`wrap`", "there is no such program", "3"),
    ("`wrap`", "its port is in use", "6"),
    ("`wrap`", "the data directory was not prepared within `--agent-within`", "7"),
    ("`wrap`", "the agent does not let it ask; the certificate has expired", "8"),
    (
        "`agent`, `standalone`",
        "a port is taken, or another process has the folder, the spool or the data directory",
        "6",
    ),
    ("`agent`, `standalone`", "a part of it broke, which is a defect: the rest does not go on without it", "70"),
    ("`backup`", "a member gave no sound snapshot, so another was asked; or members do not have the same", "1"),
    ("`backup`", "no member gives a sound snapshot", "4"),
    ("`agent`, `standalone`, `backup`", "the archive is another cluster's, and `--replaces` is not given", "6"),
    ("`doctor`", "nothing is broken; there may be advice, warnings, and what cannot be told", "0"),
    ("`doctor`", "something is broken", "1"),
    ("`doctor`", "there is nothing to look at: neither an archive nor `--endpoints` is given", "2"),
    ("`drill`", "there is no etcd to start", "3"),
    ("`drill`", "etcd does not start on what was built, or has another hash or number of keys", "4"),
    ("`drill`", "the etcd is older than the data", "5"),
    ("`drill`", "there is no room for it, or it was interrupted; nothing is left behind", "7"),
    ("`drill`", "it succeeded, but the archive cannot be written to, and `--no-record` is not given", "8"),
];
