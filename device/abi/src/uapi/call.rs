//! The version of the contract, and the numbers of its calls.
//!
//! Numbers up to 63 belong to the family, and to the Hamlyn card, which is older than the family.
//! Every later model has 16 numbers of its own from 64 on, in the order of the models: model 2 has
//! 64 to 79, model 3 has 80 to 95. So a model's folder defines its calls ([`card_call`]), and no
//! two models share a number. A call of another model fails with `ENOTTY`.

use zerocopy::{FromBytes, IntoBytes};

/// Version of this contract. The major version is in the upper half, the minor version in the
/// lower.
pub const ULN_UAPI_VERSION: u32 = 0x0002_0000;

/// First call number of the later models.
pub const ULN_FIRST_CARD_CALL: u32 = 64;
/// Number of calls of each later model.
pub const ULN_CARD_CALLS: u32 = 16;
/// The first model that has call numbers of its own.
pub const ULN_FIRST_LATER_MODEL: u32 = 2;
/// The last model that call numbers are reserved for.
pub const ULN_LAST_MODEL: u32 = 13;

/// Returns the code that C's `_IOWR('H', number, T)` makes, of a call whose argument, a `T`, is
/// both read and written.
pub(crate) const fn iowr<T>(number: u32) -> u32 {
    // The code has 14 bits for the size.
    assert!(size_of::<T>() < 1 << 14, "the argument of a call has less than 16 KiB");
    0xc000_0000 | (size_of::<T>() as u32) << 16 | (b'H' as u32) << 8 | number
}

/// Returns the code of call `number`, 0 to 15, of a later model, whose argument is a `T`. It is for
/// the constants of the model's own folder. A number or model out of range does not compile.
#[must_use]
pub const fn card_call<T>(model: u32, number: u32) -> u32 {
    assert!(
        model >= ULN_FIRST_LATER_MODEL && model <= ULN_LAST_MODEL,
        "models 2 to 13 have calls of their own"
    );
    assert!(number < ULN_CARD_CALLS, "a model has calls 0 to 15");
    iowr::<T>(ULN_FIRST_CARD_CALL + (model - ULN_FIRST_LATER_MODEL) * ULN_CARD_CALLS + number)
}

/// The argument of a later model's call.
pub trait CardArgument: FromBytes + IntoBytes {
    /// Calls `piece` with the address and the length in bytes of each piece of the caller's memory
    /// that the argument names for the card. The library uses this to reject memory that was not
    /// lent. If an implementation omits a piece, the card can write to any memory there.
    fn names(&self, _piece: &mut dyn FnMut(u64, u64)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of model 3.
    const OF_THREE: u32 = card_call::<[u64; 2]>(3, 1);

    #[test]
    fn every_model_has_numbers_of_its_own() {
        assert_eq!(OF_THREE, 0xc010_4851);
        let mut numbers: [bool; 256] = [false; 256];
        for model in ULN_FIRST_LATER_MODEL..=ULN_LAST_MODEL {
            for number in 0..ULN_CARD_CALLS {
                let own = card_call::<u64>(model, number) & 0xff;
                assert!(own >= ULN_FIRST_CARD_CALL && !numbers[own as usize], "model {model}: {own}");
                numbers[own as usize] = true;
            }
        }
        assert_eq!(numbers.iter().filter(|taken| **taken).count(), 192, "all from 64 to 255");
    }
}
