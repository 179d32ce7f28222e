//! Round trips through cards without the library, like the paper's fastest ones (section 4.1). The
//! application itself stores the request into its mapped terminus, by direct I/O. It polls the
//! words of its notification queue itself.
//!
//! The library is used only to open objects and for the ticket's text. Messages use fast mode, like
//! those of tagged remote write: 16 bytes, and a word for the notification.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hamlyn::attach::uapi::HamlynSlotCreate;
use hamlyn::attach::{Attachment, DeviceAttachment, QueueParts, QueueWait, SocketAttachment, TerminusParts};
use hamlyn::{Card, Memory, Ticket, TicketFlags};
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_FAST, HAMLYN_NOTIFICATION_PASS_SHIFT, HAMLYN_NOTIFICATION_WRAP,
};
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HAMLYN_REQUEST_INTERRUPT, HamlynRequest};
use hamlyn_bench_guest::pattern::{check_mark, mark};
use zerocopy::IntoBytes;

use crate::engine::result::{Outcome, Rounds};
use crate::engine::wait::PATIENCE;
use crate::hamlyn::card::{ENTRIES, counted};
use crate::hamlyn::tickets::exchange_tickets;

/// Bytes of a message.
pub(crate) const SIZE: usize = 16;
/// Polls before this process yields its processor: more than a peer's answer takes.
const LOOKS: u32 = 20_000_000;
/// Bytes of a request before its data.
const HEAD: usize = size_of::<HamlynRequest>();
/// The word of each message.
pub(crate) const TAG: u32 = 7;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
}

pub(crate) fn echo(options: &Options) -> Outcome {
    let attachment = open()?;
    let mut receiver = Receiver::create(&attachment)?;
    let parts = attachment.create_terminus(1)?;
    let mut sender = Sender::new(parts, &exchange_tickets(&receiver.ticket()?)?);
    counted(&Card::attached(attachment.clone()), || {
        let answered = options.rounds.answer(|round| {
            if round == 0 {
                // Polling for the first message would starve the peer that sends it.
                receiver.sleep()?;
            }
            receiver.receive(round)?;
            sender.send(round)
        })?;
        // Requests that are still in the work queue when the terminus is destroyed would be
        // abandoned.
        sender.drain()?;
        Ok(answered)
    })
}

pub(crate) fn ping(options: &Options) -> Outcome {
    let attachment = open()?;
    let mut receiver = Receiver::create(&attachment)?;
    let parts = attachment.create_terminus(1)?;
    let mut sender = Sender::new(parts, &exchange_tickets(&receiver.ticket()?)?);
    counted(&Card::attached(attachment.clone()), || {
        options.rounds.measure(|round| {
            sender.send(round)?;
            receiver.receive(round)
        })
    })
}

/// Opens the same card as the library's programs.
fn open() -> Outcome<Arc<dyn Attachment>> {
    let name = std::env::var("HAMLYN_CARD").unwrap_or_else(|_| "/dev/hamlyn0".to_owned());
    Ok(match name.strip_prefix("vfio-user:") {
        Some(socket) => Arc::new(SocketAttachment::connect(Path::new(socket))?),
        None => Arc::new(DeviceAttachment::open(Path::new(&name))?),
    })
}

/// A mapped terminus, and a request of which only the data changes from message to message.
pub(crate) struct Sender {
    parts: TerminusParts,
    posted: u32,
    request: [u8; HEAD + SIZE],
}

impl Sender {
    pub(crate) fn new(parts: TerminusParts, peer: &Ticket) -> Self {
        let head = HamlynRequest {
            destination: peer.destination,
            slot: peer.slot,
            metadata_index: HAMLYN_FAST_MODE,
            flags: HAMLYN_REQUEST_INTERRUPT,
            key: peer.key,
            offset: peer.base,
            length: SIZE as u32,
            delta: TAG,
            ..HamlynRequest::default()
        };
        let mut request = [0; HEAD + SIZE];
        request[..HEAD].copy_from_slice(head.as_bytes());
        Self { parts, posted: 0, request }
    }

    /// Sends a message. The next one is sent only after the answer to this one. So its entry is
    /// free long before it is used again.
    pub(crate) fn send(&mut self, round: u64) -> Outcome {
        mark(&mut self.request[HEAD..], round);
        self.parts.window.fill_entry(self.posted, 0, &self.request);
        self.posted = self.posted.wrapping_add(1);
        if self.parts.window.publish_request(self.posted) {
            self.parts.doorbell.ring()?;
        }
        Ok(())
    }

    /// Waits until the card has completed all requests, and fails if it refused one.
    fn drain(&self) -> Outcome {
        let start = Instant::now();
        while self.parts.status.completed() != self.posted {
            std::thread::yield_now();
            if start.elapsed() > PATIENCE {
                return Err("the card does not finish with the requests".into());
            }
        }
        match self.parts.status.reason(self.posted.wrapping_sub(1)) {
            0 => Ok(()),
            reason => Err(format!("the card refused the last request (reason {reason})").into()),
        }
    }
}

/// A slot, and the position in its notification queue.
pub(crate) struct Receiver {
    attachment: Arc<dyn Attachment>,
    queue: QueueParts,
    slot: HamlynSlotCreate,
    memory: Memory,
    index: u32,
    pass: u32,
}

impl Receiver {
    pub(crate) fn create(attachment: &Arc<dyn Attachment>) -> Outcome<Self> {
        let queue = attachment.create_queue(ENTRIES)?;
        let memory = attachment.allocate(SIZE)?;
        let mut slot = HamlynSlotCreate {
            area_address: memory.card_address(),
            area_length: SIZE as u64,
            queue: queue.queue,
            ..HamlynSlotCreate::default()
        };
        attachment.create_slot(&mut slot, &memory, None)?;
        Ok(Self { attachment: attachment.clone(), queue, slot, memory, index: 0, pass: 0 })
    }

    pub(crate) fn ticket(&self) -> Outcome<Ticket> {
        Ok(Ticket {
            destination: self.attachment.query()?.host,
            slot: self.slot.slot,
            metadata_index: Ticket::FAST,
            key: self.slot.key,
            base: 0,
            length: SIZE as u32,
            flags: TicketFlags::default(),
        })
    }

    /// Returns the last word that the awaited entry will have: the pass, its wrap flag, and the
    /// flag of fast mode.
    fn awaited(&self) -> u32 {
        let flag = if self.pass % 2 == 0 { HAMLYN_NOTIFICATION_WRAP } else { 0 };
        self.pass << HAMLYN_NOTIFICATION_PASS_SHIFT | HAMLYN_NOTIFICATION_FAST | flag
    }

    /// Polls until the next message has arrived, and reads it.
    pub(crate) fn receive(&mut self, round: u64) -> Outcome {
        let (awaited, start) = (self.awaited(), Instant::now());
        let mut looks = 0;
        while self.queue.entries.word(self.index) != awaited {
            std::hint::spin_loop();
            looks += 1;
            if looks == LOOKS {
                std::thread::yield_now();
                looks = 0;
                if start.elapsed() > PATIENCE {
                    return Err(format!("message {round} did not come").into());
                }
            }
        }
        let found = self.queue.entries.entry(self.index, awaited);
        if found.map(|entry| entry.metadata) != Some(TAG.into()) {
            return Err(format!("message {round} came as {found:?}").into());
        }
        self.index += 1;
        if self.index == ENTRIES {
            (self.index, self.pass) = (0, self.pass + 1);
        }
        let mut data = [0; SIZE];
        self.memory.read(0, &mut data)?;
        Ok(check_mark(&data, round)?)
    }

    /// Sleeps until the next message has arrived.
    fn sleep(&self) -> Outcome {
        let wait = QueueWait { queue: self.queue.queue, cursor: self.index, pass: self.pass };
        let start = Instant::now();
        while !wait.is_over(self.queue.entries.word(self.index)) && start.elapsed() < PATIENCE {
            self.attachment.wait_queue(wait, Some(PATIENCE))?;
        }
        Ok(())
    }
}
