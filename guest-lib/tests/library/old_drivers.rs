//! The current library with older drivers. If a driver lacks an addition to version 2, the library
//! works without it, or refuses the call and names the addition.

use std::sync::Arc;
use std::time::Duration;

use hamlyn::attach::{
    Attachment, CardAttachment, ConnectionParts, ListenerParts, QueueFile, QueueParts, QueueWait,
    TerminusParts,
};
use hamlyn::{Card, Error, GivenBack, Memory, Message, Result};
use hamlyn_abi::uapi::*;
use hamlyn_sys::Mapping;

use crate::fake::Fake;

/// The `capabilities` of the first driver of version 2, and of the drivers after each addition.
const GENERATIONS: [u64; 5] = [0, 1, 3, 7, 15];

/// A driver with these additions, which answers unknown calls with `ENOTTY`.
#[derive(Debug)]
struct Old {
    card: Arc<dyn Attachment>,
    capabilities: u64,
}

impl Old {
    fn has(&self, capability: u64) -> Result<()> {
        if self.capabilities & capability != 0 { Ok(()) } else { Err(Error::Unsupported("ENOTTY")) }
    }
}

impl CardAttachment for Old {
    fn query(&self) -> Result<UlnQuery> {
        // The words of later drivers are zero.
        let ports = if self.has(ULN_CAPABILITY_QUESTIONS).is_ok() { 4 } else { 0 };
        Ok(UlnQuery { capabilities: self.capabilities, ports, ..self.card.query()? })
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        self.card.allocate(length)
    }

    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        self.card.lend(mapping)
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        self.card.statistics()
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        self.card.self_test()
    }

    fn listen(&self, name: &str, backlog: u32) -> Result<Box<dyn ListenerParts>> {
        self.has(ULN_CAPABILITY_CONNECTIONS)?;
        self.card.listen(name, backlog)
    }

    fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        self.has(ULN_CAPABILITY_CONNECTIONS)?;
        self.card.connect(host, name, private)
    }

    fn ask(&self, host: u32, name: &str) -> Result<Box<dyn ConnectionParts>> {
        self.has(ULN_CAPABILITY_QUESTIONS)?;
        self.card.ask(host, name)
    }
}

impl Attachment for Old {
    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        self.card.create_terminus(weight)
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        self.card.destroy_terminus(terminus)
    }

    fn wait_terminus(&self, terminus: u32, completed: u32, timeout: Option<Duration>) -> Result<()> {
        self.has(HAMLYN_CAPABILITY_COMPLETIONS)?;
        self.card.wait_terminus(terminus, completed, timeout)
    }

    fn arm_terminus(&self, terminus: u32, completed: u32) -> Result<bool> {
        self.has(HAMLYN_CAPABILITY_COMPLETIONS)?;
        self.card.arm_terminus(terminus, completed)
    }

    fn register(&self, memory: &Memory) -> Result<u32> {
        self.has(HAMLYN_CAPABILITY_REGISTRATIONS)?;
        self.card.register(memory)
    }

    fn deregister(&self, registration: u32) -> Result<()> {
        self.card.deregister(registration)
    }

    fn set_send_buffer(&self, buffer: HamlynSendBuffer, memory: &Memory) -> Result<()> {
        self.card.set_send_buffer(buffer, memory)
    }

    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()> {
        self.card.clear_send_buffer(terminus, tag)
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        self.card.create_queue(entries)
    }

    fn destroy_queue(&self, queue: u32) -> Result<()> {
        self.card.destroy_queue(queue)
    }

    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()> {
        self.card.wait_queue(wait, timeout)
    }

    fn arm_queue(&self, wait: QueueWait) -> Result<bool> {
        self.card.arm_queue(wait)
    }

    fn queue_file(&self, queue: u32) -> Result<QueueFile<'_>> {
        self.card.queue_file(queue)
    }

    fn create_slot(
        &self,
        slot: &mut HamlynSlotCreate,
        area: &Memory,
        metadata: Option<&Memory>,
    ) -> Result<()> {
        self.card.create_slot(slot, area, metadata)
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        self.card.destroy_slot(slot)
    }
}

fn old(capabilities: u64) -> (Fake, Card) {
    let fake = Fake::default();
    let card = Card::attached(Arc::new(Old { card: fake.share(), capabilities }));
    (fake, card)
}

#[test]
fn messages_go_through_every_driver() {
    for capabilities in GENERATIONS {
        let (fake, card) = old(capabilities);
        let area = card.create_area(64).unwrap();
        let slot = card.slot(&area).create().unwrap();
        let terminus = card.create_terminus().unwrap();
        fake.hold(true);
        let handle = terminus.send(&Message::to(&slot.fast_ticket().unwrap()), b"as ever").unwrap();
        std::thread::scope(|scope| {
            // A waiter that cannot be woken polls from time to time.
            let waiting = scope.spawn(|| handle.wait());
            fake.hold(false);
            waiting.join().unwrap().unwrap();
        });
        let mut bytes = [0; 7];
        area.read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"as ever", "{capabilities}");
        let ports = card.info().unwrap().ports;
        assert_eq!(ports, (capabilities == 15).then_some(4), "{capabilities}");
        assert_eq!(card.hosts().unwrap(), 0..ports.unwrap_or(64), "{capabilities}");
    }
}

#[test]
fn only_missing_driver_features_are_refused() {
    let unsupported = |result: Option<Error>| matches!(result, Some(Error::Unsupported(_)));
    for capabilities in GENERATIONS {
        let (_fake, card) = old(capabilities);
        let connects = capabilities & ULN_CAPABILITY_CONNECTIONS != 0;
        let asks = capabilities & ULN_CAPABILITY_QUESTIONS != 0;
        assert_eq!(unsupported(card.begin_connect(1, "name", b"").err()), !connects, "{capabilities}");
        if !connects {
            assert!(unsupported(card.listen("name").err()));
            assert!(unsupported(card.connect_any(0..2, "name", b"").err()));
        }
        if !asks {
            assert!(unsupported(card.ask(1, "name").err()), "{capabilities}");
            assert!(unsupported(card.find("name").err()), "{capabilities}");
        }
    }
}

#[test]
fn connect_any_works_without_the_ask_call() {
    for capabilities in GENERATIONS.into_iter().filter(|additions| additions & 1 != 0 && additions & 8 == 0) {
        let (fake, card) = old(capabilities);
        let connection = std::thread::scope(|scope| {
            scope.spawn(|| {
                while fake.asked(1).1 == 0 {
                    std::thread::yield_now();
                }
                fake.answer(1, 0);
            });
            card.connect_any(0..2, "store", b"").unwrap()
        });
        assert_eq!(connection.host(), 1, "{capabilities}");
    }
}
