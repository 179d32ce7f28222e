//! The DART card on hosts in memory.

mod commands;
mod credits;
mod filtering;
mod hostile;
mod operations;
mod support;
mod traps;
mod virtual_memory;
