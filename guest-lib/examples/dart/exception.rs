//! Software exceptions (section 2): if the card cannot do an operation, it interrupts the host,
//! whose software does it. Here the software multiplies.

use hamlyn::dart::{Card, Operation, What};
use serde_json::json;

use crate::Options;
use crate::common::Outcome;
use crate::meet::{Guest, Home, Plan};

/// The number of the operation, agreed on by both sides.
const MULTIPLY: u32 = 7;
/// The register that is multiplied.
const PRODUCT: u32 = 11;
/// A number whose powers are never 0.
const FACTOR: u64 = 3;

fn product(times: u64) -> u64 {
    (0..times).fold(1, |product, _| FACTOR.wrapping_mul(product))
}

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let mut home = Home::open(card, options, Plan::default())?;
    home.others[0].set_register(PRODUCT, 1)?;
    home.begin()?;
    let mut multiplied = 0;
    let expected = Operation::exception(MULTIPLY, 0).control().opcode;
    while multiplied < u64::from(options.others) * options.count {
        let record = home.exceptions.recv_timeout(home.patience)?;
        if record.what != What::Exception || record.operation.control().opcode != expected {
            return Err(format!("a record of something else: {:?}", record.what).into());
        }
        let product = home.others[0].register(PRODUCT)?.wrapping_mul(record.operand());
        home.others[0].set_register(PRODUCT, product)?;
        multiplied += 1;
    }
    let counted = home.wait()?;
    let found = home.others[0].register(PRODUCT)?;
    if found != product(multiplied) {
        return Err(format!("the product is {found}").into());
    }
    home.end(&json!({ "multiplied": multiplied }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let guest = Guest::meet(card, options)?;
    for _ in 0..options.count {
        guest.connection.send_timeout(&Operation::exception(MULTIPLY, FACTOR), 0..0, guest.patience)?;
    }
    guest.end(&json!({ "raised": options.count }))
}
