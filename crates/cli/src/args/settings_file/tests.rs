use clap::Parser;

use super::*;
use crate::Cli;

/// What becomes of `refloat agent` with these arguments and a file with that text.
fn given(args: &[&str], text: &str) -> Result<Given, String> {
    given_in(&Environment::default(), args, text)
}

/// The same in this environment.
fn given_in(environment: &Environment, args: &[&str], text: &str) -> Result<Given, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.yaml");
    std::fs::write(&path, text).unwrap();
    let file = format!("--settings={}", path.display());
    let args = [&["refloat", "agent"][..], args, &[&file]].concat();
    let given = Given::new(&crate::command(), args.into_iter().map(OsString::from).collect(), environment);
    let shown = |failure: Failure| match failure {
        Failure::Said { message, hint, .. } => {
            format!("{message} ({})", hint.unwrap_or_default()).replace(path.to_str().unwrap(), "FILE")
        }
        _ => String::new(),
    };
    let given = given.map_err(shown)?;
    match Cli::try_parse_from(&given.args) {
        Ok(_) => Ok(given),
        Err(error) => Err(given.explain(&error).map_or_else(|| error.to_string(), shown)),
    }
}

fn added(args: &[&str], text: &str) -> Vec<String> {
    added_in(&[], args, text)
}

fn added_in(variables: &[(&str, &str)], args: &[&str], text: &str) -> Vec<String> {
    let given = given_in(&Environment::of(variables.iter().copied()), args, text).unwrap();
    given.args.into_iter().skip(3 + args.len()).map(|arg| arg.into_string().unwrap()).collect()
}

#[test]
fn what_the_file_says_becomes_arguments() {
    let text = "# for prod\narchive: s3://backups/prod\nendpoints: [http://a:1, http://b:2]\nseal-after: 1s\n\
                keep-all: true\nreplaces: false\npatience: 30\n";
    let expected = [
        "--endpoints=http://a:1",
        "--endpoints=http://b:2",
        "--keep-all",
        "--patience=30",
        "--seal-after=1s",
        "s3://backups/prod",
    ];
    assert_eq!(added(&[], text), expected);
    assert_eq!(added(&["/a"], ""), [""; 0]);
    assert_eq!(added(&["/a"], "# nothing\n\n"), [""; 0]);
    // What only another command has is passed over.
    assert_eq!(added(&["/a"], "client-port: 5\n"), [""; 0]);
    // A list may have one value, and a key may be quoted.
    assert_eq!(added(&["/a"], "\"identity\": [k.txt]\n"), ["--identity=k.txt"]);
}

#[test]
fn a_flag_goes_before_the_file() {
    assert_eq!(added(&["/a", "--seal-after", "2s"], "seal-after: 1s\narchive: /b\n"), [""; 0]);
    assert_eq!(added(&["/a", "--seal-after=2s"], "takeover: 9s\n"), ["--takeover=9s"]);
}

#[test]
fn each_flag_has_a_variable_that_goes_before_the_file_and_after_the_flag() {
    let seal = [("REFLOAT_SEAL_AFTER", "2s")];
    assert_eq!(added_in(&seal, &["/a"], ""), ["--seal-after=2s"]);
    assert_eq!(added_in(&seal, &["/a"], "seal-after: 1s\ntakeover: 9s\n"), ["--seal-after=2s", "--takeover=9s"]);
    assert_eq!(added_in(&seal, &["/a", "--seal-after=3s"], "seal-after: 1s\n"), [""; 0]);
    assert_eq!(added_in(&[("REFLOAT_SEAL_AFTER", "")], &["/a"], ""), [""; 0]);
    // A switch that is off is off, whatever the file says.
    assert_eq!(added_in(&[("REFLOAT_KEEP_ALL", "true")], &["/a"], ""), ["--keep-all"]);
    assert_eq!(added_in(&[("REFLOAT_KEEP_ALL", "false")], &["/a"], "keep-all: true\n"), [""; 0]);
    let several = [("REFLOAT_ALSO", "s3://b/one, /two"), ("REFLOAT_ENDPOINTS", "http://a:1")];
    assert_eq!(added_in(&several, &["/a"], ""), ["--endpoints=http://a:1", "--also=s3://b/one", "--also=/two"]);
    // What names the file, what is nobody's, and what only another command has.
    let others = [("REFLOAT_SETTINGS", "/none"), ("REFLOAT_SERVICE_HOST", "10.0.0.1"), ("REFLOAT_CLIENT_PORT", "5")];
    assert_eq!(added_in(&others, &["/a"], ""), [""; 0]);
}

/// There is none that is called otherwise, and no second list of them.
#[test]
fn whatever_can_be_set_can_be_set_by_a_variable() {
    let mut program = crate::command();
    program.build();
    let agent = program.find_subcommand("agent").unwrap();
    for arg in agent.get_arguments().filter(|arg| !is_its_own(arg)) {
        let Some(long) = arg.get_long() else { continue };
        let variable = format!("REFLOAT_{}", long.replace('-', "_").to_uppercase());
        let value = if arg.get_action().takes_values() { "1" } else { "true" };
        let environment = Environment::of([(variable.as_str(), value)]);
        let args = ["refloat", "agent", "/a"].map(OsString::from).to_vec();
        let given = Given::new(&crate::command(), args, &environment).unwrap();
        let is_read_by_clap = arg.get_env().is_some_and(|known| known == variable.as_str());
        assert_eq!(given.args.len(), if is_read_by_clap { 3 } else { 4 }, "{variable}: {:?}", given.args);
    }
}

#[test]
fn what_is_wrong_with_a_variable_is_named_with_it() {
    for (variable, value, args, expected) in [
        ("REFLOAT_SEAL_AFTER", "soon", &["/a"][..], "REFLOAT_SEAL_AFTER: invalid value 'soon'"),
        ("REFLOAT_KEEP_ALL", "maybe", &["/a"], "REFLOAT_KEEP_ALL: it is true or false"),
        ("REFLOAT_KEEP_ALL", "true", &["/a", "--window", "3d"], "REFLOAT_KEEP_ALL: the argument"),
    ] {
        let told = given_in(&Environment::of([(variable, value)]), args, "").map(|_| ()).unwrap_err();
        assert!(told.starts_with(expected), "{variable}: {told}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_to_do() {
    for (args, text, expected) in [
        (&["/a"][..], "\nsealafter: 1s\n", "FILE, line 2: sealafter: there is no such setting (keys are"),
        (&["/a"], "settings: x\n", "FILE, line 1: settings: there is no such setting"),
        (&["/a"], "keep-all: maybe\n", "FILE, line 1: keep-all: it is true or false"),
        (&["/a"], "takeover: 9s\nseal-after: soon\n", "FILE, line 2: seal-after: invalid value 'soon'"),
        (&["/a", "--window", "3d"], "keep-all: true\n", "FILE, line 1: keep-all: the argument"),
        (&["/a"], "window: 3d\nkeep-all: true\n", "FILE, line "),
        (&["/a"], "cert: a.crt\n", "FILE: the following required arguments were not provided: --key <FILE>"),
        (&["/a"], "seal-after:\n", "FILE: "),
        (&["/a"], "seal-after: {a: b}\n", "FILE: "),
        (&["/a"], "seal-after: 1s\nseal-after: 2s\n", "FILE: "),
        (&["/a"], "[1, 2]\n", "FILE: "),
        (&["/a"], "\tx", "FILE: "),
    ] {
        let told = given(args, text).map(|_| ()).unwrap_err();
        assert!(told.starts_with(expected), "{text:?}: {told}");
    }
}

#[test]
fn keys_of_etcdbrctl_are_understood() {
    let text = "store-container: backups\nstore-prefix: prod\nstorage-provider: S3\ndelta-snapshot-period: 20s\nmax-backups: 7\n";
    assert_eq!(added(&[], text), ["--seal-after=20s", "s3://backups/prod"]);
    let notes = given(&[], text).unwrap().notes;
    assert!(notes.iter().any(|note| note.starts_with("--max-backups is ignored: ")), "{notes:?}");
}
