//! Transmission-request blocks: the contents of a terminus' work queue (section 2.3).

use std::sync::atomic::AtomicU8;

use hamlyn_abi::hamlyn::request::{
    HAMLYN_BODY_SIZE, HAMLYN_MAX_METADATA, HAMLYN_REQUEST_DMA, HAMLYN_REQUEST_FETCH,
    HAMLYN_REQUEST_INLINE_METADATA, HAMLYN_REQUEST_INTERRUPT, HAMLYN_REQUEST_SILENT, HamlynGather,
    HamlynRequest,
};
use hamlyn_sys::hamlyn::window::Window;
use zerocopy::IntoBytes;

use crate::core::copies;
use crate::error::{Error, Result, at_most, inside};
use crate::hamlyn::ticket::Ticket;

/// Size of the head, in bytes.
const HEAD: usize = size_of::<HamlynRequest>();
/// Size of the body, in bytes.
const BODY: usize = HAMLYN_BODY_SIZE as usize;
/// Size of a gather tuple, in bytes.
const TUPLE: usize = size_of::<HamlynGather>();
/// Size of a word, in bytes: the unit in which work-queue entries are filled.
const WORD: usize = size_of::<u64>();

/// A message to send, without its data.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    ticket: &'a Ticket,
    metadata: &'a [u8],
    offset: u32,
    delta: Option<u32>,
    word: Option<u32>,
    flags: u32,
    context: u64,
}

impl<'a> Message<'a> {
    /// Creates a message with no metadata, to the start of the ticket's buffer.
    #[must_use]
    #[inline]
    pub fn to(ticket: &'a Ticket) -> Self {
        let (offset, delta, word, context) = Default::default();
        Self { ticket, metadata: &[], offset, delta, word, flags: ticket.flags.bits(), context }
    }

    /// Adds up to 60 bytes of metadata, for the ticket's metadata entry (section 2.2). Not in fast
    /// mode.
    #[must_use]
    #[inline]
    pub fn metadata(self, metadata: &'a [u8]) -> Self {
        Self { metadata, ..self }
    }

    /// Deposits the data `offset` bytes after the start of the ticket's buffer.
    #[must_use]
    #[inline]
    pub fn offset(self, offset: u32) -> Self {
        Self { offset, ..self }
    }

    /// Sets the packet counter's initial value Y, for group receive (section 2.5). One notification
    /// arrives when the sum over all senders is 2^32. Each Y must be larger than the number of
    /// packets of its message. Not in fast mode.
    #[must_use]
    #[inline]
    pub fn delta(self, delta: u32) -> Self {
        Self { delta: Some(delta), ..self }
    }

    /// Sets the word that the notification carries (section 2.7). Only in fast mode.
    #[must_use]
    #[inline]
    pub fn word(self, word: u32) -> Self {
        Self { word: Some(word), ..self }
    }

    /// Sets a word that is not sent: the request's [`crate::Handle::context`] returns it.
    #[must_use]
    #[inline]
    pub fn context(self, context: u64) -> Self {
        Self { context, ..self }
    }

    /// Returns the word set by [`Message::context`], or 0.
    #[inline]
    pub(crate) fn context_word(&self) -> u64 {
        self.context
    }

    /// Transfers the data without a notification (section 1).
    #[must_use]
    #[inline]
    pub fn silent(self) -> Self {
        Self { flags: self.flags | HAMLYN_REQUEST_SILENT, ..self }
    }

    /// Interrupts the receiver if it sleeps (section 2.6).
    #[must_use]
    #[inline]
    pub fn interrupt(self) -> Self {
        Self { flags: self.flags | HAMLYN_REQUEST_INTERRUPT, ..self }
    }

    /// Returns the maximum number of bytes that direct I/O can send along with this message's
    /// metadata.
    #[must_use]
    #[inline]
    pub fn direct_limit(&self) -> usize {
        BODY.saturating_sub(self.metadata.len().next_multiple_of(8))
    }

    /// Checks the message against its ticket and the card, and builds the head for `length` bytes
    /// of data.
    #[inline]
    pub(crate) fn head(&self, length: usize, packet_size: u32) -> Result<HamlynRequest> {
        at_most("metadata length", self.metadata.len() as u64, HAMLYN_MAX_METADATA.into())?;
        inside("ticket's buffer", self.offset.into(), length as u64, self.ticket.length.into())?;
        if self.ticket.is_fast() {
            at_most("fast-mode message length", length as u64, packet_size.into())?;
            if !self.metadata.is_empty() {
                return Err(Error::Invalid("a fast-mode message carries no metadata but its word"));
            }
        }
        let delta = self.word_or_delta()?;
        let offset = u64::from(self.ticket.base) + u64::from(self.offset);
        at_most("offset in the message area", offset, u32::MAX.into())?;
        Ok(HamlynRequest {
            destination: self.ticket.destination,
            slot: self.ticket.slot,
            metadata_index: self.ticket.metadata_index,
            flags: self.flags,
            key: self.ticket.key,
            offset: offset as u32,
            length: length as u32,
            delta,
            metadata_length: self.metadata.len() as u32,
            ..HamlynRequest::default()
        })
    }
}

impl Message<'_> {
    /// Returns the field of the request that is the word in fast mode, and the packet counter's
    /// initial value otherwise.
    #[inline]
    fn word_or_delta(&self) -> Result<u32> {
        let (is, is_not, why) = match self.ticket.is_fast() {
            true => (self.word, self.delta, "a fast-mode message has a word, and no packet counter"),
            false => (self.delta, self.word, "only a fast-mode message has a word"),
        };
        if is_not.is_some() { Err(Error::Invalid(why)) } else { Ok(is.unwrap_or_default()) }
    }
}

/// Contents of a request behind its metadata: data or tuples.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body<'a> {
    Bytes(&'a [u8]),
    /// Data of a send buffer, in place.
    Cells(&'a [AtomicU8]),
}

impl Body<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Cells(cells) => cells.len(),
        }
    }
}

/// A checked request, in pieces: the contents of a work-queue entry and their positions in it.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    head: HamlynRequest,
    metadata: &'a [u8],
    body: Body<'a>,
    /// Start of the body, in bytes from the entry's start: a multiple of 8.
    body_start: usize,
}

impl<'a> Request<'a> {
    /// Builds a direct I/O request: the body holds metadata and data.
    #[inline]
    pub(crate) fn direct(message: &Message<'a>, data: Body<'a>, packet_size: u32) -> Result<Self> {
        let head = message.head(data.len(), packet_size)?;
        at_most("direct I/O length", data.len() as u64, message.direct_limit() as u64)?;
        let body_start = HEAD + message.metadata.len().next_multiple_of(8);
        Ok(Self { head, metadata: message.metadata, body: data, body_start })
    }

    /// Builds a DMA request: the body holds the metadata and the tuples that name the data.
    #[inline]
    pub(crate) fn gather(
        message: &Message<'a>,
        tuples: &'a [HamlynGather],
        packet_size: u32,
    ) -> Result<Self> {
        let length = tuples.iter().map(|tuple| u64::from(tuple.length)).sum::<u64>();
        at_most("message length", length, u32::MAX.into())?;
        let mut head = message.head(length as usize, packet_size)?;
        head.flags |= HAMLYN_REQUEST_DMA;
        if !message.metadata.is_empty() {
            head.flags |= HAMLYN_REQUEST_INLINE_METADATA;
        }
        let metadata = message.metadata.len().next_multiple_of(TUPLE);
        at_most("gathered pieces", tuples.len() as u64, ((BODY - metadata) / TUPLE) as u64)?;
        head.gather_count = tuples.len() as u32;
        let (body, body_start) = (Body::Bytes(tuples.as_bytes()), HEAD + metadata);
        Ok(Self { head, metadata: message.metadata, body, body_start })
    }

    /// Builds a request of a head and a body. Nothing is checked here: the card does that.
    #[inline]
    pub(crate) fn raw(head: HamlynRequest, body: Body<'a>) -> Self {
        Self { head, metadata: &[], body, body_start: HEAD }
    }

    /// Stores the request into entry `number` of a work queue. Writes only the bytes it uses, once
    /// each and in ascending order. The card does not read the rest.
    #[inline(always)]
    pub(crate) fn store(&self, window: &Window, number: u32) {
        window.fill_entry(number, 0, self.head.as_bytes());
        if !self.metadata.is_empty() {
            window.fill_entry(number, HEAD / WORD, self.metadata);
        }
        if self.head.flags & (HAMLYN_REQUEST_DMA | HAMLYN_REQUEST_FETCH) == 0 {
            copies::count(self.body.len());
        }
        match self.body {
            Body::Bytes(bytes) => window.fill_entry(number, self.body_start / WORD, bytes),
            Body::Cells(cells) => window.fill_entry_from(number, self.body_start / WORD, cells),
        }
    }
}

/// A work-queue entry: the head (basically a packet header, Table 1) and its body.
#[cfg(any(test, feature = "test-hooks"))]
#[derive(Clone, PartialEq, Eq)]
pub struct RequestBlock {
    entry: Entry,
    used: usize,
}

#[cfg(any(test, feature = "test-hooks"))]
#[derive(Clone, PartialEq, Eq, IntoBytes, zerocopy::Immutable)]
#[repr(C)]
struct Entry {
    head: HamlynRequest,
    body: [u8; BODY],
}

#[cfg(any(test, feature = "test-hooks"))]
impl RequestBlock {
    /// Creates a request from a raw head and body. Nothing is checked here: the card does that.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the body has more than 448 bytes.
    pub fn raw(head: &HamlynRequest, body: &[u8]) -> Result<Self> {
        at_most("request body length", body.len() as u64, HAMLYN_BODY_SIZE.into())?;
        Ok(Self::of(&Request::raw(*head, Body::Bytes(body))))
    }

    /// Creates a direct I/O request: the body holds metadata and data.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] or [`Error::PastEnd`] if the length exceeds the body, the ticket's
    /// buffer or the card's limit.
    pub fn direct(message: &Message<'_>, data: &[u8], packet_size: u32) -> Result<Self> {
        Request::direct(message, Body::Bytes(data), packet_size).map(|request| Self::of(&request))
    }

    /// Creates a DMA request: the body holds the metadata and the tuples that name the data.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] or [`Error::PastEnd`] if there are too many tuples for the body, or
    /// the length exceeds the ticket's buffer.
    pub fn gather(message: &Message<'_>, tuples: &[HamlynGather], packet_size: u32) -> Result<Self> {
        Request::gather(message, tuples, packet_size).map(|request| Self::of(&request))
    }

    /// Returns the used bytes of the entry.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.entry.as_bytes()[..self.used]
    }

    /// Returns the request, treating its whole body as data.
    pub(crate) fn request(&self) -> Request<'_> {
        let body = &self.entry.body[..self.used - HEAD];
        Request::raw(self.entry.head, Body::Bytes(body))
    }

    fn of(request: &Request<'_>) -> Self {
        let mut body = [0; BODY];
        let start = request.body_start - HEAD;
        body[..request.metadata.len()].copy_from_slice(request.metadata);
        let place = &mut body[start..start + request.body.len()];
        match request.body {
            Body::Bytes(bytes) => place.copy_from_slice(bytes),
            Body::Cells(cells) => hamlyn_sys::register_copy_out(cells, place),
        }
        let used = request.body_start + request.body.len();
        Self { entry: Entry { head: request.head, body }, used }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hamlyn_abi::hamlyn::window::{HAMLYN_ENTRY_SIZE, HAMLYN_WINDOW_SIZE, HAMLYN_WINDOW_WORK_QUEUE};
    use hamlyn_sys::Mapping;
    use proptest::prelude::*;

    use super::*;
    use crate::hamlyn::ticket::TicketFlags;

    /// Returns the contents of a zeroed entry after the request is stored into it.
    fn stored(request: &Request<'_>) -> [u8; HAMLYN_ENTRY_SIZE as usize] {
        let mapping = Arc::new(Mapping::anonymous(HAMLYN_WINDOW_SIZE as usize).unwrap());
        request.store(&Window::new(mapping.clone()).unwrap(), 64 + 3);
        let mut entry = [0; HAMLYN_ENTRY_SIZE as usize];
        mapping.read((HAMLYN_WINDOW_WORK_QUEUE + 3 * HAMLYN_ENTRY_SIZE) as usize, &mut entry);
        entry
    }

    fn ticket() -> Ticket {
        Ticket {
            destination: 0x0102,
            slot: 0x0304_0506,
            metadata_index: 0x0708_090a,
            key: 0x1112_1314_1516_1718,
            base: 0x1000,
            length: 0x0010_0000,
            flags: TicketFlags::INTERRUPT,
        }
    }

    #[test]
    fn layout_of_direct_request() {
        let ticket = ticket();
        let message = Message::to(&ticket).metadata(b"meta").offset(0x20).delta(0x2122_2324).silent();
        let block = RequestBlock::direct(&message, b"data!", 4096).unwrap();
        let expected: [&[u8]; 15] = [
            &[0x02, 0x01, 0, 0],
            &[6, 5, 4, 3],
            &[0x0a, 9, 8, 7],
            &[6, 0, 0, 0],
            &[0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11],
            &[0x20, 0x10, 0, 0],
            &[5, 0, 0, 0],
            &[0x24, 0x23, 0x22, 0x21],
            &[4, 0, 0, 0],
            &[0; 4],
            &[0; 4],
            &[0; 16],
            b"meta",
            &[0; 4],
            b"data!",
        ];
        assert_eq!(block.as_bytes(), expected.concat());
    }

    #[test]
    fn layout_of_gather_request() {
        let ticket = ticket();
        let tuples = [
            HamlynGather { tag: 1, reserved: 0, offset: 16, length: 0x3000 },
            HamlynGather { tag: 7, reserved: 0, offset: 0, length: 0x0100 },
        ];
        let message = Message::to(&ticket).metadata(&[9; 20]);
        let block = RequestBlock::gather(&message, &tuples, 4096).unwrap();
        let bytes = block.as_bytes();
        assert_eq!(bytes.len(), 64 + 32 + 32);
        assert_eq!(
            bytes[12],
            (HAMLYN_REQUEST_INTERRUPT | HAMLYN_REQUEST_DMA | HAMLYN_REQUEST_INLINE_METADATA) as u8
        );
        assert_eq!(bytes[28..32], [0x00, 0x31, 0, 0], "data bytes, metadata not counted");
        assert_eq!(bytes[40..44], [2, 0, 0, 0], "tuples");
        assert_eq!(bytes[64..84], [9; 20]);
        assert_eq!(bytes[84..96], [0; 12]);
        assert_eq!(bytes[96..112], [1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0x30, 0, 0]);
        assert_eq!(bytes[112..128], [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        let without = RequestBlock::gather(&Message::to(&ticket), &tuples, 4096).unwrap();
        assert_eq!(without.as_bytes()[12], (HAMLYN_REQUEST_INTERRUPT | HAMLYN_REQUEST_DMA) as u8);
        assert_eq!(without.as_bytes().len(), 64 + 32);
    }

    #[test]
    fn limits_are_named() {
        let ticket = ticket();
        let error = |result: Result<RequestBlock>| result.err().map(|error| error.to_string());
        let direct =
            |message: Message<'_>, length| error(RequestBlock::direct(&message, &vec![0; length], 256));
        assert_eq!(direct(Message::to(&ticket), 448), None);
        assert_eq!(
            direct(Message::to(&ticket), 449).as_deref(),
            Some("direct I/O length 449 is out of range (limit 448)")
        );
        assert_eq!(direct(Message::to(&ticket).metadata(&[0; 60]), 384), None);
        assert!(direct(Message::to(&ticket).metadata(&[0; 60]), 385).is_some());
        assert_eq!(
            direct(Message::to(&ticket).metadata(&[0; 61]), 0).as_deref(),
            Some("metadata length 61 is out of range (limit 60)")
        );
        assert_eq!(
            direct(Message::to(&ticket).offset(0x000f_ffff), 2).as_deref(),
            Some("2 bytes at offset 1048575 reach past the end of the ticket's buffer (limit 1048576)")
        );
        let fast = Ticket { metadata_index: Ticket::FAST, ..ticket };
        assert_eq!(
            direct(Message::to(&fast), 257).as_deref(),
            Some("fast-mode message length 257 is out of range (limit 256)")
        );
        assert!(direct(Message::to(&fast).metadata(b"m"), 2).is_some());
        assert_eq!(direct(Message::to(&fast).word(0), 2).or(direct(Message::to(&ticket).delta(0), 2)), None);
        for wrong in [Message::to(&fast).delta(0), Message::to(&ticket).word(0)] {
            assert!(direct(wrong, 2).is_some_and(|text| text.contains("fast-mode")), "{wrong:?}");
        }
        let gather = |message: &Message<'_>, count| {
            error(RequestBlock::gather(
                message,
                &vec![HamlynGather { length: 1, ..Default::default() }; count],
                256,
            ))
        };
        assert_eq!(gather(&Message::to(&ticket), 28), None);
        assert!(gather(&Message::to(&ticket), 29).is_some());
        assert_eq!(gather(&Message::to(&ticket).metadata(&[0; 60]), 24), None);
        assert!(gather(&Message::to(&ticket).metadata(&[0; 60]), 25).is_some());
        assert!(error(RequestBlock::raw(&HamlynRequest::default(), &[0; 449])).is_some());
    }

    proptest! {
        #[test]
        fn anything_is_built_or_refused(
            metadata in prop::collection::vec(any::<u8>(), 0..80), length in 0..500_usize,
            offset in any::<u32>(), base in any::<u32>(), bound in any::<u32>(), index in any::<u32>(),
            lengths in prop::collection::vec(0..1_u32 << 28, 0..40),
        ) {
            let ticket = Ticket { base, length: bound, metadata_index: index, ..ticket() };
            let message = Message::to(&ticket).metadata(&metadata).offset(offset);
            let data: Vec<u8> = (0..length).map(|at| at as u8 | 1).collect();
            if let Ok(block) = RequestBlock::direct(&message, &data, 4096) {
                prop_assert!(block.as_bytes().len() <= 512);
                prop_assert!(block.as_bytes().ends_with(&data));
                let entry = stored(&Request::direct(&message, Body::Bytes(&data), 4096).unwrap());
                prop_assert_eq!(entry, block.entry.as_bytes());
                prop_assert_eq!(entry, stored(&block.request()));
                let buffer = Mapping::anonymous(512).unwrap();
                buffer.write(5, &data);
                let cells = Body::Cells(buffer.cells(5, length));
                prop_assert_eq!(entry, stored(&Request::direct(&message, cells, 4096).unwrap()));
            }
            let tuples: Vec<_> =
                lengths.iter().map(|length| HamlynGather { length: *length, offset: !*length, ..Default::default() }).collect();
            if let Ok(block) = RequestBlock::gather(&message, &tuples, 4096) {
                prop_assert!(block.as_bytes().len() <= 512 && tuples.len() <= 28);
                let entry = stored(&Request::gather(&message, &tuples, 4096).unwrap());
                prop_assert_eq!(entry, block.entry.as_bytes());
            }
        }
    }
}
