//! The C headers say what the Rust contract says: they are up to date, and a C compiler lays them out alike.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use hamlyn_tests::headers;

/// What Rust measures: a C expression and its value.
#[allow(clippy::unnecessary_cast)]
fn measured_by_rust() -> Vec<(&'static str, u64)> {
    Vec::from(include!(concat!(env!("OUT_DIR"), "/layout.rs")))
}

fn size_of_field<Whole, Field>(_field: fn(Whole) -> Field) -> usize {
    size_of::<Field>()
}

fn driver() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-driver/include")
}

#[test]
fn the_headers_are_up_to_date() {
    let source = headers::source_folder(Path::new(env!("CARGO_MANIFEST_DIR")));
    for header in headers::read(&source).unwrap() {
        let checked_in = fs::read_to_string(driver().join(header.name)).unwrap_or_default();
        assert!(
            checked_in == header.text(),
            "guest-driver/include/{} is out of date: cargo run -p hamlyn-tests --bin headers",
            header.name
        );
    }
}

/// Prints what the C compiler makes of each expression, one a line.
fn measured_by_c(expressions: &[(&str, u64)]) -> Vec<u64> {
    let mut program = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    program.push_str("#include \"hamlyn_card.h\"\n#include \"hamlyn_uapi.h\"\nint main(void)\n{\n");
    for (expression, _) in expressions {
        let _ = writeln!(program, "\tprintf(\"%llu\\n\", (unsigned long long)({expression}));");
    }
    program.push_str("\treturn 0;\n}\n");

    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    fs::write(&source, program).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .args([&driver(), &source])
        .arg("-o")
        .arg(&binary)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&binary).output().unwrap();
    String::from_utf8(run.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn c_and_rust_agree_on_every_size_offset_and_constant() {
    let rust = measured_by_rust();
    let c = measured_by_c(&rust);
    assert_eq!(c.len(), rust.len());
    for ((expression, value), measured) in rust.into_iter().zip(c) {
        assert_eq!(measured, value, "{expression}: C says {measured}, Rust says {value}");
    }
}

/// The headers of the driver's own that a file of it includes.
fn included(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
    names.map(ToOwned::to_owned).collect()
}

fn files_of(room: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-driver").join(room);
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "c" || ending == "h")).collect()
}

/// What every card needs knows no card; and what operating systems say to each other needs hardly more than the kernel.
#[test]
fn the_drivers_rooms_include_only_what_they_may() {
    let here = |room| -> Vec<String> {
        let names =
            files_of(room).into_iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        names.collect()
    };
    let generated = ["hamlyn_card.h".to_owned(), "hamlyn_uapi.h".to_owned()];
    let core = [here("core"), vec!["system.h".into()], generated.to_vec()].concat();
    for file in files_of("core") {
        assert!(included(&file).iter().all(|name| core.contains(name)), "{}", file.display());
    }
    let outside = ["share.h", "hamlyn_trace.h", "hamlyn_uapi.h"].map(ToOwned::to_owned);
    for file in files_of("kernel") {
        let extra = match file.file_name().unwrap().to_str().unwrap() {
            "connectfile.c" => "core.h",
            "wire.h" => "hamlyn_card.h",
            _ => "",
        };
        let strange =
            |name: &String| !here("kernel").contains(name) && !outside.contains(name) && name != extra;
        assert!(!included(&file).iter().any(strange), "{}", file.display());
    }
    // A room for each card is named in one line.
    let naming: Vec<PathBuf> = files_of("core")
        .into_iter()
        .filter(|file| fs::read_to_string(file).unwrap().contains("hamlyn_card_ops"))
        .collect();
    assert!(naming.len() == 1 && naming[0].ends_with("cards.h"), "{naming:?}");
}
