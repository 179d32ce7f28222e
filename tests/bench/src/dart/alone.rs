//! The cost of messages to the cards alone, on hosts in memory without machines: hits and misses in
//! TLBs of several sizes, and long messages.

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::fifo::DART_FIFO_SIZE;
use hamlyn_abi::dart::registers::*;
use hamlyn_abi::family::area::UlnArea;
use hamlyn_card::card::{Card, Progress};
use hamlyn_card::ports::VolatileSlice;
use hamlyn_card_dart::{DartCard, Options, Policy};
use hamlyn_test_host::{Commands, Host, Refusal, list_pages};
use zerocopy::FromZeros;

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{beside, text};
use crate::engine::report::Table;
use crate::engine::stats::median;

pub(crate) const ALONE: Experiment = Experiment {
    name: "alone",
    also: |run, _, _| {
        let effort = run.request.effort;
        let measured = run.progress.part("DART: the cards alone", || measure(effort))?;
        run.others.push(table(&measured));
        Ok(())
    },
    ..Experiment::NEW
};

/// TLB entries of the measured cards: the default, and the maximum.
const SIZES: [u32; 2] = [1024, 65536];
const PAGE: u64 = 4096;
const SPACE: u32 = 1;
const KEY: u64 = 7;
const CONNECTION: u32 = 1;
const FIFO: u32 = 512;
/// Messages between two reads of the clock: the maximum that can wait to leave.
const LAP: u64 = 32;
/// Bytes of messages.
const BLOCK: u64 = 32;
const LONGEST: u64 = 65_504;
/// Pages of the longest message.
const FIRST: u64 = LONGEST.div_ceil(PAGE);
/// Pages in addition to the TLB's entries. With these, all pages but the first miss in turn.
const MORE: u64 = 64;
/// Frames that back all pages of an endpoint in turn, so that any number of pages is present.
const FRAMES: u64 = 32;

fn options(tlb: u32) -> Options {
    Options {
        connections: 128,
        endpoints: 128,
        registers: 256,
        program: 32,
        queues: 8,
        tlb,
        policy: Policy::LeastRecentlyUsed,
        window: 2048,
        handshake_ms: 0,
    }
}

/// A host whose card has an endpoint with more pages than TLB entries.
struct End {
    host: Host<DartCard>,
    frames: u64,
    taken: u32,
}

/// A sender and a receiver.
struct Pair {
    sender: End,
    receiver: End,
    pages: u64,
    next: u64,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Deposits of 32 bytes to one page.
    Hits,
    /// The same to each page in turn: the driver provides the page's frame.
    Misses,
    /// Fetch and increment.
    Increments,
    /// Messages of 65,504 bytes.
    Long,
}

const ALL: [(What, &str); 4] = [
    (What::Hits, "a deposit of 32 bytes, a hit"),
    (What::Misses, "a deposit of 32 bytes, a miss"),
    (What::Increments, "fetch and increment"),
    (What::Long, "a deposit of 65,504 bytes"),
];

/// Nanoseconds per message, round by round, at the sending and at the receiving card.
struct Measured {
    tlb: u32,
    what: What,
    ns: [Vec<f64>; 2],
}

fn done(result: Result<(), Refusal>) -> anyhow::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(refusal) => bail!("the card has refused a command: {refusal:?}"),
    }
}

impl End {
    fn create(id: u16, tlb: u32, pages: u64) -> anyhow::Result<Self> {
        let mut host = Host::new(id, DartCard::new(options(tlb))).context("no memory")?;
        let area = area(&host, u64::from(FIFO * DART_FIFO_SIZE));
        done(host.run(DART_COMMAND_OPEN_FIFO, 0, &DartOpenFifo { area, records: FIFO, reserved: 0 }))?;
        let endpoint =
            DartOpenEndpoint { length: pages * PAGE, space: SPACE, ..DartOpenEndpoint::new_zeroed() };
        done(host.run(DART_COMMAND_OPEN_ENDPOINT, 0, &endpoint))?;
        let body = DartOpenConnection {
            state: self::area(&host, DART_STATE_SIZE.into()),
            host: (1 - id).into(),
            register_bound: 16,
            events: DART_NO_QUEUE,
            exceptions: DART_NO_QUEUE,
            flags: DART_CONNECTION_WRITE,
            key: KEY,
            ..DartOpenConnection::new_zeroed()
        };
        done(host.run(DART_COMMAND_OPEN_CONNECTION, CONNECTION, &body))?;
        let connect = DartConnect { key: KEY, peer: CONNECTION, reserved: 0 };
        done(host.run(DART_COMMAND_CONNECT, CONNECTION, &connect))?;
        let frames = host.pages(FRAMES);
        let mut end = Self { host, frames, taken: 0 };
        (0..pages).for_each(|page| end.tell(page));
        end.tell_first();
        Ok(end)
    }

    /// Writes a page's frame to the TLB, like the driver.
    fn tell(&mut self, page: u64) {
        let frame = self.frames + page % FRAMES * PAGE;
        self.host.write_register(DART_REG_TLB_SPACE, 8, SPACE.into());
        self.host.write_register(DART_REG_TLB_PAGE, 8, page * PAGE);
        self.host.write_register(DART_REG_TLB_FILL, 8, frame | DART_FRAME_WRITABLE);
    }

    /// Writes the first pages to the TLB again. All measurements but misses use these.
    fn tell_first(&mut self) {
        (0..FIRST).for_each(|page| self.tell(page));
    }

    /// Takes one entry of the card's FIFO, like the driver.
    fn take(&mut self) {
        self.taken = self.taken.wrapping_add(1);
        self.host.write_register(DART_REG_FIFO_TAKEN, 4, self.taken.into());
    }

    /// Stores a message to the Send Registers, and lets it leave.
    fn send(&mut self, control: DartControl, length: u64) {
        let [first, operand]: [u64; 2] = zerocopy::transmute!(control);
        for (place, width, value) in
            [(DART_SEND_CONTROL, 8, first), (DART_SEND_OPERAND, 8, operand), (DART_SEND_LENGTH, 4, length)]
        {
            let offset = u64::from(CONNECTION * DART_PAGE_SIZE + place);
            self.host.with_card(|card, ports, _| card.register_write(ports, 2, offset, width, value));
        }
        while self.host.transmit() == Progress::Worked {}
    }

    fn arrive(&mut self, source: u16, mut packet: Vec<u8>) {
        self.host.deliver(source, &[VolatileSlice::from(&mut packet[..])]);
        self.host.wire.give_back(packet);
    }
}

fn area(host: &Host<DartCard>, length: u64) -> UlnArea {
    let start = host.pages(length.div_ceil(PAGE));
    list_pages(length, 0, || host.pages(1), |index| start + index * PAGE, |at, bytes| host.put(at, bytes))
}

impl Pair {
    fn create(tlb: u32) -> anyhow::Result<Self> {
        let pages = u64::from(tlb) + MORE;
        let [sender, receiver] = [End::create(0, tlb, pages)?, End::create(1, tlb, pages)?];
        Ok(Self { sender, receiver, pages, next: 0 })
    }

    /// Returns the next message, its length, and the page that it misses.
    fn message(&mut self, what: What) -> (DartControl, u64, Option<u64>) {
        let of = |opcode, operand| DartControl { opcode, operand, ..DartControl::default() };
        match what {
            What::Hits => (of(DART_MAIN_WRITE, 0), BLOCK, None),
            What::Misses => {
                let page = FIRST + self.next % (self.pages - FIRST);
                self.next += 1;
                (of(DART_MAIN_WRITE, page * PAGE), BLOCK, Some(page))
            }
            What::Increments => (of(DART_MAIN_ANSWER | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0), 20, None),
            What::Long => (of(DART_MAIN_WRITE_MULTIPLE, 0), LONGEST, None),
        }
    }

    /// Returns the nanoseconds per message at both cards, for `count` messages.
    fn measure(&mut self, what: What, count: u64) -> [f64; 2] {
        self.receiver.tell_first();
        let mut times = [0, 0];
        let lap = if what == What::Long { 1 } else { LAP };
        for _ in 0..count.div_ceil(lap) {
            let messages: Vec<_> = (0..lap).map(|_| self.message(what)).collect();
            let start = Instant::now();
            messages.iter().for_each(|(control, length, _)| self.sender.send(*control, *length));
            times[0] += start.elapsed().as_nanos();
            let packets = std::mem::take(&mut self.sender.host.wire.sent);
            let start = Instant::now();
            for ((_, packet), (.., missed)) in packets.into_iter().zip(&messages) {
                self.receiver.arrive(0, packet);
                if let Some(page) = missed {
                    self.receiver.tell(*page);
                    self.receiver.take();
                }
            }
            while self.receiver.host.transmit() == Progress::Worked {}
            times[1] += start.elapsed().as_nanos();
            for (_, packet) in std::mem::take(&mut self.receiver.host.wire.sent) {
                self.sender.arrive(1, packet);
            }
            self.sender.host.wire.forget();
        }
        times.map(|ns| ns as f64 / (count.div_ceil(lap) * lap) as f64)
    }
}

/// Measures all in turn, in rounds.
fn measure(effort: Effort) -> anyhow::Result<Vec<Measured>> {
    let mut pairs =
        SIZES.map(|tlb| Ok((tlb, Pair::create(tlb)?))).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let new = |tlb: u32| ALL.map(|(what, _)| Measured { tlb, what, ns: [vec![], vec![]] });
    let mut measured: Vec<Measured> = SIZES.into_iter().flat_map(new).collect();
    for _ in 0..effort.rounds() {
        for one in &mut measured {
            let pair = pairs.iter_mut().find(|(tlb, _)| *tlb == one.tlb).map(|(_, pair)| pair);
            let count = effort.pick(4, 16) * if one.what == What::Long { 50 } else { 1000 };
            for (ns, now) in one.ns.iter_mut().zip(pair.context("no such card")?.measure(one.what, count)) {
                ns.push(now);
            }
        }
    }
    for (_, pair) in &pairs {
        let [sent, executed] = [&pair.sender, &pair.receiver].map(|end| {
            end.host.counted("messages_sent").zip(end.host.counted("executed")).unwrap_or_default()
        });
        ensure!(sent.0 == executed.1, "{} messages have left, and {} were executed", sent.0, executed.1);
    }
    Ok(measured)
}

/// Shows all measurements.
fn table(measured: &[Measured]) -> Table {
    let name = |one: &Measured| ALL.iter().find(|(what, _)| *what == one.what).map_or("", |(_, name)| name);
    let hit = |one: &Measured| {
        let hit = measured.iter().find(|other| other.tlb == one.tlb && other.what == What::Hits);
        hit.map(|hit| hit.ns[1].clone()).unwrap_or_default()
    };
    let note = "Nanoseconds of a message, without machines, on hosts in memory whose driver answers a miss at once. The receiving card's has \
        its answer in it, and what it says to the driver.";
    Table::new(
        "DART: the cards alone",
        note,
        measured,
        &[
            ("translations", &|one| one.tlb.to_string()),
            ("", &|one| name(one).to_owned()),
            ("the sending card, ns", &|one| text(median(one.ns[0].clone()))),
            ("the receiving card, ns", &|one| text(median(one.ns[1].clone()))),
            ("beside a hit", &|one| beside(&one.ns[1], &hit(one))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_executed_and_only_misses_miss() {
        let mut pair = Pair::create(64).unwrap();
        let counted = |pair: &Pair, name| pair.receiver.host.counted(name).unwrap();
        for (what, _) in ALL {
            let before = ["executed", "misses", "answers_sent"].map(|name| counted(&pair, name));
            pair.measure(what, 64);
            let after = ["executed", "misses", "answers_sent"].map(|name| counted(&pair, name));
            let is = |kind| if what == kind { 64 } else { 0 };
            let made: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
            assert_eq!(made, [64, is(What::Misses), is(What::Increments)], "{what:?}");
        }
    }

    #[test]
    fn each_is_compared_with_same_cards_hit() {
        let one = |what, ns| Measured { tlb: 1024, what, ns: [vec![50.0], vec![ns]] };
        let rows = table(&[one(What::Hits, 100.0), one(What::Misses, 300.0)]).rows;
        assert_eq!(rows[1][2..], ["50", "300", "3 (3 to 3)"]);
    }
}
