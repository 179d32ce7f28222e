//! Tags, which identify endpoints in their packets.

/// Number of tag bits that hold the endpoint's number. The bits above distinguish it from earlier
/// endpoints with that number.
const NUMBER_BITS: u32 = 14;

/// Returns the tag of an endpoint. `given` is the number of tags that were given out.
pub(crate) fn tag(given: u32, endpoint: u32) -> u32 {
    given << NUMBER_BITS | endpoint
}

/// Returns the number of the endpoint that a tag names.
pub(crate) fn endpoint_of_tag(tag: u32) -> u32 {
    tag & ((1 << NUMBER_BITS) - 1)
}
