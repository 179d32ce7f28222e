//! How many instructions the library's fast paths take, by valgrind's callgrind, beside what the papers counted.

use std::path::Path;

use anyhow::Context;

use crate::exchange::words;
use crate::goals::number;
use crate::host::in_root;
use crate::report::Table;
use crate::site::HostProgram;

/// The functions of `one_process::walk_paths`, and what they are.
const PATHS: [(&str, &str); 5] = [
    ("path_write", "send: tagged remote write of 16 bytes"),
    ("path_get_tag", "receive: its tag"),
    ("path_send", "send: message of 64 bytes"),
    ("path_receive", "receive: its notification"),
    ("path_look", "look at an empty queue"),
];

/// What the papers say, to be seen beside it.
const PAPERS: [(&str, &str); 6] = [
    (
        "Hamlyn (section 3.3), tagged remote write: send",
        "260 cycles, 8 of them STORE instructions to the card",
    ),
    ("Hamlyn (section 5), tagged remote write: receive", "120 cycles"),
    ("Active Messages on the CM-5, as Hamlyn's section 5 has it: send of 64 bytes", "397 instructions"),
    ("SHRIMP (Table 1), single buffering: send + receive", "4 + 5 instructions"),
    ("SHRIMP (Table 1), deliberate update: send", "15 instructions"),
    ("SHRIMP (Table 1), csend + crecv", "73 + 78 instructions"),
];

/// What one run of a path takes.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    what: &'static str,
    instructions: f64,
    loads: f64,
    stores: f64,
}

/// Counts every path, with valgrind from the folder that it was fetched into.
pub fn measure(root: &Path) -> anyhow::Result<Vec<Cost>> {
    PATHS.iter().map(|(function, what)| count(root, function, what)).collect()
}

fn count(root: &Path, function: &str, what: &'static str) -> anyhow::Result<Cost> {
    const MESSAGES: u32 = 1000;
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program.with_file_name("hamlyn-bench-paths");
    let line = format!(
        "valgrind.bin --tool=callgrind --cache-sim=yes --log-fd=1 --callgrind-out-file=/dev/null \
         --toggle-collect=*{function}* {} {MESSAGES}",
        program.display()
    );
    let (loader, arguments) = in_root(root, &words(&line))?;
    let library = format!("VALGRIND_LIB={}", root.join("usr/libexec/valgrind").display());
    let arguments = [vec![library, loader.display().to_string()], arguments].concat();
    let text = HostProgram::start(Path::new("/usr/bin/env"), &arguments, None)?.finish_text()?;
    let [instructions, loads, stores] =
        collected(&text).with_context(|| format!("callgrind said {text:?}"))?;
    let each = |count: u64| count as f64 / f64::from(MESSAGES);
    Ok(Cost { what, instructions: each(instructions), loads: each(loads), stores: each(stores) })
}

/// Instructions, loads and stores, from the line `==1== Collected : 123 45 6 ...`.
fn collected(text: &str) -> Option<[u64; 3]> {
    let (_, numbers) = text.lines().find_map(|line| line.split_once("Collected :"))?;
    let mut numbers = numbers.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// The same beside the papers' numbers.
pub fn table(paths: &[Cost]) -> Table {
    let own = |path: &Cost| {
        vec![path.what.to_owned(), number(path.instructions), number(path.loads), number(path.stores)]
    };
    let paper = |(what, count): &(&str, &str)| {
        vec![(*what).to_owned(), (*count).to_owned(), String::new(), String::new()]
    };
    Table {
        title: "Instructions of the library's fast paths".to_owned(),
        note: "By callgrind, each path's function with all that it calls, the mean of 1,000 messages; the card is awake. \
            Stores are all stores, those to the stack among them. The paper's processors have no such count: theirs \
            are cycles or their own instructions."
            .to_owned(),
        head: ["", "instructions", "loads", "stores"].map(str::to_owned).to_vec(),
        rows: paths.iter().map(own).chain(PAPERS.iter().map(paper)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_sum_is_read() {
        let text = "==9== Events    : Ir Dr Dw I1mr\n==9== Collected : 3100 900 42 7\n==9== \n";
        assert_eq!(collected(text), Some([3100, 900, 42]));
        assert_eq!(collected("==9== Collected :\n"), None);
    }
}
