/* SPDX-License-Identifier: GPL-2.0-only */
/* The shares of all users of a card. The card's lock guards them. */
#ifndef _HAMLYN_SHARES_H
#define _HAMLYN_SHARES_H

#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <linux/xarray.h>

#include "hamlyn_kernel.h"
#include "hamlyn_share.h"

struct hamlyn_shares {
	/* The card's lock. */
	struct mutex *lock;
	/* Returns how many of the card's own objects of a kind processes can use. */
	u32 (*total)(const struct hamlyn_shares *all, unsigned int kind);
	/* Users' shares by user id, and the sum of what they hold. */
	struct xarray users;
	u32 held[HAMLYN_KINDS];
};

/* What a user holds of a card, through any number of files in any processes. */
struct hamlyn_share {
	struct hamlyn_shares *all;
	kuid_t user;
	/* Held by one call at a time; taken before the card's lock. */
	struct mutex gate;
	/* Number of files and connections, and of objects by kind. */
	unsigned int users;
	u32 held[HAMLYN_KINDS];
	/* The user's messages that wait for each host (kernel/peer.c). */
	u16 said[HAMLYN_WELL_KNOWN_SLOTS];
	/*
	 * Pages of express memory by host: those of areas, including the ones that are leaving
	 * (kernel/express.c).
	 */
	u32 express[HAMLYN_WELL_KNOWN_SLOTS];
};

void hamlyn_shares_init(struct hamlyn_shares *all, struct mutex *lock,
			u32 (*total)(const struct hamlyn_shares *all, unsigned int kind));
struct hamlyn_share *hamlyn_share_alloc(void);
int hamlyn_share_join(struct hamlyn_shares *all, struct hamlyn_share **spare,
		      struct hamlyn_share **joined);
u32 hamlyn_share_limit(const struct hamlyn_share *of, unsigned int kind, bool privileged);

#endif /* _HAMLYN_SHARES_H */
