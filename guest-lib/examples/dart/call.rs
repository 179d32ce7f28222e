//! Calls, the variant (section 2): a message names an operation of its receiver's, who may make it
//! another whenever it wants. Here what is called appends an entry to a log at first, and later
//! makes room for one alone; who calls knows nothing of either.

use hamlyn::dart::{Card, Operation, Source, Step, Target};
use serde_json::json;

use crate::Options;
use crate::common::{Outcome, print};
use crate::meet::{Guest, Home, MEMORY, Plan};

/// The program's entry that is called, and the registers that the callers name: where the next
/// entry of the log is, and how long one is.
const ENTRY: u32 = 0;
const TAIL: u8 = 4;
const STEP: u8 = 5;
/// Where the log begins, and the bytes of an entry.
const START: u64 = 1024;
const LENGTH: u64 = 8;

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let calls = u64::from(options.others) * options.count;
    let limit = (MEMORY as u64 - START) / LENGTH / 2;
    if calls > limit {
        return Err(format!("{calls} calls do not fit (limit {limit})").into());
    }
    let mut home = Home::open(card, options, Plan { entries: 1, ..Plan::default() })?;
    home.others[0].set_register(TAIL.into(), START)?;
    home.others[0].set_register(STEP.into(), LENGTH)?;
    let append = Operation::write(0).indirect(TAIL).first(Step::Add, Source::J, Target::I);
    home.bank.set_program(ENTRY, &[append])?;
    home.begin()?;
    let mut counted = home.wait()?;
    let (called, written_first) = (called(&home)?, written(&home, calls)?);
    counted.extend([("called".to_owned(), json!(called)), ("written".to_owned(), json!(written_first))]);
    print(&counted.into())?;
    // The same steps, and nothing is written.
    let make_room = Operation::registers(0).first(Step::Add, Source::J, Target::I);
    home.bank.set_program(ENTRY, &[make_room])?;
    home.begin()?;
    let counted = home.wait()?;
    let (called, written) = (self::called(&home)? - called, written(&home, 2 * calls)? - written_first);
    home.end(&json!({ "called": called, "written": written }), counted)
}

/// How many entries the log has room made for.
fn called(home: &Home) -> Outcome<u64> {
    Ok((home.others[0].register(TAIL.into())? - START) / LENGTH)
}

/// How many of the places have an entry. One that is 0 is nobody's.
fn written(home: &Home, places: u64) -> Outcome<u64> {
    let mut written = 0;
    for at in (START..START + places * LENGTH).step_by(LENGTH as usize) {
        let mut bytes = [0; LENGTH as usize];
        home.endpoint.read(at as usize, &mut bytes)?;
        written += u64::from(bytes != [0; LENGTH as usize]);
    }
    Ok(written)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let mut guest = Guest::meet(card, options)?;
    call(&guest, options.count)?;
    guest.done()?;
    guest.next()?;
    call(&guest, options.count)?;
    guest.end(&json!({ "called": 2 * options.count }))
}

fn call(guest: &Guest, count: u64) -> Outcome {
    // The words behind an entry stay as they are.
    let call = Operation::call(ENTRY.into()).indices([TAIL, STEP, 0]).mask(0xfc);
    guest.endpoint.write(0, &(guest.own + 1).to_le_bytes())?;
    for _ in 0..count {
        guest.connection.send_wait(&call, 0..LENGTH, guest.patience)?;
    }
    Ok(guest.connection.wait_until_left(guest.patience)?)
}
