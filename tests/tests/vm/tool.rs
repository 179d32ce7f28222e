//! Runs the guest's tools, for the tests of the tools on each card.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Exit, Lab, Run};
use serde_json::{Value, json};

/// Runs a tool on machine 0 that must succeed. Returns its output.
pub(crate) fn said(lab: &Lab, arguments: &[&str]) -> Result<Vec<Value>> {
    lab.vm(0).run(arguments.iter().copied())?.finish()
}

/// Checks that a tool on machine 0 fails for the given reason.
pub(crate) fn refused(lab: &Lab, arguments: &[&str], reason: &str) -> Result<()> {
    let mut tool = lab.vm(0).run(arguments.iter().copied())?;
    let status = tool.wait()?;
    let errors = tool.stderr();
    ensure!(status == Exit::Code(1) && errors.contains(reason), "{arguments:?}: {status:?}: {errors}");
    Ok(())
}

/// Starts the server side of a tool on machine 1.
pub(crate) fn server(lab: &Lab, tool: &str) -> Result<Run> {
    let mut server = lab.vm(1).run([tool, "--json"])?;
    let line = server.answer()?;
    ensure!(line == json!({ "listening": tool, "host": 1 }), "{line}");
    Ok(server)
}

/// Returns a numeric field of an answer.
pub(crate) fn number(answer: &Value, field: &str) -> Result<f64> {
    answer[field].as_f64().with_context(|| format!("no number {field} in {answer}"))
}
