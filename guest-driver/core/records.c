// SPDX-License-Identifier: GPL-2.0-only
/* Records of operating systems: written, found, and taken from each host in turn. */
#include <linux/crc32.h>
#include <linux/random.h>

#include "hamlyn_core.h"
#include "hamlyn_records.h"

static_assert(HAMLYN_RECORD_HOSTS <= BITS_PER_LONG_LONG && HAMLYN_RECORD_PLACES <= BITS_PER_BYTE);
static_assert(HAMLYN_RECORD_PLACES * HAMLYN_RECORD_PLACE_SIZE <= HAMLYN_PAGE_SIZE);
static_assert(sizeof(struct hamlyn_record) <= HAMLYN_RECORD_PLACE_SIZE);
static_assert(offsetof(struct hamlyn_record, data) % sizeof(u64) == 0);
static_assert(sizeof_field(struct hamlyn_record, data) == HAMLYN_MAX_NAME + HAMLYN_MAX_PRIVATE);

void hamlyn_records_begin(struct hamlyn_records *records, const struct hamlyn_pages *in)
{
	records->in = in;
	records->serial = get_random_u32();
	memset(records->seen, 0, sizeof(records->seen));
	records->news = 0;
	records->turn = 0;
	memset(records->locked, 0, sizeof(records->locked));
}

static u32 record_checksum(const struct hamlyn_record *record, u32 length)
{
	u32 head = offsetof(struct hamlyn_record, data) - offsetof(struct hamlyn_record, serial);

	return crc32_le(~0, (const u8 *)&record->serial, head + length) ^ ~0;
}

u32 hamlyn_record_write(struct hamlyn_records *records, struct hamlyn_record *record,
			const struct hamlyn_wire *wire, const void *data, u32 length)
{
	u32 padded = round_up(length, sizeof(u64));

	if (!++records->serial)
		records->serial = 1;
	record->serial = records->serial;
	record->wire = *wire;
	if (length)
		memcpy(record->data, data, length);
	/* Nothing of an earlier record is sent. */
	memset(record->data + length, 0, padded - length);
	record->checksum = record_checksum(record, length);
	return offsetof(struct hamlyn_record, data) + padded;
}

/* Copies the record at a place, if it is complete and was not seen before. */
static bool record_copy(struct hamlyn_records *records, u32 host, u32 entry)
{
	const struct hamlyn_record *record =
		page_address(records->in->page[host]) + entry * HAMLYN_RECORD_PLACE_SIZE;
	struct hamlyn_record *copy = &records->record[host][entry];
	u32 length;

	if (READ_ONCE(record->serial) == records->seen[host][entry])
		return false;
	memcpy(copy, record, sizeof(*copy));
	if (!copy->serial || copy->serial == records->seen[host][entry])
		return false;
	if (copy->wire.name_length > HAMLYN_MAX_NAME ||
	    copy->wire.private_length > HAMLYN_MAX_PRIVATE)
		return false;
	length = copy->wire.name_length + copy->wire.private_length;
	if (copy->checksum != record_checksum(copy, length))
		return false;
	records->seen[host][entry] = copy->serial;
	return true;
}

static bool records_take_from(struct hamlyn_records *records, u32 host, u32 *entry)
{
	for (*entry = 0; *entry < HAMLYN_RECORD_PLACES; ++*entry) {
		if (!(records->locked[host] & BIT(*entry)) && record_copy(records, host, *entry)) {
			records->locked[host] |= BIT(*entry);
			return true;
		}
	}
	return false;
}

/* Takes from hosts in turn, so that a host with many messages does not delay others. */
bool hamlyn_records_take(struct peer_transport *transport, u32 *host, u32 *entry)
{
	struct hamlyn_records *records = hamlyn_records_of(transport);

	while (records->news) {
		u64 behind = records->news & GENMASK_ULL(63, records->turn);

		*host = __ffs64(behind ?: records->news);
		if (records_take_from(records, *host, entry)) {
			records->turn = (*host + 1) % HAMLYN_RECORD_HOSTS;
			return true;
		}
		records->news &= ~BIT_ULL(*host);
	}
	return false;
}

/* The card reports later arrivals. */
bool hamlyn_records_more(struct peer_transport *transport)
{
	return hamlyn_records_of(transport)->news;
}

const u8 *hamlyn_records_read(struct peer_transport *transport, u32 host, u32 entry,
			      struct hamlyn_wire *wire)
{
	const struct hamlyn_record *record = &hamlyn_records_of(transport)->record[host][entry];

	*wire = record->wire;
	return record->data;
}

void hamlyn_records_reopen(struct peer_transport *transport, u32 host, u32 entry)
{
	struct hamlyn_records *records = hamlyn_records_of(transport);

	if (!(records->locked[host] & BIT(entry)))
		return;
	records->locked[host] &= ~BIT(entry);
	/* Another record may have arrived meanwhile. */
	records->news |= BIT_ULL(host);
}
