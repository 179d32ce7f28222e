//! Symbols of the C code that are visible to programs.

use std::process::Command;

#[test]
fn all_c_symbols_have_our_prefix() {
    let archive = concat!(env!("OUT_DIR"), "/libhamlyn_driver_host.a");
    let listed =
        Command::new("nm").args(["--defined-only", "--extern-only", "--format=posix", archive]).output();
    let listed = String::from_utf8(listed.expect("binutils are where a C compiler is").stdout).unwrap();
    // Each line has a name, its kind, and its address. A line with the file's name precedes each
    // file.
    let names: Vec<&str> = listed
        .lines()
        .filter(|line| !line.ends_with(':'))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.contains(&"hamlyn_driver_connection_close"), "{names:?}");
    let strange: Vec<_> = names.iter().filter(|name| !name.starts_with("hamlyn_driver_")).collect();
    assert!(strange.is_empty(), "to be renamed in shim/names.h: {strange:?}");
}
