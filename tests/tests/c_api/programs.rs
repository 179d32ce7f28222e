//! Programs that use a card.

use std::process::Command;

use hamlyn_lab::Lab;

use crate::compiling::{build, expect, run_with, source};

#[test]
fn program_finds_names_and_accepts_or_rejects_streams() {
    // The fabric has one host, so the program waits for no other.
    let statements = "\tstruct hamlyn_card *card;\n\tstruct hamlyn_manager *manager;\n\tstruct hamlyn_card_info info;\n\
         \tstruct uln_found found;\n\tstruct hamlyn_seed seed;\n\tstruct uln_connection *connection;\n\
         \tstruct uln_connecting *asking;\n\tstruct hamlyn_stream_listener *listener;\n\
         \tstruct hamlyn_stream_request *request;\n\tstruct hamlyn_stream_sender *sender;\n\
         \tstruct hamlyn_stream_receiver *receiver, *own;\n\tuint32_t user;\n";
    const ASK: &str = "hamlyn_connect_begin(card, 0, \"svc\", &seed, sizeof(seed), &asking)";
    const FINISH: &str = "uln_connecting_finish(asking, &connection, 60000)";
    // The expected results, and the calls: 111 is ECONNREFUSED.
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
        (1, "strstr(uln_error(), \"not today\") != NULL"),
        (0, ASK),
        (0, "hamlyn_stream_listener_request(listener, &request, 60000)"),
        (0, "(hamlyn_stream_request_destroy(request), 0)"),
        (-111, FINISH),
        (0, ASK),
        (0, "hamlyn_stream_listener_request(listener, &request, 60000)"),
        // The request may outlive its listener.
        (0, "(hamlyn_stream_listener_destroy(listener), 0)"),
        (0, "hamlyn_stream_request_accept(request, &sender, &receiver)"),
        (0, FINISH),
        // ENODATA: a program at a card's socket has no user id in a machine.
        (-61, "uln_connection_user(connection, &user)"),
        (2, "hamlyn_stream_send(sender, \"hi\", 2, 60000)"),
        (0, "hamlyn_stream_flush(sender, 60000)"),
        (2, "hamlyn_stream_read(own, &seed, 2, 60000)"),
        (0, "memcmp(&seed, \"hi\", 2)"),
    ];
    expect(statements, &calls);
}

#[test]
fn program_sends_and_receives_in_its_own_memory() {
    let statements = "\tstatic _Alignas(4096) unsigned char from[65536], to[65536];\n\tstruct hamlyn_card *card;\n\
         \tstruct hamlyn_manager *manager;\n\tstruct hamlyn_area *area, *odd;\n\tstruct hamlyn_buffer *buffer;\n\
         \tstruct hamlyn_datagram_receiver *place;\n\tstruct hamlyn_datagram datagram;\n\tstruct hamlyn_ticket ticket;\n\
         \tstruct hamlyn_stream_receiver *receiver;\n\tstruct hamlyn_stream_sender *sender;\n\tstruct hamlyn_seed seed;\n\
         \tstruct hamlyn_record record;\n\tstruct hamlyn_tag_receiver *tags;\n\tuint32_t tag;\n\
         \tstruct hamlyn_stream_options options = { 4096, 8, 0, { 0 } };\n\tsize_t at;\n\n\
         \tfor (at = 0; at < sizeof(from); at++)\n\t\tfrom[at] = (unsigned char)(at * 7 + 1);\n";
    // The expected results, and the calls: 95 is EOPNOTSUPP.
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
        // Private memory again, with the received data.
        (0, "memcmp(to + 64, from + 3000, 1000)"),
        (0, "hamlyn_buffer_create(manager, NULL, 100, &buffer)"),
        (1, "hamlyn_buffer_data(buffer) != NULL"),
        (0, "(hamlyn_buffer_destroy(buffer), 0)"),
    ];
    expect(statements, &calls);
}

#[test]
fn lower_layer_is_complete() {
    let statements = "\tstruct hamlyn_card *card;\n\tstruct hamlyn_area *area;\n\tstruct hamlyn_queue *queue;\n\tstruct hamlyn_slot *slot, *words;\n\
         \tstruct hamlyn_terminus *terminus;\n\tstruct hamlyn_ticket ticket, fast, tickets[2];\n\tstruct hamlyn_notification news;\n\
         \tstruct hamlyn_slot_options options = { 64, 1024, 4, HAMLYN_MODE_ONE_SHOT, 77, 0, { 0 } };\n\
         \tstruct hamlyn_slot_options plain = { 2048, 0, 1, HAMLYN_MODE_NORMAL, 78, HAMLYN_SLOT_FETCHABLE, { 0 } };\n\
         \tstruct hamlyn_slot_options wrong = { 0, 0, 0, 3, 0, 0, { 0 } };\n\
         \tstruct hamlyn_message message = { .metadata = \"meta\", .metadata_length = 4, .offset = 8, .flags = HAMLYN_MESSAGE_INTERRUPT }, word = { .word = 9 };\n\
         \tstruct hamlyn_send_buffer *buffer;\n\tstruct hamlyn_piece pieces[2];\n\tstruct hamlyn_share whole, parts[2], taken;\n\
         \tstruct hamlyn_entrance *entrance[2];\n\tstruct hamlyn_barrier *barrier[2];\n\tuint64_t found, values[2];\n\
         \tchar metadata[HAMLYN_METADATA_SIZE], name[HAMLYN_TEXT_SIZE];\n\tchar *data;\n\
         \tstruct hamlyn_post posts[3] = { 0 };\n\tstruct hamlyn_handle *handles[3];\n\tstruct hamlyn_notification many[3];\n\
         \tstruct pollfd sent = { 0, POLLIN, 0 };\n\n";
    // The expected results, and the calls.
    let calls = [
        (0, "hamlyn_open(NULL, &card)"),
        (0, "hamlyn_area_create(card, NULL, 4096, &area)"),
        (1, "(data = hamlyn_area_data(area)) != NULL"),
        (0, "hamlyn_queue_create(card, 16, &queue)"),
        (-22, "hamlyn_slot_create(card, area, queue, &wrong, &slot)"),
        (0, "hamlyn_slot_create(card, area, queue, &options, &slot)"),
        (0, "hamlyn_slot_create(card, area, queue, &plain, &words)"),
        (0, "hamlyn_terminus_create(card, 1, &terminus)"),
        // One message to an entry with its own key, and none after it until the entry is reopened.
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
        // A batch: bytes and a piece, with one doorbell; and both notifications with one look.
        (0, "(posts[0].ticket = posts[1].ticket = &fast, posts[0].data = \"batch\", posts[0].length = 5, 0)"),
        (0, "(posts[0].message.word = 1, posts[0].message.context = UINT64_C(1) << 40, 0)"),
        (0, "(posts[1].pieces = pieces, posts[1].piece_count = 1, posts[1].message.offset = 8, 0)"),
        (-22, "hamlyn_terminus_post_batch(terminus, posts, 3, handles, 0)"),
        (-22, "(posts[0].piece_count = 1, hamlyn_terminus_post_batch(terminus, posts, 2, handles, 0))"),
        (2, "(posts[0].piece_count = 0, hamlyn_terminus_post_batch(terminus, posts, 2, handles, 60000))"),
        (0, "hamlyn_handle_wait(handles[1], 60000)"),
        (40, "hamlyn_handle_context(handles[0], &found) ? 0 : 40 * (found == UINT64_C(1) << 40)"),
        (0, "hamlyn_handle_context(handles[1], &found) + (int)found"),
        (0, "(hamlyn_handle_destroy(handles[0]), hamlyn_handle_destroy(handles[1]), 0)"),
        (0, "hamlyn_terminus_post_batch(terminus, NULL, 0, NULL, 0)"),
        (1, "hamlyn_queue_receive_many(queue, many, 1, 60000)"),
        (1, "hamlyn_queue_receive_many(queue, many + 1, 2, 60000)"),
        (1, "many[0].word + many[1].word"),
        (-11, "hamlyn_queue_receive_many(queue, many, 3, 0)"),
        (0, "hamlyn_queue_receive_many(queue, many, 0, 0)"),
        (0, "memcmp(data + 2048, \"batch\", 5) || memcmp(data + 2056, \"here\", 4)"),
        (0, "(memset(data + 2048, 0, 12), 0)"),
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
fn timed_out_stream_send_returns_accepted_bytes() {
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
    // Without a receiver, the stream takes as much as its records and its own buffer hold, and then
    // nothing.
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

/// Handles, receiver classes, groups and tokens. Machines run the same program.
#[test]
fn each_call_returns_the_expected_value() {
    let lab = Lab::builder().vms(0).spare_cards(1).one_process(true).start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(build(folder.path(), &source().join("../../tests/guest/c/c-check.c")));
    let card = format!("vfio-user:{}", lab.card_socket(0).unwrap().display());
    let output = command.env("HAMLYN_CARD", card).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.ends_with(",\"wrong\":0}\n"), "{said}");
}

#[test]
fn forgotten_partial_message_leaves_entry_empty() {
    let statements = "\tstruct hamlyn_card *card;\n\tstruct hamlyn_terminus *terminus;\n\tstruct hamlyn_queue *queue;\n\
         \tstruct hamlyn_area *area;\n\tstruct hamlyn_slot *slot;\n\tstruct hamlyn_ticket ticket;\n\
         \tstruct hamlyn_notification news;\n\tchar metadata[HAMLYN_METADATA_SIZE], zeros[HAMLYN_METADATA_SIZE] = { 0 };\n\
         \tstruct hamlyn_slot_options options = { 64, 1024, 1, HAMLYN_MODE_ONE_SHOT, 77, 0, { 0 } };\n\
         \tstruct hamlyn_message half = { .metadata = \"meta\", .metadata_length = 4, .delta = 1 };\n";
    let calls = [
        (0, "hamlyn_open(NULL, &card)"),
        (0, "hamlyn_terminus_create(card, 1, &terminus)"),
        (0, "hamlyn_queue_create(card, 16, &queue)"),
        (0, "hamlyn_area_create(card, NULL, 4096, &area)"),
        (0, "hamlyn_slot_create(card, area, queue, &options, &slot)"),
        (0, "hamlyn_slot_protect(slot, 0, 0, 512)"),
        (0, "hamlyn_slot_ticket(slot, 0, &ticket)"),
        (0, "hamlyn_slot_is_partial(slot, 0)"),
        (0, "hamlyn_terminus_send(terminus, &ticket, &half, \"half\", 5, 60000)"),
        (1, "while (!hamlyn_slot_is_partial(slot, 0))\n\t\t;\n\thamlyn_slot_is_partial(slot, 0)"),
        (0, "hamlyn_slot_metadata(slot, 0, metadata) | memcmp(metadata, \"meta\", 4)"),
        (0, "hamlyn_slot_forget(slot, 0)"),
        (0, "hamlyn_slot_is_partial(slot, 0)"),
        (0, "hamlyn_slot_metadata(slot, 0, metadata) | memcmp(metadata, zeros, sizeof(zeros))"),
        // Its ticket stays valid, and a whole message is recognized as one.
        (0, "hamlyn_terminus_send(terminus, &ticket, NULL, \"whole\", 6, 60000)"),
        (0, "hamlyn_queue_receive(queue, &news, 60000)"),
        (1, "hamlyn_slot_is_locked(slot, 0)"),
        (-22, "hamlyn_slot_forget(slot, 1)"),
    ];
    expect(statements, &calls);
}
