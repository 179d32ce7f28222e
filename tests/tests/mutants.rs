//! Checks that each deliberate break applies to the current sources. (`./scripts/mutants` makes
//! them.)

use std::path::Path;

use hamlyn_tests::mutants::load;

#[test]
fn each_break_applies_to_its_line() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mutants = load(&root).unwrap();
    let lost = mutants.iter().filter_map(|mutant| mutant.texts(&root).err());
    let lost: Vec<_> = lost.map(|error| error.to_string()).collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    assert!(mutants.len() >= 200, "only {} breaks", mutants.len());
}
