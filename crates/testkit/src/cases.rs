//! How many random cases a test tries: what it says, or of a hundred as many as `CASES_PERCENT` says, for whoever has less time.

/// How many of `usual` cases are tried: at least one.
///
/// # Panics
/// If `CASES_PERCENT` is not a number.
pub fn cases(usual: u64) -> u64 {
    let percent = std::env::var("CASES_PERCENT").map_or(100, |percent| percent.parse().unwrap());
    (usual * percent).div_ceil(100)
}

/// Prints what it holds if the case panics that it is kept through: how to try that one again.
pub struct Told(pub String);

impl Drop for Told {
    #[allow(clippy::print_stderr)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
