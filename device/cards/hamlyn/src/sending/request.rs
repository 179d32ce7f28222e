//! Takes a transmission request from a work queue (section 2.3): copied out once, checked
//! completely, then sent.

use hamlyn_abi::hamlyn::request::{
    HAMLYN_BODY_SIZE, HAMLYN_FAST_MODE, HAMLYN_FETCH_ADD, HAMLYN_FETCH_COMPARE_SWAP, HAMLYN_MAX_METADATA,
    HAMLYN_REQUEST_DMA, HAMLYN_REQUEST_FETCH, HAMLYN_REQUEST_FLAGS, HAMLYN_REQUEST_INLINE_METADATA,
    HAMLYN_REQUEST_INTERRUPT, HAMLYN_REQUEST_SILENT, HamlynFetch, HamlynGather, HamlynRequest,
};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::chassis::area::Gathered;
use hamlyn_card::ports::{Dma, Link, Mapped, VolatileSlice};
use zerocopy::{FromZeros, IntoBytes};

use super::gather::{GatherList, SendBuffers};
use super::segment::{Segment, Segmenter};
use super::tickets::Tickets;
use crate::packet::{
    FETCH_BYTES, HEADER_BYTES, PACKET_FETCH, PACKET_INTERRUPT, PACKET_PRIVILEGED, PACKET_RETRACTION,
    PACKET_SILENT, PacketHeader, Retraction,
};

type Body = [u8; HAMLYN_BODY_SIZE as usize];

/// A message that is being sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) destination: u16,
    /// The header that each packet repeats. Its offset is the message's.
    header: PacketHeader,
    metadata_length: u32,
    segmenter: Segmenter,
    body: Body,
    source: Source,
    /// The number of the fetch-and-op, if the message is one.
    pub(super) fetch: Option<u32>,
}

/// The source of the data.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// Direct I/O: the body, from `at` on.
    Direct { at: usize },
    /// DMA from send buffers. They hold the metadata as well, unless it is in the body.
    Gather { list: GatherList, inline_metadata: bool },
}

impl Outgoing {
    /// Copies the work-queue entry at `entry` out of the window and checks it.
    pub(super) fn take(
        window: Mapped<'_>,
        entry: u64,
        packet_size: u32,
        buffers: &SendBuffers,
        tickets: &mut Tickets,
        privilege: u32,
    ) -> Result<Self, Statistic> {
        let mut request = HamlynRequest::new_zeroed();
        window.copy_out(entry, request.as_mut_bytes());
        let destination = check_header(&request, packet_size)?;
        let mut body = [0; HAMLYN_BODY_SIZE as usize];
        let used = body_length(&request)?;
        window.copy_out(entry + size_of::<HamlynRequest>() as u64, &mut body[..used]);
        let fetch = has(&request, HAMLYN_REQUEST_FETCH).then(|| tickets.next());

        Ok(Self {
            destination,
            header: header_of(&request, privilege),
            metadata_length: request.metadata_length,
            segmenter: Segmenter::new(
                request.offset,
                request.length,
                packet_size,
                fetch.unwrap_or(request.delta),
            ),
            source: Source::check(&request, &body[..used], buffers)?,
            body,
            fetch,
        })
    }

    /// Sends the next packet. Returns its size in bytes, or `None` if the link has no room.
    pub(super) fn send_packet(
        &mut self,
        dma: &dyn Dma,
        buffers: &SendBuffers,
        link: &mut dyn Link,
    ) -> Result<Option<usize>, Statistic> {
        let mut header = self.header_for(&self.segmenter.next());
        let (metadata, data) = (header.metadata_length as usize, header.length as usize);
        let mut packet = Gathered::new();
        packet.push(VolatileSlice::from(header.as_mut_bytes()));
        let body = VolatileSlice::from(&mut self.body[..]);
        let rest = self.source.gather(dma, buffers, body, metadata, data, &mut packet)?;
        if !link.send(self.destination, &packet) {
            return Ok(None);
        }
        self.source = rest;
        Ok(Some(HEADER_BYTES + metadata + data))
    }

    /// Moves on to the next packet. Returns `false` if the sent packet was the last.
    pub(super) fn advance(&mut self) -> bool {
        self.segmenter.advance()
    }

    /// Returns the retraction of the packets that were sent, if any were.
    pub(super) fn retraction(&self) -> Option<Retraction> {
        let delta = self.segmenter.sent();
        let flags = self.header.flags & PACKET_PRIVILEGED | PACKET_RETRACTION;
        let header = PacketHeader { delta, flags, operation: 0, ..self.header };
        (delta != 0).then_some(Retraction { destination: self.destination, header })
    }

    fn header_for(&self, segment: &Segment) -> PacketHeader {
        PacketHeader {
            offset: segment.offset,
            length: segment.length,
            delta: segment.delta,
            metadata_length: if segment.first { self.metadata_length } else { 0 },
            ..self.header
        }
    }
}

impl Source {
    fn check(request: &HamlynRequest, body: &[u8], buffers: &SendBuffers) -> Result<Self, Statistic> {
        if !has(request, HAMLYN_REQUEST_DMA) {
            return Ok(Source::Direct { at: padded(request.metadata_length, 8) });
        }
        let inline_metadata = has(request, HAMLYN_REQUEST_INLINE_METADATA);
        let (start, gathered_metadata) = if inline_metadata {
            (padded(request.metadata_length, 16), 0)
        } else {
            (0, request.metadata_length)
        };
        let total = u64::from(gathered_metadata) + u64::from(request.length);
        Ok(Source::Gather { list: GatherList::check(body, start, buffers, total)?, inline_metadata })
    }

    /// Appends `metadata` bytes of metadata and the next `data` bytes of data to `packet`. Returns
    /// the rest of the source.
    fn gather<'a>(
        self,
        dma: &'a dyn Dma,
        buffers: &SendBuffers,
        body: VolatileSlice<'a>,
        metadata: usize,
        data: usize,
        packet: &mut Gathered<'a>,
    ) -> Result<Self, Statistic> {
        let part = |at, length| body.subslice(at, length).map_err(|_| Statistic::RefusedLength);
        match self {
            Source::Gather { list, inline_metadata: false } => {
                let list = list.take(dma, buffers, body, metadata + data, packet)?;
                Ok(Source::Gather { list, inline_metadata: false })
            }
            Source::Gather { list, inline_metadata: true } => {
                packet.push(part(0, metadata)?);
                let list = list.take(dma, buffers, body, data, packet)?;
                Ok(Source::Gather { list, inline_metadata: true })
            }
            Source::Direct { at } => {
                packet.push(part(0, metadata)?);
                packet.push(part(at, data)?);
                Ok(Source::Direct { at: at + data })
            }
        }
    }
}

fn has(request: &HamlynRequest, flag: u32) -> bool {
    request.flags & flag != 0
}

fn padded(length: u32, to: u32) -> usize {
    length.next_multiple_of(to) as usize
}

/// Checks everything but the body. Returns the destination.
fn check_header(request: &HamlynRequest, packet_size: u32) -> Result<u16, Statistic> {
    let inline_without_dma =
        has(request, HAMLYN_REQUEST_INLINE_METADATA) && !has(request, HAMLYN_REQUEST_DMA);
    let count_without_dma = request.gather_count != 0 && !has(request, HAMLYN_REQUEST_DMA);
    let reserved = (request.reserved0 | request.reserved1) != 0;
    if request.flags & !HAMLYN_REQUEST_FLAGS != 0 || inline_without_dma || count_without_dma || reserved {
        return Err(Statistic::RefusedFlags);
    }
    let destination = u16::try_from(request.destination).map_err(|_| Statistic::RefusedDestination)?;
    check_fetch(request)?;
    if request.metadata_length > HAMLYN_MAX_METADATA {
        return Err(Statistic::RefusedMetadataLength);
    }
    if request.metadata_index == HAMLYN_FAST_MODE {
        if request.metadata_length != 0 {
            return Err(Statistic::RefusedMetadataLength);
        }
        if request.length > packet_size {
            return Err(Statistic::RefusedFastMode);
        }
    }
    // Offsets are 32 bits wide: no packet's data may extend beyond 2^32.
    if u64::from(request.offset) + u64::from(request.length) > 1 << 32 {
        return Err(Statistic::RefusedLength);
    }
    Ok(destination)
}

/// Checks the fields of a fetch-and-op, or that a message requests none.
fn check_fetch(request: &HamlynRequest) -> Result<(), Statistic> {
    if !has(request, HAMLYN_REQUEST_FETCH) {
        return if request.operation == 0 { Ok(()) } else { Err(Statistic::RefusedFlags) };
    }
    let plain = request.flags == HAMLYN_REQUEST_FETCH && request.metadata_length == 0 && request.delta == 0;
    let known = (HAMLYN_FETCH_ADD..=HAMLYN_FETCH_COMPARE_SWAP).contains(&request.operation);
    let sized = request.length as usize == size_of::<HamlynFetch>() && request.offset % FETCH_BYTES == 0;
    if plain && known && sized { Ok(()) } else { Err(Statistic::RefusedOperation) }
}

/// Returns the number of body bytes that the request uses.
fn body_length(request: &HamlynRequest) -> Result<usize, Statistic> {
    let (length, too_long) = if has(request, HAMLYN_REQUEST_DMA) {
        let tuples = u64::from(request.gather_count) * size_of::<HamlynGather>() as u64;
        let inline = has(request, HAMLYN_REQUEST_INLINE_METADATA);
        let metadata = if inline { padded(request.metadata_length, 16) as u64 } else { 0 };
        (metadata + tuples, Statistic::RefusedGatherCount)
    } else {
        (padded(request.metadata_length, 8) as u64 + u64::from(request.length), Statistic::RefusedLength)
    };
    if length > u64::from(HAMLYN_BODY_SIZE) { Err(too_long) } else { Ok(length as usize) }
}

fn header_of(request: &HamlynRequest, privilege: u32) -> PacketHeader {
    let silent = if has(request, HAMLYN_REQUEST_SILENT) { PACKET_SILENT } else { 0 };
    let interrupt = if has(request, HAMLYN_REQUEST_INTERRUPT) { PACKET_INTERRUPT } else { 0 };
    let fetch = if has(request, HAMLYN_REQUEST_FETCH) { PACKET_FETCH } else { 0 };
    PacketHeader {
        slot: request.slot,
        metadata_index: request.metadata_index,
        key: request.key,
        offset: request.offset,
        flags: silent | interrupt | fetch | privilege,
        operation: request.operation,
        ..PacketHeader::default()
    }
}
