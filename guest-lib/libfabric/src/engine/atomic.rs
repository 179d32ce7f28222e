//! Atomic operations on memory of peers (fi_atomic(3)). The peer's endpoint executes them when its
//! program makes progress, one at a time for all endpoints of a domain.

use super::event::Operation;
use super::outgoing::{Outgoing, Source};
use super::transport::{Link, Packet};
use super::wire::{HEADER, Header, Kind};
use super::{Engine, Filling, LONGEST_ATOMIC, Pending};
use crate::abi::*;
use crate::memory::Area;

/// What is done, to elements of which type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Atomic {
    pub(crate) datatype: u32,
    pub(crate) op: u32,
    pub(crate) form: Form,
}

/// What an operation returns, and needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing is returned.
    Update,
    /// What was there is returned.
    Fetch,
    /// The same, and the operation compares.
    Compare,
}

/// The buffers of an operation, all of the same length. A fetch of `FI_ATOMIC_READ` has no operand.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    pub(crate) operand: Area,
    pub(crate) compare: Area,
    pub(crate) result: Option<Area>,
}

impl Atomic {
    /// Bytes of an element; `None` if this is not supported.
    pub(crate) fn size(self) -> Option<usize> {
        let has_form = match self.op {
            FI_ATOMIC_READ => self.form == Form::Fetch,
            FI_CSWAP..=FI_MSWAP => self.form == Form::Compare,
            _ => self.form != Form::Compare,
        };
        has_form.then(|| self.change(&mut [0; 8], &[0; 8], &[0; 8])).flatten()
    }

    fn has_operand(self) -> bool {
        self.op != FI_ATOMIC_READ
    }

    /// Number of buffers that a packet has.
    fn buffers(self) -> usize {
        usize::from(self.has_operand()) + usize::from(self.form == Form::Compare)
    }

    fn to_word(self) -> u64 {
        u64::from(self.datatype as u8) | u64::from(self.op as u8) << 8 | (self.form as u64) << 16
    }

    fn from_word(word: u64) -> Option<Self> {
        let form = match word >> 16 {
            0 => Form::Update,
            1 => Form::Fetch,
            2 => Form::Compare,
            _ => return None,
        };
        Some(Self { datatype: (word & 0xff) as u32, op: (word >> 8 & 0xff) as u32, form })
    }

    /// Changes the first element of `target`. Returns its size, or `None` if the type has no such
    /// operation.
    fn change(self, target: &mut [u8], operand: &[u8], compare: &[u8]) -> Option<usize> {
        let change = match self.datatype {
            FI_INT8 => change::<i8>,
            FI_UINT8 => change::<u8>,
            FI_INT16 => change::<i16>,
            FI_UINT16 => change::<u16>,
            FI_INT32 => change::<i32>,
            FI_UINT32 => change::<u32>,
            FI_INT64 => change::<i64>,
            FI_UINT64 => change::<u64>,
            FI_FLOAT => change::<f32>,
            FI_DOUBLE => change::<f64>,
            _ => return None,
        };
        change(self.op, target, operand, compare)
    }

    /// Changes all elements of `target`.
    fn change_all(self, target: &mut [u8], operand: &[u8], compare: &[u8]) {
        let mut at = 0;
        while at < target.len() {
            match self.change(&mut target[at..], rest(operand, at), rest(compare, at)) {
                Some(size) => at += size,
                None => return,
            }
        }
    }
}

/// The elements from `at` on; none of a buffer that the operation has not.
fn rest(buffer: &[u8], at: usize) -> &[u8] {
    buffer.get(at..).unwrap_or_default()
}

/// An element of memory.
trait Element: Copy + PartialOrd {
    const SIZE: usize;
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
    fn truth(is_true: bool) -> Self;
    fn is_true(self) -> bool;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    /// Operations of bits; `None` if the type has none.
    fn bits(self, op: u32, operand: Self, mask: Self) -> Option<Self>;
}

macro_rules! elements {
    ($($type:ty: $add:expr, $multiply:expr, $bits:expr, $zero:expr, $one:expr;)*) => {$(
        impl Element for $type {
            const SIZE: usize = size_of::<$type>();

            fn load(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or($zero, |bytes| Self::from_ne_bytes(*bytes))
            }

            fn store(self, bytes: &mut [u8]) {
                bytes[..Self::SIZE].copy_from_slice(&self.to_ne_bytes());
            }

            fn truth(is_true: bool) -> Self {
                if is_true { $one } else { $zero }
            }

            fn is_true(self) -> bool {
                self != $zero
            }

            fn sum(self, other: Self) -> Self {
                $add(self, other)
            }

            fn product(self, other: Self) -> Self {
                $multiply(self, other)
            }

            fn bits(self, op: u32, operand: Self, mask: Self) -> Option<Self> {
                $bits(self, op, operand, mask)
            }
        }
    )*};
}

macro_rules! integers {
    ($($type:ident)*) => { elements! {$(
        $type: $type::wrapping_add, $type::wrapping_mul,
            |old: $type, op, operand: $type, mask: $type| Some(match op {
                FI_BOR => old | operand,
                FI_BAND => old & operand,
                FI_BXOR => old ^ operand,
                FI_MSWAP => operand & mask | old & !mask,
                _ => return None,
            }), 0, 1;
    )*} };
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 }
elements! {
    f32: |old, other| old + other, |old, other| old * other, |_, _, _, _| None, 0.0, 1.0;
    f64: |old, other| old + other, |old, other| old * other, |_, _, _, _| None, 0.0, 1.0;
}

fn change<T: Element>(op: u32, target: &mut [u8], operand: &[u8], compare: &[u8]) -> Option<usize> {
    let (old, operand, compare) = (T::load(target), T::load(operand), T::load(compare));
    let if_so = |is_so: bool| if is_so { operand } else { old };
    let new = match op {
        FI_MIN => if_so(operand < old),
        FI_MAX => if_so(operand > old),
        FI_SUM => old.sum(operand),
        FI_PROD => old.product(operand),
        FI_LOR => T::truth(old.is_true() || operand.is_true()),
        FI_LAND => T::truth(old.is_true() && operand.is_true()),
        FI_LXOR => T::truth(old.is_true() != operand.is_true()),
        FI_ATOMIC_READ => old,
        FI_ATOMIC_WRITE => operand,
        FI_CSWAP => if_so(compare == old),
        FI_CSWAP_NE => if_so(compare != old),
        FI_CSWAP_LE => if_so(compare <= old),
        FI_CSWAP_LT => if_so(compare < old),
        FI_CSWAP_GE => if_so(compare >= old),
        FI_CSWAP_GT => if_so(compare > old),
        _ => old.bits(op, operand, compare)?,
    };
    new.store(target);
    Some(T::SIZE)
}

impl<L: Link> Engine<L> {
    /// Changes a peer's region.
    pub(crate) fn change(
        &mut self,
        peer: usize,
        atomic: Atomic,
        operands: Operands,
        (key, place): (u64, u64),
        operation: Operation,
    ) -> Result<(), i32> {
        let size = atomic.size().ok_or(libc::EOPNOTSUPP)?;
        let Operands { operand, compare, result } = operands;
        let length = if atomic.has_operand() { operand.len() } else { result.as_ref().map_or(0, Area::len) };
        self.has_room(peer, length)?;
        if length > LONGEST_ATOMIC {
            return Err(libc::EMSGSIZE);
        }
        let compares = atomic.form == Form::Compare;
        if length == 0
            || length % size != 0
            || compares && compare.len() != length
            || result.as_ref().is_some_and(|result| result.len() != length)
            || result.is_none() != (atomic.form == Form::Update)
        {
            return Err(libc::EINVAL);
        }
        let mut header = Header::new(Kind::Atomic);
        (header.id, header.data) = (self.number(), atomic.to_word());
        (header.tag, header.place, header.length) = (key, place, length as u64);
        let mut bytes = if atomic.has_operand() { operand.to_vec() } else { Vec::new() };
        if compares {
            bytes.extend(compare.to_vec());
        }
        let pending = match result {
            Some(area) => Pending::Read(Filling { area, got: 0, length }, operation),
            None => Pending::Write(operation),
        };
        self.pending.insert(header.id, (peer, pending));
        self.post(peer, Outgoing::packet(header, Source::Bytes(bytes), None));
        Ok(())
    }

    /// Executes a peer's operation, and answers.
    pub(super) fn take_atomic(
        &mut self,
        packet: &dyn Packet,
        peer: usize,
        header: &Header,
        length: usize,
    ) -> Result<(), i32> {
        let atomic = Atomic::from_word(header.data).ok_or(libc::EPROTO)?;
        let size = atomic.size().ok_or(libc::EPROTO)?;
        let each = usize::try_from(header.length).ok().filter(|each| (1..=LONGEST_ATOMIC).contains(each));
        let each = each.filter(|each| each % size == 0 && each * atomic.buffers() == length);
        let each = each.ok_or(libc::EPROTO)?;
        let mut bytes = vec![0; length];
        packet.read(HEADER, &mut bytes)?;
        let (operand, compare) = bytes.split_at(if atomic.has_operand() { each } else { 0 });
        let changed = {
            // Held until the region is changed, so operations of other endpoints come before or
            // after.
            let regions = self.regions.lock().map_err(|_| libc::EIO)?;
            let find = |writes| regions.find(header.tag, header.place, each as u64, writes);
            let readable = if atomic.form == Form::Update { Ok(()) } else { find(false).map(drop) };
            readable.and_then(|()| find(atomic.has_operand())).map(|area| {
                let before = area.to_vec();
                let mut after = before.clone();
                atomic.change_all(&mut after, operand, compare);
                if atomic.has_operand() {
                    area.fill(0, &after);
                }
                before
            })
        };
        match changed {
            Err(error) => self.confirm(peer, header.id, error),
            Ok(before) => {
                let how = if atomic.has_operand() { FI_REMOTE_WRITE } else { FI_REMOTE_READ };
                if atomic.form == Form::Update {
                    self.confirm(peer, header.id, 0);
                } else {
                    let piece = Header { id: header.id, ..Header::new(Kind::Piece) };
                    self.post(peer, Outgoing::packet(piece, Source::Bytes(before), None));
                }
                self.was_accessed(peer, FI_ATOMIC | how, None);
            }
        }
        Ok(())
    }
}
