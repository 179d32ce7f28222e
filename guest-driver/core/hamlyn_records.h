/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How operating systems reach each other by cards that only write to each other's memory: each has
 * a page for every other, to whose places that one's card writes records. Neither side waits for
 * the other: a record may be overwritten, and may be looked at while it is written, so it has a
 * checksum and a number. What is lost is sent again (kernel/peer.c).
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

/* A part of what a card has for it. */
struct hamlyn_records {
	struct peer_transport transport;
	/* A page for each host. */
	const struct hamlyn_pages *in;
	/* The last record's number, of ours and of those that were looked at. */
	u32 serial;
	u32 seen[HAMLYN_RECORD_HOSTS][HAMLYN_RECORD_PLACES];
	/* Hosts whose pages are to be looked at, and whose turn it is. */
	u64 news;
	u32 turn;
	/* What was taken: it stays until its place is opened again. */
	u8 locked[HAMLYN_RECORD_HOSTS];
	struct hamlyn_record record[HAMLYN_RECORD_HOSTS][HAMLYN_RECORD_PLACES];
};

static inline struct hamlyn_records *hamlyn_records_of(struct peer_transport *transport)
{
	return container_of(transport, struct hamlyn_records, transport);
}

/* Nothing has been sent or taken yet. The card's lock is held in this and all the others. */
void hamlyn_records_begin(struct hamlyn_records *records, const struct hamlyn_pages *in);
/* Writes the next one, and answers how many bytes of it are to be sent, a multiple of 8. */
u32 hamlyn_record_write(struct hamlyn_records *records, struct hamlyn_record *record,
			const struct hamlyn_wire *wire, const void *data, u32 length);

/* For struct peer_transport_ops. */
bool hamlyn_records_take(struct peer_transport *transport, u32 *host, u32 *entry);
bool hamlyn_records_more(struct peer_transport *transport);
const u8 *hamlyn_records_read(struct peer_transport *transport, u32 host, u32 entry,
			      struct hamlyn_wire *wire);
void hamlyn_records_reopen(struct peer_transport *transport, u32 host, u32 entry);

#endif /* _HAMLYN_RECORDS_H */
