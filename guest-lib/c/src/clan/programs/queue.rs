//! Distributed queues.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::programs::queue::{Consumer, DmaProducer, Element, Producer, aperture_size};

use super::end::{clan_end, register};
use crate::call::{Failure, call, count, free, given, store};
use crate::clan::aperture::clan_aperture;
use crate::clan::card::clan_card;
use crate::clan::events::clan_events;
use crate::memory::{bytes, bytes_mut, items};

/// Puts messages into a ring in the peer's memory (section 4.2, Example 2). Messages do not wait
/// for each other. One thread at a time may use it.
pub struct clan_producer(Producer);

/// A producer that puts messages by DMA. One thread at a time may use it.
pub struct clan_dma_producer(DmaProducer);

/// Takes messages from the ring. One thread at a time may use it.
pub struct clan_consumer(Consumer);

/// A part of a message.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_part {
    /// The bytes.
    pub data: *const c_void,
    /// Number of bytes.
    pub length: usize,
}

/// Properties of an element, in addition to its bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_element {
    /// The metadata that the producer gave.
    pub metadata: u64,
    /// 1 if more of its message follows, else 0.
    pub has_more: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 5],
}

/// Returns the size in bytes of the consumer's aperture for a queue of `count` elements of at most
/// `element` bytes. This is the control words, and the element size plus 16 bytes for each of
/// `count` + 1 places. Returns SIZE_MAX if no aperture is large enough.
#[unsafe(no_mangle)]
pub extern "C" fn clan_queue_aperture_size(element: usize, count: usize) -> usize {
    aperture_size(element, count)
}

/// Creates a producer on this end, for elements of at most `element` bytes. The other end needs a
/// consumer with the same element size. The places are in the other end's aperture, which needs
/// clan_queue_aperture_size bytes. Fails with -EDOM if it has fewer than two places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_producer_create(
    end: Option<&clan_end>,
    element: usize,
    producer: Option<&mut MaybeUninit<Box<clan_producer>>>,
) -> c_int {
    call(|| {
        let to = given(producer, "producer")?;
        store(to, Box::new(clan_producer(Producer::new(given(end, "end")?.shared(), element)?)))
    })
}

/// Releases a producer. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_producer_destroy(producer: Option<Box<clan_producer>>) {
    free(producer);
}

/// Returns the number of elements that the queue has room for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_producer_capacity(producer: Option<&clan_producer>) -> c_int {
    call(|| Ok(count(given(producer, "producer")?.0.capacity() as usize)))
}

/// Waits for room, and puts a message of one element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_producer_put(
    producer: Option<&mut clan_producer>,
    data: *const c_void,
    length: usize,
    metadata: u64,
) -> c_int {
    call(|| {
        let producer = &mut given(producer, "producer")?.0;
        Ok(producer.put(bytes(data, length, "data")?, metadata).map(|()| 0)?)
    })
}

/// Like clan_producer_put, but does not wait: fails with -EAGAIN if there is no room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_producer_try_put(
    producer: Option<&mut clan_producer>,
    data: *const c_void,
    length: usize,
    metadata: u64,
) -> c_int {
    call(|| {
        let producer = &mut given(producer, "producer")?.0;
        let is_put = producer.try_put(bytes(data, length, "data")?, metadata)?;
        if is_put { Ok(0) } else { Err(Failure::nothing_yet("room")) }
    })
}

/// Puts a message of several parts of any length. They become one or more elements, all with this
/// metadata. A failure half-way leaves the message incomplete: the consumer waits for the rest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_producer_put_parts(
    producer: Option<&mut clan_producer>,
    parts: *const clan_part,
    count: usize,
    metadata: u64,
) -> c_int {
    call(|| {
        let (producer, parts) = (&mut given(producer, "producer")?.0, items(parts, count, "parts")?);
        let parts = parts.iter().map(|part| bytes(part.data, part.length, "data of a part"));
        let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
        Ok(producer.put_parts(&parts, metadata).map(|()| 0)?)
    })
}

/// Creates a producer that uses DMA. `card` must be the one that the end's endpoint was opened
/// with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_producer_create(
    card: Option<&clan_card>,
    end: Option<&clan_end>,
    element: usize,
    producer: Option<&mut MaybeUninit<Box<clan_dma_producer>>>,
) -> c_int {
    call(|| {
        let (card, to) = (&given(card, "card")?.0, given(producer, "producer")?);
        let producer = DmaProducer::new(card, given(end, "end")?.shared(), element)?;
        store(to, Box::new(clan_dma_producer(producer)))
    })
}

/// Releases a producer. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_producer_destroy(producer: Option<Box<clan_dma_producer>>) {
    free(producer);
}

/// Returns the number of elements that the queue has room for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_producer_capacity(producer: Option<&clan_dma_producer>) -> c_int {
    call(|| Ok(count(given(producer, "producer")?.0.capacity() as usize)))
}

/// Waits for room, and puts a message of one element: `length` bytes, at least one, of this
/// process' memory. The memory may be changed when the request is complete (clan_dma_wait, at the
/// end's endpoint).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_producer_put(
    producer: Option<&mut clan_dma_producer>,
    from: Option<&clan_aperture>,
    offset: usize,
    length: usize,
    metadata: u64,
    request: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (from, to) = (&given(from, "from")?.0, given(request, "request")?);
        store(to, given(producer, "producer")?.0.put(from, offset, length, metadata)?.0)
    })
}

/// Like clan_dma_producer_put, but does not wait for room: fails with -EAGAIN if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_producer_try_put(
    producer: Option<&mut clan_dma_producer>,
    from: Option<&clan_aperture>,
    offset: usize,
    length: usize,
    metadata: u64,
    request: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (from, to) = (&given(from, "from")?.0, given(request, "request")?);
        let requested = given(producer, "producer")?.0.try_put(from, offset, length, metadata)?;
        store(to, requested.ok_or_else(|| Failure::nothing_yet("room"))?.0)
    })
}

/// Creates a consumer on this end, for elements of at most `element` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_consumer_create(
    end: Option<&clan_end>,
    element: usize,
    consumer: Option<&mut MaybeUninit<Box<clan_consumer>>>,
) -> c_int {
    call(|| {
        let to = given(consumer, "consumer")?;
        store(to, Box::new(clan_consumer(Consumer::new(given(end, "end")?.shared(), element)?)))
    })
}

/// Releases a consumer. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_consumer_destroy(consumer: Option<Box<clan_consumer>>) {
    free(consumer);
}

/// Registers a consumer with an event queue: arriving elements become events with this token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_consumer_register(
    consumer: Option<&mut clan_consumer>,
    events: Option<&mut clan_events>,
    token: u64,
) -> c_int {
    register(events, given(consumer, "consumer").map(|consumer| consumer.0.tripwire()), token)
}

/// Waits for the next element, copies it, and returns its length. Fails with -EINVAL if it does not
/// fit; the element then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_consumer_get(
    consumer: Option<&mut clan_consumer>,
    data: *mut c_void,
    size: usize,
    element: Option<&mut MaybeUninit<clan_element>>,
) -> c_int {
    call(|| {
        let (consumer, to) = (&mut given(consumer, "consumer")?.0, given(element, "element")?);
        taken(consumer.get()?, bytes_mut(data, size, "data")?, to)
    })
}

/// Like clan_consumer_get, but does not wait and makes no system call: fails with -EAGAIN if the
/// queue is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_consumer_try_get(
    consumer: Option<&mut clan_consumer>,
    data: *mut c_void,
    size: usize,
    element: Option<&mut MaybeUninit<clan_element>>,
) -> c_int {
    call(|| {
        let (consumer, to) = (&mut given(consumer, "consumer")?.0, given(element, "element")?);
        let data = bytes_mut(data, size, "data")?;
        taken(consumer.try_get()?.ok_or_else(|| Failure::nothing_yet("element"))?, data, to)
    })
}

/// Waits for a complete message, copies all its parts, and returns its length. Fails with -EINVAL
/// if the message is longer than `size` bytes; some of it is then already consumed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_consumer_get_message(
    consumer: Option<&mut clan_consumer>,
    data: *mut c_void,
    size: usize,
    metadata: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (consumer, to) = (&mut given(consumer, "consumer")?.0, given(metadata, "metadata")?);
        let (room, mut message) = (bytes_mut(data, size, "data")?, Vec::new());
        to.write(consumer.get_message(&mut message, size)?);
        room[..message.len()].copy_from_slice(&message);
        Ok(count(message.len()))
    })
}

fn taken(
    element: Element<'_>,
    data: &mut [u8],
    to: &mut MaybeUninit<clan_element>,
) -> Result<c_int, Failure> {
    let (length, size) = (element.len(), data.len());
    let Some(data) = data.get_mut(..length) else {
        // Without the drop, the element stays in the queue.
        std::mem::forget(element);
        return Err(Failure::argument(format!("element length {length} is out of range (limit {size})")));
    };
    element.read(0, data)?;
    let (metadata, has_more) = (element.metadata(), element.has_more().into());
    to.write(clan_element { metadata, has_more, reserved: [0; 5] });
    Ok(count(length))
}
