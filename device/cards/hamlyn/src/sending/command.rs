//! The driver's commands on termini. Each is carried out completely, or refused without any change.

use hamlyn_abi::family::command::{
    ULN_STATUS_BAD_ADDRESS, ULN_STATUS_BAD_VALUE, ULN_STATUS_IN_USE, ULN_STATUS_NOT_OPEN,
};
use hamlyn_abi::hamlyn::command::{
    HAMLYN_MAX_WEIGHT, HAMLYN_TERMINUS_PRIVILEGED, HAMLYN_TERMINUS_WAKES, HamlynOpenTerminus,
    HamlynSetSendBuffer,
};
use hamlyn_abi::hamlyn::request::HAMLYN_SEND_BUFFERS;
use hamlyn_abi::hamlyn::sram::HamlynSramPlace;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;

use super::Sending;
use super::terminus::Terminus;
use crate::WINDOWS;
use crate::sleepers::Control;
use crate::sram::{Kind, Sram};
use crate::statistics::Counters;

impl Sending {
    pub(crate) fn open_terminus(
        &mut self,
        ports: &Ports<'_>,
        control: Control,
        sram: &mut Sram,
        index: u32,
        body: &HamlynOpenTerminus,
    ) -> Result<HamlynSramPlace, Refusal> {
        self.termini.check_vacant(index)?;
        let flags = HAMLYN_TERMINUS_PRIVILEGED | HAMLYN_TERMINUS_WAKES;
        if body.flags & !flags != 0 {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.flags, flags));
        }
        let wakes = body.flags & HAMLYN_TERMINUS_WAKES != 0;
        let sleeper = wakes.then(|| control.of_terminus(index, body.vector)).transpose()?;
        if !(1..=HAMLYN_MAX_WEIGHT).contains(&body.weight) {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.weight, HAMLYN_MAX_WEIGHT));
        }
        if body.status % 4096 != 0 {
            return Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, body.status, 4096_u32));
        }
        let place = sram.take(Kind::Terminus)?;
        let answer = place.abi();
        match Terminus::open(ports, index, body, sleeper, place) {
            Ok(terminus) => self.termini.open(index, terminus),
            Err((fault, place)) => {
                sram.give(place);
                return Err(fault.into());
            }
        }
        Ok(answer)
    }

    pub(crate) fn close_terminus(
        &mut self,
        ports: &Ports<'_>,
        sram: &mut Sram,
        index: u32,
        counters: &mut Counters,
    ) -> Result<(), Refusal> {
        let terminus = self.termini.vacate(index)?;
        counters.add(Statistic::Abandoned, terminus.unfinished(ports.window(WINDOWS)).into());
        self.retractions.add(terminus.retraction());
        self.tickets.forget(index);
        self.parked.forget(index);
        self.scheduler.forget(ports, index);
        sram.give(terminus.into_place());
        Ok(())
    }

    pub(crate) fn set_send_buffer(&mut self, index: u32, body: &HamlynSetSendBuffer) -> Result<(), Refusal> {
        let area = Area::check(&body.area)?;
        Refusal::unless_zero(body.reserved.into())?;
        let buffer = self.send_buffer(index, body.tag)?;
        if buffer.is_some() {
            return Err(Refusal::new(ULN_STATUS_IN_USE, body.tag, HAMLYN_SEND_BUFFERS));
        }
        *buffer = Some(area);
        Ok(())
    }

    pub(crate) fn clear_send_buffer(
        &mut self,
        index: u32,
        body: &HamlynSetSendBuffer,
    ) -> Result<(), Refusal> {
        let buffer = self.send_buffer(index, body.tag)?;
        buffer.take().map(drop).ok_or(Refusal::new(ULN_STATUS_NOT_OPEN, body.tag, HAMLYN_SEND_BUFFERS))
    }

    fn send_buffer(&mut self, index: u32, tag: u32) -> Result<&mut Option<Area>, Refusal> {
        let terminus = self.termini.opened(index)?;
        terminus.buffers.get_mut(tag as usize).ok_or(Refusal::new(
            ULN_STATUS_BAD_VALUE,
            tag,
            HAMLYN_SEND_BUFFERS - 1,
        ))
    }
}
