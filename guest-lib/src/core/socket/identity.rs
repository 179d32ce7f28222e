//! A card's description of itself, and the check that this library knows the card.

use std::io;

use hamlyn_abi::family::identity::*;
use hamlyn_abi::family::interrupts::ULN_REG_VECTORS;
use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_abi::uapi::{ULN_UAPI_VERSION, UlnQuery};

use super::client::Client;
use super::message::REGION_BAR0;
use crate::core::attach::check_version;
use crate::core::device::check_model;
use crate::core::model::Model;
use crate::error::{Error, Result};

/// Describes the card as its driver would, without the host id.
pub(crate) fn describe(client: &Client) -> io::Result<UlnQuery> {
    let register = |offset| client.read_u32(REGION_BAR0, offset);
    Ok(UlnQuery {
        uapi_version: ULN_UAPI_VERSION,
        abi_version: register(ULN_REG_ABI_VERSION)?,
        model: register(ULN_REG_MODEL)?,
        host: ULN_NO_HOST,
        vectors: register(ULN_REG_VECTORS)?,
        ..UlnQuery::default()
    })
}

/// Fails if the device is not a card of the family, is another model's, or has another major
/// version.
pub(super) fn check_card<M: Model, F: FnOnce(io::Error) -> Error>(
    client: &Client,
    node: &str,
    failed: impl Fn() -> F,
) -> Result<()> {
    let magic = client.read_u32(REGION_BAR0, ULN_REG_MAGIC).map_err(failed())?;
    if magic != ULN_MAGIC {
        let (value, expected) = (magic.into(), ULN_MAGIC.into());
        return Err(Error::Incompatible { object: "card magic", value, expected });
    }
    check_model::<M>(node, client.read_u32(REGION_BAR0, ULN_REG_MODEL).map_err(failed())?)?;
    let version = client.read_u32(REGION_BAR0, ULN_REG_ABI_VERSION).map_err(failed())?;
    check_version("card ABI version", version, M::VERSION)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use zerocopy::{FromBytes, IntoBytes};

    use super::super::message::*;
    use super::*;
    use crate::core::model::Shared;

    /// A model that does not exist.
    #[derive(Debug)]
    enum Kite {}

    impl Model for Kite {
        const NUMBER: u32 = 9;
        const NAME: &'static str = "kite";
        const VERSION: u32 = 0x0001_0002;
        const SHARED: &'static [Shared] = &[];
    }

    /// Starts a card with these identity registers.
    fn card(magic: u32, model: u32, version: u32) -> Client {
        let (client, mut card) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut head = [0; size_of::<Header>()];
            while card.read_exact(&mut head).is_ok() {
                let mut header = Header::read_from_bytes(&head).unwrap();
                let mut body = vec![0; header.size as usize - head.len()];
                card.read_exact(&mut body).unwrap();
                if header.command == VERSION {
                    body = b"\0\0\0\0{}\0".to_vec();
                } else {
                    let (access, _) = RegionAccess::read_from_prefix(&body).unwrap();
                    let value = match access.offset as u32 {
                        ULN_REG_MAGIC => magic,
                        ULN_REG_MODEL => model,
                        ULN_REG_ABI_VERSION => version,
                        _ => 0,
                    };
                    body.extend(value.to_le_bytes());
                }
                header.flags = FLAGS_REPLY;
                header.size = (head.len() + body.len()) as u32;
                card.write_all(header.as_bytes()).unwrap();
                card.write_all(&body).unwrap();
            }
        });
        Client::negotiate(client).unwrap()
    }

    fn check(magic: u32, model: u32, version: u32) -> Result<()> {
        let failed = || Error::system("look at a card");
        check_card::<Kite, _>(&card(magic, model, version), "a.sock", failed)
    }

    #[test]
    fn any_minor_version_is_accepted() {
        for version in [0x0001_0000, 0x0001_0002, 0x0001_0009] {
            check(ULN_MAGIC, 9, version).unwrap();
        }
        let refused = |magic, model, version| check(magic, model, version).unwrap_err().to_string();
        assert_eq!(
            refused(ULN_MAGIC, 9, 0x0002_0000),
            "card ABI version 2.0 is not what this library knows (1.2)"
        );
        // Another model's version is not checked.
        assert_eq!(refused(ULN_MAGIC, 1, 0x0002_0004), "a.sock is a card of model 1, not of model 9 (kite)");
        assert_eq!(refused(7, 9, 0x0001_0002), "card magic 0x7 is not what this library knows (0x4e4c4d48)");
    }
}
