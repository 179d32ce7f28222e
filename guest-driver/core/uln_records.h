/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages between operating systems over cards that only write to each other's memory. Each system
 * has a page for every other system, whose card writes records to the places in it. Neither side
 * waits for the other. A record may be overwritten, and may be read while it is written, so it has
 * a checksum and a number. Lost records are sent again (kernel/peer.c).
 */
#ifndef _ULN_RECORDS_H
#define _ULN_RECORDS_H

#include <linux/container_of.h>

#include "uln_transport.h"
#include "uln_wire.h"

#define ULN_RECORD_HOSTS ULN_WELL_KNOWN_SLOTS
#define ULN_RECORD_PLACES (2 * ULN_WELL_KNOWN_PLACES)
#define ULN_RECORD_PLACE_SIZE ULN_WELL_KNOWN_PLACE_SIZE

struct uln_pages;

/* Part of a card's own transport structure. */
struct uln_records {
	struct peer_transport transport;
	/* One page for each host. */
	const struct uln_pages *in;
	/* Number of the last record sent, and of the last one seen in each place. */
	u32 serial;
	u32 seen[ULN_RECORD_HOSTS][ULN_RECORD_PLACES];
	/* Hosts whose pages must be checked, and the host to check first. */
	u64 news;
	u32 turn;
	/* Records that were taken: each stays until its place is opened again. */
	u8 locked[ULN_RECORD_HOSTS];
	struct uln_record record[ULN_RECORD_HOSTS][ULN_RECORD_PLACES];
};

static inline struct uln_records *uln_records_of(struct peer_transport *transport)
{
	return container_of(transport, struct uln_records, transport);
}

/* Starts with nothing sent or taken. The card's lock is held in this and all functions below. */
void uln_records_begin(struct uln_records *records, const struct uln_pages *in);
/* Writes the next record, and returns how many bytes of it to send, a multiple of 8. */
u32 uln_record_write(struct uln_records *records, struct uln_record *record,
		     const struct uln_wire *wire, const void *data, u32 length);

/* For struct peer_transport_ops. */
bool uln_records_take(struct peer_transport *transport, u32 *host, u32 *entry);
bool uln_records_more(struct peer_transport *transport);
const u8 *uln_records_read(struct peer_transport *transport, u32 host, u32 entry,
			   struct uln_wire *wire);
void uln_records_reopen(struct peer_transport *transport, u32 host, u32 entry);

#endif /* _ULN_RECORDS_H */
