//! Traces of cards: what a card's process records, and how it is read.
//!
//! | file | holds |
//! |---|---|
//! | `record` | the records that a card's process writes, and which of them a reader wants |
//! | `hello` | what a process tells a reader first |
//! | `contract` | the names of registers, commands and structures, from `device/abi` |
//! | `decode`, `event` | from records to events with names |
//! | `guest` | events of a machine's kernel, and its clock |
//! | `timeline` | the events of several cards in order |
//! | `message` | the way of each packet through two cards |
//! | `text` | events as lines, and as JSON |
//! | `capture` | packets for Wireshark, and its dissector |
//! | `perfetto` | events for ui.perfetto.dev |

pub mod capture;
pub mod contract;
pub mod decode;
pub mod event;
pub mod guest;
pub mod hello;
pub mod message;
pub mod perfetto;
pub mod record;
pub mod text;
pub mod timeline;
