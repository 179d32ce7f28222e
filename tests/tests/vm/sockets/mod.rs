//! Unmodified programs under `hamlyn-run`, whose connections between two machines begin as TCP and
//! are switched to channels of the card.

mod cases;
mod cpython;
mod programs;

use std::cell::RefCell;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Kit, Memory, Packages, System, Vm};
use serde_json::Value;

use crate::left::log_is_clean;
use crate::network::{network, root, wait_for_answer, wait_until};
use crate::turn::{Turn, lab_of};
use crate::{mpi, unmodified};

/// Options of the switch for express memory between the hosts. Each host's half has room for some
/// 120 connections.
const EXPRESS: [&str; 6] = ["--express", "shared", "--express-part", "16M", "--ports", "2"];

/// An end may have to wait for the other's machine, and would stay on TCP.
const AGREEMENT: &str = "HAMLYN_RUN_AGREEMENT=600";

/// A name, and what is run.
type Part = (&'static str, fn(&Pair) -> Result<()>);

/// A client and a server machine, and how their connections go.
struct Pair {
    lab: Turn,
    model: &'static str,
    /// Connections at once that a card has room for.
    room: u64,
    has_express: bool,
    /// Variables of `hamlyn-run`.
    environment: String,
    errors: RefCell<Vec<String>>,
}

/// What processes said of their connections when they ended.
#[derive(Debug, Default)]
struct Report {
    connections: u64,
    switched: u64,
    express: u64,
    tcp_bytes: u64,
    channel_bytes: u64,
}

impl Report {
    /// Adds up those of several processes.
    fn sum<'a>(lines: impl IntoIterator<Item = &'a Value>) -> Result<Report> {
        let mut sum = Report::default();
        for line in lines {
            let count = |field: &str| line[field].as_u64().with_context(|| format!("no {field} in {line}"));
            sum.connections += count("connections")?;
            sum.switched += count("switched")?;
            sum.express += count("express")?;
            sum.tcp_bytes += count("tcp_bytes")?;
            sum.channel_bytes += count("channel_bytes")?;
        }
        Ok(sum)
    }
}

impl Pair {
    fn new(model: &'static str, express: bool) -> Result<Pair> {
        let packages = Packages::of_lines(include_str!("../../../packages"))?;
        let system = System::of_packages(&Kit::find()?, &packages)?;
        let mut machines = network(model, 2)?.system(Some(system)).memory(Memory::mib(512));
        if express {
            machines = machines.switch_args(EXPRESS);
        }
        // A channel takes a mailbox, of which an echo card has 32, and a user a quarter.
        let room = if model == "echo" { 5 } else { 100 };
        let pair = Pair {
            lab: lab_of(machines),
            model,
            room,
            has_express: express,
            environment: AGREEMENT.to_owned(),
            errors: RefCell::default(),
        };
        wait_for_answer(pair.client(), "vm1")?;
        Ok(pair)
    }

    /// From now on connections go by card, although the hosts share memory.
    fn by_card(&mut self) {
        self.has_express = false;
        self.environment += " HAMLYN_RUN_EXPRESS=no";
    }

    fn client(&self) -> &Vm {
        self.lab.vm(0)
    }

    fn server(&self) -> &Vm {
        self.lab.vm(1)
    }

    /// Returns the words that run a command so, with its reports in `/tmp/NAME.report`.
    fn under(&self, name: &str) -> String {
        format!("env {} hamlyn-run --report /tmp/{name}.report", self.environment)
    }

    /// Empties reports of this name. Each user can add to them, as workers of servers do.
    fn begin(&self, name: &str) -> Result<()> {
        let empty = format!(": > /tmp/{name}.report; chmod 666 /tmp/{name}.report");
        self.lab.vms().iter().try_for_each(|vm| root(vm, &empty).map(drop))
    }

    /// Checks that a machine's programs have switched this many connections, and by what.
    fn switched(&self, vm: &Vm, name: &str, least: u64) -> Result<Report> {
        let least = least.min(self.room);
        let report = Report::sum(&reports(vm, name)?)?;
        let what = || format!("{name} in {}, at least {least} to be switched: {report:?}", vm.name());
        ensure!(report.switched >= least && report.switched <= report.connections, what());
        ensure!(report.channel_bytes > 0, what());
        self.is_by_express(&report).with_context(what)?;
        Ok(report)
    }

    /// Express memory does not suffice for any number of connections.
    fn is_by_express(&self, report: &Report) -> Result<()> {
        let wanted = if self.has_express { report.switched } else { 0 };
        let is_part = wanted > 20 && report.express > 0 && report.express < wanted;
        ensure!(report.express == wanted || is_part, "{} by express memory", report.express);
        Ok(())
    }

    /// Runs all parts, also if one fails.
    fn run(&self, parts: &[Part]) {
        for (name, part) in parts {
            if let Err(error) = part(self) {
                let way = if self.environment == AGREEMENT { "" } else { " by card" };
                self.errors.borrow_mut().push(format!("{name}{way}: {error:#}"));
            }
        }
    }

    /// Fails if a part has failed, or a kernel has complaints.
    fn finish(self) -> Result<()> {
        let errors = self.errors.into_inner();
        ensure!(errors.is_empty(), "{}", errors.join("\n\n"));
        (0..2).try_for_each(|vm| log_is_clean(&self.lab, vm))
    }
}

/// Returns the reports of this name.
fn reports(vm: &Vm, name: &str) -> Result<Vec<Value>> {
    let text = root(vm, &format!("cat /tmp/{name}.report"))?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("in a report: {line}")))
        .collect()
}

/// Waits until a program listens.
fn wait_for_port(vm: &Vm, port: u16) -> Result<()> {
    wait_until(vm, &format!("netstat -ltn | grep -q ':{port} '"))
}

/// Ends a server's processes, and waits until they have.
fn stop(vm: &Vm, program: &str) -> Result<()> {
    root(vm, &format!("pkill -TERM -x {program}; true"))?;
    wait_until(vm, &format!("! pgrep -x {program} >/dev/null"))
}

#[test]
fn debians_programs_switch_to_channels() -> Result<()> {
    let mut pair = Pair::new("hamlyn", true)?;
    pair.run(&programs::ALL);
    pair.run(&[("CPython", cpython::same_failures)]);
    pair.by_card();
    pair.run(&programs::SOME);
    pair.finish()
}

#[test]
fn connections_behave_like_tcp() -> Result<()> {
    let mut pair = Pair::new("hamlyn", true)?;
    pair.run(&[("cases", cases::all), ("one end", cases::with_one_end)]);
    pair.by_card();
    pair.run(&[("cases", cases::some)]);
    pair.finish()
}

/// Runs programs as they are, those of MPI among them, and under `hamlyn-run`, all in the same
/// machines.
fn unmodified_programs_run_over(model: &'static str) -> Result<()> {
    let pair = Pair::new(model, false)?;
    pair.run(&[("by IP", |pair| unmodified::most_programs(&pair.lab, pair.model))]);
    pair.run(&programs::SOME);
    pair.run(&[("cases", cases::some), ("MPI", |pair| mpi::runs_between(&pair.lab))]);
    pair.finish()
}

#[test]
fn unmodified_programs_run_over_shrimp_cards() -> Result<()> {
    unmodified_programs_run_over("shrimp")
}

#[test]
fn unmodified_programs_run_over_clan_cards() -> Result<()> {
    unmodified_programs_run_over("clan")
}

#[test]
fn unmodified_programs_run_over_dart_cards() -> Result<()> {
    unmodified_programs_run_over("dart")
}

#[test]
fn unmodified_programs_run_over_echo_cards() -> Result<()> {
    unmodified_programs_run_over("echo")
}
