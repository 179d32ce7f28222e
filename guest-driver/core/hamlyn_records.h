/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages between operating systems over cards that only write to each other's memory. Each system
 * has a page for every other system, whose card writes records to the places in it. Neither side
 * waits for the other. A record may be overwritten, and may be read while it is written, so it has
 * a checksum and a number. Lost records are sent again (kernel/peer.c).
 */
#ifndef _HAMLYN_RECORDS_H
#define _HAMLYN_RECORDS_H

#include <linux/container_of.h>

#include "hamlyn_transport.h"
#include "hamlyn_wire.h"

#define HAMLYN_RECORD_HOSTS HAMLYN_WELL_KNOWN_SLOTS
#define HAMLYN_RECORD_PLACES (2 * HAMLYN_WELL_KNOWN_PLACES)
#define HAMLYN_RECORD_PLACE_SIZE HAMLYN_WELL_KNOWN_PLACE_SIZE

struct hamlyn_pages;

/* Part of a card's own transport structure. */
struct hamlyn_records {
	struct peer_transport transport;
	/* One page for each host. */
	const struct hamlyn_pages *in;
	/* Number of the last record sent, and of the last one seen in each place. */
	u32 serial;
	u32 seen[HAMLYN_RECORD_HOSTS][HAMLYN_RECORD_PLACES];
	/* Hosts whose pages must be checked, and the host to check first. */
	u64 news;
	u32 turn;
	/* Records that were taken: each stays until its place is opened again. */
	u8 locked[HAMLYN_RECORD_HOSTS];
	struct hamlyn_record record[HAMLYN_RECORD_HOSTS][HAMLYN_RECORD_PLACES];
};

static inline struct hamlyn_records *hamlyn_records_of(struct peer_transport *transport)
{
	return container_of(transport, struct hamlyn_records, transport);
}

/* Starts with nothing sent or taken. The card's lock is held in this and all functions below. */
void hamlyn_records_begin(struct hamlyn_records *records, const struct hamlyn_pages *in);
/* Writes the next record, and returns how many bytes of it to send, a multiple of 8. */
u32 hamlyn_record_write(struct hamlyn_records *records, struct hamlyn_record *record,
			const struct hamlyn_wire *wire, const void *data, u32 length);

/* For struct peer_transport_ops. */
bool hamlyn_records_take(struct peer_transport *transport, u32 *host, u32 *entry);
bool hamlyn_records_more(struct peer_transport *transport);
const u8 *hamlyn_records_read(struct peer_transport *transport, u32 host, u32 entry,
			      struct hamlyn_wire *wire);
void hamlyn_records_reopen(struct peer_transport *transport, u32 host, u32 entry);

#endif /* _HAMLYN_RECORDS_H */
