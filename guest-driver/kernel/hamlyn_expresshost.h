/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * What the two files of express memory share: express.c, who has which pages, and expresstalk.c,
 * what operating systems say to each other of them. The card's lock guards all of it.
 */
#ifndef _HAMLYN_EXPRESSHOST_H
#define _HAMLYN_EXPRESSHOST_H

#include <linux/xarray.h>

#include "hamlyn_connect.h"
#include "hamlyn_express.h"
#include "hamlyn_part.h"

struct express_host {
	struct express_part part;
	/* It has been asked to settle, and since when and when last. */
	bool settling;
	unsigned long since;
	unsigned long asked;
	/* Areas and views, and those of which something is to be said. */
	struct list_head ends;
	struct list_head untold;
};

struct hamlyn_express {
	const struct hamlyn_express_ops *ops;
	/* The host that the parts are of. */
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
 * express.c: whether the link has the host id that the parts are of; those of another are of no
 * use.
 */
bool hamlyn_express_here(const struct hamlyn_system *system);
/* What there is with a host; none: there is no part. */
struct express_host *hamlyn_express_with(const struct hamlyn_system *system, u32 host);
/*
 * Nothing is to be said of it any more, its number may be another's, and an area's pages do not
 * count as its user's.
 */
void hamlyn_express_forget(struct hamlyn_system *system, struct hamlyn_express_end *end);
/*
 * A view is its process' no more, for this reason; and the other host is told, if it may have heard
 * of it.
 */
void hamlyn_express_view_end(struct hamlyn_system *system, struct hamlyn_express_end *view,
			     int error);
void hamlyn_express_view_cut(struct hamlyn_system *system, struct hamlyn_express_end *view,
			     int error);

/*
 * expresstalk.c: what is to be said of it now takes the place of what has not been said yet, and is
 * said. Then it, and any view of that host's that has ended, may be gone.
 */
void hamlyn_express_state(struct hamlyn_system *system, struct hamlyn_express_end *end, u32 what);
/* Asks a host to settle what it had of ours before it was lost. */
int hamlyn_express_ask_settle(struct hamlyn_peer *peer, struct express_host *with);

#endif /* _HAMLYN_EXPRESSHOST_H */
