//! CLAN cards for C: `include/clan.h` is generated from these files, and `include/clan_programs.h`
//! from those in `programs`.

mod aperture;
mod cache;
mod card;
mod connection;
mod descriptor;
mod dma;
mod endpoint;
mod events;
mod message;
mod names;
mod programs;
mod rights;
mod tripset;
mod tripwire;
mod window;

pub use aperture::*;
pub use cache::*;
pub use card::*;
pub use connection::*;
pub use descriptor::*;
pub use dma::*;
pub use endpoint::*;
pub use events::*;
pub use message::*;
pub use names::*;
pub use programs::*;
pub use rights::*;
pub use tripset::*;
pub use tripwire::*;
pub use window::*;
