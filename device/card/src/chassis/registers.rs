//! The family's registers, in BAR 0.

use std::time::Duration;

use hamlyn_abi::family::command::{ULN_REG_COMMAND_GO, ULN_REG_COMMAND_PAGE, ULN_REG_COMMAND_STATUS};
use hamlyn_abi::family::control::*;
use hamlyn_abi::family::identity::*;
use hamlyn_abi::family::interrupts::{ULN_REG_INTERRUPT_TEST, ULN_REG_VECTORS, ULN_VECTOR_LINK};
use hamlyn_abi::family::link::*;

use super::command::CommandPage;
use super::handshake::Handshake;
use crate::card::Place;
use crate::ports::Ports;

/// Upper half of the command page's address, for hosts that write 4 bytes at a time.
const COMMAND_PAGE_HIGH: u32 = ULN_REG_COMMAND_PAGE + 4;

/// Constant register contents: the model and the card's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// `*_MODEL`.
    pub model: u32,
    /// Version of the model's ABI.
    pub abi_version: u32,
    /// Number of MSI-X vectors: the link's and at least one more.
    pub vectors: u32,
    /// How long the host may go without restarting the handshake timer (section 2.8), in
    /// milliseconds; 0 means without limit.
    pub handshake_ms: u32,
}

/// Result of a store to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The chassis has handled the store.
    Done,
    /// The card is enabled: it was before, or is from now on.
    Enabled,
    /// The model must reset itself.
    Reset,
    /// The model must carry out the command in the command page.
    Command,
    /// The family has no such register.
    Elsewhere,
}

/// The state behind the family's registers.
#[derive(Debug)]
pub struct Chassis {
    constants: Constants,
    /// False at power-on: incoming packets are discarded (section 2.8).
    enabled: bool,
    handshake: Handshake,
    place: Option<Place>,
    /// Number of link changes.
    link_changes: u32,
    /// `ULN_FEATURE_*`.
    features: u32,
    scratch: u32,
    /// The command page.
    pub command: CommandPage,
}

impl Chassis {
    /// Creates a chassis in its power-on state.
    #[must_use]
    pub fn new(constants: Constants) -> Self {
        Self {
            constants,
            enabled: false,
            handshake: Handshake::new(constants.handshake_ms),
            place: None,
            link_changes: 0,
            features: 0,
            scratch: 0,
            command: CommandPage::default(),
        }
    }

    /// Sets whether the card's windows are memory of the machine's host
    /// ([`ULN_FEATURE_COHERENT`]).
    #[must_use]
    pub fn with_coherent_windows(mut self, coherent: bool) -> Self {
        self.features = if coherent { ULN_FEATURE_COHERENT } else { 0 };
        self
    }

    /// Returns to the power-on state, except for the link, which the host does not control.
    pub fn reset(&mut self) {
        let Self { place, link_changes, features, .. } = *self;
        *self = Self { place, link_changes, features, ..Self::new(self.constants) };
    }

    /// Whether the card accepts packets. If not, it discards them (section 2.8).
    #[must_use]
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns the value of a register, or `None` if the family has no such register.
    #[must_use]
    pub fn read(&self, offset: u32) -> Option<u64> {
        let Constants { model, abi_version, vectors, handshake_ms } = self.constants;
        Some(match offset {
            ULN_REG_MAGIC => ULN_MAGIC.into(),
            ULN_REG_MODEL => model.into(),
            ULN_REG_ABI_VERSION => abi_version.into(),
            ULN_REG_HOST_ID => self.place.map_or(ULN_NO_HOST, |place| place.host.into()).into(),
            ULN_REG_LINK => self.place.is_some().into(),
            ULN_REG_LINK_CHANGES => self.link_changes.into(),
            ULN_REG_SCRATCH => self.scratch(),
            ULN_REG_FEATURES => self.features.into(),
            ULN_REG_CONTROL if self.enabled => ULN_CONTROL_ENABLE.into(),
            ULN_REG_CONTROL => 0,
            ULN_REG_VECTORS => vectors.into(),
            ULN_REG_COMMAND_PAGE => self.command.address(),
            COMMAND_PAGE_HIGH => self.command.address() >> 32,
            ULN_REG_COMMAND_STATUS => self.command.status().into(),
            ULN_REG_HANDSHAKE_TIMEOUT => handshake_ms.into(),
            ULN_REG_PORTS => self.place.map_or(0, |place| place.ports).into(),
            _ => return None,
        })
    }

    /// Returns the value of [`ULN_REG_SCRATCH`], which is also the value of every doorbell.
    #[must_use]
    pub fn scratch(&self) -> u64 {
        u64::from(!self.scratch)
    }

    /// Handles a store of `width` bytes to a register.
    pub fn write(&mut self, ports: &Ports<'_>, offset: u32, width: u8, value: u64) -> Written {
        match offset {
            ULN_REG_SCRATCH => self.scratch = value as u32,
            ULN_REG_INTERRUPT_TEST => self.test_interrupt(ports, value),
            ULN_REG_CONTROL if value as u32 & ULN_CONTROL_RESET != 0 => return Written::Reset,
            ULN_REG_CONTROL => {
                self.enable(ports.clock.now(), value as u32 & ULN_CONTROL_ENABLE != 0);
                return if self.enabled { Written::Enabled } else { Written::Done };
            }
            ULN_REG_HANDSHAKE if self.enabled => self.handshake.restart(ports.clock.now()),
            ULN_REG_COMMAND_PAGE if width == 8 => self.command.set_address(value),
            ULN_REG_COMMAND_PAGE => {
                self.command.set_address(self.command.address() >> 32 << 32 | value & 0xffff_ffff);
            }
            COMMAND_PAGE_HIGH => {
                self.command.set_address(value << 32 | self.command.address() & 0xffff_ffff);
            }
            ULN_REG_COMMAND_GO => return Written::Command,
            _ => return Written::Elsewhere,
        }
        Written::Done
    }

    fn test_interrupt(&self, ports: &Ports<'_>, value: u64) {
        match u16::try_from(value) {
            Ok(vector) if u32::from(vector) < self.constants.vectors => ports.interrupt.raise(vector),
            _ => tracing::debug!(value, limit = self.constants.vectors - 1, "no such vector to test"),
        }
    }

    /// Enables the card, or makes it discard incoming packets (section 2.8).
    fn enable(&mut self, now: Duration, enabled: bool) {
        self.enabled = enabled;
        if enabled {
            self.handshake.restart(now);
        } else {
            self.handshake.stop();
        }
    }

    /// Records that the link is up, with this position, or down, and interrupts the driver.
    pub fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        // If the link was also up before, this is another link, and packets in flight on the first
        // are lost.
        if place.is_some() || self.place.is_some() {
            self.link_changes = self.link_changes.wrapping_add(1);
        }
        self.place = place;
        ports.interrupt.raise(ULN_VECTOR_LINK as u16);
    }

    /// Returns when [`Chassis::check_handshake`] is next due.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.handshake.deadline()
    }

    /// Returns `true` if the host has failed to restart the handshake timer in time, and then
    /// discards incoming packets from now on.
    pub fn check_handshake(&mut self, now: Duration) -> bool {
        let has_lapsed = self.handshake.has_lapsed(now);
        if has_lapsed {
            tracing::warn!(
                "the host has not restarted the handshake timer for {} ms: what arrives is discarded",
                self.constants.handshake_ms
            );
            self.enable(now, false);
        }
        has_lapsed
    }
}
