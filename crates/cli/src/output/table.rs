//! Columns that line up, with nothing in them that a terminal would obey.

use std::fmt::{self, Display, Formatter};

use crate::output::quoted::Visible;

/// Rows of cells; every column but the last is as wide as its widest cell.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table that begins with a row of names.
    pub fn with_header<const N: usize>(names: [&str; N]) -> Self {
        Self { rows: vec![names.map(String::from).to_vec()] }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|cell| Visible(cell).to_string()).collect());
    }

    /// Adds a name and what it is.
    pub fn fact(&mut self, name: &str, value: impl Display) {
        self.row([name.into(), value.to_string()]);
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            f.write_str(&line(row.iter().zip(widths.iter().copied())))?;
        }
        Ok(())
    }
}

/// Columns of rows that are not held: they are shown twice, first to be fitted, then to be written.
#[derive(Debug)]
pub struct Columns<const N: usize> {
    widths: [usize; N],
}

impl<const N: usize> Columns<N> {
    /// Columns that begin with a row of `names`.
    pub fn with_header(names: [&str; N]) -> Self {
        Self { widths: names.map(str::len) }
    }

    /// Makes them wide enough for a row. The last cell needs no room.
    pub fn fit(&mut self, cells: &[String; N]) {
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = cell.chars().count().max(*width);
        }
    }

    /// A row, as a line.
    pub fn line(&self, cells: &[String; N]) -> String {
        line(cells.iter().map(|cell| Visible(cell).to_string()).zip(self.widths))
    }
}

/// Cells, each with the width of its column, as a line.
fn line(cells: impl Iterator<Item = (impl Display, usize)>) -> String {
    let mut line: String = cells.map(|(cell, width)| format!("{cell:<width$}  ")).collect();
    line.truncate(line.trim_end().len());
    line
}

/// A size for people: exact where it is small.
pub fn bytes(size: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut scaled = size as f64;
    let mut unit = "B";
    for next in UNITS {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{size} B") } else { format!("{scaled:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_line_ends_in_blanks() {
        let mut table = Table::with_header(["KEY", "SIZE", ""]);
        table.row(["a".into(), "100".into(), String::new()]);
        table.row(["städte".into(), "7".into(), "x".into()]);
        assert_eq!(table.to_string(), "KEY     SIZE\na       100\nstädte  7     x");
    }

    #[test]
    fn a_cell_cannot_drive_a_terminal() {
        let mut table = Table::default();
        table.fact("path", "/snap\u{1b}[2J");
        assert_eq!(table.to_string(), "path  /snap\\u{1b}[2J");
    }

    #[test]
    fn sizes_have_one_decimal() {
        assert_eq!([0, 1023, 1536, 5 << 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
    }
}
