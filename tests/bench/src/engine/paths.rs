//! Counts the instructions and cache lines of the library's and a card's fast paths, with
//! valgrind's callgrind, and compares them with the papers' counts. The counts are the same in
//! every run, so they show differences that a clock cannot resolve.

use std::path::Path;

use anyhow::{Context, ensure};
use hamlyn_host::catalogue::Model;

use crate::engine::exchange::words;
use crate::engine::foreign::in_root;
use crate::engine::goals::number;
use crate::engine::report::Table;
use crate::engine::site::HostProgram;

/// The paths of a model that are counted.
#[derive(Debug, Clone, Copy)]
pub struct Paths {
    /// Functions that the model's walk of its paths calls once per message, and their descriptions.
    pub functions: &'static [(&'static str, &'static str)],
    /// The papers' counts, for comparison.
    pub papers: &'static [(&'static str, &'static str)],
}

/// The cost of one run of a path.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    what: &'static str,
    instructions: f64,
    loads: f64,
    stores: f64,
    /// Lines that were not in a first-level cache.
    lines: f64,
}

/// Counts every path of a model, with valgrind from the folder into which it was fetched.
pub fn measure(root: &Path, model: &Model, paths: &Paths) -> anyhow::Result<Vec<Cost>> {
    paths.functions.iter().map(|(function, what)| count(root, model, function, what)).collect()
}

fn count(root: &Path, model: &Model, function: &str, what: &'static str) -> anyhow::Result<Cost> {
    const MESSAGES: u32 = 1000;
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program.with_file_name("hamlyn-bench-paths");
    let line = format!(
        "valgrind.bin --tool=callgrind --cache-sim=yes --log-fd=1 --callgrind-out-file=/dev/null \
         --toggle-collect=*{function}* {} {} {MESSAGES}",
        program.display(),
        model.name
    );
    let (loader, arguments) = in_root(root, &words(&line))?;
    let library = format!("VALGRIND_LIB={}", root.join("usr/libexec/valgrind").display());
    let arguments = [vec![library, loader.display().to_string()], arguments].concat();
    let text = HostProgram::start(Path::new("/usr/bin/env"), &arguments, None)?.finish_text()?;
    let counts = collected(&text).with_context(|| format!("callgrind said {text:?}"))?;
    ensure!(counts[0] > 0, "nothing was counted of {function}: is it part of another function?");
    let [instructions, loads, stores, lines] = counts.map(|count| count as f64 / f64::from(MESSAGES));
    Ok(Cost { what, instructions, loads, stores, lines })
}

/// Returns instructions, loads, stores and lines from the line `==1== Collected : 123 45 6 ...`.
/// The position of a number gives its meaning.
fn collected(text: &str) -> Option<[u64; 4]> {
    let (_, numbers) = text.lines().find_map(|line| line.split_once("Collected :"))?;
    let mut numbers: Vec<u64> = numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    // Zeros at the end of the line are omitted.
    numbers.resize(numbers.len().max(if numbers.is_empty() { 0 } else { 9 }), 0);
    // Ir Dr Dw I1mr D1mr D1mw: the data misses are the fifth and the sixth.
    let [instructions, loads, stores, _, read, written] = *numbers.first_chunk()?;
    Some([instructions, loads, stores, read + written])
}

/// Shows the costs together with the papers' numbers.
pub fn table(costs: &[Cost], paths: &Paths) -> Table {
    let paper = |(what, count): &(&str, &str)| [*what, *count, "", "", ""].map(str::to_owned);
    let note = "By callgrind, each path's function with all that it calls, the mean of 1,000 messages; the card is awake. \
        Stores are all stores, those to the stack among them. Cache lines are those of data that callgrind's first-level cache \
        had not. The paper's processors have no such count: theirs \
        are cycles or their own instructions.";
    let table = Table::new(
        "Instructions and cache lines of the fast paths",
        note,
        costs,
        &[
            ("", &|path| path.what.to_owned()),
            ("instructions", &|path| number(path.instructions)),
            ("loads", &|path| number(path.loads)),
            ("stores", &|path| number(path.stores)),
            ("cache lines", &|path| number(path.lines)),
        ],
    );
    table.with(paths.papers.iter().map(paper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_sum_is_read() {
        let text = "==9== Events    : Ir Dr Dw I1mr\n==9== Collected : 3100 900 42 7 5 6 0 0 1\n==9== \n";
        assert_eq!(collected(text), Some([3100, 900, 42, 11]));
        assert_eq!(collected("==9== Collected : 3100 900 42\n"), Some([3100, 900, 42, 0]));
        assert_eq!(collected("==9== Collected :\n"), None);
    }
}
