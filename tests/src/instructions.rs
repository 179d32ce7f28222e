//! The number of instructions that the message-passing primitives of a SHRIMP card take, counted in
//! machines and compared with Table 1 of the paper. Also the table in `docs/shrimp.md`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::Lab;
use serde_json::Value;

/// A primitive of message passing.
pub struct Primitive {
    /// Its name in the examples.
    pub name: &'static str,
    /// Its name in the paper.
    pub title: &'static str,
    /// The instructions of its sender and its receiver in Table 1.
    pub paper: [u64; 2],
    /// Number of other nodes that `csend` and `crecv` know.
    nodes: u32,
}

/// The primitives of Table 1.
pub const TABLE_1: [Primitive; 7] = [
    primitive("single", "single buffering", [4, 5]),
    primitive("copy", "single buffering + copy", [4, 17]),
    primitive("double1", "double buffering (case 1)", [1, 1]),
    primitive("double2", "double buffering (case 2)", [3, 5]),
    primitive("double3", "double buffering (case 3)", [5, 5]),
    primitive("update", "deliberate-update transfer", [15, 0]),
    primitive("nx", "csend and crecv, 1 other node", [73, 78]),
];
const FOUR_NODES: Primitive =
    Primitive { nodes: 4, ..primitive("nx", "csend and crecv, 4 other nodes", [73, 78]) };

const fn primitive(name: &'static str, title: &'static str, paper: [u64; 2]) -> Primitive {
    Primitive { name, title, paper, nodes: 1 }
}

/// A language whose example has marks around the primitives.
#[derive(Debug, Clone, Copy)]
pub enum Language {
    /// Rust.
    Rust,
    /// C.
    C,
}

impl Language {
    fn command(self, side: &str, primitive: &Primitive) -> Vec<String> {
        let (counting, nodes, name) = (format!("count-{side}"), primitive.nodes.to_string(), primitive.name);
        let words = match self {
            Language::Rust => {
                vec!["c-count", "shrimp", "count", side, "--primitive", name, "--nodes", &nodes]
            }
            Language::C => vec!["c-count", "c-primitives", &counting, name, &nodes],
        };
        words.into_iter().map(str::to_owned).collect()
    }
}

/// Returns the sender's and the receiver's instructions, when neither has to wait.
pub fn count(lab: &Lab, language: Language, primitive: &Primitive) -> Result<[u64; 2]> {
    let mut receiver = lab.vm(0).run(language.command("receive", primitive))?;
    receiver.answer()?;
    let sent = lab.vm(1).run(language.command("send", primitive))?.finish()?;
    let received = receiver.finish()?;
    let counts = [&sent, &received].map(|said| said.last().map(instructions).unwrap_or_default());
    let what = || format!("{} in {language:?}: {sent:?}, {received:?}", primitive.name);
    ensure!(counts[0].is_some() && (counts[1].is_some() || primitive.paper[1] == 0), "{}", what());
    let [sender, receiver] = counts.map(Option::unwrap_or_default);
    Ok([sender, receiver])
}

/// Evaluates the output of `c-count` by the marks' numbers. 1 is a primitive. 2 is a primitive with
/// a store by the program itself. 3 is a check for completion, which Table 1 includes in a
/// deliberate update.
fn instructions(said: &Value) -> Option<u64> {
    let counted = |number: &str| said["instructions"][number].as_u64();
    let each = counted("1").or_else(|| counted("2").map(|both| both.saturating_sub(1)))?;
    Some(each + counted("3").unwrap_or(0))
}

/// Returns Table 1 together with the measured counts, as text.
pub fn table(lab: &Lab) -> Result<String> {
    let mut text = format!("{HEADING}\n|---|---|---|---|\n");
    for primitive in TABLE_1.iter().chain([&FOUR_NODES]) {
        let mut row = vec![primitive.paper];
        for language in [Language::Rust, Language::C] {
            row.push(count(lab, language, primitive).with_context(|| primitive.title)?);
        }
        let cells =
            row.into_iter().map(|[sender, receiver]| format!("{} ({sender}+{receiver})", sender + receiver));
        text += &format!("| {} | {} |\n", primitive.title, cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(text)
}

/// The heading of the table in the card's page.
const HEADING: &str = "| primitive | the paper | in Rust | in C |";

fn page() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "docs", "shrimp.md"].iter().collect()
}

/// Splits the card's page into the part before its table, the table, and the part after it.
fn split(text: &str) -> Result<[&str; 3]> {
    let begins = text.find(HEADING).context("the page has no table of instructions")?;
    let table = &text[begins..];
    let length: usize =
        table.split_inclusive('\n').take_while(|line| line.starts_with('|')).map(str::len).sum();
    Ok([&text[..begins], &table[..length], &table[length..]])
}

/// Returns the table of the card's page.
pub fn documented() -> Result<String> {
    let text = std::fs::read_to_string(page())?;
    Ok(split(&text)?[1].to_owned())
}

/// Replaces the table of the card's page.
pub fn document(table: &str) -> Result<()> {
    let text = std::fs::read_to_string(page())?;
    let [before, _, behind] = split(&text)?;
    Ok(std::fs::write(page(), [before, table, behind].concat())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_page_has_a_row_for_each_primitive() {
        let table = documented().unwrap();
        for primitive in TABLE_1.iter().chain([&FOUR_NODES]) {
            let [sender, receiver] = primitive.paper;
            let row = format!("| {} | {} ({sender}+{receiver}) |", primitive.title, sender + receiver);
            assert!(table.contains(&row), "{row}: {table}");
        }
        assert_eq!(split(&format!("a\n{HEADING}\n|b|\nc\n")).unwrap()[2], "c\n");
    }
}
