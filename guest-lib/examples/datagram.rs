//! Simple datagrams (section 3.3): a server replies by the ticket in each question. The client
//! verifies the answers.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::{Manager, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Answers datagrams, or asks and verifies the answers
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Seconds to wait for a datagram
    #[arg(long, global = true, default_value_t = 60)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a ticket for each client; answers each question with the same bytes in reverse
    Serve {
        /// Number of clients, each with its own receiver in the same slot
        #[arg(long, default_value_t = 1)]
        clients: u32,
        /// Number of questions to answer before it exits
        #[arg(long, default_value_t = 100)]
        count: u32,
        /// The longest datagram, in bytes
        #[arg(long, default_value_t = 65536)]
        capacity: usize,
    },
    /// Asks
    Ask {
        /// The server's ticket
        #[arg(long)]
        ticket: Ticket,
        /// Number of questions
        #[arg(long, default_value_t = 100)]
        count: u32,
        /// Bytes of each question
        #[arg(long, default_value_t = 100)]
        size: usize,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let manager = Manager::create(&options.card.open()?)?;
        match options.role {
            Role::Serve { clients, count, capacity } => {
                serve(&manager, clients, count, capacity, options.timeout)
            }
            Role::Ask { ticket, count, size } => ask(&manager, &ticket, count, size, options.timeout),
        }
    })
}

/// Serves all clients in one thread. The manager dispatches each arrival to its receiver, and the
/// receivers are polled in turn.
fn serve(manager: &Manager, clients: u32, count: u32, capacity: usize, timeout: u64) -> Outcome {
    let mut receivers = DatagramReceiver::create_group(manager, clients, capacity)?;
    let tickets: Vec<_> =
        receivers.iter().map(|receiver| receiver.ticket()).collect::<hamlyn::Result<_>>()?;
    print(&json!({ "tickets": tickets.iter().map(Ticket::to_string).collect::<Vec<_>>() }))?;
    let mut answered = 0;
    while answered < count {
        let before = answered;
        for receiver in &mut receivers {
            let (bytes, reply) = match receiver.try_recv() {
                Ok(question) => (question.to_vec(), question.reply()),
                Err(error) if error.is_would_block() => continue,
                Err(error) => return Err(error.into()),
            };
            // Rearms before the answer, which lets the client ask again.
            receiver.rearm();
            let reply = reply.ok_or("a question without a ticket for the answer")?;
            send(manager, &reply, &bytes.into_iter().rev().collect::<Vec<_>>(), None)?;
            answered += 1;
        }
        if answered == before {
            manager.wait_timeout(common::seconds(timeout))?;
        }
    }
    print(&json!({ "answered": answered }))
}

fn ask(manager: &Manager, ticket: &Ticket, count: u32, size: usize, timeout: u64) -> Outcome {
    let mut answers = DatagramReceiver::create(manager, size)?;
    let reply = answers.ticket()?;
    let start = Instant::now();
    for number in 0..count {
        let mut bytes = vec![0; size];
        common::fill_pattern(number.into(), 0, &mut bytes);
        send(manager, ticket, &bytes, Some(&reply))?;
        let answer = answers.recv_timeout(common::seconds(timeout))?.to_vec();
        bytes.reverse();
        if answer != bytes {
            return Err(format!("answer {number} is wrong").into());
        }
        answers.rearm();
    }
    let time = start.elapsed().as_nanos() as u64 / u64::from(count.max(1));
    print(&json!({ "asked": count, "verified": true, "ns_per_round_trip": time }))
}

/// Sends short datagrams directly and long ones from a buffer.
fn send(manager: &Manager, to: &Ticket, bytes: &[u8], reply: Option<&Ticket>) -> Outcome {
    let sender = DatagramSender::new(manager);
    if bytes.len() <= DatagramSender::MAX_DIRECT {
        sender.send(to, bytes, 0, reply)?.wait()?;
    } else {
        let mut buffer = manager.allocate(bytes.len())?;
        buffer.write(0, bytes)?;
        sender.send_buffer(to, buffer, 0, reply)?.wait()?;
    }
    Ok(())
}
