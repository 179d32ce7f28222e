//! What a measurement's results have in common.

use serde_json::Value;

use super::Options;

/// A measurement of one size.
pub(crate) trait Row {
    /// The table's columns, by perftest's names.
    fn header(options: &Options) -> &'static str;

    /// The row below them.
    fn line(&self, header: &str) -> String;

    /// The same as JSON.
    fn object(&self) -> Value;
}

/// A row's numbers, each below its column's name and as wide: those of one blank are part of a
/// name.
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
