//! DART cards from C in real machines: every call, and compound operations with C at either end and
//! at both.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::dart::{nothing_is_left, shared_three_dart};
use crate::dart_programs::{RUST, are_whole};
use crate::left::log_is_clean;
use crate::shared_of;

const C: &str = "c-dart-programs";

#[test]
fn each_call_returns_the_expected_result() -> Result<()> {
    let lab = shared_of("dart")?;
    let checked = lab.vm(0).run(["c-dart-check"])?.finish()?;
    ensure!(checked.len() == 1 && checked[0]["wrong"] == 0, "{checked:?}");
    nothing_is_left(&lab, 0)?;
    log_is_clean(&lab, 0)
}

#[test]
fn messages_from_c_write_read_and_compute_remotely() -> Result<()> {
    let lab = shared_of("dart")?;
    for bytes in [20_000, 33] {
        let mut receiver = lab.vm(1).run(["c-dart", "receive"])?;
        ensure!(receiver.answer()? == json!({ "listening": "c-dart" }));
        let sent = lab.vm(0).run(["c-dart", "send", "1", &bytes.to_string()])?.finish()?;
        let expected = json!({ "sent": bytes, "counted": 3, "read_back": true, "traps": 1, "trap": 6 });
        ensure!(sent == [expected], "{sent:?}");
        let told = receiver.finish()?;
        for line in [
            json!({ "message": "hello from C" }),
            json!({ "received": bytes, "verified": true }),
            json!({ "trap": 6, "operand": 85_536 }),
            json!({ "exception": 99, "operand": 5 }),
        ] {
            ensure!(told.contains(&line), "{line}: {told:?}");
        }
        ensure!(told.last() == Some(&json!({ "counter": 3, "log": "one two three ab" })), "{told:?}");
    }
    Ok(())
}

#[test]
fn compound_operations_are_atomic_between_c_and_rust() -> Result<()> {
    let lab = shared_three_dart()?;
    are_whole(&lab, C, [C, RUST])?;
    are_whole(&lab, RUST, [C, C])
}
