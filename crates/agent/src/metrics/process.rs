//! What Prometheus wants to know of every process, as the kernel tells it when somebody asks. What it does not tell is left
//! out.

use std::fs;

use super::book::{Book, Gauges, Totals};

#[derive(Debug)]
pub(super) struct Process {
    resident: Gauges,
    cpu: Totals,
    open_files: Gauges,
    began: Gauges,
}

/// Linux counts in these towards programs, whatever it counts in itself.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process has used of the processors, and when it began after the machine did.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    used_seconds: f64,
    began_seconds: f64,
}

impl Process {
    pub(super) fn in_book(book: &mut Book) -> Self {
        Self {
            resident: book.gauge("process_resident_memory_bytes", &[], "Memory that the process holds"),
            cpu: book.total("process_cpu_seconds", &[], "Time that processors have worked for it, for the kernel too"),
            open_files: book.gauge("process_open_fds", &[], "Files and connections that it has open"),
            began: book.gauge("process_start_time_seconds", &[], "When it was started"),
        }
    }

    /// What is so now.
    pub(super) fn set(&self) {
        let read = |path: &str| fs::read_to_string(path).ok();
        let times = read("/proc/self/stat").and_then(|stat| times(&stat));
        let machine_began = read("/proc/stat").and_then(|stat| number(&stat, "btime "));
        let resident_kib = read("/proc/self/status").and_then(|status| number(&status, "VmRSS:"));
        let began = times.zip(machine_began).map(|(times, machine)| machine as f64 + times.began_seconds);
        [&self.resident, &self.open_files, &self.began].into_iter().for_each(Gauges::clear);
        self.resident.set_known(&[], resident_kib.map(|kib| kib as f64 * 1024.0));
        self.cpu.set_known(&[], times.map(|times| times.used_seconds));
        self.open_files.set_known(&[], open_files().map(|count| count as f64));
        self.began.set_known(&[], began);
    }
}

fn open_files() -> Option<usize> {
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    // The folder is open while it is listed.
    Some(listed.saturating_sub(1))
}

/// The number behind `name`, which begins a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The third field and what follows, behind the program's name, which may have anything in it: the 14th and 15th are the
/// time used by the program and for it, the 22nd is when it began.
fn times(stat: &str) -> Option<Times> {
    let mut ticks = stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse::<f64>().ok());
    let (own, kernel) = (ticks.nth(11)??, ticks.next()??);
    let began = ticks.nth(6)??;
    Some(Times { used_seconds: (own + kernel) / TICKS_PER_SECOND, began_seconds: began / TICKS_PER_SECOND })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_counted_from_behind_the_name() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194560 100 0 5 0 250 50 7 8 20 0 9 0 123456 1000000 500 1844674\n";
        assert_eq!(times(stat), Some(Times { used_seconds: 3.0, began_seconds: 1234.56 }));
        for broken in ["", "42 (a) S 1 2", "42 (a) S 1 42 42 0 -1 4194560 100 0 5 0 x 50 7 8 20 0 9 0 1"] {
            assert_eq!(times(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_number_is_found_by_what_its_line_begins_with() {
        let text = "VmPeak:\t  9 kB\nVmRSS:\t    2048 kB\nbtime 1790000000\n";
        assert_eq!((number(text, "VmRSS:"), number(text, "btime ")), (Some(2048), Some(1_790_000_000)));
        assert_eq!((number(text, "VmSwap:"), number("VmRSS: x", "VmRSS:")), (None, None));
    }
}
