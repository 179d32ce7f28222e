//! A table of anything: what is neither a round trip nor a stream.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Rows of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// What a reader needs beside it.
    pub note: String,
    /// What the columns are called; the first names the rows.
    pub head: Vec<String>,
    /// The rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The same as an object.
    pub(super) fn json(&self) -> Value {
        let row = |row: &Vec<String>| {
            let cells = self.head.iter().cloned().zip(row.iter().map(|cell| json!(cell)));
            Value::Object(cells.collect::<Map<_, _>>())
        };
        json!({ "title": self.title, "note": self.note, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}
