//! Tables for people: columns are as wide as their longest cell.

use comfy_table::{CellAlignment, Row, Table, presets};

/// Returns the lines of a table of numbers. All columns except the first are right-aligned.
pub(crate) fn lines<R: Into<Row>>(rows: impl IntoIterator<Item = R>) -> Vec<String> {
    aligned(rows, CellAlignment::Right)
}

/// Returns the lines of a table of words.
pub(crate) fn text_lines<const COLUMNS: usize>(
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Vec<String> {
    aligned(rows, CellAlignment::Left)
}

fn aligned(rows: impl IntoIterator<Item = impl Into<Row>>, others: CellAlignment) -> Vec<String> {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 0));
        if index > 0 {
            column.set_cell_alignment(others);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Formats a time in nanoseconds.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns as f64;
    if ns < 1e3 {
        format!("{ns:.0} ns")
    } else if ns < 1e6 {
        format!("{:.1} us", ns / 1e3)
    } else {
        format!("{:.1} ms", ns / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_right_aligned() {
        let rows = [["packets", "7", ""], ["refused", "1000", "2.0/s"]].map(|row| row.map(str::to_owned));
        assert_eq!(lines(rows), ["  packets     7", "  refused  1000  2.0/s"]);
        assert!(lines(Vec::<[String; 2]>::new()).is_empty());
    }

    #[test]
    fn words_are_left_aligned() {
        let rows = [["one", "a", "b"], ["another", "more", "c"]].map(|row| row.map(str::to_owned));
        assert_eq!(text_lines(rows), ["  one      a     b", "  another  more  c"]);
    }
}
