//! Recordings of cards in real machines: each card still does the same.
//!
//! `tests/replays/README.md` says how one is added.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use hamlyn_host::catalogue::MODELS;
use hamlyn_lab::hamlyn;

fn replay(words: &[&str]) -> Result<Output> {
    Ok(Command::new(hamlyn()?).arg("replay").args(words).output()?)
}

fn recordings() -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("replays");
    let files = folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rec")).collect())
}

#[test]
fn each_card_does_what_was_recorded() -> Result<()> {
    let files = recordings()?;
    for model in MODELS {
        let of_model = |file: &&PathBuf| {
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(model.name))
        };
        let file = files.iter().find(of_model).with_context(|| format!("no recording of {}", model.name))?;
        ensure!(file.metadata()?.len() < 200_000, "{} is longer than it must be", file.display());
    }
    for file in &files {
        let output = replay(&[&file.to_string_lossy()])?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {text}", file.display());
        ensure!(text.contains("each call did what the recording has"), "{text}");
    }
    Ok(())
}

#[test]
fn other_card_does_something_else() -> Result<()> {
    let file = recordings()?.into_iter().find(|file| file.to_string_lossy().contains("clan"));
    let file = file.context("no recording of clan")?;
    let folder = tempfile::tempdir()?;
    let short = folder.path().join("short.rec").display().to_string();
    let cut = replay(&[&file.to_string_lossy(), "--until", "50", "-o", &short])?;
    ensure!(cut.status.success(), "{cut:?}");
    let same = replay(&[&file.to_string_lossy(), "--diff", &short])?;
    let text = String::from_utf8_lossy(&same.stdout);
    ensure!(!same.status.success() && text.contains("\n-write ULN_REG_"), "{text}");
    let none = replay(&["Cargo.toml"])?;
    let error = String::from_utf8_lossy(&none.stderr);
    ensure!(!none.status.success() && error.contains("Cargo.toml: is not a recording"), "{error}");
    Ok(())
}
