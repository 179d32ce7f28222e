//! Checks that docs/programming.md shows the text of existing programs, and that they do what it
//! says.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hamlyn_headers::library;
use hamlyn_lab::{Kit, Lab};

fn read(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the blocks of code in one language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let starts = document.match_indices(&fence).map(|(at, _)| at + fence.len());
    starts.map(|start| document[start..].split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Returns a program without its leading comment.
fn program(path: &str) -> String {
    let text = read(path);
    let code = text.lines().skip_while(|line| line.starts_with("//!") || line.is_empty());
    code.map(|line| format!("{line}\n")).collect()
}

/// The complete server, which `server.rs` runs.
const SERVER: &str = "guest-lib/examples/kv-server";

/// Returns the document's chapters about channels, and those about Hamlyn cards.
fn halves(document: &str) -> (&str, &str) {
    document.split_once("\n## Below the channel\n").expect("a chapter below channels")
}

#[test]
fn channel_chapters_match_the_programs() {
    let document = read("docs/programming.md");
    let (channels, _) = halves(&document);
    let rust = blocks(channels, "rust");
    assert_eq!(rust.first(), Some(&program("guest-lib/examples/channel.rs")), "server and client");
    let files = ["session", "server", "on_channel"].map(|file| read(&format!("{SERVER}/{file}.rs")));
    assert!(rust.len() > files.len(), "the server's parts are shown");
    for block in &rust[1..] {
        assert!(files.iter().any(|file| file.contains(block)), "{block}");
    }
    assert_eq!(blocks(channels, "c"), [read("guest-lib/c/examples/c-channel.c")]);
}

#[test]
fn readme_shows_lines_of_the_channel_program() {
    let (readme, channel) = (read("README.md"), program("guest-lib/examples/channel.rs"));
    let lines: Vec<_> = channel.lines().map(str::trim).collect();
    let shown = blocks(&readme, "rust").concat();
    assert!(shown.contains("Listener::bind") && shown.contains("Channel::connect_any"), "both sides");
    for line in shown.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")) {
        assert!(lines.contains(&line), "{line}");
    }
}

#[test]
fn hamlyn_chapters_match_the_programs() {
    let document = read("docs/programming.md");
    let (hello, tour) =
        (program("guest-lib/examples/hello.rs"), program("guest-lib/examples/programming.rs"));
    let (_, document) = halves(&document);
    let rust = blocks(document, "rust");
    assert_eq!(rust.first(), Some(&hello), "the first program");
    for block in &rust[1..] {
        // From the start of a line to the end of one.
        assert!(tour.contains(&format!("\n{block}\n")) || tour.ends_with(&format!("\n{block}")), "{block}");
        let name = block.strip_prefix("fn ").and_then(|rest| rest.split('(').next()).unwrap_or_default();
        assert!(
            tour.contains(&format!("    {name}(&")) || tour.contains(&format!(" {name}(&")),
            "{name} runs"
        );
    }
    let functions = tour.matches("\nfn ").count() - 1;
    assert_eq!(rust.len() - 1, functions, "every function is shown, but for main");
    assert_eq!(blocks(document, "c"), [read("guest-lib/c/examples/c-hello.c")]);
}

fn example(name: &str) -> PathBuf {
    Kit::find().unwrap().program(&format!("examples/{name}")).unwrap()
}

fn at_card(lab: &Lab, card: usize, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("HAMLYN_CARD", format!("vfio-user:{}", lab.card_socket(card).unwrap().display()));
    command
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tour_runs_without_a_machine() {
    let lab = Lab::builder().vms(0).spare_cards(1).one_process(true).start().unwrap();
    let said = text(at_card(&lab, 0, &example("programming")).output().unwrap());
    assert!(said.ends_with("all examples have run\n"), "{said}");
}

/// Sends the greeting from one program to the other.
fn greet(lab: &Lab, receiver: &Path, sender: &Path) {
    let mut receiving = at_card(lab, 0, receiver).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(receiving.stdout.take().unwrap());
    let mut seed = String::new();
    output.read_line(&mut seed).unwrap();
    text(at_card(lab, 1, sender).arg(seed.trim()).output().unwrap());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "hello over there\n");
    assert!(receiving.wait().unwrap().success());
}

#[test]
fn first_program_exchanges_greetings_with_c_version() {
    let folder = tempfile::tempdir().unwrap();
    let (rust, c) = (example("hello"), folder.path().join("c-hello"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-lib/c");
    let archive = Kit::find().unwrap().program("libhamlyn_c.a").unwrap();
    let mut compiler = Command::new("cc");
    library::write(folder.path()).unwrap();
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(folder.path());
    compiler.arg(root.join("examples/c-hello.c")).arg(archive).arg("-o").arg(&c);
    text(compiler.output().unwrap());
    let lab = Lab::builder().vms(0).spare_cards(2).one_process(true).start().unwrap();
    for (receiver, sender) in [(&rust, &rust), (&rust, &c), (&c, &rust)] {
        greet(&lab, receiver, sender);
    }
}
