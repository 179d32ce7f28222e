//! Channels, and hosts without express memory.

use std::path::Path;
use std::process::Command;

use hamlyn_lab::Lab;

use crate::compiling::{build, expect};

#[test]
fn express_calls_fail_without_express_memory() {
    let statements = "\tstruct hamlyn_card *card;\n\tstruct hamlyn_express_info info;\n\
         \tstruct hamlyn_express_area *area;\n\tstruct hamlyn_express_view *view;\n";
    let calls = [
        (0, "hamlyn_open(NULL, &card)"),
        (-95, "hamlyn_express_get_info(card, 1, &info)"),
        (-95, "hamlyn_express_area_create(card, 1, 4096, &area)"),
        (-22, "hamlyn_express_area_create(card, 1, 100, &area)"),
        (-95, "hamlyn_express_view_map(card, 1, 2, 3, &view)"),
        (0, "(hamlyn_express_barrier(), 0)"),
    ];
    expect(statements, &calls);
}

/// Runs a C program of this folder with a card of its own, and returns the numbers that it prints.
fn numbers_of(program: &str) -> Vec<i32> {
    let lab = Lab::builder().vms(0).spare_cards(1).one_process(true).start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c_api").join(program);
    let mut command = Command::new(build(folder.path(), &program));
    let card = lab.card_socket(0).unwrap().display().to_string();
    let output = command.env("HAMLYN_CARD", format!("vfio-user:{card}")).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn one_header_serves_both_ends_of_a_channel() {
    let said = numbers_of("channel_ends.c");
    let due = [
        1, 0, 1, 0, 1, -11, -98, -22, -22, -22, -111, -111, 0, 0, 1, -11, -110, -22, -22, -22, -22, 0, 1, 1,
        0, 0, 0, -22, -22, 0, 0, 0, 0, 0, 0, 0, -22, 0, 1, 1, 1, 1, 0, 1, 0, 0, -22,
    ];
    assert_eq!(said, due);
}
