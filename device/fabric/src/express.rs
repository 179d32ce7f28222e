//! Express memory: one file, in which each pair of hosts has a part that is theirs alone (`docs/express.md`).
//!
//! It is a matrix: the part of hosts *i* < *j* is the cell in row *i* and column *j*. The diagonal and what is below it
//! belong to nobody, and pages that nobody has touched take no memory.

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};
use thiserror::Error;

use crate::header::HostId;
use crate::memory::{check, make};

/// The most hosts that it may be for.
pub const MOST_HOSTS: u16 = 64;
/// The most bytes of the file: as much as machines surely have room for among their devices' addresses.
pub const MOST_BYTES: u64 = 64 << 30;

/// What a pair of hosts shares, in bytes: a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part(u64);

impl Part {
    /// The smallest, in bytes.
    pub const LEAST: u64 = 64 << 10;
    /// The largest, in bytes.
    pub const MOST: u64 = 256 << 20;

    /// So many bytes.
    pub fn new(bytes: u64) -> Result<Part, ShapeError> {
        let is_one = bytes.is_power_of_two() && (Part::LEAST..=Part::MOST).contains(&bytes);
        if is_one { Ok(Part(bytes)) } else { Err(ShapeError::Part(bytes)) }
    }

    /// Its bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl Default for Part {
    fn default() -> Part {
        Part(1 << 20)
    }
}

impl FromStr for Part {
    type Err = ShapeError;

    /// Bytes, or so many of 1,024 (`K`) or 1,048,576 (`M`).
    fn from_str(text: &str) -> Result<Part, ShapeError> {
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'K' | b'k') => (&text[..text.len() - 1], 1 << 10),
            Some(b'M' | b'm') => (&text[..text.len() - 1], 1 << 20),
            _ => (text, 1),
        };
        let count: u64 = digits.parse().map_err(|_| ShapeError::NoSize(text.into()))?;
        Part::new(count.saturating_mul(unit))
    }
}

impl Display for Part {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes < 1 << 20 => write!(f, "{}K", bytes >> 10),
            bytes => write!(f, "{}M", bytes >> 20),
        }
    }
}

/// Why there is no express memory of some shape.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// It cannot be read.
    #[error("{0:?} is not a size such as 64K or 1M")]
    NoSize(String),
    /// A part that is too small, too large, or no power of two.
    #[error("a part of {0} bytes of express memory is not possible (a power of two from {least} to {most})",
        least = Part::LEAST, most = Part::MOST)]
    Part(u64),
    /// Too many hosts, or none.
    #[error("express memory for {0} hosts is not possible (limit 1 to {MOST_HOSTS})")]
    Hosts(u16),
    /// Too large in all.
    #[error("express memory of {hosts} x {hosts} parts of {part} has {bytes} bytes (limit {MOST_BYTES})")]
    Bytes {
        /// Its rows and columns.
        hosts: u16,
        /// A cell.
        part: Part,
        /// What that makes.
        bytes: u64,
    },
}

/// How many hosts it is for, and what each pair has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    hosts: u16,
    part: Part,
}

impl Shape {
    /// A matrix of `hosts` x `hosts` parts.
    pub fn new(hosts: u16, part: Part) -> Result<Shape, ShapeError> {
        if !(1..=MOST_HOSTS).contains(&hosts) {
            return Err(ShapeError::Hosts(hosts));
        }
        let shape = Shape { hosts, part };
        match shape.bytes() {
            bytes if bytes > MOST_BYTES => Err(ShapeError::Bytes { hosts, part, bytes }),
            _ => Ok(shape),
        }
    }

    /// Host ids below this have parts.
    pub fn hosts(self) -> u16 {
        self.hosts
    }

    /// What each pair has.
    pub fn part(self) -> Part {
        self.part
    }

    /// All of the file.
    pub fn bytes(self) -> u64 {
        u64::from(self.hosts).pow(2) * self.part.0
    }

    /// Where in the file the part of two hosts begins; `None`: they have none.
    pub fn place(self, one: HostId, other: HostId) -> Option<u64> {
        let (row, column) = (one.0.min(other.0), one.0.max(other.0));
        let there_is = row < column && column < self.hosts;
        there_is.then(|| (u64::from(row) * u64::from(self.hosts) + u64::from(column)) * self.part.0)
    }
}

/// The file, to be passed on. This process does not map it.
#[derive(Debug, Clone)]
pub struct Memory {
    shape: Shape,
    number: NonZeroU64,
    file: Arc<File>,
}

impl Memory {
    /// Memory that nobody else knows: all zeros, and a number by which it is told from any other.
    pub fn new(shape: Shape) -> io::Result<Memory> {
        let file = Arc::new(File::from(make("express", shape.bytes())?));
        Ok(Memory { shape, number: random()?, file })
    }

    /// Memory that another process has made. It must be what it says, or who uses it would die one day.
    pub(crate) fn adopt(shape: Shape, number: NonZeroU64, memory: OwnedFd) -> io::Result<Memory> {
        let file = Arc::new(check(memory, "express", shape.bytes())?);
        Ok(Memory { shape, number, file })
    }

    /// Where in it what is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Which memory it is.
    pub fn number(&self) -> NonZeroU64 {
        self.number
    }

    /// The file, sealed.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

fn random() -> io::Result<NonZeroU64> {
    loop {
        let mut bytes = [0; 8];
        let count = getrandom(&mut bytes[..], GetRandomFlags::empty())?;
        match NonZeroU64::new(u64::from_le_bytes(bytes)) {
            Some(number) if count == bytes.len() => return Ok(number),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn parts_are_parsed_and_bounded() {
        for (text, bytes) in [("64K", 64 << 10), ("1M", 1 << 20), ("256m", 256 << 20), ("131072", 128 << 10)]
        {
            let part: Part = text.parse().unwrap();
            assert_eq!(part.bytes(), bytes);
            assert_eq!(part.to_string().parse(), Ok(part));
        }
        for text in ["", "M", "x", "-1", "1G", "32K", "512M", "3M", "65537", "99999999999999999M", "1Mé"] {
            assert!(text.parse::<Part>().is_err(), "{text:?}");
        }
        assert_eq!(Part::default().to_string(), "1M");
    }

    #[test]
    fn each_pair_has_a_part_of_its_own_in_the_file() {
        let shape = Shape::new(5, Part::default()).unwrap();
        let mut seen = BTreeSet::new();
        for (one, other) in (0..7).flat_map(|one| (0..7).map(move |other| (HostId(one), HostId(other)))) {
            let place = shape.place(one, other);
            assert_eq!(place, shape.place(other, one));
            assert_eq!(place.is_some(), one != other && one.0 < 5 && other.0 < 5, "{one} {other}");
            let Some(place) = place else { continue };
            assert!(place > 0 && place % (1 << 20) == 0 && place + (1 << 20) <= shape.bytes());
            seen.insert(place);
        }
        assert_eq!(seen.len(), 5 * 4 / 2);
    }

    #[test]
    fn what_is_too_large_is_refused_with_the_limit() {
        let most = Part::new(Part::MOST).unwrap();
        assert_eq!(Shape::new(16, most).unwrap().bytes(), MOST_BYTES);
        let said = Shape::new(17, most).unwrap_err().to_string();
        assert_eq!(said, "express memory of 17 x 17 parts of 256M has 77577846784 bytes (limit 68719476736)");
        assert_eq!(Shape::new(0, most), Err(ShapeError::Hosts(0)));
        assert_eq!(Shape::new(65, Part::default()), Err(ShapeError::Hosts(65)));
        assert!(Shape::new(64, Part::default()).is_ok());
    }

    #[test]
    fn memory_has_its_size_for_good_and_takes_none() {
        use std::os::unix::fs::MetadataExt;
        let shape = Shape::new(64, Part::default()).unwrap();
        let [one, other] = [0; 2].map(|_| Memory::new(shape).unwrap());
        assert_ne!(one.number(), other.number());
        let found = one.file().metadata().unwrap();
        assert_eq!((found.len(), found.blocks()), (4 << 30, 0));
        assert!(one.file().set_len(0).is_err() && one.file().set_len(8 << 30).is_err());
        let copy = |memory: &Memory| OwnedFd::from(memory.file().try_clone().unwrap());
        assert!(Memory::adopt(shape, one.number(), copy(&one)).is_ok());
    }
}
