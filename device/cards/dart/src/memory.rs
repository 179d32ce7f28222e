//! What messages reach at their receiver (section 3): endpoints' memory, address registers and
//! programs.

use std::ops::Range;

use hamlyn_abi::dart::command::*;
use hamlyn_abi::family::command::{
    ULN_STATUS_BAD_INDEX, ULN_STATUS_BAD_LENGTH, ULN_STATUS_BAD_VALUE, ULN_STATUS_IN_USE,
};
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::Dma;

use crate::endpoints::{Absent, Endpoint, Piece, Wait};
use crate::model::Options;
use crate::tlb::Tlb;
use crate::translations::{FillRegisters, Report};

/// The Endpoint Table with its translations, the address registers and the program entries.
#[derive(Debug)]
pub(crate) struct Memory {
    endpoints: Table<Endpoint>,
    tlb: Tlb,
    fill: FillRegisters,
    registers: Vec<u64>,
    program: Vec<DartEntry>,
}

impl Memory {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            endpoints: Table::new(options.endpoints),
            tlb: Tlb::new(options.tlb, options.policy),
            fill: FillRegisters::default(),
            registers: vec![0; options.registers as usize],
            program: vec![DartEntry::default(); options.program as usize],
        }
    }

    pub(crate) fn open_endpoint(&mut self, index: u32, body: &DartOpenEndpoint) -> Result<(), Refusal> {
        self.endpoints.check_vacant(index)?;
        self.endpoints.open(index, Endpoint::open(body)?);
        Ok(())
    }

    pub(crate) fn close_endpoint(&mut self, index: u32) -> Result<(), Refusal> {
        let connections = self.endpoints.opened(index)?.connections;
        if connections > 0 {
            return Err(Refusal::new(ULN_STATUS_IN_USE, connections, 0_u32));
        }
        self.endpoints.vacate(index).map(drop)
    }

    /// Returns an endpoint that a command names.
    pub(crate) fn opened_endpoint(&mut self, index: u32) -> Result<&mut Endpoint, Refusal> {
        self.endpoints.opened(index)
    }

    pub(crate) fn endpoint(&self, index: u32) -> Option<&Endpoint> {
        self.endpoints.at(index)
    }

    /// Returns the address space of an endpoint in virtual memory.
    pub(crate) fn space(&self, endpoint: u32) -> Option<u32> {
        self.endpoint(endpoint).and_then(Endpoint::space)
    }

    /// Returns where bytes of an endpoint are. All of them are inside. `writes` means that they
    /// will be written to, not read.
    pub(crate) fn find(
        &mut self,
        dma: &dyn Dma,
        (endpoint, bytes): (u32, Range<u64>),
        wait: &mut Wait,
        writes: bool,
    ) -> Result<Vec<Piece>, Absent> {
        let endpoint = self.endpoints.at(endpoint).ok_or(Absent::Missing(0))?;
        endpoint.find(dma, &mut self.tlb, wait, bytes, writes)
    }

    /// Returns the page that the driver reports on.
    pub(crate) fn fill_registers(&mut self) -> &mut FillRegisters {
        &mut self.fill
    }

    /// Handles the driver's report that a page is there, or nowhere.
    pub(crate) fn fill(&mut self, frame: u64) -> Report {
        let report = self.fill.report(frame);
        if let Some(frame) = report.frame {
            self.tlb.fill(report.page, frame);
        }
        report
    }

    /// Handles the driver's report that `count` pages have moved or gone. Returns their address
    /// space and their numbers.
    pub(crate) fn invalidate(&mut self, count: u64) -> (u32, Range<u64>) {
        let (space, numbers) = self.fill.range(count);
        self.tlb.invalidate(space, numbers.clone());
        (space, numbers)
    }

    /// Returns an address register.
    pub(crate) fn register(&self, number: usize) -> Option<u64> {
        self.registers.get(number).copied()
    }

    pub(crate) fn set_register(&mut self, number: usize, value: u64) {
        if let Some(register) = self.registers.get_mut(number) {
            *register = value;
        }
    }

    /// Returns a connection's window of registers.
    pub(crate) fn window(&self, window: &Range<usize>) -> &[u64] {
        &self.registers[window.clone()]
    }

    /// Returns an entry of a connection's program.
    pub(crate) fn entry(&self, program: &Range<usize>, number: usize) -> Option<&DartEntry> {
        self.program.get(program.clone())?.get(number)
    }

    pub(crate) fn set_registers(&mut self, first: u32, body: &DartValues) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        set(&mut self.registers, first, &body.values[..checked_count(body.count)?])
    }

    pub(crate) fn set_program(&mut self, first: u32, body: &DartProgram) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let entries = &body.entries[..checked_count(body.count)?];
        entries.iter().try_for_each(checked_entry)?;
        set(&mut self.program, first, entries)
    }
}

/// Copies values to their places, if all of these exist.
fn set<T: Copy>(places: &mut [T], first: u32, values: &[T]) -> Result<(), Refusal> {
    let limit = places.len() as u32;
    let places = places.get_mut(first as usize..).and_then(|places| places.get_mut(..values.len()));
    places.ok_or(Refusal::new(ULN_STATUS_BAD_INDEX, first, limit))?.copy_from_slice(values);
    Ok(())
}

fn checked_entry(entry: &DartEntry) -> Result<(), Refusal> {
    match entry.flags {
        0 => Ok(()),
        DART_ENTRY_OPERAND => Refusal::unless_zero(entry.operand),
        flags => Err(Refusal::new(ULN_STATUS_BAD_VALUE, flags, DART_ENTRY_OPERAND)),
    }
}

fn checked_count(count: u32) -> Result<usize, Refusal> {
    if (1..=DART_MAX_VALUES).contains(&count) {
        Ok(count as usize)
    } else {
        Err(Refusal::new(ULN_STATUS_BAD_LENGTH, count, DART_MAX_VALUES))
    }
}
