//! The function that shows a card's express memory (`hamlyn_abi::family::express`): what its registers say, and where parts lie.

use hamlyn_abi::family::express as abi;
use hamlyn_bus::{Answer, Area, Backing, Bar, BarRead, Bus, Description, Function, ResetCause, Widths};
use hamlyn_fabric::HostId;
use hamlyn_fabric::express::{MOST_HOSTS, Memory, Part, Shape};

use super::function::CardFunction;

/// Its only BAR.
const BAR: usize = 0;

/// What the function says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registers {
    host: HostId,
    shape: Shape,
    number: u64,
}

impl Registers {
    /// As host `host` sees a memory.
    pub(super) fn new(host: HostId, memory: &Memory) -> Registers {
        Registers { host, shape: memory.shape(), number: memory.number().get() }
    }

    /// Bytes of each part.
    pub(super) fn part(&self) -> u64 {
        self.shape.part().bytes()
    }

    /// A read of 4 or 8 bytes, aligned, of what is not mapped. `scratch` asks the card.
    fn read(&self, offset: u64, width: usize, scratch: impl FnOnce() -> u32) -> u64 {
        if offset == u64::from(abi::HAMLYN_EXPRESS_REG_SCRATCH) {
            return scratch().into();
        }
        let low = u64::from(self.word(offset));
        if width == 8 { low | u64::from(self.word(offset + 4)) << 32 } else { low }
    }

    /// Four bytes of the registers, but for the one that the card has.
    fn word(&self, offset: u64) -> u32 {
        let half = |value: u64| if offset % 8 == 0 { value as u32 } else { (value >> 32) as u32 };
        let Ok(word) = u32::try_from(offset) else { return 0 };
        match word {
            abi::HAMLYN_EXPRESS_REG_MAGIC => abi::HAMLYN_EXPRESS_MAGIC,
            abi::HAMLYN_EXPRESS_REG_VERSION => abi::HAMLYN_EXPRESS_VERSION,
            abi::HAMLYN_EXPRESS_REG_HOST => self.host.0.into(),
            abi::HAMLYN_EXPRESS_REG_HOSTS => self.shape.hosts().into(),
            _ => match word & !7 {
                abi::HAMLYN_EXPRESS_REG_PART => half(self.part()),
                abi::HAMLYN_EXPRESS_REG_MEMORY => half(self.number),
                place => half(self.part_for(place).unwrap_or(0)),
            },
        }
    }

    /// What a register of the table says.
    fn part_for(&self, place: u32) -> Option<u64> {
        let host = place.checked_sub(abi::HAMLYN_EXPRESS_REG_PARTS)? / 8;
        self.shape.place(self.host, HostId(u16::try_from(host).ok()?))
    }

    /// The parts, those that follow each other in one.
    fn areas(&self) -> Vec<Area> {
        let mut areas: Vec<Area> = Vec::new();
        for offset in (0..self.shape.hosts()).filter_map(|host| self.shape.place(self.host, HostId(host))) {
            match areas.last_mut() {
                Some(last) if last.offset + last.size == offset => last.size += self.part(),
                _ => areas.push(Area { offset, size: self.part() }),
            }
        }
        areas
    }

    /// The function beside a card whose first function is `card`.
    pub(super) fn description(&self, card: Description) -> Description {
        let bar = Bar {
            index: BAR,
            size: self.shape.bytes().next_power_of_two(),
            is_64bit: true,
            prefetchable: true,
            areas: self.areas(),
            widths: Widths::DWORD | Widths::QWORD,
        };
        Description {
            device: abi::HAMLYN_PCI_EXPRESS,
            class: abi::HAMLYN_PCI_EXPRESS_CLASS,
            bars: vec![bar],
            msix: None,
            ..card
        }
    }
}

/// What is behind the function's BAR.
pub(super) fn backing(memory: &Memory) -> Backing {
    Backing { bar: BAR, file: memory.file().clone() }
}

/// The function, for the time of a message.
pub(super) struct ExpressFunction<'a> {
    pub(super) registers: Registers,
    pub(super) card: &'a mut CardFunction,
    /// The first function's.
    pub(super) bus: &'a Bus,
}

impl Function for ExpressFunction<'_> {
    fn bar_read(&mut self, _: &Bus, read: BarRead, data: &mut [u8]) -> Answer {
        let (card, bus) = (&mut *self.card, self.bus);
        let value = self.registers.read(read.offset, data.len(), || card.scratch(bus));
        data.copy_from_slice(&value.to_le_bytes()[..data.len()]);
        Answer::Now
    }

    fn bar_write(&mut self, _: &Bus, _: usize, _: u64, _: &[u8]) {}

    fn reset(&mut self, _: &Bus, cause: ResetCause) {
        tracing::debug!("reset of the express memory's function ({cause:?})");
    }
}

const _: () = assert!(
    abi::HAMLYN_EXPRESS_HOSTS == MOST_HOSTS as u32
        && abi::HAMLYN_EXPRESS_LEAST_PART as u64 == Part::LEAST
        && abi::HAMLYN_EXPRESS_MOST_PART as u64 == Part::MOST,
    "guests and the fabric have the same limits"
);

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 1 << 20;

    fn registers(host: u16, hosts: u16) -> (Registers, Memory) {
        let memory = Memory::new(Shape::new(hosts, Part::default()).unwrap()).unwrap();
        (Registers::new(HostId(host), &memory), memory)
    }

    #[test]
    fn registers_say_what_the_memory_is() {
        let (registers, memory) = registers(2, 5);
        let read = |offset: u32, width| registers.read(offset.into(), width, || 0x1996);
        assert_eq!(read(abi::HAMLYN_EXPRESS_REG_MAGIC, 4), 0x5058_4548);
        assert_eq!(read(abi::HAMLYN_EXPRESS_REG_MAGIC, 8), 0x0001_0000_5058_4548);
        assert_eq!(read(abi::HAMLYN_EXPRESS_REG_HOST, 4), 2);
        assert_eq!(read(abi::HAMLYN_EXPRESS_REG_HOSTS, 4), 5);
        assert_eq!(read(abi::HAMLYN_EXPRESS_REG_PART, 8), PART);
        let number = memory.number().get();
        assert_eq!(read(abi::HAMLYN_EXPRESS_REG_MEMORY, 8), number);
        assert_eq!(read(abi::HAMLYN_EXPRESS_REG_MEMORY + 4, 4), number >> 32);
        assert_eq!(read(abi::HAMLYN_EXPRESS_REG_SCRATCH, 4), 0x1996);
        // By row and column of five.
        let cells = [2, 5 + 2, 0, 2 * 5 + 3, 2 * 5 + 4, 0];
        for (host, cell) in (0..).zip(cells) {
            assert_eq!(read(abi::HAMLYN_EXPRESS_REG_PARTS + 8 * host, 8), cell * PART, "host {host}");
        }
    }

    #[test]
    fn all_else_reads_as_zero() {
        let (registers, _) = registers(0, 64);
        let said: Vec<u64> =
            (0..1024).map(|word| 4 * word).filter(|&offset| registers.read(offset, 4, || 0) != 0).collect();
        // Magic, version, hosts, part and number; the table, whose numbers have 64 bits and are below 4 GiB here.
        let table = (1..64).map(|host| 0x100 + 8 * host);
        assert_eq!(said, [0, 4, 0xc, 0x10, 0x18, 0x1c].into_iter().chain(table).collect::<Vec<_>>());
        for offset in [4096, 0x1_0000, 1 << 32, (4 << 30) - 8] {
            assert_eq!(registers.read(offset, 8, || 1), 0, "{offset:#x}");
        }
    }

    #[test]
    fn a_host_has_its_row_and_column_mapped_and_nothing_else() {
        for hosts in [1, 2, 3, 64] {
            for host in [0, 1, hosts / 2, hosts - 1] {
                let (registers, memory) = registers(host, hosts);
                let shape = memory.shape();
                let has = |offset: u64| {
                    registers
                        .areas()
                        .iter()
                        .any(|area| (area.offset..area.offset + area.size).contains(&offset))
                };
                for (one, other) in (0..hosts).flat_map(|one| (one + 1..hosts).map(move |other| (one, other)))
                {
                    let place = shape.place(HostId(one), HostId(other)).unwrap();
                    let is_its = one == host || other == host;
                    assert_eq!(
                        [has(place), has(place + PART - 1)],
                        [is_its; 2],
                        "{one} and {other} at {host}"
                    );
                }
                let mapped: u64 = registers.areas().iter().map(|area| area.size).sum();
                assert_eq!(mapped, u64::from(hosts).saturating_sub(1) * PART * u64::from(host < hosts));
                assert!(!has(0), "the registers");
            }
        }
    }
}
