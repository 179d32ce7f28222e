//! A table for results that are neither round trips nor streams.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Rows of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// A note for the reader.
    pub note: String,
    /// The column headings; the first column names the rows.
    pub head: Vec<String>,
    /// The rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
}

/// A column: its heading, and the text that it has for a row.
pub(super) type Column<'a, R> = (&'a str, &'a dyn Fn(&R) -> String);

impl Table {
    /// Makes a table from what its rows are about.
    pub fn new<R>(
        title: &str,
        note: &str,
        rows: impl IntoIterator<Item = R>,
        columns: &[Column<'_, R>],
    ) -> Self {
        Self {
            title: title.to_owned(),
            note: note.to_owned(),
            head: columns.iter().map(|(head, _)| (*head).to_owned()).collect(),
            rows: rows.into_iter().map(|row| columns.iter().map(|(_, cell)| cell(&row)).collect()).collect(),
        }
    }

    /// Adds rows whose cells are known, as many as there are columns.
    pub fn with<const N: usize>(mut self, rows: impl IntoIterator<Item = [String; N]>) -> Self {
        assert_eq!(N, self.head.len(), "{}", self.title);
        self.rows.extend(rows.into_iter().map(Vec::from));
        self
    }

    /// Converts the table to a JSON object.
    pub(super) fn json(&self) -> Value {
        let row = |row: &Vec<String>| {
            let cells = self.head.iter().cloned().zip(row.iter().map(|cell| json!(cell)));
            Value::Object(cells.collect::<Map<_, _>>())
        };
        json!({ "title": self.title, "note": self.note, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}
