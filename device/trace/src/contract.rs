//! The names of the contract between card and guest: registers, commands, statuses, structures.
//!
//! They come from the sources of `hamlyn-abi` when this crate is built. A card is known by the
//! prefix of its names, `CLAN`, and has the family's names, `ULN`, as well.

/// A constant of the contract.
#[derive(Debug)]
pub struct Constant {
    /// Its name: `ULN_REG_COMMAND_GO`.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// For a register: whether it has 8 bytes.
    wide: bool,
    /// For a command: the structure in its body, by its name in C.
    body: Option<&'static str>,
}

/// A structure of the contract.
#[derive(Debug)]
pub struct Structure {
    /// Its name in C.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    members: &'static [Member],
}

/// A field of a structure.
#[derive(Debug)]
struct Member {
    name: &'static str,
    offset: usize,
    /// Bytes of one element.
    bytes: usize,
    /// Number of elements.
    count: usize,
    /// The structure that it is, if it is not a number.
    inner: Option<&'static str>,
}

include!(concat!(env!("OUT_DIR"), "/contract.rs"));

/// The names that one model has.
#[derive(Debug, Clone)]
pub struct Contract {
    /// Prefixes of the model's own names and of the family's.
    prefixes: [String; 2],
}

impl Contract {
    /// Returns the contract of a model, by its name on the command line.
    #[must_use]
    pub fn of(model: &str) -> Self {
        Contract { prefixes: [model.to_uppercase(), "ULN".into()] }
    }

    /// Returns the constant of a group (`REG`, `COMMAND`, `STATUS`) with this value.
    #[must_use]
    pub fn find(&self, group: &str, value: u64) -> Option<&'static Constant> {
        self.group(group).find(|constant| constant.value == value)
    }

    /// Returns all constants of a group, the model's own first.
    fn group(&self, group: &str) -> impl Iterator<Item = &'static Constant> {
        let starts = self.prefixes.clone().map(|prefix| format!("{prefix}_{group}_"));
        starts
            .into_iter()
            .flat_map(|start| CONSTANTS.iter().filter(move |constant| constant.name.starts_with(&start)))
    }

    /// Returns the value of the constant of a group with this name, which may be short:
    /// `COMMAND_GO` for `ULN_REG_COMMAND_GO`.
    #[must_use]
    pub fn named(&self, group: &str, name: &str) -> Option<u64> {
        let short = |constant: &&Constant| short_name(constant, group) == name;
        self.group(group).find(|constant| constant.name == name || short(constant)).map(|found| found.value)
    }

    /// Returns the short names of a group, for an error.
    #[must_use]
    pub fn names(&self, group: &str) -> String {
        let mut known: Vec<_> = self.group(group).collect();
        known.sort_by_key(|constant| constant.value);
        let known: Vec<_> = known.into_iter().map(|constant| short_name(constant, group)).collect();
        known.join(", ")
    }

    /// Returns the register at an offset of BAR 0, and the part of it that the offset names: 4 for
    /// the upper half of a register of 8 bytes.
    #[must_use]
    pub fn register(&self, offset: u64) -> Option<(&'static str, u64)> {
        if let Some(register) = self.find("REG", offset) {
            return Some((register.name, 0));
        }
        let wide = self.find("REG", offset.checked_sub(4)?).filter(|register| register.wide)?;
        Some((wide.name, 4))
    }

    /// Returns the names of a register's value: `ULN_CONTROL_ENABLE` for 1 in `ULN_REG_CONTROL`.
    /// They are those of the constants whose names begin like the register's, without `REG`.
    #[must_use]
    pub fn value_names(&self, register: &str, value: u64) -> Option<String> {
        let (prefix, group) = register.split_once("_REG_")?;
        let start = format!("{prefix}_{group}_");
        let known = || CONSTANTS.iter().filter(|constant| constant.name.starts_with(&start));
        // The names of other registers may begin with this one's.
        let bits = known().filter(|constant| constant.value.is_power_of_two() && constant.value & value != 0);
        let (mut names, mut named) = (Vec::new(), 0);
        for constant in bits {
            names.push(constant.name);
            named |= constant.value;
        }
        (value != 0 && named == value).then(|| names.join(" | "))
    }

    /// Returns the word of a part that has this offset, by the part's name: `TAIL` in
    /// `HAMLYN_WINDOW`, and the distance from it. Only the last word of a part may be far away.
    #[must_use]
    pub fn word(&self, part: &str, offset: u64, size: u64) -> Option<(&'static str, u64)> {
        let start = format!("{part}_");
        let words = CONSTANTS.iter().filter(|constant| constant.name.starts_with(&start));
        let is_place = |word: &&Constant| !word.name.ends_with("_SHIFT") && word.value < size;
        let near = words.filter(is_place).filter(|word| word.value <= offset);
        let word = near.max_by_key(|word| word.value)?;
        Some((&word.name[start.len()..], offset - word.value))
    }

    /// Returns the structure in the body of a command.
    #[must_use]
    pub fn body(&self, command: &Constant) -> Option<&'static Structure> {
        structure(command.body?)
    }
}

/// Returns the name of a constant behind its group.
fn short_name(constant: &Constant, group: &str) -> &'static str {
    constant.name.split_once(&format!("_{group}_")).map_or("", |(_, name)| name)
}

/// Returns the value of a constant.
#[must_use]
pub fn value_of(name: &str) -> Option<u64> {
    CONSTANTS.iter().find(|constant| constant.name == name).map(|constant| constant.value)
}

/// Returns a structure by its name in C.
#[must_use]
pub fn structure(name: &str) -> Option<&'static Structure> {
    STRUCTURES.iter().find(|structure| structure.name == name)
}

impl Structure {
    /// Returns the fields of a structure with their values, without those that are reserved. What
    /// lies behind `bytes` is left out. Fields of a structure within it are `area.pages`.
    #[must_use]
    pub fn read(&self, bytes: &[u8]) -> Vec<(String, u64)> {
        let mut fields = Vec::new();
        self.read_into("", bytes, &mut fields);
        fields
    }

    fn read_into(&self, outer: &str, bytes: &[u8], fields: &mut Vec<(String, u64)>) {
        for member in self.members.iter().filter(|member| !member.name.starts_with("reserved")) {
            for index in 0..member.count {
                let start = member.offset + index * member.bytes;
                let Some(rest) = bytes.get(start..) else { return };
                let place = if member.count > 1 { format!("[{index}]") } else { String::new() };
                let name = format!("{outer}{}{place}", member.name);
                match (member.inner.and_then(structure), rest.get(..member.bytes)) {
                    (Some(inner), _) => inner.read_into(&format!("{name}."), rest, fields),
                    (None, Some(bytes)) => fields.push((name, little_endian(bytes))),
                    (None, None) => return,
                }
            }
        }
    }
}

/// Returns the number in up to 8 bytes.
#[must_use]
pub fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_the_names_of_both_parts() {
        let clan = Contract::of("clan");
        assert_eq!(clan.register(0x048), Some(("ULN_REG_COMMAND_GO", 0)));
        assert_eq!(clan.register(0x100), Some(("CLAN_REG_APERTURES", 0)));
        assert_eq!(clan.register(0x044), Some(("ULN_REG_COMMAND_PAGE", 4)));
        assert_eq!(clan.register(0x024), None, "the register before it has 4 bytes");
        assert_eq!(Contract::of("none").register(0x100), None);
    }

    #[test]
    fn register_value_is_named_by_bits() {
        let clan = Contract::of("clan");
        let names = |register, value| clan.value_names(register, value);
        assert_eq!(names("ULN_REG_CONTROL", 1).as_deref(), Some("ULN_CONTROL_ENABLE"));
        assert_eq!(names("CLAN_REG_JOIN", 3).as_deref(), Some("CLAN_JOIN_LEAVING | CLAN_JOIN_ARRIVING"));
        assert_eq!(names("CLAN_REG_JOIN", 0x13), None, "0x10 has no name");
    }

    #[test]
    fn command_body_is_read_by_fields() {
        let clan = Contract::of("clan");
        let command = clan.find("COMMAND", 11).unwrap();
        assert_eq!(command.name, "CLAN_COMMAND_OPEN_FIFO");
        let body = clan.body(command).unwrap();
        let mut bytes = vec![0; body.size];
        let records = body.members.iter().find(|member| member.name == "records").unwrap();
        bytes[records.offset] = 64;
        let fields = body.read(&bytes);
        assert!(fields.contains(&("records".into(), 64)), "{fields:?}");
        assert!(fields.iter().any(|(name, _)| name == "area.length"), "{fields:?}");
        assert!(fields.iter().all(|(name, _)| name != "reserved"));
        assert_eq!(body.read(&bytes[..records.offset]).len() + 1, fields.len(), "the end is cut off");
    }

    #[test]
    fn word_of_a_page_is_the_nearest_before() {
        let hamlyn = Contract::of("hamlyn");
        let word = |offset| hamlyn.word("HAMLYN_WINDOW", offset, 65_536);
        assert_eq!((word(0), word(0x40)), (Some(("TAIL", 0)), Some(("AWAKE", 0))));
        assert_eq!(word(0x8210), Some(("WORK_QUEUE", 0x210)));
        assert_eq!(hamlyn.word("HAMLYN_DOORBELL", 8, 4096), None);
    }
}
