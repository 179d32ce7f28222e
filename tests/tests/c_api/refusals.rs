//! The refusals of calls, and their reasons.

use std::fmt::Write as _;

use crate::compiling::{expect, functions, headers, run};

#[test]
fn null_pointers_are_refused_with_a_reason() {
    let mut statements = String::from("\tprintf(\"%s\\n\", uln_error());\n");
    for declaration in headers().split(";\n").filter_map(|text| text.rsplit("*/\n").next()) {
        let Some((name, arguments)) = declaration.split_once('(') else { continue };
        let Some(name) = name.strip_prefix("int ") else { continue };
        // A null card name means the card that the environment names.
        let pointers = arguments.split(',').map(|argument| if argument.contains('*') { "NULL" } else { "1" });
        let pointers: Vec<_> = pointers.collect();
        let _ = writeln!(statements, "\tprintf(\"%d \", {name}({}));", pointers.join(", "));
        statements.push_str("\tputs(uln_error());\n");
    }
    let said = run(&statements);
    assert_eq!(said[0], "", "no error yet");
    assert_eq!(said.len() - 1, functions().iter().filter(|name| !is_void(name)).count() - NO_OUTCOME);
    for line in &said[1..] {
        assert!(line.starts_with("-22 ") && line.ends_with("is a null pointer"), "{line}");
    }
}

/// Functions that return no outcome, except those that release something: uln_version,
/// uln_error, addresses, data, a size, a barrier, the name of a model.
const NO_OUTCOME: usize = 14;

fn is_void(name: &str) -> bool {
    ["hamlyn_close", "shrimp_close", "clan_close", "dart_close", "uln_card_close"].contains(&name)
        || name.ends_with("_destroy")
}

#[test]
fn releasing_null_does_nothing() {
    let mut statements = String::new();
    for name in functions().iter().filter(|name| is_void(name)) {
        let _ = writeln!(statements, "\t{name}(NULL);");
    }
    statements.push_str("\tputs(uln_error());\n");
    assert_eq!(run(&statements), [""]);
}

#[test]
fn failed_opens_and_parses_have_a_reason() {
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
        let _ = writeln!(statements, "\tprintf(\"%d \", {call});\n\tputs(uln_error());");
    }
    let said = run(&statements);
    let said: Vec<(&str, &str)> = said.iter().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(said[0].0, "-25", "{said:?}");
    assert_eq!(said[1].0, "-2", "{said:?}");
    assert_eq!(said[2], ("-22", "ticket has 2 digits instead of 80"));
    assert_eq!(said[3], ("-22", "ticket does not start with the letters HT"));
    assert_eq!(said[4].0, "-2", "{said:?}");
    assert_eq!(said[5].0, "-25", "{said:?}");
    assert_eq!(said[6], ("-22", "handle does not start with \"shrimp2:\""));
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
fn zero_timeout_does_not_wait() {
    let statements = "\tstruct hamlyn_card *card;\n\tstruct hamlyn_manager *manager;\n\tstruct hamlyn_seed seed;\n\
         \tstruct hamlyn_stream_receiver *receiver;\n\tstruct hamlyn_stream_sender *sender;\n\
         \tstruct hamlyn_record record;\n\tstruct hamlyn_tag_receiver *tags;\n\
         \tstruct hamlyn_datagram_receiver *place;\n\tstruct hamlyn_datagram datagram;\n\tuint32_t tag;\n\
         \tstruct hamlyn_ticket ticket;\n\tstruct hamlyn_manager *other;\n\
         \tstruct hamlyn_manager_options wrong = { 0, 0, { 1 } }, few = { 2, ULN_NO_POLLING, { 0 } };\n";
    const CLOSE: &str =
        "while (hamlyn_stream_try_close(sender) == -11)\n\t\t;\nhamlyn_stream_try_close(sender)";
    // The expected results, and the calls: 0 is success, 11 EAGAIN, 107 ENOTCONN.
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
        (0, "uln_version() - ULN_VERSION"),
        (0, CLOSE),
        (0, "hamlyn_stream_receive(receiver, &record, 60000)"),
    ];
    expect(statements, &calls);
}
