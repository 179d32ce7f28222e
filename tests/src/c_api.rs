//! The header of the C library, made from the sources of `hamlyn-c`.

use std::path::Path;

use cbindgen::{Builder, Config, DocumentationStyle, Language, SortKey, Style};

/// The header's place, from `tests/`.
pub const HEADER: &str = "../guest-lib/c/include/hamlyn.h";

/// The files with what C can call, in the header's order. The rest is inner.
pub const PARTS: [&str; 12] = [
    "call.rs",
    "card.rs",
    "ticket.rs",
    "manager.rs",
    "tagged.rs",
    "datagram.rs",
    "stream.rs",
    "area.rs",
    "slot.rs",
    "terminus.rs",
    "stream_pair.rs",
    "connection.rs",
];

/// What the header begins with.
const TITLE: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hamlyn: messages by a virtual user-level network card, between processes of different virtual machines.
 *
 * Made from guest-lib/c by cargo run -p hamlyn-tests --bin headers: do not edit.
 *
 * A call returns 0 or more, or a negative errno; hamlyn_error() says why the last one failed in this thread. A call that
 * fails changes nothing, unless it says what it leaves. What it gives is stored by its last pointers. No pointer may be
 * NULL unless it says so.
 *
 * timeout_ms is as for poll(2), in every call that has it: milliseconds, 0 to look without waiting (-EAGAIN if it would have
 * to), negative to wait for ever; -ETIMEDOUT if the time is over.
 */";

/// Makes the header from the sources (the crate's `src` folder).
///
/// # Errors
/// Something that C cannot carry.
pub fn header(source: &Path) -> Result<String, cbindgen::Error> {
    let config = Config {
        language: Language::C,
        style: Style::Tag,
        header: Some(TITLE.to_owned()),
        include_guard: Some("HAMLYN_H".to_owned()),
        no_includes: true,
        sys_includes: ["stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        cpp_compat: true,
        documentation: true,
        documentation_style: DocumentationStyle::Doxy,
        usize_is_size_t: true,
        line_length: 110,
        sort_by: SortKey::None,
        ..Config::default()
    };
    let sources = PARTS.iter().fold(Builder::new(), |sources, part| sources.with_src(source.join(part)));
    let mut text = Vec::new();
    sources.with_config(config).generate()?.write(&mut text);
    Ok(String::from_utf8_lossy(&text).into_owned())
}
