// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * Areas of express memory and views of them: made, given back, and what operating systems say to each other of
 * them.
 *
 * Messages to a host come once and in order, or the host is lost. So who is told that a view is gone can rely
 * on it; and who has lost a host asks it to settle. That it takes the question shows that it has learned of
 * our new incarnation, or we of its, and has ended all its views by that (hamlyn_express_lost()).
 */
#include <linux/nospec.h>
#include <linux/random.h>

#include "connect.h"
#include "express.h"
#include "part.h"

/* How long a question may be without an answer before it is asked again, and before there is none. */
#define ASK_AGAIN HZ
#define ASK_PATIENCE (8 * HZ)

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


int hamlyn_express_begin(struct hamlyn_system *system, const struct hamlyn_express_ops *ops, u32 own)
{
	struct hamlyn_express *express = system->express;
	unsigned int i;

	lockdep_assert_held(system->lock);
	if (!express) {
		express = kzalloc(sizeof(*express), GFP_KERNEL);
		if (!express)
			return -ENOMEM;
		xa_init_flags(&express->ends, XA_FLAGS_ALLOC1);
		for (i = 0; i < ARRAY_SIZE(express->hosts); i++) {
			INIT_LIST_HEAD(&express->hosts[i].ends);
			INIT_LIST_HEAD(&express->hosts[i].untold);
		}
		system->express = express;
	}
	/* All parts are of one host. */
	for (i = 0; i < ARRAY_SIZE(express->hosts); i++)
		if (express->hosts[i].part.pages && express->own != own)
			return -EINVAL;
	express->ops = ops;
	express->own = own;
	return 0;
}

int hamlyn_express_part(struct hamlyn_system *system, u32 host, u64 memory, u32 pages)
{
	struct hamlyn_express *express = system->express;
	struct express_host *with;

	lockdep_assert_held(system->lock);
	if (host >= ARRAY_SIZE(express->hosts) || host == express->own)
		return -EINVAL;
	with = &express->hosts[host];
	if (with->part.pages)
		return -EBUSY;
	return hamlyn_part_open(&with->part, memory, pages, express->own < host);
}

/* No part is there any more; whatever was arranged has been lost before. */
void hamlyn_express_stop(struct hamlyn_system *system)
{
	struct hamlyn_express *express = system->express;
	unsigned int i;

	if (!express)
		return;
	hamlyn_system_lost(system, HAMLYN_END_CARD_RESET);
	for (i = 0; i < ARRAY_SIZE(express->hosts); i++) {
		struct hamlyn_express_end *end, *next;

		/* Areas that processes have. */
		list_for_each_entry_safe(end, next, &express->hosts[i].ends, on_host) {
			express->ops->withdraw(end);
			hamlyn_express_close(system, end);
		}
		hamlyn_part_close(&express->hosts[i].part);
	}
}

void hamlyn_express_free(struct hamlyn_system *system)
{
	struct hamlyn_express *express = system->express;
	unsigned int i;

	if (!express)
		return;
	for (i = 0; i < ARRAY_SIZE(express->hosts); i++)
		hamlyn_part_close(&express->hosts[i].part);
	xa_destroy(&express->ends);
	kfree(express);
}

/* The host id that the link has; parts of another are of no use. */
static bool express_here(const struct hamlyn_system *system)
{
	struct peer_transport *transport = system->transport;
	u32 host;

	return system->express && system->open && transport->ops->link(transport, &host) &&
	       host == system->express->own;
}

bool hamlyn_express_is(const struct hamlyn_system *system)
{
	unsigned int i;

	if (!express_here(system))
		return false;
	for (i = 0; i < ARRAY_SIZE(system->express->hosts); i++)
		if (system->express->hosts[i].part.pages)
			return true;
	return false;
}

/* What there is with a host; none: there is no part. */
static struct express_host *express_with(const struct hamlyn_system *system, u32 host)
{
	struct express_host *with;

	if (host >= ARRAY_SIZE(system->peers) || !express_here(system))
		return NULL;
	with = &system->express->hosts[array_index_nospec(host, ARRAY_SIZE(system->peers))];
	return with->part.pages ? with : NULL;
}

static struct express_host *host_of(const struct hamlyn_system *system,
				    const struct hamlyn_express_end *end)
{
	return &system->express->hosts[end->host];
}

struct hamlyn_express_end *hamlyn_express_find(const struct hamlyn_system *system, u32 number)
{
	return system->express ? xa_load(&system->express->ends, number) : NULL;
}

/* The area, or the view, that a host speaks of: one of that host's. */
static struct hamlyn_express_end *express_meant(const struct hamlyn_system *system, u32 host, u32 number,
						bool view)
{
	struct hamlyn_express_end *end = hamlyn_express_find(system, number);

	return end && end->host == host && end->view == view ? end : NULL;
}

u32 hamlyn_express_place(const struct hamlyn_express_end *end, u32 page)
{
	const struct hamlyn_express_run *run = end->pages.run;

	/* The caller has checked that it is one of its pages. */
	for (; page >= run->count; run++)
		page -= run->count;
	return run->first + page;
}

static int express_join(struct hamlyn_system *system, struct hamlyn_express_end *end)
{
	struct hamlyn_express *express = system->express;
	int ret;

	ret = xa_alloc_cyclic(&express->ends, &end->number, end, XA_LIMIT(1, INT_MAX),
			      &express->next_number, GFP_KERNEL);
	if (ret < 0)
		return ret == -EBUSY ? -ENOSPC : ret;
	hamlyn_system_watch(system, end->host);
	INIT_LIST_HEAD(&end->on_untold);
	list_add_tail(&end->on_host, &host_of(system, end)->ends);
	express->ops->hold(end);
	return 0;
}

/* Nothing is to be said of it any more, and its number may be another's. */
static void express_forget(struct hamlyn_system *system, struct hamlyn_express_end *end)
{
	struct hamlyn_express *express = system->express;

	xa_erase(&express->ends, end->number);
	end->number = 0;
	list_del_init(&end->on_untold);
	list_del_init(&end->on_host);
	express->ops->drop(end);
}

/* The pages of an area do not count as its owner's any more. */
static void area_give(struct hamlyn_express_end *area)
{
	hamlyn_share_express(area->share, area->host, -(s32)area->count);
	hamlyn_share_put(area->share);
	area->share = NULL;
}

static int express_say(struct hamlyn_peer *peer, u32 what, u32 from, u32 to, const void *data, u32 length)
{
	const struct hamlyn_wire wire = {
		.kind = HAMLYN_WIRE_EXPRESS,
		.reason = what,
		.from = from,
		.to = to,
		.private_length = length,
	};

	return hamlyn_peer_say(peer, NULL, &wire, data);
}

static int express_say_of(struct hamlyn_system *system, const struct hamlyn_express_end *end)
{
	struct hamlyn_peer *peer = &system->peers[end->host];
	struct hamlyn_express_ask ask;

	switch (end->say) {
	case HAMLYN_EXPRESS_SAY_MAP:
		ask.key = end->key;
		ask.memory = host_of(system, end)->part.memory;
		return express_say(peer, end->say, end->number, end->other, &ask, sizeof(ask));
	case HAMLYN_EXPRESS_SAY_PAGES:
		return express_say(peer, end->say, end->number, end->other, &end->pages,
				   sizeof(end->pages));
	default:
		return express_say(peer, end->say, end->number, end->other, NULL, 0);
	}
}

/* Says what is to be said to a host, as far as there is room: the rest is said when time has gone by. */
static void express_tell(struct hamlyn_system *system, struct express_host *with)
{
	struct hamlyn_express_end *end, *next;

	list_for_each_entry_safe(end, next, &with->untold, on_untold) {
		if (express_say_of(system, end))
			return;
		list_del_init(&end->on_untold);
		if (end->say == HAMLYN_EXPRESS_SAY_MAP) {
			end->said = true;
			end->asked = jiffies;
		}
		/* Of a view that has ended this was the last. */
		if (end->say == HAMLYN_EXPRESS_SAY_UNMAP)
			express_forget(system, end);
		else
			end->say = 0;
	}
}

/* What is to be said of it now takes the place of what has not been said yet. */
static void express_mean(struct hamlyn_system *system, struct hamlyn_express_end *end, u32 what)
{
	end->say = what;
	if (list_empty(&end->on_untold))
		list_add_tail(&end->on_untold, &host_of(system, end)->untold);
}

/* And is said. Then it, and any view of that host's that has ended, may be gone. */
static void express_state(struct hamlyn_system *system, struct hamlyn_express_end *end, u32 what)
{
	express_mean(system, end, what);
	express_tell(system, host_of(system, end));
}

/* Whether so many pages are free, and in the user's share of them. */
static int area_fits(const struct express_part *part, const struct hamlyn_express_end *area, bool privileged)
{
	u32 limit = hamlyn_share_express_limit(area->share, area->host, part->used + part->leaving,
					       part->pages / 2 - part->astray, privileged);

	if (area->count > hamlyn_part_free(part))
		return -ENOSPC;
	return hamlyn_share_express_held(area->share, area->host) + area->count > limit ? -EDQUOT : 0;
}

static int area_take(struct hamlyn_system *system, struct express_host *with,
		     struct hamlyn_express_end *area)
{
	struct express_part *part = &with->part;
	int ret;

	ret = hamlyn_part_take(part, area->count, &area->pages);
	if (ret)
		return ret;
	ret = express_join(system, area);
	if (ret)
		hamlyn_part_give(part, &area->pages);
	return ret;
}

int hamlyn_express_create(struct hamlyn_system *system, struct hamlyn_express_end *area, u32 host, u32 pages,
			  struct hamlyn_share *share, bool privileged, bool again)
{
	struct express_host *with = express_with(system, host);
	int ret;

	lockdep_assert_held(system->lock);
	if (!with)
		return -EHOSTUNREACH;
	if (!pages || pages > with->part.pages / 2)
		return -EINVAL;
	area->state = EXPRESS_OPEN;
	area->host = host;
	area->count = pages;
	area->share = share;
	area->key = (u64)get_random_u32() << 32 | get_random_u32();
	ret = area_fits(&with->part, area, privileged);
	/* Once it has settled there are more pages, and a share is of more. */
	if (ret && with->part.astray) {
		if (with->settling)
			return -EAGAIN;
		if (again)
			return ret == -ENOSPC ? -EHOSTDOWN : ret;
		ret = express_say(&system->peers[host], HAMLYN_EXPRESS_SAY_SETTLE, 0, 0, NULL, 0);
		with->settling = !ret;
		with->since = jiffies;
		with->asked = jiffies;
		return ret ?: -EAGAIN;
	}
	ret = ret ?: area_take(system, with, area);
	if (ret)
		return ret;
	hamlyn_share_get(share);
	hamlyn_share_express(share, host, pages);
	return 0;
}

int hamlyn_express_map(struct hamlyn_system *system, struct hamlyn_express_end *view, u32 host, u32 other,
		       u64 key)
{
	int ret;

	lockdep_assert_held(system->lock);
	if (!express_with(system, host))
		return -EHOSTUNREACH;
	view->view = true;
	view->state = EXPRESS_ASKING;
	view->host = host;
	view->other = other;
	view->key = key;
	view->since = jiffies;
	ret = express_join(system, view);
	if (!ret)
		express_state(system, view, HAMLYN_EXPRESS_SAY_MAP);
	return ret;
}

/* A view is its process' no more, for this reason. */
static void view_end(struct hamlyn_system *system, struct hamlyn_express_end *view, int error)
{
	if (view->state == EXPRESS_OPEN) {
		system->express->ops->withdraw(view);
		hamlyn_part_unview(&host_of(system, view)->part, &view->pages);
	}
	view->state = EXPRESS_ENDED;
	view->error = error;
	system->express->ops->news(system);
}

/* And the other host is told, if it may have heard of it. */
static void view_cut(struct hamlyn_system *system, struct hamlyn_express_end *view, int error)
{
	view_end(system, view, error);
	if (view->said)
		express_state(system, view, HAMLYN_EXPRESS_SAY_UNMAP);
	else
		express_forget(system, view);
}

static void area_close(struct hamlyn_system *system, struct hamlyn_express_end *area)
{
	struct express_part *part = &host_of(system, area)->part;

	area->state = EXPRESS_ENDED;
	if (area->other) {
		hamlyn_part_leave(part, &area->pages);
		express_state(system, area, HAMLYN_EXPRESS_SAY_GONE);
		return;
	}
	if (area->astray)
		hamlyn_part_lose(part, &area->pages);
	else
		hamlyn_part_give(part, &area->pages);
	area_give(area);
	express_forget(system, area);
}

void hamlyn_express_close(struct hamlyn_system *system, struct hamlyn_express_end *end)
{
	lockdep_assert_held(system->lock);
	if (end->state == EXPRESS_ENDED)
		return;
	if (end->view)
		view_cut(system, end, -ENODEV);
	else
		area_close(system, end);
}

void hamlyn_express_describe(const struct hamlyn_system *system, const struct hamlyn_share *share,
			     bool privileged, struct hamlyn_express_query *query)
{
	const struct express_host *with = express_with(system, query->host);
	const struct express_part *part;

	if (!with)
		return;
	part = &with->part;
	query->part = (u64)part->pages * 4096;
	query->pages = part->pages / 2;
	query->used = part->used;
	query->leaving = part->leaving + part->astray;
	query->viewed = part->viewed;
	query->held = hamlyn_share_express_held(share, query->host);
	query->limit = hamlyn_share_express_limit(share, query->host, part->used + part->leaving,
						  part->pages / 2 - part->astray, privileged);
}

/* What a message carries, of this size; none: it carries something else. */
static const void *wire_carries(const struct hamlyn_wire *wire, const u8 *data, u32 size)
{
	return wire->private_length == size && !wire->name_length ? data : NULL;
}

static u32 express_refusal(const struct hamlyn_system *system, struct hamlyn_peer *peer,
			   const struct hamlyn_wire *wire, const struct hamlyn_express_ask *ask)
{
	const struct express_host *with = express_with(system, peer->host);
	const struct hamlyn_express_end *area = express_meant(system, peer->host, wire->to, false);

	if (!with || with->part.memory != ask->memory)
		return HAMLYN_EXPRESS_REFUSED_MEMORY;
	if (!area || area->state != EXPRESS_OPEN || area->key != ask->key)
		return HAMLYN_EXPRESS_REFUSED_ACCESS;
	/* The same one may have asked twice. */
	if (area->astray || (area->other && area->other != wire->from))
		return HAMLYN_EXPRESS_REFUSED_BUSY;
	return 0;
}

static void said_map(struct hamlyn_peer *peer, const struct hamlyn_wire *wire, const u8 *data)
{
	struct hamlyn_system *system = peer->system;
	struct hamlyn_express_refused refused = {};
	struct hamlyn_express_end *area;
	struct hamlyn_express_ask ask;

	if (!wire->from || !wire_carries(wire, data, sizeof(ask)))
		return;
	memcpy(&ask, data, sizeof(ask));
	refused.why = express_refusal(system, peer, wire, &ask);
	if (refused.why) {
		/* If there is no room for it, it will be asked again. */
		express_say(peer, HAMLYN_EXPRESS_SAY_REFUSED, wire->to, wire->from, &refused,
			    sizeof(refused));
		return;
	}
	area = express_meant(system, peer->host, wire->to, false);
	area->other = wire->from;
	express_state(system, area, HAMLYN_EXPRESS_SAY_PAGES);
}

/* The view that a message answers; none if it waits for no answer of that area. */
static struct hamlyn_express_end *view_asking(const struct hamlyn_peer *peer, const struct hamlyn_wire *wire)
{
	struct hamlyn_express_end *view = express_meant(peer->system, peer->host, wire->to, true);

	return view && view->state == EXPRESS_ASKING && view->other == wire->from ? view : NULL;
}

static void said_pages(struct hamlyn_peer *peer, const struct hamlyn_wire *wire, const u8 *data)
{
	struct hamlyn_system *system = peer->system;
	/* A look at the link may find that all is lost. */
	bool here = express_here(system);
	struct hamlyn_express_end *view = view_asking(peer, wire);
	int count = -EHOSTUNREACH;

	if (!view || !wire_carries(wire, data, sizeof(view->pages)))
		return;
	memcpy(&view->pages, data, sizeof(view->pages));
	if (here)
		count = hamlyn_part_view(&host_of(system, view)->part, &view->pages);
	if (count < 0) {
		view_cut(system, view, count);
		return;
	}
	view->count = count;
	view->state = EXPRESS_OPEN;
	system->express->ops->news(system);
}

static void said_refused(struct hamlyn_peer *peer, const struct hamlyn_wire *wire, const u8 *data)
{
	struct hamlyn_express_end *view = view_asking(peer, wire);
	struct hamlyn_express_refused refused;

	if (!view || !wire_carries(wire, data, sizeof(refused)))
		return;
	memcpy(&refused, data, sizeof(refused));
	switch (refused.why) {
	case HAMLYN_EXPRESS_REFUSED_BUSY:
		view_end(peer->system, view, -EBUSY);
		break;
	case HAMLYN_EXPRESS_REFUSED_MEMORY:
		view_end(peer->system, view, -EHOSTUNREACH);
		break;
	default:
		view_end(peer->system, view, -EACCES);
	}
	express_forget(peer->system, view);
}

static void said_gone(struct hamlyn_peer *peer, const struct hamlyn_wire *wire)
{
	struct hamlyn_express_end *view = express_meant(peer->system, peer->host, wire->to, true);

	/* One that has ended before has said so, or is about to. */
	if (view && view->state != EXPRESS_ENDED && view->other == wire->from)
		view_cut(peer->system, view, -EACCES);
}

static void said_unmap(struct hamlyn_peer *peer, const struct hamlyn_wire *wire)
{
	struct hamlyn_express_end *area = express_meant(peer->system, peer->host, wire->to, false);
	struct hamlyn_system *system = peer->system;

	if (!area || !wire->from || area->other != wire->from)
		return;
	area->other = 0;
	area->say = 0;
	list_del_init(&area->on_untold);
	if (area->state != EXPRESS_ENDED)
		return;
	hamlyn_part_give(&host_of(system, area)->part, &area->pages);
	area_give(area);
	express_forget(system, area);
	system->express->ops->news(system);
}

static void said_settled(struct hamlyn_peer *peer)
{
	struct hamlyn_system *system = peer->system;
	struct express_host *with = &system->express->hosts[peer->host];
	struct hamlyn_express_end *end;

	if (!with->settling)
		return;
	with->settling = false;
	hamlyn_part_settle(&with->part);
	list_for_each_entry(end, &with->ends, on_host)
		end->astray = false;
	system->express->ops->news(system);
}

void hamlyn_express_message(struct hamlyn_peer *peer, const struct hamlyn_wire *wire, const u8 *data)
{
	switch (wire->reason) {
	case HAMLYN_EXPRESS_SAY_MAP:
		said_map(peer, wire, data);
		return;
	case HAMLYN_EXPRESS_SAY_SETTLE:
		express_say(peer, HAMLYN_EXPRESS_SAY_SETTLED, 0, 0, NULL, 0);
		return;
	}
	if (!peer->system->express)
		return;
	switch (wire->reason) {
	case HAMLYN_EXPRESS_SAY_PAGES:
		said_pages(peer, wire, data);
		return;
	case HAMLYN_EXPRESS_SAY_REFUSED:
		said_refused(peer, wire, data);
		return;
	case HAMLYN_EXPRESS_SAY_GONE:
		said_gone(peer, wire);
		return;
	case HAMLYN_EXPRESS_SAY_UNMAP:
		said_unmap(peer, wire);
		return;
	case HAMLYN_EXPRESS_SAY_SETTLED:
		said_settled(peer);
	}
}

/* An area whose host is lost: nobody can say what became of its view, if it had one. */
static void area_lost(struct hamlyn_system *system, struct hamlyn_express_end *area)
{
	area->astray = area->astray || area->other;
	area->other = 0;
	area->say = 0;
	list_del_init(&area->on_untold);
	if (area->state != EXPRESS_ENDED)
		return;
	hamlyn_part_lose(&host_of(system, area)->part, &area->pages);
	area_give(area);
	express_forget(system, area);
}

/* What we knew of each other is forgotten: it sees nothing of ours that it did not before, and we nothing of its. */
void hamlyn_express_lost(struct hamlyn_peer *peer)
{
	struct hamlyn_system *system = peer->system;
	struct hamlyn_express_end *end, *next;
	struct express_host *with;

	if (!system->express)
		return;
	with = &system->express->hosts[peer->host];
	with->settling = false;
	list_for_each_entry_safe(end, next, &with->ends, on_host) {
		if (!end->view) {
			area_lost(system, end);
			continue;
		}
		if (end->state != EXPRESS_ENDED)
			view_end(system, end, -EHOSTDOWN);
		express_forget(system, end);
	}
	system->express->ops->news(system);
}

/* A host that has not settled yet. */
static void express_ask_again(struct hamlyn_peer *peer, struct express_host *with)
{
	if (!with->settling)
		return;
	if (time_after(jiffies, with->since + ASK_PATIENCE)) {
		with->settling = false;
		peer->system->express->ops->news(peer->system);
	} else if (time_after(jiffies, with->asked + ASK_AGAIN)) {
		with->asked = jiffies;
		express_say(peer, HAMLYN_EXPRESS_SAY_SETTLE, 0, 0, NULL, 0);
	}
}

void hamlyn_express_tick(struct hamlyn_peer *peer)
{
	struct hamlyn_system *system = peer->system;
	struct hamlyn_express_end *end, *next;
	struct express_host *with;

	if (!system->express)
		return;
	with = &system->express->hosts[peer->host];
	list_for_each_entry_safe(end, next, &with->ends, on_host) {
		if (!end->view || end->state != EXPRESS_ASKING || !end->said)
			continue;
		/* It is alive, but knows nothing of such questions. */
		if (time_after(jiffies, end->since + ASK_PATIENCE)) {
			view_end(system, end, -EHOSTUNREACH);
			express_mean(system, end, HAMLYN_EXPRESS_SAY_UNMAP);
		} else if (time_after(jiffies, end->asked + ASK_AGAIN)) {
			express_mean(system, end, HAMLYN_EXPRESS_SAY_MAP);
		}
	}
	express_tell(system, with);
	express_ask_again(peer, with);
}

bool hamlyn_express_depends(const struct hamlyn_peer *peer)
{
	const struct hamlyn_express *express = peer->system->express;
	const struct express_host *with;

	if (!express)
		return false;
	with = &express->hosts[peer->host];
	return with->settling || !list_empty(&with->ends);
}
