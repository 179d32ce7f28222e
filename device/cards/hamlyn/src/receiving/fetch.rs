//! A fetch-and-op at its destination (section 5.1): executed or refused.

use hamlyn_abi::hamlyn::request::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::ports::{Operation, Packet, Ports};
use zerocopy::{FromZeros, IntoBytes};

use super::Receiving;
use super::admission::admit;
use crate::packet::{FETCH_BYTES, PacketHeader, behind_header};

impl Receiving {
    /// Changes a word of a message area and returns its previous value. Fails with the reason's
    /// counter if the requester may not do that.
    pub(crate) fn fetch(
        &self,
        ports: &Ports<'_>,
        packet: &Packet<'_>,
        header: &PacketHeader,
    ) -> Result<u64, Statistic> {
        let slot = admit(&self.slots, ports.dma, packet.source, header)?.slot;
        if !slot.fetch {
            return Err(Statistic::RefusedFetch);
        }
        let mut body = HamlynFetch::new_zeroed();
        behind_header(packet).take_into(body.as_mut_bytes()).ok_or(Statistic::RefusedPacket)?;
        let operation = operation(header.operation, &body).ok_or(Statistic::RefusedPacket)?;
        let fault = |_| Statistic::RefusedReceiveDma;
        let address = slot.area.locate(ports.dma, header.offset.into()).map_err(fault)?;
        // An aligned word does not straddle two pages.
        if address % u64::from(FETCH_BYTES) != 0 {
            return Err(Statistic::RefusedFetchAddress);
        }
        ports.dma.fetch(address, operation).map_err(fault)
    }
}

/// Returns the operation with its operands, or `None` if the code is unknown.
fn operation(code: u32, body: &HamlynFetch) -> Option<Operation> {
    let HamlynFetch { operand, compare } = *body;
    match code {
        HAMLYN_FETCH_ADD => Some(Operation::Add(operand)),
        HAMLYN_FETCH_AND => Some(Operation::And(operand)),
        HAMLYN_FETCH_OR => Some(Operation::Or(operand)),
        HAMLYN_FETCH_XOR => Some(Operation::Xor(operand)),
        HAMLYN_FETCH_SWAP => Some(Operation::Swap(operand)),
        HAMLYN_FETCH_COMPARE_SWAP => Some(Operation::CompareSwap { compare, swap: operand }),
        _ => None,
    }
}
