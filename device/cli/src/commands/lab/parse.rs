//! Reads a lab file, and finds all errors in it with their lines.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use super::file::Description;

/// Most errors that are reported.
const MOST: usize = 100;

/// An error in a lab file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wrong {
    /// Line, from 1.
    pub(super) line: usize,
    /// Key with the tables that hold it. Empty if the file is not TOML there.
    pub(super) key: String,
    /// What is wrong.
    pub(super) why: String,
}

impl Display for Wrong {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // Some messages of the parser have several lines.
        let why = self.why.split_whitespace().collect::<Vec<_>>().join(" ");
        match self.key.is_empty() {
            true => write!(f, "{}: {why}", self.line),
            false => write!(f, "{}: {}: {why}", self.line, self.key),
        }
    }
}

/// A lab file's text with the place of each key.
pub(super) struct Source<'i> {
    text: &'i str,
    table: Spanned<DeTable<'i>>,
}

/// A step on the way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// A value in the file.
struct Found {
    way: Vec<Step>,
    /// Places of its key, if it has one, and of itself.
    spans: Vec<Range<usize>>,
}

/// Parses a lab file. Returns its description and places, or all errors of its form.
pub(super) fn parse(text: &str) -> Result<(Description, Source<'_>), Vec<Wrong>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let source = Source { text, table };
    if !errors.is_empty() {
        let wrong = |error: toml::de::Error| {
            let line = source.line(error.span().map_or(0, |span| span.start));
            Wrong { line, key: String::new(), why: error.message().to_owned() }
        };
        return Err(errors.into_iter().map(wrong).take(MOST).collect());
    }
    let mut wrong = Vec::new();
    let mut rest = source.table.clone();
    let mut removed: Vec<Vec<Step>> = Vec::new();
    loop {
        let error = match Description::deserialize(Deserializer::from(rest.clone())) {
            Ok(description) if wrong.is_empty() => return Ok((description, source)),
            Ok(_) => break,
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        let way = way_to(&rest, &span);
        let why = error.message().to_owned();
        let missing = why.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        let is_removed = missing.is_some_and(|key| {
            let missing = [&way[..], &[Step::Key(key.to_owned())]].concat();
            removed.contains(&missing)
        });
        if !is_removed {
            let key = way.iter().filter_map(Step::key).collect::<Vec<_>>().join(".");
            wrong.push(Wrong { line: source.line(span.start), key, why });
        }
        // What is left may have further errors.
        if wrong.len() == MOST || !remove(&mut rest, &way) {
            break;
        }
        removed.push(way);
    }
    wrong.sort();
    Err(wrong)
}

impl Source<'_> {
    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }

    /// Returns the line of a value, or that of the nearest table that would hold it.
    pub(super) fn line_of(&self, way: &[Step]) -> usize {
        let all = found(&self.table);
        let near =
            (0..=way.len()).rev().find_map(|length| all.iter().find(|found| found.way == way[..length]));
        near.and_then(|found| found.spans.first()).map_or(1, |span| self.line(span.start))
    }
}

impl Step {
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Step::Key(key) => Some(key),
            Step::Index(_) => None,
        }
    }
}

/// Returns the way to the smallest value whose key or text holds these bytes. It ends at a key of a
/// table, or at a table of a list.
fn way_to(table: &Spanned<DeTable<'_>>, span: &Range<usize>) -> Vec<Step> {
    let holds = |other: &&Range<usize>| other.start <= span.start && span.end <= other.end;
    let all = found(table);
    let near = all.iter().filter_map(|found| {
        let smallest = found.spans.iter().filter(holds).map(Range::len).min()?;
        Some((smallest, found))
    });
    near.min_by_key(|(length, _)| *length).map(|(_, found)| found.way.clone()).unwrap_or_default()
}

/// Returns all keys of tables, and all tables of lists, below a table.
fn found(table: &Spanned<DeTable<'_>>) -> Vec<Found> {
    let mut all = Vec::new();
    walk(table.get_ref(), &[], &mut all);
    all
}

fn walk(table: &DeTable<'_>, way: &[Step], all: &mut Vec<Found>) {
    for (key, value) in table {
        let way = [way, &[Step::Key(key.get_ref().to_string())]].concat();
        match value.get_ref() {
            DeValue::Table(inner) => walk(inner, &way, all),
            DeValue::Array(list) => {
                for (index, item) in list.iter().enumerate() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        let way = [&way[..], &[Step::Index(index)]].concat();
                        walk(inner, &way, all);
                        all.push(Found { way, spans: vec![item.span()] });
                    }
                }
            }
            _ => {}
        }
        all.push(Found { way, spans: vec![key.span(), value.span()] });
    }
}

/// Removes a value. Returns false if it is not there.
fn remove(table: &mut Spanned<DeTable<'_>>, way: &[Step]) -> bool {
    let [Step::Key(first), way @ ..] = way else { return false };
    remove_from(table.get_mut(), first, way)
}

fn remove_from<'i>(table: &mut DeTable<'i>, key: &str, way: &[Step]) -> bool {
    match way {
        [] => {
            let Some(own) = table.keys().find(|own| own.get_ref() == key).cloned() else { return false };
            table.remove(&own).is_some()
        }
        [Step::Key(next), rest @ ..] => match entry(table, key) {
            Some(DeValue::Table(inner)) => remove_from(inner, next, rest),
            _ => false,
        },
        [Step::Index(index), rest @ ..] => {
            let Some(DeValue::Array(list)) = entry(table, key) else { return false };
            let [Step::Key(next), rest @ ..] = rest else {
                let kept =
                    list.iter().enumerate().filter(|(at, _)| at != index).map(|(_, item)| item.clone());
                let mut shorter = DeArray::new();
                kept.for_each(|item| shorter.push(item));
                let is_shorter = shorter.len() < list.len();
                *list = shorter;
                return is_shorter;
            };
            match list.get_mut(*index).map(Spanned::get_mut) {
                Some(DeValue::Table(inner)) => remove_from(inner, next, rest),
                _ => false,
            }
        }
    }
}

fn entry<'t, 'i>(table: &'t mut DeTable<'i>, key: &str) -> Option<&'t mut DeValue<'i>> {
    table.iter_mut().find(|(own, _)| own.get_ref() == key).map(|(_, value)| value.get_mut())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        parse(text).map(drop).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_errors_are_found_with_line_and_key() {
        let text = "name = \"Pair\"\n\
            [fabric]\npaths = 17\ndelay = 5\nmesh = \"2x0\"\n\
            [[machine]]\nmemory = \"64M\"\nmodel = \"fast\"\n\
            [[machine]]\nmemory = 512\nfiles = [{ source = \"a\", destination = \"/a\", mode = \"9\" }]\n\
            [[run]]\nmachine = \"vm0\"\n\
            [[run]]\nmachine = \"vm0\"\ncommand = []\ntimeout = 0\n";
        let errors = errors(text);
        let lines = [
            "1: name: \"Pair\" is not a name",
            "3: fabric.paths: 17 is out of range (limits 1 and 16)",
            "4: fabric.delay: unknown field `delay`, expected one of `layout`",
            "5: fabric.mesh: \"2x0\" is not a mesh",
            "7: machine.memory: 64 MiB is out of range (limits 128 and",
            "8: machine.model: model fast does not exist; the models are: hamlyn",
            "10: machine.memory: invalid type: integer `512`, expected a string",
            "11: machine.files.mode: \"9\" is not a mode",
            "12: run: missing field `command`",
            "16: run.command: the command is empty",
            "17: run.timeout: 0 is out of range (limits 1 and 86400)",
        ];
        assert_eq!(errors.len(), lines.len(), "{errors:#?}");
        for (error, line) in errors.iter().zip(lines) {
            assert!(error.starts_with(line), "{error}\n{line}");
        }
    }

    #[test]
    fn text_that_is_not_toml_is_refused() {
        let errors = errors("name = \"a\"\nip = 10.7.0\n[fabric\n");
        assert!(errors.len() > 1 && errors.iter().all(|error| error.starts_with(['2', '3'])), "{errors:?}");
        assert!(super::parse("a = 1\na = 2\n").is_err());
        assert!(super::parse("\u{0}").is_err());
    }
}
