//! An endpoint as libfabric's object, and what its calls have in common.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::abi::*;
use crate::endpoint::{Endpoint, Inner};
use crate::engine::atomic::{Atomic, Operands};
use crate::engine::event::{Message, Operation};
use crate::engine::matching::{Posted, Wanted};
use crate::memory::Area;
use crate::watched::Progress;

#[repr(C)]
pub(crate) struct EpObject {
    pub(crate) fid: FidEp,
    pub(crate) endpoint: Arc<Endpoint>,
    /// Whether receives may name the peer that they are for.
    pub(crate) is_directed: bool,
}

pub(crate) unsafe fn of<'a>(fid: *mut FidEp) -> &'a EpObject {
    // SAFETY: the program passes an endpoint of this provider.
    unsafe { &*fid.cast::<EpObject>() }
}

/// Runs a call of the engine, and returns what libfabric's functions return.
fn run(endpoint: &Arc<Endpoint>, call: impl FnOnce(&mut Inner) -> Result<(), i32>) -> isize {
    let mut inner = endpoint.inner();
    let outcome = call(&mut inner);
    endpoint.settle(&mut inner);
    drop(inner);
    if outcome == Err(libc::EAGAIN) {
        // The program calls again; some never read a queue meanwhile.
        endpoint.progress();
    }
    outcome.map_or_else(|error| -(error as isize), |()| 0)
}

/// An operation that sends something, as all its calls describe it.
pub(crate) struct Transmit {
    pub(crate) area: Area,
    pub(crate) to: u64,
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) tag: Option<u64>,
    pub(crate) data: Option<u64>,
}

impl EpObject {
    pub(crate) fn default_flags(&self) -> u64 {
        self.endpoint.tx_flags.load(Ordering::Relaxed)
    }

    pub(crate) fn receive_flags(&self) -> u64 {
        self.endpoint.rx_flags.load(Ordering::Relaxed)
    }

    fn operation(&self, transmit: &Transmit, kind: u64) -> (Message, Operation) {
        let flags = transmit.flags;
        let is_selective = self.endpoint.transmit.get().is_none_or(|sink| sink.is_selective);
        let message = Message {
            tag: transmit.tag,
            data: transmit.data,
            inject: flags & FI_INJECT != 0,
            delivery: flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE) != 0,
        };
        let report = flags & SILENT == 0 && (!is_selective || flags & FI_COMPLETION != 0);
        (message, Operation { context: transmit.context as usize, flags: kind, report })
    }

    pub(crate) fn transmit(&self, transmit: Transmit) -> isize {
        let kind = FI_SEND | if transmit.tag.is_some() { FI_TAGGED } else { FI_MSG };
        let (message, operation) = self.operation(&transmit, kind);
        run(&self.endpoint, |inner| {
            let peer = inner.peer(self.endpoint.av.get(), transmit.to)?;
            inner.engine.send(peer, transmit.area, message, operation)
        })
    }

    pub(crate) fn access(&self, transmit: Transmit, place: (u64, u64), writes: bool) -> isize {
        let kind = FI_RMA | if writes { FI_WRITE } else { FI_READ };
        let (message, operation) = self.operation(&transmit, kind);
        run(&self.endpoint, |inner| {
            let peer = inner.peer(self.endpoint.av.get(), transmit.to)?;
            match writes {
                true => inner.engine.write(peer, transmit.area, place, message, operation),
                false => inner.engine.read(peer, transmit.area, place, operation),
            }
        })
    }

    /// An atomic operation. Its bytes are copied at once.
    pub(crate) fn change(
        &self,
        transmit: Transmit,
        place: (u64, u64),
        atomic: Atomic,
        operands: Operands,
    ) -> isize {
        let kind = FI_ATOMIC | if operands.result.is_some() { FI_READ } else { FI_WRITE };
        let (_, operation) = self.operation(&transmit, kind);
        run(&self.endpoint, |inner| {
            let peer = inner.peer(self.endpoint.av.get(), transmit.to)?;
            inner.engine.change(peer, atomic, operands, place, operation)
        })
    }

    pub(crate) fn receive(
        &self,
        area: Area,
        from: u64,
        context: *mut c_void,
        tag: Option<(u64, u64)>,
        flags: u64,
    ) -> isize {
        let (context, tagged) = (context as usize, tag.is_some());
        let (tag, ignore) = tag.unwrap_or((0, u64::MAX));
        let is_selective = self.endpoint.receive.get().is_none_or(|sink| sink.is_selective);
        let report = !is_selective || flags & FI_COMPLETION != 0;
        let has = |flag| flags & flag != 0;
        run(&self.endpoint, |inner| {
            let peer = match from {
                FI_ADDR_UNSPEC => None,
                _ if !self.is_directed => None,
                from => Some(inner.peer(self.endpoint.av.get(), from)?),
            };
            let multi = has(FI_MULTI_RECV).then(|| inner.engine.next_multi());
            let posted = Posted { context, area, peer, tag, ignore, report, multi };
            if has(FI_PEEK) {
                let wanted = Wanted { peer, tag, ignore };
                inner.engine.peek(wanted, tagged, context, has(FI_CLAIM), has(FI_DISCARD));
                return Ok(());
            }
            if tagged && has(FI_CLAIM) {
                return inner.engine.receive_claimed(posted, has(FI_DISCARD));
            }
            inner.engine.receive(posted, tagged);
            Ok(())
        })
    }
}

/// Marks an operation that is never reported. libfabric has no such flag.
const SILENT: u64 = 1 << 63;
/// What inject functions do.
pub(crate) const INJECT: u64 = FI_INJECT | SILENT;

/// Declares a call of an endpoint.
macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),*) = |$ep:ident| $call:expr;)*) => {$(
        unsafe extern "C" fn $name(ep: *mut $crate::abi::FidEp, $($argument: $type),*) -> isize {
            // SAFETY: the program keeps the rules of libfabric's manual pages.
            unsafe {
                let $ep = $crate::epobject::of(ep);
                $call
            }
        }
    )*};
}
pub(crate) use calls;

impl EpObject {
    pub(crate) unsafe fn access_by(&self, msg: &MsgRma, flags: u64, writes: bool) -> isize {
        if msg.rma_iov_count > 1 {
            return -(libc::EINVAL as isize);
        }
        // SAFETY: the program keeps the rules of fi_rma(3).
        let (area, place) = unsafe {
            let place = msg.rma_iov.as_ref().map_or((0, 0), |remote| (remote.key, remote.addr));
            (Area::many(msg.msg_iov.cast(), msg.iov_count), place)
        };
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let transmit = Transmit { area, to: msg.addr, context: msg.context, flags, tag: None, data };
        self.access(transmit, place, writes)
    }
}
