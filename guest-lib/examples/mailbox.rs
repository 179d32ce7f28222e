//! A server with mutually suspicious clients (section 2.7): each has its own metadata entry with a
//! key and bounds.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use common::{Outcome, print};
use hamlyn::{Card, Message, MessageArea, Mode, NotificationQueue, RefusedError, Slot, Statistic, Ticket};
use hamlyn_examples as common;
use serde_json::{Value, json};

/// Seed of the server's initial memory contents.
const SEED: u64 = 0x3a11_b0c5;
/// Bytes after the slot that belong to no client.
const BEHIND: usize = 4096;

/// Mailboxes with a key each
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Seconds to wait for a message
    #[arg(long, global = true, default_value_t = 30)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a ticket for each client, then executes commands from standard input: take, hold,
    /// rearm I, revoke I, ticket I, check
    Serve {
        /// Number of clients
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
        clients: u32,
        /// An entry takes one message until it is rearmed
        #[arg(long)]
        one_shot: bool,
        /// Bytes of a mailbox
        #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(16..=1 << 20))]
        bytes: u32,
    },
    /// Sends a permitted message
    Send {
        /// The client's ticket
        #[arg(long)]
        ticket: Ticket,
        /// Seed of the bytes
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of bytes
        #[arg(long, default_value_t = 1000)]
        bytes: usize,
    },
    /// Sends a forbidden message
    Attack {
        /// The client's own ticket
        #[arg(long)]
        ticket: Ticket,
        /// The kind of violation
        #[arg(long, value_enum)]
        how: How,
        /// Another client's ticket
        #[arg(long)]
        other: Option<Ticket>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// A key that differs in one bit
    WrongKey,
    /// The own key at the entry of the other client
    WrongEntry,
    /// The own key and entry, but bytes of the other client
    OtherBounds,
    /// Data that begins inside the own bounds and ends past them
    PastEnd,
    /// Garbage with the unchanged ticket: a second message, or a key that was revoked
    AsItIs,
    /// Fast mode, which names no entry
    Fast,
    /// Half a message, whose packet count stays in the entry
    Half,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open()?;
        let timeout = Duration::from_secs(options.timeout);
        match options.role {
            Role::Serve { clients, one_shot, bytes } => {
                Server::create(&card, clients, one_shot, bytes, timeout)?.run()
            }
            Role::Send { ticket, seed, bytes } => send(&card, &ticket, seed, bytes, timeout),
            Role::Attack { ticket, how, other } => attack(&card, &ticket, how, other, timeout),
        }
    })
}

/// Returns the seed and length as a message's metadata.
fn metadata(seed: u64, bytes: usize) -> Vec<u8> {
    [seed.to_le_bytes(), (bytes as u64).to_le_bytes()].concat()
}

struct Server<'a> {
    card: &'a Card,
    area: MessageArea,
    queue: NotificationQueue,
    slot: Slot,
    clients: u32,
    one_shot: bool,
    bytes: usize,
    timeout: Duration,
    /// Expected contents of the area: its initial bytes and the messages that clients were allowed
    /// to send.
    expected: Vec<u8>,
    before: Vec<(Statistic, u64)>,
}

impl<'a> Server<'a> {
    fn create(card: &'a Card, clients: u32, one_shot: bool, bytes: u32, timeout: Duration) -> Outcome<Self> {
        let bytes = bytes as usize;
        let length = clients as usize * bytes;
        let mut expected = vec![0; length + BEHIND];
        common::fill_pattern(SEED, 0, &mut expected);
        let area = card.create_area(expected.len())?;
        area.write(0, &expected)?;
        // With one message per entry, a queue with more entries than that cannot overrun.
        let queue = card.create_queue(clients + if one_shot { 1 } else { 1024 })?;
        let mode = if one_shot { Mode::ParanoidOneShot } else { Mode::Paranoid };
        let slot =
            card.slot(&area).range(0..length).metadata_entries(clients).mode(mode).queue(&queue).create()?;
        let before = card.statistics()?;
        let server = Self { card, area, queue, slot, clients, one_shot, bytes, timeout, expected, before };
        for client in 0..clients {
            let box_of = server.box_of(client);
            server
                .slot
                .metadata(client)?
                .protect(hamlyn::random_key()?, box_of.start as u64..box_of.end as u64)?;
        }
        Ok(server)
    }

    fn box_of(&self, client: u32) -> Range<usize> {
        let start = client as usize * self.bytes;
        start..start + self.bytes
    }

    fn run(mut self) -> Outcome {
        let tickets = (0..self.clients).map(|client| self.ticket(client)).collect::<Outcome<Vec<_>>>()?;
        print(&json!({ "tickets": tickets }))?;
        while let Ok(line) = common::read_line() {
            let answer = self.obey(&line)?;
            print(&answer)?;
        }
        let mut last = self.check()?;
        last["ended"] = true.into();
        print(&last)
    }

    fn obey(&mut self, line: &str) -> Outcome<Value> {
        let (verb, client) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "take" => self.take(true),
            "hold" => self.take(false),
            "check" => self.check(),
            "rearm" | "revoke" | "ticket" => {
                let client = client.parse()?;
                let entry = self.slot.metadata(client)?;
                match verb {
                    "rearm" => entry.reopen(),
                    "revoke" => entry.revoke()?,
                    _ => return Ok(json!({ "ticket": self.ticket(client)? })),
                }
                Ok(json!({ verb: client }))
            }
            _ => Err(format!("{line:?} is not take, hold, rearm I, revoke I, ticket I or check").into()),
        }
    }

    fn ticket(&self, client: u32) -> Outcome<String> {
        Ok(self.slot.ticket(client)?.to_string())
    }

    /// Waits for a message, verifies it, and adds it to the expected contents.
    fn take(&mut self, rearm: bool) -> Outcome<Value> {
        let arrived = self.queue.recv_timeout(self.timeout)?;
        let client = self.slot.entry_of(&arrived).ok_or("the notification is not about this slot")?;
        let entry = self.slot.metadata(client)?;
        let box_of = self.box_of(client);
        let user = entry.user();
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| user[at + byte]));
        let (seed, length) = (number(0), number(8).min(self.bytes as u64) as usize);
        let mut data = vec![0; length];
        self.slot.read(box_of.start, &mut data)?;
        let verified = common::find_difference(seed, 0, &data).is_none();
        self.expected[box_of.start..box_of.start + length].copy_from_slice(&data);
        let locked = entry.is_locked();
        if locked != self.one_shot {
            return Err(format!("entry {client} is locked: {locked}").into());
        }
        if rearm {
            entry.reopen();
        }
        Ok(json!({ "took": client, "bytes": length, "verified": verified, "armed": !entry.is_locked() }))
    }

    /// Reports whether the area has the expected contents and every message was taken.
    fn check(&self) -> Outcome<Value> {
        let mut now = vec![0; self.expected.len()];
        self.area.read(0, &mut now)?;
        let mut unread = 0;
        while self.queue.try_recv()?.is_some() {
            unread += 1;
        }
        let refused = common::refused_since(&self.before, self.card)?;
        let mut partial = 0;
        for client in 0..self.clients {
            partial += usize::from(self.slot.metadata(client)?.is_partial());
        }
        let unchanged = now == self.expected && unread == 0;
        Ok(json!({ "unchanged": unchanged, "unread": unread, "partial": partial, "refused": refused }))
    }
}

fn send(card: &Card, ticket: &Ticket, seed: u64, bytes: usize, timeout: Duration) -> Outcome {
    let mut data = vec![0; bytes];
    common::fill_pattern(seed, 0, &mut data);
    let terminus = card.create_terminus()?;
    let mut buffer = terminus.create_send_buffer(bytes.max(1))?;
    buffer.write(0, &data)?;
    let metadata = metadata(seed, bytes);
    let message = Message::to(ticket).metadata(&metadata);
    terminus.send(&message, buffer.piece(0, bytes)?)?.wait_timeout(timeout)?;
    print(&json!({ "sent": bytes }))
}

fn attack(card: &Card, own: &Ticket, how: How, other: Option<Ticket>, timeout: Duration) -> Outcome {
    let other = || other.ok_or("this attack needs --other TICKET");
    let (ticket, offset) = match how {
        How::WrongKey => (Ticket { key: own.key ^ 1, ..*own }, 0),
        How::WrongEntry => (Ticket { metadata_index: other()?.metadata_index, ..*own }, 0),
        How::OtherBounds => (Ticket { base: other()?.base, length: other()?.length, ..*own }, 0),
        How::PastEnd => {
            (Ticket { length: own.length.saturating_add(64), ..*own }, own.length.saturating_sub(8))
        }
        How::AsItIs | How::Half => (*own, 0),
        How::Fast => (Ticket { metadata_index: Ticket::FAST, ..*own }, 0),
    };
    let metadata = metadata(u64::MAX, 16);
    let message = Message::to(&ticket).offset(offset);
    let message = if ticket.is_fast() { message } else { message.metadata(&metadata) };
    // With this count, a message of three packets looks complete after two.
    let message = if how == How::Half { message.delta(u32::MAX - 1) } else { message };
    let terminus = card.create_terminus()?;
    let sent = terminus.send(&message, &[0xff; 16])?.wait_timeout(timeout);
    let attempt = how.to_possible_value().map(|name| name.get_name().to_owned());
    match sent {
        Ok(()) => print(&json!({ "attempt": attempt, "sent": true })),
        Err(error) => match error.of::<RefusedError>() {
            Some(refused) => {
                let refused = refused.reason.map(Statistic::name);
                print(&json!({ "attempt": attempt, "sent": false, "refused": refused }))
            }
            None => Err(error.into()),
        },
    }
}
