//! Requests of honest processes that are wrong in one way, which the card must refuse for that
//! reason.

use hamlyn::{Error, Message};
use hamlyn_abi::hamlyn::request::{
    HAMLYN_BODY_SIZE, HAMLYN_FAST_MODE, HAMLYN_MAX_GATHER, HAMLYN_MAX_METADATA, HAMLYN_REQUEST_DMA,
    HAMLYN_REQUEST_INLINE_METADATA, HAMLYN_SEND_BUFFERS, HamlynGather, HamlynRequest,
};
use hamlyn_abi::hamlyn::statistics::Statistic;

use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::around::Around;
use crate::hamlyn::outlet::Errand;

/// Posts an invalid request as an honest process.
pub(super) fn blunder(around: &mut Around<'_>, host: usize, process: usize) -> Result<(), Violation> {
    let machine = around.hosts[host].machine.clone();
    let Some(sender) = around.hosts[host].program_mut(process) else { return Ok(()) };
    let (tag, length) =
        sender.outlet.buffers().first().map_or((0, 0), |buffer| (buffer.tag(), buffer.len() as u32));
    let unset =
        (0..=HAMLYN_SEND_BUFFERS).filter(|tag| sender.outlet.buffers().iter().all(|set| set.tag() != *tag));
    let unset = around.rng.pick(&unset.collect::<Vec<u32>>()).unwrap_or(HAMLYN_SEND_BUFFERS);
    if let Some(Errand { ticket, .. }) = sender.outbox.front() {
        let past = sender.outlet.terminus().try_send(&Message::to(ticket).offset(ticket.length), b"x");
        ensure(matches!(past, Err(Error::PastEnd { .. })), || {
            format!("past a ticket's end: {:?}", past.err())
        })?;
    }
    let packet_size = machine.options.packet_size;
    let (request, tuple, reason) = wrong(around.rng, packet_size, tag, unset, length);
    let busy = sender.outlet.busy(&machine);
    if sender.outlet.post_wrong(around.rng, &request, tuple, reason, busy)? {
        around.note(|| format!("host {host} process {process} blunders: {}", reason.name()));
    }
    Ok(())
}

/// Returns a request that is wrong in one way, its only tuple, and the reason for its refusal.
/// `tag` is a send buffer of `buffer` bytes, and `unset` is not a send buffer.
fn wrong(
    rng: &mut Rng,
    packet_size: u32,
    tag: u32,
    unset: u32,
    buffer: u32,
) -> (HamlynRequest, HamlynGather, Statistic) {
    let direct = HamlynRequest { length: 8, ..HamlynRequest::default() };
    let dma = HamlynRequest { flags: HAMLYN_REQUEST_DMA, gather_count: 1, ..direct };
    let fast = HamlynRequest { metadata_index: HAMLYN_FAST_MODE, ..dma };
    let tuple = HamlynGather { tag, reserved: 0, offset: 0, length: 8 };
    let any = 1 + rng.below(1 << 30) as u32;
    match rng.below(16) {
        0 => (HamlynRequest { flags: 1 << 31, ..direct }, tuple, Statistic::RefusedFlags),
        1 => (HamlynRequest { gather_count: 1, ..direct }, tuple, Statistic::RefusedFlags),
        2 => {
            let inline = HamlynRequest { flags: HAMLYN_REQUEST_INLINE_METADATA, ..direct };
            (inline, tuple, Statistic::RefusedFlags)
        }
        3 => (HamlynRequest { reserved1: any.into(), ..direct }, tuple, Statistic::RefusedFlags),
        4 => (HamlynRequest { destination: 0xffff + any, ..direct }, tuple, Statistic::RefusedDestination),
        5 => {
            let metadata_length = HAMLYN_MAX_METADATA + 1;
            (HamlynRequest { metadata_length, ..direct }, tuple, Statistic::RefusedMetadataLength)
        }
        6 => (HamlynRequest { metadata_length: 1, ..fast }, tuple, Statistic::RefusedMetadataLength),
        7 => {
            let long = HamlynRequest { length: packet_size + 1, ..fast };
            (long, HamlynGather { length: packet_size + 1, ..tuple }, Statistic::RefusedFastMode)
        }
        8 => (HamlynRequest { offset: u32::MAX - 6, ..direct }, tuple, Statistic::RefusedLength),
        9 => (HamlynRequest { length: HAMLYN_BODY_SIZE + 1, ..direct }, tuple, Statistic::RefusedLength),
        10 => (dma, HamlynGather { length: 7, ..tuple }, Statistic::RefusedLength),
        11 => {
            let gather_count = HAMLYN_MAX_GATHER + any % 100 + 1;
            (HamlynRequest { gather_count, ..dma }, tuple, Statistic::RefusedGatherCount)
        }
        12 => (dma, HamlynGather { tag: unset, ..tuple }, Statistic::RefusedTag),
        13 => (dma, HamlynGather { offset: buffer - 7, ..tuple }, Statistic::RefusedSendBuffer),
        14 => (dma, HamlynGather { offset: u32::MAX, ..tuple }, Statistic::RefusedSendBuffer),
        _ => (dma, HamlynGather { reserved: any, ..tuple }, Statistic::RefusedFlags),
    }
}
