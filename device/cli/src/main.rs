//! `hamlyn`: a virtual user-level network card for stock QEMU.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use hamlyn_cli::commands::Cli;
use hamlyn_lab::plain::plain;
use tracing::level_filters::LevelFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match log_level().and_then(|level| run(cli, level)) {
        Ok(status) => status,
        // The reader of the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "error: {}", plain(&story(&error)));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, level: LevelFilter) -> anyhow::Result<ExitCode> {
    let log = tracing_subscriber::fmt().with_max_level(level).with_target(false);
    // A log that cannot be written must not block: see `hamlyn_lab`'s `log.rs`.
    let log = log.log_internal_errors(false).with_writer(io::stderr);
    if logs_json()? {
        log.json().flatten_event(true).with_ansi(false).init();
    } else {
        log.with_ansi(io::stderr().is_terminal()).init();
    }
    // Logs, images and memory files can each exceed the limit.
    hamlyn_host::survive_file_size_limit();
    cli.run()
}

fn log_level() -> anyhow::Result<LevelFilter> {
    let Some(level) = env::var_os("HAMLYN_LOG") else { return Ok(LevelFilter::INFO) };
    let level = level.to_string_lossy();
    level.parse().map_err(|_| {
        anyhow::anyhow!("HAMLYN_LOG is '{level}', and may be off, error, warn, info, debug or trace")
    })
}

/// Returns whether the log is JSON: an object for each line, with `timestamp`, `level`, `message`.
fn logs_json() -> anyhow::Result<bool> {
    let Some(format) = env::var_os("HAMLYN_LOG_FORMAT") else { return Ok(false) };
    match &*format.to_string_lossy() {
        "json" => Ok(true),
        "text" => Ok(false),
        format => Err(anyhow::anyhow!("HAMLYN_LOG_FORMAT is '{format}', and may be text or json")),
    }
}

/// Returns the error and its causes, except causes that the previous message already contains.
fn story(error: &anyhow::Error) -> String {
    let mut story = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !story.ends_with(&cause) {
            story.extend([": ", &cause]);
        }
    }
    story
}

/// Returns whether standard output is closed. Every other write adds a context that names its
/// target.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().nth(1).is_none()
        && error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
