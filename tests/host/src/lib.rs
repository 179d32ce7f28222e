//! A host in memory: what any card reaches, and what any driver does there.
//!
//! Tests of cards, the simulation and the benchmark stand on it. It checks nothing: what a card may
//! touch is known to the simulation's own memory.
//!
//! | file | holds |
//! |---|---|
//! | `region` | memory of this process, or of a file that others map, too |
//! | `memory` | host memory, from address 0 |
//! | `window` | mapped BARs |
//! | `lines` | interrupt lines, a clock that is set, a link that keeps packets |
//! | `driver` | the family's page lists and command page |
//! | `host` | a card among all these, switched on by its driver |
//! | `hamlyn` | what a driver and a library do with a Hamlyn card |

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
