//! The cost of a message in addition to time: trapped accesses and system calls.

use anyhow::{Context, bail};

use crate::engine::exchange::{Exchange, words};
use crate::engine::goals::number;
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::site::PROGRAM;

/// The cost of a message in a polled exchange, in addition to time.
#[derive(Debug, Clone)]
pub struct Extras {
    /// The transport of the messages.
    pub lab: &'static str,
    /// Trapped accesses to both cards, from the counters of their buses.
    pub traps: f64,
    /// System calls of the near end, from `strace`.
    pub system_calls: f64,
}

/// Counts trapped accesses and system calls per message, from the difference between a short and a
/// long exchange. The programs' set-up and tear-down cancel out.
///
/// `roles` returns both ends' roles for a number of round trips, the near one first.
pub(crate) fn measure(
    lab: &'static str,
    machines: &Machines,
    roles: impl Fn(u64) -> [String; 2],
    progress: &Progress,
) -> anyhow::Result<Extras> {
    const COUNTS: [u64; 2] = [500, 2500];
    let (mut traps, mut calls) = ([0; 2], [0; 2]);
    for (index, count) in COUNTS.into_iter().enumerate() {
        progress.step(&format!("{lab}: traps and system calls of {count} messages"));
        let roles = roles(count);
        let before = trapped(machines)?;
        Exchange::between(machines.near(), &roles[0], machines.far(), &roles[1]).run()?;
        traps[index] = trapped(machines)? - before;
        calls[index] = traced_calls(machines, &roles)?;
    }
    // Every round trip is one message of each end.
    let trips = (COUNTS[1] - COUNTS[0]) as f64;
    let difference = |counts: [u64; 2]| counts[1] as f64 - counts[0] as f64;
    Ok(Extras {
        lab,
        traps: difference(traps).max(0.0) / trips / 2.0,
        system_calls: difference(calls).max(0.0) / trips,
    })
}

/// Shows them as a table.
pub fn table(extras: &[Extras]) -> Table {
    let note = "From the difference between 500 messages and 2,500; trapped accesses by the counters of the cards' buses, \
        system calls of one end by strace. Under emulation a trapped access is what an exit is with hardware \
        virtualisation.";
    Table::new(
        "Trapped accesses and system calls per message, both ends polling",
        note,
        extras,
        &[
            ("", &|extras| extras.lab.to_owned()),
            ("trapped accesses", &|extras| number(extras.traps)),
            ("system calls", &|extras| number(extras.system_calls)),
        ],
    )
}

fn trapped(machines: &Machines) -> anyhow::Result<u64> {
    let mut sum = 0;
    for card in 0..2 {
        let counters = machines.lab.card_counters(card)?;
        for verb in ["REGION_READ", "REGION_WRITE", "REGION_WRITE_MULTI"] {
            let Some(count) = counters["bus"][verb].as_u64() else {
                bail!("card {card} does not count {verb}")
            };
            sum += count;
        }
    }
    Ok(sum)
}

/// Runs the near end under strace, and returns the number of its system calls.
fn traced_calls(machines: &Machines, roles: &[String; 2]) -> anyhow::Result<u64> {
    const SUMMARY: &str = "/tmp/strace";
    let (near, far) = (machines.lab.vm(0), machines.lab.vm(1));
    let mut echo = far.run([words(PROGRAM), words(&roles[1])].concat())?;
    let theirs = echo.answer_text("ticket")?;
    let traced = words(&format!("strace -f -c -o {SUMMARY} {PROGRAM} {}", roles[0]));
    let mut ping = near.run(traced)?;
    echo.say(&ping.answer_text("ticket")?)?;
    ping.say(&theirs)?;
    ping.finish()?;
    echo.finish()?;
    let text = near.read(SUMMARY)?;
    total_calls(&text).with_context(|| format!("strace said {text:?}"))
}

/// Returns the number of calls in the last line of strace's summary: `100.00 0.01 12 345 6 total`.
fn total_calls(summary: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straces_summary_is_read() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                       60.00    0.000300          10        30           read\n\
                       40.00    0.000200          20        10         2 write\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                       100.00    0.000500          12        40         2 total\n";
        assert_eq!(total_calls(summary), Some(40));
        assert_eq!(total_calls("nothing"), None);
    }
}
