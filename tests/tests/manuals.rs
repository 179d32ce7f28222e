//! The manual pages say what the programs' `--help` says: they are made from the same command lines.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use hamlyn_cli::commands::Cli;
use hamlyn_tests::manuals;

fn commands() -> impl Iterator<Item = Command> {
    hamlyn_tools::commands().into_iter().chain([Cli::command()])
}

#[test]
fn the_checked_in_pages_are_what_the_command_lines_give() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(manuals::FOLDER);
    let mut names = BTreeSet::new();
    for (name, text) in commands().flat_map(|command| manuals::pages(command).unwrap()) {
        let checked_in = fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(
            checked_in == text,
            "docs/man/{name} is out of date: cargo run -p hamlyn-tests --example manuals"
        );
        names.insert(name);
    }
    let found = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<BTreeSet<_>>(), names, "pages of commands that are gone");
}

#[test]
fn every_option_of_a_tool_is_in_its_page() {
    for command in hamlyn_tools::commands() {
        let page = manuals::pages(command.clone()).unwrap().remove(0).1.replace('\\', "");
        for long in command.get_arguments().filter_map(|argument| argument.get_long()) {
            assert!(page.contains(&format!("--{long}")), "{}: --{long}", command.get_name());
        }
    }
}
