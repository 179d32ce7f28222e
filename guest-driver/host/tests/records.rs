//! Records of operating systems, as SHRIMP's and CLAN's drivers take them:
//! `guest-driver/core/records.c`, the very file, compiled for a program that is told what arrives.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The program, compiled once.
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
        command.arg("-D_HAMLYN_CORE_H").arg("-include").arg(tests.join("kernel.h"));
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

/// What is taken when this happens.
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

/// A host says more as soon as what it has said is taken, so that there is always something of it.
#[test]
fn a_host_that_always_has_something_to_say_keeps_nobody_from_being_heard() {
    let mut happens = lines("put 9 0 1, news 9, put 63 1 1, news 63");
    for round in 0..6 {
        // As the card tells of it: of one host, as SHRIMP's does.
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

/// All hosts' pages are to be looked at, as CLAN's driver has it, since one Tripwire is over them
/// all.
#[test]
fn hosts_that_all_have_much_to_say_are_heard_in_turn() {
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
fn a_record_is_taken_once_and_its_place_stays_until_it_is_opened_again() {
    let happens = lines("put 5 0 1, news 5, take, take, put 5 0 2, news 5, take, reopen 5 0, take, take");
    assert_eq!(taken(&happens), ["5 0 1", "none", "none", "5 0 2", "none"]);
}

#[test]
fn what_is_not_whole_yet_is_not_taken_and_what_was_overwritten_is_lost() {
    let happens = lines("put 5 0 1, tear 5 0, news 5, take, put 5 0 2, put 5 0 3, news 5, take, take");
    assert_eq!(taken(&happens), ["none", "5 0 3", "none"]);
}

/// Numbers begin anywhere, and none is 0.
#[test]
fn records_are_counted_past_the_largest_number() {
    let mut happens = Vec::new();
    for reason in 1..6 {
        happens.extend(lines(&format!("put 7 3 {reason}, news 7, take, reopen 7 3")));
    }
    assert_eq!(taken(&happens), ["7 3 1", "7 3 2", "7 3 3", "7 3 4", "7 3 5"]);
}
