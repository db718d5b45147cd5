//! Settings in the environment: each long flag has a variable of its own, which is called `REFLOAT_` and as the flag is.
//!
//! What clap reads of the environment by itself has other names, those that other programs use too (`ETCDCTL_ENDPOINTS`, `POD_NAME`):
//! ours go before them.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction};
use etcd_data::Kind;
use store::Environment;

use super::{Added, NO_SWITCH, is_its_own, words};
use crate::failure::Failure;

/// The variable of the flag called `long`.
fn variable_of(long: &str) -> String {
    format!("REFLOAT_{}", long.replace('-', "_").to_uppercase())
}

impl Added<'_> {
    /// Adds what variables say and no flag does. Gives how clap calls each argument, with its variable.
    pub(super) fn hear(&mut self, environment: &Environment) -> Result<Vec<(String, String)>, Failure> {
        let mut heard = Vec::new();
        for arg in self.command.get_arguments().filter(|arg| !is_its_own(arg)) {
            let Some((long, variable)) = arg.get_long().map(|long| (long, variable_of(long))) else { continue };
            let Some(value) = environment.get(&variable).filter(|_| !self.is_said(arg, &variable)) else { continue };
            let wrong = || Failure::new(Kind::Usage, format!("{variable}: {NO_SWITCH}"));
            self.flags.extend(words(arg, long, &values(arg, value)).ok_or_else(wrong)?);
            self.heard.insert(arg.get_id().to_string());
            heard.push((format!("--{long}"), variable));
        }
        Ok(heard)
    }

    /// Whether a flag says it, or clap reads just this variable.
    fn is_said(&self, arg: &Arg, variable: &str) -> bool {
        self.matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
            || arg.get_env().is_some_and(|known| known == variable)
    }
}

/// The values in a variable of `arg`: one, unless the flag may be given several times.
fn values(arg: &Arg, value: &str) -> Vec<String> {
    match arg.get_action() {
        ArgAction::Append => value.split(',').map(|value| value.trim().to_owned()).collect(),
        _ => vec![value.to_owned()],
    }
}
