//! Marks around code whose instructions are counted: breakpoints for a tracer that single-steps the
//! program (`c-count`).
//!
//! A program that is not traced dies at a mark. So marks are only for programs that are built to be
//! counted, and are not compiled into others.

/// A breakpoint, followed by a no-op whose displacement encodes the mark.
macro_rules! mark {
    ($kind:literal, $number:ident) => {{
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a breakpoint changes nothing, and the instruction after it does nothing.
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

/// Marks the start of the code with this number.
#[inline(always)]
pub fn begin<const NUMBER: u8>() {
    mark!(0x4d41_0000, NUMBER);
}

/// Marks the end of the code with this number.
#[inline(always)]
pub fn end<const NUMBER: u8>() {
    mark!(0x4d41_0100, NUMBER);
}
