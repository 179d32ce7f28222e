//! `hamlyn-info`, `hamlyn-ping` and `hamlyn-perf` in one program, selected by the name it is
//! started under.

use std::process::ExitCode;

fn main() -> ExitCode {
    hamlyn_tools::run(std::env::args_os())
}
