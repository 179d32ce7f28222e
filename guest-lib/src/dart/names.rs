//! Connections that are set up by a name (section 6.3 of the Hamlyn paper, which all cards of the
//! family share).

use super::address::Address;
use super::card::Card;
use super::connection::{Connection, ConnectionBuilder};
use crate::core::connection::{Connection as Known, Request};
use crate::error::Result;

impl ConnectionBuilder {
    /// Opens a connection with whoever listens under a name at a host
    /// ([`crate::dart::Card::listen`] of any card), and connects both ends. The second tells of the
    /// other process' end.
    ///
    /// # Errors
    /// Those of [`ConnectionBuilder::open`], [`Connection::connect`] and of the card's `connect`;
    /// [`crate::Error::Address`] if who listens answers otherwise.
    pub fn reach(&self, card: &Card, host: u32, name: &str) -> Result<(Connection, Known)> {
        let own = self.open(host)?;
        let known = card.connect(host, name, &own.address()?.to_bytes())?;
        own.connect(&Address::from_bytes(known.private())?)?;
        Ok((own, known))
    }

    /// Opens a connection with who has asked for it by [`ConnectionBuilder::reach`], and connects
    /// both ends.
    ///
    /// # Errors
    /// Those of [`ConnectionBuilder::reach`]. Who has asked is told that there is none.
    pub fn admit(&self, request: Request) -> Result<(Connection, Known)> {
        match self.meet(&request) {
            Ok((own, address)) => Ok((own, request.accept(&address.to_bytes())?)),
            Err(error) => {
                request.reject(b"")?;
                Err(error)
            }
        }
    }

    fn meet(&self, request: &Request) -> Result<(Connection, Address)> {
        let other = Address::from_bytes(request.private())?;
        let own = self.open(request.host())?;
        own.connect(&other)?;
        let address = own.address()?;
        Ok((own, address))
    }
}
