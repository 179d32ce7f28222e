/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Messages between operating systems: struct uln_wire, ULN_WIRE_* and ULN_WELL_KNOWN_*.
 *
 * They are generated into one header with a card's contract. This folder uses nothing else of that
 * header.
 *
 * Transports carry struct uln_wire, which is little-endian. peer.c converts it: all else in this
 * folder, and services, have struct uln_head.
 */
#ifndef _ULN_WIRE_H
#define _ULN_WIRE_H

#include <asm/byteorder.h>

#include "uln_kernel.h"

/* The head of a message, struct uln_wire, in the processor's byte order. */
struct uln_head {
	u64 incarnation;
	u64 to_incarnation;
	u32 sequence;
	u32 expected;
	u32 kind;
	u32 from;
	u32 to;
	u32 reason;
	u32 name_length;
	u32 private_length;
	u32 request;
	u32 user;
};

static inline struct uln_wire uln_wire_pack(const struct uln_head *head)
{
	return (struct uln_wire) {
		.incarnation = cpu_to_le64(head->incarnation),
		.to_incarnation = cpu_to_le64(head->to_incarnation),
		.sequence = cpu_to_le32(head->sequence),
		.expected = cpu_to_le32(head->expected),
		.kind = cpu_to_le32(head->kind),
		.from = cpu_to_le32(head->from),
		.to = cpu_to_le32(head->to),
		.reason = cpu_to_le32(head->reason),
		.name_length = cpu_to_le32(head->name_length),
		.private_length = cpu_to_le32(head->private_length),
		.request = cpu_to_le32(head->request),
		.user = cpu_to_le32(head->user),
	};
}

static inline struct uln_head uln_wire_unpack(const struct uln_wire *wire)
{
	return (struct uln_head) {
		.incarnation = le64_to_cpu(wire->incarnation),
		.to_incarnation = le64_to_cpu(wire->to_incarnation),
		.sequence = le32_to_cpu(wire->sequence),
		.expected = le32_to_cpu(wire->expected),
		.kind = le32_to_cpu(wire->kind),
		.from = le32_to_cpu(wire->from),
		.to = le32_to_cpu(wire->to),
		.reason = le32_to_cpu(wire->reason),
		.name_length = le32_to_cpu(wire->name_length),
		.private_length = le32_to_cpu(wire->private_length),
		.request = le32_to_cpu(wire->request),
		.user = le32_to_cpu(wire->user),
	};
}

#endif /* _ULN_WIRE_H */
