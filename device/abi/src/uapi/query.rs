//! What a card is, and how much of everything it has.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::iowr;

/// Describes the card. Argument: [`HamlynQuery`].
pub const HAMLYN_IOC_QUERY: u32 = iowr::<HamlynQuery>(1);

/// `HamlynQuery::capabilities`: listen and connect.
pub const HAMLYN_CAPABILITY_CONNECTIONS: u64 = 1;
/// `HamlynQuery::capabilities`: shares of users.
pub const HAMLYN_CAPABILITY_SHARES: u64 = 2;
/// `HamlynQuery::capabilities`: to ask whether a name is listened to.
pub const HAMLYN_CAPABILITY_QUESTIONS: u64 = 8;
/// `HamlynQuery::capabilities`: express memory ([`super::express`]), with some host or other.
pub const HAMLYN_CAPABILITY_EXPRESS: u64 = 16;

/// What the card is and how much of everything it has: what any card says, and a union that `model`
/// is the tag of.
///
/// Of the union the Hamlyn card has five words in the middle, from before there were others, which
/// are zero for all others. Every model has `card` for a structure of its own
/// ([`HamlynQuery::of_card`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynQuery {
    /// Out: [`crate::uapi::HAMLYN_UAPI_VERSION`] of the driver.
    pub uapi_version: u32,
    /// Out: the version of the model's contract that the card implements.
    pub abi_version: u32,
    /// Out: which card (`HAMLYN_MODEL_*`).
    pub model: u32,
    /// Out: the card's host id, or `HAMLYN_NO_HOST` while its link is down.
    pub host: u32,
    /// Out: additions to version 2 that the driver and card have: `HAMLYN_CAPABILITY_*` bits.
    pub capabilities: u64,
    /// Out, of a Hamlyn card: the most user data in a packet, in bytes.
    pub packet_size: u32,
    /// Out, of a Hamlyn card: its SRAM, in bytes.
    pub sram_size: u32,
    /// Out, of a Hamlyn card: send termini that processes may have.
    pub termini: u32,
    /// Out, of a Hamlyn card: slots that processes may have.
    pub slots: u32,
    /// Out, of a Hamlyn card: notification queues that processes may have.
    pub queues: u32,
    /// Out: interrupt vectors in use.
    pub vectors: u32,
    /// Out: ports of the switch, which host ids are below. 0: not known, or the link is down.
    pub ports: u32,
    /// Zero.
    pub reserved0: u32,
    /// Out: the model's own structure, and zero behind it.
    pub card: [u64; 9],
}

/// What a later model answers a query with, besides what any card does: at most the 72 bytes of
/// [`HamlynQuery::card`].
pub trait CardQuery: FromBytes + IntoBytes + Immutable {
    /// The model whose it is.
    const MODEL: u32;
}

impl HamlynQuery {
    /// What a card of this model says of itself; none if it is another's. A structure that does not
    /// fit does not compile.
    #[must_use]
    pub fn of_card<T: CardQuery>(&self) -> Option<T> {
        const { assert!(size_of::<T>() <= size_of::<[u64; 9]>(), "a model has 72 bytes of the query") };
        if self.model != T::MODEL {
            return None;
        }
        T::read_from_prefix(self.card.as_bytes()).ok().map(|(own, _)| own)
    }

    /// Puts in what a card of this model says of itself, as a driver does.
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
    fn a_model_finds_its_own_part_and_no_other_does() {
        let mut query = HamlynQuery { model: 2, ..HamlynQuery::default() };
        query.card[0] = 7 << 32 | 3;
        assert_eq!(query.of_card(), Some(Own { rings: 3, entries: 7 }));
        query.model = 1;
        assert_eq!(query.of_card::<Own>(), None);
    }
}
