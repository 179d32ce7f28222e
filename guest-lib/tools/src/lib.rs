//! Tools for the user of a guest. They show what a card is, whether a peer answers, and how fast it
//! is.
//!
//! They are one program, because a guest's image has little space. Started under a tool's name
//! (through a link), the program is that tool. Started as `hamlyn-tools`, it takes the tool's name
//! as its first argument.
//!
//! `hamlyn-ping` and `hamlyn-perf` exchange messages over channels, which are the same on all
//! cards. `hamlyn-info` has a file for each model.

mod card;
mod end;
mod flow;
mod hello;
mod info;
mod perf;
mod ping;
mod serve;
mod session;
mod stop;
mod word;

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ContextKind;
use clap::{Args, Command, FromArgMatches};

/// Result of a tool's parts.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A tool: its name, its command line, and what it does with one.
struct Tool {
    name: &'static str,
    command: fn(Command) -> Command,
    run: fn(&clap::ArgMatches) -> Outcome<ExitCode>,
}

const TOOLS: [Tool; 3] = [
    Tool { name: "hamlyn-info", command: info::Options::augment_args, run: |found| info::run(&read(found)?) },
    Tool { name: "hamlyn-ping", command: ping::Options::augment_args, run: |found| ping::run(&read(found)?) },
    Tool { name: "hamlyn-perf", command: perf::Options::augment_args, run: |found| perf::run(&read(found)?) },
];

fn read<T: FromArgMatches>(found: &clap::ArgMatches) -> Result<T, clap::Error> {
    T::from_arg_matches(found)
}

impl Tool {
    fn command(&self) -> Command {
        (self.command)(Command::new(self.name)).version(env!("CARGO_PKG_VERSION"))
    }
}

/// Returns the tools' command lines, from which their manual pages are made.
#[must_use]
pub fn commands() -> Vec<Command> {
    TOOLS.iter().map(Tool::command).collect()
}

/// Runs the tool that is named by the first argument, the program's own name, or else by the
/// second.
///
/// The exit status is 0 on success, 1 on failure (the reason is on standard error), 2 if the
/// arguments are not valid, and 141 if its output was closed, as by SIGPIPE.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter().peekable();
    let found = arguments.peek().and_then(find).or_else(|| {
        arguments.next();
        arguments.peek().and_then(find)
    });
    let Some(tool) = found else {
        let names: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
        complain(format_args!("error: no tool is named (one of {}, and its arguments)", names.join(", ")));
        return ExitCode::from(2);
    };
    let matches = tool.command().try_get_matches_from(arguments).unwrap_or_else(|mut error| {
        // It would suggest to pass a letter that the tool refuses as the peer's name.
        error.remove(ContextKind::Suggested);
        error.exit()
    });
    (tool.run)(&matches).unwrap_or_else(|error| {
        if is_closed_output(&*error) {
            return ExitCode::from(CLOSED_OUTPUT);
        }
        complain(format_args!("error: {error}"));
        ExitCode::FAILURE
    })
}

/// Exit status that a shell reports for a program killed by SIGPIPE.
const CLOSED_OUTPUT: u8 = 128 + signal_hook::consts::SIGPIPE as u8;

/// Returns whether the output was closed. Errors of cards and peers have other types.
fn is_closed_output(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn find(name: &OsString) -> Option<&'static Tool> {
    let name = Path::new(name).file_name()?;
    TOOLS.iter().find(|tool| name == tool.name)
}

/// Prints a line on standard error, unless that is closed.
fn complain(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a line and flushes it, even into a pipe.
fn say(line: impl std::fmt::Display) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_lines_are_sound() {
        commands().into_iter().for_each(Command::debug_assert);
    }

    #[test]
    fn tool_is_found_by_file_name() {
        assert_eq!(find(&"/bin/hamlyn-ping".into()).map(|tool| tool.name), Some("hamlyn-ping"));
        assert!(find(&"hamlyn-tools".into()).is_none());
    }
}
