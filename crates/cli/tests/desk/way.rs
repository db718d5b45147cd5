//! How somebody reaches a store: by these flags and these variables.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) struct Way {
    pub(crate) place: &'static str,
    pub(crate) flags: Vec<String>,
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Way {
    pub(crate) fn new(place: &'static str, flags: &[&str], variables: &[(&'static str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { place, flags: flags.iter().map(|flag| (*flag).to_owned()).collect(), variables }
    }

    /// The same, with `variables` too.
    pub(crate) fn with(mut self, variables: &[(&'static str, String)]) -> Self {
        self.variables.extend(variables.iter().cloned());
        self
    }

    pub(crate) fn flags(&self) -> Vec<&str> {
        self.flags.iter().map(String::as_str).collect()
    }

    pub(crate) fn variables(&self) -> Vec<(&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
}
