//! Frames: the encoding of calls and their results in a stream of bytes.

use hamlyn::{Error, Result};

/// Maximum number of bytes of arguments or of a result.
pub(crate) const MAX_BODY: usize = 16 << 20;
/// The longest name of a procedure, in bytes.
pub(crate) const MAX_NAME: usize = 64;

/// Bytes before the body: its length, the call's number, the frame's kind, the name's length.
const HEAD: usize = 12;

/// The kind of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A call of the procedure with this name; the body holds its arguments.
    Call(String),
    /// A result, in the body.
    Result,
    /// There is no result; the body holds the reason, in UTF-8.
    Error,
}

/// A call, or its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The caller's number for the call; the result carries the same number.
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// Appends the frame's bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a name or body that is too long; then nothing is appended.
    pub(crate) fn append_to(number: u32, kind: &Kind, body: &[u8], bytes: &mut Vec<u8>) -> Result<()> {
        let (code, name) = match kind {
            Kind::Call(name) => (0_u16, name.as_str()),
            Kind::Result => (1, ""),
            Kind::Error => (2, ""),
        };
        at_most("length of a procedure's name", name.len(), MAX_NAME)?;
        at_most("length of arguments or result", body.len(), MAX_BODY)?;
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(code.to_le_bytes());
        bytes.extend((name.len() as u16).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(body);
        Ok(())
    }

    /// Removes and returns the first frame, once all of it has arrived.
    ///
    /// # Errors
    /// [`Error::Malformed`]: the start of the next frame is unknown then.
    pub(crate) fn take_from(bytes: &mut Vec<u8>) -> Result<Option<Self>> {
        let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, number, code) = (word(0) as usize, word(4), word(8) & 0xffff);
        let name = (word(8) >> 16) as usize;
        if length > MAX_BODY || name > MAX_NAME || code > 2 || (code != 0 && name != 0) {
            return Err(Error::Malformed("what is neither a call nor a result"));
        }
        let end = HEAD + name + length;
        if bytes.len() < end {
            return Ok(None);
        }
        let kind = match code {
            0 => match std::str::from_utf8(&bytes[HEAD..HEAD + name]) {
                Ok(name) => Kind::Call(name.to_owned()),
                Err(_) => return Err(Error::Malformed("a procedure's name that is not UTF-8")),
            },
            1 => Kind::Result,
            _ => Kind::Error,
        };
        let body = bytes[HEAD + name..end].to_vec();
        bytes.drain(..end);
        Ok(Some(Self { number, kind, body }))
    }
}

fn at_most(object: &'static str, value: usize, limit: usize) -> Result<()> {
    if value > limit {
        return Err(Error::OutOfRange { object, value: value as u64, limit: limit as u64 });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_split_of_the_bytes() {
        let frames = [
            Frame { number: 1, kind: Kind::Call("sum".into()), body: vec![1, 2, 3] },
            Frame { number: u32::MAX, kind: Kind::Result, body: vec![] },
            Frame { number: 0, kind: Kind::Error, body: b"no".to_vec() },
        ];
        let mut bytes = Vec::new();
        for frame in &frames {
            Frame::append_to(frame.number, &frame.kind, &frame.body, &mut bytes).unwrap();
        }
        for step in 1..=bytes.len() {
            let (mut come, mut out) = (Vec::new(), Vec::new());
            for piece in bytes.chunks(step) {
                come.extend(piece);
                while let Some(frame) = Frame::take_from(&mut come).unwrap() {
                    out.push(frame);
                }
            }
            assert_eq!((out.as_slice(), come.len()), (frames.as_slice(), 0), "pieces of {step}");
        }
    }

    #[test]
    fn limits_hold_at_both_ends() {
        let mut bytes = Vec::new();
        let long = Kind::Call("n".repeat(MAX_NAME + 1));
        assert!(Frame::append_to(1, &long, b"", &mut bytes).is_err());
        assert!(Frame::append_to(1, &Kind::Result, &vec![0; MAX_BODY + 1], &mut bytes).is_err());
        assert!(bytes.is_empty(), "a refused frame leaves nothing behind");
        let head = |length: u32, code: u16, name: u16| {
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend([0; 4]);
            bytes.extend(code.to_le_bytes());
            bytes.extend(name.to_le_bytes());
            Frame::take_from(&mut bytes)
        };
        assert!(head(MAX_BODY as u32, 0, MAX_NAME as u16).unwrap().is_none(), "the rest has not come");
        for (length, code, name) in
            [(MAX_BODY as u32 + 1, 1, 0), (0, 0, MAX_NAME as u16 + 1), (0, 3, 0), (0, 1, 1)]
        {
            assert!(head(length, code, name).is_err(), "{length} {code} {name}");
        }
        let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xff];
        assert!(Frame::take_from(&mut bytes).is_err(), "a name that is not UTF-8");
    }
}
