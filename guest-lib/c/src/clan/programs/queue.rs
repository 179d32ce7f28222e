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

/// Who puts into a ring in the other's memory (section 4.2, Example 2): messages do not wait for
/// each other. One thread at a time may use it.
pub struct clan_producer(Producer);

/// Who puts by DMA. One thread at a time may use it.
pub struct clan_dma_producer(DmaProducer);

/// Who takes. One thread at a time may use it.
pub struct clan_consumer(Consumer);

/// A part of a message.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_part {
    /// Its bytes.
    pub data: *const c_void,
    /// How many.
    pub length: usize,
}

/// What an element is, besides its bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_element {
    /// What the producer has put with it.
    pub metadata: u64,
    /// 1 if more of its message follows, else 0.
    pub has_more: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 5],
}

/// Returns how many bytes the consumer's aperture needs for a queue of `count` elements of at most
/// `element` bytes: the control words, and 16 bytes more than the element for each, of which there
/// is one more than the queue holds. SIZE_MAX if no aperture is large enough.
#[unsafe(no_mangle)]
pub extern "C" fn clan_queue_aperture_size(element: usize, count: usize) -> usize {
    aperture_size(element, count)
}

/// Makes a producer on this end, of elements of at most so many bytes; the other end has a consumer
/// for as many. The places are in the aperture of the other end, which has clan_queue_aperture_size
/// bytes; -EDOM if there are not two.
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

/// Lets a producer go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_producer_destroy(producer: Option<Box<clan_producer>>) {
    free(producer);
}

/// How many elements the queue has room for.
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

/// The same, if there is room: else -EAGAIN. It does not wait.
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

/// Puts a message of several parts, each of any length: an element or several, all with this
/// metadata. What fails on the way leaves the message unfinished: the consumer waits for the rest.
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

/// Makes a producer by DMA; `card` is what the end's endpoint was opened with.
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

/// Lets a producer go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_producer_destroy(producer: Option<Box<clan_dma_producer>>) {
    free(producer);
}

/// How many elements the queue has room for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_producer_capacity(producer: Option<&clan_dma_producer>) -> c_int {
    call(|| Ok(count(given(producer, "producer")?.0.capacity() as usize)))
}

/// Waits for room, and puts a message of one element: `length` bytes, at least one, of memory of
/// this process. That may be changed when the request is done (clan_dma_wait, at the end's
/// endpoint).
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

/// Puts a message as clan_dma_producer_put() does, if there is room for it: else -EAGAIN. It does
/// not wait for room.
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

/// Makes a consumer on this end, of elements of at most so many bytes.
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

/// Lets a consumer go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_consumer_destroy(consumer: Option<Box<clan_consumer>>) {
    free(consumer);
}

/// Has elements be events of the queue, with this token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_consumer_register(
    consumer: Option<&mut clan_consumer>,
    events: Option<&mut clan_events>,
    token: u64,
) -> c_int {
    register(events, given(consumer, "consumer").map(|consumer| consumer.0.tripwire()), token)
}

/// Waits for the next element, copies it, and returns how many bytes it has. -EINVAL if it does not
/// fit: then it stays.
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

/// The same without waiting, and without a system call: -EAGAIN if there is none.
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

/// Waits for a whole message, copies all its parts, and returns how many bytes it has. -EINVAL for
/// one of more than `size` bytes, of which some is taken then.
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
        // Not dropped, it is still there.
        std::mem::forget(element);
        return Err(Failure::argument(format!("element length {length} is out of range (limit {size})")));
    };
    element.read(0, data)?;
    let (metadata, has_more) = (element.metadata(), element.has_more().into());
    to.write(clan_element { metadata, has_more, reserved: [0; 5] });
    Ok(count(length))
}
