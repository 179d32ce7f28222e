/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * What the two files of express memory share: express.c, owners of pages, and expresstalk.c,
 * messages between operating systems about them. The card's lock guards all of it.
 */
#ifndef _HAMLYN_EXPRESSHOST_H
#define _HAMLYN_EXPRESSHOST_H

#include <linux/xarray.h>

#include "hamlyn_connect.h"
#include "hamlyn_express.h"
#include "hamlyn_part.h"

struct express_host {
	struct express_part part;
	/* It has been asked to settle; when first, and when last. */
	bool settling;
	unsigned long since;
	unsigned long asked;
	/* Areas and views, and those with a message that is due. */
	struct list_head ends;
	struct list_head untold;
};

struct hamlyn_express {
	const struct hamlyn_express_ops *ops;
	/* The host that the parts belong to. */
	u32 own;
	/* Areas and views by number. */
	struct xarray ends;
	u32 next_number;
	struct express_host hosts[HAMLYN_WELL_KNOWN_SLOTS];
};

static inline struct express_host *express_host_of(const struct hamlyn_system *system,
						   const struct hamlyn_express_end *end)
{
	return &system->express->hosts[end->host];
}

/*
 * express.c: returns whether the link has the host id that the parts belong to; otherwise they are
 * of no use.
 */
bool hamlyn_express_here(const struct hamlyn_system *system);
/* Returns the state with a host; NULL if there is no part. */
struct express_host *hamlyn_express_with(const struct hamlyn_system *system, u32 host);
/* Drops messages about it and frees its number; an area's pages no longer count for its user. */
void hamlyn_express_forget(struct hamlyn_system *system, struct hamlyn_express_end *end);
/*
 * Ends a process's view, with this error. hamlyn_express_view_cut() also tells the other host, if
 * it may know of the view.
 */
void hamlyn_express_view_end(struct hamlyn_system *system, struct hamlyn_express_end *view,
			     int error);
void hamlyn_express_view_cut(struct hamlyn_system *system, struct hamlyn_express_end *view,
			     int error);

/*
 * expresstalk.c: replaces the message about it that is due, and sends it. Afterwards it, and any
 * view of that host that has ended, may be gone.
 */
void hamlyn_express_state(struct hamlyn_system *system, struct hamlyn_express_end *end, u32 what);
/* Asks a host to settle what it had of this host's before it was lost. */
int hamlyn_express_ask_settle(struct hamlyn_peer *peer, struct express_host *with);

#endif /* _HAMLYN_EXPRESSHOST_H */
