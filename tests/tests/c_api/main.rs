//! The C library from a C compiler's view: its headers, its layouts, its symbols, and the calls
//! that it refuses.

mod channels;
mod compiling;
mod headers;
mod layouts;
mod programs;
mod refusals;
