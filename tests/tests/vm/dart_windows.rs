//! Windows of address registers (section 3) between two machines: they nest and overlap inside a
//! bank, and do not reach beyond it.

use anyhow::{Result, ensure};
use hamlyn::dart::{Operation, Source, Step, Target};
use hamlyn_lab::Run;
use serde_json::{Value, json};

use crate::dart::{desk, made, nothing_is_left, words};
use crate::desk::Desk;
use crate::left::log_is_clean;
use crate::{shared_of, text};

/// Opens a connection with a window. Returns its number and address.
fn open(desk: &mut Desk<Run>, host: usize, parts: (u64, u64), window: &str) -> Result<(Value, String)> {
    let answer = desk.ask(&format!("open {host} {} {} registers={window}", parts.0, parts.1))?;
    ensure!(answer["connection"].is_u64(), "{window}: {answer}");
    Ok((answer["connection"].clone(), text(&answer, "address")))
}

fn increment(register: u8) -> String {
    let one = Operation::registers(0).first(Step::Increment, Source::Operand, Target::I);
    words(&one.indices([register, 0, 0]))
}

/// Windows of a bank of 16. The second field is the index of the bank's register 5 in the window.
const WINDOWS: [(&str, u8, u8); 3] = [("0-8", 5, 8), ("4-12", 1, 8), ("5-6", 0, 1)];

#[test]
fn windows_nest_and_overlap_and_reach_no_further() -> Result<()> {
    let lab = shared_of("dart")?;
    let (mut one, mut two) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let parts = |desk: &mut Desk<Run>| {
        Ok::<_, anyhow::Error>((made(desk, "endpoint 4096")?, made(desk, "bank 16 0")?))
    };
    let (here, there) = (parts(&mut one)?, parts(&mut two)?);
    let (whole, _) = open(&mut one, 1, here, "0-16")?;
    let mut ends = Vec::new();
    for (window, ..) in WINDOWS {
        let (own, address) = open(&mut one, 1, here, window)?;
        let (other, others_address) = open(&mut two, 0, there, "0-1")?;
        one.expect(&format!("connect {own} {others_address}"), &json!({ "connected": true }))?;
        two.expect(&format!("connect {other} {address}"), &json!({ "connected": true }))?;
        ends.push((own, other));
    }
    // All three change the same register. None can change a register outside its window.
    for ((_, other), (_, register, behind)) in ends.iter().zip(WINDOWS) {
        for index in [register, behind, 255] {
            two.expect(&format!("send {other} {} 0 0", increment(index)), &json!({ "sent": true }))?;
        }
        crate::eventually(
            || Ok(two.ask(&format!("status {other}"))?["traps"] == json!(2)),
            "two of three are refused",
        )?;
        let status = two.ask(&format!("status {other}"))?;
        ensure!(status["trap"] == json!("Index"), "{status}");
    }
    for ((own, _), (_, register, _)) in ends.iter().zip(WINDOWS) {
        one.expect(&format!("register {own} {register}"), &json!({ "value": 3 }))?;
    }
    for register in 0..16 {
        let value = if register == 5 { 3 } else { 0 };
        one.expect(&format!("register {whole} {register}"), &json!({ "value": value }))?;
    }
    // A window cannot exceed its bank.
    for window in ["8-17", "16-17"] {
        let line = format!("open 1 {} {} registers={window}", here.0, here.1);
        ensure!(one.ask(&line)?["error"].is_string(), "{window}");
    }
    drop((one, two));
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}
