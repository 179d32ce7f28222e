//! The DART card on hosts in memory.

mod breaking;
mod commands;
mod credits;
mod filtering;
mod hostile;
mod operations;
mod support;
mod system;
mod translations;
mod traps;
mod virtual_memory;
