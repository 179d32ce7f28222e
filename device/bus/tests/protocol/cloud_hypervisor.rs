//! The messages of Cloud Hypervisor over the life of a machine, sent with its own client, the crate
//! `vfio_user`. They are the accesses of `VfioCommon` and `VfioUserPciDevice` in its `pci` crate
//! (v54), in the same order.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use hamlyn_bus::{GuestMemory, ResetCause};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vfio_user::Client as Peer;

use crate::harness::*;
use crate::peer::with_server_for;

const INTX: u32 = 0;
const MSIX: u32 = 2;
/// Flags of `SET_IRQS`: set eventfds to signal, or remove all of them.
const TRIGGER_EVENTFDS: u32 = 4 | 32;
const TRIGGER_NONE: u32 = 1 | 32;

/// Offsets in configuration space.
const COMMAND: u64 = 0x04;
const STATUS: u64 = 0x06;
const BARS: u64 = 0x10;
const CAPABILITIES: u64 = 0x34;
const EXPRESS_ID: u8 = 0x10;
const MSIX_ID: u8 = 0x11;

/// Guest memory: two pieces of one file, as around the hole below 4 GiB. Each has offset, address
/// and size.
const PIECES: [(u64, u64, u64); 2] = [(0, 0, 0x8000), (0x8000, 1 << 32, 0x4000)];
/// Address of the guest's word, in the second piece, and its offset in the file.
const WORD: (u64, u64) = ((1 << 32) + 0x10, 0x8010);

/// Memory as Cloud Hypervisor creates it: a memfd that cannot be sealed.
const TRUSTED: GuestMemory = GuestMemory::Trusted { limit: 1 << 30 };

/// A machine with the device.
struct Machine {
    client: Peer,
    memory: File,
    interrupts: Vec<OwnedFd>,
    express: u64,
    msix: u64,
}

impl Machine {
    /// Adds the device as Cloud Hypervisor does, at its start or by hot plug.
    fn add_device(path: &Path) -> Machine {
        let memory = File::from(memfd_create("memory", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&memory, 0xc000).unwrap();
        let interrupts = (0..VECTORS).map(|_| event()).collect();
        let client = Peer::new(path).unwrap();
        let mut machine = Machine { client, memory, interrupts, express: 0, msix: 0 };
        // The crate reads the flag inverted, so Cloud Hypervisor resets only devices that cannot be
        // reset.
        assert!(!machine.client.resettable());
        machine.find_capabilities();
        assert_eq!(machine.client.get_irq_info(INTX).unwrap().count, 0);
        for (offset, address, size) in PIECES {
            machine.client.dma_map(offset, address, size, machine.memory.as_raw_fd()).unwrap();
        }
        machine.size_bars();
        machine
    }

    fn config<const N: usize>(&mut self, offset: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.client.region_read(CONFIG, offset, &mut bytes).unwrap();
        bytes
    }

    /// Walks the list of capabilities byte by byte.
    fn find_capabilities(&mut self) {
        assert_ne!(u16::from_le_bytes(self.config(STATUS)) & 0x10, 0, "there is a list");
        let [mut at] = self.config(CAPABILITIES);
        while at & 0xfc != 0 {
            let offset = u64::from(at & 0xfc);
            match self.config(offset) {
                [EXPRESS_ID] => self.express = offset,
                [MSIX_ID] => {
                    self.msix = offset;
                    assert_eq!(self.client.get_irq_info(MSIX).unwrap().count, u32::from(VECTORS));
                    assert_eq!(u16::from_le_bytes(self.config(offset + 2)) & 0x7ff, VECTORS - 1);
                    let [table, pending] = [4, 8].map(|more| u32::from_le_bytes(self.config(offset + more)));
                    assert_eq!([table & 7, pending & 7], [MSIX_BAR; 2]);
                }
                _ => {}
            }
            [at] = self.config(offset + 1);
        }
        assert!(self.express != 0 && self.msix != 0);
    }

    /// Writes ones to each BAR, to both halves of a 64-bit one, and to the ROM's, and reads them
    /// back.
    fn size_bars(&mut self) {
        let mut sizes = Vec::new();
        let mut bar = 0;
        while bar < 6 {
            let place = BARS + 4 * bar;
            let flags = u32::from_le_bytes(self.config(place));
            self.client.region_write(CONFIG, place, &[0xff; 4]).unwrap();
            let lower = u32::from_le_bytes(self.config(place)) & !0xf;
            let size = if flags & 4 != 0 {
                self.client.region_write(CONFIG, place + 4, &[0xff; 4]).unwrap();
                let upper = u32::from_le_bytes(self.config(place + 4));
                bar += 1;
                (u64::from(upper) << 32 | u64::from(lower)).wrapping_neg()
            } else {
                u64::from(lower.wrapping_neg())
            };
            sizes.push(size);
            bar += 1;
        }
        self.client.region_write(CONFIG, 0x30, &[0xff; 4]).unwrap();
        assert_eq!(self.config(0x30), [0; 4], "there is no ROM");
        assert_eq!(sizes, [64 << 10, 0, 1 << 20, 8192, 0]);
    }

    /// Enables the device as the guest's driver does: MSI-X first by SET_IRQS, then in
    /// configuration space.
    fn start_driver(&mut self) {
        self.client.region_write(CONFIG, COMMAND, &[6, 0]).unwrap();
        let events: Vec<_> = self.interrupts.iter().map(AsRawFd::as_raw_fd).collect();
        self.client.set_irqs(MSIX, TRIGGER_EVENTFDS, 0, VECTORS.into(), &events).unwrap();
        self.client.region_write(CONFIG, self.msix + 2, &[VECTORS as u8 - 1, 0x80]).unwrap();
    }

    /// Checks that the device accesses memory and interrupts. `times` is the number of calls so
    /// far.
    fn works(&mut self, times: u32) {
        self.client.region_write(REGISTERS, INCREMENT, &WORD.0.to_le_bytes()).unwrap();
        self.client.region_write(REGISTERS, RING, &3_u32.to_le_bytes()).unwrap();
        let mut word = [0; 4];
        rustix::io::pread(&self.memory, &mut word, WORD.1).unwrap();
        assert_eq!(u32::from_le_bytes(word), times);
        eventually(|| signals(&self.interrupts[3]) == 1);
    }

    /// Resets the function as the guest does.
    fn reset_function(&mut self) {
        self.client.region_write(CONFIG, self.express + 8, &[0, 0x80]).unwrap();
        assert_eq!(self.config(COMMAND), [0; 2]);
    }

    /// Removes the device as Cloud Hypervisor does. It unmaps memory only on hot unplug, not when
    /// the machine ends or reboots.
    fn remove_device(mut self, unplug: bool) {
        if unplug {
            for (_, address, size) in PIECES {
                self.client.dma_unmap(address, size).unwrap();
            }
        }
        self.client.set_irqs(MSIX, TRIGGER_NONE, 0, 0, &[]).unwrap();
        self.client.shutdown().unwrap();
    }
}

fn resets(events: &[Event]) -> Vec<ResetCause> {
    let cause = |event: &Event| if let Event::Reset(cause) = event { Some(*cause) } else { None };
    events.iter().filter_map(cause).collect()
}

#[test]
fn machine_boots_and_ends() {
    let function = with_server_for(TRUSTED, |path| {
        let mut machine = Machine::add_device(path);
        machine.start_driver();
        machine.works(1);
        machine.works(2);
        machine.remove_device(false);
    });
    assert!(function.errors.is_empty(), "{:?}", function.errors);
}

#[test]
fn function_reset_keeps_memory_and_eventfds() {
    let function = with_server_for(TRUSTED, |path| {
        let mut machine = Machine::add_device(path);
        machine.start_driver();
        machine.works(1);
        machine.reset_function();
        machine.start_driver();
        machine.works(2);
    });
    assert!(function.errors.is_empty(), "{:?}", function.errors);
    assert!(resets(&function.events).contains(&ResetCause::FunctionLevel), "{:?}", function.events);
}

#[test]
fn reboot_makes_new_connection() {
    let function = with_server_for(TRUSTED, |path| {
        for _ in 0..3 {
            let mut machine = Machine::add_device(path);
            machine.start_driver();
            machine.works(1);
            machine.remove_device(false);
        }
    });
    assert!(function.errors.is_empty(), "{:?}", function.errors);
}

#[test]
fn unplugged_device_loses_memory_until_replugged() {
    let function = with_server_for(TRUSTED, |path| {
        let mut machine = Machine::add_device(path);
        machine.start_driver();
        machine.works(1);
        for (_, address, size) in PIECES {
            machine.client.dma_unmap(address, size).unwrap();
        }
        machine.client.region_write(REGISTERS, INCREMENT, &WORD.0.to_le_bytes()).unwrap();
        for (offset, address, size) in PIECES {
            machine.client.dma_map(offset, address, size, machine.memory.as_raw_fd()).unwrap();
        }
        machine.remove_device(true);
        let mut machine = Machine::add_device(path);
        machine.start_driver();
        machine.works(1);
    });
    assert_eq!(function.errors.len(), 1, "{:?}", function.errors);
    assert!(function.errors[0].contains("not mapped"), "{:?}", function.errors);
}

#[test]
fn client_can_reconnect_after_unclean_exit() {
    with_server_for(TRUSTED, |path| {
        let mut machine = Machine::add_device(path);
        machine.start_driver();
        drop(machine);
        let mut machine = Machine::add_device(path);
        machine.start_driver();
        machine.works(1);
    });
}
