//! The program that `hamlyn sim` starts. `hamlyn sim` has the flags, their help and their limits;
//! this program takes the values as positional arguments.

mod seeds;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};

use seeds::Task;

const USAGE: &str =
    "hamlyn-sim takes MODEL SEEDS FROM JOBS [CARDS]; hamlyn sim starts it, and has --help and flags";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match task(&words).and_then(|task| seeds::run(&task)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A failed write to standard error cannot be reported.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn task(words: &[String]) -> anyhow::Result<Task> {
    let (model, numbers) = words.split_first().context(USAGE)?;
    let number = |word: &String| word.parse::<u64>().with_context(|| format!("'{word}': {USAGE}"));
    let numbers = numbers.iter().map(number).collect::<anyhow::Result<Vec<_>>>()?;
    let (seeds, from, jobs, cards) = match numbers[..] {
        [seeds, from, jobs] => (seeds, from, jobs, None),
        [seeds, from, jobs, cards] => (seeds, from, jobs, Some(cards)),
        _ => bail!(USAGE),
    };
    ensure!((1..=1024).contains(&jobs), "JOBS is {jobs}, and may be 1 to 1024");
    ensure!(cards.is_none_or(|cards| (2..=16).contains(&cards)), "CARDS is {cards:?}, and may be 2 to 16");
    let cards = cards.map(|cards| cards as u16);
    Ok(Task { model: hamlyn_host::catalogue::find(model)?, seeds, from, jobs, cards })
}
