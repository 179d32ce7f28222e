//! Common interface of the results of measurements.

use serde_json::Value;

use super::Options;

/// Result for one size.
pub(crate) trait Row {
    /// Returns the table's columns, with perftest's names.
    fn header(options: &Options) -> &'static str;

    /// Returns the row of the table.
    fn line(&self, header: &str) -> String;

    /// Returns the result as JSON.
    fn object(&self) -> Value;
}

/// Aligns a row's cells with the names of their columns. Names are separated by two blanks; a
/// single blank is part of a name.
pub(crate) fn align(header: &str, cells: &[String]) -> String {
    let columns = header.split("  ").map(str::trim).filter(|name| !name.is_empty());
    let cells = columns.zip(cells).map(|(name, cell)| format!("{cell:<width$}", width = name.len()));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_their_names() {
        let cells = ["2".to_owned(), "1.5".to_owned(), "3".to_owned()];
        assert_eq!(align("#bytes  t_min[usec]  99% percentile[usec]", &cells), "2       1.5          3");
    }
}
