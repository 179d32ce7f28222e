//! The x86 instructions after which a virtual address may map to another page. These are the
//! instructions that the architecture defines to invalidate cached page-table entries, and those
//! that a system may use to switch tasks or modes.

/// Maximum length of an instruction, in bytes.
pub(crate) const LONGEST: usize = 15;

/// Effect of an instruction on the mapping of virtual addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// No effect.
    None,
    /// May change the mapping.
    Changes,
    /// Starts a nested virtual machine. Its exit changes the mapping, and is not an instruction.
    Nests,
}

/// Returns the effect of an instruction. May return false positives.
pub(crate) fn effect(instruction: &[u8]) -> Effect {
    let is_prefix = |byte: &u8| {
        // Segment, size, lock and repeat prefixes, and in 64-bit code the register extensions. In
        // other code the latter are one-byte instructions, with nothing behind them.
        matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3 | 0x40..=0x4f)
    };
    let start = instruction.iter().take_while(|byte| is_prefix(byte)).count();
    let Some((&opcode, rest)) = instruction[start..].split_first() else { return Effect::None };
    let second = rest.first().copied().unwrap_or(0);
    let third = rest.get(1).copied().unwrap_or(0);
    let changes = match opcode {
        // VMLAUNCH, VMRESUME; VMRUN.
        0x0f if second == 0x01 && matches!(third, 0xc2 | 0xc3 | 0xd8) => return Effect::Nests,
        0x0f => second_opcode(second, third),
        // Far jumps, calls and returns, and returns from interrupts.
        0x9a | 0xca | 0xcb | 0xcf | 0xea => true,
        0xff => matches!(second >> 3 & 7, 3 | 5) && second < 0xc0,
        _ => false,
    };
    if changes { Effect::Changes } else { Effect::None }
}

/// Returns whether an instruction that begins with 0x0f changes the mapping, given its second and
/// third byte.
fn second_opcode(opcode: u8, third: u8) -> bool {
    match opcode {
        // LMSW; INVLPG, which has a memory operand; virtualization instructions. Not SWAPGS and
        // similar ones, which are in each system call.
        0x01 => match third >> 3 & 7 {
            6 => true,
            7 => third < 0xc0,
            _ => matches!(third, 0xc0..=0xc7 | 0xd8..=0xdf),
        },
        // Moves to control registers.
        0x22 => true,
        // WRMSR; RSM.
        0x30 | 0xaa => true,
        // INVEPT, INVVPID, INVPCID.
        0x38 => matches!(third, 0x80..=0x83),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalidations_are_detected() {
        for (name, bytes) in [
            ("mov cr3, rax", &[0x0f, 0x22, 0xd8][..]),
            ("mov cr8, r15", &[0x45, 0x0f, 0x22, 0xc7]),
            ("invlpg [rax]", &[0x0f, 0x01, 0x38]),
            ("invlpg [rsp+8]", &[0x0f, 0x01, 0x7c, 0x24, 0x08]),
            ("invpcid rax, [rcx]", &[0x66, 0x0f, 0x38, 0x82, 0x01]),
            ("wrmsr", &[0x0f, 0x30]),
            ("rsm", &[0x0f, 0xaa]),
            ("iretq", &[0x48, 0xcf]),
            ("retfq", &[0x48, 0xcb]),
            ("jmp far [rax]", &[0x48, 0xff, 0x28]),
            ("call far [rax]", &[0xff, 0x18]),
            ("vmload", &[0x0f, 0x01, 0xda]),
            ("lmsw [rax]", &[0x0f, 0x01, 0x30]),
            ("lmsw ax", &[0x0f, 0x01, 0xf0]),
        ] {
            assert_eq!(effect(bytes), Effect::Changes, "{name}");
        }
    }

    #[test]
    fn nested_machines_are_detected() {
        for third in [0xc2, 0xc3, 0xd8] {
            assert_eq!(effect(&[0x0f, 0x01, third]), Effect::Nests);
        }
    }

    #[test]
    fn other_instructions_have_no_effect() {
        for (name, bytes) in [
            ("mov [rax], rbx", &[0x48, 0x89, 0x18][..]),
            ("swapgs", &[0x0f, 0x01, 0xf8]),
            ("sysret", &[0x48, 0x0f, 0x07]),
            ("call rax", &[0xff, 0xd0]),
            ("jmp [rax]", &[0xff, 0x20]),
            ("push [rax]", &[0xff, 0x30]),
            ("mov rax, cr3", &[0x0f, 0x20, 0xd8]),
            ("inc eax, in 32-bit code", &[0x40]),
            ("nothing", &[]),
        ] {
            assert_eq!(effect(bytes), Effect::None, "{name}");
        }
    }
}
