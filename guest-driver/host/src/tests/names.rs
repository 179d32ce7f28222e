//! What programs that link this see of the C.

use std::process::Command;

#[test]
fn no_name_of_the_c_can_meet_one_of_a_programs() {
    let archive = concat!(env!("OUT_DIR"), "/libhamlyn_driver_host.a");
    let listed =
        Command::new("nm").args(["--defined-only", "--extern-only", "--format=posix", archive]).output();
    let listed = String::from_utf8(listed.expect("binutils are where a C compiler is").stdout).unwrap();
    // A name, its kind, and where it is; before each file's stands a line with the file's name.
    let names: Vec<&str> = listed
        .lines()
        .filter(|line| !line.ends_with(':'))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.contains(&"hamlyn_driver_connection_close"), "{names:?}");
    let strange: Vec<_> = names.iter().filter(|name| !name.starts_with("hamlyn_driver_")).collect();
    assert!(strange.is_empty(), "to be renamed in shim/names.h: {strange:?}");
}
