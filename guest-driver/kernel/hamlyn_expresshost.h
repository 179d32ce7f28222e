/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* What the files of express memory share. The card's lock guards all of it. */
#ifndef _HAMLYN_EXPRESSHOST_H
#define _HAMLYN_EXPRESSHOST_H

#include <linux/xarray.h>

#include "hamlyn_express.h"
#include "hamlyn_part.h"
#include "hamlyn_peer.h"

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

struct express_service {
	struct peer_service service;
	/* NULL: there has never been express memory. */
	struct hamlyn_express *express;
};

static inline struct express_service *
hamlyn_express_service_of(const struct hamlyn_system *system)
{
	return container_of(hamlyn_service_find(system, HAMLYN_WIRE_EXPRESS),
			    struct express_service, service);
}

static inline struct hamlyn_express *hamlyn_express_of(const struct hamlyn_system *system)
{
	return hamlyn_express_service_of(system)->express;
}

static inline struct express_host *express_host_of(const struct hamlyn_system *system,
						   const struct hamlyn_express_end *end)
{
	return &hamlyn_express_of(system)->hosts[end->host];
}

/*
 * expresshost.c: returns whether the link has the host id that the parts belong to; otherwise they
 * are of no use.
 */
bool hamlyn_express_here(const struct hamlyn_system *system);
/* Returns the state with a host; NULL if there is no part. */
struct express_host *hamlyn_express_with(const struct hamlyn_system *system, u32 host);
/* Gives an area or a view its number; an area's pages count for its user. */
int hamlyn_express_add(struct hamlyn_system *system, struct hamlyn_express_end *end);
/* Reverts hamlyn_express_add(), and drops messages about it. */
void hamlyn_express_forget(struct hamlyn_system *system, struct hamlyn_express_end *end);

/* expresstell.c: sends a message. It counts against the user's @share, if any, while it waits. */
int hamlyn_express_say(struct hamlyn_peer *peer, struct hamlyn_share *share, u32 what, u32 from,
		       u32 to, const void *data, u32 length);
/*
 * Sends messages to a host that are due, as far as there is room, for each user and in all. The
 * next tick sends the rest.
 */
void hamlyn_express_tell(struct hamlyn_system *system, struct express_host *with);
/* Replaces the message about it that is due. */
void hamlyn_express_mean(struct hamlyn_system *system, struct hamlyn_express_end *end, u32 what);
/* Also sends it. Afterwards it, and any view of that host that has ended, may be gone. */
void hamlyn_express_state(struct hamlyn_system *system, struct hamlyn_express_end *end, u32 what);
/* Asks a host to settle what it had of this host's before it was lost. */
int hamlyn_express_ask_settle(struct hamlyn_peer *peer, struct express_host *with);

/*
 * express.c: ends a process's view, with this error. hamlyn_express_view_cut() also tells the other
 * host, if it may know of the view.
 */
void hamlyn_express_view_end(struct hamlyn_system *system, struct hamlyn_express_end *view,
			     int error);
void hamlyn_express_view_cut(struct hamlyn_system *system, struct hamlyn_express_end *view,
			     int error);

#endif /* _HAMLYN_EXPRESSHOST_H */
