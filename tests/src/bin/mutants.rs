//! `./scripts/mutants`: checks that a test detects each deliberate break of the code.

use std::env;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hamlyn_tests::mutants::{Interrupted, Machines, Mechanical, Mutant, Suites, Tree, Verdict, load};

#[derive(Debug, Parser)]
struct Args {
    /// List the breaks, and do not make them
    #[arg(long)]
    list: bool,
    /// Only breaks with this text in their names or in their files' paths
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only the first of every N breaks: a quick check
    #[arg(long, value_name = "N", default_value = "1")]
    every: NonZeroUsize,
    /// The breaks of the driver that only tests with machines detect, instead of the others
    #[arg(long)]
    driver: bool,
    /// The breaks that cargo-mutants makes, instead of those of the lists
    #[arg(long, conflicts_with_all = ["list", "only", "every", "driver"])]
    mechanical: bool,
    #[command(flatten)]
    which: Mechanical,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the tests' folder")?;
    if args.mechanical {
        let (tree, folder) = copy(repository)?;
        let status = args.which.run(&tree, repository, &folder)?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
    }
    let mut mutants = load(repository)?;
    mutants.retain(|mutant| mutant.test.is_some() == args.driver);
    if let Some(wanted) = &args.only {
        mutants
            .retain(|mutant| [&mutant.name, &mutant.file].iter().any(|text| text.contains(wanted.as_str())));
        ensure!(!mutants.is_empty(), "no break has '{wanted}' in its name or its file's path: see --list");
    }
    mutants = mutants.into_iter().step_by(args.every.get()).collect();
    if args.list {
        print_list(&mutants)?;
        return Ok(ExitCode::SUCCESS);
    }
    let caught = check(repository, &mutants)?;
    say(&format!("caught {caught} of {}\n", mutants.len()))?;
    Ok(if caught == mutants.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_list(mutants: &[Mutant]) -> io::Result<()> {
    for Mutant { name, file, old, new, .. } in mutants {
        match writeln!(io::stdout(), "{name}\n    {file}\n    - {old}\n    + {new}") {
            // The reader has closed the pipe, for example `head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written?,
        }
    }
    Ok(())
}

/// Copies the repository to a folder of the cache. Returns the copy and that folder.
fn copy(repository: &Path) -> Result<(Tree, PathBuf)> {
    let cache = env::var_os("HAMLYN_CACHE").map_or(repository.join(".hamlyn"), PathBuf::from);
    let target = env::var_os("CARGO_TARGET_DIR").map_or(repository.join("target"), PathBuf::from);
    let folder = cache.join("mutants");
    Ok((Tree::copy(repository, &folder, target)?, folder))
}

/// Makes a break, and runs its tests.
type Judge<'a> = Box<dyn FnMut(&Mutant) -> Result<Verdict> + 'a>;

/// Makes the breaks one by one. Returns how many were caught.
fn check(repository: &Path, mutants: &[Mutant]) -> Result<usize> {
    let (tree, folder) = copy(repository)?;
    for mutant in mutants {
        mutant.texts(&tree.root)?;
    }
    let interrupted = Interrupted::watch()?;
    say("tests are built and run with nothing broken before the first break that they are to notice\n")?;
    let mut judge: Judge<'_> = if mutants.iter().any(|mutant| mutant.test.is_some()) {
        let machines = Machines::new(&tree, repository, &folder.join("driver"), interrupted, mutants)?;
        Box::new(move |mutant| machines.judge(mutant))
    } else {
        let mut suites = Suites::new(&tree, interrupted)?;
        Box::new(move |mutant| suites.judge(mutant))
    };
    let mut caught = 0;
    for (number, mutant) in (1..).zip(mutants) {
        let start = Instant::now();
        say(&format!("{number}/{} {}: ", mutants.len(), mutant.name))?;
        let verdict = match judge(mutant)? {
            Verdict::Caught(by) => {
                caught += 1;
                format!("caught by {by}")
            }
            Verdict::Missed => "NOT CAUGHT".to_owned(),
            Verdict::Unbuildable(reason) => format!("NOT A BREAK, the compiler refuses it: {reason}"),
        };
        say(&format!("{verdict}, {:.1} s\n", start.elapsed().as_secs_f32()))?;
    }
    Ok(caught)
}

/// Prints text and flushes it, so that the start of a line shows the current break. Fails if
/// standard output is closed.
fn say(text: &str) -> io::Result<()> {
    let mut output = io::stdout();
    output.write_all(text.as_bytes())?;
    output.flush()
}
