//! What happened, with names.

use std::fmt::{self, Display, Formatter};

use crate::record::Kind;

/// An event of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When it happened: nanoseconds of the host's monotonic clock.
    pub time: u64,
    /// Number of the card in its trace.
    pub card: usize,
    /// Kind of the record.
    pub kind: Kind,
    /// Whether it happened while the card handled the event before it that was not.
    pub inner: bool,
    /// What happened: `write`, `command`, `dma read`.
    pub what: &'static str,
    /// What it happened to: a register, a host, an address. May be empty.
    pub subject: String,
    /// The other host of a packet, the vector of an interrupt: the record's first number.
    pub number: u64,
    /// Numbers.
    pub fields: Vec<Field>,
    /// Bytes, as far as they were recorded.
    pub bytes: Vec<u8>,
}

/// A number of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name; empty for an event's only number.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// Name of the value: `ULN_STATUS_OK`.
    pub meaning: Option<String>,
}

impl Field {
    /// Returns a number without a name for its value.
    pub fn number(name: &str, value: u64) -> Field {
        Field { name: name.into(), value, meaning: None }
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}=", self.name)?;
        }
        match (&self.meaning, self.value) {
            (Some(meaning), _) => f.write_str(meaning),
            (None, value @ 0..=9999) => write!(f, "{value}"),
            (None, value) => write!(f, "{value:#x}"),
        }
    }
}

impl Event {
    /// Returns the value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<u64> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.value)
    }
}
