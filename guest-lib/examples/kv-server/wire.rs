//! What is said over a stream. A frame is its length in four bytes, lowest first, and so many
//! bytes: a request's first says what is wanted, an answer's how that went.

use std::io::{self, ErrorKind, Read};

/// Bytes of a frame's length.
const HEAD: usize = 4;
/// The longest key, in bytes.
pub(crate) const MAX_KEY: usize = 256;
/// What a request has besides its value at most: what is wanted, the key's length, the key.
pub(crate) const MAX_BESIDES: usize = 3 + MAX_KEY;
/// Bytes that are read at once, if it is not known how many are still to come.
const AT_ONCE: usize = 4096;

const GET: u8 = 1;
const PUT: u8 = 2;

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    Get { key: &'a [u8] },
    Put { key: &'a [u8], value: &'a [u8] },
}

/// How it went: the first byte of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// What follows is the value, if one was asked for.
    Done = 0,
    /// There is no such key.
    NotFound = 1,
    /// What follows says why. It is the last answer.
    Refused = 2,
}

impl<'a> Request<'a> {
    /// Reads what a frame says.
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

    /// The frame that says it.
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

/// The frame of an answer.
pub(crate) fn answer(status: Status, bytes: &[u8]) -> Vec<u8> {
    frame(&[&[status as u8], bytes])
}

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let head = (length as u32).to_le_bytes();
    [&[&head[..]], parts].concat().concat()
}

/// What has come of the next frames.
#[derive(Debug)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    limit: usize,
}

impl Frames {
    /// No frame is to be longer than `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// The next frame's bytes; none if the peer has closed the stream behind a whole one.
    /// `WouldBlock`: it is not all there.
    pub(crate) fn next(&mut self, from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
        loop {
            let whole = self.whole()?;
            if let Some(end) = whole.filter(|end| *end <= self.bytes.len()) {
                let rest = self.bytes.split_off(end);
                let mut frame = std::mem::replace(&mut self.bytes, rest);
                frame.drain(..HEAD);
                return Ok(Some(frame));
            }
            // A length that is only claimed takes no memory: it grows by what has come.
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

    /// Where the first frame ends, if its length is there.
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
    fn a_request_is_what_was_meant() {
        let put = Request::Put { key: b"k", value: b"value" };
        let get = Request::Get { key: b"k" };
        let bytes = [put.frame(), get.frame()].concat();
        // A byte at a time, with nothing to be had now and then.
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

    /// Has nothing more for now, where a slice has its end.
    struct Dry<'a, 'b>(&'a mut &'b [u8]);

    impl Read for Dry<'_, '_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { self.0.read(to) }
        }
    }

    #[test]
    fn what_is_malformed_is_named() {
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
