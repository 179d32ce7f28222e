//! Tests of the DART card on hosts in memory.

mod answers;
mod breaking;
mod commands;
mod credits;
mod exceptions;
mod filtering;
mod hostile;
mod operations;
mod reference;
mod semantics;
mod support;
mod system;
mod translations;
mod traps;
mod turns;
mod virtual_memory;

use hamlyn_test_host::dart::{calling, drawing, interpreter};
