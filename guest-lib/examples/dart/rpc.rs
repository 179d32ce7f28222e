//! Remote procedure calls: arguments are deposited where the server wants them, and results in the
//! same way.

use std::time::Instant;

use hamlyn::dart::Card;
use hamlyn::dart::programs::{Client, Server};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::Options;
use crate::common::{Outcome, fill_pattern};
use crate::meet::{Guest, Home, Plan};

/// Bytes of a client's place.
const SIZE: u64 = 256;

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    // The memory has room for the places of the maximum number of others, and for their results.
    let mut home = Home::open(card, options, Plan::default())?;
    let mut server = Server::new(home.endpoint.clone(), home.others.clone(), home.events()?, SIZE);
    home.begin()?;
    let mut answered = 0;
    while answered < u64::from(options.others) * options.count {
        let call = server.recv_timeout(home.patience)?;
        let result: Vec<u8> = call.arguments.iter().rev().copied().collect();
        server.answer(&call, &result)?;
        answered += 1;
    }
    let counted = home.wait()?;
    home.end(&json!({ "answered": answered }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let mut guest = Guest::meet(card, options)?;
    let (connection, endpoint, place) = (guest.connection.clone(), guest.endpoint.clone(), guest.own * SIZE);
    let mut client = Client::new(connection, endpoint, guest.answers()?, place, SIZE);
    let mut times = Histogram::<u64>::new(3)?;
    for number in 0..options.count {
        let mut arguments = vec![0; (number % SIZE) as usize];
        fill_pattern(number, 0, &mut arguments);
        let begun = Instant::now();
        let result = client.call_timeout(&arguments, guest.patience)?;
        times.record(begun.elapsed().as_nanos() as u64)?;
        if !result.iter().eq(arguments.iter().rev()) {
            return Err(format!("call {number} has another's result").into());
        }
    }
    guest.end(&json!({ "called": times.len(), "p50_ns": times.value_at_quantile(0.5) }))
}
