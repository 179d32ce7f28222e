//! Endpoints.

use std::ffi::c_int;
use std::time::Duration;

use hamlyn::Polling;
use hamlyn::clan::{Address, Endpoint, EndpointBuilder, Fault, FaultReason};

use super::card::clan_card;
use crate::call::{Failure, unused, waited};
use crate::exported::{Out, exported};

/// For clan_endpoint_options.tripwires: no Tripwires. 0 selects the maximum instead.
pub const CLAN_NO_TRIPWIRES: u32 = 0xffff_ffff;
/// For polling_us: waiting calls sleep without polling first.
pub const CLAN_NO_POLLING: u32 = 0xffff_ffff;
/// The driver, not this process, programs the DMA engine, as with the paper's card (section 3.4):
/// for comparison.
pub const CLAN_ENDPOINT_DRIVERS_DMA: u32 = 1;

/// There is no such aperture at the other host, its key differs, it does not give that right, or
/// the byte is out of bounds.
pub const CLAN_FAULT_REFUSED: u32 = 1;
/// The other host has not answered in time, or there is no link.
pub const CLAN_FAULT_TIMEOUT: u32 = 2;
/// The other host's memory could not be accessed.
pub const CLAN_FAULT_MEMORY: u32 = 3;
/// The access was invalid for the window: out of bounds, misaligned, or a load from a group.
pub const CLAN_FAULT_WINDOW: u32 = 4;
/// A store was lost, because the link is down or the other host accepts nothing for too long.
pub const CLAN_FAULT_LOST: u32 = 5;

/// A host and a port, with a process' Tripwires, its queue of DMA requests and its queue of
/// messages (section 3.1). Any number of threads may use it at once. It is closed only once its
/// windows, Tripwires, connections and programs are destroyed too.
pub struct clan_endpoint(pub(crate) Endpoint);

/// Source or destination address of messages.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clan_address {
    /// The host id.
    pub host: u32,
    /// The port there, 1 to 65535.
    pub port: u32,
}

/// Options for an endpoint. Zeros select any port, 32 Tripwires, 64 DMA requests and up to 1000 us
/// of polling.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_endpoint_options {
    /// The port, 1 to 65535; 0 selects any free port. Ports below 1024 require
    /// CAP_NET_BIND_SERVICE.
    pub port: u32,
    /// Number of Tripwires, 1 to 32; 0 selects 32. CLAN_NO_TRIPWIRES selects none.
    pub tripwires: u32,
    /// Capacity of the queue of DMA requests: 16 to 1024, a power of two; 0 selects 64.
    pub requests: u32,
    /// Microseconds for which a waiting call polls before it sleeps, at most (section 4.3: 15);
    /// 0 selects 1000. CLAN_NO_POLLING disables polling.
    pub polling_us: u32,
    /// CLAN_ENDPOINT_DRIVERS_DMA.
    pub flags: u32,
    /// Must be 0.
    pub reserved: [u32; 3],
}

/// A failed load, store or DMA write of an endpoint's owner. A store is posted, so its fault is
/// reported a little later.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_fault {
    /// Offset of the byte in the aperture.
    pub offset: u64,
    /// One of the CLAN_FAULT_ constants.
    pub reason: u32,
    /// The host, or a group's number in the card's own form.
    pub host: u32,
    /// The aperture there.
    pub aperture: u32,
    /// Reserved for future use: zeros.
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

/// Builds an endpoint from the options from C; NULL selects the defaults.
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

fn polling(microseconds: u32) -> Polling {
    let microseconds = if microseconds == CLAN_NO_POLLING { 0 } else { microseconds };
    Polling::up_to(Duration::from_micros(microseconds.into()))
}

exported! {
/// Opens an endpoint. NULL options mean all zeros. Fails with -EBUSY if the port is in use.
fn clan_endpoint_create(
    card: &clan_card,
    options: Option<&clan_endpoint_options>,
    endpoint: Out<Box<clan_endpoint>>,
) {
    endpoint.store(clan_endpoint(builder(card, options)?.open()?))
}

/// Releases an endpoint. Its peer is notified when it is closed. NULL is a no-op.
fn clan_endpoint_destroy(endpoint: Box<clan_endpoint>);

/// Stores the address that other processes send to. Fails with -ENETDOWN while the card's link is
/// down.
fn clan_endpoint_address(endpoint: &clan_endpoint, address: Out<clan_address>) {
    address.store(endpoint.0.address()?)
}

/// Sets the number of microseconds for which a waiting call polls before it sleeps. CLAN_NO_POLLING
/// and 0 disable polling.
fn clan_endpoint_set_polling(endpoint: &clan_endpoint, polling_us: u32) {
    endpoint.0.set_polling(polling(polling_us));
}

/// Takes the last fault, if there was one since the last call of this function.
fn clan_endpoint_fault(endpoint: &clan_endpoint, fault: Out<clan_fault>, timeout_ms: c_int) {
    let found = waited!(timeout_ms, endpoint.0 => recv_fault / recv_fault_timeout())?;
    let Fault { offset, host, aperture, .. } = found;
    fault.store(clan_fault { offset, reason: reason(&found.reason), host, aperture, reserved: [0; 3] })
}
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
