//! Messages that are made of arbitrary plain numbers.

/// The main operation of a CALL.
pub const CALL: u32 = 6;

const EDGES: [u64; 10] = [0, 1, 63, 64, 65, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];

// Everything is made of plain numbers, by functions, because trees of strategies took most of the
// time.

/// Returns an operand or a register: at the edges, small so that two are often equal, or any.
pub fn number(any: u64) -> u64 {
    match any % 3 {
        0 => EDGES[(any >> 8) as usize % EDGES.len()],
        1 => (any >> 8) % 8,
        _ => any,
    }
}

/// Returns an index, mostly of few registers, so that two are often the same.
pub fn index(any: u8) -> u8 {
    match any % 8 {
        0 => any,
        1 | 2 => any / 8 % 9,
        _ => any / 8 % 3,
    }
}

/// Returns a register operation that is implemented, or none.
fn operation(any: u32) -> u32 {
    match any & 15 {
        0 => 0,
        4 | 5 => any & 0x4f,
        _ => any & 0x7f,
    }
}

/// Returns a comparison with its sides and what follows, or none.
fn comparison(any: u32) -> u32 {
    match any >> 24 & 7 {
        0 => 0,
        7 => any & 0x4700_0000,
        _ => any & 0x7f00_0000,
    }
}

/// Returns an opcode that is executed, field by field: neither CALL nor EXCEPTION.
pub fn opcode(any: u32) -> u32 {
    let main = (any & 7) % CALL;
    let addressing = (any >> 3 & 3) % 3;
    let place = if main == 0 || main == 5 { 0 } else { addressing << 3 | any & 0x60 };
    main | place | operation(any >> 8) << 8 | operation(any >> 16) << 16 | comparison(any)
}
