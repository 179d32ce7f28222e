//! Section 4: the device. Its calls are read from the contract, its parameters from the module's
//! sources.

use std::fs;
use std::io;
use std::path::Path;

use clap_mangen::roff::{Roff, bold, roman};

use super::{Page, lines, to_text};
use hamlyn_headers::driver::{self, Entry, Header};
use hamlyn_headers::repository;

const ABOUT: &[&str] = &[
    "Each Hamlyn card of a machine is a character device that everyone may open. An open file is a protection domain: what is made \
     through it belongs to it alone, and goes when it is closed or its process dies. The calls make and end things; messages pass \
     through memory that is mapped from the file, without the kernel. Programs use hamlyn(3) rather than these calls.",
    "A file is polled for reading: it is readable once a queue that was armed has a notification.",
];

const MEMORY: &[&str] = &[
    "Memory of areas, send buffers and queues is pinned. It counts against the caller's RLIMIT_MEMLOCK (ulimit -l), which is \
     compared with all that the user has pinned in all processes, io_uring's buffers included; CAP_IPC_LOCK lifts it. A call \
     that would pass the limit fails with ENOMEM. Raise it in limits.conf(5), or with LimitMEMLOCK= for a service of systemd.",
    "After a fork(2) windows, doorbells, status words and queues are not in the child: it is killed by SIGSEGV if it touches them. \
     Areas and send buffers that are pinned are copied for the child at once; the card goes on with the parent's. Open files are \
     shared, so a child that closes what it has inherited by the library's calls takes it from its parent. A child should \
     call execve(2) (the library's files are closed by it) or _exit(2), and open a card of its own.",
];

/// The attributes of a card, and what is in them.
const ATTRIBUTES: [(&str, &str); 3] = [
    ("host_id", "The card's host id; -1 while its link is down. Can be polled (POLLPRI)."),
    ("link", "1 while the link is up, else 0. Can be polled (POLLPRI)."),
    (
        "holders",
        "A line for each user that has the card open: the user's id, and how many termini, slots, queues and connections it \
         holds. Root alone can read it.",
    ),
];

/// A parameter of the module.
struct Parameter {
    name: String,
    default: String,
    about: String,
}

/// The page of `/dev/hamlynN`.
pub(super) fn page() -> io::Result<Page> {
    let driver = repository().join("guest-driver");
    check_attributes(&fs::read_to_string(driver.join("core/sysfs.c"))?)?;
    let mut page = Roff::new();
    page.control("TH", ["hamlyn", "4", "", concat!("Hamlyn ", env!("CARGO_PKG_VERSION")), "Hamlyn"]);
    page.control("SH", ["NAME"]).text([roman("hamlyn - the device of a virtual user-level network card")]);
    page.control("SH", ["SYNOPSIS"]);
    lines(&mut page, &["#include \"hamlyn_uapi.h\"", "int fd = open(\"/dev/hamlyn0\", O_RDWR | O_CLOEXEC);"]);
    paragraphs(&mut page, "DESCRIPTION", ABOUT);
    calls(&mut page)?;
    paragraphs(&mut page, "MEMORY AND FORK", MEMORY);
    page.control("SH", ["MODULE PARAMETERS"]);
    for Parameter { name, default, about } in parameters(&driver)? {
        page.control("TP", [])
            .text([bold(name), roman(format!(" (default {default})"))])
            .text([roman(about)]);
    }
    files(&mut page);
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("hamlyn-info"),
        roman("(1), "),
        bold("hamlyn"),
        roman("(3), "),
        bold("getrlimit"),
        roman("(2)"),
    ]);
    Ok(("hamlyn.4".to_owned(), to_text(&page)?))
}

fn paragraphs(page: &mut Roff, title: &str, texts: &[&str]) {
    page.control("SH", [title]);
    for text in texts {
        page.control("PP", []).text([roman(*text)]);
    }
}

/// The calls, in the order of their numbers.
fn calls(page: &mut Roff) -> io::Result<()> {
    page.control("SH", ["IOCTLS"]);
    let headers = driver::read(&driver::source_folder()).map_err(io::Error::other)?;
    let mut calls: Vec<_> = headers.iter().flat_map(calls_of).collect();
    calls.sort_by_key(|(number, ..)| *number);
    for (_, name, docs) in calls {
        page.control("TP", [])
            .text([bold(name)])
            .text([roman(docs.join(" ").split_whitespace().collect::<Vec<_>>().join(" "))]);
    }
    page.control("PP", []).text([roman(
        "Errors that all have: EFAULT, EINVAL, ENODEV (the card is gone, does not answer, or was reset since the file was opened), \
         ENOSPC (the card has no more), EDQUOT (the user holds as much of the card as one may), ENOENT (not an object of this \
         file), ENOMEM (also: RLIMIT_MEMLOCK), EOPNOTSUPP (memory that cannot be shared with the card).",
    )]);
    Ok(())
}

/// A header's calls, those of later models left out, which have devices of their own: number, name
/// and comment.
fn calls_of(header: &Header) -> impl Iterator<Item = (u32, &str, &[String])> {
    header.parts.iter().flat_map(|part| &part.items).filter_map(|entry| {
        let Entry::Constant { name, docs, value } = entry else { return None };
        let number = value.strip_prefix("_IOWR('H', ")?.split(',').next()?.parse().ok()?;
        Some((number, name.as_str(), docs.as_slice()))
    })
}

fn files(page: &mut Roff) {
    page.control("SH", ["FILES"]);
    let entry = |page: &mut Roff, path: &str, about: &str| {
        page.control("TP", []).text([bold(path)]).text([roman(about)]);
    };
    entry(page, "/dev/hamlynN", "The card with number N, from 0.");
    for (name, about) in ATTRIBUTES {
        entry(page, &format!("/sys/class/hamlyn/hamlynN/{name}"), about);
    }
    entry(page, "/sys/class/hamlyn/hamlynN/device", "The card's PCI function; reset in it resets the card.");
    entry(page, "/sys/module/hamlyn/parameters/", "The parameters above, which root may change at any time.");
    entry(
        page,
        "/sys/kernel/tracing/events/hamlyn/",
        "Tracepoints: commands, interrupts, link changes, connections.",
    );
}

/// Every attribute that the module has is in the page, and no other.
fn check_attributes(source: &str) -> io::Result<()> {
    let defined = source.lines().filter_map(|line| line.strip_prefix("static DEVICE_ATTR_")?.split_once('('));
    let made: Vec<&str> = defined.filter_map(|(_, rest)| rest.split(')').next()).collect();
    let told: Vec<&str> = ATTRIBUTES.iter().map(|(name, _)| *name).collect();
    if made == told { Ok(()) } else { Err(io::Error::other(format!("attributes {made:?}, told {told:?}"))) }
}

/// The parameters of a folder of the driver's and of those in it, by their names.
fn parameters(driver: &Path) -> io::Result<Vec<Parameter>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(driver)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(parameters(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "c") {
            found.extend(parameters_of(&fs::read_to_string(path)?));
        }
    }
    found.sort_by(|one: &Parameter, other| one.name.cmp(&other.name));
    Ok(found)
}

fn parameters_of(source: &str) -> Vec<Parameter> {
    let described = source.split("MODULE_PARM_DESC(").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once(',')?;
        let about = rest.split('"').nth(1)?;
        let initial = source.split_once(&format!(" {name} = "))?.1;
        let default = initial.split(';').next()?.to_owned();
        Some(Parameter { name: name.to_owned(), default, about: about.to_owned() })
    });
    described.collect()
}
