use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use hamlyn_abi::dart::queue::{DART_QUEUE_HEAD, DART_RECORD_COMPARED, DART_RECORD_SIZE, DartRecord};
use hamlyn_abi::dart::uapi::*;
use hamlyn_abi::uapi::{UlnQuery, UlnSelfTest, UlnStatistics};
use hamlyn_sys::{Access, Mapping};
use zerocopy::IntoBytes;

use super::*;
use crate::core::attach::{CardAttachment, QueueFile};
use crate::core::memory::Memory;
use crate::dart::attachment::{Attachment, Object, Page};

/// A driver whose card does nothing.
#[derive(Debug)]
struct Idle {
    queue: Arc<Mapping>,
    /// Numbers of records that sleepers had taken.
    file: OwnedFd,
}

fn zeroed(length: usize) -> Result<Mapping> {
    Mapping::anonymous(length).map_err(Error::system("allocate"))
}

impl CardAttachment for Idle {
    fn query(&self) -> Result<UlnQuery> {
        Ok(UlnQuery::default())
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        Ok(Memory::lent(zeroed(length)?, length, Some(0), None))
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        unreachable!()
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        unreachable!()
    }
}

impl Attachment for Idle {
    fn open_endpoint(&self, _: &mut DartEndpoint, _: &Memory) -> Result<()> {
        Ok(())
    }

    fn open_bank(&self, _: &mut DartBank) -> Result<()> {
        Ok(())
    }

    fn open_queue(&self, _: &mut DartQueue) -> Result<()> {
        Ok(())
    }

    fn open_connection(&self, _: &mut DartConnection) -> Result<()> {
        Ok(())
    }

    fn close(&self, _: Object, _: u32) {}

    fn page(&self, _: u32, _: u64) -> Result<Box<dyn Page>> {
        Ok(Box::new(Arc::new(zeroed(PAGE)?)))
    }

    fn map_pages(&self, what: &str, _: u64, length: usize, _: Access) -> Result<Arc<Mapping>> {
        if what == "queue" { Ok(self.queue.clone()) } else { zeroed(length).map(Arc::new) }
    }

    fn set_peer(&self, _: &mut DartPeer) -> Result<()> {
        Ok(())
    }

    fn set_program(&self, _: &mut DartSetProgram) -> Result<()> {
        Ok(())
    }

    fn wait_for_records(&self, _: &mut DartQueueWait) -> Result<()> {
        Ok(())
    }

    fn wait_until_left(&self, _: &mut DartLeftWait) -> Result<()> {
        Ok(())
    }

    fn wait_for_exceptions(&self, _: &mut DartExceptionWait) -> Result<()> {
        Ok(())
    }

    fn file(&self) -> QueueFile<'_> {
        QueueFile::Borrowed(self.file.as_fd())
    }
}

#[test]
fn record_between_two_loads_ends_sleep() {
    let length = (DART_QUEUE_HEAD + RECORDS * DART_RECORD_SIZE) as usize;
    let queue = Arc::new(zeroed(length).unwrap());
    let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let card = Arc::new(Idle { queue: queue.clone(), file });
    let half = Half::open(&Card::attached(card.clone()), 0, PAGE as u64).unwrap();
    half.arm().unwrap();
    assert_eq!(half.load(Word::Written), 0);
    // The peer's message arrives.
    let control = store(8, false).control();
    let record =
        DartRecord { control, data: [0; 4], length: 0, connection: 0, kind: DART_RECORD_COMPARED, number: 1 };
    queue.write(DART_QUEUE_HEAD as usize, record.as_bytes());
    assert_eq!(half.load(Word::Ended), 0, "this takes the record");
    assert!(half.arm_file().unwrap(), "the record that was taken must end the sleep");
    assert_eq!(half.load(Word::Written), 8);
}
