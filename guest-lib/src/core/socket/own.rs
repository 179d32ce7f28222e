//! Ownership of the pages of application memory.

use std::io;

/// Returns whether all of these bytes are private, writable memory of this process. Pages of a
/// shared file cannot be replaced by pages that the card sees: the file would miss later writes to
/// them.
pub(super) fn is_private(address: u64, length: u64) -> io::Result<bool> {
    Ok(covers(&std::fs::read_to_string("/proc/self/maps")?, address, address + length))
}

fn covers(maps: &str, mut from: u64, to: u64) -> bool {
    for line in maps.lines() {
        let Some((start, end, private)) = mapping(line) else { continue };
        if from < to && (start..end).contains(&from) {
            if !private {
                return false;
            }
            from = end;
        }
    }
    from >= to
}

/// Returns the start and end of a mapping, and whether it is private and writable.
fn mapping(line: &str) -> Option<(u64, u64, bool)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?, rest.starts_with("rw") && rest.get(3..4) == Some("p")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_must_be_private() {
        let maps = "1000-3000 rw-p 00000000 00:00 0\n3000-4000 rw-p 00000000 00:00 0 [heap]\n\
            5000-6000 rw-s 00000000 00:01 7 /memfd\n6000-7000 r--p 00000000 00:00 0\n";
        assert!(covers(maps, 0x1000, 0x4000) && covers(maps, 0x2000, 0x3000));
        assert!(!covers(maps, 0x1000, 0x5000), "a hole");
        assert!(!covers(maps, 0x5000, 0x6000), "shared");
        assert!(!covers(maps, 0x6000, 0x7000), "read-only");
        assert!(
            covers("1000-2000 rw-p 0\n2000-3000 rw-s 0\n", 0x1000, 0x2000),
            "what is behind it does not matter"
        );
        assert!(!covers("nonsense\n", 0, 1));
    }
}
