//! C and Rust agree on every size and offset.

use std::fmt::Write as _;
use std::mem::offset_of;

use hamlyn_c::{
    clan_address, clan_cache_info, clan_card_info, clan_descriptor, clan_descriptor_info, clan_element,
    clan_endpoint_options, clan_event, clan_fault, clan_message, clan_part, clan_peer, clan_peer_end,
    clan_transfer, clan_watch, dart_address, dart_address_info, dart_card_info, dart_condition,
    dart_connection_options, dart_lock_registers, dart_log, dart_operation, dart_piece,
    dart_priority_registers, dart_record, dart_status, dart_step, dart_urgent, hamlyn_arrived,
    hamlyn_card_info, hamlyn_datagram, hamlyn_express_info, hamlyn_manager_options, hamlyn_message,
    hamlyn_notification, hamlyn_piece, hamlyn_post, hamlyn_receiver_class, hamlyn_record, hamlyn_seed,
    hamlyn_share, hamlyn_slot_options, hamlyn_stream_options, hamlyn_ticket, shrimp_card_info, shrimp_handle,
    shrimp_handle_info, shrimp_memory, uln_end, uln_found, uln_message, uln_options, uln_passed,
};

use crate::compiling::{headers, run};

/// The size of each structure and the offset of each field, in C and in Rust.
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
fn c_and_rust_agree_on_sizes_and_offsets() {
    let rust = layout! {
        hamlyn_card_info { host, abi_version, packet_size, sram_size, termini, slots, queues, vectors, ports, sram_free, reserved }
        uln_found { hosts, too_old, silent, reserved }
        hamlyn_ticket { bytes }
        hamlyn_seed { bytes }
        hamlyn_datagram { data, length, offset, has_reply, reply, reserved }
        hamlyn_arrived { slot, entry, metadata, reserved }
        hamlyn_receiver_class { process_arrival, arrivals_lost, context, reserved }
        hamlyn_manager_options { entries, polling_us, reserved }
        hamlyn_stream_options { record_size, records, max_records, reserved }
        hamlyn_record { number, data, length, reserved }
        uln_passed { data, length, reserved }
        uln_end { reason, length, data, reserved }
        hamlyn_notification { metadata, slot, index, is_fast, word, reserved }
        hamlyn_slot_options { start, length, metadata_entries, mode, index, flags, reserved }
        hamlyn_share { bytes }
        hamlyn_message { metadata, metadata_length, offset, word, flags, delta, context, reserved }
        hamlyn_piece { buffer, start, length }
        hamlyn_post { ticket, data, length, pieces, piece_count, message, reserved }
        shrimp_card_info { host, abi_version, pages, columns, fifo, snoops, ports, reserved }
        shrimp_handle { bytes }
        shrimp_handle_info { length, host, number, place, reserved }
        shrimp_memory { loads, stores, commands, length, mode, reserved }
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
        uln_options { capacity, polling_us, flags, reserved }
        uln_message { data, length, reserved }
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
