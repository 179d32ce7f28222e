//! The fake card's driver.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hamlyn::attach::{
    Attachment, CardAttachment, ConnectionParts, Doorbell, ExpressParts, ListenerParts, QueueFile,
    QueueParts, QueueWait, TerminusParts,
};
use hamlyn::{Error, GivenBack, Memory, Result};
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::window::HAMLYN_WINDOW_SIZE;
use hamlyn_abi::uapi::*;
use hamlyn_sys::Mapping;
use hamlyn_sys::hamlyn::window::{QueueEntries, StatusWords, Window};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::read;
use zerocopy::FromZeros;

use super::Fake;
use super::card::{Card, Queue, Terminus};
use super::connection::FakeConnection;
use super::express::{FakeListener, request};
use super::sleeper::{self, Sleeper};

#[derive(Debug)]
struct Bell(Arc<Mutex<Card>>);

impl Doorbell for Bell {
    fn ring(&self) -> Result<()> {
        let mut card = self.0.lock().unwrap();
        card.rings += 1;
        if !card.held {
            card.work();
        }
        Ok(())
    }
}

impl Fake {
    fn card_that_wakes(&self) -> Result<MutexGuard<'_, Card>> {
        let card = self.0.lock().unwrap();
        if card.is_old { Err(Error::Unsupported("an old driver")) } else { Ok(card) }
    }
}

fn no_system(source: std::io::Error) -> Error {
    Error::System { action: "fake".into(), source }
}

fn map(length: usize) -> Result<Arc<Mapping>> {
    Mapping::anonymous(length).map(Arc::new).map_err(no_system)
}

impl CardAttachment for Fake {
    fn query(&self) -> Result<UlnQuery> {
        let host = if self.0.lock().unwrap().link_down {
            hamlyn_abi::family::link::ULN_NO_HOST
        } else {
            self.host()
        };
        let ports = self.0.lock().unwrap().ports;
        Ok(UlnQuery { host, ports, packet_size: 1024, ..UlnQuery::default() })
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        let memory = Memory::local(Mapping::anonymous(length).map_err(no_system)?, length);
        self.0.lock().unwrap().memory.push(Arc::downgrade(memory.mapping()));
        Ok(memory)
    }

    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        let mut card = self.0.lock().unwrap();
        if std::mem::take(&mut card.refuses_to_lend) {
            return Err(GivenBack::new(Error::Unsupported("not this"), mapping));
        }
        let length = mapping.length();
        let memory = Memory::local(mapping, length);
        card.memory.push(Arc::downgrade(memory.mapping()));
        Ok(memory)
    }

    fn listen(&self, name: &str, _: u32) -> Result<Box<dyn ListenerParts>> {
        let (file, theirs) = UnixStream::pair().unwrap();
        self.0.lock().unwrap().names.insert(name.into(), (VecDeque::new(), theirs));
        Ok(Box::new(FakeListener { card: self.0.clone(), name: name.into(), file }))
    }

    /// Delivers the request to the listener for the name. Without a listener, the host answers as
    /// set by [`Fake::answer`], or never, or refuses ([`Fake::refuse`]).
    fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        if let Some((requests, file)) = self.0.lock().unwrap().names.get_mut(name) {
            let (asker, asked) = request(self.host(), host, private);
            requests.push_back(asked);
            file.write_all(b"news").unwrap();
            return Ok(Box::new(asker));
        }
        let connection = FakeConnection::undecided(host);
        if self.0.lock().unwrap().refuses {
            connection.asked.lock().unwrap().end(ULN_END_NO_NAME);
        }
        self.0.lock().unwrap().asked.entry(host).or_default().push(Arc::downgrade(&connection.asked));
        Ok(Box::new(connection))
    }

    /// The host answers as set by [`Fake::say`], or never.
    fn ask(&self, host: u32, _: &str) -> Result<Box<dyn ConnectionParts>> {
        let card = self.0.lock().unwrap();
        let answer = match &card.answers {
            Some(answers) => answers.get(&host).copied(),
            None if card.refuses => Some(ULN_END_NO_NAME),
            None => return Err(Error::Unsupported("this card cannot ask")),
        };
        let question = FakeConnection::undecided(host);
        if let Some(reason) = answer {
            question.asked.lock().unwrap().end(reason);
        }
        Ok(Box::new(question))
    }

    fn create_express(&self, host: u32, length: usize) -> Result<ExpressParts> {
        self.0.lock().unwrap().create_area(self.host(), host, length)
    }

    fn map_express(&self, host: u32, area: u32, key: u64) -> Result<ExpressParts> {
        self.0.lock().unwrap().map_area(self.host(), host, area, key)
    }

    fn query_express(&self, _host: u32) -> Result<UlnExpressQuery> {
        let part = if self.0.lock().unwrap().has_express { 1 << 20 } else { 0 };
        Ok(UlnExpressQuery { part, ..FromZeros::new_zeroed() })
    }

    fn destroy_express(&self, number: u32) -> Result<()> {
        self.0.lock().unwrap().destroy_area(number);
        Ok(())
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        self.0.lock().unwrap().settled += 1;
        Ok(UlnStatistics::new_zeroed())
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        Ok(UlnSelfTest::default())
    }
}

impl Attachment for Fake {
    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        let (window, status) = (map(HAMLYN_WINDOW_SIZE as usize)?, map(4096)?);
        let mut card = self.0.lock().unwrap();
        let number = card.number();
        let buffers = BTreeMap::new();
        let sleeper = Sleeper::new();
        let terminus = Terminus { window: window.clone(), status: status.clone(), done: 0, sleeper, buffers };
        card.termini.insert(number, terminus);
        card.weights.push(weight);
        Ok(TerminusParts {
            terminus: number,
            window: Window::new(window).map_err(no_system)?,
            status: StatusWords::new(status).map_err(no_system)?,
            doorbell: Box::new(Bell(self.0.clone())),
        })
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        self.0.lock().unwrap().termini.remove(&terminus);
        Ok(())
    }

    /// Spins until the condition holds or the time is up, like [`Fake::wait_queue`].
    fn wait_terminus(&self, terminus: u32, completed: u32, timeout: Option<Duration>) -> Result<()> {
        self.card_that_wakes()?.sleeps += 1;
        let start = std::time::Instant::now();
        let is_over = || sleeper::has_reached(self.0.lock().unwrap().termini[&terminus].done, completed);
        while timeout.is_none_or(|limit| start.elapsed() < limit) && !is_over() {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn arm_terminus(&self, terminus: u32, completed: u32) -> Result<bool> {
        let mut card = self.card_that_wakes()?;
        let terminus = card.termini.get_mut(&terminus).unwrap();
        Ok(terminus.sleeper.arm(terminus.done, completed))
    }

    fn terminus_file(&self, terminus: u32) -> Result<QueueFile<'_>> {
        Ok(QueueFile::Shared(self.card_that_wakes()?.termini[&terminus].sleeper.file()))
    }

    fn register(&self, _memory: &Memory) -> Result<u32> {
        let mut card = self.0.lock().unwrap();
        if card.refuses_to_register {
            return Err(Error::Unsupported("an old driver"));
        }
        card.last_registration += 1;
        let number = card.last_registration;
        card.registered.insert(number);
        Ok(number)
    }

    fn deregister(&self, registration: u32) -> Result<()> {
        let mut card = self.0.lock().unwrap();
        let uses = |number| number == registration;
        assert!(!card.slots.values().any(|slot| uses(slot.registration)), "a slot uses it");
        let mut buffers = card.termini.values().flat_map(|terminus| terminus.buffers.values());
        assert!(!buffers.any(|buffer| uses(buffer.registration)), "a send buffer uses it");
        drop(buffers);
        assert!(card.registered.remove(&registration), "no registration {registration}");
        Ok(())
    }

    fn set_send_buffer(&self, buffer: HamlynSendBuffer, _memory: &Memory) -> Result<()> {
        let mut card = self.0.lock().unwrap();
        card.termini.get_mut(&buffer.terminus).unwrap().buffers.insert(buffer.tag, buffer);
        Ok(())
    }

    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()> {
        self.0.lock().unwrap().termini.get_mut(&terminus).unwrap().buffers.remove(&tag);
        Ok(())
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        let memory = map(entries as usize * HAMLYN_NOTIFICATION_SIZE as usize)?;
        let mut card = self.0.lock().unwrap();
        let number = card.number();
        let file = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let queue = Queue { memory: memory.clone(), entries, written: 0, file, armed: false };
        card.queues.insert(number, queue);
        let entries = QueueEntries::new(memory, entries).map_err(no_system)?;
        Ok(QueueParts { queue: number, entries, offset: None })
    }

    fn destroy_queue(&self, queue: u32) -> Result<()> {
        let mut card = self.0.lock().unwrap();
        assert!(card.slots.values().all(|slot| slot.queue != queue), "slots go before their queues");
        card.queues.remove(&queue);
        Ok(())
    }

    /// Spins until the condition holds or the time is up: this card does nothing unless its
    /// doorbell is rung.
    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()> {
        let start = std::time::Instant::now();
        let is_over = || self.0.lock().unwrap().queues[&wait.queue].is_over(wait);
        while timeout.is_none_or(|limit| start.elapsed() < limit) && !is_over() {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn arm_queue(&self, wait: QueueWait) -> Result<bool> {
        let mut card = self.0.lock().unwrap();
        let queue = card.queues.get_mut(&wait.queue).unwrap();
        let over = queue.is_over(wait);
        let _ = read(&queue.file, &mut [0_u8; 8]);
        queue.armed = !over;
        Ok(over)
    }

    fn queue_file(&self, queue: u32) -> Result<QueueFile<'_>> {
        Ok(QueueFile::Shared(self.0.lock().unwrap().queues[&queue].file.clone()))
    }

    fn create_slot(
        &self,
        slot: &mut HamlynSlotCreate,
        area: &Memory,
        metadata: Option<&Memory>,
    ) -> Result<()> {
        assert!(area.mapping().contains(slot.area_address, slot.area_length));
        assert_eq!(metadata.is_some(), slot.metadata_entries != 0);
        let mut card = self.0.lock().unwrap();
        slot.slot = card.number();
        slot.key = 0x5eed_0000 + u64::from(slot.slot);
        card.slots.insert(slot.slot, *slot);
        Ok(())
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        self.0.lock().unwrap().slots.remove(&slot);
        Ok(())
    }
}
