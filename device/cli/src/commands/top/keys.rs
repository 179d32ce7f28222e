//! Keys, as a terminal in raw mode sends them.

/// A key that has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Leave,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// The bytes of each key.
const KEYS: [(&[u8], Key); 20] = [
    (b"q", Key::Leave),
    (b"\x03", Key::Leave),
    (b"\x1b[A", Key::Up),
    (b"\x1bOA", Key::Up),
    (b"k", Key::Up),
    (b"\x1b[B", Key::Down),
    (b"\x1bOB", Key::Down),
    (b"j", Key::Down),
    (b"\x1b[C", Key::Right),
    (b"\x1bOC", Key::Right),
    (b"\x1b[D", Key::Left),
    (b"\x1bOD", Key::Left),
    (b"\x1b[5~", Key::PageUp),
    (b"\x1b[6~", Key::PageDown),
    (b" ", Key::PageDown),
    (b"\x1b[H", Key::Home),
    (b"\x1bOH", Key::Home),
    (b"\x1b[1~", Key::Home),
    (b"\x1b[F", Key::End),
    (b"\x1b[4~", Key::End),
];

/// Takes the keys from the bytes that were typed. The beginning of a key stays; other bytes are
/// ignored.
pub(super) fn take(typed: &mut Vec<u8>) -> Vec<Key> {
    let (mut keys, mut at) = (Vec::new(), 0);
    while at < typed.len() {
        let rest = &typed[at..];
        if let Some((bytes, key)) = KEYS.iter().find(|(bytes, _)| rest.starts_with(bytes)) {
            keys.push(*key);
            at += bytes.len();
        } else if KEYS.iter().any(|(bytes, _)| bytes.starts_with(rest)) {
            break;
        } else {
            at += 1;
        }
    }
    typed.drain(..at);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart() {
        let mut typed = b"x\x1b[A\x1b[6~\x1b[1;5Q\x03".to_vec();
        assert_eq!(take(&mut typed), [Key::Up, Key::PageDown, Key::Leave]);
        assert!(typed.is_empty());
    }

    #[test]
    fn key_may_arrive_in_pieces() {
        let mut typed = b"j\x1b[".to_vec();
        assert_eq!(take(&mut typed), [Key::Down]);
        typed.extend_from_slice(b"5");
        assert_eq!(take(&mut typed), []);
        typed.extend_from_slice(b"~q");
        assert_eq!(take(&mut typed), [Key::PageUp, Key::Leave]);
        assert!(typed.is_empty());
    }

    #[test]
    fn every_key_is_found() {
        for (bytes, key) in KEYS {
            assert_eq!(take(&mut bytes.to_vec()), [key], "{bytes:?}");
        }
    }
}
