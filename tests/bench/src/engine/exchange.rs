//! One exchange between two programs, and its result.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use serde_json::Value;

use crate::engine::processes::{Child, times};
use crate::engine::site::{PROGRAM, Site};

/// Two programs that exchange messages. The near end measures.
#[derive(Debug, Clone)]
pub struct Exchange<'a> {
    /// The program of both ends.
    pub program: &'static str,
    /// The site of the measuring program, and its role.
    pub near: (Site<'a>, Vec<String>),
    /// The site of its peer, and its role; none for a program that measures alone.
    pub far: Option<(Site<'a>, Vec<String>)>,
    /// Cards, switches and machines whose processor time is measured meanwhile.
    pub watched: Vec<Child>,
}

/// The result of one exchange.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The times of all round trips, in nanoseconds; empty if only the whole was measured.
    pub samples: Histogram<u64>,
    /// Number of measured messages, one way.
    pub messages: u64,
    /// Number of messages including the warm-up; 0 if the program does not report it.
    pub all: u64,
    /// Bytes of data, one way; 0 for round trips.
    pub bytes: u64,
    /// Duration, in nanoseconds.
    pub ns: u64,
    /// Processor time of the near and of the far program, in nanoseconds.
    pub cpu_ns: [u64; 2],
    /// Processor time of the watched processes, in nanoseconds, for `all` messages.
    pub watched_ns: BTreeMap<String, u64>,
    /// Counters of the near and of the far card.
    pub counters: [Value; 2],
}

/// Splits a command into words.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

impl<'a> Exchange<'a> {
    /// An exchange between two programs.
    pub fn between(near: Site<'a>, near_role: &str, far: Site<'a>, far_role: &str) -> Self {
        Self { far: Some((far, words(far_role))), ..Self::alone(near, near_role) }
    }

    /// One program alone.
    pub fn alone(site: Site<'a>, role: &str) -> Self {
        Self { program: PROGRAM, near: (site, words(role)), far: None, watched: Vec::new() }
    }

    /// Uses another program than the benchmark's own.
    pub fn of(self, program: &'static str) -> Self {
        Self { program, ..self }
    }

    /// Also measures the processor time of these processes.
    pub fn watching(self, watched: &[Child]) -> Self {
        Self { watched: watched.to_vec(), ..self }
    }

    /// Returns the commands as a user would type them, the far end's first.
    pub fn commands(&self) -> Vec<String> {
        let far = self.far.iter().map(|(site, role)| site.command(self.program, role));
        far.chain([self.near.0.command(self.program, &self.near.1)]).collect()
    }

    /// Runs the exchange.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        self.try_run().with_context(|| format!("this did not work:\n  {}", self.commands().join("\n  ")))
    }

    fn try_run(&self) -> anyhow::Result<Outcome> {
        let (site, role) = &self.near;
        let Some((far_site, far_role)) = &self.far else {
            return Outcome::read(&site.start(self.program, role)?.finish()?, &Value::Null);
        };
        let mut far = far_site.start(self.program, far_role)?;
        let hello = far.answer()?;
        let mut before = times(&self.watched);
        let mut near = site.start(self.program, role)?;
        if let Some(ticket) = hello["ticket"].as_str() {
            let own = near.answer()?;
            let Some(own) = own["ticket"].as_str() else { bail!("the near end said {own}, not a ticket") };
            far.say(own)?;
            // Both ends have opened all objects that they need.
            before = times(&self.watched);
            near.say(ticket)?;
        }
        let measured = near.finish()?;
        let mut watched_ns = times(&self.watched);
        for (name, time) in &mut watched_ns {
            *time -= before.get(name).copied().unwrap_or_default();
        }
        let answered = far.finish()?;
        Ok(Outcome { watched_ns, ..Outcome::read(&measured, &answered)? })
    }
}

impl Outcome {
    /// Reads the programs' output.
    pub(crate) fn read(near: &Value, far: &Value) -> anyhow::Result<Self> {
        let mut samples = Histogram::new(3).context("cannot make a histogram")?;
        for step in near["samples"].as_array().into_iter().flatten() {
            let (Some(value), Some(count)) = (step[0].as_u64(), step[1].as_u64()) else {
                bail!("{step} is not a value and a count")
            };
            samples.record_n(value, count).with_context(|| format!("cannot record {value} ns"))?;
        }
        let number = |value: &Value, field: &str| value[field].as_u64().unwrap_or_default();
        let Some(ns) = near["ns"].as_u64().filter(|ns| *ns > 0) else { bail!("no time in {near}") };
        Ok(Self {
            samples,
            messages: number(near, "messages"),
            all: number(near, "all"),
            bytes: number(near, "bytes"),
            ns,
            cpu_ns: [number(near, "cpu_ns"), number(far, "cpu_ns")],
            watched_ns: BTreeMap::new(),
            counters: [near["counters"].clone(), far["counters"].clone()],
        })
    }

    /// Returns bytes a second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.ns as f64
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn outcome_is_read_from_both_programs() {
        let near = json!({ "samples": [[1000, 3], [4000, 1]], "messages": 4, "ns": 7000, "cpu_ns": 60, "bytes": 14 });
        let outcome = Outcome::read(&near, &json!({ "cpu_ns": 50 })).unwrap();
        assert_eq!(outcome.samples.len(), 4);
        assert_eq!((outcome.messages, outcome.cpu_ns), (4, [60, 50]));
        assert!((outcome.rate() - 2e6).abs() < 1.0);
    }

    #[test]
    fn invalid_outcome_is_refused() {
        for wrong in [json!({}), json!({ "ns": 0 }), json!({ "ns": 1, "samples": [[1]] }), json!("x")] {
            assert!(Outcome::read(&wrong, &Value::Null).is_err(), "{wrong}");
        }
    }
}
