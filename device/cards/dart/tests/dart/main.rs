//! Tests of the DART card on hosts in memory.

mod answers;
mod breaking;
#[path = "../operation_logic/calling.rs"]
mod calling;
mod commands;
mod credits;
#[path = "../operation_logic/drawing.rs"]
mod drawing;
mod exceptions;
mod filtering;
mod hostile;
#[path = "../operation_logic/interpreter.rs"]
mod interpreter;
mod operations;
mod reference;
mod semantics;
mod support;
mod system;
mod translations;
mod traps;
mod turns;
mod virtual_memory;
