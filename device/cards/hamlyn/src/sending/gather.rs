//! Gathers a message from send buffers while it is sent (section 2.3).

use hamlyn_abi::hamlyn::request::{HAMLYN_SEND_BUFFERS, HamlynGather};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::chassis::area::{Area, Gathered};
use hamlyn_card::ports::{Dma, VolatileSlice};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The send buffers of a terminus, by tag.
pub(super) type SendBuffers = [Option<Area>; HAMLYN_SEND_BUFFERS as usize];

/// The tuples of a request, which stay in its body, and the current position in them.
#[derive(Debug, Clone, Copy)]
pub(super) struct GatherList {
    /// Offset of the current tuple in the body.
    at: usize,
    /// Bytes of the current tuple that are already used.
    used: u32,
}

const TUPLE: usize = size_of::<HamlynGather>();

impl GatherList {
    /// Checks the tuples in `body[at..]`. Each must lie in a send buffer, and together they must
    /// have `total` bytes.
    pub(super) fn check(
        body: &[u8],
        at: usize,
        buffers: &SendBuffers,
        total: u64,
    ) -> Result<Self, Statistic> {
        let mut sum = 0;
        for tuple in body[at..].chunks(TUPLE) {
            let tuple = HamlynGather::read_from_bytes(tuple).map_err(|_| Statistic::RefusedGatherCount)?;
            if tuple.reserved != 0 {
                return Err(Statistic::RefusedFlags);
            }
            find(buffers, &tuple, 0, tuple.length)?;
            sum += u64::from(tuple.length);
        }
        if sum == total { Ok(Self { at, used: 0 }) } else { Err(Statistic::RefusedLength) }
    }

    /// Appends the next `length` bytes to `pieces`. Returns the list that continues behind them.
    /// The buffers are looked up again, because one may have been cleared since.
    pub(super) fn take<'a>(
        mut self,
        dma: &'a dyn Dma,
        buffers: &SendBuffers,
        body: VolatileSlice<'_>,
        mut length: usize,
        pieces: &mut Gathered<'a>,
    ) -> Result<Self, Statistic> {
        while length > 0 {
            let mut tuple = HamlynGather::new_zeroed();
            body.subslice(self.at, TUPLE)
                .map_err(|_| Statistic::RefusedLength)?
                .copy_to(tuple.as_mut_bytes());
            let here = length.min((tuple.length - self.used) as usize);
            let (area, offset) = find(buffers, &tuple, self.used, here as u32)?;
            area.lend(dma, offset, here as u64, pieces).map_err(|_| Statistic::RefusedSendDma)?;
            length -= here;
            self.used += here as u32;
            if self.used == tuple.length {
                self.at += TUPLE;
                self.used = 0;
            }
        }
        Ok(self)
    }
}

/// Returns the send buffer of a tuple, and the offset in it of bytes `used..used + length` of the
/// tuple.
fn find<'a>(
    buffers: &'a SendBuffers,
    tuple: &HamlynGather,
    used: u32,
    length: u32,
) -> Result<(&'a Area, u64), Statistic> {
    let area = buffers.get(tuple.tag as usize).and_then(Option::as_ref).ok_or(Statistic::RefusedTag)?;
    let offset = u64::from(tuple.offset) + u64::from(used);
    if area.contains(offset, length.into()) { Ok((area, offset)) } else { Err(Statistic::RefusedSendBuffer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_may_lie_at_any_address() {
        let tuple = HamlynGather { tag: 8, ..HamlynGather::default() };
        let mut body = [0; TUPLE + 4];
        for at in 0..4 {
            body[at..at + TUPLE].copy_from_slice(tuple.as_bytes());
            let checked = GatherList::check(&body[..at + TUPLE], at, &SendBuffers::default(), 0);
            // The tuple itself was readable: only its tag is wrong.
            assert_eq!(checked.unwrap_err(), Statistic::RefusedTag);
        }
    }
}
