//! The program's side of fault sockets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use hamlyn_fabric::message::{connect, receive, send_with};
use hamlyn_faults::talk::{Answer, LONGEST, Request};

use crate::stat;

/// A process that has not answered within this time is stopped or overloaded.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the fault sockets of this user's cards.
pub fn processes() -> anyhow::Result<Vec<PathBuf>> {
    stat::sockets(stat::FAULTS)
}

/// Returns the fault sockets of the cards whose run directory this is, as a lab's is.
pub fn processes_of(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    stat::sockets_in(directory, stat::FAULTS).with_context(|| format!("cannot list {}", directory.display()))
}

/// Asks a process. Fails if it refuses.
pub fn ask(path: &Path, request: &Request) -> anyhow::Result<Answer> {
    let silent = || format!("no answer about faults from {} within {PATIENCE:?}", path.display());
    let text = serde_json::to_vec(request)?;
    if text.len() > LONGEST {
        bail!("the rules are too long: {} bytes (limit {LONGEST})", text.len());
    }
    let socket = connect(path, PATIENCE).with_context(silent)?;
    send_with(&socket, &text, &[]).with_context(silent)?;
    let (bytes, _) = receive(&socket, LONGEST).with_context(silent)?;
    let answer: Answer = serde_json::from_slice(&bytes)
        .with_context(|| format!("{} does not speak as a fault socket", path.display()))?;
    match &answer.refusal {
        Some(refusal) => bail!("{refusal}"),
        None => Ok(answer),
    }
}
