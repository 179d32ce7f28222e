//! Tests of apertures, windows, messages and DMA.

use std::sync::atomic::Ordering;

use hamlyn_sys::Mapping;
use proptest::prelude::*;

use super::super::fake::cards;
use super::super::{
    Address, Descriptor, DmaError, FaultReason, MessageKind, Rights, TOLD_SIZE, Transfer, Watch,
};
use super::{HASTE, PATIENCE};
use crate::core::lend::Pages;
use crate::error::ErrorKind;

#[test]
fn window_stores_appear_in_aperture() {
    let (_net, [one, two]) = cards();
    let aperture = one.aperture(5000, Rights::ReadWrite).unwrap();
    let endpoint = two.endpoint().unwrap();
    let window = endpoint.map(&aperture.descriptor().unwrap(), 0, 5000).unwrap();
    window.write(3, b"in order").unwrap();
    window.store_u16(4998, 0x1234).unwrap();
    let mut bytes = [0; 8];
    aperture.read(3, &mut bytes).unwrap();
    assert_eq!((&bytes, aperture.load_u16(4998).unwrap()), (b"in order", 0x1234));
    aperture.store_u64(8, u64::MAX).unwrap();
    assert_eq!(window.load_u64(8).unwrap(), u64::MAX, "a value, as there was no fault");
    let mut back = [0; 8];
    window.read(3, &mut back).unwrap();
    assert_eq!(&back[..5], b"in or");
}

#[test]
fn accesses_past_window_or_aperture_are_refused() {
    let (_net, [one]) = cards();
    let aperture = one.aperture(100, Rights::ReadWrite).unwrap();
    let (endpoint, descriptor) = (one.endpoint().unwrap(), aperture.descriptor().unwrap());
    let window = endpoint.map(&descriptor, 0, 50).unwrap();
    let refused = window.store_u8(50, 1).unwrap_err().to_string();
    assert_eq!(refused, "1 bytes at offset 50 reach past the end of the window (limit 50)");
    for offset in [47, 48, usize::MAX, usize::MAX - 3] {
        assert!(window.store_u32(offset, 1).is_err() && window.load_u32(offset).is_err());
        assert!(window.write(offset, &[1; 4]).is_err() && window.read(offset, &mut [1; 4]).is_err());
        assert!(aperture.store_u32(offset | 64, 1).is_err() || offset < 90);
    }
    assert!(window.store_u32(2, 1).is_err(), "misaligned");
    assert!(endpoint.map(&descriptor, 4, 8).is_err(), "it begins at a multiple of 8");
    assert!(endpoint.map(&descriptor, 96, 8).is_err() && endpoint.map(&descriptor, 0, 0).is_err());
    assert!(endpoint.map(&descriptor, u64::MAX - 7, 8).is_err());
    assert!((0..100).all(|at| aperture.load_u8(at).unwrap() == 0));
}

#[test]
fn objects_are_closed_in_valid_order() {
    let (net, [one]) = cards();
    let aperture = one.aperture(64, Rights::Write).unwrap();
    let endpoint = one.endpoint().unwrap();
    let window = endpoint.map(&aperture.descriptor().unwrap(), 0, 64).unwrap();
    let tripwire = endpoint.tripwire(&Watch::local(&aperture, 0..8).unwrap()).unwrap();
    assert_eq!(net.open_objects(), [1, 1, 1, 0]);
    drop(endpoint);
    assert_eq!(net.open_objects(), [1, 1, 1, 0], "its window and its Tripwire are of it");
    drop((tripwire, window, aperture));
    assert_eq!(net.open_objects(), [0; 4]);
}

#[test]
fn lent_memory_is_returned() {
    let (net, [one]) = cards();
    let mut pages = Pages::new(4096);
    pages.as_mut()[5] = 9;
    let aperture = one.aperture_over(pages, Rights::Read).unwrap();
    aperture.write(6, b"x").unwrap();
    let refused = aperture.take_back::<Vec<u8>>().unwrap_err();
    let pages: Pages = refused.back.take_back().unwrap();
    assert_eq!((pages.as_ref()[5], pages.as_ref()[6], net.open_objects()), (9, b'x', [0; 4]));
    assert!(one.aperture_over(Vec::new(), Rights::Read).is_err());
    assert!(one.aperture(0, Rights::Read).is_err());
}

#[test]
fn group_cannot_be_read() {
    let (_net, [one]) = cards();
    let (endpoint, group) = (one.endpoint().unwrap(), Descriptor::of_group(3, 77, 64).unwrap());
    let window = endpoint.map(&group, 0, 64).unwrap();
    assert_eq!(window.load_u64(0).unwrap_err().kind(), ErrorKind::Unsupported);
    let own = one.aperture(64, Rights::None).unwrap();
    assert_eq!(Transfer::read(&own, 0, &group, 0, 8).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn messages_are_taken_in_order() {
    let (_net, [one, two]) = cards();
    let (from, to) = (one.endpoint().unwrap(), two.endpoint_builder().port(77).open().unwrap());
    assert_eq!(to.address().unwrap(), Address { host: 1, port: 77 });
    assert!(two.endpoint_builder().port(77).open().is_err(), "the port is taken");
    let there = to.address().unwrap();
    for round in 0..100_u8 {
        from.send_message(there, MessageKind::Data, &[round; 3]).unwrap();
        let message = to.recv_message_timeout(PATIENCE).unwrap();
        assert_eq!((message.from, message.kind), (from.address().unwrap(), MessageKind::Data));
        assert_eq!((&message.data[..3], &message.data[3..]), (&[round; 3][..], &[0; 37][..]));
    }
    assert!(
        to.try_recv_message().is_none()
            && to.recv_message_timeout(HASTE).is_err_and(|error| error.is_timed_out())
    );
    assert!(from.send_message(there, MessageKind::Data, &[0; 41]).is_err());
    let nobody = Address { host: 1, port: 78 };
    from.send_message(nobody, MessageKind::Data, b"lost").unwrap();
    let told = from.recv_message_timeout(PATIENCE).unwrap();
    assert_eq!((told.kind, told.from, &told.data[..4]), (MessageKind::Undelivered, nobody, &b"lost"[..]));
    let far = from.send_message(Address { host: 99, port: 1 }, MessageKind::Data, &[]).unwrap_err();
    assert_eq!(far.kind(), ErrorKind::PeerLost);
}

#[test]
fn addresses_format_and_parse() {
    let address = Address { host: 3, port: 65535 };
    assert_eq!((address.to_string(), "3:65535".parse().ok()), ("3:65535".to_owned(), Some(address)));
    for text in ["", "3", "3:", ":3", "3:65536", "3:-1", "4294967296:1", "1:2:3"] {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}

#[test]
fn transfers_work_both_ways_and_in_order() {
    let (net, [one, two]) = cards();
    let far = two.aperture(10_000, Rights::ReadWrite).unwrap();
    let (endpoint, own) =
        (one.endpoint_builder().requests(16).open().unwrap(), one.aperture(10_000, Rights::None).unwrap());
    let (dma, there) = (endpoint.dma(), far.descriptor().unwrap());
    own.write(0, &[5; 9000]).unwrap();
    let written = dma.try_put(&Transfer::write(&own, 0, &there, 100, 9000).unwrap()).unwrap();
    dma.wait_timeout(written, PATIENCE).unwrap();
    assert_eq!((far.load_u8(99).unwrap(), far.load_u8(100).unwrap(), far.load_u8(9099).unwrap()), (0, 5, 5));
    far.write(0, b"back").unwrap();
    // More requests than the queue has room for.
    let mut last = None;
    for round in 0..100 {
        let read = Transfer::read(&own, round, &there, 0, 4).unwrap();
        last = Some(dma.put_chain_timeout(&[read.quiet()], PATIENCE).unwrap());
    }
    dma.wait_timeout(last.unwrap(), PATIENCE).unwrap();
    let mut bytes = [0; 4];
    own.read(99, &mut bytes).unwrap();
    assert_eq!((&bytes, dma.in_flight()), (b"back", 0));
    assert!(dma.is_done(written).unwrap());
    assert_eq!(net.kicks.load(Ordering::Relaxed), 0);
}

#[test]
fn driver_is_called_only_for_drivers_dma() {
    let (net, [one]) = cards();
    let endpoint = one.endpoint_builder().drivers_dma(true).open().unwrap();
    let own = one.aperture(64, Rights::ReadWrite).unwrap();
    let transfer = Transfer::write(&own, 0, &own.descriptor().unwrap(), 8, 8).unwrap();
    let put = endpoint.dma().try_put(&transfer).unwrap();
    endpoint.dma().wait_timeout(put, PATIENCE).unwrap();
    assert_eq!(net.kicks.load(Ordering::Relaxed), 1);
}

#[test]
fn failed_request_has_reason_and_ends_chain() {
    let (_net, [one, two]) = cards();
    let (endpoint, own) = (one.endpoint().unwrap(), one.aperture(64, Rights::None).unwrap());
    let far = two.aperture(64, Rights::ReadWrite).unwrap().descriptor().unwrap();
    let forged = Descriptor::new(1, far.aperture(), 1, 64, Rights::ReadWrite);
    let dma = endpoint.dma();
    let bad = Transfer::read(&own, 0, &forged, 0, 8).unwrap();
    let chain = [bad.clone(), Transfer::read(&own, 8, &own.descriptor().unwrap(), 0, 8).unwrap()];
    let skipped = dma.try_put_chain(&chain).unwrap();
    let refused = dma.wait_timeout(skipped, PATIENCE).unwrap_err();
    assert!(refused.of() == Some(&DmaError::Skipped), "{refused}");
    let alone = dma.try_put(&bad).unwrap();
    assert_eq!(dma.wait_timeout(alone, PATIENCE).unwrap_err().of(), Some(&DmaError::Refused));
    // A write is complete when it has left this host: its fault follows.
    let write = dma.try_put(&Transfer::write(&own, 0, &forged, 16, 8).unwrap()).unwrap();
    dma.wait_timeout(write, PATIENCE).unwrap();
    let fault = endpoint.recv_fault_timeout(PATIENCE).unwrap();
    assert_eq!((fault.reason, fault.host, fault.offset), (FaultReason::Refused, 1, 16));
    assert!(endpoint.try_recv_fault().is_none() && endpoint.faults() == 1);
    // A load's fault counts, even if another fault follows before the owner checks.
    let other = Descriptor::new(1, far.aperture() + 7, 1, 64, Rights::ReadWrite);
    dma.try_put(&Transfer::write(&own, 0, &other, 0, 8).unwrap()).unwrap();
    endpoint.recv_fault_timeout(PATIENCE).unwrap();
    assert!(endpoint.core().fault_since(0).is_some() && endpoint.core().fault_since(2).is_none());
    assert!(Transfer::write(&own, 60, &far, 0, 8).is_err() && Transfer::write(&own, 0, &far, 60, 8).is_err());
    assert!(
        Transfer::write(&own, 0, &far, u64::MAX, 8).is_err() && Transfer::write(&own, 0, &far, 0, 0).is_err()
    );
    assert!(dma.try_put_chain(&[]).is_err() && dma.try_put_chain(&vec![bad; 65]).is_err());
}

#[test]
fn aperture_stays_open_until_request_is_done() {
    let (net, [one]) = cards();
    net.stop();
    let endpoint = one.endpoint().unwrap();
    let (from, to) = (one.aperture(64, Rights::None).unwrap(), one.aperture(64, Rights::Write).unwrap());
    let put =
        endpoint.dma().try_put(&Transfer::write(&from, 0, &to.descriptor().unwrap(), 0, 8).unwrap()).unwrap();
    drop(from);
    assert_eq!(net.open_objects()[0], 2, "the card may still read it");
    net.step();
    assert!(endpoint.dma().is_done(put).unwrap());
    assert_eq!(net.open_objects()[0], 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Arbitrary contents of the shared memory make an endpoint neither panic nor block forever.
    #[test]
    fn arbitrary_shared_memory_is_harmless(bytes in prop::collection::vec(any::<u8>(), 4096)) {
        let memory = std::sync::Arc::new(Mapping::anonymous(4096 + 64 * 16).unwrap());
        let page = std::sync::Arc::new(Mapping::anonymous(4096).unwrap());
        memory.write(0, &bytes);
        let state = super::super::endpoint::state::State::new(memory, page, 16);
        let _ = state.fault(0);
        for n in 0..40 {
            let _ = state.message(n);
        }
        for n in 0..32 {
            let _ = (state.fired(n), state.answer(n));
        }
        let mut queue = super::super::dma_queue::Queue::new(16, false);
        queue.harvest(&state);
    }
}

#[test]
fn descriptor_fits_into_connection_data() {
    const { assert!(Descriptor::SIZE <= TOLD_SIZE) };
}
