//! Records of operating systems, as the drivers of SHRIMP and CLAN take them.
//! `guest-driver/core/records.c` is compiled unchanged into a program that reads from its input
//! what arrives.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Compiles the program once, and returns its path.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("records");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (tests, driver) = (here.join("tests/records"), here.join(".."));
        let mut command = Command::new("cc");
        command.args([
            "-std=gnu11",
            "-Wall",
            "-Werror",
            "-fsanitize=bounds",
            "-fsanitize-undefined-trap-on-error",
        ]);
        command.arg("-D_ULN_CORE_H").arg("-include").arg(tests.join("kernel.h"));
        let includes = ["host/shim", "kernel", "include", "core"].map(|folder| driver.join(folder));
        for include in [&tests].into_iter().chain(&includes) {
            command.arg("-I").arg(include);
        }
        command.arg(tests.join("program.c")).arg(driver.join("core/records.c"));
        let compiled = command.arg("-o").arg(&binary).output().unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        binary
    })
}

/// Returns what the program takes for these inputs.
fn taken(lines: &[String]) -> Vec<String> {
    let mut running = Command::new(program()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn lines(text: &str) -> Vec<String> {
    text.split(", ").map(str::to_owned).collect()
}

/// A host sends more as soon as its records are taken, so it always has a record.
#[test]
fn busy_host_does_not_starve_others() {
    let mut happens = lines("put 9 0 1, news 9, put 63 1 1, news 63");
    for round in 0..6 {
        // The card reports one host at a time, as SHRIMP's does.
        happens.extend(lines(&format!(
            "put 2 {0} {round}, put 2 {1} {round}, news 2",
            round % 4,
            4 + round % 4
        )));
        happens.push("take".into());
        (0..8).for_each(|place| happens.push(format!("reopen 2 {place}")));
    }
    assert_eq!(taken(&happens)[..5], ["2 0 0", "9 0 1", "63 1 1", "2 1 1", "2 0 4"]);
}

/// All hosts' pages have to be checked, as in CLAN's driver, because one Tripwire covers them all.
#[test]
fn busy_hosts_are_served_in_turn() {
    let hosts = [0, 1, 31, 32, 63];
    let mut happens: Vec<String> = (0..64).map(|host| format!("news {host}")).collect();
    for host in hosts {
        happens.extend((0..8).map(|place| format!("put {host} {place} {place}")));
    }
    happens.extend((0..8 * hosts.len()).map(|_| "take".into()));
    let heard: Vec<String> = taken(&happens);
    for (round, turn) in heard.chunks(hosts.len()).enumerate() {
        assert_eq!(turn, hosts.map(|host| format!("{host} {round} {round}")), "round {round}");
    }
}

#[test]
fn record_is_taken_once_until_place_reopens() {
    let happens = lines("put 5 0 1, news 5, take, take, put 5 0 2, news 5, take, reopen 5 0, take, take");
    assert_eq!(taken(&happens), ["5 0 1", "none", "none", "5 0 2", "none"]);
}

#[test]
fn torn_record_is_skipped_and_overwritten_one_lost() {
    let happens = lines("put 5 0 1, tear 5 0, news 5, take, put 5 0 2, put 5 0 3, news 5, take, take");
    assert_eq!(taken(&happens), ["none", "5 0 3", "none"]);
}

/// Numbers start anywhere, and 0 is skipped.
#[test]
fn record_numbers_wrap_past_zero() {
    let mut happens = Vec::new();
    for reason in 1..6 {
        happens.extend(lines(&format!("put 7 3 {reason}, news 7, take, reopen 7 3")));
    }
    assert_eq!(taken(&happens), ["7 3 1", "7 3 2", "7 3 3", "7 3 4", "7 3 5"]);
}
