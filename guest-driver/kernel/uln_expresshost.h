/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* What the files of express memory share. The card's lock guards all of it. */
#ifndef _ULN_EXPRESSHOST_H
#define _ULN_EXPRESSHOST_H

#include <linux/xarray.h>

#include "uln_express.h"
#include "uln_part.h"
#include "uln_peer.h"

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

struct uln_express {
	const struct uln_express_ops *ops;
	/* The host that the parts belong to. */
	u32 own;
	/* Areas and views by number. */
	struct xarray ends;
	u32 next_number;
	struct express_host hosts[ULN_WELL_KNOWN_SLOTS];
};

struct express_service {
	struct peer_service service;
	/* NULL: there has never been express memory. */
	struct uln_express *express;
};

static inline struct express_service *
uln_express_service_of(const struct uln_system *system)
{
	return container_of(uln_service_find(system, ULN_WIRE_EXPRESS),
			    struct express_service, service);
}

static inline struct uln_express *uln_express_of(const struct uln_system *system)
{
	return uln_express_service_of(system)->express;
}

static inline struct express_host *express_host_of(const struct uln_system *system,
						   const struct uln_express_end *end)
{
	return &uln_express_of(system)->hosts[end->host];
}

/*
 * expresshost.c: returns whether the link has the host id that the parts belong to; otherwise they
 * are of no use.
 */
bool uln_express_here(const struct uln_system *system);
/* Returns the state with a host, or NULL without a part. */
struct express_host *uln_express_with(const struct uln_system *system, u32 host);
/* Gives an area or a view its number; an area's pages count for its user. */
int uln_express_add(struct uln_system *system, struct uln_express_end *end);
/* Reverts uln_express_add(), and drops messages about it. */
void uln_express_forget(struct uln_system *system, struct uln_express_end *end);

/* expresstell.c: sends a message. It counts against the user's @share, if any, while it waits. */
int uln_express_say(struct uln_peer *peer, struct uln_share *share, u32 what, u32 from,
		    u32 to, const void *data, u32 length);
/*
 * Sends messages to a host that are due, as far as there is room, for each user and in all. The
 * next tick sends the rest.
 */
void uln_express_tell(struct uln_system *system, struct express_host *with);
/* Replaces the message about it that is due. */
void uln_express_mean(struct uln_system *system, struct uln_express_end *end, u32 what);
/* Also sends it. Afterwards it, and any view of that host that has ended, may be gone. */
void uln_express_state(struct uln_system *system, struct uln_express_end *end, u32 what);
/* Asks a host to settle what it had of this host's before it was lost. */
int uln_express_ask_settle(struct uln_peer *peer, struct express_host *with);

/*
 * express.c: ends a process's view, with this error. uln_express_view_cut() also tells the other
 * host, if it may know of the view.
 */
void uln_express_view_end(struct uln_system *system, struct uln_express_end *view,
			  int error);
void uln_express_view_cut(struct uln_system *system, struct uln_express_end *view,
			  int error);

#endif /* _ULN_EXPRESSHOST_H */
