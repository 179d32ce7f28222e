//! Writes the contract's names, `contract.rs`: each constant with its value, and each structure
//! with its fields and their places. A card gets there by its folder in `device/abi` alone.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use hamlyn_headers::driver::{self, Entry, Field, Header};

fn main() -> Result<(), String> {
    let source = driver::source_folder();
    println!("cargo::rerun-if-changed={}", source.display());
    let headers = driver::read(&source)?;
    let mut text = String::from("static CONSTANTS: &[Constant] = &[\n");
    constants(&headers, &mut text);
    text.push_str("];\nstatic STRUCTURES: &[Structure] = &[\n");
    structures(&headers, &mut text)?;
    text.push_str("];\n");
    let folder = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    fs::write(Path::new(&folder).join("contract.rs"), text).map_err(|error| error.to_string())
}

fn entries(headers: &[Header]) -> impl Iterator<Item = &Entry> {
    // Calls are between driver and library: the card never sees one.
    let seen = headers.iter().filter(|header| !header.name.ends_with("_uapi.h"));
    seen.flat_map(|header| &header.parts).flat_map(|part| &part.items)
}

fn constants(headers: &[Header], text: &mut String) {
    let structures = entries(headers).filter_map(|entry| match entry {
        Entry::Structure { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let structures: Vec<&str> = structures.collect();
    for entry in entries(headers) {
        let Entry::Constant { name, value, docs } = entry else { continue };
        let Some(value) = number(value) else { continue };
        let (wide, body) = (docs.iter().any(|line| line.contains("8 bytes")), body(docs, &structures));
        let _ =
            writeln!(text, "Constant {{ name: {name:?}, value: {value}, wide: {wide}, body: {body:?} }},");
    }
}

/// Returns the value of a C literal that is not negative.
fn number(literal: &str) -> Option<u64> {
    let digits = literal.trim_end_matches("ULL");
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// Returns the structure that a command's comment names as its body, or as each part of its body.
fn body(docs: &[String], structures: &[&str]) -> Option<String> {
    let text = docs.join(" ");
    let (_, behind) = text.split_once("Body: ")?;
    let mut words = behind.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.find(|word| structures.contains(word)).map(str::to_owned)
}

/// A structure's size and alignment in bytes, as C lays it out.
type Layout = (usize, usize);

fn structures(headers: &[Header], text: &mut String) -> Result<(), String> {
    let mut known: Vec<(&str, Layout)> = Vec::new();
    let mut waiting: Vec<(&str, &[Field])> = entries(headers)
        .filter_map(|entry| match entry {
            Entry::Structure { name, fields, .. } => Some((name.as_str(), &fields[..])),
            _ => None,
        })
        .collect();
    // A structure may stand before one that it contains.
    while !waiting.is_empty() {
        let left = waiting.len();
        waiting.retain(|&(name, fields)| match structure(name, fields, &known) {
            Some((layout, written)) => {
                known.push((name, layout));
                text.push_str(&written);
                false
            }
            None => true,
        });
        if waiting.len() == left {
            return Err(format!("a field of struct {} has an unknown type", waiting[0].0));
        }
    }
    Ok(())
}

fn structure(name: &str, fields: &[Field], known: &[(&str, Layout)]) -> Option<(Layout, String)> {
    let (mut offset, mut align, mut members) = (0_usize, 1, String::new());
    for Field { name, declaration, .. } in fields {
        let (kind, variable) = declaration.rsplit_once(' ')?;
        let count = match variable.split_once('[') {
            Some((_, count)) => number(count.trim_end_matches(']'))? as usize,
            None => 1,
        };
        let (inner, (bytes, natural)) = match kind.strip_prefix("struct ") {
            Some(inner) => (Some(inner), known.iter().find(|(name, _)| *name == inner)?.1),
            None => {
                let bits: usize =
                    kind.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()?;
                (None, (bits / 8, bits / 8))
            }
        };
        offset = offset.next_multiple_of(natural);
        align = align.max(natural);
        let _ = write!(
            members,
            "Member {{ name: {name:?}, offset: {offset}, bytes: {bytes}, count: {count}, inner: {inner:?} }}, "
        );
        offset += bytes * count;
    }
    let size = offset.next_multiple_of(align);
    Some(((size, align), format!("Structure {{ name: {name:?}, size: {size}, members: &[{members}] }},\n")))
}
