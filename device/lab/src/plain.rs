//! Escaping of foreign text for display: guest output must not control the operator's terminal.
//!
//! Printable text, line feeds and tabs pass. All else is shown like `\x1b`: control characters,
//! bytes that are not UTF-8, and invisible characters that reorder or hide the text around them.

use std::fmt::Write;
use std::str::from_utf8;

/// Returns the escaped text. Escaping it again changes nothing.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut filter = Filter::default();
    filter.write(text.as_bytes(), &mut shown);
    filter.finish(&mut shown);
    shown
}

/// Escapes bytes that arrive in pieces.
#[derive(Debug, Default)]
pub struct Filter {
    /// The start of a character whose rest has not arrived: at most 3 bytes.
    held: Vec<u8>,
    /// The last character was a carriage return. A line feed after it makes the two one line end.
    returned: bool,
}

impl Filter {
    /// Appends the escaped form of the next bytes to `shown`.
    pub fn write(&mut self, bytes: &[u8], shown: &mut String) {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let mut rest = &all[..];
        while !rest.is_empty() {
            match from_utf8(rest) {
                Ok(text) => {
                    self.text(text, shown);
                    return;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.text(from_utf8(good).unwrap_or_default(), shown);
                    let Some(length) = error.error_len() else {
                        self.held = bad.to_vec();
                        return;
                    };
                    self.end_return(shown);
                    escape(&bad[..length], shown);
                    rest = &bad[length..];
                }
            }
        }
    }

    /// Appends held-back input: no more follows.
    pub fn finish(&mut self, shown: &mut String) {
        self.end_return(shown);
        escape(&std::mem::take(&mut self.held), shown);
    }

    fn text(&mut self, text: &str, shown: &mut String) {
        for character in text.chars() {
            if character != '\n' {
                self.end_return(shown);
            }
            match character {
                '\r' => self.returned = true,
                '\n' => {
                    self.returned = false;
                    shown.push('\n');
                }
                '\t' => shown.push('\t'),
                other if other.is_control() || misleads(other) => {
                    escape(other.encode_utf8(&mut [0; 4]).as_bytes(), shown);
                }
                other => shown.push(other),
            }
        }
    }

    fn end_return(&mut self, shown: &mut String) {
        if std::mem::take(&mut self.returned) {
            escape(b"\r", shown);
        }
    }
}

fn escape(bytes: &[u8], shown: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(shown, "\\x{byte:02x}");
    }
}

/// Returns whether an invisible character changes the text around it: direction marks and
/// overrides, line separators, and the tags in the last planes.
fn misleads(character: char) -> bool {
    matches!(character,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_passes_and_the_rest_is_escaped() {
        for (text, shown) in [
            ("a b\tc\nd", "a b\tc\nd"),
            ("grüße, 世界 ✓", "grüße, 世界 ✓"),
            ("\x1b[2J\x07\x7f\0", r"\x1b[2J\x07\x7f\x00"),
            ("one\r\ntwo\rthree\r", "one\ntwo\\x0dthree\\x0d"),
            ("\r\r\n", "\\x0d\n"),
            ("\u{9b}2J", r"\xc2\x9b2J"),
            ("\u{202e}txt.exe\u{200b}", r"\xe2\x80\xaetxt.exe\xe2\x80\x8b"),
        ] {
            assert_eq!(plain(text), shown);
            assert_eq!(plain(shown), shown, "made so twice");
        }
    }

    #[test]
    fn pieces_are_escaped_like_the_whole() {
        let bytes = b"\xc3\xbc\xff\xe2\x80\xaex\r\ny\r\xf0\x9f\x98\x80\xe2\x80";
        let mut whole = String::new();
        let mut filter = Filter::default();
        filter.write(bytes, &mut whole);
        filter.finish(&mut whole);
        assert_eq!(whole, "ü\\xff\\xe2\\x80\\xaex\ny\\x0d😀\\xe2\\x80");
        for size in 1..bytes.len() {
            let mut shown = String::new();
            let mut filter = Filter::default();
            for piece in bytes.chunks(size) {
                filter.write(piece, &mut shown);
                assert!(filter.held.len() < 4);
            }
            filter.finish(&mut shown);
            assert_eq!(shown, whole, "in pieces of {size}");
        }
    }
}
