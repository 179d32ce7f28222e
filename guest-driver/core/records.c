// SPDX-License-Identifier: GPL-2.0-only
/* Records of operating systems: written, found, and taken from each host in turn. */
#include <linux/crc32.h>
#include <linux/random.h>

#include "uln_core.h"
#include "uln_records.h"

static_assert(ULN_RECORD_HOSTS <= BITS_PER_LONG_LONG && ULN_RECORD_PLACES <= BITS_PER_BYTE);
static_assert(ULN_RECORD_PLACES * ULN_RECORD_PLACE_SIZE <= ULN_PAGE_SIZE);
static_assert(sizeof(struct uln_record) <= ULN_RECORD_PLACE_SIZE);
static_assert(offsetof(struct uln_record, data) % sizeof(u64) == 0);
static_assert(sizeof_field(struct uln_record, data) == ULN_MAX_NAME + ULN_MAX_PRIVATE);

void uln_records_begin(struct uln_records *records, const struct uln_pages *in)
{
	records->in = in;
	records->serial = get_random_u32();
	memset(records->seen, 0, sizeof(records->seen));
	records->news = 0;
	records->turn = 0;
	memset(records->locked, 0, sizeof(records->locked));
}

static u32 record_checksum(const struct uln_record *record, u32 length)
{
	u32 head = offsetof(struct uln_record, data) - offsetof(struct uln_record, serial);

	return crc32_le(~0, (const u8 *)&record->serial, head + length) ^ ~0;
}

u32 uln_record_write(struct uln_records *records, struct uln_record *record,
		     const struct uln_wire *wire, const void *data, u32 length)
{
	u32 padded = round_up(length, sizeof(u64));

	if (!++records->serial)
		records->serial = 1;
	record->serial = cpu_to_le32(records->serial);
	record->wire = *wire;
	if (length)
		memcpy(record->data, data, length);
	/* Nothing of an earlier record is sent. */
	memset(record->data + length, 0, padded - length);
	record->checksum = cpu_to_le32(record_checksum(record, length));
	return offsetof(struct uln_record, data) + padded;
}

/* Copies the record at a place, if it is complete and was not seen before. */
static bool record_copy(struct uln_records *records, u32 host, u32 entry)
{
	const struct uln_record *record =
		page_address(records->in->page[host]) + entry * ULN_RECORD_PLACE_SIZE;
	struct uln_record *copy = &records->record[host][entry];
	u32 seen = records->seen[host][entry], serial;
	struct uln_head head;
	u32 length;

	if (le32_to_cpu(READ_ONCE(record->serial)) == seen)
		return false;
	memcpy(copy, record, sizeof(*copy));
	serial = le32_to_cpu(copy->serial);
	if (!serial || serial == seen)
		return false;
	head = uln_wire_unpack(&copy->wire);
	if (head.name_length > ULN_MAX_NAME || head.private_length > ULN_MAX_PRIVATE)
		return false;
	length = head.name_length + head.private_length;
	if (le32_to_cpu(copy->checksum) != record_checksum(copy, length))
		return false;
	records->seen[host][entry] = serial;
	return true;
}

static bool records_take_from(struct uln_records *records, u32 host, u32 *entry)
{
	for (*entry = 0; *entry < ULN_RECORD_PLACES; ++*entry) {
		if (!(records->locked[host] & BIT(*entry)) && record_copy(records, host, *entry)) {
			records->locked[host] |= BIT(*entry);
			return true;
		}
	}
	return false;
}

/* Takes from hosts in turn, so that a host with many messages does not delay others. */
bool uln_records_take(struct peer_transport *transport, u32 *host, u32 *entry)
{
	struct uln_records *records = uln_records_of(transport);

	while (records->news) {
		u64 behind = records->news & GENMASK_ULL(63, records->turn);

		*host = __ffs64(behind ?: records->news);
		if (records_take_from(records, *host, entry)) {
			records->turn = (*host + 1) % ULN_RECORD_HOSTS;
			return true;
		}
		records->news &= ~BIT_ULL(*host);
	}
	return false;
}

/* The card reports later arrivals. */
bool uln_records_more(struct peer_transport *transport)
{
	return uln_records_of(transport)->news;
}

const u8 *uln_records_read(struct peer_transport *transport, u32 host, u32 entry,
			   struct uln_wire *wire)
{
	const struct uln_record *record = &uln_records_of(transport)->record[host][entry];

	*wire = record->wire;
	return record->data;
}

void uln_records_reopen(struct peer_transport *transport, u32 host, u32 entry)
{
	struct uln_records *records = uln_records_of(transport);

	if (!(records->locked[host] & BIT(entry)))
		return;
	records->locked[host] &= ~BIT(entry);
	/* Another record may have arrived meanwhile. */
	records->news |= BIT_ULL(host);
}
