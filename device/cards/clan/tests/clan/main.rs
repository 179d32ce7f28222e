//! Tests of the CLAN card on hosts in memory.

mod credits;
mod dma;
mod events;
mod groups;
mod properties;
mod protection;
mod reads;
mod support;
mod tripwires;
mod windows;
