//! The card's memory (sections 2.6, 6.6): each open object has its bytes, and an object that finds
//! none is refused.

use crate::support::Host;
use hamlyn_abi::family::command::{
    ULN_COMMAND_BODY, ULN_REG_COMMAND_PAGE, ULN_STATUS_DMA_FAULT, ULN_STATUS_IN_USE, ULN_STATUS_MEMORY_FULL,
};
use hamlyn_abi::family::control::{ULN_CONTROL_ENABLE, ULN_CONTROL_RESET, ULN_REG_CONTROL};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::registers::*;
use hamlyn_abi::hamlyn::sram::*;
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_test_host::{Commands, Refusal};

/// The directory has 2 + 4 + 30 numbers: 144 bytes, in three units.
const OPTIONS: HamlynOptions =
    HamlynOptions { sram_size: 4096, termini: 2, queues: 4, ..HamlynOptions::DEFAULT };
const ROOM: u32 = 4096 - 192;

fn left(host: &mut Host) -> (u64, u64) {
    (host.read_register(HAMLYN_REG_SRAM_LONGEST, 4), host.read_register(HAMLYN_REG_SRAM_FREE, 4))
}

fn open_slot(host: &mut Host, index: u32) -> Result<HamlynSramPlace, Refusal> {
    let area = host.area(64, 0).abi;
    let slot = HamlynOpenSlot { area, queue: HAMLYN_NO_QUEUE, ..Default::default() };
    host.command(HAMLYN_COMMAND_OPEN_SLOT, index, slot)?;
    Ok(host.read(host.command_page() + u64::from(ULN_COMMAND_BODY)))
}

fn full(needs: u32, free: u32) -> Refusal {
    Refusal { status: ULN_STATUS_MEMORY_FULL, value: needs.into(), limit: free.into() }
}

#[test]
fn slots_are_refused_when_memory_is_full() {
    let mut host = Host::new(0, OPTIONS);
    assert_eq!(host.read_register(HAMLYN_REG_SLOTS, 4), 30);
    assert_eq!(left(&mut host), (ROOM.into(), ROOM.into()));
    host.open_terminus(0);
    host.open_queue(4);
    let room = ROOM - HAMLYN_SRAM_TERMINUS - HAMLYN_SRAM_QUEUE;
    let slots = room / HAMLYN_SRAM_SLOT;
    for slot in 0..slots {
        let place = open_slot(&mut host, slot).unwrap();
        assert_eq!(place, HamlynSramPlace { address: 192 + slot * 128, bytes: 128 });
    }
    assert_eq!(open_slot(&mut host, slots), Err(full(128, room % 128)));
    // Free memory that is too small, or in two pieces, is not enough for a terminus.
    for slot in [0, 2, 4, 6] {
        host.command(HAMLYN_COMMAND_CLOSE_SLOT, slot, 0_u64).unwrap();
    }
    let free = 512 + room % 128;
    let body = HamlynOpenTerminus { status: host.page(), weight: 1, ..Default::default() };
    assert_eq!(host.command(HAMLYN_COMMAND_OPEN_TERMINUS, 1, body), Err(full(512, free)));
    assert_eq!(left(&mut host), (128, free.into()));
    for slot in [1, 3] {
        host.command(HAMLYN_COMMAND_CLOSE_SLOT, slot, 0_u64).unwrap();
    }
    assert_eq!(left(&mut host).0, 640);
    host.open_terminus(1);
}

#[test]
fn reset_frees_all_memory() {
    let mut host = Host::new(0, OPTIONS);
    host.open_terminus(0);
    host.open_queue(4);
    open_slot(&mut host, 3).unwrap();
    let page = host.command_page();
    host.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_RESET.into());
    assert_eq!(left(&mut host), (ROOM.into(), ROOM.into()));
    host.write_register(ULN_REG_COMMAND_PAGE, 8, page);
    host.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_ENABLE.into());
    assert_eq!(open_slot(&mut host, 0).unwrap().address, 192);
}

#[test]
fn close_frees_exactly_what_open_took() {
    let mut host = Host::new(0, OPTIONS);
    host.open_queue(4);
    host.command(HAMLYN_COMMAND_CLOSE_QUEUE, 0, 0_u64).unwrap();
    host.open_terminus(1);
    host.command(HAMLYN_COMMAND_CLOSE_TERMINUS, 1, 0_u64).unwrap();
    open_slot(&mut host, 7).unwrap();
    let in_use = Refusal { status: ULN_STATUS_IN_USE, value: 7, limit: 30 };
    assert_eq!(open_slot(&mut host, 7), Err(in_use));
    assert_eq!(left(&mut host).1, u64::from(ROOM - HAMLYN_SRAM_SLOT));
    host.command(HAMLYN_COMMAND_CLOSE_SLOT, 7, 0_u64).unwrap();
    assert_eq!(left(&mut host), (ROOM.into(), ROOM.into()));
}

#[test]
fn refused_terminus_keeps_no_memory() {
    let mut host = Host::new(0, OPTIONS);
    let body = HamlynOpenTerminus { status: 1 << 40, weight: 1, ..Default::default() };
    let refused = host.command(HAMLYN_COMMAND_OPEN_TERMINUS, 0, body).unwrap_err();
    assert_eq!(refused.status, ULN_STATUS_DMA_FAULT);
    assert_eq!(left(&mut host), (ROOM.into(), ROOM.into()));
}
