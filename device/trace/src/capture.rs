//! Captures of packets, in the pcapng format of Wireshark and tcpdump, and a dissector for them.
//!
//! A packet is the fabric's header (`hamlyn_fabric::header`) and what follows it. Each card is an
//! interface of its own, so a packet between two cards is there twice: where it left, and where it
//! arrived.

use std::fmt::Write as _;
use std::io::{self, Write};

use hamlyn_card::packet::{FieldNames, PacketField};
use hamlyn_fabric::header::{HEADER_BYTES, Header, HostId, Protocol};

use crate::event::Event;
use crate::record::Kind;

/// Link type for private use: the dissector registers for it.
const LINKTYPE_USER0: u16 = 147;
/// Block types, and codes of options.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// An interface of a capture: a card.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its host id, if it has a link.
    pub host: Option<u16>,
    /// Protocol of its packets.
    pub protocol: Protocol,
}

/// Writes a capture.
#[derive(Debug)]
pub struct Capture<W: Write> {
    out: W,
    cards: Vec<Interface>,
    /// What is added to a time of the trace to get the time of day, in nanoseconds.
    epoch: u64,
}

impl<W: Write> Capture<W> {
    /// Begins a capture of these cards.
    ///
    /// # Errors
    /// As the writer's.
    pub fn new(out: W, cards: Vec<Interface>, epoch: u64) -> io::Result<Self> {
        let mut capture = Capture { out, cards, epoch };
        let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        capture.block(SECTION, section)?;
        for card in capture.cards.clone() {
            let mut interface = u32::from(LINKTYPE_USER0).to_le_bytes().to_vec();
            // No limit of a packet's bytes.
            interface.extend([0; 4]);
            option(&mut interface, IF_NAME, card.name.as_bytes());
            // Nanoseconds.
            option(&mut interface, IF_TSRESOL, &[9]);
            option(&mut interface, 0, &[]);
            capture.block(INTERFACE, interface)?;
        }
        capture.out.flush()?;
        Ok(capture)
    }

    /// Writes a packet that was sent or has arrived. Other events are left out.
    ///
    /// # Errors
    /// As the writer's.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        let Some(card) = self.cards.get_mut(event.card) else { return Ok(()) };
        let own = match (event.kind, event.field("host")) {
            (Kind::Link, host) => {
                card.host = host.map(|host| host as u16);
                return Ok(());
            }
            (Kind::Send | Kind::Arrive, _) => card.host.unwrap_or(u16::MAX),
            _ => return Ok(()),
        };
        let (other, length) = (event.number as u16, event.field("bytes").unwrap_or(0));
        let (source, destination, direction) = match event.kind {
            Kind::Send => (own, other, OUTBOUND),
            _ => (other, own, INBOUND),
        };
        let header =
            Header { source: HostId(source), destination: HostId(destination), protocol: card.protocol };
        let packet = [&header.to_bytes()[..], &event.bytes].concat();
        let time = event.time.wrapping_add(self.epoch);
        let numbers = [
            event.card as u32,
            (time >> 32) as u32,
            time as u32,
            packet.len() as u32,
            (length as usize + HEADER_BYTES) as u32,
        ];
        let mut block: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
        block.extend(packet);
        pad(&mut block);
        option(&mut block, EPB_FLAGS, &direction.to_le_bytes());
        option(&mut block, 0, &[]);
        self.block(ENHANCED_PACKET, block)
    }

    /// Passes on what was written, for a program that reads it live.
    ///
    /// # Errors
    /// As the writer's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn block(&mut self, kind: u32, mut body: Vec<u8>) -> io::Result<()> {
        pad(&mut body);
        let length = (12 + body.len() as u32).to_le_bytes();
        for part in [&kind.to_le_bytes()[..], &length, &body, &length] {
            self.out.write_all(part)?;
        }
        Ok(())
    }
}

fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    block.extend(code.to_le_bytes());
    block.extend((value.len() as u16).to_le_bytes());
    block.extend(value);
    pad(block);
}

fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
}

/// A model's packets, for the dissector.
#[derive(Debug, Clone, Copy)]
pub struct Dissected {
    /// Name of the model.
    pub model: &'static str,
    /// Number of its packets' protocol.
    pub protocol: u8,
    /// Fields of its packets' headers.
    pub fields: &'static [PacketField],
}

/// Returns a dissector for Wireshark, in Lua, for packets of these models.
#[must_use]
pub fn dissector(models: &[Dissected]) -> String {
    let mut text = String::from(
        "-- Wireshark dissector for captures of `hamlyn capture`, written by `hamlyn capture --dissector`.\n\
         local fabric = Proto(\"hamlyn_fabric\", \"Hamlyn fabric\")\n\
         local models, names = {}, {}\n\
         local f = fabric.fields\n\
         f.destination = ProtoField.uint16(\"hamlyn_fabric.destination\", \"Destination host\")\n\
         f.source = ProtoField.uint16(\"hamlyn_fabric.source\", \"Source host\")\n\
         f.version = ProtoField.uint8(\"hamlyn_fabric.version\", \"Version\")\n\
         f.protocol = ProtoField.uint8(\"hamlyn_fabric.protocol\", \"Protocol\")\n\n",
    );
    for Dissected { model, protocol, fields } in models {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "names[{protocol}] = \"{model}\"\nmodels[{protocol}] = {{");
        for field in *fields {
            let _ = writeln!(text, "  {},", lua(model, field));
        }
        let _ = writeln!(text, "}}");
    }
    text.push_str(
        "\n\
         for protocol, fields in pairs(models) do\n\
        \x20 for index, field in ipairs(fields) do f[names[protocol] .. index] = field.field end\n\
         end\n\n\
         function fabric.dissector(buffer, info, root)\n\
        \x20 if buffer:len() < 8 then return 0 end\n\
        \x20 local protocol = buffer(5, 1):uint()\n\
        \x20 local name = names[protocol] or \"protocol \" .. protocol\n\
        \x20 info.cols.protocol = name\n\
        \x20 info.cols.src = \"host \" .. buffer(2, 2):le_uint()\n\
        \x20 info.cols.dst = \"host \" .. buffer(0, 2):le_uint()\n\
        \x20 local tree = root:add(fabric, buffer(0, 8))\n\
        \x20 tree:add_le(f.destination, buffer(0, 2))\n\
        \x20 tree:add_le(f.source, buffer(2, 2))\n\
        \x20 tree:add(f.version, buffer(4, 1))\n\
        \x20 tree:add(f.protocol, buffer(5, 1)):append_text(\" (\" .. name .. \")\")\n\
        \x20 local fields = models[protocol]\n\
        \x20 if not fields then return end\n\
        \x20 local own, said, last = root:add(fabric, buffer(8), name), {}, 8\n\
        \x20 for _, field in ipairs(fields) do\n\
        \x20   local start = 8 + field.offset\n\
        \x20   if start + field.bytes <= buffer:len() then\n\
        \x20     own:add_le(field.field, buffer(start, field.bytes))\n\
        \x20     local value = buffer(start, field.bytes):le_uint64()\n\
        \x20     table.insert(said, field.name .. \"=\" .. tostring(value))\n\
        \x20     last = math.max(last, start + field.bytes)\n\
        \x20   end\n\
        \x20 end\n\
        \x20 info.cols.info = table.concat(said, \" \")\n\
        \x20 if last < buffer:len() then own:add(buffer(last), \"Data: \" .. buffer:len() - last .. \" bytes\") end\n\
         end\n\n\
         DissectorTable.get(\"wtap_encap\"):add(wtap.USER0, fabric)\n",
    );
    text
}

fn lua(model: &str, field: &PacketField) -> String {
    let PacketField { name, offset, bytes, names } = field;
    let kind = match bytes {
        1 => "uint8",
        2 => "uint16",
        3 => "uint24",
        4 => "uint32",
        _ => "uint64",
    };
    let base = if matches!(names, FieldNames::Values(_)) { "base.DEC" } else { "base.HEX_DEC" };
    let values = match names {
        FieldNames::Values(values) => {
            let values: Vec<String> =
                values.iter().map(|(value, name)| format!("[{value}] = \"{name}\"")).collect();
            format!(", {{ {} }}", values.join(", "))
        }
        FieldNames::None | FieldNames::Bits(_) => String::new(),
    };
    format!(
        "{{ name = \"{name}\", offset = {offset}, bytes = {bytes}, \
         field = ProtoField.{kind}(\"hamlyn_{model}.{name}\", \"{name}\", {base}{values}) }}"
    )
}
