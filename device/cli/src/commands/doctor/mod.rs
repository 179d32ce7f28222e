//! `hamlyn doctor`

mod finding;
mod host;
mod judge;

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::Args;

use crate::table;
use finding::{Finding, State};

/// Say what is missing on this host, and how to get it
///
/// One line for each part: ok, warning or missing, with the next step. The exit status is 1 if
/// something is missing without which a lab cannot start.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn doctor
  hamlyn doctor --json | jq -r '.[] | select(.state != \"ok\") | .next'")]
pub(super) struct DoctorArgs {
    /// Print one JSON array, with an object for each part
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let findings = host::look();
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&findings)?)?;
    } else {
        let rows = findings.iter().map(|found| {
            let next = found.next.iter().map(|next| format!(": {next}"));
            let text = [found.what.clone()].into_iter().chain(next).collect::<String>();
            [found.part.to_owned(), found.state.to_string(), text]
        });
        for line in table::text_lines(rows) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(status(&findings))
}

fn status(findings: &[Finding]) -> ExitCode {
    match findings.iter().any(|found| found.state == State::Missing) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_a_failure() {
        let found = [Finding::ok("a", "b"), Finding::warning("a", "b", "c")];
        assert_eq!(status(&found), ExitCode::SUCCESS);
        assert_eq!(status(&[Finding::missing("a", "b", "c")]), ExitCode::FAILURE);
    }

    #[test]
    fn finding_is_an_object_with_next_step() {
        let found =
            serde_json::to_value([Finding::ok("kvm", "works"), Finding::missing("kit", "none", "go")]);
        let expected = serde_json::json!([
            { "part": "kvm", "state": "ok", "what": "works", "next": null },
            { "part": "kit", "state": "missing", "what": "none", "next": "go" },
        ]);
        assert_eq!(found.unwrap(), expected);
    }
}
