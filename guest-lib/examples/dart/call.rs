//! Calls, the variant (section 2): a message names an operation of the receiver, which the receiver
//! may replace at any time. Here the called operation first appends an entry to a log, and later
//! only reserves room for one. The caller knows neither.

use hamlyn::dart::{Card, Operation, Source, Step, Target};
use serde_json::json;

use crate::Options;
use crate::common::{Outcome, print};
use crate::meet::{Guest, Home, MEMORY, Plan};

/// The program entry that is called, and the registers named by the callers. They hold the offset
/// of the log's next entry and the length of an entry.
const ENTRY: u32 = 0;
const TAIL: u8 = 4;
const STEP: u8 = 5;
/// Offset where the log begins, and bytes of an entry.
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
    // The same steps, without the write.
    let make_room = Operation::registers(0).first(Step::Add, Source::J, Target::I);
    home.bank.set_program(ENTRY, &[make_room])?;
    home.begin()?;
    let counted = home.wait()?;
    let (called, written) = (self::called(&home)? - called, written(&home, 2 * calls)? - written_first);
    home.end(&json!({ "called": called, "written": written }), counted)
}

/// Returns the number of entries for which the log has made room.
fn called(home: &Home) -> Outcome<u64> {
    Ok((home.others[0].register(TAIL.into())? - START) / LENGTH)
}

/// Returns the number of places with an entry. A place that is 0 has none.
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
    // The words after an entry stay unchanged.
    let call = Operation::call(ENTRY.into()).indices([TAIL, STEP, 0]).mask(0xfc);
    guest.endpoint.write(0, &(guest.own + 1).to_le_bytes())?;
    for _ in 0..count {
        guest.connection.send_timeout(&call, 0..LENGTH, guest.patience)?;
    }
    Ok(guest.connection.wait_until_left_timeout(guest.patience)?)
}
