/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Express memory between operating systems: the owners of the pages in the part that two hosts
 * share (docs/express.md). The card's lock guards all of it.
 *
 * The core knows where the memory is, and what processes see of it; here are only numbers of pages.
 * So this is compiled for programs as well, like the rest of the folder.
 */
#ifndef _ULN_EXPRESS_H
#define _ULN_EXPRESS_H

#include <linux/list.h>
#include <linux/types.h>

#include "uln_part.h"
#include "uln_uapi.h"

struct uln_share;
struct uln_system;

/* State of an area or a view. */
enum express_state {
	/* A view that waits for the other host's answer. */
	EXPRESS_ASKING,
	/* Its process has its pages. */
	EXPRESS_OPEN,
	/* Its process no longer has them. */
	EXPRESS_ENDED,
};

/* An area of this host, or a view that a process of this host has of another host's area. */
struct uln_express_end {
	struct list_head on_host;
	bool view;
	enum express_state state;
	u32 host;
	/*
	 * Its number here, from 1; and the number there of a view's area, or of the view that an
	 * area has there: 0, none.
	 */
	u32 number;
	u32 other;
	u64 key;
	/* For a view: known once it is open. */
	u32 count;
	struct express_pages pages;
	/* For an area: its host was lost, so it is unknown whether its view is gone. */
	bool astray;
	/* For a view: the other host may know of it; when it was first requested, and when last. */
	bool said;
	unsigned long since;
	unsigned long asked;
	/* The message about it that is due, ULN_EXPRESS_SAY_*; 0: none. */
	struct list_head on_untold;
	u32 say;
	/* Why a view has ended. */
	int error;
	/* Its user's share, which an area's pages and messages that wait count against. */
	struct uln_share *share;
};

struct uln_express_ops {
	/* Takes, or drops, a reference. */
	void (*hold)(struct uln_express_end *end);
	void (*drop)(struct uln_express_end *end);
	/*
	 * It has ended without its process's doing: on return the process no longer sees the pages.
	 */
	void (*withdraw)(struct uln_express_end *end);
	/*
	 * A view has been answered or has ended, or more pages of a host may be free: waiters must
	 * check.
	 */
	void (*news)(struct uln_system *system);
};

/* Has a system answer about express memory; called once, when it has been created. -ENOMEM. */
int uln_express_register(struct uln_system *system);
/*
 * Begins express memory of host @own. Its parts follow (uln_express_part()); there are none at
 * first. -ENOMEM; -EINVAL if there are parts of another id.
 */
int uln_express_begin(struct uln_system *system, const struct uln_express_ops *ops,
		      u32 own);
/*
 * Adds the part with another host, of @pages pages. What earlier drivers left in it has to be
 * settled.
 */
int uln_express_part(struct uln_system *system, u32 host, u64 memory, u32 pages);
/* Ends all express memory, and all connections too, so that other hosts learn of it. */
void uln_express_stop(struct uln_system *system);
/* Returns whether there is any, for the link's host id. */
bool uln_express_is(const struct uln_system *system);

/*
 * Takes pages for an area, whose memory is all zero. -EHOSTUNREACH, -EINVAL, -ENOSPC, -EDQUOT,
 * -ENOMEM. -EAGAIN: the host is being asked to settle what it had; retry with @again after news of
 * that. -EHOSTDOWN: it was lost meanwhile, or does not know such questions. -ENOBUFS: too much
 * waits for it.
 */
int uln_express_create(struct uln_system *system, struct uln_express_end *area, u32 host,
		       u32 pages, struct uln_share *share, bool privileged, bool again);
/* Requests a view, whose memory is all zero, of area @other. -EHOSTUNREACH, -ENOMEM. */
int uln_express_map(struct uln_system *system, struct uln_express_end *view, u32 host,
		    u32 other, u64 key, struct uln_share *share);
/* Closes an area or a view, which its process no longer sees. */
void uln_express_close(struct uln_system *system, struct uln_express_end *end);
/* Returns the area or view with this number; NULL if it ended and no message about it is due. */
struct uln_express_end *uln_express_find(const struct uln_system *system, u32 number);
/* Returns page @page of an area or a view, as a page of the part. */
u32 uln_express_place(const struct uln_express_end *end, u32 page);
void uln_express_describe(const struct uln_system *system, const struct uln_share *share,
			  bool privileged, struct uln_express_query *query);

#endif /* _ULN_EXPRESS_H */
