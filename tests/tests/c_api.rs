//! The C library as a C compiler sees it: its header, its layouts, its symbols, and what it refuses.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hamlyn_c::{
    clan_address, clan_cache_info, clan_card_info, clan_descriptor, clan_descriptor_info, clan_element,
    clan_endpoint_options, clan_event, clan_fault, clan_message, clan_part, clan_peer, clan_peer_end,
    clan_transfer, clan_watch, dart_address, dart_address_info, dart_card_info, dart_condition,
    dart_connection_options, dart_lock_registers, dart_log, dart_operation, dart_piece,
    dart_priority_registers, dart_record, dart_status, dart_step, dart_urgent, hamlyn_card_info,
    hamlyn_channel_message, hamlyn_channel_options, hamlyn_datagram, hamlyn_end, hamlyn_express_info,
    hamlyn_found, hamlyn_manager_options, hamlyn_message, hamlyn_notification, hamlyn_passed, hamlyn_piece,
    hamlyn_record, hamlyn_seed, hamlyn_share, hamlyn_slot_options, hamlyn_stream_options, hamlyn_ticket,
    shrimp_card_info, shrimp_handle, shrimp_handle_info, shrimp_memory,
};
use hamlyn_lab::{Kit, Lab};
use hamlyn_tests::c_api;

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-lib/c")
}

/// A checked-in header.
fn read(name: &str) -> String {
    fs::read_to_string(source().join("include").join(name)).unwrap()
}

/// All of them, one behind the other.
fn headers() -> String {
    c_api::HEADERS.iter().map(|header| read(header.name)).collect()
}

/// The library's archive.
fn archive() -> PathBuf {
    Kit::find().unwrap().program("libhamlyn_c.a").unwrap()
}

fn compile(compiler: &str, standard: &str, source: &Path, more: &[&Path]) -> Output {
    let mut command = Command::new(compiler);
    command.arg(standard).args(STRICT).arg("-I").arg(self::source().join("include")).arg(source).args(more);
    command.output().unwrap()
}

/// Builds a C program with the library, and gives its place.
fn build(folder: &Path, program: &Path) -> PathBuf {
    let binary = folder.join("program");
    let output = compile("cc", "-std=c11", program, &[&archive(), Path::new("-o"), &binary]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    binary
}

/// What a C program of these statements prints.
fn run(statements: &str) -> Vec<String> {
    run_with(statements, Path::new("/nowhere"))
}

/// The same, where this is the socket of the card that it opens.
fn run_with(statements: &str, card: &Path) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program.c");
    let start = "#include <shrimp.h>\n#include <clan_programs.h>\n#include <dart_programs.h>\n#include <express.h>\n#include <poll.h>\n#include <stdio.h>\n#include <string.h>\n";
    fs::write(&program, format!("{start}int main(void)\n{{\n{statements}\treturn 0;\n}}\n")).unwrap();
    let mut command = Command::new(build(folder.path(), &program));
    let output = command.env("HAMLYN_CARD", format!("vfio-user:{}", card.display())).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Makes calls of a card, one after the other, and compares what each gives: 0 is success. What stands before a call's last
/// line is done first.
#[track_caller]
fn expect(statements: &str, calls: &[(i32, &str)]) {
    let lab = Lab::builder().vms(0).spare_cards(1).one_process(true).start().unwrap();
    let mut statements = statements.to_owned();
    for (_, call) in calls {
        let (before, call) = call.rsplit_once('\n').unwrap_or(("", call));
        let _ = writeln!(statements, "\t{before}\n\tprintf(\"%d\\n\", (int)({call}));");
    }
    let said = run_with(&statements, lab.card_socket(0).unwrap());
    for ((due, call), said) in calls.iter().zip(&said) {
        assert_eq!(said, &due.to_string(), "{call}");
    }
    assert_eq!(said.len(), calls.len());
}

/// The names that stand before a `(` at a declaration's place.
fn functions() -> Vec<String> {
    let headers = headers();
    let starts = headers.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    let names =
        starts.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next().map(str::to_owned));
    names.collect()
}

#[test]
fn the_checked_in_headers_are_what_the_sources_give() {
    for header in &c_api::HEADERS {
        let made = header.text(&source().join("src")).unwrap();
        let is_same = made == read(header.name);
        assert!(is_same, "{} is out of date: cargo run -p hamlyn-tests --bin headers", header.name);
    }
}

#[test]
fn every_file_with_functions_for_c_is_in_a_header() {
    let mut exported = BTreeSet::new();
    for folder in
        ["src", "src/shrimp", "src/clan", "src/clan/programs", "src/dart", "src/dart/programs", "src/express"]
    {
        for file in fs::read_dir(source().join(folder)).unwrap() {
            let file = file.unwrap().path();
            let text = if file.is_file() { fs::read_to_string(file).unwrap() } else { String::new() };
            let behind = text.split("extern \"C\" fn ").skip(1);
            exported.extend(behind.filter_map(|text| text.split_once('(')).map(|(name, _)| name.to_owned()));
        }
    }
    assert_eq!(functions().into_iter().collect::<BTreeSet<_>>(), exported);
}

#[test]
fn each_header_stands_alone_in_c_and_in_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("alone.o");
    let more = [Path::new("-c"), Path::new("-o"), &object];
    let compilers = [("cc", "-std=c99"), ("cc", "-std=c11"), ("c++", "-std=c++11")];
    let names = c_api::HEADERS.iter().map(|header| header.name).chain(["shrimp_primitives.h"]);
    let all = names.flat_map(|name| compilers.map(|compiler| (name, compiler)));
    for (header, (compiler, standard)) in all {
        if compiler == "c++" && Command::new(compiler).arg("--version").output().is_err() {
            continue;
        }
        let program = folder.path().join(if compiler == "c++" { "alone.cpp" } else { "alone.c" });
        let include = format!("#include <{header}>\n");
        fs::write(&program, format!("{include}{include}int main(void) {{ return 0; }}\n")).unwrap();
        let output = compile(compiler, standard, &program, &more);
        assert!(output.status.success(), "{header}, {compiler}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The size of each structure and the offset of each field, in C and as Rust has it.
macro_rules! layout {
    ($($name:ident { $($field:ident),* })*) => {
        vec![$(
            (concat!("sizeof(struct ", stringify!($name), ")"), size_of::<$name>()),
            $((
                concat!("offsetof(struct ", stringify!($name), ", ", stringify!($field), ")"),
                offset_of!($name, $field),
            ),)*
        )*]
    };
}

#[test]
fn c_and_rust_agree_on_every_size_and_offset() {
    let rust = layout! {
        hamlyn_card_info { host, abi_version, packet_size, sram_size, termini, slots, queues, vectors, ports, reserved }
        hamlyn_found { hosts, too_old, silent, reserved }
        hamlyn_ticket { bytes }
        hamlyn_seed { bytes }
        hamlyn_datagram { data, length, offset, has_reply, reply, reserved }
        hamlyn_manager_options { entries, looks, reserved }
        hamlyn_stream_options { record_size, records, max_records, reserved }
        hamlyn_record { number, data, length, reserved }
        hamlyn_passed { data, length, reserved }
        hamlyn_end { reason, length, data, reserved }
        hamlyn_notification { metadata, slot, index, is_fast, word, reserved }
        hamlyn_slot_options { start, length, metadata_entries, mode, index, flags, reserved }
        hamlyn_share { bytes }
        hamlyn_message { metadata, metadata_length, offset, word, flags, reserved }
        hamlyn_piece { buffer, start, length }
        shrimp_card_info { host, abi_version, pages, columns, fifo, snoops, ports, reserved }
        shrimp_handle { bytes }
        shrimp_handle_info { length, host, number, reserved }
        shrimp_memory { loads, stores, commands, length, reserved }
        clan_card_info { host, abi_version, apertures, window_pages, endpoints, tripwires, burst, credits, ports, reserved }
        clan_descriptor { bytes }
        clan_descriptor_info { length, host, aperture, rights, reserved }
        clan_address { host, port }
        clan_endpoint_options { port, tripwires, requests, polling_us, flags, reserved }
        clan_fault { offset, reason, host, aperture, reserved }
        clan_message { from, kind, reserved, data }
        clan_watch { offset, length, flags, reserved }
        clan_transfer { local, remote, local_offset, remote_offset, length, flags, reserved }
        clan_peer { address, told, reserved }
        clan_peer_end { reason, reserved, told }
        clan_event { token, what, tripwire, reserved }
        clan_cache_info { hits, misses, kept, reserved }
        clan_part { data, length }
        clan_element { metadata, has_more, reserved }
        dart_card_info { host, abi_version, connections, endpoints, registers, program, queues, tlb, window, ports, reserved }
        dart_step { step, source, target }
        dart_condition { comparison, left, right, refuse }
        dart_operation { operand, main, addressing, order, first, second, condition, about, indices, mask, reserved }
        dart_record { operand, words, connection, what, trap, opcode, indices, mask, length, reserved }
        dart_address { bytes }
        dart_address_info { host, number, reserved }
        dart_connection_options { endpoint, bank, events, exceptions, first_register, registers, first_entry, entries, rights, reserved }
        dart_status { left, dropped, dropped_why, traps, trap, trap_opcode, broken, reserved }
        dart_piece { from, to, length, reserved }
        dart_lock_registers { tickets, turn }
        dart_log { tail, step, end }
        dart_priority_registers { tail, most, step }
        dart_urgent { priority, data }
        hamlyn_channel_options { capacity, looks, flags, reserved }
        hamlyn_channel_message { data, length, reserved }
        hamlyn_express_info { part, pages, used, leaving, viewed, held, limit, reserved }
    };
    let mut statements = String::new();
    for (expression, _) in &rust {
        let _ = writeln!(statements, "\tprintf(\"%zu\\n\", {expression});");
    }
    let c = run(&statements);
    for ((expression, size), said) in rust.iter().zip(&c) {
        assert_eq!(said, &size.to_string(), "{expression}");
    }
    let described =
        headers().lines().filter(|line| line.starts_with("struct") && line.ends_with('{')).count();
    let structures = rust.iter().filter(|(expression, _)| expression.starts_with("sizeof")).count();
    assert_eq!(structures, described, "a structure of the header is not compared here");
}

#[test]
fn null_pointers_are_refused_with_a_reason_and_nothing_is_done() {
    let mut statements = String::from("\tprintf(\"%s\\n\", hamlyn_error());\n");
    for declaration in headers().split(";\n").filter_map(|text| text.rsplit("*/\n").next()) {
        let Some((name, arguments)) = declaration.split_once('(') else { continue };
        let Some(name) = name.strip_prefix("int ") else { continue };
        // A card of no name is the one that the environment names.
        let pointers = arguments.split(',').map(|argument| if argument.contains('*') { "NULL" } else { "1" });
        let pointers: Vec<_> = pointers.collect();
        let _ = writeln!(statements, "\tprintf(\"%d \", {name}({}));", pointers.join(", "));
        statements.push_str("\tputs(hamlyn_error());\n");
    }
    let said = run(&statements);
    assert_eq!(said[0], "", "no error yet");
    assert_eq!(said.len() - 1, functions().iter().filter(|name| !is_void(name)).count() - NO_OUTCOME);
    for line in &said[1..] {
        assert!(line.starts_with("-22 ") && line.ends_with("is a null pointer"), "{line}");
    }
}

/// Functions that return no outcome, but for those that give something back: hamlyn_version, hamlyn_error, where bytes are, a barrier.
const NO_OUTCOME: usize = 10;

fn is_void(name: &str) -> bool {
    ["hamlyn_close", "shrimp_close", "clan_close", "dart_close"].contains(&name) || name.ends_with("_destroy")
}

#[test]
fn giving_nothing_back_is_nothing() {
    let mut statements = String::new();
    for name in functions().iter().filter(|name| is_void(name)) {
        let _ = writeln!(statements, "\t{name}(NULL);");
    }
    statements.push_str("\tputs(hamlyn_error());\n");
    assert_eq!(run(&statements), [""]);
}

#[test]
fn what_cannot_be_opened_or_read_is_said() {
    let calls = [
        "hamlyn_open(\"/dev/null\", &card)",
        "hamlyn_open(\"/nowhere\", &card)",
        "hamlyn_ticket_parse(\"hamlyn1:zz\", &ticket)",
        "hamlyn_ticket_print(&ticket, text, sizeof(text))",
        "shrimp_open(NULL, &other)",
        "shrimp_open(\"/dev/null\", &other)",
        "shrimp_handle_parse(\"hamlyn1:00\", &handle)",
        "shrimp_handle_print(&handle, text, sizeof(text))",
        "clan_open(NULL, &third)",
        "clan_open(\"/dev/null\", &third)",
        "clan_descriptor_parse(\"shrimp1:00\", &descriptor)",
        "clan_descriptor_print(&descriptor, text, sizeof(text))",
        "clan_descriptor_of_group(64, 1, 1, &descriptor)",
        "dart_open(NULL, &fourth)",
        "dart_open(\"/dev/null\", &fourth)",
        "dart_address_parse(\"clan1:00\", &address)",
        "dart_address_print(&address, text, sizeof(text))",
        "dart_operation_opcode(&operation, &opcode)",
    ];
    let mut statements =
        String::from("\tstruct hamlyn_card *card;\n\tstruct hamlyn_ticket ticket = { { 0 } };\n");
    statements.push_str("\tchar text[HAMLYN_TEXT_SIZE];\n\tstruct shrimp_card *other;\n");
    statements.push_str("\tstruct shrimp_handle handle = { { 0 } };\n\tstruct clan_card *third;\n");
    statements.push_str("\tstruct clan_descriptor descriptor = { { 0 } };\n\tstruct dart_card *fourth;\n");
    statements.push_str("\tstruct dart_address address = { { 0 } };\n\tuint32_t opcode;\n");
    statements
        .push_str("\tstruct dart_operation operation = { .main = DART_WRITE, .first = { 16, 0, 0 } };\n");
    for call in calls {
        let _ = writeln!(statements, "\tprintf(\"%d \", {call});\n\tputs(hamlyn_error());");
    }
    let said = run(&statements);
    let said: Vec<(&str, &str)> = said.iter().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(said[0].0, "-25", "{said:?}");
    assert_eq!(said[1].0, "-2", "{said:?}");
    assert_eq!(said[2], ("-22", "ticket has 2 digits instead of 80"));
    assert_eq!(said[3], ("-22", "ticket does not start with the letters HT"));
    assert_eq!(said[4].0, "-2", "{said:?}");
    assert_eq!(said[5].0, "-25", "{said:?}");
    assert_eq!(said[6], ("-22", "handle does not start with \"shrimp1:\""));
    assert_eq!(said[7], ("-22", "handle does not start with the letters SH"));
    assert_eq!((said[8].0, said[9].0), ("-2", "-25"), "{said:?}");
    assert_eq!(said[10], ("-22", "descriptor does not start with \"clan1:\""));
    assert_eq!(said[11], ("-22", "descriptor does not start with the letters CL"));
    assert_eq!(said[12], ("-22", "group 64 is out of range (limit 63)"));
    assert_eq!((said[13].0, said[14].0), ("-2", "-25"), "{said:?}");
    assert_eq!(said[15], ("-22", "address does not start with \"dart1:\""));
    assert_eq!(said[16], ("-22", "address does not start with the letters DA"));
    assert_eq!(said[17], ("-22", "step 16 is unknown (limit 15)"));
}

#[test]
fn without_a_time_to_wait_nothing_waits() {
    let statements = "\tstruct hamlyn_card *card;\n\tstruct hamlyn_manager *manager;\n\tstruct hamlyn_seed seed;\n\
         \tstruct hamlyn_stream_receiver *receiver;\n\tstruct hamlyn_stream_sender *sender;\n\
         \tstruct hamlyn_record record;\n\tstruct hamlyn_tag_receiver *tags;\n\
         \tstruct hamlyn_datagram_receiver *place;\n\tstruct hamlyn_datagram datagram;\n\tuint32_t tag;\n\
         \tstruct hamlyn_ticket ticket;\n\tstruct hamlyn_manager *other;\n\
         \tstruct hamlyn_manager_options wrong = { 0, 0, { 1 } }, few = { 2, HAMLYN_NO_LOOKS, { 0 } };\n";
    const CLOSE: &str =
        "while (hamlyn_stream_try_close(sender) == -11)\n\t\t;\nhamlyn_stream_try_close(sender)";
    // What is to come, and the calls: 0 is success, 11 EAGAIN, 107 ENOTCONN.
    let calls = [
        (0, "hamlyn_open(NULL, &card)"),
        (0, "hamlyn_manager_create(card, &manager)"),
        (0, "hamlyn_manager_flush(manager, 0)"),
        (0, "hamlyn_tag_receiver_create(card, 64, 4, &tags)"),
        (-11, "hamlyn_tag_receive(tags, &tag, 0)"),
        (-11, "hamlyn_tag_receive_specific(tags, 7, 0)"),
        (0, "hamlyn_datagram_receiver_create(manager, 64, &place)"),
        (-11, "hamlyn_datagram_receive(place, &datagram, 0)"),
        (0, "hamlyn_stream_receiver_create(manager, NULL, &receiver)"),
        (0, "hamlyn_stream_receiver_seed(receiver, &seed)"),
        (0, "hamlyn_stream_sender_create(manager, &seed, &sender)"),
        (-11, "hamlyn_stream_receive(receiver, &record, 0)"),
        (-11, "hamlyn_manager_wait(manager, 0)"),
        (-107, "hamlyn_stream_peer_fd(receiver)"),
        (-11, "hamlyn_stream_peer_ended(receiver)"),
        (2, "hamlyn_stream_send(sender, \"hi\", 2, 0)"),
        (0, "hamlyn_stream_flush(sender, 0)"),
        (1, "hamlyn_stream_receive(receiver, &record, 60000)"),
        (0, "hamlyn_stream_release(receiver, record.number)"),
        (2, "hamlyn_stream_send(sender, \"ho\", 2, 0)"),
        (0, "hamlyn_stream_flush(sender, 0)"),
        (1, "hamlyn_stream_read(receiver, &tag, 1, 60000)"),
        (1, "hamlyn_stream_read(receiver, &tag, 1, 60000)"),
        (-11, "hamlyn_stream_read(receiver, &tag, 1, 0)"),
        (0, "hamlyn_tag_receiver_ticket(tags, &ticket)"),
        (0, "hamlyn_tag_arm(tags)"),
        (0, "hamlyn_tag_send(manager, &ticket, \"hi\", 2, 0, 7, 60000)"),
        (0, "hamlyn_tag_send(manager, &ticket, \"hi\", 2, 0, 8, 60000)"),
        (0, "hamlyn_tag_receive_specific(tags, 8, 60000)"),
        (1, "hamlyn_tag_arm(tags)"),
        (-22, "hamlyn_tag_send(manager, &ticket, \"hi\", 2, 63, 7, 0)"),
        (0, "(ticket.bytes[20] ^= 1) * 0"),
        (-22, "hamlyn_tag_send(manager, &ticket, \"hi\", 2, 0, 7, 0)"),
        (0, "hamlyn_manager_wake(manager)"),
        (0, "hamlyn_manager_wait(manager, 60000)"),
        (-22, "hamlyn_manager_create_with(card, &wrong, &other)"),
        (0, "hamlyn_manager_create_with(card, &few, &other)"),
        (0, "hamlyn_version() - HAMLYN_VERSION"),
        (0, CLOSE),
        (0, "hamlyn_stream_receive(receiver, &record, 60000)"),
    ];
    expect(statements, &calls);
}

#[test]
fn a_program_finds_names_and_chooses_whose_streams_it_accepts() {
    // The fabric has one host, so there is nobody to wait for.
    let statements = "\tstruct hamlyn_card *card;\n\tstruct hamlyn_manager *manager;\n\tstruct hamlyn_card_info info;\n\
         \tstruct hamlyn_found found;\n\tstruct hamlyn_seed seed;\n\tstruct hamlyn_connection *connection;\n\
         \tstruct hamlyn_connecting *asking;\n\tstruct hamlyn_stream_listener *listener;\n\
         \tstruct hamlyn_stream_request *request;\n\tstruct hamlyn_stream_sender *sender;\n\
         \tstruct hamlyn_stream_receiver *receiver, *own;\n";
    const ASK: &str = "hamlyn_connect_begin(card, 0, \"svc\", &seed, sizeof(seed), &asking)";
    const FINISH: &str = "hamlyn_connect_finish(asking, &connection, 60000)";
    // What is to come, and the calls: 111 is ECONNREFUSED.
    let calls = [
        (0, "hamlyn_open(NULL, &card)"),
        (1, "hamlyn_get_info(card, &info) + info.ports"),
        (0, "hamlyn_find(card, \"svc\", &found, 60000)"),
        (0, "found.hosts | found.too_old | found.silent"),
        (-111, "hamlyn_connect_any(card, 0, \"svc\", NULL, 0, &connection, 60000)"),
        (-22, "hamlyn_connect_any(card, 2, \"svc\", NULL, 0, &connection, 60000)"),
        (0, "hamlyn_manager_create(card, &manager)"),
        (0, "hamlyn_stream_listen(manager, \"svc\", &listener)"),
        (1, "hamlyn_find(card, \"svc\", &found, 60000)"),
        (1, "found.hosts == 1 && !found.too_old && !found.silent"),
        (-11, "hamlyn_stream_listener_request(listener, &request, 0)"),
        (0, "hamlyn_stream_receiver_create(manager, NULL, &own)"),
        (0, "hamlyn_stream_receiver_seed(own, &seed)"),
        (0, ASK),
        (0, "hamlyn_stream_listener_request(listener, &request, 60000)"),
        (0, "hamlyn_stream_request_host(request)"),
        (0, "hamlyn_stream_request_reject(request, \"not today\")"),
        (-111, FINISH),
        (1, "strstr(hamlyn_error(), \"not today\") != NULL"),
        (0, ASK),
        (0, "hamlyn_stream_listener_request(listener, &request, 60000)"),
        (0, "(hamlyn_stream_request_destroy(request), 0)"),
        (-111, FINISH),
        (0, ASK),
        (0, "hamlyn_stream_listener_request(listener, &request, 60000)"),
        // It may outlive its listener.
        (0, "(hamlyn_stream_listener_destroy(listener), 0)"),
        (0, "hamlyn_stream_request_accept(request, &sender, &receiver)"),
        (0, FINISH),
        (2, "hamlyn_stream_send(sender, \"hi\", 2, 60000)"),
        (0, "hamlyn_stream_flush(sender, 60000)"),
        (2, "hamlyn_stream_read(own, &seed, 2, 60000)"),
        (0, "memcmp(&seed, \"hi\", 2)"),
    ];
    expect(statements, &calls);
}

#[test]
fn a_program_sends_from_and_receives_into_memory_of_its_own() {
    let statements = "\tstatic _Alignas(4096) unsigned char from[65536], to[65536];\n\tstruct hamlyn_card *card;\n\
         \tstruct hamlyn_manager *manager;\n\tstruct hamlyn_area *area, *odd;\n\tstruct hamlyn_buffer *buffer;\n\
         \tstruct hamlyn_datagram_receiver *place;\n\tstruct hamlyn_datagram datagram;\n\tstruct hamlyn_ticket ticket;\n\
         \tstruct hamlyn_stream_receiver *receiver;\n\tstruct hamlyn_stream_sender *sender;\n\tstruct hamlyn_seed seed;\n\
         \tstruct hamlyn_record record;\n\tstruct hamlyn_tag_receiver *tags;\n\tuint32_t tag;\n\
         \tstruct hamlyn_stream_options options = { 4096, 8, 0, { 0 } };\n\tsize_t at;\n\n\
         \tfor (at = 0; at < sizeof(from); at++)\n\t\tfrom[at] = (unsigned char)(at * 7 + 1);\n";
    // What is to come, and the calls: 95 is EOPNOTSUPP.
    let calls = [
        (0, "hamlyn_open(NULL, &card)"),
        (0, "hamlyn_manager_create(card, &manager)"),
        (-95, "hamlyn_area_create(card, to + 1, 4096, &odd)"),
        (0, "hamlyn_area_create(card, to, sizeof(to), &area)"),
        (1, "hamlyn_area_data(area) == to"),
        (0, "hamlyn_buffer_create(manager, from, sizeof(from), &buffer)"),
        (1, "hamlyn_buffer_data(buffer) == from"),
        (0, "hamlyn_datagram_receiver_create_in(manager, area, &place)"),
        (0, "hamlyn_datagram_receiver_ticket(place, &ticket)"),
        (0, "hamlyn_datagram_send_from(manager, &ticket, buffer, 1, 65535, 0, NULL, 60000)"),
        (0, "hamlyn_datagram_receive(place, &datagram, 60000)"),
        (1, "datagram.data == to && datagram.length == 65535"),
        (0, "memcmp(to, from + 1, 65535)"),
        (0, "hamlyn_buffer_wait(buffer, 60000)"),
        (-22, "hamlyn_datagram_send_from(manager, &ticket, buffer, 2, 65535, 0, NULL, 60000)"),
        (0, "(hamlyn_datagram_receiver_destroy(place), 0)"),
        (0, "hamlyn_stream_receiver_create_in(manager, area, &options, &receiver)"),
        (0, "hamlyn_stream_receiver_seed(receiver, &seed)"),
        (0, "hamlyn_stream_sender_create(manager, &seed, &sender)"),
        (8192, "hamlyn_stream_send_from(sender, buffer, 100, 8192, 60000)"),
        (1, "hamlyn_stream_receive(receiver, &record, 60000)"),
        (1, "record.data == to && !memcmp(to, from + 100, 4096)"),
        (1, "hamlyn_stream_receive(receiver, &record, 60000)"),
        (1, "record.data == to + 4096 && !memcmp(to, from + 100, 8192)"),
        (0, "(hamlyn_stream_sender_destroy(sender), hamlyn_stream_receiver_destroy(receiver), 0)"),
        (0, "hamlyn_tag_receiver_create_in(card, area, 8, &tags)"),
        (0, "hamlyn_tag_receiver_ticket(tags, &ticket)"),
        (0, "hamlyn_tag_send_from(manager, &ticket, buffer, 3000, 1000, 64, 7, 60000)"),
        (0, "hamlyn_tag_receive(tags, &tag, 60000)"),
        (0, "memcmp(to + 64, from + 3000, 1000)"),
        (0, "(hamlyn_tag_receiver_destroy(tags), hamlyn_area_destroy(area), 0)"),
        (0, "hamlyn_buffer_wait(buffer, 60000)"),
        (0, "(hamlyn_buffer_destroy(buffer), 0)"),
        // Private memory again, with what had come.
        (0, "memcmp(to + 64, from + 3000, 1000)"),
        (0, "hamlyn_buffer_create(manager, NULL, 100, &buffer)"),
        (1, "hamlyn_buffer_data(buffer) != NULL"),
        (0, "(hamlyn_buffer_destroy(buffer), 0)"),
    ];
    expect(statements, &calls);
}

#[test]
fn the_lower_layer_is_all_there() {
    let statements = "\tstruct hamlyn_card *card;\n\tstruct hamlyn_area *area;\n\tstruct hamlyn_queue *queue;\n\tstruct hamlyn_slot *slot, *words;\n\
         \tstruct hamlyn_terminus *terminus;\n\tstruct hamlyn_ticket ticket, fast, tickets[2];\n\tstruct hamlyn_notification news;\n\
         \tstruct hamlyn_slot_options options = { 64, 1024, 4, HAMLYN_MODE_ONE_SHOT, 77, 0, { 0 } };\n\
         \tstruct hamlyn_slot_options plain = { 2048, 0, 1, HAMLYN_MODE_NORMAL, 78, HAMLYN_SLOT_FETCHABLE, { 0 } };\n\
         \tstruct hamlyn_slot_options wrong = { 0, 0, 0, 3, 0, 0, { 0 } };\n\
         \tstruct hamlyn_message message = { \"meta\", 4, 8, 0, HAMLYN_MESSAGE_INTERRUPT, { 0 } }, word = { NULL, 0, 0, 9, 0, { 0 } };\n\
         \tstruct hamlyn_send_buffer *buffer;\n\tstruct hamlyn_piece pieces[2];\n\tstruct hamlyn_share whole, parts[2], taken;\n\
         \tstruct hamlyn_entrance *entrance[2];\n\tstruct hamlyn_barrier *barrier[2];\n\tuint64_t found, values[2];\n\
         \tchar metadata[HAMLYN_METADATA_SIZE], name[HAMLYN_TEXT_SIZE];\n\tchar *data;\n\
         \tstruct pollfd sent = { 0, POLLIN, 0 };\n\n";
    // What is to come, and the calls.
    let calls = [
        (0, "hamlyn_open(NULL, &card)"),
        (0, "hamlyn_area_create(card, NULL, 4096, &area)"),
        (1, "(data = hamlyn_area_data(area)) != NULL"),
        (0, "hamlyn_queue_create(card, 16, &queue)"),
        (-22, "hamlyn_slot_create(card, area, queue, &wrong, &slot)"),
        (0, "hamlyn_slot_create(card, area, queue, &options, &slot)"),
        (0, "hamlyn_slot_create(card, area, queue, &plain, &words)"),
        (0, "hamlyn_terminus_create(card, 1, &terminus)"),
        // One message to an entry with a key of its own, and none behind it before it is open again.
        (0, "hamlyn_slot_protect(slot, 3, 0, 512)"),
        (0, "hamlyn_slot_ticket(slot, 3, &ticket)"),
        (-11, "hamlyn_queue_receive(queue, &news, 0)"),
        (0, "hamlyn_queue_arm(queue)"),
        (1, "hamlyn_terminus_arm_room(terminus) && hamlyn_terminus_arm_flush(terminus)"),
        (0, "hamlyn_terminus_send(terminus, &ticket, &message, \"data\", 5, 60000)"),
        (
            1,
            "sent.fd = hamlyn_terminus_fd(terminus), hamlyn_terminus_arm_flush(terminus) || poll(&sent, 1, 60000)",
        ),
        (1, "hamlyn_terminus_arm_flush(terminus)"),
        (0, "hamlyn_queue_receive(queue, &news, 60000)"),
        (1, "news.index == 77 && !news.is_fast"),
        (3, "hamlyn_slot_entry(slot, &news)"),
        (-2, "hamlyn_slot_entry(words, &news)"),
        (0, "hamlyn_slot_metadata(slot, 3, metadata)"),
        (0, "memcmp(metadata, \"meta\", 4) || strcmp(data + 64 + 8, \"data\")"),
        (1, "hamlyn_slot_is_locked(slot, 3)"),
        (0, "hamlyn_slot_reopen(slot, 3)"),
        (0, "hamlyn_slot_is_locked(slot, 3)"),
        (0, "hamlyn_slot_shut(slot, 3)"),
        (-22, "hamlyn_slot_reopen(slot, 4)"),
        // Fast mode, and pieces of a send buffer.
        (0, "hamlyn_slot_ticket(words, HAMLYN_FAST, &fast)"),
        (0, "hamlyn_send_buffer_create(terminus, NULL, 100, &buffer)"),
        (0, "strcpy(hamlyn_send_buffer_data(buffer), \"there here\") == NULL"),
        (0, "(pieces[0].buffer = pieces[1].buffer = buffer, 0)"),
        (0, "(pieces[0].start = 6, pieces[0].length = 4, pieces[1].start = 5, pieces[1].length = 1, 0)"),
        (0, "hamlyn_terminus_send_pieces(terminus, &fast, &word, pieces, 2, 60000)"),
        (0, "hamlyn_terminus_flush(terminus, 60000)"),
        (0, "hamlyn_queue_receive(queue, &news, 60000)"),
        (9, "news.is_fast && news.index == 78 ? news.word : 0"),
        (0, "memcmp(data + 2048, \"here \", 5)"),
        // A word.
        (
            0,
            "(memset(data + 2048, 0, 8), hamlyn_fetch(terminus, &fast, 0, HAMLYN_OP_ADD, 5, 0, &found, 60000))",
        ),
        (0, "hamlyn_fetch(terminus, &fast, 0, HAMLYN_OP_COMPARE_SWAP, 40, 5, &found, 60000)"),
        (5, "found"),
        (40, "data[2048]"),
        (-22, "hamlyn_fetch(terminus, &fast, 0, 6, 0, 0, &found, 60000)"),
        // A group: one notification for three messages.
        (0, "hamlyn_slot_ticket(words, 0, &ticket)"),
        (0, "hamlyn_share_whole(&ticket, &whole)"),
        (0, "hamlyn_share_split(&whole, parts, 2)"),
        (0, "hamlyn_share_take(&parts[0], 3, &taken)"),
        (0, "hamlyn_terminus_send_share(terminus, &parts[1], NULL, \"b\", 1, 60000)"),
        (0, "hamlyn_terminus_send_share(terminus, &taken, NULL, \"abc\", 3, 60000)"),
        (0, "hamlyn_terminus_flush(terminus, 60000)"),
        (-11, "hamlyn_queue_receive(queue, &news, 0)"),
        (0, "hamlyn_terminus_send_share(terminus, &parts[0], NULL, \"d\", 1, 60000)"),
        (0, "hamlyn_queue_receive(queue, &news, 60000)"),
        (0, "memcmp(data + 2048, \"abcd\", 4)"),
        // A barrier of two in one thread: neither leaves before the other has entered.
        (0, "hamlyn_entrance_create(card, &entrance[0]) | hamlyn_entrance_create(card, &entrance[1])"),
        (
            0,
            "hamlyn_entrance_ticket(entrance[0], &tickets[0]) | hamlyn_entrance_ticket(entrance[1], &tickets[1])",
        ),
        (0, "hamlyn_barrier_join(entrance[0], terminus, tickets, 2, 0, &barrier[0])"),
        (0, "hamlyn_barrier_join(entrance[1], terminus, tickets, 2, 1, &barrier[1])"),
        (-11, "hamlyn_barrier_wait(barrier[0], 0)"),
        (0, "hamlyn_barrier_wait(barrier[1], 60000)"),
        (0, "hamlyn_barrier_wait(barrier[0], 60000)"),
        (1, "hamlyn_statistics(card, values, 2) > 10"),
        (0, "hamlyn_statistic_name(0, name, sizeof(name))"),
        (1, "strlen(name) > 3"),
        (-22, "hamlyn_statistic_name(100000, name, sizeof(name))"),
    ];
    expect(statements, &calls);
}

#[test]
fn where_there_is_no_express_memory_that_is_said() {
    let statements = "\tstruct hamlyn_card *card;\n\tstruct hamlyn_manager *manager;\n\tstruct hamlyn_express_info info;\n\
         \tstruct hamlyn_express_area *area;\n\tstruct hamlyn_express_view *view;\n\
         \tstruct hamlyn_channel_listener *listener, *other;\n\
         \tstruct hamlyn_channel_sender *sender, *none;\n\tstruct hamlyn_channel_receiver *receiver, *no;\n\
         \tstruct hamlyn_channel_options wrong = { .flags = 2 }, later = { .reserved = { 1 } };\n\
         \tstruct hamlyn_channel_options small = { 4096, HAMLYN_NO_LOOKS, HAMLYN_CHANNEL_BY_MESSAGES, { 0 } };\n";
    let calls = [
        (0, "hamlyn_open(NULL, &card)"),
        (0, "hamlyn_manager_create(card, &manager)"),
        (-95, "hamlyn_express_get_info(card, 1, &info)"),
        (-95, "hamlyn_express_area_create(card, 1, 4096, &area)"),
        (-22, "hamlyn_express_area_create(card, 1, 100, &area)"),
        (-95, "hamlyn_express_view_map(card, 1, 2, 3, &view)"),
        (0, "(hamlyn_express_barrier(), 0)"),
        (-22, "hamlyn_channel_listen(manager, \"chan\", &wrong, &other)"),
        (-22, "hamlyn_channel_listen(manager, \"chan\", &later, &other)"),
        (0, "hamlyn_channel_listen(manager, \"chan\", &small, &listener)"),
        (1, "hamlyn_channel_listener_fd(listener) > 2"),
        (-11, "hamlyn_channel_accept(listener, &sender, &receiver, 0)"),
        (-111, "hamlyn_channel_connect(manager, 0, \"nobody\", NULL, &none, &no, 60000)"),
    ];
    expect(statements, &calls);
}

/// Both ends of a channel, which goes by messages: the fabric has one host. The other end is a thread that sends back what comes.
const TWO_ENDS: &str = r#"
#define _DEFAULT_SOURCE
#include <express.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct hamlyn_manager *manager;
static struct hamlyn_channel_listener *listener;

static int failed(int outcome)
{
	if (outcome < 0)
		fprintf(stderr, "%s\n", hamlyn_error());
	return outcome < 0;
}

static void *echo(void *nothing)
{
	struct hamlyn_channel_sender *sender;
	struct hamlyn_channel_receiver *receiver;
	struct hamlyn_channel_message message;
	char copy[64];

	if (failed(hamlyn_channel_accept(listener, &sender, &receiver, 60000)))
		return nothing;
	while (hamlyn_channel_receive(receiver, &message, 60000) == 1) {
		size_t length = message.length;

		memcpy(copy, message.data, length);
		if (failed(hamlyn_channel_release(receiver)) || failed(hamlyn_channel_send(sender, copy, length, 60000)))
			return nothing;
	}
	failed(hamlyn_channel_close(sender, 60000));
	hamlyn_channel_receiver_destroy(receiver);
	return nothing;
}

int main(void)
{
	struct hamlyn_channel_options options = { 4096, HAMLYN_NO_LOOKS, 0, { 0 } };
	struct hamlyn_channel_message message;
	struct hamlyn_channel_sender *sender;
	struct hamlyn_channel_receiver *receiver;
	struct hamlyn_manager *other;
	struct hamlyn_card *card;
	struct pollfd ended = { 0, POLLIN, 0 };
	pthread_t thread;
	char bytes[8];
	void *room;

	if (failed(hamlyn_open(NULL, &card)) || failed(hamlyn_manager_create(card, &manager)) ||
	    failed(hamlyn_manager_create(card, &other)) ||
	    failed(hamlyn_channel_listen(manager, "two", NULL, &listener)))
		return 1;
	pthread_create(&thread, NULL, echo, NULL);
#define SAY(call) printf("%d\n", (int)(call))
	SAY(hamlyn_channel_connect(other, 0, "two", &options, &sender, &receiver, 60000));
	SAY(hamlyn_channel_is_express(sender));
	SAY(hamlyn_channel_longest(sender));
	SAY(hamlyn_channel_receive(receiver, &message, 0));
	SAY(hamlyn_channel_receive(receiver, &message, 1));
	SAY(hamlyn_channel_commit(sender));
	SAY(hamlyn_channel_reserve(sender, 70000, &room, 0));
	SAY(hamlyn_channel_reserve(sender, 5, &room, 60000));
	memcpy(room, "built", 5);
	SAY(hamlyn_channel_commit(sender));
	SAY(hamlyn_channel_commit(sender));
	SAY(hamlyn_channel_flush(sender, 60000));
	SAY(hamlyn_channel_receive(receiver, &message, 60000));
	SAY(message.length == 5 && !memcmp(message.data, "built", 5));
	SAY(hamlyn_channel_release(receiver));
	SAY(hamlyn_channel_release(receiver));
	SAY(hamlyn_channel_write(sender, "stream", 6, 60000));
	SAY(hamlyn_channel_flush(sender, 60000));
	SAY(hamlyn_channel_read(receiver, bytes, 4, 60000));
	SAY(hamlyn_channel_read(receiver, bytes + 4, 4, 60000));
	SAY(memcmp(bytes, "stream", 6));
	SAY(hamlyn_channel_read(receiver, bytes, 4, 0));
	SAY(hamlyn_channel_arm(receiver));
	SAY(hamlyn_channel_arm_room(sender, 8));
	SAY(hamlyn_channel_peer_ended(receiver));
	while (hamlyn_channel_try_close(sender) == -11)
		;
	SAY(hamlyn_channel_try_close(sender));
	SAY(hamlyn_channel_receive(receiver, &message, 60000));
	pthread_join(thread, NULL);
	ended.fd = hamlyn_channel_peer_fd(receiver);
	SAY(ended.fd > 2);
	hamlyn_channel_sender_destroy(sender);
	hamlyn_channel_receiver_destroy(receiver);
	hamlyn_channel_listener_destroy(listener);
	return 0;
}
"#;

#[test]
fn a_program_has_both_ends_of_a_channel() {
    let lab = Lab::builder().vms(0).spare_cards(1).one_process(true).start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("two.c");
    fs::write(&program, TWO_ENDS).unwrap();
    let mut command = Command::new(build(folder.path(), &program));
    let card = lab.card_socket(0).unwrap().display().to_string();
    let output = command.env("HAMLYN_CARD", format!("vfio-user:{card}")).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let said: Vec<i32> = said.lines().map(|line| line.parse().unwrap()).collect();
    let due =
        [0, 0, 61432, -11, -110, -22, -22, 0, 0, -22, 0, 1, 1, 0, 0, 6, 0, 4, 2, 0, -11, 0, 0, -11, 0, 0, 1];
    assert_eq!(said, due);
}

#[test]
fn a_stream_that_has_no_room_in_time_says_how_much_it_took() {
    let lab = Lab::builder().vms(0).spare_cards(1).one_process(true).start().unwrap();
    let statements = "\tstatic char data[1000000];\n\tstruct hamlyn_card *card;\n\tstruct hamlyn_manager *manager;\n\
         \tstruct hamlyn_seed seed;\n\tstruct hamlyn_stream_receiver *receiver;\n\
         \tstruct hamlyn_stream_sender *sender;\n\
         \tprintf(\"%d\\n\", hamlyn_open(NULL, &card) | hamlyn_manager_create(card, &manager)\n\
         \t\t| hamlyn_stream_receiver_create(manager, NULL, &receiver)\n\
         \t\t| hamlyn_stream_receiver_seed(receiver, &seed)\n\
         \t\t| hamlyn_stream_sender_create(manager, &seed, &sender));\n\
         \tprintf(\"%d\\n\", hamlyn_stream_send(sender, data, sizeof data, 50));\n\
         \tprintf(\"%d\\n\", hamlyn_stream_send(sender, data, sizeof data, 50));\n";
    let said = run_with(statements, lab.card_socket(0).unwrap());
    let said: Vec<i32> = said.iter().map(|line| line.parse().unwrap()).collect();
    // Nobody receives: what the records and what is held back have room for, and then none.
    assert_eq!((said[0], said.len()), (0, 3), "{said:?}");
    assert!((1..1_000_000).contains(&said[1]) && said[2] == -110, "{said:?}");
}

#[test]
fn the_examples_are_strict_c() {
    let folder = tempfile::tempdir().unwrap();
    for example in [
        "c-protocols.c",
        "c-echo.c",
        "c-shrimp.c",
        "c-clan.c",
        "c-clan-programs.c",
        "c-clan-server.c",
        "c-dart.c",
        "c-dart-programs.c",
        "c-express.c",
    ] {
        let program = build(folder.path(), &source().join("examples").join(example));
        let output = Command::new(program).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{example}");
    }
}
