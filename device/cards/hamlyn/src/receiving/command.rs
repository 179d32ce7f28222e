//! The driver's commands on slots and queues. Each is carried out completely, or refused without
//! any change.

use hamlyn_abi::family::command::{ULN_STATUS_BAD_LENGTH, ULN_STATUS_BAD_VALUE, ULN_STATUS_IN_USE};
use hamlyn_abi::hamlyn::command::{
    HAMLYN_MODE_PARANOID_ONE_SHOT, HAMLYN_NO_QUEUE, HAMLYN_SLOT_FETCH, HAMLYN_SLOT_FLAGS,
    HAMLYN_SLOT_INTERRUPT, HAMLYN_SLOT_PRIVILEGED, HamlynOpenQueue, HamlynOpenSlot,
};
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MAX_ENTRIES, HAMLYN_QUEUE_MIN_ENTRIES,
};
use hamlyn_abi::hamlyn::sram::HamlynSramPlace;
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;

use super::Receiving;
use super::notification::Nqcb;
use super::slot::{Mode, Slot};
use crate::WINDOWS;
use crate::sleepers::Control;
use crate::sram::{Kind, Sram};

impl Receiving {
    pub(crate) fn open_queue(
        &mut self,
        ports: &Ports<'_>,
        control: Control,
        sram: &mut Sram,
        index: u32,
        body: &HamlynOpenQueue,
    ) -> Result<HamlynSramPlace, Refusal> {
        self.queues.check_vacant(index)?;
        if !(HAMLYN_QUEUE_MIN_ENTRIES..=HAMLYN_QUEUE_MAX_ENTRIES).contains(&body.entries) {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, body.entries, HAMLYN_QUEUE_MAX_ENTRIES));
        }
        let sleeper = control.of_queue(index, body.vector)?;
        let area = Area::table(&body.area, body.entries, HAMLYN_NOTIFICATION_SIZE)?;
        let place = sram.take(Kind::Queue)?;
        let answer = place.abi();
        self.queues.open(index, Nqcb::new(area, body.entries, sleeper, place));
        sleeper.disarm(ports.window(WINDOWS));
        Ok(answer)
    }

    pub(crate) fn close_queue(&mut self, sram: &mut Sram, index: u32) -> Result<(), Refusal> {
        let users = self.slots.all_open().filter(|slot| slot.queue == Some(index)).count();
        if users != 0 {
            return Err(Refusal::new(ULN_STATUS_IN_USE, users as u64, 0_u32));
        }
        sram.give(self.queues.vacate(index)?.into_place());
        Ok(())
    }

    pub(crate) fn open_slot(
        &mut self,
        sram: &mut Sram,
        index: u32,
        body: &HamlynOpenSlot,
    ) -> Result<HamlynSramPlace, Refusal> {
        self.slots.check_vacant(index)?;
        let mode = Mode::from_abi(body.mode).ok_or(Refusal::new(
            ULN_STATUS_BAD_VALUE,
            body.mode,
            HAMLYN_MODE_PARANOID_ONE_SHOT,
        ))?;
        let flags = HAMLYN_SLOT_FLAGS | HAMLYN_SLOT_PRIVILEGED;
        if body.flags & !flags != 0 {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.flags, flags));
        }
        let privileged = privileged(body)?;
        let queue = (body.queue != HAMLYN_NO_QUEUE).then_some(body.queue);
        if let Some(queue) = queue {
            self.queues.opened(queue)?;
        }
        let metadata = metadata(body)?;
        let area = Area::check(&body.area)?;
        let place = sram.take(Kind::Slot)?;
        let answer = place.abi();
        let slot = Slot {
            place,
            area,
            metadata,
            metadata_pointer: body.metadata_pointer,
            key: body.key,
            mode,
            queue,
            notification_index: body.notification_index,
            interrupt: body.flags & HAMLYN_SLOT_INTERRUPT != 0,
            fetch: body.flags & HAMLYN_SLOT_FETCH != 0,
            privileged,
        };
        self.slots.open(index, slot);
        Ok(answer)
    }

    pub(crate) fn close_slot(&mut self, sram: &mut Sram, index: u32) -> Result<(), Refusal> {
        sram.give(self.slots.vacate(index)?.place);
        Ok(())
    }
}

/// Returns the host whose operating system alone may write to the slot, or `None` if the slot is
/// not privileged.
fn privileged(body: &HamlynOpenSlot) -> Result<Option<u16>, Refusal> {
    if body.flags & HAMLYN_SLOT_PRIVILEGED == 0 {
        return Refusal::unless_zero(body.source.into()).map(|()| None);
    }
    let source = u16::try_from(body.source);
    source.map(Some).map_err(|_| Refusal::new(ULN_STATUS_BAD_VALUE, body.source, u16::MAX))
}

/// Returns the metadata area and the number of its entries, or `None` if the slot has no entries.
fn metadata(body: &HamlynOpenSlot) -> Result<Option<(Area, u32)>, Refusal> {
    match body.metadata_entries {
        0 => Ok(None),
        entries => Ok(Some((Area::table(&body.metadata, entries, HAMLYN_METADATA_SIZE)?, entries))),
    }
}
