// SPDX-License-Identifier: GPL-2.0-only
/*
 * A driver that takes records of operating systems. It reads line by line what has arrived in its
 * pages, and prints what it takes. core/records.c is compiled unchanged.
 *
 *   put HOST PLACE REASON   a record of a host is written to its place
 *   tear HOST PLACE         half of a record is written, with the rest of another
 *   news HOST               the card reports an arrival from a host
 *   take                    prints what is taken: host, place, and the message's reason
 *   reopen HOST PLACE       a place's message has been read
 */
#include <stdio.h>
#include <stdlib.h>

#include "uln_records.h"

/* Each host's sender state, and the receiver of their records. */
static struct uln_records senders[ULN_RECORD_HOSTS], receiver;
static struct uln_pages pages;

u32 get_random_u32(void)
{
	/* So that numbers wrap past 0. */
	return ~0u - 2;
}

static void *place(u32 host, u32 entry)
{
	return (u8 *)pages.page[host] + entry * ULN_RECORD_PLACE_SIZE;
}

static void put(u32 host, u32 entry, u32 reason, u32 part)
{
	const struct uln_head head = { .reason = reason, .private_length = 5 };
	const struct uln_wire wire = uln_wire_pack(&head);
	struct uln_record record;
	u32 length = uln_record_write(&senders[host], &record, &wire, "hello", 5);

	memcpy(place(host, entry), &record, length / part);
}

static void take(void)
{
	struct uln_wire wire;
	u32 host, entry;

	if (!uln_records_take(&receiver.transport, &host, &entry)) {
		puts(uln_records_more(&receiver.transport) ? "more" : "none");
		return;
	}
	if (memcmp(uln_records_read(&receiver.transport, host, entry, &wire), "hello", 5))
		abort();
	printf("%u %u %u\n", host, entry, le32_to_cpu(wire.reason));
}

int main(void)
{
	u32 host, entry = 0, reason;
	char verb[16], line[80];

	for (host = 0; host < ULN_RECORD_HOSTS; host++) {
		pages.page[host] = calloc(1, ULN_PAGE_SIZE);
		uln_records_begin(&senders[host], &pages);
	}
	uln_records_begin(&receiver, &pages);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%15s %u %u %u", verb, &host, &entry, &reason) < 1)
			return 1;
		if (!strcmp(verb, "put"))
			put(host, entry, reason, 1);
		else if (!strcmp(verb, "tear"))
			put(host, entry, 99, 2);
		else if (!strcmp(verb, "news"))
			receiver.news |= BIT_ULL(host);
		else if (!strcmp(verb, "take"))
			take();
		else if (!strcmp(verb, "reopen"))
			uln_records_reopen(&receiver.transport, host, entry);
		else
			return 1;
	}
	return 0;
}
