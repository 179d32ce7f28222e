//! Endpoints.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

use hamlyn::clan::{Address, Endpoint, EndpointBuilder, Fault, FaultReason};

use super::card::clan_card;
use crate::call::{Failure, at_once, call, free, given, store, timeout, unused};

/// For clan_endpoint_options: no Tripwires, where 0 is as many as there may be.
pub const CLAN_NO_TRIPWIRES: u32 = 0xffff_ffff;
/// For polling_us: who waits sleeps at once.
pub const CLAN_NO_POLLING: u32 = 0xffff_ffff;
/// The driver programs the DMA engine, as with the paper's card (section 3.4), and not this
/// process: for comparison.
pub const CLAN_ENDPOINT_DRIVERS_DMA: u32 = 1;

/// There is no such aperture there, or not under this key, or it does not allow that, or the byte
/// is outside.
pub const CLAN_FAULT_REFUSED: u32 = 1;
/// The other host has not answered in time, or there is no link.
pub const CLAN_FAULT_TIMEOUT: u32 = 2;
/// The other host's memory could not be reached.
pub const CLAN_FAULT_MEMORY: u32 = 3;
/// It was not the window's: outside of it, not aligned, or a load from a group.
pub const CLAN_FAULT_WINDOW: u32 = 4;
/// A store was lost, as the link is down or the other host takes nothing for so long.
pub const CLAN_FAULT_LOST: u32 = 5;

/// A host and a port: a process' Tripwires, its queue of DMA requests and its queue of messages
/// (section 3.1). Any number of threads may use it at once. It is closed when its windows,
/// Tripwires, connections and programs are destroyed, too.
pub struct clan_endpoint(pub(crate) Endpoint);

/// Where messages go to and come from.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clan_address {
    /// The host id.
    pub host: u32,
    /// The port there, 1 to 65535.
    pub port: u32,
}

/// How an endpoint is to be; zeros are any port, 32 Tripwires, 64 DMA requests, and 15 us.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_endpoint_options {
    /// Its port, 1 to 65535; 0 is any that is free. Ports below 1024 take CAP_NET_BIND_SERVICE.
    pub port: u32,
    /// How many Tripwires it has, 1 to 32; 0 is 32. CLAN_NO_TRIPWIRES is none.
    pub tripwires: u32,
    /// How many DMA requests its queue has room for, 16 to 1024, a power of two; 0 is 64.
    pub requests: u32,
    /// Microseconds for which who waits at it looks before he sleeps (section 4.3); 0 is 15.
    /// CLAN_NO_POLLING is none.
    pub polling_us: u32,
    /// CLAN_ENDPOINT_DRIVERS_DMA.
    pub flags: u32,
    /// Must be 0.
    pub reserved: [u32; 3],
}

/// A load, store or DMA write of an endpoint's owner that came to nothing. A store is posted, so
/// its fault is told a little later.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_fault {
    /// Which byte of the aperture.
    pub offset: u64,
    /// CLAN_FAULT_REFUSED or another.
    pub reason: u32,
    /// The host, or a group's number in the card's own form.
    pub host: u32,
    /// The aperture there.
    pub aperture: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 3],
}

impl From<Address> for clan_address {
    fn from(Address { host, port }: Address) -> Self {
        Self { host, port }
    }
}

impl From<&clan_address> for Address {
    fn from(&clan_address { host, port }: &clan_address) -> Self {
        Self { host, port }
    }
}

/// An endpoint that is to be opened, of what C says; NULL says nothing.
pub(crate) fn builder(
    card: &clan_card,
    options: Option<&clan_endpoint_options>,
) -> Result<EndpointBuilder, Failure> {
    let mut builder = card.0.endpoint_builder();
    let Some(options) = options else { return Ok(builder) };
    unused(&options.reserved)?;
    if options.flags & !CLAN_ENDPOINT_DRIVERS_DMA != 0 {
        return Err(Failure::argument(format!("endpoint flags {:#x} are unknown", options.flags)));
    }
    builder = builder.port(options.port).drivers_dma(options.flags != 0);
    if options.tripwires != 0 {
        builder =
            builder.tripwires(if options.tripwires == CLAN_NO_TRIPWIRES { 0 } else { options.tripwires });
    }
    if options.requests != 0 {
        builder = builder.requests(options.requests);
    }
    if options.polling_us != 0 {
        builder = builder.polling(polling(options.polling_us));
    }
    Ok(builder)
}

fn polling(microseconds: u32) -> Duration {
    let microseconds = if microseconds == CLAN_NO_POLLING { 0 } else { microseconds };
    Duration::from_micros(microseconds.into())
}

/// Opens an endpoint. NULL for the options is all zeros. -EBUSY if the port is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_endpoint_create(
    card: Option<&clan_card>,
    options: Option<&clan_endpoint_options>,
    endpoint: Option<&mut MaybeUninit<Box<clan_endpoint>>>,
) -> c_int {
    call(|| {
        let to = given(endpoint, "endpoint")?;
        let endpoint = builder(given(card, "card")?, options)?.open()?;
        store(to, Box::new(clan_endpoint(endpoint)))
    })
}

/// Lets an endpoint go. When it is closed its peer is told. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_endpoint_destroy(endpoint: Option<Box<clan_endpoint>>) {
    free(endpoint);
}

/// Where others send to. -ENETDOWN while the card's link is down.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_endpoint_address(
    endpoint: Option<&clan_endpoint>,
    address: Option<&mut MaybeUninit<clan_address>>,
) -> c_int {
    call(|| {
        let to = given(address, "address")?;
        store(to, given(endpoint, "endpoint")?.0.address()?.into())
    })
}

/// For how many microseconds who waits looks before he sleeps, from now on; CLAN_NO_POLLING and 0
/// are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_endpoint_set_polling(
    endpoint: Option<&clan_endpoint>,
    polling_us: u32,
) -> c_int {
    call(|| {
        given(endpoint, "endpoint")?.0.set_polling(polling(polling_us));
        Ok(0)
    })
}

/// Takes the last fault, if there was one since this was last called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_endpoint_fault(
    endpoint: Option<&clan_endpoint>,
    fault: Option<&mut MaybeUninit<clan_fault>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(fault, "fault")?);
        let found = at_once(timeout_ms, endpoint.fault(timeout(timeout_ms)))?;
        let Fault { offset, host, aperture, .. } = found;
        store(to, clan_fault { offset, reason: reason(&found.reason), host, aperture, reserved: [0; 3] })
    })
}

fn reason(reason: &FaultReason) -> u32 {
    match reason {
        FaultReason::Refused => CLAN_FAULT_REFUSED,
        FaultReason::Timeout => CLAN_FAULT_TIMEOUT,
        FaultReason::Memory => CLAN_FAULT_MEMORY,
        FaultReason::Window => CLAN_FAULT_WINDOW,
        FaultReason::Lost => CLAN_FAULT_LOST,
        FaultReason::Unknown(number) => *number,
        _ => 0,
    }
}
