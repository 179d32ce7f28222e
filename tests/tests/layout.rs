//! The C headers match the Rust contract: they are up to date, and a C compiler gives them the
//! same layout.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use hamlyn_headers::driver::{self as headers, Header};

/// Returns C expressions and their values in Rust.
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
fn headers_are_up_to_date() {
    for header in headers::read(&source()).unwrap() {
        let checked_in = fs::read_to_string(driver().join(&header.name)).unwrap_or_default();
        assert!(
            checked_in == header.text(),
            "guest-driver/include/{} is out of date: cargo run -p hamlyn-headers",
            header.name
        );
    }
}

fn source() -> PathBuf {
    headers::source_folder()
}

/// Returns each expression's value in C, with all of these headers from a folder.
fn measured_by_c<'a>(
    include: &Path,
    headers: &[Header],
    expressions: impl Iterator<Item = &'a str>,
) -> Vec<u64> {
    let mut program = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    for header in headers {
        let _ = writeln!(program, "#include \"{}\"", header.name);
    }
    program.push_str("int main(void)\n{\n");
    for expression in expressions {
        let _ = writeln!(program, "\tprintf(\"%llu\\n\", (unsigned long long)({expression}));");
    }
    program.push_str("\treturn 0;\n}\n");

    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    fs::write(&source, program).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .args([include, &source])
        .arg("-o")
        .arg(&binary)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&binary).output().unwrap();
    String::from_utf8(run.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn c_and_rust_agree_on_layout_and_constants() {
    let rust = measured_by_rust();
    let headers = headers::read(&source()).unwrap();
    let c = measured_by_c(&driver(), &headers, rust.iter().map(|(expression, _)| *expression));
    assert_eq!(c.len(), rust.len());
    for ((expression, value), measured) in rust.into_iter().zip(c) {
        assert_eq!(measured, value, "{expression}: C says {measured}, Rust says {value}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(path, to).unwrap();
        }
    }
}

/// A new card needs only its folder in the contract.
#[test]
fn new_card_folder_gets_headers() {
    let folder = tempfile::tempdir().unwrap();
    copy(&source(), folder.path());
    let kite = folder.path().join("kite");
    fs::create_dir(&kite).unwrap();
    let lib = fs::read_to_string(folder.path().join("lib.rs")).unwrap();
    fs::write(folder.path().join("lib.rs"), lib + "pub mod kite;\n").unwrap();
    fs::write(kite.join("mod.rs"), "pub mod identity;\npub mod uapi;\n").unwrap();
    fs::write(kite.join("identity.rs"), "/// Its model.\npub const KITE_MODEL: u32 = 3;\n").unwrap();
    let uapi = "/// Flies.\npub const KITE_IOC_FLY: u32 = card_call::<KiteFly>(KITE_MODEL, 1);\n\
        /// How.\n#[repr(C)]\npub struct KiteFly {\n/// In: metres.\npub height: u64,\n\
        /// Zero.\npub reserved: u64,\n}\n";
    fs::write(kite.join("uapi.rs"), uapi).unwrap();

    let headers = headers::read(folder.path()).unwrap();
    let names: Vec<&str> = headers.iter().map(|header| header.name.as_str()).collect();
    let before = headers::read(&source()).unwrap();
    let all: Vec<&str> = before.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(names, [&all[..], &["kite_card.h", "kite_uapi.h"]].concat());
    for header in &headers {
        fs::write(folder.path().join(&header.name), header.text()).unwrap();
    }
    // Its users include one of them.
    let own = headers.into_iter().filter(|header| header.name == "kite_uapi.h").collect::<Vec<_>>();
    let measured =
        measured_by_c(folder.path(), &own, ["KITE_IOC_FLY", "sizeof(struct kite_fly)"].into_iter());
    // Model 3's calls are 80 to 95, as `hamlyn_abi::uapi::card_call` has it.
    let rust = hamlyn_abi::uapi::card_call::<[u64; 2]>(3, 1);
    assert_eq!(measured, [u64::from(rust), 16]);
}

/// sparse can find a missing conversion only if the headers declare what is little-endian.
#[test]
fn only_calls_have_native_byte_order() {
    for header in headers::read(&source()).unwrap() {
        let text = header.text();
        let foreign = if header.name.ends_with("_uapi.h") { "\t__le" } else { "\t__u" };
        let found = text.lines().filter(|line| line.starts_with(foreign) && !line.starts_with("\t__u8 "));
        assert_eq!(found.collect::<Vec<_>>(), Vec::<&str>::new(), "{}", header.name);
    }
}

/// Returns the driver's own headers that one of its files includes.
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

/// `core` includes no card's header, and `kernel` hardly more than the kernel's own.
#[test]
fn driver_folders_include_only_allowed_headers() {
    let here = |room| -> Vec<String> {
        let names =
            files_of(room).into_iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        names.collect()
    };
    let outside = [
        "uln_connect.h",
        "uln_express.h",
        "uln_shares.h",
        "uln_system.h",
        "uln_trace.h",
        "uln_transport.h",
        "uln_wire.h",
        "uln.h",
        "uln_uapi.h",
    ];
    let outside = outside.map(ToOwned::to_owned);
    let core = [here("core"), outside.to_vec()].concat();
    for file in files_of("core") {
        // The list of all cards names their ids.
        let lists = file.ends_with("uln_cards.h");
        let may = |name: &String| core.contains(name) || lists && name.ends_with("_card.h");
        assert!(included(&file).iter().all(may), "{}", file.display());
    }
    let outside = ["uln_share.h", "uln_trace.h", "uln_uapi.h"].map(ToOwned::to_owned);
    for file in files_of("kernel") {
        let extra = match file.file_name().unwrap().to_str().unwrap() {
            "uln_wire.h" => "uln_kernel.h",
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
    assert!(naming.len() == 1 && naming[0].ends_with("uln_cards.h"), "{naming:?}");
}

/// Returns the constants of the contract whose names have this part, with their values.
fn constants(end: &str) -> Vec<(String, String)> {
    let folders = fs::read_dir(source()).unwrap().map(|entry| entry.unwrap().path().join("identity.rs"));
    let texts = folders.filter_map(|path| fs::read_to_string(path).ok());
    let lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let constant = |line: &String| {
        let (name, value) = line.strip_prefix("pub const ")?.strip_suffix(';')?.split_once(": ")?;
        let value = value.split_once(" = ")?.1.replace('_', "");
        name.contains(end).then(|| (name.to_owned(), value))
    };
    lines.iter().filter_map(constant).collect()
}

#[test]
fn model_numbers_and_device_ids_are_unique() {
    for (end, least) in [("_MODEL", 3), ("_PCI_D", 4)] {
        let named: Vec<_> =
            constants(end).into_iter().filter(|(name, _)| !name.starts_with("ULN_REG")).collect();
        let names: Vec<_> =
            named.iter().map(|(name, _)| name.as_str()).filter(|name| !name.ends_with("CLASS")).collect();
        let values: std::collections::BTreeSet<_> =
            named.iter().filter(|(name, _)| !name.ends_with("CLASS")).map(|(_, value)| value).collect();
        assert!(names.len() >= least, "{names:?}");
        assert_eq!(names.len(), values.len(), "two of these are alike: {named:?}");
    }
}

#[test]
fn driver_list_has_each_card() {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-driver");
    let list = fs::read_to_string(driver.join("core/uln_cards.h")).unwrap();
    let folders = fs::read_dir(&driver).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<String> =
        folders.filter_map(|folder| fs::read_to_string(folder.join("ops.c")).ok()).collect();
    assert!(tables.len() >= 2, "{} were read", tables.len());
    for text in tables {
        let named =
            text.lines().find_map(|line| line.strip_prefix("const struct card_ops ")?.strip_suffix(" = {"));
        let named = named.expect("a folder's table of operations");
        assert!(list.contains(named), "guest-driver/core/uln_cards.h has no line for {named}");
    }
}

#[test]
fn makefile_lists_every_source_of_the_module() {
    let folder = driver().join("..");
    let makefile = fs::read_to_string(folder.join("Makefile")).unwrap();
    let listed: Vec<&str> = makefile.split_whitespace().filter(|word| word.ends_with(".o")).collect();
    let rooms = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    // The folder host is compiled into programs alone.
    let rooms = rooms.filter(|room| room.is_dir() && !room.ends_with("host"));
    let mut sources = 0;
    for room in rooms.map(|room| room.file_name().unwrap().to_str().unwrap().to_owned()) {
        for source in files_of(&room).iter().filter(|file| file.extension().is_some_and(|end| end == "c")) {
            let object = format!("{room}/{}.o", source.file_stem().unwrap().to_str().unwrap());
            assert!(listed.contains(&object.as_str()), "the Makefile does not list {object}");
            sources += 1;
        }
    }
    assert!(sources > 50, "{sources} sources were read");
}

#[test]
fn module_refuses_kernels_before_6_12() {
    let folder = driver().join("..");
    for (version, patchlevel, refused) in
        [(5, 15, true), (6, 1, true), (6, 11, true), (6, 12, false), (7, 0, false)]
    {
        let mut make = Command::new("make");
        make.args(["--dry-run", "--file=Makefile", "src=."]).arg("-C").arg(&folder);
        make.arg(format!("KERNELRELEASE={version}.{patchlevel}.0-any"));
        make.args([format!("VERSION={version}"), format!("PATCHLEVEL={patchlevel}")]);
        let errors = String::from_utf8(make.output().unwrap().stderr).unwrap();
        let told = errors.contains(&format!("Linux {version}.{patchlevel}.0-any is too old"));
        assert_eq!(told, refused, "Linux {version}.{patchlevel}: {errors}");
    }
}
