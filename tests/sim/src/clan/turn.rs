//! A host's turn.

use crate::engine::rng::Rng;
use crate::engine::violation::Violation;

use super::account::{Account, Shared};
use super::actions::Processor;
use super::driving::Driver;
use super::planning::Plan;

/// What the processes and the driver of a host may reach while they have their turn.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) host: usize,
    pub(super) rng: &'a mut Rng,
    /// The accounts of all hosts.
    pub(super) accounts: &'a mut [Account],
    pub(super) shared: &'a mut Shared,
    /// The host's processors.
    pub(super) processors: &'a mut [Processor],
    /// The keys of groups.
    pub(super) keys: &'a [u64],
}

impl Turn<'_> {
    pub(super) fn account(&mut self) -> &mut Account {
        &mut self.accounts[self.host]
    }

    pub(super) fn plan(&mut self) -> Plan<'_> {
        let Self { host, rng, accounts, processors, .. } = self;
        Plan { host: *host, rng, accounts, processors }
    }

    pub(super) fn driver(&mut self) -> Driver<'_> {
        let Self { host, rng, accounts, shared, keys, .. } = self;
        let hosts = accounts.len();
        Driver { account: &mut accounts[*host], shared, rng, keys, hosts }
    }

    pub(super) fn check(&mut self) -> Result<(), Violation> {
        self.accounts[self.host].check(self.shared)
    }
}
