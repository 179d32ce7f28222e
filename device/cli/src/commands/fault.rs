//! `hamlyn fault`

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use hamlyn_faults::talk::{CardFaults, Request, VERSION};
use hamlyn_host::faults::{ask, processes, processes_of};

/// Longest file of rules in bytes.
const LONGEST: u64 = 32 << 10;

/// Make a running card misbehave by rule, so that its driver can be tested
///
/// A rule is SUBJECT ACTION KEY=VALUE... The rules of a call replace the card's earlier ones.
/// Without a rule, shows the rules of the running cards, with the number of their events and of
/// their faults. The same rules, seed and events give the same faults. docs/faults.md describes all
/// rules, with what a driver should do.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn fault card0 'interrupt drop every=10'
  hamlyn fault card0 'dma fail chance=0.01' 'link down for=200ms every=2s' --seed 7
  hamlyn fault all --file rules.txt   one rule a line, # begins a comment
  hamlyn fault                        which rules there are, and how often they had their way
  hamlyn fault card0 --end            card0 behaves again

Subjects and actions:
  interrupt drop|twice|delay|coalesce  vector= by=
  read ones|value|stick                at=REGISTER|BAR:OFFSET|BAR: value=
  write drop|twice                     at=
  access delay                         by=
  command refuse|answer|drop|twice     opcode= status=
  dma fail                             page= access=read|write
  packet drop|twice|reorder|corrupt    from=
  packet cut|delay                     from= bytes= | by= jitter= rate=BYTES_PER_SECOND
 with nth=N, every=N, chance=P, times=N: which of the events; all, if none is given
  fifo full, link down, card stick, card remove   for=TIME
  card reset
  clock jump                           by=TIME
 with after=TIME, every=TIME, times=N: when; once and now, if none is given")]
pub(super) struct FaultArgs {
    /// Card that the rules are for, by name (see hamlyn stat), or all
    #[arg(value_name = "CARD")]
    card: Option<String>,
    /// Rules, one an argument
    #[arg(value_name = "RULE", requires = "card")]
    rules: Vec<String>,
    /// Take rules from a file, too
    #[arg(long, value_name = "FILE", requires = "card")]
    file: Option<PathBuf>,
    /// Seed of all that is left to chance
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// End all faults of the card
    #[arg(long, requires = "card", conflicts_with_all = ["rules", "file"])]
    end: bool,
}

pub(super) fn run(args: &FaultArgs) -> anyhow::Result<()> {
    let mut rules = args.rules.join("\n");
    if let Some(file) = &args.file {
        rules = format!("{}\n{rules}", read(file)?);
    }
    let rules = (args.end || !args.rules.is_empty() || args.file.is_some()).then_some(rules);
    let card = args.card.clone().filter(|card| card != "all");
    let changes = rules.is_some();
    let request = Request { version: VERSION, card, rules, seed: args.seed };
    let cards = ask_all(&request)?;
    let Some(known) = &request.card else { return show(&cards, changes) };
    ensure!(!cards.is_empty(), "card {known} is not running; see hamlyn stat");
    show(&cards, changes)
}

/// Asks all processes, and returns the cards that the request was about.
fn ask_all(request: &Request) -> anyhow::Result<Vec<CardFaults>> {
    let (mut cards, mut failures) = (Vec::new(), Vec::new());
    for process in processes()? {
        match ask(&process, request) {
            Ok(answer) => cards.extend(answer.cards),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    match failures.is_empty() {
        true => Ok(cards),
        false => bail!("{}", failures.join("; ")),
    }
}

/// Sets the rules of a lab's card.
pub(super) fn start(lab: &Path, card: String, rules: String, seed: u64) -> anyhow::Result<()> {
    let request = Request { version: VERSION, card: Some(card), rules: Some(rules), seed };
    processes_of(lab)?.iter().try_for_each(|process| ask(process, &request).map(drop))
}

/// Reads rules from a file.
pub(super) fn read(file: &Path) -> anyhow::Result<String> {
    let unreadable = || format!("cannot read the rules in {}", file.display());
    let length = fs::metadata(file).with_context(unreadable)?.len();
    ensure!(length <= LONGEST, "{} has {length} bytes of rules (limit {LONGEST})", file.display());
    fs::read_to_string(file).with_context(unreadable)
}

fn show(cards: &[CardFaults], changes: bool) -> anyhow::Result<()> {
    let mut out = stdout();
    if cards.is_empty() {
        bail!("no card is running: start a lab, with hamlyn up for example");
    }
    for CardFaults { card, seed, rules } in cards {
        match (changes, rules.is_empty()) {
            (true, true) => writeln!(out, "{card}: set")?,
            (true, false) => writeln!(out, "{card}: set; the rules before, with seed {seed}:")?,
            (false, true) => writeln!(out, "{card}: no rules")?,
            (false, false) => writeln!(out, "{card}: rules with seed {seed}:")?,
        }
        for tally in rules {
            writeln!(out, "  {:<50} {:>8} events {:>8} faults", tally.rule, tally.events, tally.faults)?;
        }
    }
    Ok(())
}
