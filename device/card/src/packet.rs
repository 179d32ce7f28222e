//! Descriptions of packet headers, for traces and captures.

/// A field of the header that a card's packets begin with, behind the fabric's own header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketField {
    /// Its name.
    pub name: &'static str,
    /// Offset in the header, in bytes.
    pub offset: usize,
    /// Size in bytes, at most 8. Numbers are little-endian.
    pub bytes: usize,
    /// Names of its values.
    pub names: FieldNames,
}

/// What the values of a field are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldNames {
    /// The field is a number.
    None,
    /// Each of these values has a name.
    Values(&'static [(u64, &'static str)]),
    /// Each of these bits has a name.
    Bits(&'static [(u64, &'static str)]),
}

impl PacketField {
    /// Returns the field with names for its values.
    #[must_use]
    pub const fn named(self, names: FieldNames) -> Self {
        Self { names, ..self }
    }

    /// Returns the field's value in a packet, or `None` if the packet ends before it.
    #[must_use]
    pub fn read(&self, packet: &[u8]) -> Option<u64> {
        let bytes = packet.get(self.offset..self.offset + self.bytes)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Returns the name of a value.
    #[must_use]
    pub fn name_of(&self, value: u64) -> Option<String> {
        match self.names {
            FieldNames::None => None,
            FieldNames::Values(names) => {
                names.iter().find(|(known, _)| *known == value).map(|(_, name)| (*name).to_owned())
            }
            FieldNames::Bits(names) => {
                let set = names.iter().filter(|(bit, _)| value & bit != 0);
                let all = set.clone().fold(0, |all, (bit, _)| all | bit);
                let set: Vec<&str> = set.map(|(_, name)| *name).collect();
                (value != 0 && all == value).then(|| set.join(" | "))
            }
        }
    }
}

/// Describes fields of a header's type: `packet_field!(Header, kind)`.
#[macro_export]
macro_rules! packet_field {
    ($header:ty, $field:ident) => {
        $crate::packet::PacketField {
            name: stringify!($field),
            offset: ::core::mem::offset_of!($header, $field),
            bytes: $crate::packet::size_of_field(|header: &$header| &header.$field),
            names: $crate::packet::FieldNames::None,
        }
    };
}

#[doc(hidden)]
pub const fn size_of_field<H, F>(_: fn(&H) -> &F) -> usize {
    size_of::<F>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Header {
        kind: u8,
        flags: u8,
        length: [u8; 4],
    }

    const KIND: PacketField = packet_field!(Header, kind).named(FieldNames::Values(&[(2, "READ")]));
    const FLAGS: PacketField =
        packet_field!(Header, flags).named(FieldNames::Bits(&[(1, "SILENT"), (4, "LAST")]));

    #[test]
    fn fields_are_where_the_header_has_them() {
        let length = packet_field!(Header, length);
        assert_eq!((length.offset, length.bytes, FLAGS.offset, FLAGS.bytes), (2, 4, 1, 1));
        assert_eq!(length.read(&[0, 0, 1, 2, 0, 0]), Some(0x201));
        assert_eq!(length.read(&[0, 0, 1, 2, 0]), None);
    }

    #[test]
    fn values_and_bits_have_names() {
        assert_eq!((KIND.name_of(2).as_deref(), KIND.name_of(3)), (Some("READ"), None));
        assert_eq!(FLAGS.name_of(5).as_deref(), Some("SILENT | LAST"));
        assert_eq!((FLAGS.name_of(0), FLAGS.name_of(3)), (None, None));
    }
}
