//! What a card is, and the numbers of its resources.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::iowr;

/// Describes the card. Argument: [`UlnQuery`].
pub const ULN_IOC_QUERY: u32 = iowr::<UlnQuery>(1);

/// `UlnQuery::capabilities`: listening and connecting.
pub const ULN_CAPABILITY_CONNECTIONS: u64 = 1;
/// `UlnQuery::capabilities`: shares of users.
pub const ULN_CAPABILITY_SHARES: u64 = 2;
/// `UlnQuery::capabilities`: asking whether a process listens under a name.
pub const ULN_CAPABILITY_QUESTIONS: u64 = 8;
/// `UlnQuery::capabilities`: express memory ([`super::express`]) with at least one host.
pub const ULN_CAPABILITY_EXPRESS: u64 = 16;
/// `UlnQuery::capabilities`: files of single objects ([`super::object::ULN_IOC_OBJECT_FILE`]).
pub const ULN_CAPABILITY_OBJECT_FILES: u64 = 32;

/// What the card is, and the numbers of its resources: fields that all cards have, and a union with
/// `model` as its tag.
///
/// The Hamlyn card has five words in the middle, from the time when it was the only model. They are
/// zero for all other models. Every model has `card` for a structure of its own
/// ([`UlnQuery::of_card`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnQuery {
    /// Out: [`crate::uapi::ULN_UAPI_VERSION`] of the driver.
    pub uapi_version: u32,
    /// Out: the version of the model's contract that the card implements.
    pub abi_version: u32,
    /// Out: the card's model (`*_MODEL`).
    pub model: u32,
    /// Out: the card's host id, or `ULN_NO_HOST` while its link is down.
    pub host: u32,
    /// Out: additions to version 2 that the driver and card have: `ULN_CAPABILITY_*` bits.
    pub capabilities: u64,
    /// Out, for a Hamlyn card: maximum user data in a packet, in bytes.
    pub packet_size: u32,
    /// Out, for a Hamlyn card: its SRAM, in bytes.
    pub sram_size: u32,
    /// Out, for a Hamlyn card: send termini for processes.
    pub termini: u32,
    /// Out, for a Hamlyn card: slots for processes.
    pub slots: u32,
    /// Out, for a Hamlyn card: notification queues for processes.
    pub queues: u32,
    /// Out: interrupt vectors in use.
    pub vectors: u32,
    /// Out: ports of the switch, the upper bound of host ids. 0 if it is not known, or the link is
    /// down.
    pub ports: u32,
    /// Zero.
    pub reserved0: u32,
    /// Out: the model's own structure, padded with zeros.
    pub card: [u64; 9],
}

/// A later model's own answer to a query: at most the 72 bytes of [`UlnQuery::card`].
pub trait CardQuery: FromBytes + IntoBytes + Immutable {
    /// The model.
    const MODEL: u32;
}

impl UlnQuery {
    /// Returns the model's own structure, or `None` if the card is of another model. A structure
    /// that does not fit does not compile.
    #[must_use]
    pub fn of_card<T: CardQuery>(&self) -> Option<T> {
        const { assert!(size_of::<T>() <= size_of::<[u64; 9]>(), "a model has 72 bytes of the query") };
        if self.model != T::MODEL {
            return None;
        }
        T::read_from_prefix(self.card.as_bytes()).ok().map(|(own, _)| own)
    }

    /// Sets the model's own structure, as a driver does.
    pub fn set_card<T: CardQuery>(&mut self, own: &T) {
        const { assert!(size_of::<T>() <= size_of::<[u64; 9]>(), "a model has 72 bytes of the query") };
        self.card = [0; 9];
        // The length was checked above.
        let _ = own.write_to_prefix(self.card.as_mut_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
    #[repr(C)]
    struct Own {
        rings: u32,
        entries: u32,
    }

    impl CardQuery for Own {
        const MODEL: u32 = 2;
    }

    #[test]
    fn card_part_is_visible_only_to_its_model() {
        let mut query = UlnQuery { model: 2, ..UlnQuery::default() };
        query.card[0] = 7 << 32 | 3;
        assert_eq!(query.of_card(), Some(Own { rings: 3, entries: 7 }));
        query.model = 1;
        assert_eq!(query.of_card::<Own>(), None);
    }
}
