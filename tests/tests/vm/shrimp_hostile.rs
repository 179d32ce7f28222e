//! SHRIMP cards under attack: by a process, by a host's card, and by an operating system that sends
//! invalid messages.

use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hamlyn::shrimp::Handle;
use hamlyn_abi::kernel::well_known::{ULN_WELL_KNOWN_PLACE_SIZE, ULN_WELL_KNOWN_PLACES};
use hamlyn_abi::kernel::wire::{ULN_WIRE_ACK, ULN_WIRE_CARD, ULN_WIRE_PROBE, UlnRecord, UlnWire};
use hamlyn_abi::shrimp::entry::SHRIMP_SYSTEM_PAGE;
use hamlyn_abi::shrimp::wire::*;
use hamlyn_fabric::{Attached, Header, HostId, Protocol, Request, Traffic, connect};
use hamlyn_host::catalogue;
use hamlyn_lab::{Lab, Memory, Run};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use zerocopy::{FromBytes, IntoBytes};

use crate::desk::Desk;
use crate::shrimp::{arrives, both_are_usable, counter, desk, export, map, shrimp_lab};
use crate::{lab_of, text};

/// The protocol of SHRIMP cards.
const SHRIMP: Protocol = Protocol::of(NonZeroU8::new(2).unwrap());
/// The attacker's host id, which an honest card could have.
const ATTACKER: u16 = 2;
const PAGE: u64 = 4096;
/// Bytes of a machine's memory.
const MEMORY: u64 = 384 << 20;
const PATIENCE: Duration = Duration::from_secs(600);
/// Columns of the mesh, the default of cards.
const COLUMNS: u16 = 4;
/// Bytes in front of a packet's data: places, length, address.
const HEAD: usize = 16;

/// A card that follows no rules.
struct Attacker(Attached);

impl Attacker {
    fn attach(lab: &Lab) -> Result<Attacker> {
        let traffic = Traffic { protocol: SHRIMP, ordered: true };
        let request = Request { host: Some(HostId(ATTACKER)), traffic, express: false };
        let switch = lab.directory().join("switch.sock");
        Ok(Attacker(connect(&switch, request, PATIENCE).context("the attacker cannot attach")?))
    }

    /// Sends raw bytes as a packet.
    fn send(&mut self, victim: u16, bytes: &[u8]) -> Result<()> {
        let header = Header { destination: HostId(victim), source: HostId(ATTACKER), protocol: SHRIMP };
        let begun = Instant::now();
        loop {
            if let Some(room) = self.0.link.reserve(header, bytes.len())? {
                room.copy_from(bytes);
                self.0.link.commit();
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "host {victim} takes nothing any more");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stores to another host's memory with a well-formed packet.
    fn store(&mut self, victim: u16, address: u64, data: &[u8]) -> Result<()> {
        self.send(victim, &packet(victim, ATTACKER, address, data))
    }

    /// Returns the data of the next packet, or `None` if none arrives within a second.
    fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            if let Some(record) = self.0.link.peek()? {
                let mut bytes = vec![0; record.payload.len()];
                record.payload.copy_to(&mut bytes);
                self.0.link.consume();
                ensure!(bytes.len() > HEAD + 4, "a packet of {} bytes", bytes.len());
                return Ok(Some(bytes[HEAD..bytes.len() - 4].to_vec()));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(None)
    }
}

/// Builds a packet for a mesh with the default number of columns.
fn packet(victim: u16, source: u16, address: u64, data: &[u8]) -> Vec<u8> {
    let place = |host: u16| [(host % COLUMNS) as u8, (host / COLUMNS) as u8];
    let mut bytes = [place(victim), place(source)].concat();
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(address.to_le_bytes());
    bytes.extend(data);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// A hostile operating system that sends arbitrary content in well-formed messages.
struct Impostor {
    card: Attacker,
    victim: u16,
    incarnation: u64,
    theirs: u64,
    sequence: u32,
    expected: u32,
    serial: u32,
    /// Received messages about exports and mappings.
    heard: Vec<UlnWire>,
}

impl Impostor {
    /// Makes itself known to a host's operating system.
    fn meet(card: Attacker, victim: u16) -> Result<Impostor> {
        let incarnation = 0xbad_0000_0001;
        let mut one = Impostor {
            card,
            victim,
            incarnation,
            theirs: 0,
            sequence: 0,
            expected: 0,
            serial: 0,
            heard: Vec::new(),
        };
        let begun = Instant::now();
        while one.theirs == 0 {
            ensure!(begun.elapsed() < PATIENCE, "host {victim} does not answer");
            let probe = UlnWire { kind: ULN_WIRE_PROBE, ..UlnWire::default() };
            one.post(ULN_WELL_KNOWN_PLACES, probe, &[])?;
            one.listen()?;
        }
        Ok(one)
    }

    /// Puts a message into a place of the victim's page for this host.
    fn post(&mut self, place: u32, wire: UlnWire, data: &[u8]) -> Result<()> {
        let (incarnation, to_incarnation) = (self.incarnation, self.theirs);
        let wire = UlnWire { incarnation, to_incarnation, expected: self.expected, ..wire };
        self.serial += 1;
        let mut record = UlnRecord { checksum: 0, serial: self.serial, wire, data: [0; 320] };
        record.data[..data.len()].copy_from_slice(data);
        let length = std::mem::offset_of!(UlnRecord, data) + data.len();
        record.checksum = crc32fast::hash(&record.as_bytes()[4..length]);
        let bytes = record.as_bytes()[..length.next_multiple_of(4)].to_vec();
        let address = SHRIMP_SYSTEM_PAGE * PAGE + u64::from(place * ULN_WELL_KNOWN_PLACE_SIZE);
        self.card.store(self.victim, address, &bytes)
    }

    /// Receives a message of the victim and acknowledges it. Returns how many of our messages the
    /// victim has taken.
    fn listen(&mut self) -> Result<Option<u32>> {
        let Some(data) = self.card.receive()? else { return Ok(None) };
        let mut bytes = data;
        bytes.resize(size_of::<UlnRecord>(), 0);
        let Ok(record) = UlnRecord::read_from_bytes(&bytes) else { bail!("no record came") };
        let wire = record.wire;
        self.theirs = wire.incarnation;
        let is_message = ![ULN_WIRE_ACK, ULN_WIRE_PROBE].contains(&wire.kind);
        if is_message && wire.sequence == self.expected {
            self.expected += 1;
            if wire.kind == ULN_WIRE_CARD {
                self.heard.push(wire);
            }
        }
        if is_message || wire.kind == ULN_WIRE_PROBE {
            let answer = UlnWire { kind: ULN_WIRE_ACK, ..UlnWire::default() };
            self.post(ULN_WELL_KNOWN_PLACES + 1, answer, &[])?;
        }
        Ok((wire.to_incarnation == self.incarnation).then_some(wire.expected))
    }

    /// Sends a message, and waits until the victim has taken it.
    fn say(&mut self, wire: UlnWire, data: &[u8]) -> Result<()> {
        let begun = Instant::now();
        let wire = UlnWire { sequence: self.sequence, ..wire };
        self.post(self.sequence % ULN_WELL_KNOWN_PLACES, wire, data)?;
        loop {
            match self.listen()? {
                Some(expected) if expected == self.sequence + 1 => break,
                Some(_) => {}
                None => self.post(self.sequence % ULN_WELL_KNOWN_PLACES, wire, data)?,
            }
            ensure!(begun.elapsed() < PATIENCE, "message {} is not taken: {wire:?}", self.sequence);
        }
        self.sequence += 1;
        Ok(())
    }

    /// Sends a message about exports and mappings.
    fn say_of(&mut self, reason: u32, (from, to): (u32, u32), body: &[u8]) -> Result<()> {
        let private_length = body.len() as u32;
        let wire = UlnWire { kind: ULN_WIRE_CARD, reason, from, to, private_length, ..UlnWire::default() };
        self.say(wire, body)
    }

    /// Acknowledges the victim's messages without acting on them, until `holds` returns true.
    fn only_acknowledge(&mut self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !holds()? {
            ensure!(begun.elapsed() < 2 * PATIENCE, "it does not come to that: {what}");
            self.listen()?;
        }
        Ok(())
    }

    /// Acknowledges the victim's messages until `holds` is true for the received ones about exports
    /// and mappings.
    fn listen_until(&mut self, holds: impl Fn(&[UlnWire]) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !holds(&self.heard) {
            ensure!(begun.elapsed() < PATIENCE, "the victim says no more than {:?}", self.heard);
            self.listen()?;
        }
        Ok(())
    }

    /// Waits for a message of this kind about exports and mappings. Returns it.
    fn await_said(&mut self, reason: u32) -> Result<UlnWire> {
        let begun = Instant::now();
        while !self.heard.iter().any(|wire| wire.reason == reason) {
            ensure!(begun.elapsed() < PATIENCE, "the victim says nothing of kind {reason}");
            self.listen()?;
        }
        let found = self.heard.iter().position(|wire| wire.reason == reason).context("it was there")?;
        Ok(self.heard.remove(found))
    }

    /// Acts as an exporter, to which the victim maps a page.
    fn accept_mapping(&mut self) -> Result<UlnWire> {
        let asked = self.await_said(SHRIMP_SAY_MAP)?;
        let mut pages = ShrimpPages { first: 0, count: 1, ..ShrimpPages::default() };
        pages.pages[0] = 77;
        self.say_of(SHRIMP_SAY_PAGES, (asked.to, asked.from), pages.as_bytes())?;
        Ok(asked)
    }
}

/// Makes a host wait no longer than 6 seconds for others.
fn be_impatient(lab: &Lab, vm: usize) -> Result<()> {
    set_peer_timeout(lab, vm, 6000)
}

/// Does not give up the impostor, which is silent while it does something else.
fn be_patient(lab: &Lab, vm: usize) -> Result<()> {
    set_peer_timeout(lab, vm, 600_000)
}

fn set_peer_timeout(lab: &Lab, vm: usize, milliseconds: u32) -> Result<()> {
    let line = format!("echo {milliseconds} >/sys/module/hamlyn/parameters/peer_timeout");
    lab.vm(vm).run_as(0, ["sh", "-c", &line])?.finish_text().map(drop)
}

/// Returns a handle of memory that the attacker's host claims to have.
fn attackers_handle() -> Handle {
    Handle::new(ATTACKER.into(), 5, 1234, 4096)
}

/// Returns random numbers, with small and special ones more frequent.
fn plausible(random: &mut Xoshiro256PlusPlus) -> u32 {
    match random.next_u32() % 8 {
        0 => random.next_u32(),
        1 => u32::MAX,
        _ => random.next_u32() % 6,
    }
}

#[test]
fn process_cannot_misuse_calls_pages_or_commands() -> Result<()> {
    let lab = shrimp_lab(2)?;
    let tried = lab.vm(0).run(["shrimp", "trespass"])?.finish()?;
    ensure!(tried == [json!({ "refused": 37, "succeeded": [] })], "{tried:?}");
    for (name, count) in
        [("transfers_refused", 9), ("writes_back", 3), ("commands_mapped_refused", 10), ("stores_refused", 3)]
    {
        let counted = counter(&lab, 0, name)?;
        ensure!(counted == count, "{name}: {counted}, not {count}");
    }
    both_are_usable(&lab)
}

#[test]
fn forged_packets_change_no_memory() -> Result<()> {
    let memory = Memory::mib((MEMORY >> 20) as u32);
    let lab = lab_of(Lab::builder().models(&[catalogue::find("shrimp")?]).vms(2).memory(memory));
    let (mut receiver, mut sender) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (buffer, handle) = export(&mut receiver, 8192)?;
    let mapping = map(&mut sender, &handle, "0 8192", "single")?;
    sender.expect(&format!("fill {mapping} 0 8192 5"), &json!({ "filled": 8192 }))?;
    let mut attacker = Attacker::attach(&lab)?;
    // Each page of the machine's memory, and some that it does not have. The victim's page is among
    // them, and mapped in for another host.
    let pages = MEMORY / PAGE;
    for page in (0..pages + 16).chain([1 << 40, SHRIMP_SYSTEM_PAGE + 1, u64::MAX / PAGE]) {
        attacker.store(0, page * PAGE + 8, b"I was here")?;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0x5eed);
    for _ in 0..3000 {
        let mut bytes = packet(0, ATTACKER, u64::from(random.next_u32()) % MEMORY, &[0xbd; 60]);
        match random.next_u32() % 5 {
            // A flipped bit.
            0 => bytes[random.next_u32() as usize % 80] ^= 1 << (random.next_u32() % 8),
            // Too short, or not as long as its header says.
            1 => bytes.truncate(random.next_u32() as usize % 80),
            2 => bytes = vec![random.next_u32() as u8; 1 + random.next_u32() as usize % 4116],
            // From another host than its header says, or for another host.
            3 => bytes = packet(0, 1, 4096, &[0xbd; 60]),
            _ => bytes = packet(1, ATTACKER, 4096, &[0xbd; 60]),
        }
        if !bytes.is_empty() {
            attacker.send(0, &bytes)?;
        }
    }
    let check = format!("check {buffer} 0 8192 5");
    crate::eventually(|| Ok(receiver.ask(&check)?["arrived"] == true), "what was stored stays")?;
    let counted = || -> Result<u64> {
        let names = ["not_mapped_in", "malformed", "bad_checksum", "wrong_node"];
        names.iter().map(|name| counter(&lab, 0, name)).sum()
    };
    crate::eventually(|| Ok(counted()? > pages + 2000), "all of it is refused, and counted")?;
    for name in ["not_mapped_in", "malformed", "bad_checksum", "wrong_node"] {
        ensure!(counter(&lab, 0, name)? > 100, "{name}");
    }
    lab.check()?;
    both_are_usable(&lab)
}

#[test]
fn invalid_kernel_messages_do_not_affect_other_mappings() -> Result<()> {
    let lab = shrimp_lab(2)?;
    let (mut receiver, mut sender) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (buffer, handle) = export(&mut receiver, 8192)?;
    let mapping = map(&mut sender, &handle, "0 8192", "single")?;
    // The impostor may map this export: it knows the key and the protocol.
    let shared = receiver.ask("export 16384 2")?;
    let key: u64 = text(&shared, "handle").parse::<Handle>()?.key;
    let mut impostor = Impostor::meet(Attacker::attach(&lab)?, 0)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0x5a1d);
    for _ in 0..2000 {
        let mut data = [0_u8; 256];
        random.fill_bytes(&mut data);
        if random.next_u32() % 2 == 0 {
            // A well-formed request: a key, an offset, a length, the first page and the place in
            // it.
            let ask =
                [key, u64::from(plausible(&mut random)) * 4096, u64::from(plausible(&mut random)) * 4096];
            data[..24].copy_from_slice(ask.as_bytes());
            let first =
                [plausible(&mut random), if random.next_u32() % 3 == 0 { plausible(&mut random) } else { 0 }];
            data[24..32].copy_from_slice(first.as_bytes());
        }
        let length = if random.next_u32() % 3 == 0 { random.next_u32() % 257 } else { 256 };
        let wire = UlnWire {
            kind: ULN_WIRE_CARD,
            reason: plausible(&mut random) % 16,
            from: plausible(&mut random),
            to: plausible(&mut random),
            private_length: length,
            ..UlnWire::default()
        };
        impostor.say(wire, &data[..length as usize])?;
    }
    // Mappings of others are unchanged.
    sender.expect(&format!("state {mapping}"), &json!({ "state": "mapped" }))?;
    sender.expect(&format!("store {mapping} 4096 77"), &json!({ "stored": true }))?;
    arrives(&mut receiver, &buffer, 4096, 77)?;
    // It leaves, and its mappings end.
    drop(impostor);
    receiver.expect(&format!("unexport {}", shared["export"]), &json!({ "unexported": true }))?;
    lab.check()?;
    both_are_usable(&lab)
}

#[test]
fn mapper_that_never_releases_is_declared_lost() -> Result<()> {
    let lab = shrimp_lab(2)?;
    be_patient(&lab, 0)?;
    let mut receiver = desk(&lab, 0)?;
    let shared = receiver.ask("export 4096 2")?;
    let handle: Handle = text(&shared, "handle").parse()?;
    let mut impostor = Impostor::meet(Attacker::attach(&lab)?, 0)?;
    let ask = ShrimpAsk { key: handle.key, offset: 0, length: 4096, first: 0, place: 0 };
    impostor.say_of(SHRIMP_SAY_MAP, (9, handle.export), ask.as_bytes())?;
    impostor.await_said(SHRIMP_SAY_PAGES)?;
    be_impatient(&lab, 0)?;
    // It is alive and acknowledges everything.
    let line = format!("unexport {}", shared["export"]);
    let (receiver, done) = while_it_acknowledges(&mut impostor, receiver, &line)?;
    ensure!(done == json!({ "unexported": true }), "{done}");
    // A user that has the card open has its own line in the file.
    drop(receiver);
    ensure!(impostor.heard.iter().any(|wire| wire.reason == SHRIMP_SAY_GONE), "it was told");
    let holders = || lab.vm(0).run_as(0, ["sed", "1d", "/sys/class/shrimp/shrimp0/holders"])?.finish_text();
    crate::eventually(|| Ok(holders()?.is_empty()), "the user's share is given back")?;
    both_are_usable(&lab)
}

/// As many mappings as an export can have, of all its 1,024 pages.
#[test]
fn remote_mappings_are_charged_to_the_exporter() -> Result<()> {
    const MAPPINGS: u32 = 256;
    /// Minimum bytes of a mapping: three bits for each page.
    const SIZE: u64 = 3 * 1024 / 8;
    let lab = shrimp_lab(2)?;
    be_patient(&lab, 0)?;
    let group = "/sys/fs/cgroup/exporter";
    let enter = format!(
        "set -e; mount -t cgroup2 none /sys/fs/cgroup; echo +memory > /sys/fs/cgroup/cgroup.subtree_control; \
         mkdir {group}; echo $$ > {group}/cgroup.procs; exec shrimp desk"
    );
    let mut exporter = Desk(lab.vm(0).run_as(0, ["sh", "-c", &enter])?);
    let shared = exporter.ask("export 4194304 2")?;
    let handle: Handle = text(&shared, "handle").parse()?;
    let charged = || -> Result<u64> {
        let statistics = lab.vm(0).run_as(0, ["cat", &format!("{group}/memory.stat")])?.finish_text()?;
        let line = statistics.iter().find_map(|line| line.strip_prefix("slab ")).context("slab")?;
        Ok(line.parse()?)
    };
    let before = charged()?;
    let mut impostor = Impostor::meet(Attacker::attach(&lab)?, 0)?;
    let ask = ShrimpAsk { key: handle.key, offset: 0, length: 4 << 20, first: 0, place: 0 };
    for mapping in 0..MAPPINGS {
        impostor.say_of(SHRIMP_SAY_MAP, (mapping, handle.export), ask.as_bytes())?;
        impostor.await_said(SHRIMP_SAY_PAGES)?;
    }
    let most = before + u64::from(MAPPINGS) * SIZE;
    impostor.only_acknowledge("the exporter is charged for the mappings", || Ok(charged()? >= most))?;
    be_impatient(&lab, 0)?;
    drop(impostor);
    crate::eventually(|| Ok(charged()? < most), "the mappings of a host that is lost are gone")?;
    both_are_usable(&lab)
}

#[test]
fn store_does_not_wait_forever_for_a_page() -> Result<()> {
    let lab = shrimp_lab(2)?;
    be_impatient(&lab, 0)?;
    let mut sender = desk(&lab, 0)?;
    let mut impostor = Impostor::meet(Attacker::attach(&lab)?, 0)?;
    sender.begin(&format!("map {} 0 4096 single", attackers_handle()))?;
    let asked = impostor.accept_mapping()?;
    let made = sender.answer()?;
    ensure!(made["mapping"].is_u64(), "{made}");
    let part = ShrimpPart { first: 0, count: 1 };
    impostor.say_of(SHRIMP_SAY_INVALIDATE, (asked.to, asked.from), part.as_bytes())?;
    impostor.await_said(SHRIMP_SAY_INVALIDATED)?;
    // The page is requested, and never arrives.
    let mapping = &made["mapping"];
    let stored = while_it_acknowledges(&mut impostor, sender, &format!("store {mapping} 0 5"))?;
    ensure!(stored.1 == json!({ "stored": true }), "{}", stored.1);
    let mut sender = stored.0;
    sender.expect(&format!("state {mapping}"), &json!({ "state": "lost" }))?;
    both_are_usable(&lab)
}

/// Runs a desk's command while the impostor acknowledges everything. Returns the desk and its
/// answer.
fn while_it_acknowledges(
    impostor: &mut Impostor,
    mut desk: Desk<Run>,
    line: &str,
) -> Result<(Desk<Run>, Value)> {
    let line = line.to_owned();
    let asking = std::thread::spawn(move || {
        let answer = desk.ask(&line);
        answer.map(|answer| (desk, answer))
    });
    impostor.only_acknowledge("an answer", || Ok(asking.is_finished()))?;
    asking.join().map_err(|_| anyhow::anyhow!("the desk's thread panicked"))?
}

#[test]
fn map_fails_when_the_exporter_does_not_answer() -> Result<()> {
    let lab = shrimp_lab(2)?;
    be_patient(&lab, 0)?;
    let asking = desk(&lab, 0)?;
    let mut impostor = Impostor::meet(Attacker::attach(&lab)?, 0)?;
    let line = format!("map {} 0 4096 single", attackers_handle());
    be_impatient(&lab, 0)?;
    let (_, answer) = while_it_acknowledges(&mut impostor, asking, &line)?;
    let error = answer["error"].as_str().unwrap_or_default();
    ensure!(error.contains("host 2 did not answer in time"), "{answer}");
    both_are_usable(&lab)
}

#[test]
fn user_cannot_occupy_all_outstanding_map_requests() -> Result<()> {
    /// Outstanding requests that a user may have at a host (`MAX_ASKING_EACH` of the driver).
    const EACH: usize = 8;
    let lab = shrimp_lab(2)?;
    be_patient(&lab, 0)?;
    // Before the requests, which are not answered while a program starts.
    let mut greedy = (0..EACH + 4).map(|_| desk(&lab, 0)).collect::<Result<Vec<_>>>()?;
    let mut other = Desk(lab.vm(0).run_as(1002, ["shrimp", "desk"])?);
    let mut impostor = Impostor::meet(Attacker::attach(&lab)?, 0)?;
    let line = format!("map {} 0 4096 single", attackers_handle());
    greedy.iter_mut().try_for_each(|desk| desk.begin(&line))?;
    impostor.listen_until(|heard| heard.len() == EACH)?;
    other.begin(&line)?;
    impostor.listen_until(|heard| heard.len() > EACH)?;
    ensure!(impostor.heard.len() == EACH + 1, "{} questions at once", impostor.heard.len());
    // The last request is the other user's.
    impostor.heard.drain(..EACH);
    impostor.accept_mapping()?;
    let made = other.answer()?;
    ensure!(made["mapping"].is_u64(), "{made}");
    for mut desk in greedy {
        desk.0.kill(9)?;
        desk.0.wait()?;
    }
    both_are_usable(&lab)
}

#[test]
fn stalled_host_affects_only_its_own_senders() -> Result<()> {
    let lab = shrimp_lab(2)?;
    let (mut sender, mut bystander, mut receiver) = (desk(&lab, 0)?, desk(&lab, 0)?, desk(&lab, 1)?);
    let (buffer, handle) = export(&mut receiver, 4096)?;
    let honest = map(&mut bystander, &handle, "0 4096", "single")?;
    let mut impostor = Impostor::meet(Attacker::attach(&lab)?, 0)?;
    sender.begin(&format!("map {} 0 4096 single", attackers_handle()))?;
    impostor.accept_mapping()?;
    let made = sender.answer()?;
    let (mapping, own) = (made["mapping"].clone(), counter(&lab, 0, "packets_cut_off")?);
    ensure!(mapping.is_u64() && own == 0, "{made}");
    // From now on nothing is received at the attacker's port, while the sender stores to it as fast
    // as it can.
    sender.expect(&format!("flood {mapping}"), &json!({ "flooding": true }))?;
    crate::eventually(|| Ok(counter(&lab, 0, "packets_cut_off")? > 0), "the attacker is cut off")?;
    let reason = "takes too little of what is sent to it";
    crate::eventually(
        || Ok(lab.vm(0).kernel_log().contains(reason)),
        "the driver is told by the card's interrupt",
    )?;
    for value in 1..20 {
        bystander.expect(&format!("store {honest} 0 {value}"), &json!({ "stored": true }))?;
        arrives(&mut receiver, &buffer, 0, value)?;
    }
    bystander
        .fails(&format!("map {} 0 4096 single", attackers_handle()), "host 2 is not there, or is lost")?;
    sender.0.kill(9)?;
    sender.0.wait()?;
    lab.check()?;
    both_are_usable(&lab)
}
