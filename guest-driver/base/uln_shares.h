/* SPDX-License-Identifier: GPL-2.0-only */
/* The shares of all users of a card. The card's lock guards them. */
#ifndef _ULN_SHARES_H
#define _ULN_SHARES_H

#include <linux/mutex.h>
#include <linux/uidgid.h>
#include <linux/xarray.h>

#include "uln_kernel.h"
#include "uln_share.h"

struct uln_shares {
	/* The card's lock. */
	struct mutex *lock;
	/* Returns how many of the card's own objects of a kind processes can use. */
	u32 (*total)(const struct uln_shares *all, unsigned int kind);
	/* Users' shares by user id, and the sum of what they hold. */
	struct xarray users;
	u32 held[ULN_KINDS];
};

/* What a user holds of a card, through any number of files in any processes. */
struct uln_share {
	struct uln_shares *all;
	kuid_t user;
	/* Held by one call at a time; taken before the card's lock. */
	struct mutex gate;
	/* Number of files and connections, and of objects by kind. */
	unsigned int users;
	u32 held[ULN_KINDS];
	/* The user's messages that wait for each host (kernel/peer.c). */
	u16 said[ULN_WELL_KNOWN_SLOTS];
	/*
	 * Pages of express memory by host: those of areas, including the ones that are leaving
	 * (kernel/express.c).
	 */
	u32 express[ULN_WELL_KNOWN_SLOTS];
};

void uln_shares_init(struct uln_shares *all, struct mutex *lock,
		     u32 (*total)(const struct uln_shares *all, unsigned int kind));
struct uln_share *uln_share_alloc(void);
int uln_share_join(struct uln_shares *all, struct uln_share **spare,
		   struct uln_share **joined);
u32 uln_share_limit(const struct uln_share *of, unsigned int kind, bool privileged);

#endif /* _ULN_SHARES_H */
