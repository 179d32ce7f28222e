//! From a card's records to events.

use hamlyn_card::packet::PacketField;

use crate::contract::{Constant, Contract, structure, value_of};
use crate::event::{Event, Field};
use crate::hello::{CardName, RegionName};
use crate::record::{Kind, Record};

/// Register by which a command begins.
const GO: &str = "ULN_REG_COMMAND_GO";
/// Structure at the start of the command page, and where the command's own one begins.
const HEAD: &str = "uln_command";
const BODY: &str = "ULN_COMMAND_BODY";

/// Names the events of one card.
#[derive(Debug)]
pub struct Decoder {
    card: usize,
    contract: Contract,
    counters: Vec<String>,
    regions: Vec<RegionName>,
    packet: &'static [PacketField],
    /// The card handles a write, a store or a packet.
    busy: bool,
    command: Command,
}

/// How far a command has come.
#[derive(Debug, Clone, Copy)]
enum Command {
    None,
    /// The next access reads the command page.
    Begun,
    /// The page is at this address.
    Known(u64, Option<&'static Constant>),
}

impl Decoder {
    /// Creates a decoder for card number `card` of a trace. `packet` is its model's.
    #[must_use]
    pub fn new(card: usize, name: &CardName, packet: &'static [PacketField]) -> Self {
        let (contract, counters) = (Contract::of(&name.model), name.counters.clone());
        let regions = name.regions.clone();
        Decoder { card, contract, counters, regions, packet, busy: false, command: Command::None }
    }

    /// Decodes a record. Returns `None` for a record of an unknown kind.
    pub fn decode(&mut self, record: &Record, bytes: Vec<u8>) -> Option<Event> {
        let kind = Kind::of(record.kind)?;
        let outer = matches!(
            kind,
            Kind::RegisterRead | Kind::RegisterWrite | Kind::Store | Kind::Arrive | Kind::Link | Kind::Reset
        );
        let inner = self.busy && !outer;
        match kind {
            Kind::RegisterWrite | Kind::Store | Kind::Arrive => self.busy = true,
            Kind::Done => (self.busy, self.command) = (false, Command::None),
            _ => {}
        }
        let (what, subject, mut fields) = self.name(kind, record, &bytes);
        if record.failed != 0 && !matches!(kind, Kind::RegisterRead | Kind::Link) {
            fields.push(Field { name: "fault".into(), value: 1, meaning: None });
        }
        let (time, card) = (record.time, self.card);
        Some(Event { time, card, kind, inner, what, subject, number: record.a, fields, bytes })
    }

    fn name(&mut self, kind: Kind, record: &Record, bytes: &[u8]) -> (&'static str, String, Vec<Field>) {
        let Record { a, b, bar, .. } = *record;
        let memory = || (format!("{a:#x}"), vec![Field::number("bytes", b)]);
        let window = || self.place(bar, a);
        let value = || vec![Field::number("", b)];
        let (what, (subject, fields)) = match kind {
            Kind::RegisterRead if record.failed != 0 => {
                ("read", (self.register(bar, a).0, vec![Field::number("later", b)]))
            }
            Kind::RegisterRead => ("read", self.register_value(bar, a, b)),
            Kind::RegisterWrite => {
                let named = self.register_value(bar, a, b);
                if named.0 == GO {
                    self.command = Command::Begun;
                }
                ("write", named)
            }
            Kind::LateRead => ("answer of read", (a.to_string(), value())),
            Kind::Done => ("done", Default::default()),
            Kind::DmaRead | Kind::DmaWrite => return self.dma(kind, a, b, bytes),
            Kind::Store => ("store", memory()),
            Kind::DmaLendRead => ("dma read", memory()),
            Kind::DmaLendWrite => ("dma write", memory()),
            Kind::DmaPublish => ("publish", (format!("{a:#x}"), value())),
            Kind::DmaFetch => ("fetch and change", (format!("{a:#x}"), vec![Field::number("old", b)])),
            Kind::Interrupt => ("interrupt", (format!("vector {a}"), Vec::new())),
            Kind::Send => ("send", (destination(a), self.packet(b, bytes))),
            Kind::Arrive => ("arrive", (format!("from host {a}"), self.packet(b, bytes))),
            Kind::Link if record.failed != 0 => ("link", ("down".into(), Vec::new())),
            Kind::Link => ("link", ("up".into(), vec![Field::number("host", a), Field::number("ports", b)])),
            Kind::Reset => ("reset", (String::from_utf8_lossy(bytes).into_owned(), Vec::new())),
            Kind::WindowLoad => ("load", (window(), value())),
            Kind::WindowStore => ("set", (window(), value())),
            Kind::WindowCopy => ("copy", (window(), vec![Field::number("bytes", b)])),
            Kind::WindowClear => ("clear", (window(), vec![Field::number("bytes", b)])),
            Kind::Counter => ("count", (self.counter(a), vec![Field::number("more", b)])),
            Kind::Fault => ("fault", (String::from_utf8_lossy(bytes).into_owned(), Vec::new())),
            Kind::Guest => ("guest", Default::default()),
            Kind::Lost => {
                ("lost", ("the trace was not read in time".into(), vec![Field::number("records", a)]))
            }
        };
        (what, subject, fields)
    }

    /// Names a register, or a place of another BAR.
    fn register(&self, bar: u8, offset: u64) -> (String, bool) {
        match self.contract.register(offset).filter(|_| bar == 0) {
            Some((name, 0)) => (name.into(), true),
            Some((name, part)) => (format!("{name}+{part}"), false),
            None => (self.place(bar, offset), false),
        }
    }

    /// Names a place of a BAR that is not a register: `HAMLYN_WINDOW[3].TAIL`.
    fn place(&self, bar: u8, offset: u64) -> String {
        let found = self.regions.iter().find_map(|region| Some((region, region.part(bar, offset)?)));
        let Some((region, (part, inside))) = found else { return format!("BAR{bar}+{offset:#x}") };
        let word = match self.contract.word(&region.name, inside, region.size) {
            Some((word, 0)) => format!(".{word}"),
            Some((word, more)) => format!(".{word}+{more:#x}"),
            None if inside == 0 => String::new(),
            None => format!("+{inside:#x}"),
        };
        format!("{}[{part}]{word}", region.name)
    }

    fn register_value(&self, bar: u8, offset: u64, value: u64) -> (String, Vec<Field>) {
        let (name, whole) = self.register(bar, offset);
        let status = name.ends_with("_STATUS").then(|| self.status(value)).flatten();
        let meaning = if whole { status.or_else(|| self.contract.value_names(&name, value)) } else { None };
        (name, vec![Field { name: String::new(), value, meaning }])
    }

    fn status(&self, value: u64) -> Option<String> {
        self.contract.find("STATUS", value).map(|status| status.name.into())
    }

    fn counter(&self, index: u64) -> String {
        let name = usize::try_from(index).ok().and_then(|index| self.counters.get(index));
        name.cloned().unwrap_or_else(|| format!("counter {index}"))
    }

    fn packet(&self, length: u64, bytes: &[u8]) -> Vec<Field> {
        let mut fields = vec![Field::number("bytes", length)];
        fields.extend(self.packet.iter().filter_map(|field| {
            let value = field.read(bytes)?;
            Some(Field { name: field.name.into(), value, meaning: field.name_of(value) })
        }));
        fields
    }

    /// Names an access to guest memory: a part of the command page, or any other.
    fn dma(
        &mut self,
        kind: Kind,
        address: u64,
        length: u64,
        bytes: &[u8],
    ) -> (&'static str, String, Vec<Field>) {
        let is_read = kind == Kind::DmaRead;
        match self.command {
            Command::Begun if is_read => {
                let [opcode, index] = head(bytes, ["opcode", "index"]);
                let command = self.contract.find("COMMAND", opcode);
                self.command = Command::Known(address, command);
                let name = command.map_or_else(|| format!("command {opcode}"), |known| known.name.into());
                return ("command", name, vec![Field::number("index", index)]);
            }
            Command::Known(page, command) if is_read && address.checked_sub(page) == value_of(BODY) => {
                if let Some(body) = command.and_then(|command| self.contract.body(command)) {
                    let fields = body.read(bytes).into_iter();
                    let fields = fields.map(|(name, value)| Field { name, value, meaning: None });
                    return ("body", body.name.into(), fields.collect());
                }
            }
            Command::Known(page, _) if !is_read && address == page => {
                let [status, value, limit] = head(bytes, ["status", "value", "limit"]);
                let name = self.status(status).unwrap_or_else(|| format!("status {status}"));
                let refused = [Field::number("value", value), Field::number("limit", limit)];
                return ("result", name, if status == 0 { Vec::new() } else { refused.into() });
            }
            _ => {}
        }
        let what = if is_read { "dma read" } else { "dma write" };
        (what, format!("{address:#x}"), vec![Field::number("bytes", length)])
    }
}

/// Returns fields of the command page's head.
fn head<const N: usize>(bytes: &[u8], names: [&str; N]) -> [u64; N] {
    let fields = structure(HEAD).map(|head| head.read(bytes)).unwrap_or_default();
    names.map(|name| fields.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value))
}

/// Groups have the highest numbers (`hamlyn_fabric`).
fn destination(host: u64) -> String {
    if host >= 0xff00 { format!("to group {}", host - 0xff00) } else { format!("to host {host}") }
}
