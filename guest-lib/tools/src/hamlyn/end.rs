//! An end at a Hamlyn card: a slot to receive in, a terminus and a send buffer to send from.

use std::time::Duration;

use hamlyn::attach::Attachment;
use hamlyn::{Arrival, Card, Error, Handle, Message, NotificationQueue, SendBuffer, Slot, Terminus, Ticket};

use crate::Outcome;
use crate::end::{Address, DEPTH, End, Hello, Wait, Wish};
use crate::word;

/// Entries of the notification queue: the depth, and control words.
const NOTIFICATIONS: u32 = 256;
/// Bytes before the data, for control messages.
const CONTROL: usize = 64;

/// An end with a metadata entry for each message, so that their packets may overtake each other.
pub(crate) struct HamlynEnd {
    terminus: Terminus,
    slot: Slot,
    queue: NotificationQueue,
    buffer: SendBuffer,
    peer: Option<Ticket>,
    /// Last message sent.
    last: Option<Handle>,
}

impl Address for Ticket {
    const SIZE: usize = Ticket::SIZE;

    fn to_bytes(&self) -> Vec<u8> {
        Ticket::to_bytes(self).to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Ticket::from_bytes(bytes).ok()
    }

    fn host(&self) -> u32 {
        self.destination
    }

    fn room(&self) -> usize {
        (self.length as usize).saturating_sub(CONTROL)
    }
}

impl HamlynEnd {
    fn peer(&self) -> hamlyn::Result<Ticket> {
        self.peer.ok_or(Error::NotConnected)
    }
}

impl End for HamlynEnd {
    type Attachment = dyn Attachment;
    type Address = Ticket;

    const MODEL: &'static str = "hamlyn";
    const HAS_TICKETS: bool = true;
    /// As in perftest.
    const MAX_SIZE: usize = 8 << 20;

    fn create(card: &Card, _host: Option<u32>, size: usize) -> Outcome<Self> {
        let area = card.create_area(CONTROL + size)?;
        let queue = card.create_queue(NOTIFICATIONS)?;
        let slot = card.slot(&area).metadata_entries(DEPTH as u32).queue(&queue).create()?;
        let terminus = card.create_terminus()?;
        let buffer = terminus.create_send_buffer(size.max(1))?;
        Ok(Self { terminus, slot, queue, buffer, peer: None, last: None })
    }

    fn host(card: &Card) -> hamlyn::Result<Option<u32>> {
        Ok(card.info()?.host)
    }

    fn address(&self) -> hamlyn::Result<Ticket> {
        self.slot.fast_ticket()
    }

    fn reach(&mut self, address: &Ticket, _wish: Wish) -> Outcome {
        self.peer = Some(*address);
        Ok(())
    }

    fn fill(&mut self, data: &[u8]) -> hamlyn::Result<()> {
        self.buffer.write(0, data)
    }

    fn data(&self, size: usize) -> hamlyn::Result<Vec<u8>> {
        let mut data = vec![0; size];
        self.slot.read(CONTROL, &mut data)?;
        Ok(data)
    }

    /// Uses fast mode if the message fits into a packet.
    fn send(&mut self, word: u32, size: usize) -> hamlyn::Result<()> {
        let (peer, piece) = (self.peer()?, self.buffer.piece(0, size)?);
        self.last = Some(if size <= self.terminus.packet_size() as usize {
            self.terminus.send(&Message::to(&peer).offset(CONTROL as u32).word(word), piece)?
        } else {
            let entry = Ticket { metadata_index: word % DEPTH as u32, ..peer };
            let metadata = word.to_le_bytes();
            self.terminus.send(&Message::to(&entry).offset(CONTROL as u32).metadata(&metadata), piece)?
        });
        Ok(())
    }

    fn say(&mut self, word: u32) -> hamlyn::Result<()> {
        self.last = Some(self.terminus.send(&Message::to(&self.peer()?).word(word), &[])?);
        Ok(())
    }

    fn say_hello(&mut self, hello: &[u8]) -> hamlyn::Result<()> {
        self.last = Some(self.terminus.send(&Message::to(&self.peer()?).word(word::HELLO), hello)?);
        Ok(())
    }

    fn read_hello(&self) -> hamlyn::Result<Vec<u8>> {
        let mut bytes = vec![0; Hello::<Ticket>::SIZE];
        self.slot.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn receive(&mut self, wait: Wait, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>> {
        let arrived = match wait {
            Wait::Poll => self.queue.recv_poll(timeout),
            Wait::Sleep => self.queue.recv_block(timeout),
        };
        let arrived = match arrived {
            Err(error) if error.is_timed_out() => return Ok(None),
            arrived => arrived?,
        };
        if let Arrival::Fast(word) = arrived.arrival {
            return Ok(Some(word));
        }
        let entry = self.slot.entry_of(&arrived).ok_or(Error::Malformed("a notification of another slot"))?;
        let user = self.slot.metadata(entry)?.user();
        Ok(Some(u32::from_le_bytes([user[0], user[1], user[2], user[3]])))
    }

    fn complain(&self) -> hamlyn::Result<()> {
        self.last.as_ref().map(Handle::is_complete).transpose().map(drop)
    }

    /// Requests that are still in the work queue when the terminus is dropped would be abandoned.
    fn finish(&mut self, timeout: Duration) -> hamlyn::Result<()> {
        self.last.as_ref().map_or(Ok(()), |last| last.wait(Some(timeout)))
    }
}
