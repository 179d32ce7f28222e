//! Marks around code whose instructions are to be counted: breakpoints, for who steps through a
//! program (`c-count`).
//!
//! A program that nobody traces ends at one. So they are for programs that are made to be counted,
//! and nothing is left of them in others.

/// Behind the breakpoint: an instruction that does nothing, whose displacement says what the mark
/// is.
macro_rules! mark {
    ($kind:literal, $number:ident) => {{
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a breakpoint changes nothing, and what is behind it does nothing.
        unsafe {
            std::arch::asm!(
                "int3",
                "nop dword ptr [rax + {mark}]",
                mark = const $kind + $number as i32,
                options(nostack)
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = ($kind, $number);
    }};
}

/// Before the code of this number.
#[inline(always)]
pub fn begin<const NUMBER: u8>() {
    mark!(0x4d41_0000, NUMBER);
}

/// Behind it.
#[inline(always)]
pub fn end<const NUMBER: u8>() {
    mark!(0x4d41_0100, NUMBER);
}
