//! The headers are complete, and each stands alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use hamlyn_headers::library;

use crate::compiling::{compile, functions};

#[test]
fn headers_have_every_exported_function() {
    let mut exported = BTreeSet::new();
    for folder in ["", "shrimp", "clan", "clan/programs", "dart", "dart/programs", "channel"] {
        for file in fs::read_dir(library::source_folder().join(folder)).unwrap() {
            let file = file.unwrap().path();
            let text = if file.is_file() { library::source(&file).unwrap() } else { String::new() };
            let behind = text.split("extern \"C\" fn ").skip(1);
            let names = behind.filter_map(|text| text.split_once('(')).map(|(name, _)| name.trim());
            // Types of functions have no name.
            exported.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    assert_eq!(functions().into_iter().collect::<BTreeSet<_>>(), exported);
}

#[test]
fn each_header_compiles_alone_in_c_and_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("alone.o");
    let more = [Path::new("-c"), Path::new("-o"), &object];
    let compilers = [("cc", "-std=c99"), ("cc", "-std=c11"), ("c++", "-std=c++11")];
    let names = library::HEADERS.iter().map(|header| header.name).chain(library::BY_HAND);
    let all = names.flat_map(|name| compilers.map(|compiler| (name, compiler)));
    for (header, (compiler, standard)) in all {
        if compiler == "c++" && Command::new(compiler).arg("--version").output().is_err() {
            continue;
        }
        let program = folder.path().join(if compiler == "c++" { "alone.cpp" } else { "alone.c" });
        let include = format!("#include <{header}>\n");
        fs::write(&program, format!("{include}{include}int main(void) {{ return 0; }}\n")).unwrap();
        let output = compile(compiler, standard, &program, &more);
        assert!(output.status.success(), "{header}, {compiler}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
