//! Checks that each deliberate break applies to the current sources. (`./scripts/mutants` makes
//! them.)

use std::path::Path;

use hamlyn_tests::mutants::parse;

#[test]
fn each_break_applies_to_its_line() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mutants = parse(&std::fs::read_to_string(tests.join("mutants.txt")).unwrap()).unwrap();
    let lost = mutants.iter().filter_map(|mutant| mutant.texts(&tests.join("..")).err());
    let lost: Vec<_> = lost.map(|error| error.to_string()).collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    assert!(mutants.len() >= 20, "only {} breaks", mutants.len());
}
