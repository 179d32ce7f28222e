//! The order in which a notification becomes visible (section 2.6). Its wrap flag comes last. From
//! the second pass over the queue on, the first write is a word that warns a slow reader that its
//! entry is being overwritten.

use std::cell::RefCell;
use std::mem::offset_of;

use crate::support::{Host, SLOT, Two, request};
use hamlyn_abi::hamlyn::command::HAMLYN_MODE_NORMAL;
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_FAST, HAMLYN_NOTIFICATION_PASS_SHIFT, HamlynNotification,
};
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HamlynRequest};
use hamlyn_card::card::Card;
use hamlyn_card::ports::{Dma, DmaFault, Operation, Packet, Ports, VolatileSlice};
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_test_host::Memory;
use zerocopy::IntoBytes;

/// Memory that records the address and the bytes of each write.
struct Writes<'a>(&'a Memory, RefCell<Vec<(u64, Vec<u8>)>>);

impl Dma for Writes<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.0.read(address, into)
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        self.0.lend(address, length)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let mut bytes = vec![0; from.len()];
        from.copy_to(&mut bytes[..]);
        self.1.borrow_mut().push((address, bytes));
        self.0.write(address, from)
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        self.1.borrow_mut().push((address, value.to_le_bytes().to_vec()));
        self.0.publish(address, value)
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        self.0.fetch(address, operation)
    }
}

/// Returns the writes to a host's memory when a packet arrives.
fn writes(host: &mut Host, mut packet: Vec<u8>) -> Vec<(u64, Vec<u8>)> {
    let hamlyn_test_host::Host { card, memory, window, interrupts, clock, .. } = &mut **host;
    let dma = Writes(memory, RefCell::default());
    let packet = Packet { source: 0, bytes: VolatileSlice::from(&mut packet[..]).into() };
    card.packet_arrived(&Ports { dma: &dma, windows: window, interrupt: interrupts, clock }, &packet);
    dma.1.into_inner()
}

#[test]
fn wrap_flag_is_written_last_and_warning_first() {
    // Three passes through a queue of four entries.
    let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_NORMAL);
    for number in 0..12 {
        let message = HamlynRequest { metadata_index: HAMLYN_FAST_MODE, delta: number, ..request(0, 0) };
        two.sender.post(0, message, b"");
        two.sender.transmit_all();
        let (_, packet) = two.sender.wire.sent.pop().unwrap();
        let writes = writes(&mut two.receiver, packet);

        let pass = number / 4;
        let lap = pass << HAMLYN_NOTIFICATION_PASS_SHIFT;
        let (stale, fresh) = (lap | (pass % 2), lap | ((pass + 1) % 2));
        let entry = HamlynNotification {
            metadata: number.into(),
            slot: SLOT,
            notification_index: 77,
            wrap: stale,
            ..Default::default()
        };
        let word = writes.last().unwrap().0;
        let address = word - offset_of!(HamlynNotification, wrap) as u64;
        let mut expected = vec![
            (word, stale.to_le_bytes().to_vec()),
            (address, entry.as_bytes().to_vec()),
            (word, (fresh | HAMLYN_NOTIFICATION_FAST).to_le_bytes().to_vec()),
        ];
        if pass == 0 {
            expected.remove(0);
        }
        assert_eq!(writes, expected, "notification {number}");
    }
}
