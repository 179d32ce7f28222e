//! Section 3: the library for C. Its pages are made from its headers, a page for each group of
//! functions.

use std::fs;
use std::io;
use std::path::Path;

use clap_mangen::roff::{Roff, bold, roman};
use hamlyn_headers::library::{HEADERS, source_folder};

use super::{Page, lines, to_text};

/// A group: the file or folder that has the functions, the page's name, and what the page is about.
type Group = (&'static str, &'static str, &'static str);

/// The groups of each header.
const GROUPS: [&[Group]; HEADERS.len()] =
    [CHANNEL, HAMLYN, SHRIMP, CLAN, CLAN_PROGRAMS, DART, DART_PROGRAMS, EXPRESS];

const CHANNEL: &[Group] = &[
    ("call.rs", "uln_errors", "why a call failed"),
    ("channel", "uln_channel", "messages between two processes, by any card"),
];

const HAMLYN: &[Group] = &[
    ("card.rs", "hamlyn_cards", "open a card and ask what it is"),
    ("ticket.rs", "hamlyn_tickets", "tickets and seeds as text"),
    ("manager.rs", "hamlyn_managers", "send from a terminus, wait for what arrives"),
    ("tagged.rs", "hamlyn_tagged", "tagged remote writes"),
    ("datagram.rs", "hamlyn_datagrams", "single messages and their replies"),
    ("stream.rs", "hamlyn_streams", "bytes in order"),
    ("area.rs", "hamlyn_areas", "memory of your own, to send from and to receive into"),
    ("slot.rs", "hamlyn_slots", "the lower layer: slots and queues, what arrives where"),
    ("end_point.rs", "hamlyn_end_points", "receivers of your own"),
    ("terminus.rs", "hamlyn_termini", "the lower layer: termini, what is sent, groups and barriers"),
    ("handle.rs", "hamlyn_handles", "the lower layer: what becomes of each request"),
    ("stream_pair.rs", "hamlyn_stream_names", "streams by name"),
    ("names.rs", "hamlyn_names", "find a process by name"),
    ("connection.rs", "uln_connections", "connections with processes that were found by name, and their end"),
];

const SHRIMP: &[Group] = &[
    ("shrimp/card.rs", "shrimp_cards", "open a SHRIMP card and ask what it is"),
    ("shrimp/handle.rs", "shrimp_handles", "handles of receive buffers as text"),
    ("shrimp/receive_buffer.rs", "shrimp_receive_buffers", "memory that others store to"),
    ("shrimp/send_buffer.rs", "shrimp_send_buffers", "memory whose stores travel, and memory that is shared"),
    ("shrimp/deliberate.rs", "shrimp_deliberate", "deliberate updates"),
    ("shrimp/names.rs", "shrimp_names", "find a process by name"),
];

const CLAN: &[Group] = &[
    ("clan/card.rs", "clan_cards", "open a CLAN card and ask what it is"),
    ("clan/descriptor.rs", "clan_descriptors", "descriptors of apertures as text"),
    ("clan/aperture.rs", "clan_apertures", "memory that others reach"),
    ("clan/endpoint.rs", "clan_endpoints", "endpoints, and their faults"),
    ("clan/message.rs", "clan_messages", "out-of-band messages"),
    ("clan/window.rs", "clan_windows", "memory of other hosts, mapped"),
    ("clan/tripwire.rs", "clan_tripwires", "be told of an access to memory"),
    ("clan/tripset.rs", "clan_tripsets", "several Tripwires, any of which ends a wait"),
    ("clan/dma.rs", "clan_dma", "DMA requests"),
    ("clan/connection.rs", "clan_connections", "connections of endpoints"),
    ("clan/events.rs", "clan_events", "what happens to any number of endpoints, in one queue"),
    ("clan/cache.rs", "clan_caches", "endpoints that are used again"),
    ("clan/names.rs", "clan_names", "find a process by name"),
];

const CLAN_PROGRAMS: &[Group] = &[
    ("clan/programs/end.rs", "clan_ends", "what programs of CLAN cards stand on"),
    ("clan/programs/transfer.rs", "clan_transfer", "messages, one at a time"),
    ("clan/programs/rpc.rs", "clan_rpc", "remote procedure calls"),
    ("clan/programs/queue.rs", "clan_queues", "messages that do not wait for each other"),
    ("clan/programs/stream.rs", "clan_streams", "bytes in order"),
    ("clan/programs/headed.rs", "clan_headed", "messages whose header goes before the body"),
];

const DART: &[Group] = &[
    ("dart/card.rs", "dart_cards", "open a DART card and ask what it is"),
    ("dart/endpoint.rs", "dart_endpoints", "memory that messages reach"),
    ("dart/bank.rs", "dart_banks", "address registers and programs"),
    ("dart/operation.rs", "dart_operations", "what a message does"),
    ("dart/queue.rs", "dart_queues", "what messages tell"),
    ("dart/address.rs", "dart_addresses", "addresses of connections as text"),
    ("dart/connection.rs", "dart_connections", "connections, and what is sent by them"),
    ("dart/status.rs", "dart_status", "what becomes of messages and connections"),
    ("dart/names.rs", "dart_names", "find a process by name, and connect with it"),
];

const DART_PROGRAMS: &[Group] = &[
    (
        "dart/programs/caller.rs",
        "dart_callers",
        "fetch and increment, compare and swap, reads of scattered blocks",
    ),
    ("dart/programs/lock.rs", "dart_locks", "a lock in another host's registers"),
    ("dart/programs/log.rs", "dart_logs", "append to another host's memory"),
    ("dart/programs/producer.rs", "dart_producers", "a queue of several producers"),
    ("dart/programs/priority.rs", "dart_priorities", "a queue that tells only of what is more urgent"),
    ("dart/programs/barrier.rs", "dart_barriers", "a barrier over several hosts"),
    ("dart/programs/rpc.rs", "dart_rpc", "remote procedure calls"),
];

const EXPRESS: &[Group] = &[("express.rs", "hamlyn_express", "pages that two processes of two hosts share")];

const ABOUT: &[&str] = &[
    "The library lets a process exchange messages with processes of other machines by a Hamlyn card. Once a terminus, a slot \
     or a queue is there, messages pass through mapped memory: no system call is made, and the sender says where in the \
     receiver's memory each message goes. Only a holder of its ticket may write there.",
    "Programs that only exchange messages need the header hamlyn/channel.h alone, with which they run on the cards of all models: \
     see uln_channel(3).",
    "A call returns 0 or more, or a negative errno; uln_error() says why the last one failed in this thread. timeout_ms is as \
     for poll(2), in every call that has it: milliseconds, 0 to look without waiting (-EAGAIN if it would have to), negative to \
     wait for ever; -ETIMEDOUT if the time is over. No pointer may be NULL unless it says so.",
    "Memory that a card writes to or reads from is pinned and counts against RLIMIT_MEMLOCK, together with all else that the user \
     has pinned: -ENOMEM says that the limit is reached. See hamlyn(4), there also for what fork(2) leaves to the child.",
    "Cards of other models have headers of their own beside hamlyn.h: shrimp.h is for SHRIMP cards, where what a process stores in its \
     memory arrives in another's; clan.h is for CLAN cards, whose windows reach memory of other hosts and whose Tripwires tell of \
     accesses to it, and clan_programs.h has message transfer, calls and queues on them; dart.h is for DART cards, whose messages carry \
     operations on another host's memory and registers, and dart_programs.h has locks, logs, queues, barriers and calls of such messages.",
    "express.h is for express memory: pages that two processes of two hosts with Hamlyn cards share, with no card on the way. \
     Channels use such pages by themselves.",
    "Rust programs use the crate hamlyn, which has the lower layer too: slots, termini, groups, barriers, remote fetch-and-op.",
];

const BUILDING: &[&str] = &[
    "cc program.c $(pkg-config --cflags --libs hamlyn)",
    "cc -static program.c $(pkg-config --static --cflags --libs hamlyn)",
];

/// A function of the header: its name, its declaration and what is said of it.
struct Function {
    name: String,
    declaration: String,
    about: String,
}

/// The overview, and a page for each group.
pub(super) fn pages() -> io::Result<Vec<Page>> {
    let mut pages = vec![overview()?];
    for (header, groups) in HEADERS.iter().zip(GROUPS) {
        let mut functions = functions(&header.text().map_err(io::Error::other)?);
        for (file, page, about) in groups {
            let source = source(&source_folder().join(file))?;
            let is_here = |function: &Function| source.contains(&format!("fn {}(", function.name));
            let (here, others) = functions.into_iter().partition(is_here);
            functions = others;
            pages.push((format!("{page}.3"), group(header.name, page, about, here)?));
        }
        if let Some(left) = functions.first() {
            return Err(io::Error::other(format!("{} is in no group of the manual", left.name)));
        }
    }
    Ok(pages)
}

/// Returns the text of a file, or of all files of a folder.
fn source(path: &Path) -> io::Result<String> {
    if path.is_file() {
        return fs::read_to_string(path);
    }
    fs::read_dir(path)?.map(|file| fs::read_to_string(file?.path())).collect()
}

/// Reads the header's functions with the comments before them.
fn functions(header: &str) -> Vec<Function> {
    let (mut found, mut about) = (Vec::new(), String::new());
    for piece in header.split_once("extern \"C\" {").map_or(header, |(_, rest)| rest).split("/**").skip(1) {
        let Some((comment, code)) = piece.split_once("*/") else { continue };
        about.clear();
        for line in comment.lines().map(|line| line.trim().trim_start_matches('*').trim()) {
            if !about.is_empty() {
                about.push(' ');
            }
            about.push_str(line);
        }
        let Some((declaration, _)) = code.split_once(';') else { continue };
        let words = declaration.split_whitespace().collect::<Vec<_>>().join(" ");
        let name = words.split('(').next().unwrap_or_default().rsplit([' ', '*']).next().unwrap_or_default();
        found.push(Function {
            name: name.to_owned(),
            declaration: words.clone() + ";",
            about: about.trim().to_owned(),
        });
    }
    found
}

fn title(name: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [name, "3", "", concat!("Hamlyn ", env!("CARGO_PKG_VERSION")), "Hamlyn"]);
    page
}

fn overview() -> io::Result<Page> {
    let mut page = title("hamlyn");
    page.control("SH", ["NAME"]).text([roman("hamlyn - messages by a virtual user-level network card")]);
    page.control("SH", ["SYNOPSIS"]).text([bold("#include <hamlyn.h>")]);
    lines(&mut page, BUILDING);
    page.control("SH", ["DESCRIPTION"]);
    for paragraph in ABOUT {
        page.control("PP", []).text([roman(*paragraph)]);
    }
    page.control("SH", ["FUNCTIONS"]);
    for (_, name, about) in GROUPS.into_iter().flatten() {
        page.control("TP", []).text([bold(*name), roman("(3)")]).text([roman(*about)]);
    }
    page.control("SH", ["ENVIRONMENT"]).control("TP", []).text([bold("HAMLYN_CARD")]);
    page.text([roman(
        "The card that hamlyn_open() opens if it is given no name: a device, or vfio-user: and the path of a card's socket. The \
         default is /dev/hamlyn0.",
    )]);
    page.control("TP", []).text([bold("SHRIMP_CARD")]);
    page.text([roman(
        "The device that shrimp_open() opens if it is given no name. The default is /dev/shrimp0.",
    )]);
    page.control("TP", []).text([bold("CLAN_CARD")]);
    page.text([roman(
        "The device that clan_open() opens if it is given no name. The default is /dev/clan0.",
    )]);
    page.control("TP", []).text([bold("DART_CARD")]);
    page.text([roman(
        "The device that dart_open() opens if it is given no name. The default is /dev/dart0.",
    )]);
    page.control("SH", ["EXAMPLES"]);
    lines(&mut page, &EXAMPLE.lines().collect::<Vec<_>>());
    page.control("SH", ["SEE ALSO"]).text([bold("hamlyn"), roman("(1), "), bold("hamlyn"), roman("(4)")]);
    Ok(("hamlyn.3".to_owned(), to_text(&page)?))
}

/// A receiver of tagged remote writes.
const EXAMPLE: &str = r#"struct hamlyn_card *card;
struct hamlyn_tag_receiver *receiver;
struct hamlyn_ticket ticket;
char text[HAMLYN_TEXT_SIZE];
uint32_t tag;

if (hamlyn_open(NULL, &card) < 0 ||
    hamlyn_tag_receiver_create(card, 4096, 64, &receiver) < 0 ||
    hamlyn_tag_receiver_ticket(receiver, &ticket) < 0 ||
    hamlyn_ticket_print(&ticket, text, sizeof(text)) < 0)
        errx(1, "%s", uln_error());
puts(text);                                     /* for the sender */
if (hamlyn_tag_receive(receiver, &tag, -1) < 0)
        errx(1, "%s", uln_error());"#;

fn group(header: &str, name: &str, about: &str, functions: Vec<Function>) -> io::Result<String> {
    let mut page = title(name);
    let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    let all = [&[name], &names[..]].concat().join(", ");
    page.control("SH", ["NAME"]).text([roman(format!("{all} - {about}"))]);
    page.control("SH", ["SYNOPSIS"]).text([bold(format!("#include <{header}>"))]);
    for function in &functions {
        page.control("PP", []).text([bold(function.declaration.as_str())]);
    }
    page.control("SH", ["DESCRIPTION"]);
    for function in &functions {
        page.control("TP", []).text([bold(format!("{}()", function.name))]);
        page.text([roman(function.about.as_str())]);
    }
    page.control("SH", ["RETURN VALUE"]).text([roman(
        "A function of type int returns 0 or more, or a negative errno; uln_error() then returns the reason, in this thread.",
    )]);
    page.control("SH", ["SEE ALSO"]).text([bold("hamlyn"), roman("(3), "), bold("hamlyn"), roman("(4)")]);
    to_text(&page)
}
