//! Express memory as the driver provides it.

use std::io;

use hamlyn_abi::uapi::{ULN_CAPABILITY_EXPRESS, UlnExpressCreate, UlnExpressMap, UlnExpressQuery, UlnObject};
use hamlyn_sys::Access;
use rustix::io::Errno;

use super::{Node, is};
use crate::core::attach::ExpressParts;
use crate::core::attach::{CardAttachment, NO_EXPRESS};
use crate::core::model::Model;
use crate::error::{Error, Result};

pub(super) fn create<M: Model>(node: &Node<M>, host: u32, length: usize) -> Result<ExpressParts> {
    check(node)?;
    let mut created = UlnExpressCreate { host, length: length as u64, ..UlnExpressCreate::default() };
    let action = format!("make {length} bytes of express memory for host {host}");
    node.device.express_create(&mut created).map_err(refused(node, action))?;
    map_pages(node, created.number, created.key, created.length, created.offset)
}

pub(super) fn map<M: Model>(node: &Node<M>, host: u32, area: u32, key: u64) -> Result<ExpressParts> {
    check(node)?;
    let mut mapped = UlnExpressMap { host, area, key, ..UlnExpressMap::default() };
    let action = format!("map area {area} of host {host}");
    node.device.express_map(&mut mapped).map_err(refused(node, action))?;
    map_pages(node, mapped.number, 0, mapped.length, mapped.offset)
}

pub(super) fn destroy<M: Model>(node: &Node<M>, number: u32) -> Result<()> {
    let mut object = UlnObject { index: number, ..UlnObject::default() };
    let action = format!("give express memory {number} back");
    node.device.express_destroy(&mut object).map_err(refused(node, action))
}

pub(super) fn query<M: Model>(node: &Node<M>, host: u32) -> Result<UlnExpressQuery> {
    check(node)?;
    let mut query = UlnExpressQuery { host, ..UlnExpressQuery::default() };
    let action = format!("ask what express memory there is with host {host}");
    node.device.express_query(&mut query).map_err(refused(node, action))?;
    Ok(query)
}

fn check<M: Model>(node: &Node<M>) -> Result<()> {
    match node.query()?.capabilities & ULN_CAPABILITY_EXPRESS {
        0 => Err(Error::Unsupported(NO_EXPRESS)),
        _ => Ok(()),
    }
}

/// An older driver does not know the calls.
fn refused<M: Model>(node: &Node<M>, action: String) -> impl FnOnce(io::Error) -> Error {
    move |error| match is(&error, Errno::NOTTY) {
        true => Error::Unsupported(NO_EXPRESS),
        false => node.error(action)(error),
    }
}

fn map_pages<M: Model>(
    node: &Node<M>,
    number: u32,
    key: u64,
    length: u64,
    offset: u64,
) -> Result<ExpressParts> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let memory = node.map("express memory", offset, length, Access::ReadWrite).inspect_err(|_| {
        let _ = destroy(node, number);
    })?;
    Ok(ExpressParts { number, key, memory })
}
