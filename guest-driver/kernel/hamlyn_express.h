/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Express memory between operating systems: which pages of the part that two hosts share belong to
 * whom (docs/express.md). The card's lock guards all of it.
 *
 * The core knows where the memory is, and what processes see of it; here are only numbers of pages.
 * So this is compiled for programs as well, like the rest of the folder.
 */
#ifndef _HAMLYN_EXPRESS_H
#define _HAMLYN_EXPRESS_H

#include <linux/list.h>
#include <linux/types.h>

#include "hamlyn_family_uapi.h"
#include "hamlyn_wire.h"

struct hamlyn_express;
struct hamlyn_peer;
struct hamlyn_share;
struct hamlyn_system;
struct hamlyn_wire;

/* How an area or a view stands. */
enum express_state {
	/* A view that waits for the other host's answer. */
	EXPRESS_ASKING,
	/* Its process has its pages. */
	EXPRESS_OPEN,
	/* It has not any more. */
	EXPRESS_ENDED,
};

/* An area of this host's, or a view that a process of this host has of another's. */
struct hamlyn_express_end {
	struct list_head on_host;
	bool view;
	enum express_state state;
	u32 host;
	/*
	 * Its number here, from 1; and that of a view's area there, or of the view that an area has
	 * there: 0, none.
	 */
	u32 number;
	u32 other;
	u64 key;
	/* Of a view: known once it is open. */
	u32 count;
	struct hamlyn_express_pages pages;
	/* Of an area: its host was lost, so nobody has said whether its view is gone. */
	bool astray;
	/* Of a view: the other host may know of it, since when it was asked for, and when last. */
	bool said;
	unsigned long since;
	unsigned long asked;
	/* What is still to be said of it, HAMLYN_EXPRESS_SAY_*; 0: nothing. */
	struct list_head on_untold;
	u32 say;
	/* Why a view has ended. */
	int error;
	/*
	 * Whose it is, for whom the pages of an area are counted, and what waits to be said of it.
	 */
	struct hamlyn_share *share;
};

struct hamlyn_express_ops {
	/* One more needs it, or one less. */
	void (*hold)(struct hamlyn_express_end *end);
	void (*drop)(struct hamlyn_express_end *end);
	/*
	 * It has ended without its process' doing: when this returns that does not see the pages
	 * any more.
	 */
	void (*withdraw)(struct hamlyn_express_end *end);
	/*
	 * A view has been answered or has ended, or more pages of a host's may be free: who waits
	 * is to look.
	 */
	void (*news)(struct hamlyn_system *system);
};

/*
 * There is express memory of host @own's. Its parts follow (hamlyn_express_part()); none is there
 * at first. -ENOMEM; -EINVAL: parts of another id are there.
 */
int hamlyn_express_begin(struct hamlyn_system *system, const struct hamlyn_express_ops *ops,
			 u32 own);
/*
 * The part with another host is there, with so many pages. What earlier drivers left of it has to
 * be settled.
 */
int hamlyn_express_part(struct hamlyn_system *system, u32 host, u64 memory, u32 pages);
/* There is none any more: all ends with it, connections too, so that others know. */
void hamlyn_express_stop(struct hamlyn_system *system);
/* With the system. */
void hamlyn_express_free(struct hamlyn_system *system);
/* Whether there is any, for the host that the link is of. */
bool hamlyn_express_is(const struct hamlyn_system *system);

/*
 * Takes pages for an area, whose memory is all zero. -EHOSTUNREACH, -EINVAL, -ENOSPC, -EDQUOT,
 * -ENOMEM; -EAGAIN: the host is being asked to settle what it had; with @again after news of that.
 * -EHOSTDOWN: it was lost meanwhile, or knows nothing of such questions; -ENOBUFS: too much waits
 * for it.
 */
int hamlyn_express_create(struct hamlyn_system *system, struct hamlyn_express_end *area, u32 host,
			  u32 pages, struct hamlyn_share *share, bool privileged, bool again);
/* Asks for a view, whose memory is all zero, of area @other. -EHOSTUNREACH, -ENOMEM. */
int hamlyn_express_map(struct hamlyn_system *system, struct hamlyn_express_end *view, u32 host,
		       u32 other, u64 key, struct hamlyn_share *share);
/* Its process does not see it any more. */
void hamlyn_express_close(struct hamlyn_system *system, struct hamlyn_express_end *end);
/* The area or view with this number; none if it has ended and nothing is to be said of it. */
struct hamlyn_express_end *hamlyn_express_find(const struct hamlyn_system *system, u32 number);
/* Page @page of an area or a view, as a page of the part. */
u32 hamlyn_express_place(const struct hamlyn_express_end *end, u32 page);
void hamlyn_express_describe(const struct hamlyn_system *system, const struct hamlyn_share *share,
			     bool privileged, struct hamlyn_express_query *query);

/*
 * For peer.c: a message about express memory; the host is lost, or with @ask_again has started
 * anew; a quarter of a second has gone by; it is to be watched.
 */
void hamlyn_express_message(struct hamlyn_peer *peer, const struct hamlyn_wire *wire,
			    const u8 *data);
void hamlyn_express_lost(struct hamlyn_peer *peer, bool ask_again);
void hamlyn_express_tick(struct hamlyn_peer *peer);
bool hamlyn_express_depends(const struct hamlyn_peer *peer);

#endif /* _HAMLYN_EXPRESS_H */
