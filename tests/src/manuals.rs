//! The manual pages, made from the programs' command lines.

use std::io;

use clap::Command;
use clap_mangen::Man;

/// Their folder, from `tests/`.
pub const FOLDER: &str = "../docs/man";

/// A page for the command and one for each of its subcommands that are not hidden: file names and texts.
///
/// # Errors
/// None in practice: a page is written to memory.
pub fn pages(command: Command) -> io::Result<Vec<(String, String)>> {
    let mut command = command.disable_help_subcommand(true);
    // Gives the subcommands their whole names, and each its --help.
    command.build();
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    std::iter::once(&command).chain(shown).map(page).collect()
}

fn page(command: &Command) -> io::Result<(String, String)> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut text = Vec::new();
    // No date: a page changes with what it says.
    Man::new(command.clone()).manual("Hamlyn").render(&mut text)?;
    Ok((format!("{name}.1"), String::from_utf8_lossy(&text).into_owned()))
}
