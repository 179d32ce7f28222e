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

/// What the tools must do on any model's cards, with the lengths that matter to the model.
pub(crate) struct Tools {
    /// The model's name, which its nodes have.
    pub(crate) model: &'static str,
    /// Lengths of messages that are sent back.
    pub(crate) ping: &'static [&'static str],
    /// Length of the longest message.
    pub(crate) longest: u64,
    /// Further arguments of runs that measure the latency.
    pub(crate) latency: &'static [&'static [&'static str]],
    /// Length of messages in both directions, with two pairs.
    pub(crate) both_ways: &'static str,
}

impl Tools {
    /// Checks that the only card is found, and described. Returns the description.
    pub(crate) fn info(&self, lab: &Lab) -> Result<Value> {
        let info = said(lab, &["hamlyn-info", "--json"])?;
        ensure!(info.len() == 1, "{info:?}");
        let info = &info[0];
        let node = format!("/dev/{}0", self.model);
        ensure!(info["card"] == node && info["host"] == 0 && info["uapi_version"].is_string(), "{info}");
        ensure!(number(info, "ports")? > 0.0, "{info}");
        let absent = format!("/dev/{}9", self.model);
        refused(lab, &["hamlyn-info", "-d", &absent], &absent)?;
        Ok(info.clone())
    }

    /// Checks round trips, and what cannot be sent.
    pub(crate) fn ping(&self, lab: &Lab) -> Result<()> {
        let _server = server(lab, "hamlyn-ping")?;
        crate::finds(lab, "hamlyn-ping")?;
        for size in self.ping {
            let summary = said(lab, &["hamlyn-ping", "1", "-c", "10", "-i", "0", "-s", size, "--json"])?;
            ensure!(summary[0]["sent"] == 10 && summary[0]["answered"] == 10, "{size}: {summary:?}");
        }
        let (above, limit) = ((self.longest + 1).to_string(), format!("(limit {})", self.longest));
        refused(lab, &["hamlyn-ping", "1", "-s", &above], &limit)?;
        refused(lab, &["hamlyn-ping", "1", "--name", "absent"], "no listener has that name")
    }

    /// Measures latency, messages one way, and messages both ways. Returns the server, which is
    /// ready for more.
    pub(crate) fn perf(&self, lab: &Lab) -> Result<Run> {
        let server = server(lab, "hamlyn-perf")?;
        for more in self.latency {
            let row = said(lab, &[&["hamlyn-perf", "1", "--json"], *more].concat())?;
            let [min, max] = ["t_min_us", "t_max_us"].map(|field| number(&row[0], field));
            let (min, max) = (min?, max?);
            ensure!(0.0 < min && min <= max, "{row:?}");
        }
        // More messages than a queue has records.
        let row = said(lab, &["hamlyn-perf", "1", "--bw", "-s", "4096", "-n", "700", "--json"])?;
        ensure!(row[0]["iterations"] == 700 && number(&row[0], "bw_average_mb_s")? > 0.0, "{row:?}");
        let both_ways =
            ["hamlyn-perf", "1", "--bw", "-b", "-q", "2", "-s", self.both_ways, "-n", "50", "--json"];
        ensure!(said(lab, &both_ways)?[0]["iterations"] == 100);
        Ok(server)
    }
}
