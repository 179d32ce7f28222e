//! Lanes: the rings on which channels of the kernel run. `guest-driver/core/lane.c` is compiled
//! unchanged into a program that runs seeds: hosts that obey the rules, with cards that delay,
//! reorder and refuse what they send, and a host that does what it likes.
//!
//! `PROPTEST_CASES` is the number of seeds, and `PROPTEST_RNG_SEED` the first one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const FILES: [&str; 6] = ["program.c", "kernel.c", "threads.c", "carrier.c", "honest.c", "hostile.c"];

/// Compiles the program once, and returns its path.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lanes");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (tests, driver) = (here.join("tests/lanes"), here.join(".."));
        let mut command = Command::new("cc");
        command.args([
            "-std=gnu11",
            "-O2",
            "-Wall",
            "-Werror",
            "-U_FORTIFY_SOURCE",
            "-fsanitize=bounds",
            "-fsanitize-undefined-trap-on-error",
        ]);
        command.arg("-D_ULN_CORE_H").arg("-include").arg(tests.join("kernel.h"));
        let includes = ["host/shim", "core"].map(|folder| driver.join(folder));
        for include in [&tests].into_iter().chain(&includes) {
            command.arg("-I").arg(include);
        }
        command.args(FILES.map(|file| tests.join(file))).arg(driver.join("core/lane.c"));
        let compiled = command.arg("-o").arg(&binary).output().unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        binary
    })
}

/// Returns a number of the environment.
fn number(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |text| text.parse().expect(name))
}

/// Runs seeds of a property.
fn run(property: &str, first: u64, count: u64) {
    let mut command = Command::new(program());
    command.arg(property).args([first, count].map(|number| number.to_string()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// Runs as many seeds as the environment says.
fn run_all(property: &str, usual: u64) {
    run(property, number("PROPTEST_RNG_SEED", 0), number("PROPTEST_CASES", usual));
}

#[test]
fn frames_arrive_once_in_order_without_stalls() {
    run_all("honest", 2000);
}

#[test]
fn hostile_host_reaches_nothing_outside_the_lane() {
    run_all("hostile", 20_000);
}

/// At most 2 deposits may be in flight in the first seed, and 7 in the second.
#[test]
fn each_report_in_flight_has_a_place() {
    for seed in [6, 2129] {
        run("honest", seed, 1);
    }
}
