/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lanes: what a model provides for channels of the kernel (uln_channel.h).
 *
 * A lane is a path to one host in both directions. Both ends have memory with the same layout:
 *
 *   0              control block, written by the other host: its reports (uln_lane_report)
 *   page           ring, written by the other host
 *   page + size    this host's control block, and ring, as the other host will have them (mirror)
 *
 * A sender builds frames in the mirror, and has the card deposit them at the same place of the
 * other host's ring. The card announces each deposit to the receiver, in order.
 */
#ifndef _ULN_LANE_H
#define _ULN_LANE_H

#include "uln_core.h"

struct uln_lane;

/* Maximum bytes by which one end of a lane describes itself to the other. */
#define ULN_LANE_ADDRESS 32

/**
 * struct uln_lane_ops - how a model carries lanes. The card's lock is not held in any of them
 * @size: bytes of the model's own structure, uln_lane.model, which is all zero at first
 * @apart: the mirror is memory of its own, and the model may take either part from the lane
 * @longest: maximum bytes of a deposit
 * @most: maximum number of deposits in the ring that the other end has not taken
 * @open: opens a lane to uln_lane.host: uln_lane.memory exists and is mapped. Sets .address, and
 *	calls uln_lane_watch(), or has @connect do so
 * @connect: the other end has this address: deposits may be made from now on
 * @close: releases what @open has taken beside objects of uln_lane.file, which have ended. NULL:
 *	nothing
 * @send: deposits @length bytes from offset @from of this end's memory at offset @to of the
 *	other's: in the ring, as number uln_lane.deposits, or a report in the control block.
 *	A report may overtake others, but must not arrive after the eighth that follows it: they
 *	have the same place. If the card fetches reports late, all sends must stay in order.
 *	The other card announces the bytes when they have arrived. False: the card is full, and
 *	the lane wakes its user when that is over, or has been asked to (uln_lane_again()); or the
 *	lane is broken, and the model has called uln_lane_broke(). Called with uln_lane.lock held
 * @take: takes the next announcement: where bytes have arrived, and how many, both unchecked.
 *	False: none has come
 * @arm: has the lane wake its user at the next announcement. False: one has come already
 */
struct uln_lane_ops {
	size_t size;
	bool apart;
	u32 longest;
	u32 most;
	int (*open)(struct uln_lane *lane);
	int (*connect)(struct uln_lane *lane, const u8 *address);
	void (*close)(struct uln_lane *lane);
	bool (*send)(struct uln_lane *lane, u32 from, u32 to, u32 length);
	bool (*take)(struct uln_lane *lane, u32 *to, u32 *length);
	bool (*arm)(struct uln_lane *lane);
};

/* The owner of a lane, whom the model tells of news. Any context; interrupts may be off. */
struct uln_lane_user {
	/* Bytes, or room for more, may have come. */
	void (*woken)(struct uln_lane *lane);
	/* Nothing more can be sent or received. */
	void (*broke)(struct uln_lane *lane);
};

/* In the control block: what a receiver has released since the lane was opened, modulo 2^32. */
struct uln_lane_report {
	__le32 bytes;
	__le32 deposits;
};

struct uln_lane {
	const struct uln_lane_ops *ops;
	const struct uln_lane_user *user;
	/* Owns the model's objects. */
	struct uln_file file;
	u32 host;
	/* The model's own structure, and by what the other end reaches this one. */
	void *model;
	u8 address[ULN_LANE_ADDRESS];
	/* Where the model waits for announcements, and for room at the card. */
	struct wait_queue_entry waits[2];
	wait_queue_head_t *waited[2];
	/* Wakes the lane's user in a moment. */
	struct work_struct again;

	struct uln_pages *memory;
	/* Memory of the mirror if it is apart, else NULL. */
	struct uln_pages *mirror;
	void *base;
	u32 size;
	/* Nothing can be sent or received. */
	bool broken;

	/* The sender's: bytes appended, passed to the card, and released by the other host. */
	u32 appended;
	u32 passed;
	u32 released;
	/* The same of deposits: passed to the card, and taken by the other host. */
	u32 deposits;
	u32 deposits_taken;
	/* The bytes that were reserved before the frame, to begin at the ring's start. */
	u32 skipped;
	/* The receiver's: bytes that have arrived, were released, and were reported as released. */
	u32 arrived;
	u32 taken;
	u32 reported;
	/* Deposits that have arrived, and that were reported. */
	u32 announced;
	u32 announced_reported;
	/* Number of reports. */
	u32 reports;
	/* Bytes of the frame that is lent. */
	u32 lent;
	/* Guards @send, which both use, and @passed. */
	spinlock_t lock;
};

/* lane.c */
void uln_lane_watch(struct uln_lane *lane, wait_queue_head_t *announced,
		    wait_queue_head_t *room);
void uln_lane_again(struct uln_lane *lane);
void uln_lane_broke(struct uln_lane *lane);
int uln_lane_open(struct uln_lane *lane, u32 size);
void uln_lane_close(struct uln_lane *lane);
u32 uln_lane_longest(const struct uln_lane *lane);
void *uln_lane_reserve(struct uln_lane *lane, u32 length);
void uln_lane_commit(struct uln_lane *lane, u32 length);
bool uln_lane_flush(struct uln_lane *lane);
const void *uln_lane_next(struct uln_lane *lane, u32 *length);
void uln_lane_release(struct uln_lane *lane);
bool uln_lane_arm(struct uln_lane *lane);

/* Returns the offset of the mirror. */
static inline u32 uln_lane_mirror(const struct uln_lane *lane)
{
	return ULN_PAGE_SIZE + lane->size;
}

/* Returns whether an offset is in the ring, and not in the control block before it. */
static inline bool uln_lane_is_ring(u32 offset)
{
	return offset >= ULN_PAGE_SIZE;
}

#endif /* _ULN_LANE_H */
