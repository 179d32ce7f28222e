//! Writes `layout.rs` for `tests/layout.rs`: what Rust says of every structure, field and constant
//! of the contract. The list comes from the sources, so that nothing new can be left out.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use hamlyn_headers::driver::{self, Entry};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let source = driver::source_folder();
    println!("cargo::rerun-if-changed={}", source.display());
    let mut rust = String::from("[\n");
    for header in driver::read(&source)? {
        for part in &header.parts {
            for item in &part.items {
                rust.push_str(&describe(&part.module, item)?);
            }
        }
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("layout.rs"), rust + "]\n")?;
    Ok(())
}

/// A line `(C expression, Rust value)` for everything that can be measured of an item.
fn describe(module: &str, item: &Entry) -> Result<String, std::fmt::Error> {
    let mut lines = String::new();
    match item {
        Entry::Constant { name, .. } => writeln!(lines, "({name:?}, hamlyn_abi::{module}::{name} as u64),")?,
        Entry::CardCall => {}
        Entry::Structure { rust_name, name, fields, .. } => {
            let path = format!("hamlyn_abi::{module}::{rust_name}");
            writeln!(lines, "(\"sizeof(struct {name})\", size_of::<{path}>() as u64),")?;
            for field in fields {
                let c = format!("offsetof(struct {name}, {})", field.name);
                writeln!(lines, "({c:?}, offset_of!({path}, {}) as u64),", field.name)?;
                let c = format!("sizeof(((struct {name} *)0)->{})", field.name);
                writeln!(lines, "({c:?}, size_of_field(|whole: {path}| whole.{}) as u64),", field.name)?;
            }
        }
    }
    Ok(lines)
}
