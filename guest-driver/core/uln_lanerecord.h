/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records that announce deposits, for lanes of models whose cards announce none. They have places
 * in the control page, behind the reports, which take turns. The sender's card writes a record
 * after the bytes that it announces.
 */
#ifndef _ULN_LANERECORD_H
#define _ULN_LANERECORD_H

#include "uln_lane.h"

/* Where bytes have arrived, and how many. */
struct uln_lane_record {
	__le32 to;
	__le32 length;
	__le32 reserved;
	/* Counts from 1, modulo 2^32. Written last, as a card writes in the order of addresses. */
	__le32 number;
};

#define ULN_LANE_RECORDS 128
#define ULN_LANE_RECORDS_SIZE (ULN_LANE_RECORDS * sizeof(struct uln_lane_record))
#define ULN_LANE_RECORDS_AT (ULN_PAGE_SIZE - ULN_LANE_RECORDS_SIZE)
/* Some of them are for reports. */
#define ULN_LANE_RECORDS_MOST (ULN_LANE_RECORDS - 16)

/* Returns the offset of record @n, counted from 0. */
static inline u32 uln_lane_record_place(u32 n)
{
	return ULN_LANE_RECORDS_AT + n % ULN_LANE_RECORDS * sizeof(struct uln_lane_record);
}

/* Returns record @n in the mirror, from where it is sent. */
static inline struct uln_lane_record *uln_lane_record_sent(const struct uln_lane *lane, u32 n)
{
	return lane->base + uln_lane_mirror(lane) + uln_lane_record_place(n);
}

static inline void uln_lane_record_write(const struct uln_lane *lane, u32 n, u32 to, u32 length)
{
	*uln_lane_record_sent(lane, n) = (struct uln_lane_record) {
		.to = cpu_to_le32(to),
		.length = cpu_to_le32(length),
		.number = cpu_to_le32(n + 1),
	};
}

/* Returns record @n if it has arrived, else NULL. */
static inline const struct uln_lane_record *uln_lane_record_arrived(const struct uln_lane *lane,
								    u32 n)
{
	const struct uln_lane_record *record = lane->base + uln_lane_record_place(n);

	return le32_to_cpu(READ_ONCE(record->number)) == n + 1 ? record : NULL;
}

/* uln_lane_ops.take, of a model that has taken @taken records. */
static inline bool uln_lane_record_take(const struct uln_lane *lane, u32 *taken, u32 *to,
					u32 *length)
{
	const struct uln_lane_record *record = uln_lane_record_arrived(lane, *taken);

	if (!record)
		return false;
	dma_rmb(); /* What it announces arrived before it. */
	*to = le32_to_cpu(READ_ONCE(record->to));
	*length = le32_to_cpu(READ_ONCE(record->length));
	++*taken;
	return true;
}

#endif /* _ULN_LANERECORD_H */
