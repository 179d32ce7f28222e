//! The C library as a C compiler sees it: its headers, its layouts, its symbols, and what it
//! refuses.

mod channels;
mod compiling;
mod headers;
mod layouts;
mod programs;
mod refusals;
