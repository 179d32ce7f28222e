//! CLAN protection on three machines: forged, guessed or stale descriptors give no access to any
//! memory.

use std::str::FromStr;

use anyhow::{Result, ensure};
use hamlyn::clan::Descriptor;
use hamlyn_abi::clan::wire::{CLAN_SYSTEM_APERTURE, CLAN_SYSTEM_KEY};
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::clan::{aperture, clan_lab, desk, endpoint, made, nothing_is_left};
use crate::desk::Desk;
use crate::eventually;
use crate::left::log_is_clean;

const LENGTH: usize = 4104;
const REFUSED: [&str; 3] = ["refused_aperture", "refused_access", "refused_range"];

/// Returns how many accesses card 0 has refused, by reason.
fn refused(lab: &Lab) -> Result<[u64; 3]> {
    let card = &lab.card_counters(0)?["card"];
    Ok(REFUSED.map(|name| card[name].as_u64().unwrap_or(0)))
}

/// A process whose memory is watched by a Tripwire and an event queue.
struct Victim {
    desk: Desk<Run>,
    memory: Value,
    descriptor: Descriptor,
    tripwire: Value,
    /// Descriptors of a read-only and of a write-only aperture.
    read_only: Descriptor,
    write_only: Descriptor,
}

impl Victim {
    fn of(lab: &Lab) -> Result<Self> {
        let mut desk = desk(lab, 0)?;
        let (memory, descriptor) = aperture(&mut desk, LENGTH, "both")?;
        let [(_, read_only), (_, write_only)] =
            [aperture(&mut desk, 64, "read")?, aperture(&mut desk, 64, "write")?];
        let (watcher, _) = endpoint(&mut desk, "endpoint 0")?;
        desk.expect(&format!("fill {memory} 5"), &json!({ "filled": LENGTH }))?;
        let tripwire = made(&mut desk, &format!("watch {watcher} {memory} 0 {LENGTH} all"), "tripwire")?;
        desk.expect(&format!("events {watcher}"), &json!({ "registered": true }))?;
        let [descriptor, read_only, write_only] =
            [descriptor, read_only, write_only].map(|text| Descriptor::from_str(&text));
        Ok(Self {
            desk,
            memory,
            descriptor: descriptor?,
            tripwire,
            read_only: read_only?,
            write_only: write_only?,
        })
    }

    /// Checks that the memory is unchanged and that no event was delivered.
    fn is_unharmed(&mut self) -> Result<()> {
        self.desk.expect(&format!("check {} 5", self.memory), &json!({ "arrived": true }))?;
        self.desk.expect(&format!("count {}", self.tripwire), &json!({ "count": 0 }))?;
        self.desk.expect("readable", &json!({ "readable": false }))
    }
}

/// Returns a copy of the descriptor with some bytes changed, and a valid checksum.
fn forged(descriptor: &Descriptor, change: impl FnOnce(&mut [u8])) -> Result<Descriptor> {
    let mut bytes = descriptor.to_bytes();
    change(&mut bytes);
    let sum = crc32fast::hash(&bytes[..28]);
    bytes[28..].copy_from_slice(&sum.to_le_bytes());
    Ok(Descriptor::from_bytes(&bytes)?)
}

/// Attempts a load and a store at byte `at`, and DMA of the whole aperture. Checks that each is
/// refused for the same reason and reported to the process that attempted it.
fn is_refused(lab: &Lab, desk: &mut Desk<Run>, descriptor: &Descriptor, at: usize, why: usize) -> Result<()> {
    let before = refused(lab)?;
    let (own, _) = endpoint(desk, "endpoint 0")?;
    let (memory, _) = aperture(desk, descriptor.len() as usize, "none")?;
    let window = made(desk, &format!("window {own} {descriptor}"), "window")?;
    desk.fails(&format!("fetch {window} {at}"), "refused")?;
    desk.expect(&format!("store {window} {at} 666"), &json!({ "stored": true }))?;
    desk.fails(&format!("get {own} {memory} {descriptor} 1"), "refuse")?;
    // A packet of a DMA write that is too long may itself be within bounds.
    if why != 2 {
        desk.expect(&format!("put {own} {memory} {descriptor} 1"), &json!({ "done": 1 }))?;
    }
    let fault = desk.ask(&format!("fault {own}"))?;
    ensure!(fault["fault"].as_str().is_some_and(|text| text.contains("refused")), "{fault}");
    let mut expected = before;
    expected[why] += if why == 2 { 3 } else { 4 };
    eventually(|| Ok(refused(lab)? == expected), &format!("{before:?} become {expected:?}"))?;
    // Nothing was read into the intruder's own memory, either.
    desk.expect(&format!("own {memory} {}", descriptor.len() as usize / 16 * 8), &json!({ "value": 0 }))?;
    desk.expect(&format!("close-aperture {memory}"), &json!({ "closed": true }))
}

/// The intruder is in the victim's machine, and then in each of the others.
#[test]
fn forged_descriptors_are_refused_locally_and_remotely() -> Result<()> {
    let lab = clan_lab(3)?;
    let mut victim = Victim::of(&lab)?;
    let right = victim.descriptor;
    let mut intruders = (0..3).map(|vm| desk(&lab, vm)).collect::<Result<Vec<_>>>()?;
    for (vm, intruder) in intruders.iter_mut().enumerate() {
        // A key with one bit changed, an aperture number that does not exist, and the operating
        // system's aperture.
        let guessed = forged(&right, |bytes| bytes[12 + vm] ^= 1 << vm)?;
        let invented = forged(&right, |bytes| bytes[8..12].copy_from_slice(&4000_u32.to_le_bytes()))?;
        let system = forged(&right, |bytes| {
            bytes[8..12].copy_from_slice(&CLAN_SYSTEM_APERTURE.to_le_bytes());
            bytes[12..20].copy_from_slice(&CLAN_SYSTEM_KEY.to_le_bytes());
        })?;
        for descriptor in [guessed, invented, system] {
            is_refused(&lab, intruder, &descriptor, 8, usize::from(descriptor == system))?;
        }
        // A word behind the last byte, with a valid key.
        let longer =
            forged(&right, |bytes| bytes[20..28].copy_from_slice(&(LENGTH as u64 + 8).to_le_bytes()))?;
        is_refused(&lab, intruder, &longer, LENGTH, 2)?;
        victim.is_unharmed()?;
    }
    only_what_is_allowed(&lab, &mut victim, &mut intruders[1])?;
    closed_aperture_is_stale_for_all(&lab, &mut victim, &mut intruders)?;
    drop((victim, intruders));
    for vm in 0..3 {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

/// Checks that a read-only aperture cannot be written, and a write-only one cannot be read.
fn only_what_is_allowed(lab: &Lab, victim: &mut Victim, intruder: &mut Desk<Run>) -> Result<()> {
    let before = refused(lab)?[1];
    let (own, _) = endpoint(intruder, "endpoint 0")?;
    let [read, write] = [victim.read_only, victim.write_only];
    let read = made(intruder, &format!("window {own} {read}"), "window")?;
    let write = made(intruder, &format!("window {own} {write}"), "window")?;
    intruder.expect(&format!("store {read} 0 666"), &json!({ "stored": true }))?;
    intruder.expect(&format!("fetch {read} 0"), &json!({ "value": 0 }))?;
    intruder.expect(&format!("store {write} 0 7"), &json!({ "stored": true }))?;
    intruder.fails(&format!("fetch {write} 0"), "refused")?;
    ensure!(refused(lab)?[1] == before + 2);
    // The holder of the descriptor has access. The Tripwire fires for its load and for its store.
    let window = made(intruder, &format!("window {own} {}", victim.descriptor), "window")?;
    let there = intruder.ask(&format!("fetch {window} 8"))?;
    intruder.expect(&format!("store {window} 8 {}", there["value"]), &json!({ "stored": true }))?;
    let count = format!("count {}", victim.tripwire);
    eventually(|| Ok(victim.desk.ask(&count)? == json!({ "count": 2 })), "the Tripwire fires twice")?;
    victim.desk.expect(&format!("check {} 5", victim.memory), &json!({ "arrived": true }))
}

/// Checks that a closed aperture's descriptor is stale for every holder, also when another aperture
/// follows it.
fn closed_aperture_is_stale_for_all(
    lab: &Lab,
    victim: &mut Victim,
    intruders: &mut [Desk<Run>],
) -> Result<()> {
    victim.desk.expect(&format!("close-aperture {}", victim.memory), &json!({ "closed": true }))?;
    let (memory, _) = aperture(&mut victim.desk, LENGTH, "both")?;
    victim.desk.expect(&format!("fill {memory} 6"), &json!({ "filled": LENGTH }))?;
    for intruder in intruders {
        is_refused(lab, intruder, &victim.descriptor, 8, 0)?;
    }
    victim.desk.expect(&format!("check {memory} 6"), &json!({ "arrived": true }))
}
