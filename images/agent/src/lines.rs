//! Lines of bounded length.

use std::io::{self, BufRead, ErrorKind};

/// A line, or a piece of one that fits the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// The bytes, without the line feed.
    pub bytes: Vec<u8>,
    /// Whether a line feed or the end of the input follows these bytes. Otherwise the line
    /// continues.
    pub whole: bool,
}

/// Reads up to `limit` bytes of the next line. Returns `None` at the end of the input.
pub fn next_piece(input: &mut impl BufRead, limit: usize) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        };
        if available.is_empty() {
            return Ok((!bytes.is_empty()).then_some(Line { bytes, whole: true }));
        }
        if available[0] == b'\n' && bytes.len() == limit {
            input.consume(1);
            return Ok(Some(Line { bytes, whole: true }));
        }
        if bytes.len() == limit {
            return Ok(Some(Line { bytes, whole: false }));
        }
        let room = &available[..available.len().min(limit - bytes.len())];
        if let Some(end) = room.iter().position(|&byte| byte == b'\n') {
            bytes.extend_from_slice(&room[..end]);
            input.consume(end + 1);
            return Ok(Some(Line { bytes, whole: true }));
        }
        bytes.extend_from_slice(room);
        let taken = room.len();
        input.consume(taken);
    }
}

/// Reads the next whole line. Returns [`TooLong`] if it is longer than `limit` bytes, and skips it.
/// Returns `None` at the end of the input.
pub fn next_line(input: &mut impl BufRead, limit: usize) -> io::Result<Option<Result<Vec<u8>, TooLong>>> {
    let Some(first) = next_piece(input, limit)? else { return Ok(None) };
    if first.whole {
        return Ok(Some(Ok(first.bytes)));
    }
    while next_piece(input, limit)?.is_some_and(|piece| !piece.whole) {}
    Ok(Some(Err(TooLong)))
}

/// A line was longer than its limit.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn pieces(text: &str, limit: usize, buffer: usize) -> Vec<(String, bool)> {
        let mut input = BufReader::with_capacity(buffer, text.as_bytes());
        std::iter::from_fn(|| next_piece(&mut input, limit).unwrap())
            .map(|line| (String::from_utf8(line.bytes).unwrap(), line.whole))
            .collect()
    }

    #[test]
    fn short_lines_are_whole_long_ones_split() {
        for buffer in 1..9 {
            let whole = |text: &str| (text.to_owned(), true);
            let part = |text: &str| (text.to_owned(), false);
            assert_eq!(pieces("ab\n\ncd", 4, buffer), [whole("ab"), whole(""), whole("cd")]);
            assert_eq!(pieces("abcd\nx\n", 4, buffer), [whole("abcd"), whole("x")]);
            assert_eq!(
                pieces("abcdefghi\nx", 4, buffer),
                [part("abcd"), part("efgh"), whole("i"), whole("x")]
            );
        }
    }

    #[test]
    fn line_over_the_limit_is_skipped() {
        let mut input = "abcdefghijk\nok\n".as_bytes();
        assert_eq!(next_line(&mut input, 4).unwrap(), Some(Err(TooLong)));
        assert_eq!(next_line(&mut input, 4).unwrap(), Some(Ok(b"ok".to_vec())));
        assert_eq!(next_line(&mut input, 4).unwrap(), None);
    }
}
