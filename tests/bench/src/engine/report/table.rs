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

impl Table {
    /// Converts the table to a JSON object.
    pub(super) fn json(&self) -> Value {
        let row = |row: &Vec<String>| {
            let cells = self.head.iter().cloned().zip(row.iter().map(|cell| json!(cell)));
            Value::Object(cells.collect::<Map<_, _>>())
        };
        json!({ "title": self.title, "note": self.note, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}
