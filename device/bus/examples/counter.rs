//! The smallest card: a register that counts its reads, a register that interrupts, a mapped page.
//!
//! ```text
//! cargo run -p hamlyn-bus --example counter -- counter.sock
//! qemu-system-x86_64 -machine q35,memory-backend=mem \
//!     -object memory-backend-memfd,id=mem,size=512M,share=on \
//!     -device '{"driver":"vfio-user-pci",
//!               "socket":{"type":"unix","path":"counter.sock"},"x-msg-timeout":60000}' …
//! ```

use hamlyn_bus::{Answer, Area, Bar, BarRead, Bus, Description, Function, Msix, ResetCause, Server, Widths};
use rustix::event::{PollFd, PollFlags, poll};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::Ordering;

const REGISTERS: usize = 0;
const WINDOW: usize = 2;
/// Contains the number of reads of this register so far.
const COUNT: u64 = 0;
/// Writing a vector raises that interrupt.
const RING: u64 = 4;

#[derive(Default)]
struct Counter {
    reads: u32,
}

impl Function for Counter {
    fn bar_read(&mut self, bus: &Bus, read: BarRead, data: &mut [u8]) -> Answer {
        if read.bar == REGISTERS && read.offset == COUNT {
            self.reads += 1;
            data.copy_from_slice(&self.reads.to_le_bytes());
            // The guest also sees the count in its mapped page.
            let page = bus.pages(WINDOW);
            page.map(|page| page.store_u32(0, self.reads, Ordering::Release));
        }
        Answer::Now
    }

    fn bar_write(&mut self, bus: &Bus, bar: usize, offset: u64, data: &[u8]) {
        if bar == REGISTERS && offset == RING {
            if let Err(error) = bus.interrupts.interrupt(u16::from_le_bytes([data[0], data[1]])) {
                println!("{error}");
            }
        }
    }

    fn reset(&mut self, _: &Bus, cause: ResetCause) {
        println!("reset: {cause:?}");
        self.reads = 0;
    }

    fn bus_master_changed(&mut self, _: &Bus, enabled: bool) {
        println!("bus mastering: {enabled}");
    }

    fn memory_changed(&mut self, bus: &Bus) {
        println!("guest memory: {} maps", bus.dma.map_count());
    }
}

fn description() -> Description {
    let bar = |index, size, is_64bit, areas| Bar {
        index,
        size,
        is_64bit,
        prefetchable: is_64bit,
        areas,
        widths: Widths::DWORD,
    };
    Description {
        vendor: 0x1234,
        device: 0x0001,
        revision: 0,
        class: 0xff_0000,
        subsystem_vendor: 0x1234,
        subsystem: 0x0001,
        bars: vec![
            bar(REGISTERS, 4096, false, vec![]),
            bar(WINDOW, 64 << 10, true, vec![Area { offset: 0, size: 4096 }]),
        ],
        msix: Some(Msix { bar: 4, vectors: 4 }),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).init();
    let path = std::env::args().nth(1).ok_or("usage: counter SOCKET")?;
    let mut server = Server::bind(Path::new(&path), description())?;
    let mut counter = Counter::default();
    loop {
        poll(&mut [PollFd::new(&server, PollFlags::IN)], None)?;
        server.process(&mut counter)?;
    }
}
