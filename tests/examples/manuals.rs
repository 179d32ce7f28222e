//! Writes the manual pages of `docs/man/` anew.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use hamlyn_cli::commands::Cli;
use hamlyn_tests::manuals;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(manuals::FOLDER);
    for command in hamlyn_tools::commands().into_iter().chain([Cli::command()]) {
        for (name, text) in manuals::pages(command)? {
            fs::write(folder.join(name), text)?;
        }
    }
    for (name, text) in manuals::reference(Path::new(env!("CARGO_MANIFEST_DIR")))? {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}
