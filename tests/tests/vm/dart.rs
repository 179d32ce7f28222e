//! DART cards in real machines: deposits, registers, questions, queues, and memory that is not
//! present yet or no longer present.

use anyhow::{Result, ensure};
use hamlyn::dart::{Comparison, Operation, Source, Step, Target};
use hamlyn_host::catalogue;
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::left::{log_is_clean, nothing_is_held};
use crate::{Turn, lab_of, shared_as, shared_of, text};

/// Returns the shared lab of three machines with DART cards.
pub(crate) fn shared_three_dart() -> Result<Turn> {
    Ok(shared_as("three dart", Lab::builder().models(&[catalogue::find("dart")?]).vms(3)))
}

pub(crate) fn dart_lab(vms: usize) -> Result<Turn> {
    Ok(lab_of(Lab::builder().models(&[catalogue::find("dart")?]).vms(vms)))
}

pub(crate) fn desk(lab: &Lab, vm: usize) -> Result<Desk<Run>> {
    Ok(Desk(lab.vm(vm).run(["dart-driver", "desk"])?))
}

/// Waits until a machine's driver holds no objects of processes.
pub(crate) fn nothing_is_left(lab: &Lab, vm: usize) -> Result<()> {
    nothing_is_held(lab, vm, "dart")
}

/// Formats an operation as a desk parses it.
pub(crate) fn words(operation: &Operation) -> String {
    let control = operation.control();
    let [i, j, k] = control.indices;
    format!("{}:{}:{i}:{j}:{k}:{}", control.opcode, control.mask, control.operand)
}

/// Runs a command and returns the number of the object that the desk made.
pub(crate) fn made(desk: &mut Desk<Run>, line: &str) -> Result<u64> {
    let answer = desk.ask(line)?;
    let what = line.split(' ').next().unwrap_or_default();
    let what = if what == "open" { "connection" } else { what };
    answer[what].as_u64().ok_or_else(|| anyhow::anyhow!("{line}: {answer}"))
}

/// One end of a connection, with its objects.
pub(crate) struct End {
    pub(crate) desk: Desk<Run>,
    pub(crate) endpoint: u64,
    pub(crate) bank: u64,
    pub(crate) queue: u64,
    pub(crate) connection: u64,
    pub(crate) address: String,
}

/// Opens all objects of one end, with this many bytes of memory.
pub(crate) fn end(lab: &Lab, vm: usize, other: usize, length: usize) -> Result<End> {
    end_of(desk(lab, vm)?, other, length)
}

/// Opens all objects of one end in the given desk.
pub(crate) fn end_of(mut desk: Desk<Run>, other: usize, length: usize) -> Result<End> {
    let endpoint = made(&mut desk, &format!("endpoint {length}"))?;
    let (bank, queue) = (made(&mut desk, "bank 16 4")?, made(&mut desk, "queue 64 delayed")?);
    let line = format!("open {other} {endpoint} {bank} events={queue} exceptions={queue} program=0-4");
    let answer = desk.ask(&line)?;
    let address = text(&answer, "address");
    let connection = answer["connection"].as_u64().unwrap_or_default();
    Ok(End { desk, endpoint, bank, queue, connection, address })
}

/// Returns two connected ends.
pub(crate) fn pair(lab: &Lab, one: usize, other: usize, length: usize) -> Result<(End, End)> {
    let (mut first, mut second) = (end(lab, one, other, length)?, end(lab, other, one, length)?);
    connect(&mut first, &mut second)?;
    Ok((first, second))
}

/// Connects two ends with each other.
pub(crate) fn connect(first: &mut End, second: &mut End) -> Result<()> {
    let addresses = [second.address.clone(), first.address.clone()];
    for (here, there) in [first, second].into_iter().zip(addresses) {
        let line = format!("connect {} {there}", here.connection);
        here.desk.expect(&line, &json!({ "connected": true }))?;
    }
    Ok(())
}

impl End {
    pub(crate) fn send(&mut self, operation: &Operation, offset: u64, length: u64) -> Result<()> {
        let line = format!("send {} {} {offset} {length}", self.connection, words(operation));
        self.desk.expect(&line, &json!({ "sent": true }))
    }

    pub(crate) fn ask(&mut self, question: &Operation, answer: &Operation, bytes: u32) -> Result<()> {
        let (connection, question, answer) = (self.connection, words(question), words(answer));
        self.desk
            .expect(&format!("ask {connection} {question} {answer} {bytes} 0"), &json!({ "asked": true }))
    }

    pub(crate) fn record(&mut self) -> Result<Value> {
        self.desk.ask(&format!("record {}", self.queue))
    }

    pub(crate) fn fill(&mut self, offset: u64, length: u64, seed: u64) -> Result<()> {
        let line = format!("fill {} {offset} {length} {seed}", self.endpoint);
        self.desk.expect(&line, &json!({ "filled": length }))
    }

    pub(crate) fn check(&mut self, offset: u64, length: u64, seed: u64) -> Result<()> {
        let line = format!("check {} {offset} {length} {seed}", self.endpoint);
        self.desk.expect(&line, &json!({ "arrived": true }))
    }

    pub(crate) fn own(&mut self, offset: u64) -> Result<Value> {
        Ok(self.desk.ask(&format!("own {} {offset}", self.endpoint))?["value"].clone())
    }

    pub(crate) fn register(&mut self, number: u32) -> Result<Value> {
        Ok(self.desk.ask(&format!("register {} {number}", self.connection))?["value"].clone())
    }

    /// Waits until the other end has executed everything sent before.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let question = Operation::answer(0).indices([15, 0, 0]);
        self.ask(&question, &Operation::registers(4242).tell(), 0)?;
        let record = self.record()?;
        ensure!(record["operand"] == json!(4242), "{record}");
        Ok(())
    }
}

#[test]
fn driver_passes_self_test_and_refuses_forbidden_calls() -> Result<()> {
    let lab = shared_of("dart")?;
    let tested = lab.vm(0).run_as(0, ["dart-driver", "self-test"])?.finish()?;
    ensure!(tested == [json!({ "passed": true })], "{tested:?}");
    let said = lab.vm(0).run(["dart-driver", "trespass"])?.finish()?;
    ensure!(said.len() == 1 && said[0]["succeeded"] == json!([]), "{said:?}");
    ensure!(said[0]["refused"].as_u64() > Some(50), "{said:?}");
    nothing_is_left(&lab, 0)?;
    log_is_clean(&lab, 0)
}

/// Uses calls that block for a minute. The library would not show a lost wake-up, because it checks
/// again within 100 ms.
#[test]
fn each_message_wakes_a_process_sleeping_in_driver() -> Result<()> {
    let lab = shared_of("dart")?;
    let said = lab.vm(0).run(["dart-driver", "wakes"])?.finish()?;
    ensure!(said == [json!({ "rounds": 500 })], "{said:?}");
    nothing_is_left(&lab, 0)
}

#[test]
fn messages_write_read_and_compute_remotely() -> Result<()> {
    let lab = shared_of("dart")?;
    let (mut one, mut two) = pair(&lab, 0, 1, 1 << 20)?;
    // A block, followed by an event that wakes a process. Then a long message, to pages that were
    // never touched.
    one.fill(4096, 32, 3)?;
    two.desk.begin(&format!("record {}", two.queue))?;
    one.send(&Operation::write(8192).tell(), 4096, 32)?;
    let told = two.desk.answer()?;
    ensure!(told["what"] == json!("Compared") && told["operand"] == json!(8192), "{told}");
    two.check(8192, 32, 3)?;
    one.fill(100_000, 65_504, 4)?;
    one.send(&Operation::write_multiple(500_000).tell(), 100_000, 65_504)?;
    let told = two.record()?;
    ensure!(told["length"] == json!(65_504), "{told}");
    two.check(500_000, 65_504, 4)?;
    // Both are read back with their full lengths. No software at the other end takes part.
    one.ask(&Operation::read(8192), &Operation::write(0).tell(), 32)?;
    one.record()?;
    one.check(0, 32, 3)?;
    one.ask(&Operation::read_multiple(500_000), &Operation::write_multiple(600_000).tell(), 65_504)?;
    ensure!(one.record()?["length"] == json!(65_504));
    one.check(600_000, 65_504, 4)?;
    // Fetch and increment: returns the old value and the new one.
    for round in 0..3 {
        let question = Operation::answer(0).first(Step::Increment, Source::Operand, Target::I);
        one.ask(&question, &Operation::registers(round).tell(), 0)?;
        let answer = one.record()?;
        ensure!(answer["operand"] == json!(round) && answer["words"][0] == json!(round), "{answer}");
        ensure!(answer["words"][1] == json!(round + 1), "{answer}");
    }
    ensure!(two.register(0)? == json!(3));
    // A call to an operation that the receiver has programmed.
    let append = Operation::write(0).indexed(1).first(Step::Add, Source::J, Target::I);
    let line = format!("program {} 2 {}", two.bank, words(&append));
    two.desk.expect(&line, &json!({ "set": true }))?;
    for (number, value) in [(1, 20_000), (2, 32)] {
        two.desk.expect(&format!("set {} {number} {value}", two.connection), &json!({ "set": true }))?;
    }
    one.fill(4096, 64, 5)?;
    for half in 0..2 {
        one.send(&Operation::call(2).indices([1, 2, 0]), 4096 + 32 * half, 32)?;
    }
    one.settle()?;
    two.check(20_000, 64, 5)?;
    // A refused operation changes nothing, and the sender is told.
    let bad = Operation::write(1 << 20).first(Step::Increment, Source::Operand, Target::I);
    one.send(&bad, 0, 32)?;
    let told = two.record()?;
    ensure!(told["what"] == json!("Trap(Some(Bounds))"), "{told}");
    one.settle()?;
    let status = one.desk.ask(&format!("status {}", one.connection))?;
    ensure!(status["traps"] == json!(1) && status["trap"] == json!("Bounds"), "{status}");
    ensure!(two.register(0)? == json!(3));
    let unmet =
        Operation::registers(9).tell_if(Comparison::Equal, Target::I, Source::Operand).refuse_instead();
    one.send(&unmet, 0, 0)?;
    one.send(&Operation::exception(77, 5), 0, 8)?;
    let told = two.record()?;
    ensure!(told["what"] == json!("Exception") && told["operand"] == json!(5), "{told}");
    drop((one, two));
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn closed_peer_is_reported_and_loses_access() -> Result<()> {
    let lab = shared_of("dart")?;
    // The peer closes its connection, is killed, or exits.
    let (mut one, mut two) = pair(&lab, 0, 1, 65_536)?;
    one.settle()?;
    two.desk.expect(&format!("close connection {}", two.connection), &json!({ "closed": true }))?;
    one.desk.expect(&format!("broken {}", one.connection), &json!({ "broken": "Gone" }))?;
    one.desk.fails(
        &format!("send {} {} 0 0", one.connection, words(&Operation::registers(0))),
        "or its host is lost",
    )?;
    drop((one, two));
    let (mut one, mut two) = pair(&lab, 0, 1, 65_536)?;
    one.settle()?;
    two.desk.0.kill(9)?;
    one.desk.expect(&format!("broken {}", one.connection), &json!({ "broken": "Gone" }))?;
    drop((one, two));
    let (mut one, mut two) = pair(&lab, 0, 1, 65_536)?;
    two.settle()?;
    drop(two);
    one.desk.expect(&format!("broken {}", one.connection), &json!({ "broken": "Gone" }))?;
    drop(one);
    // A wrong key gives no access.
    let (mut one, mut two) = (end(&lab, 0, 1, 4096)?, end(&lab, 1, 0, 4096)?);
    let forged = hamlyn::dart::Address::new(1, two.address.parse::<hamlyn::dart::Address>()?.number(), 1);
    one.desk.expect(&format!("connect {} {forged}", one.connection), &json!({ "connected": true }))?;
    one.send(&Operation::write(0).tell(), 0, 32)?;
    two.desk.expect(&format!("silent {}", two.queue), &json!({ "silent": true }))?;
    ensure!(two.own(0)? == json!(0));
    drop((one, two));
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}
