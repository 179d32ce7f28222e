//! `hamlyn-info`, `hamlyn-ping` and `hamlyn-perf` in one program: the name it is started by says
//! which.

use std::process::ExitCode;

fn main() -> ExitCode {
    hamlyn_tools::run(std::env::args_os())
}
