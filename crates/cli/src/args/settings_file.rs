//! Settings in a file and in the environment, for commands that take `--settings`: each key is the name of a long flag, and each
//! such flag has a variable (`variables`).
//!
//! ```yaml
//! archive: s3://backups/prod
//! endpoints: [https://10.0.0.1:2379, https://10.0.0.2:2379]
//! seal-after: 1s
//! keep-all: true
//! ```
//!
//! Both are turned into arguments before those are read, by what clap knows of the command: so they need no second list of
//! flags, and what contradicts itself is refused in the same way wherever it was said. A flag goes before the environment, and that
//! before the file. Commands may share a file: what is another's is passed over. Keys may be etcdbrctl's ([`crate::args::etcdbrctl_flags`]).

mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use etcd_data::Kind;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use store::Environment;

use crate::args::archive::read_text;
use crate::args::etcdbrctl_flags::{Translator, row_called};
use crate::failure::Failure;

/// Where settings are.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SettingsArgs {
    /// A file with settings in YAML: each key is the name of a long flag, or `archive`. Flags go before it, and so do variables,
    /// which all of them have: `REFLOAT_SEAL_AFTER` is `--seal-after`; several values have commas between
    #[arg(long, value_name = "FILE", env = "REFLOAT_SETTINGS")]
    settings: Option<PathBuf>,
}

/// The arguments of the program, with what a file of settings adds to them.
#[derive(Debug)]
pub struct Given {
    /// All of them.
    pub args: Vec<OsString>,
    /// What a person should know of them.
    pub notes: Vec<String>,
    /// What was taken from the environment: how clap calls each argument, and the variable that it stood in.
    variables: Vec<(String, String)>,
    file: Option<File>,
    /// What was told as etcdbrctl is.
    theirs: Translator,
}

/// A file of settings that was read.
#[derive(Debug)]
struct File {
    path: PathBuf,
    text: String,
    /// What was taken from it: how clap calls each argument, and the key that it stood under.
    taken: Vec<(String, String)>,
}

/// The values that a key has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Values(Vec<String>);

impl Given {
    /// The arguments `args`, the first of which is the program's name, as they are meant in `environment`.
    pub fn new(program: &Command, args: Vec<OsString>, environment: &Environment) -> Result<Self, Failure> {
        let mut theirs = Translator::default();
        let args = theirs.translate(program, args)?;
        let mut given =
            Self { args, notes: Vec::new(), variables: Vec::new(), file: None, theirs: Translator::default() };
        // What is wrong is told later, when everything is there.
        let relaxed = program.clone().ignore_errors(true).try_get_matches_from(&given.args);
        let matches = relaxed.as_ref().ok().and_then(ArgMatches::subcommand);
        if let Some((name, matches)) = matches
            && let Some(command) = program.find_subcommand(name)
        {
            let mut added = Added::to(program, command, matches);
            if takes_settings(command) {
                given.variables = added.hear(environment)?;
            }
            if let Ok(Some(path)) = matches.try_get_one::<PathBuf>("settings") {
                given.file = Some(added.read(path, &mut theirs)?);
            }
            if let Some(archive) = theirs.archive(environment)? {
                added.place("archive", archive);
            }
            added.flags.extend(theirs.also(environment)?.map(|place| OsString::from(format!("--also={place}"))));
            given.args.extend(added.flags);
            given.args.extend(added.places);
        }
        given.notes = mem::take(&mut theirs.notes);
        given.theirs = theirs;
        Ok(given)
    }

    /// Makes the folders that etcdbrctl would, of what it is told.
    pub fn make_folders(&self, environment: &Environment) {
        self.theirs.make_folders(environment);
    }

    /// Why clap refuses them, if that is because of something in the environment or in the file.
    pub fn explain(&self, error: &clap::Error) -> Option<Failure> {
        let said = error.to_string();
        let said = said.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
        let said = said.split_whitespace().collect::<Vec<&str>>().join(" ");
        if error.kind() == ErrorKind::MissingRequiredArgument {
            let file = self.file.as_ref()?;
            let failure = Failure::new(Kind::Usage, format!("{}: {said}", file.path.display()));
            return Some(failure.hint("add it there, or give it as a flag"));
        }
        let named = |kind| match error.get(kind) {
            Some(ContextValue::String(name)) => vec![name.clone()],
            Some(ContextValue::Strings(names)) => names.clone(),
            _ => Vec::new(),
        };
        let named = [named(ContextKind::InvalidArg), named(ContextKind::PriorArg)].concat();
        let is_named = |argument: &str| named.iter().any(|name| name.split([' ', '=', '[']).next() == Some(argument));
        if let Some((_, variable)) = self.variables.iter().find(|(argument, _)| is_named(argument)) {
            let failure = Failure::new(Kind::Usage, format!("{variable}: {said}"));
            return Some(failure.hint("correct it there; what is given as a flag goes before the environment"));
        }
        let file = self.file.as_ref()?;
        let (_, key) = file.taken.iter().find(|(argument, _)| is_named(argument))?;
        Some(file.wrong(key, &said).hint("correct it there; what is given as a flag goes before the file"))
    }
}

/// What is added to the arguments of a command.
struct Added<'a> {
    program: &'a Command,
    command: &'a Command,
    matches: &'a ArgMatches,
    /// What variables have said.
    heard: BTreeSet<String>,
    flags: Vec<OsString>,
    places: Vec<OsString>,
}

impl<'a> Added<'a> {
    fn to(program: &'a Command, command: &'a Command, matches: &'a ArgMatches) -> Self {
        Self { program, command, matches, heard: BTreeSet::new(), flags: Vec::new(), places: Vec::new() }
    }

    /// Adds what the file at `path` says and nobody else does.
    fn read(&mut self, path: &Path, theirs: &mut Translator) -> Result<File, Failure> {
        let mut file = File { path: path.to_owned(), text: read_text(path)?, taken: Vec::new() };
        for (key, Values(values)) in file.settings()? {
            if let Some(arg) = arg_called(self.command, &key) {
                self.add(&mut file, &key, arg, &values)?;
                continue;
            }
            if self.is_anothers(&key) {
                continue;
            }
            let row = row_called(self.command.get_name(), &key).ok_or_else(|| {
                let name = self.command.get_name();
                file.wrong(&key, "there is no such setting")
                    .hint(format!("keys are `archive` and the long flags that `refloat {name} --help` lists"))
            })?;
            for value in &values {
                if let Some((ours, value)) = theirs.take(row, Some(value))?
                    && let Some(arg) = arg_called(self.command, ours)
                {
                    self.add(&mut file, &key, arg, &[value])?;
                }
            }
        }
        Ok(file)
    }

    /// Whether a key is another command's: `agent` and `doctor` may share a file.
    fn is_anothers(&self, key: &str) -> bool {
        let mut others = self.program.get_subcommands().filter(|other| takes_settings(other));
        let is_known =
            |other: &Command| arg_called(other, key).is_some() || row_called(other.get_name(), key).is_some();
        others.any(|other| other.get_name() != self.command.get_name() && is_known(other))
    }

    fn is_given(&self, id: &str) -> bool {
        self.heard.contains(id)
            || matches!(self.matches.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    }

    fn add(&mut self, file: &mut File, key: &str, arg: &Arg, values: &[String]) -> Result<(), Failure> {
        if self.is_given(arg.get_id().as_str()) {
            return Ok(());
        }
        let Some(long) = arg.get_long() else {
            values.iter().for_each(|value| self.place(arg.get_id().as_str(), value.clone()));
            file.taken.push((format!("<{}>", key.to_uppercase()), key.to_owned()));
            return Ok(());
        };
        self.flags.extend(words(arg, long, values).ok_or_else(|| file.wrong(key, NO_SWITCH))?);
        file.taken.push((format!("--{long}"), key.to_owned()));
        Ok(())
    }

    /// Adds an argument that stands by itself, unless there is one.
    fn place(&mut self, id: &str, value: String) {
        if !self.is_given(id) && self.places.is_empty() {
            self.places.push(value.into());
        }
    }
}

/// What is wrong with the value of a switch.
const NO_SWITCH: &str = "it is true or false";

/// What says the same as `values` on a command line. Nothing if they are none of a switch.
fn words(arg: &Arg, long: &str, values: &[String]) -> Option<Vec<OsString>> {
    match (arg.get_action(), values) {
        (ArgAction::SetTrue, [value]) if value == "true" => Some(vec![format!("--{long}").into()]),
        (ArgAction::SetTrue, [value]) if value == "false" => Some(Vec::new()),
        (ArgAction::SetTrue, _) => None,
        (_, values) => Some(values.iter().map(|value| format!("--{long}={value}").into()).collect()),
    }
}

fn takes_settings(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == "settings")
}

/// Whether it is about the command itself, or about one run of it, and not a setting: who is gone is not gone for good.
fn is_its_own(arg: &Arg) -> bool {
    ["settings", "help", "version", "writer_is_gone"].contains(&arg.get_id().as_str())
}

/// The argument of `command` that a key names.
fn arg_called<'c>(command: &'c Command, key: &str) -> Option<&'c Arg> {
    let is_it = |arg: &&Arg| match arg.get_long() {
        Some(long) => long == key || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&key)),
        None => arg.get_id() == key,
    };
    command.get_arguments().find(is_it).filter(|arg| !is_its_own(arg))
}

impl File {
    fn settings(&self) -> Result<BTreeMap<String, Values>, Failure> {
        if self.text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(BTreeMap::new());
        }
        serde_saphyr::from_str(&self.text).map_err(|error| {
            let said = error.to_string();
            let said = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Failure::new(Kind::Usage, format!("{}: {said}", self.path.display()))
                .hint("each line is the name of a long flag, a colon, and its value or a list of them")
        })
    }

    /// Something is wrong with what stands under `key`.
    fn wrong(&self, key: &str, what: &str) -> Failure {
        let is_it = |line: &str| {
            let line = line.trim_start().trim_start_matches(['"', '\'']);
            let rest = line.strip_prefix(key).map(|rest| rest.trim_start_matches(['"', '\'']).trim_start());
            rest.is_some_and(|rest| rest.starts_with(':'))
        };
        let line = self.text.lines().position(is_it).map(|at| format!(", line {}", at + 1)).unwrap_or_default();
        Failure::new(Kind::Usage, format!("{}{line}: {key}: {what}", self.path.display()))
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

/// Takes a value, or a list of values, as the words that they would be on a command line.
struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or a list of values")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Values, E> {
        self.visit_string(value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Values, E> {
        self.visit_string(value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Values, E> {
        self.visit_string(value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Values, E> {
        self.visit_string(value.to_string())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Values, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Values, E> {
        Ok(Values(vec![value]))
    }

    fn visit_unit<E: Error>(self) -> Result<Values, E> {
        Err(E::custom("a key has no value"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Values, A::Error> {
        let mut all = Vec::new();
        while let Some(Values(values)) = list.next_element()? {
            all.extend(values);
        }
        Ok(Values(all))
    }
}

#[cfg(test)]
mod tests;
