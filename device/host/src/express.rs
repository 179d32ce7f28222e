//! PCI functions that expose a card's express memory (`hamlyn_abi::family::express`): their
//! registers and the position of the parts. There is one function for each file that the card has
//! received.

use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use hamlyn_abi::family::express as abi;
use hamlyn_bus::{
    Answer, Area, Backing, Bar, BarRead, Bus, Description, Function, GuestMemory, ResetCause, Server,
    ServerError, Widths,
};
use hamlyn_door::{Kind, Listener};
use hamlyn_fabric::HostId;
use hamlyn_fabric::express::{Holding, MOST_HOSTS, Part, Portion};
use serde_json::{Value, json};

use super::function::CardFunction;
use crate::rundir::{express_path, express_paths};

/// The function's only BAR.
const BAR: usize = 0;

/// A card's functions with express memory.
pub(super) struct ExpressServers {
    servers: Vec<ExpressServer>,
    part: u64,
}

/// The server of one function.
struct ExpressServer {
    server: Server,
    registers: Registers,
}

impl ExpressServers {
    /// Listens beside the card's socket, with one socket for each file that the card has received.
    /// `card` describes the card's first function.
    pub(super) fn start(socket: &Path, holding: &Holding, card: &Description) -> anyhow::Result<Self> {
        let servers = holding.portions().iter().map(|portion| {
            let registers = Registers::new(holding, portion.clone());
            let path = express_path(socket, portion.peer().map(|peer| peer.0));
            let description = registers.description(card.clone());
            let backing = Backing { bar: BAR, file: portion.file().clone() };
            let mut server = Server::bind_over(&path, description, Some(backing))?;
            server.set_guest_memory(GuestMemory::Unused);
            Ok(ExpressServer { server, registers })
        });
        let part = holding.shape().part().bytes();
        Ok(Self { servers: servers.collect::<anyhow::Result<_>>()?, part })
    }

    /// Returns the servers, in order of their numbers.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().map(|express| &express.server)
    }

    /// Returns the descriptors to wait for, with the servers' numbers.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (u8, RawFd)> {
        (0..).zip(self.servers().map(AsRawFd::as_raw_fd))
    }

    /// Handles the machine's messages for one function. `bus` is the first function's.
    pub(super) fn serve(
        &mut self,
        number: u8,
        card: &mut CardFunction,
        bus: &Bus,
    ) -> Result<(), ServerError> {
        if let Some(ExpressServer { server, registers }) = self.servers.get_mut(usize::from(number)) {
            server.process(&mut ExpressFunction { registers, card, bus })?;
        }
        Ok(())
    }

    /// Returns the counters for `hamlyn stat`.
    pub(super) fn counters(&self) -> Value {
        let machine = self.servers().all(Server::has_client);
        json!({ "part": self.part, "functions": self.servers.len(), "machine": machine })
    }
}

/// Removes sockets of express memory functions that a killed card has left behind: they would be
/// taken for this card's. This card creates its own afterwards.
pub(super) fn clear(socket: &Path) -> anyhow::Result<()> {
    for path in express_paths(socket).filter(|path| path.exists()) {
        // Dropping the listener removes its socket.
        drop(Listener::bind(&path, Kind::Stream, 1)?);
    }
    Ok(())
}

/// The function's register contents.
#[derive(Debug)]
struct Registers {
    portion: Portion,
    number: u64,
}

impl Registers {
    fn new(holding: &Holding, portion: Portion) -> Registers {
        Registers { portion, number: holding.number().get() }
    }

    /// Returns the size of each part in bytes.
    fn part(&self) -> u64 {
        self.portion.shape().part().bytes()
    }

    /// Handles an aligned read of 4 or 8 bytes outside the mapped areas. `scratch` reads the card's
    /// scratch register.
    fn read(&self, offset: u64, width: usize, scratch: impl FnOnce() -> u32) -> u64 {
        if offset == u64::from(abi::ULN_EXPRESS_REG_SCRATCH) {
            return scratch().into();
        }
        let low = u64::from(self.word(offset));
        if width == 8 { low | u64::from(self.word(offset + 4)) << 32 } else { low }
    }

    /// Returns four bytes of the registers, except for the card's scratch register.
    fn word(&self, offset: u64) -> u32 {
        let half = |value: u64| if offset % 8 == 0 { value as u32 } else { (value >> 32) as u32 };
        let Ok(word) = u32::try_from(offset) else { return 0 };
        match word {
            abi::ULN_EXPRESS_REG_MAGIC => abi::ULN_EXPRESS_MAGIC,
            abi::ULN_EXPRESS_REG_VERSION => abi::ULN_EXPRESS_VERSION,
            abi::ULN_EXPRESS_REG_HOST => self.portion.host().0.into(),
            abi::ULN_EXPRESS_REG_HOSTS => self.portion.shape().hosts().into(),
            _ => match word & !7 {
                abi::ULN_EXPRESS_REG_PART => half(self.part()),
                abi::ULN_EXPRESS_REG_MEMORY => half(self.number),
                place => half(self.part_for(place).unwrap_or(0)),
            },
        }
    }

    /// Returns the value of a register of the table of parts.
    fn part_for(&self, place: u32) -> Option<u64> {
        let host = place.checked_sub(abi::ULN_EXPRESS_REG_PARTS)? / 8;
        self.portion.place(HostId(u16::try_from(host).ok()?))
    }

    /// Returns the areas of the parts. Contiguous parts are merged.
    fn areas(&self) -> Vec<Area> {
        let mut areas: Vec<Area> = Vec::new();
        let hosts = (0..self.portion.shape().hosts()).map(HostId);
        for offset in hosts.filter_map(|host| self.portion.place(host)) {
            match areas.last_mut() {
                Some(last) if last.offset + last.size == offset => last.size += self.part(),
                _ => areas.push(Area { offset, size: self.part() }),
            }
        }
        areas
    }

    /// Returns the description of this function, for a card whose first function is `card`.
    fn description(&self, card: Description) -> Description {
        let bar = Bar {
            index: BAR,
            size: self.portion.shape().bytes().next_power_of_two(),
            is_64bit: true,
            prefetchable: true,
            areas: self.areas(),
            widths: Widths::DWORD | Widths::QWORD,
        };
        Description {
            device: abi::ULN_PCI_EXPRESS,
            class: abi::ULN_PCI_EXPRESS_CLASS,
            bars: vec![bar],
            msix: None,
            ..card
        }
    }
}

/// The function while it handles a message.
struct ExpressFunction<'a> {
    registers: &'a Registers,
    card: &'a mut CardFunction,
    /// The first function's bus.
    bus: &'a Bus,
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
    abi::ULN_EXPRESS_HOSTS == MOST_HOSTS as u32
        && abi::ULN_EXPRESS_LEAST_PART as u64 == Part::LEAST
        && abi::ULN_EXPRESS_MOST_PART as u64 == Part::MOST,
    "guests and the fabric have the same limits"
);

#[cfg(test)]
mod tests {
    use hamlyn_fabric::express::{Form, Memory, Shape};

    use super::*;

    const PART: u64 = 1 << 20;

    /// Returns the registers of each function of a host.
    fn all_registers(form: Form, host: u16, hosts: u16) -> Vec<Registers> {
        let mut memory = Memory::new(Shape::new(form, hosts, Part::default()).unwrap()).unwrap();
        let holding = memory.holding(HostId(host)).unwrap();
        holding.portions().iter().map(|portion| Registers::new(&holding, portion.clone())).collect()
    }

    fn registers(host: u16, hosts: u16) -> Registers {
        all_registers(Form::Shared, host, hosts).remove(0)
    }

    /// Reads the table's entries of the first `hosts` hosts.
    fn table(registers: &Registers, hosts: u16) -> Vec<u64> {
        let place = |host| abi::ULN_EXPRESS_REG_PARTS + 8 * u32::from(host);
        (0..hosts).map(|host| registers.read(place(host).into(), 8, || 0)).collect()
    }

    #[test]
    fn registers_describe_the_memory() {
        let registers = registers(2, 5);
        let read = |offset: u32, width| registers.read(offset.into(), width, || 0x1996);
        assert_eq!(read(abi::ULN_EXPRESS_REG_MAGIC, 4), 0x5058_4548);
        assert_eq!(read(abi::ULN_EXPRESS_REG_MAGIC, 8), 0x0001_0000_5058_4548);
        assert_eq!(read(abi::ULN_EXPRESS_REG_HOST, 4), 2);
        assert_eq!(read(abi::ULN_EXPRESS_REG_HOSTS, 4), 5);
        assert_eq!(read(abi::ULN_EXPRESS_REG_PART, 8), PART);
        assert_eq!(read(abi::ULN_EXPRESS_REG_MEMORY, 8), registers.number);
        assert_eq!(read(abi::ULN_EXPRESS_REG_MEMORY + 4, 4), registers.number >> 32);
        assert_eq!(read(abi::ULN_EXPRESS_REG_SCRATCH, 4), 0x1996);
        // By row and column of five.
        let cells = [2, 5 + 2, 0, 2 * 5 + 3, 2 * 5 + 4, 0];
        assert_eq!(table(&registers, 6), cells.map(|cell| cell * PART));
    }

    #[test]
    fn undefined_registers_read_as_zero() {
        let registers = registers(0, 64);
        let said: Vec<u64> =
            (0..1024).map(|word| 4 * word).filter(|&offset| registers.read(offset, 4, || 0) != 0).collect();
        // Magic, version, hosts, part and number, then the table, whose entries have 64 bits and
        // are below 4 GiB here.
        let table = (1..64).map(|host| 0x100 + 8 * host);
        assert_eq!(said, [0, 4, 0xc, 0x10, 0x18, 0x1c].into_iter().chain(table).collect::<Vec<_>>());
        for offset in [4096, 0x1_0000, 1 << 32, (4 << 30) - 8] {
            assert_eq!(registers.read(offset, 8, || 1), 0, "{offset:#x}");
        }
    }

    #[test]
    fn host_maps_only_its_row_and_column() {
        for hosts in [1, 2, 3, 64] {
            for host in [0, 1, hosts / 2, hosts - 1].into_iter().filter(|host| *host < hosts) {
                let registers = registers(host, hosts);
                let shape = registers.portion.shape();
                let areas = registers.areas();
                let has = |offset: u64| {
                    areas.iter().any(|area| (area.offset..area.offset + area.size).contains(&offset))
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
                let mapped: u64 = areas.iter().map(|area| area.size).sum();
                assert_eq!(mapped, u64::from(hosts - 1) * PART);
                assert!(!has(0), "the registers");
            }
        }
    }

    #[test]
    fn isolated_form_has_one_function_per_peer() {
        let functions = all_registers(Form::Isolated, 2, 5);
        for (function, peer) in functions.iter().zip([0, 1, 3, 4]) {
            let there = (0..6).map(|host| if host == peer { PART } else { 0 });
            assert_eq!(table(function, 6), there.collect::<Vec<_>>());
            assert_eq!(function.areas(), [Area { offset: PART, size: PART }]);
            assert_eq!(function.number, functions[0].number);
            assert_eq!(function.read(abi::ULN_EXPRESS_REG_HOSTS.into(), 4, || 0), 5);
        }
        assert_eq!(functions.len(), 4);
    }
}
