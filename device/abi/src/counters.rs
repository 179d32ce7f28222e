//! How each card names its counters.

/// Declares a card's counters: the type, and the number of counters, then each counter.
macro_rules! statistics {
    ($type:ident, $count:ident: $($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// A counter of the card.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $type { $($(#[$doc])* $variant = $number,)* }

        impl $type {
            /// All counters, in order.
            pub const ALL: [Self; $count as usize] = [$(Self::$variant,)*];

            /// The counters' names, in order, as `hamlyn stat` prints them.
            pub const NAMES: [&str; $count as usize] = [$($name,)*];

            /// Returns the counter's name, as `hamlyn stat` prints it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }

        impl From<$type> for usize {
            #[inline]
            fn from(statistic: $type) -> Self {
                statistic as usize
            }
        }

        const _: () = {
            let mut position = 0;
            while position < $type::ALL.len() {
                assert!($type::ALL[position] as usize == position, "counters are not in order");
                position += 1;
            }
        };
    };
}

pub(crate) use statistics;
