//! Express memory: each pair of hosts has a part of its own (`docs/express.md`).
//!
//! *Shared*: all parts are in one file, which is passed to all hosts' cards. It is a matrix: the
//! part of hosts *i* < *j* is the cell in row *i* and column *j*. The diagonal and the cells below
//! it are unused. Untouched pages take no memory.
//!
//! *Isolated*: each part is in its own file, after an unused range of the same size. A host's card
//! is passed the files of that host's parts and no others.

use std::collections::BTreeMap;
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

/// The largest number of hosts.
pub const MOST_HOSTS: u16 = 64;
/// The largest file, in bytes: a size that machines surely have room for among their devices'
/// addresses.
pub const MOST_BYTES: u64 = 64 << 30;

/// Size of what a pair of hosts shares, in bytes: a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part(u64);

impl Part {
    /// The smallest part, in bytes.
    pub const LEAST: u64 = 64 << 10;
    /// The largest part, in bytes.
    pub const MOST: u64 = 256 << 20;

    /// Returns a part of `bytes` bytes.
    pub fn new(bytes: u64) -> Result<Part, ShapeError> {
        let is_one = bytes.is_power_of_two() && (Part::LEAST..=Part::MOST).contains(&bytes);
        if is_one { Ok(Part(bytes)) } else { Err(ShapeError::Part(bytes)) }
    }

    /// Returns its size in bytes.
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

    /// Parses a number of bytes, or of units of 1,024 (`K`) or 1,048,576 (`M`) bytes.
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

/// Why express memory cannot have a certain shape.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// The text is not a size.
    #[error("{0:?} is not a size such as 64K or 1M")]
    NoSize(String),
    /// A part is too small, too large, or not a power of two.
    #[error("a part of {0} bytes of express memory is not possible (a power of two from {least} to {most})",
        least = Part::LEAST, most = Part::MOST)]
    Part(u64),
    /// Too many hosts, or none.
    #[error("express memory for {0} hosts is not possible (limit 1 to {MOST_HOSTS})")]
    Hosts(u16),
    /// The total size is too large.
    #[error("express memory of {hosts} x {hosts} parts of {part} has {bytes} bytes (limit {MOST_BYTES})")]
    Bytes {
        /// Number of its rows and columns.
        hosts: u16,
        /// Size of a cell.
        part: Part,
        /// The total size.
        bytes: u64,
    },
}

/// How the memory is divided into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One file for all parts.
    Shared,
    /// One file for each part.
    Isolated,
}

/// Shape of express memory: the number of hosts, the part of each pair, and the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    form: Form,
    hosts: u16,
    part: Part,
}

impl Shape {
    /// Returns a shape with a part for each pair of `hosts` hosts.
    pub fn new(form: Form, hosts: u16, part: Part) -> Result<Shape, ShapeError> {
        if !(1..=MOST_HOSTS).contains(&hosts) {
            return Err(ShapeError::Hosts(hosts));
        }
        let shape = Shape { form, hosts, part };
        match shape.bytes() {
            bytes if bytes > MOST_BYTES => Err(ShapeError::Bytes { hosts, part, bytes }),
            _ => Ok(shape),
        }
    }

    /// Returns how the memory is divided into files.
    pub fn form(self) -> Form {
        self.form
    }

    /// Returns the number of hosts. Host ids below it have parts.
    pub fn hosts(self) -> u16 {
        self.hosts
    }

    /// Returns the size of each pair's part.
    pub fn part(self) -> Part {
        self.part
    }

    /// Returns the size of one file in bytes.
    pub fn bytes(self) -> u64 {
        match self.form {
            Form::Shared => u64::from(self.hosts).pow(2) * self.part.0,
            Form::Isolated => 2 * self.part.0,
        }
    }

    /// Returns the offset of two hosts' part in its file, which is never 0. Returns `None` if they
    /// have no part.
    pub fn place(self, one: HostId, other: HostId) -> Option<u64> {
        let (row, column) = pair(one, other);
        let cell = match self.form {
            Form::Shared => u64::from(row.0) * u64::from(self.hosts) + u64::from(column.0),
            Form::Isolated => 1,
        };
        let there_is = row < column && column.0 < self.hosts;
        there_is.then(|| cell * self.part.0)
    }

    /// Returns one entry for each file that a host is passed: the other host of its part, or `None`
    /// if it has all hosts' parts.
    fn files(self, host: HostId) -> Vec<Option<HostId>> {
        match self.form {
            Form::Shared => vec![None],
            Form::Isolated => (0..self.hosts).map(HostId).filter(|other| *other != host).map(Some).collect(),
        }
    }
}

/// Returns two hosts with the lower id first.
fn pair(one: HostId, other: HostId) -> (HostId, HostId) {
    (one.min(other), one.max(other))
}

/// All of the memory, held by the switch that made it. The switch does not map it.
#[derive(Debug)]
pub struct Memory {
    shape: Shape,
    number: NonZeroU64,
    /// The files created so far, by the pair whose part they hold, or `None` for all parts.
    files: BTreeMap<Option<(HostId, HostId)>, Arc<File>>,
}

impl Memory {
    /// Creates express memory that no other process has yet: all zeros, with a random number that
    /// identifies it.
    pub fn new(shape: Shape) -> io::Result<Memory> {
        Ok(Memory { shape, number: random()?, files: BTreeMap::new() })
    }

    /// Returns the memory's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the files for a host's card: only those with a part of that host. Returns the same
    /// files each time.
    pub fn holding(&mut self, host: HostId) -> io::Result<Holding> {
        let Memory { shape, number, files } = self;
        let portion = |peer: Option<HostId>| {
            let whose = peer.map(|peer| pair(host, peer));
            if let Some(file) = files.get(&whose) {
                return Ok(Portion { shape: *shape, host, peer, file: file.clone() });
            }
            let file = Arc::new(File::from(make("express", shape.bytes())?));
            files.insert(whose, file.clone());
            Ok(Portion { shape: *shape, host, peer, file })
        };
        let portions = shape.files(host).into_iter().map(portion).collect::<io::Result<_>>()?;
        Ok(Holding { shape: *shape, number: *number, host, portions })
    }
}

/// The files of the memory that one host's card is passed.
#[derive(Debug, Clone)]
pub struct Holding {
    shape: Shape,
    number: NonZeroU64,
    host: HostId,
    portions: Vec<Portion>,
}

impl Holding {
    /// Returns how many files a host is passed for this shape.
    pub(crate) fn count(shape: Shape, host: HostId) -> usize {
        shape.files(host).len()
    }

    /// Adopts the files that another process passes to a host. Fails if they do not match the
    /// shape: otherwise a process that uses them would crash later.
    pub(crate) fn adopt(
        shape: Shape,
        number: NonZeroU64,
        host: HostId,
        files: impl IntoIterator<Item = OwnedFd>,
    ) -> io::Result<Holding> {
        let portion = |(peer, file)| {
            let file = Arc::new(check(file, "express", shape.bytes())?);
            Ok(Portion { shape, host, peer, file })
        };
        let portions = shape.files(host).into_iter().zip(files).map(portion).collect::<io::Result<_>>()?;
        Ok(Holding { shape, number, host, portions })
    }

    /// Returns the memory's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the number that identifies the memory.
    pub fn number(&self) -> NonZeroU64 {
        self.number
    }

    /// Returns the host that these files are for.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Returns the files; if each is for one other host, in the order of the host ids.
    pub fn portions(&self) -> &[Portion] {
        &self.portions
    }
}

/// One of the files that a host's card is passed.
#[derive(Debug, Clone)]
pub struct Portion {
    shape: Shape,
    host: HostId,
    peer: Option<HostId>,
    file: Arc<File>,
}

impl Portion {
    /// Returns the sealed file, to be passed on. This process does not map it.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Returns the memory's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the host that this file is for.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Returns the other host that shares this file, or `None` if all hosts share it.
    pub fn peer(&self) -> Option<HostId> {
        self.peer
    }

    /// Returns the offset of the part shared with another host, or `None` if this file has no such
    /// part.
    pub fn place(&self, other: HostId) -> Option<u64> {
        let is_here = self.peer.is_none_or(|peer| peer == other);
        self.shape.place(self.host, other).filter(|_| is_here)
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

    const ONE: u64 = 1 << 20;

    fn shape(form: Form, hosts: u16) -> Shape {
        Shape::new(form, hosts, Part::default()).unwrap()
    }

    fn inode(file: &File) -> u64 {
        use std::os::unix::fs::MetadataExt;
        file.metadata().unwrap().ino()
    }

    #[test]
    fn each_pair_has_its_own_part() {
        let shape = shape(Form::Shared, 5);
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
    fn too_large_shape_is_refused_with_the_limit() {
        let most = Part::new(Part::MOST).unwrap();
        let new = |hosts, part| Shape::new(Form::Shared, hosts, part);
        assert_eq!(new(16, most).unwrap().bytes(), MOST_BYTES);
        let said = new(17, most).unwrap_err().to_string();
        assert_eq!(said, "express memory of 17 x 17 parts of 256M has 77577846784 bytes (limit 68719476736)");
        assert_eq!(new(0, most), Err(ShapeError::Hosts(0)));
        assert_eq!(new(65, Part::default()), Err(ShapeError::Hosts(65)));
        assert!(new(64, Part::default()).is_ok());
        // Isolated memory has one file for each part, so its total may be larger.
        assert!(Shape::new(Form::Isolated, 64, most).is_ok());
    }

    #[test]
    fn files_cannot_be_resized_and_take_no_memory() {
        use std::os::unix::fs::MetadataExt;
        for (form, bytes) in [(Form::Shared, 4 << 30), (Form::Isolated, 2 * ONE)] {
            let shape = shape(form, 64);
            let [mut one, mut other] = [0; 2].map(|_| Memory::new(shape).unwrap());
            let [one, other] = [&mut one, &mut other].map(|memory| memory.holding(HostId(1)).unwrap());
            assert_ne!(one.number(), other.number());
            for file in one.portions().iter().map(Portion::file) {
                let found = file.metadata().unwrap();
                assert_eq!((found.len(), found.blocks()), (bytes, 0));
                assert!(file.set_len(0).is_err() && file.set_len(2 * bytes).is_err());
            }
            let copies = one.portions().iter().map(|portion| portion.file().try_clone().unwrap().into());
            let adopted = Holding::adopt(shape, one.number(), HostId(1), copies).unwrap();
            let whose = |holding: &Holding| -> Vec<_> {
                holding.portions().iter().map(|portion| (portion.peer(), inode(portion.file()))).collect()
            };
            assert_eq!(whose(&adopted), whose(&one));
        }
    }

    #[test]
    fn shared_memory_is_one_file() {
        let mut memory = Memory::new(shape(Form::Shared, 4)).unwrap();
        let files: BTreeSet<u64> = (0..4)
            .flat_map(|host| {
                let holding = memory.holding(HostId(host)).unwrap();
                assert_eq!(holding.portions().iter().map(Portion::peer).collect::<Vec<_>>(), [None]);
                assert_eq!(Holding::count(memory.shape(), HostId(host)), 1);
                holding.portions().iter().map(|portion| inode(portion.file())).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(files.len(), 1);
    }

    #[test]
    fn isolated_memory_gives_a_host_only_its_files() {
        let mut memory = Memory::new(shape(Form::Isolated, 5)).unwrap();
        let mut holders: BTreeMap<u64, BTreeSet<(u16, u16)>> = BTreeMap::new();
        // Host 3 comes twice: the second time it gets the same files.
        for host in [3, 0, 1, 2, 4, 3] {
            let holding = memory.holding(HostId(host)).unwrap();
            assert_eq!(holding.portions().len(), 4);
            assert_eq!(Holding::count(memory.shape(), HostId(host)), 4);
            for portion in holding.portions() {
                let peer = portion.peer().unwrap();
                for other in (0..6).map(HostId) {
                    assert_eq!(portion.place(other), (other == peer).then_some(ONE), "{host}, {other}");
                }
                holders.entry(inode(portion.file())).or_default().insert((host, peer.0));
            }
        }
        // Exactly the two hosts of a part hold its file.
        assert_eq!(holders.len(), 5 * 4 / 2);
        for found in holders.values().map(|found| found.iter().copied().collect::<Vec<_>>()) {
            let [(one, other), turned] = found[..] else { panic!("{found:?}") };
            assert!(one < other && turned == (other, one), "{found:?}");
        }
        assert!(
            Memory::new(shape(Form::Isolated, 1)).unwrap().holding(HostId(0)).unwrap().portions().is_empty()
        );
    }
}
