//! `hamlyn driver-test --faults`: the module under a card that misbehaves.

use std::fmt;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use hamlyn_faults::talk::{Request, VERSION};
use hamlyn_host::faults::{ask, processes_of};
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Lab, MODULE, first_complaint, without_foreign_races};

use super::amounts::Amounts;
use super::cases::{CASES, Case};
use super::{FILE, Test, WithTest};

/// Seed of the faults.
const SEED: u64 = 1;
/// Time after which a program that the fault stops is ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the module did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It failed cleanly or went on, and works afterwards.
    Handled,
    /// The module and the programs have not met the fault.
    NotMet,
    /// Threads are stuck in the kernel, or it cannot be unloaded.
    Hung,
    /// The kernel reports an error, or is gone.
    Crashed,
    /// It has kept what it should have released.
    Leaked,
    /// It does not work with a card that behaves again.
    Broken,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Handled => "handled",
            Verdict::NotMet => "not met",
            Verdict::Hung => "HUNG",
            Verdict::Crashed => "CRASHED",
            Verdict::Leaked => "LEAKED",
            Verdict::Broken => "BROKEN",
        })
    }
}

/// Tests the faults with these names, or all. Fails if the module does not handle one of them.
pub(super) fn run(
    names: &[String],
    programs: &[&str],
    start: &dyn Fn() -> anyhow::Result<Lab>,
    with: &WithTest<'_>,
) -> anyhow::Result<()> {
    let cases = chosen(names)?;
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(["fault", "verdict", "what happened", "what should happen"]);
    let (mut lab, mut failed) = (None, Vec::new());
    for case in cases {
        writeln!(stdout(), "{}: {}", case.name, case.rules.replace('\n', "; "))?;
        let machine = match lab.take() {
            Some(lab) => lab,
            None => start()?,
        };
        let mut outcome = (Verdict::Crashed, String::new());
        with(&machine, &mut |test| {
            outcome = Trial(test).judge(case, programs);
            Ok(())
        })?;
        let (verdict, what) = outcome;
        writeln!(stdout(), "  {verdict}: {what}")?;
        table.add_row([case.name, &verdict.to_string(), &what, case.wanted]);
        if matches!(verdict, Verdict::Handled | Verdict::NotMet) {
            lab = Some(machine);
        } else {
            writeln!(stdout(), "{}", machine.vm(0).kernel_log())?;
            failed.push(case.name);
        }
    }
    writeln!(stdout(), "{table}")?;
    ensure!(failed.is_empty(), "the module does not handle {}", failed.join(", "));
    Ok(())
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Case>> {
    if names.iter().any(|name| name == "all") {
        return Ok(CASES.iter().collect());
    }
    let find = |name: &String| {
        CASES.iter().find(|case| case.name == name).with_context(|| {
            let known: Vec<_> = CASES.iter().map(|case| case.name).collect();
            format!("{name} is not a fault; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

/// The test of one fault.
struct Trial<'a>(&'a Test<'a>);

impl Trial<'_> {
    /// Tests a fault in a machine without the module. Returns the verdict, and what happened.
    fn judge(&self, case: &Case, programs: &[&str]) -> (Verdict, String) {
        match self.try_fault(case, programs) {
            Ok(outcome) => outcome,
            // Its kernel may loop or be gone.
            Err(error) if self.0.guest.is_lost.get() => (Verdict::Crashed, first_line(&error)),
            Err(error) if self.0.guest.is_stuck.get() => (Verdict::Hung, first_line(&error)),
            Err(error) => (Verdict::Broken, first_line(&error)),
        }
    }

    fn try_fault(&self, case: &Case, programs: &[&str]) -> anyhow::Result<(Verdict, String)> {
        // What the kernel and the module keep from their first use is not counted.
        self.cycle(programs).context("without a fault")?;
        let before = self.amounts_unloaded()?;
        self.0.guest.ask("echo 4 >/proc/sys/vm/drop_caches; dmesg -c >/dev/null")?;
        self.set_rules(case.rules)?;
        let loaded = self.load()?;
        let names = || programs.iter().map(|program| (*program).to_owned()).collect();
        let mut failed = if loaded { self.failing(programs)? } else { names() };
        let mut faults = self.set_rules("")?;
        let mut what = String::new();
        if failed.len() == programs.len() && faults > 0 {
            // The module has given the card up before the programs could meet the fault.
            if let Some(outcome) = self.unload("as it was loaded")? {
                return Ok(outcome);
            }
            self.0.load(FILE)?;
            self.set_rules(case.rules)?;
            failed = self.failing(programs)?;
            faults += self.set_rules("")?;
            what = format!("{}; then ", if loaded { "the card was given up" } else { "the probe failed" });
        }
        what += &match &failed[..] {
            [] => "all programs passed".to_owned(),
            failed => format!("failed: {}", failed.join(", ")),
        };
        let what = format!("{faults} faults; {what}");
        if let Some(outcome) = self.unload(&what)? {
            return Ok(outcome);
        }
        self.cycle(programs).context("after the fault")?;
        if let Some(line) = self.complaint()? {
            return Ok((Verdict::Crashed, line));
        }
        let after = self.amounts_unloaded()?;
        match after.check(&before, "after the fault") {
            Ok(()) if faults == 0 => Ok((Verdict::NotMet, what)),
            Ok(()) => Ok((Verdict::Handled, what)),
            Err(error) => Ok((Verdict::Leaked, first_line(&error))),
        }
    }

    /// Loads the module, runs the programs and unloads it, with a card that behaves.
    fn cycle(&self, programs: &[&str]) -> anyhow::Result<()> {
        self.0.load(FILE)?;
        for program in programs {
            self.0.guest.run(&program.split(' ').collect::<Vec<_>>())?;
        }
        self.0.guest.run(&["rmmod", MODULE])?;
        Ok(())
    }

    /// Loads the module with a card that misbehaves. Returns whether the driver has taken the card.
    /// An error is a hang.
    fn load(&self) -> anyhow::Result<bool> {
        self.0.insmod(FILE).map(drop).or_else(|error| self.if_it_lives(error))?;
        let model = self.0.model;
        let found = self.0.guest.ask(&format!("ls /sys/class/{model}/ 2>/dev/null; true"))?;
        Ok(found.iter().any(|card| card.starts_with(model)))
    }

    /// Runs the programs, and returns those that fail, or are ended. An error is a hang.
    fn failing(&self, programs: &[&str]) -> anyhow::Result<Vec<String>> {
        let (mut failing, limit) = (Vec::new(), PATIENCE.as_secs().to_string());
        for program in programs {
            let limited = ["timeout", "-s", "KILL", &limit].into_iter().chain(program.split(' '));
            let begun = Instant::now();
            if let Err(error) = self.0.guest.run(&limited.collect::<Vec<_>>()) {
                self.if_it_lives(error)?;
                let ended = if begun.elapsed() < PATIENCE { "" } else { " (too slow)" };
                failing.push(format!("{program}{ended}"));
            }
        }
        Ok(failing)
    }

    /// Unloads the module, if it is loaded. Returns the verdict if that shows a defect.
    fn unload(&self, what: &str) -> anyhow::Result<Option<(Verdict, String)>> {
        if let Some(line) = self.complaint()? {
            return Ok(Some((Verdict::Crashed, line)));
        }
        if self.0.is_loaded()? {
            if let Err(error) = self.0.guest.run(&["rmmod", MODULE]) {
                let why = format!("{what}; not unloaded: {}", first_line(&error));
                return Ok(Some((Verdict::Hung, why)));
            }
        }
        Ok(None)
    }

    /// Passes an error on if the machine is lost, or threads are stuck in its kernel.
    fn if_it_lives(&self, error: anyhow::Error) -> anyhow::Result<()> {
        if self.0.guest.is_lost.get() || self.0.guest.is_stuck.get() { Err(error) } else { Ok(()) }
    }

    fn complaint(&self) -> anyhow::Result<Option<String>> {
        let log = without_foreign_races(self.0.guest.ask("dmesg -c")?);
        Ok(first_complaint(&log).map(|at| plain(&log[at])))
    }

    fn amounts_unloaded(&self) -> anyhow::Result<Amounts> {
        let lines = self.0.guest.run(&["sh", "-c", &super::amounts::script_unloaded()])?;
        Amounts::of_unloaded(&lines).context("what the kernel has in use")
    }

    /// Sets the rules of the lab's card. Returns the number of faults by those before.
    fn set_rules(&self, rules: &str) -> anyhow::Result<u64> {
        let sockets = processes_of(self.0.lab.directory())?;
        let [socket] = &sockets[..] else {
            bail!("{} processes have the card (1 is expected)", sockets.len())
        };
        let request = Request { version: VERSION, card: None, rules: Some(rules.into()), seed: SEED };
        let answer = ask(socket, &request).context("the rules of the fault")?;
        Ok(answer.cards.iter().flat_map(|card| &card.rules).map(|rule| rule.faults).sum())
    }
}

/// Returns the first line of an error, for a table.
fn first_line(error: &anyhow::Error) -> String {
    plain(format!("{error:#}").lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use hamlyn_faults::Rules;
    use hamlyn_host::catalogue::{MODELS, Model};
    use hamlyn_trace::contract::Contract;

    use super::*;

    #[test]
    fn rules_of_all_cases_are_valid() {
        for Model { name, .. } in MODELS {
            for case in CASES {
                let rules = Rules::parse(case.rules, &Contract::of(name));
                assert!(rules.is_ok_and(|rules| !rules.is_empty()), "{name}: {}", case.name);
            }
        }
    }

    #[test]
    fn unknown_fault_is_refused_with_the_known() {
        let names = |name: &str| {
            chosen(&[name.to_owned()]).map(|cases| cases.len()).map_err(|error| error.to_string())
        };
        assert_eq!((names("all"), names("slow")), (Ok(CASES.len()), Ok(1)));
        let refused = names("fire").unwrap_err();
        assert!(refused.starts_with("fire is not a fault; there are interrupts-lost, "), "{refused}");
    }
}
