//! Connection set-up by name (section 6.3 of the Hamlyn paper, common to all cards of the family).

use std::time::Duration;

use super::address::Address;
use super::card::Card;
use super::connection::{Connection, ConnectionBuilder};
use crate::core::connection::{Connection as Known, Request};
use crate::error::Result;

impl ConnectionBuilder {
    /// Opens a connection with the process that listens under `name` at `host`
    /// ([`crate::dart::Card::listen`] of any card), and connects both ends. The second value
    /// reports the end of the other process.
    ///
    /// # Errors
    /// Same as [`ConnectionBuilder::open`], [`Connection::connect`] and the card's `connect`;
    /// [`crate::dart::AddressError`] if the listener's answer is not an address.
    pub fn reach(&self, card: &Card, host: u32, name: &str) -> Result<(Connection, Known)> {
        self.reach_within(card, host, name, None)
    }

    /// As [`ConnectionBuilder::reach`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`ConnectionBuilder::reach`].
    pub fn reach_timeout(
        &self,
        card: &Card,
        host: u32,
        name: &str,
        timeout: Duration,
    ) -> Result<(Connection, Known)> {
        self.reach_within(card, host, name, Some(timeout))
    }

    fn reach_within(
        &self,
        card: &Card,
        host: u32,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<(Connection, Known)> {
        let own = self.open(host)?;
        let known = card.begin_connect(host, name, &own.address()?.to_bytes())?.finish_within(timeout)?;
        own.connect(&Address::from_bytes(known.private())?)?;
        Ok((own, known))
    }

    /// Opens a connection with the sender of a request ([`ConnectionBuilder::reach`]), and connects
    /// both ends.
    ///
    /// # Errors
    /// Same as [`ConnectionBuilder::reach`]. The request is then rejected.
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
