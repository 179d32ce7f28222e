/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Counters of what a user may hold a share of, and memory that is charged to it (share.c). Call all
 * of these with the card's lock held. All of them accept NULL as the share.
 */
#ifndef _ULN_SHARE_H
#define _ULN_SHARE_H

#include <linux/types.h>

#include "uln_uapi.h"

struct uln_share;
struct mem_cgroup;

/* Lower numbers are the card's own (card_ops.shared). */
enum {
	ULN_CONNECTIONS = ULN_SHARE_CONNECTIONS,
	ULN_KINDS
};

void uln_share_get(struct uln_share *share);
void uln_share_put(struct uln_share *share);

/**
 * uln_share_take() - count one more object for a user
 * @share: the user's share; NULL: the driver's own, which is not counted
 * @kind: kind of object
 * @privileged: the user may hold all objects
 *
 * Return: 0; -EDQUOT if the user may hold no more, -ENOSPC if the card has no more.
 */
int uln_share_take(struct uln_share *share, unsigned int kind, bool privileged);
void uln_share_give(struct uln_share *share, unsigned int kind);
/* The same for several objects at once: all or none. */
int uln_share_take_some(struct uln_share *share, unsigned int kind, u32 count,
			bool privileged);
void uln_share_give_some(struct uln_share *share, unsigned int kind, u32 count);

/**
 * uln_share_say() - count one more message that waits for a host
 * @share: the user's share
 * @host: the host
 * @waiting: number of messages that wait for it
 * @most: limit of @waiting
 *
 * Return: 0; -ENOBUFS if others may queue a message for the host, but this user may not.
 */
int uln_share_say(struct uln_share *share, u32 host, u32 waiting, u32 most);
/* Reverts uln_share_say(): the message no longer waits. */
void uln_share_said(struct uln_share *share, u32 host);
/* Returns the user's id in the kernel plus 1; 0 for the driver's own. */
u32 uln_share_user(const struct uln_share *share);
/* Adds @pages, which may be negative, to the user's express memory with a host. */
void uln_share_express(struct uln_share *share, u32 host, s32 pages);
u32 uln_share_express_held(const struct uln_share *share, u32 host);
/* Returns how many of @all pages the user may hold, while all users together hold @held. */
u32 uln_share_express_limit(const struct uln_share *share, u32 host, u32 held, u32 all,
			    bool privileged);

/* Allocates zeroed memory, charged to a memory cgroup instead of the caller's. */
void *uln_zalloc_charged(size_t size, struct mem_cgroup *payer);

#endif /* _ULN_SHARE_H */
