//! Segmentation (sections 2.3 and 2.5): how a message becomes packets.
//!
//! Each packet repeats the header, except for the offset, which advances, and the delta, which
//! counts.

/// The part of a message that is not yet sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segmenter {
    offset: u32,
    remaining: u32,
    packet_size: u32,
    /// The packet counter (section 2.5). In fast mode: the word.
    counter: u32,
    /// Number of packets that have been sent.
    sent: u32,
}

/// One packet's part of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// Offset of its data in the receiver's area.
    pub(super) offset: u32,
    /// Bytes of data.
    pub(super) length: u32,
    /// Amount that it adds to the packet accumulator.
    pub(super) delta: u32,
    /// Whether it carries the metadata.
    pub(super) first: bool,
    /// Whether it is the last of the message.
    pub(super) last: bool,
}

impl Segmenter {
    /// Starts a message of `length` bytes to `offset`, whose packet counter starts at `counter`.
    pub(super) fn new(offset: u32, length: u32, packet_size: u32, counter: u32) -> Self {
        Self { offset, remaining: length, packet_size, counter, sent: 0 }
    }

    /// Returns the next packet. A message without data has one, too.
    pub(super) fn next(&self) -> Segment {
        let last = self.remaining <= self.packet_size;
        Segment {
            offset: self.offset,
            length: self.remaining.min(self.packet_size),
            delta: if last { self.counter } else { 1 },
            first: self.sent == 0,
            last,
        }
    }

    /// Returns the number of packets that have been sent. Each counts 1, except for the message's
    /// last.
    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    /// Moves on after the packet of [`Segmenter::next`] has been sent. Returns whether there is
    /// another.
    pub(super) fn advance(&mut self) -> bool {
        let Segment { length, last, .. } = self.next();
        // A message that ends with the last byte of 4 GiB moves its offset to 2^32, which is never
        // used.
        self.offset = self.offset.wrapping_add(length);
        self.remaining -= length;
        self.counter = self.counter.wrapping_sub(1);
        self.sent += 1;
        !last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segments(mut rest: Segmenter) -> Vec<Segment> {
        let mut all = vec![rest.next()];
        while rest.advance() {
            all.push(rest.next());
        }
        all
    }

    #[test]
    fn a_message_of_one_packet_keeps_its_counter() {
        let whole = Segment { offset: 9, length: 16, delta: 0, first: true, last: true };
        assert_eq!(segments(Segmenter::new(9, 16, 4096, 0)), [whole]);
        assert_eq!(segments(Segmenter::new(9, 0, 4096, 5))[0].delta, 5);
    }

    #[test]
    fn three_packets_count_one_one_and_minus_two() {
        let deltas: Vec<u32> = segments(Segmenter::new(0, 600, 256, 0)).iter().map(|s| s.delta).collect();
        assert_eq!(deltas, [1, 1, 2_u32.wrapping_neg()]);
    }

    proptest! {
        #[test]
        fn packets_tile_message_and_deltas_sum_up(
            offset in 0..1_000_000_u32, length in 0..100_000_u32, packet_size in 256..5000_u32, y: u32,
        ) {
            let all = segments(Segmenter::new(offset, length, packet_size, y));
            let mut at = offset;
            let mut sum = 0_u32;
            for (i, segment) in all.iter().enumerate() {
                prop_assert_eq!(segment.offset, at);
                prop_assert_eq!(segment.first, i == 0);
                prop_assert_eq!(segment.last, i + 1 == all.len());
                prop_assert!(segment.length <= packet_size && (segment.length > 0 || length == 0));
                at += segment.length;
                sum = sum.wrapping_add(segment.delta);
            }
            prop_assert_eq!(at, offset + length);
            prop_assert_eq!(sum, y);
        }
    }
}
