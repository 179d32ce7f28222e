//! The size of a machine's memory.

use std::str::FromStr;

/// A guest's memory, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(u32);

impl Memory {
    /// The default of a machine: our image, and as much again for programs.
    pub const DEFAULT: Memory = Memory(384);
    /// No Debian kernel boots with less.
    const LEAST: u32 = 128;
    /// Memory that a kernel needs in addition to its image.
    const KERNEL: u32 = 80;
    /// More than any host has.
    const MOST: u32 = 1 << 20;

    /// Returns `mib` MiB.
    pub const fn mib(mib: u32) -> Memory {
        Memory(mib)
    }

    /// Returns `mib` MiB more, limited to the maximum.
    pub(super) fn with(self, mib: u32) -> Memory {
        Memory(self.0.saturating_add(mib).min(Memory::MOST))
    }

    /// Returns the end of the machine's memory on its bus, in MiB. A q35 machine puts memory that
    /// does not fit below 4 GiB at 4 GiB and above.
    pub(super) fn end(self) -> u32 {
        const ABOVE: u32 = 4096;
        /// A machine with at least this much has only [`BELOW`] below 4 GiB.
        const SPLIT: u32 = 0xb00;
        const BELOW: u32 = 2048;
        if self.0 < SPLIT { ABOVE } else { ABOVE + self.0 - BELOW }
    }

    /// Refuses a machine that could not boot from an image of `length` bytes: its kernel would
    /// panic without a message.
    pub(super) fn check_image(self, length: u64) -> Result<(), String> {
        let image = u32::try_from(length.div_ceil(1 << 20)).unwrap_or(u32::MAX);
        let least = image.saturating_mul(2).saturating_add(Memory::KERNEL);
        if self.0 < least {
            return Err(format!(
                "{} MiB are too little memory for a machine whose image has {image} MiB, which is there twice while it is \
                 unpacked (least {least})",
                self.0
            ));
        }
        Ok(())
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        let (digits, unit) = match text.strip_suffix(['G', 'g']) {
            Some(digits) => (digits, 1024),
            None => (text.strip_suffix(['M', 'm']).unwrap_or(text), 1),
        };
        let count: u32 = digits.parse().map_err(|_| format!("{text:?} is not a size such as 256M or 1G"))?;
        let mib = count.saturating_mul(unit);
        if !(Memory::LEAST..=Memory::MOST).contains(&mib) {
            return Err(format!("{mib} MiB is out of range (limits {} and {})", Memory::LEAST, Memory::MOST));
        }
        Ok(Memory(mib))
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}M", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_parsed_and_bounded() {
        assert_eq!("256M".parse(), Ok(Memory(256)));
        assert_eq!("2G".parse(), Ok(Memory(2048)));
        assert_eq!("192".parse(), Ok(Memory(192)));
        for wrong in ["", "M", "x", "-1", "64M", "9999999G", "1T"] {
            assert!(wrong.parse::<Memory>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn large_memory_ends_above_4_gib() {
        for (mib, end) in [(128, 4096), (2815, 4096), (2816, 4864), (4096, 6144)] {
            assert_eq!(Memory::mib(mib).end(), end, "{mib} MiB");
        }
    }

    #[test]
    fn memory_holds_the_image_twice_and_the_kernel() {
        assert_eq!(Memory::mib(256).check_image(88 << 20), Ok(()));
        let refused = Memory::mib(256).check_image((88 << 20) + 1).unwrap_err();
        assert!(
            refused.starts_with("256 MiB are too little memory for a machine whose image has 89 MiB"),
            "{refused}"
        );
        assert!(refused.ends_with("(least 258)"), "{refused}");
        assert!(Memory::DEFAULT.check_image(u64::MAX).is_err());
    }
}
