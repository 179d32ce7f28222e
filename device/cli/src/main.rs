//! `hamlyn`: a virtual user-level network card for stock QEMU.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Parser;
use hamlyn_cli::commands::Cli;
use hamlyn_cli::plain::plain;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("HAMLYN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // Nobody waits for a log that is full: see lab/log.rs.
    let log = log.log_internal_errors(false);
    log.with_ansi(io::stderr().is_terminal()).with_writer(io::stderr).init();
    match cli.run() {
        Ok(status) => status,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", plain(&story(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, but for those that the one before them tells already.
fn story(error: &anyhow::Error) -> String {
    let mut story = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !story.ends_with(&cause) {
            story.extend([": ", &cause]);
        }
    }
    story
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
