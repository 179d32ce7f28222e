//! A card that does nothing: the program's stores stay where they are, and the program itself
//! writes the messages that it receives. So only the program's part of a message is timed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hamlyn::attach::uapi::{HamlynSendBuffer, HamlynSlotCreate, UlnQuery, UlnSelfTest, UlnStatistics};
use hamlyn::attach::window::{QueueEntries, StatusWords, Window};
use hamlyn::attach::{
    Attachment, CardAttachment, Doorbell, Mapping, QueueFile, QueueParts, QueueWait, TerminusParts,
};
use hamlyn::{Error, Memory, Result};
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_FAST, HAMLYN_NOTIFICATION_PASS_SHIFT, HAMLYN_NOTIFICATION_SIZE,
    HAMLYN_NOTIFICATION_WRAP,
};
use hamlyn_abi::hamlyn::window::{HAMLYN_WINDOW_AWAKE, HAMLYN_WINDOW_SIZE, HamlynTerminusStatus};

use crate::hamlyn::card::ENTRIES;

/// The card, with the objects that were created last.
#[derive(Debug, Default)]
pub(crate) struct NullCard(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    status: Option<Arc<Mapping>>,
    queue: Option<Arc<Mapping>>,
    area: Option<Arc<Mapping>>,
    carried: u32,
}

/// A doorbell that is never needed, because the card is always awake.
#[derive(Debug)]
struct Silence;

impl Doorbell for Silence {
    fn ring(&self) -> Result<()> {
        Ok(())
    }
}

impl NullCard {
    /// Acts as if `count` more requests had been sent to this card itself, in fast mode with this
    /// word. The last of them brought these bytes.
    pub(crate) fn carry(&self, count: u32, word: u32, bytes: &[u8]) {
        let mut parts = self.parts();
        let (Some(status), Some(queue), Some(area)) = (&parts.status, &parts.queue, &parts.area) else {
            return;
        };
        area.write(0, bytes);
        for number in parts.carried..parts.carried + count {
            let (index, pass) = (number % ENTRIES, number / ENTRIES);
            let entry = (index * HAMLYN_NOTIFICATION_SIZE) as usize;
            let flag = if pass % 2 == 0 { HAMLYN_NOTIFICATION_WRAP } else { 0 };
            queue.store_u64(entry, word.into());
            let last = entry + HAMLYN_NOTIFICATION_SIZE as usize - size_of::<u32>();
            let word = pass << HAMLYN_NOTIFICATION_PASS_SHIFT | HAMLYN_NOTIFICATION_FAST | flag;
            queue.store_u32_release(last, word);
        }
        let carried = parts.carried + count;
        status.store_u32_release(0, carried);
        parts.carried = carried;
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn memory(length: usize) -> Result<Mapping> {
    Mapping::anonymous(length).map_err(system)
}

fn system(source: std::io::Error) -> Error {
    Error::System { action: "make memory".to_owned(), source }
}

/// The error of every wait: programs never sleep at a card that does nothing.
const NEVER: Error = Error::Unsupported("this card wakes no sleeper");

impl CardAttachment for NullCard {
    fn query(&self) -> Result<UlnQuery> {
        Ok(UlnQuery { packet_size: 4096, ..UlnQuery::default() })
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        Ok(Memory::local(memory(length)?, length))
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        Err(NEVER)
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        Err(NEVER)
    }
}

impl Attachment for NullCard {
    fn create_terminus(&self, _weight: u32) -> Result<TerminusParts> {
        let window = memory(HAMLYN_WINDOW_SIZE as usize)?;
        window.store_u32(HAMLYN_WINDOW_AWAKE as usize, 1);
        let status = Arc::new(memory(size_of::<HamlynTerminusStatus>())?);
        self.parts().status = Some(status.clone());
        Ok(TerminusParts {
            terminus: 0,
            window: Window::new(Arc::new(window)).map_err(system)?,
            status: StatusWords::new(status).map_err(system)?,
            doorbell: Box::new(Silence),
        })
    }

    fn destroy_terminus(&self, _terminus: u32) -> Result<()> {
        Ok(())
    }

    fn set_send_buffer(&self, _buffer: HamlynSendBuffer, _memory: &Memory) -> Result<()> {
        Ok(())
    }

    fn clear_send_buffer(&self, _terminus: u32, _tag: u32) -> Result<()> {
        Ok(())
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        let mapping = Arc::new(memory((entries * HAMLYN_NOTIFICATION_SIZE) as usize)?);
        self.parts().queue = Some(mapping.clone());
        let entries = QueueEntries::new(mapping, entries).map_err(system)?;
        Ok(QueueParts { queue: 0, entries, offset: None })
    }

    fn destroy_queue(&self, _queue: u32) -> Result<()> {
        Ok(())
    }

    fn wait_queue(&self, _wait: QueueWait, _timeout: Option<Duration>) -> Result<()> {
        Err(NEVER)
    }

    fn arm_queue(&self, _wait: QueueWait) -> Result<bool> {
        Err(NEVER)
    }

    fn queue_file(&self, _queue: u32) -> Result<QueueFile<'_>> {
        Err(NEVER)
    }

    fn create_slot(
        &self,
        _slot: &mut HamlynSlotCreate,
        area: &Memory,
        _metadata: Option<&Memory>,
    ) -> Result<()> {
        self.parts().area = Some(area.mapping().clone());
        Ok(())
    }

    fn destroy_slot(&self, _slot: u32) -> Result<()> {
        Ok(())
    }
}
