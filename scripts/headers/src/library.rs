//! Generates the headers of the C library from the sources of `hamlyn-c`.

use std::fs;
use std::path::{Path, PathBuf};

use cbindgen::{Builder, Config, DocumentationStyle, ExportConfig, Language, SortKey, Style};

use crate::exported;

/// A header of the C library.
pub struct Header {
    /// Path in the folder of headers.
    pub name: &'static str,
    /// The source files below `src` with the exported functions, in the header's order.
    pub parts: &'static [&'static str],
    /// The comment at its start.
    title: &'static str,
    /// Headers that it includes.
    includes: &'static [&'static str],
    /// Structures of another header, which get their `struct` tag here.
    others: &'static [&'static str],
}

/// All headers: of channels by any card, of Hamlyn cards and what all cards have in common, of each
/// other model, and of express memory.
pub const HEADERS: [Header; 8] = [
    Header {
        name: "hamlyn/channel.h",
        parts: &[
            "call.rs",
            "polling.rs",
            "channel/card.rs",
            "channel/open.rs",
            "channel/sender.rs",
            "channel/receiver.rs",
        ],
        title: CHANNEL,
        includes: &[],
        others: &[],
    },
    Header {
        name: "hamlyn.h",
        parts: &[
            "card.rs",
            "ticket.rs",
            "manager.rs",
            "tagged.rs",
            "datagram.rs",
            "stream.rs",
            "area.rs",
            "slot.rs",
            "end_point.rs",
            "terminus.rs",
            "handle.rs",
            "stream_pair.rs",
            "names.rs",
            "connection.rs",
        ],
        title: HAMLYN,
        includes: &["hamlyn/channel.h"],
        others: &[],
    },
    Header {
        name: "shrimp.h",
        parts: &[
            "shrimp/card.rs",
            "shrimp/handle.rs",
            "shrimp/receive_buffer.rs",
            "shrimp/send_buffer.rs",
            "shrimp/deliberate.rs",
            "shrimp/names.rs",
        ],
        title: SHRIMP,
        includes: &["hamlyn.h"],
        others: &["uln_connecting", "uln_connection", "uln_found", "uln_name_listener"],
    },
    Header {
        name: "clan.h",
        parts: &[
            "clan/card.rs",
            "clan/rights.rs",
            "clan/descriptor.rs",
            "clan/aperture.rs",
            "clan/endpoint.rs",
            "clan/message.rs",
            "clan/window.rs",
            "clan/tripwire.rs",
            "clan/tripset.rs",
            "clan/dma.rs",
            "clan/connection.rs",
            "clan/events.rs",
            "clan/cache.rs",
            "clan/names.rs",
        ],
        title: CLAN,
        includes: &["hamlyn.h"],
        others: &["uln_connecting", "uln_connection", "uln_found", "uln_name_listener"],
    },
    Header {
        name: "clan_programs.h",
        parts: &[
            "clan/programs/end.rs",
            "clan/programs/transfer.rs",
            "clan/programs/rpc.rs",
            "clan/programs/queue.rs",
            "clan/programs/stream.rs",
            "clan/programs/headed.rs",
        ],
        title: CLAN_PROGRAMS,
        includes: &["clan.h"],
        others: &[
            "clan_address",
            "clan_aperture",
            "clan_card",
            "clan_endpoint",
            "clan_events",
            "clan_peer",
            "clan_peer_end",
            "clan_request",
        ],
    },
    Header {
        name: "dart.h",
        parts: &[
            "dart/card.rs",
            "dart/endpoint.rs",
            "dart/bank.rs",
            "dart/operation.rs",
            "dart/trap.rs",
            "dart/queue.rs",
            "dart/address.rs",
            "dart/connection.rs",
            "dart/status.rs",
            "dart/names.rs",
        ],
        title: DART,
        includes: &["hamlyn.h"],
        others: &["uln_connecting", "uln_connection", "uln_found", "uln_name_listener", "uln_request"],
    },
    Header {
        name: "dart_programs.h",
        parts: &[
            "dart/programs/caller.rs",
            "dart/programs/lock.rs",
            "dart/programs/log.rs",
            "dart/programs/producer.rs",
            "dart/programs/priority.rs",
            "dart/programs/barrier.rs",
            "dart/programs/rpc.rs",
        ],
        title: DART_PROGRAMS,
        includes: &["dart.h"],
        others: &["dart_connection", "dart_endpoint", "dart_operation", "dart_queue"],
    },
    Header {
        name: "express.h",
        parts: &["express.rs"],
        title: EXPRESS,
        includes: &["hamlyn.h"],
        others: &["hamlyn_card"],
    },
];

const CHANNEL: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Channels: complete, ordered messages between two processes of different virtual machines, the
 * same over any card and over express memory. The library's module hamlyn::channel uses
 * the same protocol, so each end may be a program in C or in Rust.
 *
 * Generated from guest-lib/c/src by scripts/headers: do not edit.
 *
 * A call returns 0 or more on success, or a negative errno; uln_error() returns the text of this
 * thread's last error. A failed call changes nothing, unless its description states what it leaves.
 * Results are stored through the last pointers before timeout_ms. Pointers must not be NULL unless
 * stated.
 *
 * timeout_ms is as for poll(2) in every call: milliseconds; 0 does not wait (-EAGAIN if the call
 * would have to); a negative value waits without a limit. -ETIMEDOUT means that the time is over.
 */";

const HAMLYN: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hamlyn cards: messages between processes of different virtual machines, by a virtual user-level
 * network card. Also what the cards of all models have in common.
 *
 * Generated from guest-lib/c/src by scripts/headers: do not edit.
 *
 * A call returns 0 or more on success, or a negative errno; uln_error() returns the text of this
 * thread's last error. A failed call changes nothing, unless its description states what it leaves.
 * Results are stored through the last pointers. Pointers must not be NULL unless stated.
 *
 * timeout_ms is as for poll(2) in every call: milliseconds; 0 does not wait (-EAGAIN if the call
 * would have to); a negative value waits without a limit. -ETIMEDOUT means that the time is over.
 */";

const SHRIMP: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SHRIMP cards: stores of a process to its own memory are sent to memory of a process in another
 * virtual machine.
 *
 * Generated from guest-lib/c/src by scripts/headers: do not edit.
 *
 * Calls return the same values as those of hamlyn.h, which also describes uln_error(),
 * timeout_ms and connections by name.
 */";

const CLAN: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CLAN cards: windows map memory of other hosts, and Tripwires fire when a local or a remote access
 * touches a location.
 *
 * Generated from guest-lib/c/src by scripts/headers: do not edit.
 *
 * Calls return the same values as those of hamlyn.h, which also describes uln_error(),
 * timeout_ms and connections by name. Sections are those of the paper, \"Tripwire: a
 * synchronisation primitive for virtual memory mapped communication\".
 */";

const CLAN_PROGRAMS: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The programs of section 4 of the CLAN paper: message transfer, remote procedure calls,
 * distributed queues, and what is built on them. The memory layout is that of the library's module
 * hamlyn::clan::programs, so each end may be a program in C or in Rust.
 *
 * Generated from guest-lib/c/src by scripts/headers: do not edit.
 *
 * Calls return the same values as those of hamlyn.h. A call that has to wait uses the end's
 * timeout_ms. The peer is not trusted: an impossible length or index gives -EINVAL, and a lost peer
 * -ECONNRESET or -EHOSTDOWN.
 */";

const DART: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * DART cards: messages carry operations on the memory and the registers of another host, which its
 * card executes.
 *
 * Generated from guest-lib/c/src by scripts/headers: do not edit.
 *
 * Calls return the same values as those of hamlyn.h, which also describes uln_error(),
 * timeout_ms and connections by name. Sections are those of the paper, \"A Hybrid Deposit Model for
 * Low Overhead Communication in High Speed LANs\".
 */";

const DART_PROGRAMS: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Compound operations of DART cards: several hosts work on one host's registers and memory without
 * software of that host. They are those of the library's module hamlyn::dart::programs, so each end
 * may be a program in C or in Rust.
 *
 * Generated from guest-lib/c/src by scripts/headers: do not edit.
 *
 * Calls return the same values as those of hamlyn.h. Registers are numbers in the window of their
 * owner's end.
 */";

const EXPRESS: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Express memory: two processes of two hosts with Hamlyn cards share pages, and access them by
 * loads and stores alone. Channels of hamlyn/channel.h carry messages in such pages by themselves.
 *
 * Generated from guest-lib/c/src by scripts/headers: do not edit.
 *
 * Calls return the same values as those of hamlyn.h, which also describes uln_error(). The peer is
 * not trusted: it can change what is shared at any moment.
 */";

/// The folder of the library's sources.
#[must_use]
pub fn source_folder() -> PathBuf {
    crate::repository().join("guest-lib/c/src")
}

/// The headers that are written by hand, in `guest-lib/c/include`.
pub const BY_HAND: [&str; 1] = ["shrimp_primitives.h"];

/// Writes all headers to a folder: the generated ones, and those that are written by hand.
///
/// # Errors
/// Fails if C cannot express something in the sources, or if a file cannot be read or written.
pub fn write(folder: &Path) -> Result<(), String> {
    let failed = |path: &Path| format!("{}: ", path.display());
    for header in &HEADERS {
        let text = header.text().map_err(|error| format!("{}: {error}", header.name))?;
        let path = folder.join(header.name);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        written.map_err(|error| failed(&path) + &error.to_string())?;
    }
    for name in BY_HAND {
        let path = crate::repository().join("guest-lib/c/include").join(name);
        fs::copy(&path, folder.join(name)).map_err(|error| failed(&path) + &error.to_string())?;
    }
    Ok(())
}

impl Header {
    /// Makes the header from the sources.
    ///
    /// # Errors
    /// Something that C cannot carry, or a file that cannot be read or written.
    pub fn text(&self) -> Result<String, String> {
        let tagged = self.others.iter().map(|name| ((*name).to_owned(), format!("struct {name}")));
        let config = Config {
            language: Language::C,
            style: Style::Tag,
            header: Some(self.title.to_owned()),
            include_guard: Some(self.name.to_uppercase().replace(['.', '/'], "_")),
            no_includes: true,
            sys_includes: ["stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
            includes: self.includes.iter().map(|name| (*name).to_owned()).collect(),
            export: ExportConfig { rename: tagged.collect(), ..ExportConfig::default() },
            cpp_compat: true,
            documentation: true,
            documentation_style: DocumentationStyle::Doxy,
            usize_is_size_t: true,
            line_length: 100,
            sort_by: SortKey::None,
            ..Config::default()
        };
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut sources = Builder::new().with_config(config);
        for part in self.parts {
            let expanded = folder.path().join(part.replace('/', "-"));
            fs::write(&expanded, source(part)?).map_err(|error| format!("{part}: {error}"))?;
            sources = sources.with_src(expanded);
        }
        let mut text = Vec::new();
        sources.generate().map_err(|error| error.to_string())?.write(&mut text);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Returns the code of a source file below `src`, with the functions that its macros declare.
///
/// # Errors
/// Fails if the file cannot be read or is not valid.
pub fn source(file: impl AsRef<Path>) -> Result<String, String> {
    let file = source_folder().join(file);
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    exported::expand(&text).map_err(|error| format!("{}: {error}", file.display()))
}
