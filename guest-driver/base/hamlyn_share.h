/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Counters of what a user may hold a share of, and memory that is charged to it (share.c). Call all
 * of these with the card's lock held. All of them accept NULL as the share.
 */
#ifndef _HAMLYN_SHARE_H
#define _HAMLYN_SHARE_H

#include <linux/types.h>

#include "hamlyn_family_uapi.h"

struct hamlyn_share;
struct mem_cgroup;

/* Lower numbers are the card's own (card_ops.shared). */
enum {
	HAMLYN_CONNECTIONS = HAMLYN_SHARE_CONNECTIONS,
	HAMLYN_KINDS
};

void hamlyn_share_get(struct hamlyn_share *share);
void hamlyn_share_put(struct hamlyn_share *share);

/**
 * hamlyn_share_take() - count one more object for a user
 * @share: the user's share; NULL: the driver's own, which is not counted
 * @kind: kind of object
 * @privileged: the user may hold all objects
 *
 * Return: 0; -EDQUOT if the user may hold no more, -ENOSPC if the card has no more.
 */
int hamlyn_share_take(struct hamlyn_share *share, unsigned int kind, bool privileged);
void hamlyn_share_give(struct hamlyn_share *share, unsigned int kind);
/* The same for several objects at once: all or none. */
int hamlyn_share_take_some(struct hamlyn_share *share, unsigned int kind, u32 count,
			   bool privileged);
void hamlyn_share_give_some(struct hamlyn_share *share, unsigned int kind, u32 count);

/**
 * hamlyn_share_say() - count one more message that waits for a host
 * @share: the user's share
 * @host: the host
 * @waiting: number of messages that wait for it
 * @most: limit of @waiting
 *
 * Return: 0; -ENOBUFS if others may queue a message for the host, but this user may not.
 */
int hamlyn_share_say(struct hamlyn_share *share, u32 host, u32 waiting, u32 most);
/* Reverts hamlyn_share_say(): the message no longer waits. */
void hamlyn_share_said(struct hamlyn_share *share, u32 host);
/* Returns the user's id in the kernel plus 1; 0 for the driver's own. */
u32 hamlyn_share_user(const struct hamlyn_share *share);
/* Adds @pages, which may be negative, to the user's express memory with a host. */
void hamlyn_share_express(struct hamlyn_share *share, u32 host, s32 pages);
u32 hamlyn_share_express_held(const struct hamlyn_share *share, u32 host);
/* Returns how many of @all pages the user may hold, while all users together hold @held. */
u32 hamlyn_share_express_limit(const struct hamlyn_share *share, u32 host, u32 held, u32 all,
			       bool privileged);

/* Allocates zeroed memory, charged to a memory cgroup instead of the caller's. */
void *hamlyn_zalloc_charged(size_t size, struct mem_cgroup *payer);

#endif /* _HAMLYN_SHARE_H */
