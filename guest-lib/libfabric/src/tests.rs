//! The interface's structures and numbers are those of libfabric's headers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::abi::{NUMBERS, STRUCTURES};

/// Structures of which libfabric passes more than this crate knows, and one whose functions are not
/// named here.
const PARTS: [&str; 4] = ["fi_ops_av", "fi_mr_attr", "fi_cq_err_entry", "fi_ops_collective"];

/// The name in C: `fi_tx_attr` for `TxAttr`, `fid_cq` for `FidCq`.
fn c_name(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    if words.starts_with("_fid") { words[1..].to_owned() } else { format!("fi{words}") }
}

/// The folder with the package's headers: of the private root, or of the machine.
fn headers() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cache = env::var_os("HAMLYN_CACHE").map_or_else(|| repository.join(".hamlyn"), PathBuf::from);
    let known = [cache.join("root/usr/include/rdma"), PathBuf::from("/usr/include/rdma")];
    let found = known
        .into_iter()
        .find(|folder| folder.join("fi_prov.h").exists() || folder.join("providers").exists());
    found.expect("libfabric-dev's headers: run ./scripts/prepare")
}

#[test]
fn structures_are_those_of_libfabrics_headers() {
    let mut program = String::from("#include <stddef.h>\n");
    let headers_of_interface = [
        "fabric",
        "fi_domain",
        "fi_endpoint",
        "fi_eq",
        "fi_cm",
        "fi_rma",
        "fi_tagged",
        "fi_atomic",
        "fi_collective",
    ];
    for header in headers_of_interface {
        let _ = writeln!(program, "#include <rdma/{header}.h>");
    }
    program.push_str("#include <rdma/providers/fi_prov.h>\n");
    for (name, size, fields) in STRUCTURES {
        let name = c_name(name);
        if !PARTS.contains(&name.as_str()) {
            let _ =
                writeln!(program, "_Static_assert(sizeof(struct {name}) == {size}, \"length of {name}\");");
        }
        for (field, offset) in fields.iter().filter(|(field, _)| *field != "functions") {
            let field = field.trim_start_matches("r#");
            let _ = writeln!(
                program,
                "_Static_assert(offsetof(struct {name}, {field}) == {offset}, \"{name}.{field}\");"
            );
        }
    }
    for (name, value) in NUMBERS {
        let _ = writeln!(program, "_Static_assert({name} == (__typeof__({name})){value}, \"{name}\");");
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(headers(), folder.path().join("rdma")).expect("a link");
    let source = folder.path().join("layout.c");
    fs::write(&source, program).expect("a file");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-fsyntax-only", "-w", "-I"]).arg(folder.path()).arg(&source);
    let compiled = compiler.output().expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}
