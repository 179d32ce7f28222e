//! Address vectors (fi_av(3)): addresses by number.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn::channel::Card;

use crate::abi::*;
use crate::address::{ADDRESS, Address};
use crate::domain::DomainObject;
use crate::info;
use crate::object::{close, give};

/// An address vector.
#[derive(Debug)]
pub(crate) struct Av {
    card: Card,
    entries: Mutex<Entries>,
    /// Changes with every change of the entries.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Entries {
    addresses: Vec<Option<Address>>,
    numbers: HashMap<Address, u64>,
}

#[repr(C)]
pub(crate) struct AvObject {
    fid: FidAv,
    pub(crate) av: Arc<Av>,
}

static FID: Ops = ops(close::<AvObject>, no_bind, no_control);
static OPS: OpsAv = OpsAv {
    size: size_of::<OpsAv>(),
    insert,
    insertsvc,
    insertsym: missing,
    remove,
    lookup,
    straddr,
    av_set: missing,
};

impl Av {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn address(&self, number: u64) -> Option<Address> {
        *self.entries().addresses.get(usize::try_from(number).ok()?)?
    }

    /// The number of an address, or `FI_ADDR_NOTAVAIL`.
    pub(crate) fn number(&self, address: Address) -> u64 {
        self.entries().numbers.get(&address).copied().unwrap_or(FI_ADDR_UNSPEC)
    }

    fn add(&self, address: Address) -> u64 {
        let mut entries = self.entries();
        entries.addresses.push(Some(address));
        let number = entries.addresses.len() as u64 - 1;
        entries.numbers.entry(address).or_insert(number);
        drop(entries);
        self.version.fetch_add(1, Ordering::Release);
        number
    }

    fn remove(&self, number: u64) -> bool {
        let mut entries = self.entries();
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(address) = entries.addresses.get_mut(at).and_then(Option::take) else { return false };
        if entries.numbers.get(&address) == Some(&number) {
            entries.numbers.remove(&address);
        }
        drop(entries);
        self.version.fetch_add(1, Ordering::Release);
        true
    }
}

pub(crate) unsafe extern "C" fn open(
    domain: *mut FidDomain,
    _: *mut AvAttr,
    to: *mut *mut FidAv,
    context: *mut c_void,
) -> c_int {
    let fid = Fid { fclass: FI_CLASS_AV, context, ops: &FID };
    // SAFETY: the program passes a domain of this provider.
    let domain = unsafe { &*domain.cast::<DomainObject>() };
    let card = domain.domain.card.clone();
    let av = Av { card, entries: Mutex::default(), version: AtomicU64::new(0) };
    give(AvObject { fid: FidAv { fid, ops: &OPS }, av: Arc::new(av) }, to)
}

unsafe fn of<'a>(fid: *mut FidAv) -> &'a Av {
    // SAFETY: the program passes an address vector of this provider.
    unsafe { &(*fid.cast::<AvObject>()).av }
}

unsafe extern "C" fn insert(
    fid: *mut FidAv,
    addresses: *const c_void,
    count: usize,
    numbers: *mut u64,
    _: u64,
    _: *mut c_void,
) -> c_int {
    if count == 0 {
        return 0;
    }
    // SAFETY: the program passes `count` addresses of this provider.
    let (av, addresses) =
        unsafe { (of(fid), std::slice::from_raw_parts(addresses.cast::<[u8; ADDRESS]>(), count)) };
    let mut valid = 0;
    for (at, address) in addresses.iter().copied().map(Address).enumerate() {
        let number = if address.name().is_some() { av.add(address) } else { FI_ADDR_UNSPEC };
        valid += c_int::from(number != FI_ADDR_UNSPEC);
        if !numbers.is_null() {
            // SAFETY: there is place for `count` numbers.
            unsafe { *numbers.add(at) = number };
        }
    }
    valid
}

unsafe extern "C" fn insertsvc(
    fid: *mut FidAv,
    node: *const c_char,
    service: *const c_char,
    number: *mut u64,
    _: u64,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the program passes an address vector, strings, and the place for a number.
    unsafe {
        let av = of(fid);
        let Some(address) = info::resolve(&av.card, node, service) else { return -libc::EINVAL };
        let found = av.add(address);
        if !number.is_null() {
            *number = found;
        }
    }
    1
}

unsafe extern "C" fn remove(fid: *mut FidAv, numbers: *mut u64, count: usize, _: u64) -> c_int {
    if count == 0 {
        return 0;
    }
    // SAFETY: the program passes `count` numbers.
    let (av, numbers) = unsafe { (of(fid), std::slice::from_raw_parts(numbers, count)) };
    if numbers.iter().filter(|number| !av.remove(**number)).count() == 0 { 0 } else { -libc::EINVAL }
}

unsafe extern "C" fn lookup(fid: *mut FidAv, number: u64, to: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: the program passes an address vector, and as much room as it says.
    unsafe {
        let Some(address) = of(fid).address(number) else { return -libc::EINVAL };
        copy_address(address, to, length);
    }
    0
}

/// Copies an address as far as there is room, and tells its length.
pub(crate) unsafe fn copy_address(address: Address, to: *mut c_void, length: *mut usize) -> bool {
    // SAFETY: there is room for `length` bytes.
    unsafe {
        let room = std::mem::replace(&mut *length, ADDRESS).min(ADDRESS);
        ptr::copy_nonoverlapping(address.0.as_ptr(), to.cast(), room);
        room == ADDRESS
    }
}

unsafe extern "C" fn straddr(
    _: *mut FidAv,
    address: *const c_void,
    to: *mut c_char,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: the program passes an address of this provider, and as much room as it says.
    unsafe {
        let text = Address(*address.cast()).to_string();
        let room = std::mem::replace(&mut *length, text.len() + 1).min(text.len() + 1);
        if room > 0 {
            ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), room - 1);
            *to.add(room - 1) = 0;
        }
    }
    to
}
