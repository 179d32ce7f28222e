//! Generates the headers, and builds and runs C programs with them and the library.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use hamlyn_headers::library;
use hamlyn_lab::{Kit, Lab};

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

pub(crate) fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-lib/c")
}

/// Returns a folder with the library's headers.
fn made() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("include");
        library::write(&folder).unwrap();
        folder
    })
}

/// Returns the text of all generated headers.
pub(crate) fn headers() -> String {
    let read = |header: &library::Header| fs::read_to_string(made().join(header.name)).unwrap();
    library::HEADERS.iter().map(read).collect()
}

/// Returns the library's archive.
pub(crate) fn archive() -> PathBuf {
    Kit::find().unwrap().program("libhamlyn_c.a").unwrap()
}

pub(crate) fn compile(compiler: &str, standard: &str, source: &Path, more: &[&Path]) -> Output {
    let mut command = Command::new(compiler);
    command.arg(standard).args(STRICT).arg("-I").arg(made());
    command.arg(source).args(more);
    command.output().unwrap()
}

/// Builds a C program with the library, and returns its path.
pub(crate) fn build(folder: &Path, program: &Path) -> PathBuf {
    let binary = folder.join("program");
    let output = compile("cc", "-std=c11", program, &[&archive(), Path::new("-o"), &binary]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    binary
}

/// Runs a C program of these statements, and returns the lines that it prints.
pub(crate) fn run(statements: &str) -> Vec<String> {
    run_with(statements, Path::new("/nowhere"))
}

/// The same, where this is the socket of the card that it opens.
pub(crate) fn run_with(statements: &str, card: &Path) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program.c");
    let start = "#include <hamlyn/channel.h>\n#include <shrimp.h>\n#include <clan_programs.h>\n#include <dart_programs.h>\n#include <express.h>\n#include <poll.h>\n#include <stdio.h>\n#include <string.h>\n";
    fs::write(&program, format!("{start}int main(void)\n{{\n{statements}\treturn 0;\n}}\n")).unwrap();
    let mut command = Command::new(build(folder.path(), &program));
    let output = command.env("HAMLYN_CARD", format!("vfio-user:{}", card.display())).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Makes calls of a card, one after the other, and compares what each gives: 0 is success. What
/// stands before a call's last line is done first.
#[track_caller]
pub(crate) fn expect(statements: &str, calls: &[(i32, &str)]) {
    let lab = Lab::builder().vms(0).spare_cards(1).one_process(true).start().unwrap();
    let mut statements = statements.to_owned();
    for (_, call) in calls {
        let (before, call) = call.rsplit_once('\n').unwrap_or(("", call));
        let _ = writeln!(statements, "\t{before}\n\tprintf(\"%d\\n\", (int)({call}));");
    }
    let said = run_with(&statements, lab.card_socket(0).unwrap());
    for ((due, call), said) in calls.iter().zip(&said) {
        assert_eq!(said, &due.to_string(), "{call}");
    }
    assert_eq!(said.len(), calls.len());
}

/// The names that stand before a `(` at a declaration's place.
pub(crate) fn functions() -> Vec<String> {
    let headers = headers();
    let starts = headers.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    let names =
        starts.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next().map(str::to_owned));
    names.collect()
}
