//! The protocol on a stream. A frame is its length in four bytes, little-endian, followed by that
//! many bytes. A request's first byte is its kind, an answer's is its status.

use std::io::{self, ErrorKind, Read};

/// Bytes of a frame's length.
const HEAD: usize = 4;
/// The longest key, in bytes.
pub(crate) const MAX_KEY: usize = 256;
/// Maximum number of bytes of a request besides its value: the kind, the key's length, the key.
pub(crate) const MAX_BESIDES: usize = 3 + MAX_KEY;
/// Bytes read at once if the number still to come is unknown.
const AT_ONCE: usize = 4096;

const GET: u8 = 1;
const PUT: u8 = 2;

/// A client's request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    Get { key: &'a [u8] },
    Put { key: &'a [u8], value: &'a [u8] },
}

/// The outcome: the first byte of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// The value follows, if one was asked for.
    Done = 0,
    /// There is no such key.
    NotFound = 1,
    /// The reason follows. It is the last answer.
    Refused = 2,
}

impl<'a> Request<'a> {
    /// Parses a frame.
    pub(crate) fn parse(frame: &'a [u8]) -> io::Result<Self> {
        let (kind, key, value) = split(frame).ok_or_else(|| malformed("a request shorter than its key"))?;
        match kind {
            _ if key.len() > MAX_KEY => {
                Err(malformed(format!("a key of {} bytes (limit {MAX_KEY})", key.len())))
            }
            GET if value.is_empty() => Ok(Request::Get { key }),
            PUT => Ok(Request::Put { key, value }),
            _ => Err(malformed(format!("request {kind}, with {} bytes behind the key", value.len()))),
        }
    }

    /// Encodes the request as a frame.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let (kind, key, value): (_, &[u8], &[u8]) = match self {
            Request::Get { key } => (GET, key, &[]),
            Request::Put { key, value } => (PUT, key, value),
        };
        frame(&[&[kind], &(key.len() as u16).to_le_bytes(), key, value])
    }
}

fn split(frame: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = frame.split_first()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (key, value) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    Some((*kind, key, value))
}

/// Encodes an answer as a frame.
pub(crate) fn answer(status: Status, bytes: &[u8]) -> Vec<u8> {
    frame(&[&[status as u8], bytes])
}

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let head = (length as u32).to_le_bytes();
    [&[&head[..]], parts].concat().concat()
}

/// The received part of the next frames.
#[derive(Debug)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    limit: usize,
}

impl Frames {
    /// Creates a buffer for frames of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// Returns the next frame's bytes, or `None` if the peer has closed the stream after a whole
    /// frame. Fails with `WouldBlock` if the frame is incomplete.
    pub(crate) fn next(&mut self, from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
        loop {
            let whole = self.whole()?;
            if let Some(end) = whole.filter(|end| *end <= self.bytes.len()) {
                let rest = self.bytes.split_off(end);
                let mut frame = std::mem::replace(&mut self.bytes, rest);
                frame.drain(..HEAD);
                return Ok(Some(frame));
            }
            // The buffer grows only by received bytes, so an announced length alone takes no
            // memory.
            let have = self.bytes.len();
            let more = whole.map_or(AT_ONCE, |end| (end - have).clamp(AT_ONCE, 16 * AT_ONCE));
            self.bytes.resize(have + more, 0);
            let read = from.read(&mut self.bytes[have..]);
            self.bytes.truncate(have + read.as_ref().map_or(0, |length| *length));
            match read? {
                0 if have == 0 => return Ok(None),
                0 => return Err(malformed("an end within a frame")),
                _ => {}
            }
        }
    }

    /// Returns where the first frame ends, if its length has arrived.
    fn whole(&self) -> io::Result<Option<usize>> {
        let Some(head) = self.bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > self.limit {
            return Err(malformed(format!("a frame of {length} bytes (limit {})", self.limit)));
        }
        Ok(Some(HEAD + length))
    }
}

fn malformed(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_encoding_and_decoding() {
        let put = Request::Put { key: b"k", value: b"value" };
        let get = Request::Get { key: b"k" };
        let bytes = [put.frame(), get.frame()].concat();
        // One byte at a time, with reads that would block in between.
        let (mut frames, mut got) = (Frames::new(100), Vec::new());
        for byte in bytes.chunks(1) {
            let mut source = byte;
            while !source.is_empty() {
                match frames.next(&mut Dry(&mut source)) {
                    Ok(frame) => got.extend(frame),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
            if let Ok(Some(frame)) = frames.next(&mut Dry(&mut source)) {
                got.push(frame);
            }
        }
        assert_eq!(got.len(), 2);
        assert_eq!((Request::parse(&got[0]).unwrap(), Request::parse(&got[1]).unwrap()), (put, get));
        assert!(frames.next(&mut &[][..]).unwrap().is_none());
    }

    /// A reader that would block at the end of its slice.
    struct Dry<'a, 'b>(&'a mut &'b [u8]);

    impl Read for Dry<'_, '_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { self.0.read(to) }
        }
    }

    #[test]
    fn malformed_input_is_named_in_the_error() {
        let text = |bytes: &[u8]| Frames::new(9).next(&mut &*bytes).unwrap_err().to_string();
        assert_eq!(text(&[10, 0, 0, 0]), "a frame of 10 bytes (limit 9)");
        assert_eq!(text(&[9, 0, 0, 0, 1]), "an end within a frame");
        let text = |frame: &[u8]| Request::parse(frame).unwrap_err().to_string();
        assert_eq!(text(b""), "a request shorter than its key");
        assert_eq!(text(&[GET, 2, 0, 1]), "a request shorter than its key");
        assert_eq!(text(&[7, 1, 0, 1]), "request 7, with 0 bytes behind the key");
        assert_eq!(text(&[&[GET, 1, 1][..], &[0; 257]].concat()), "a key of 257 bytes (limit 256)");
    }
}
