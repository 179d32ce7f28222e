//! Remote procedure calls (section 4.1): a client, and a server that returns the bytes in reverse
//! order.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hamlyn::clan::Card;
use hamlyn::clan::programs::rpc::{Client, Server};
use hamlyn::{ErrorKind, Polling};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::common::{Outcome, print};
use crate::meet;

/// Bytes of each end's memory.
const LENGTH: usize = 4096;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Microseconds to poll before sleeping
    #[arg(long, default_value_t = 15, global = true)]
    polling: u64,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Answers until the client leaves
    Serve,
    /// Calls
    Call {
        /// Number of calls
        #[arg(long, default_value_t = 1000)]
        count: u32,
    },
}

pub(crate) fn run(card: &Card, meet: &meet::Options, options: &Options) -> Outcome {
    let polling = Polling::up_to(Duration::from_micros(options.polling));
    match options.what {
        What::Serve => serve(card, meet, polling),
        What::Call { count } => call(card, meet, polling, count),
    }
}

fn serve(card: &Card, meet: &meet::Options, polling: Polling) -> Outcome {
    let listener = meet.listen(card)?;
    let end = meet.accept(card, &listener, LENGTH)?;
    end.connection().endpoint().set_polling(polling);
    let mut server = Server::new(&end)?;
    let mut answered = 0_u64;
    loop {
        let call = match server.recv() {
            Ok(call) => call,
            Err(error) if error.kind() == ErrorKind::PeerLost => break,
            Err(error) => return Err(error.into()),
        };
        let mut bytes = vec![0; call.len()];
        call.read(0, &mut bytes)?;
        bytes.reverse();
        call.reply(&bytes)?;
        answered += 1;
    }
    print(&json!({ "answered": answered }))
}

fn call(card: &Card, meet: &meet::Options, polling: Polling, count: u32) -> Outcome {
    let end = meet.connect(card, LENGTH)?;
    end.connection().endpoint().set_polling(polling);
    let mut client = Client::new(&end)?;
    let mut times = Histogram::<u64>::new(3)?;
    for round in 0..count {
        let (request, mut reply) = (round.to_le_bytes(), [0; 8]);
        let asked = Instant::now();
        let length = client.call(&request, &mut reply)?;
        times.record(asked.elapsed().as_nanos() as u64)?;
        if reply[..length] != round.to_be_bytes() {
            return Err(format!("the answer to call {round} is {:x?}", &reply[..length]).into());
        }
    }
    print(&json!({
        "calls": count,
        "p50_ns": times.value_at_quantile(0.5),
        "p99_ns": times.value_at_quantile(0.99),
    }))?;
    drop(client);
    end.close()?;
    Ok(())
}
