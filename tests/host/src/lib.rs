//! A host in memory: everything a card reaches, and the operations of its driver.
//!
//! Tests of cards, the simulation and the benchmark use it. It does not check accesses: the
//! simulation's own memory knows what a card may touch.
//!
//! | file | holds |
//! |---|---|
//! | `region` | memory of this process, or of a file that other processes map too |
//! | `memory` | host memory, from address 0 |
//! | `window` | mapped BARs |
//! | `lines` | interrupt lines, a settable clock, a link that records packets |
//! | `driver` | the family's page lists and command page |
//! | `host` | a card with all of these, enabled by its driver |
//! | `hamlyn` | driver and library operations on a Hamlyn card |
//! | `dart` | the specified effects of a DART card's messages |

pub mod dart;
mod driver;
pub mod hamlyn;
mod host;
mod lines;
mod memory;
mod region;
mod window;

pub use driver::{Commands, Refusal, list_pages};
pub use host::{Host, window_bytes};
pub use lines::{Lines, SetClock, Wire};
pub use memory::{MEMORY_BYTES, Memory};
pub use region::shared_file;
pub use window::Pages;
