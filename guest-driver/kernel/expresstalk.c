// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/*
 * Messages from other operating systems about areas of express memory and views of them, as a
 * service.
 *
 * Messages to a host come once and in order, or the host is lost. So a host that is told that a
 * view is gone can rely on it. A host that has lost another asks it to settle. If the other takes
 * this question, it knows a new incarnation of the asking host, or that host knows a new one of it.
 * By then it has ended all its views (express_lost()).
 */
#include <linux/bitops.h>

#include "hamlyn_expresshost.h"

/* Time without an answer until a question is repeated, and until it fails. */
#define ASK_AGAIN HZ
#define ASK_PATIENCE (8 * HZ)

/* Finds the area, or the view, shared with a host, that the host's message refers to. */
static struct hamlyn_express_end *express_meant(const struct hamlyn_system *system, u32 host,
						u32 number, bool view)
{
	struct hamlyn_express_end *end = hamlyn_express_find(system, number);

	return end && end->host == host && end->view == view ? end : NULL;
}

static u32 express_refusal(const struct hamlyn_system *system, struct hamlyn_peer *peer,
			   const struct hamlyn_wire *wire, const struct hamlyn_express_ask *ask)
{
	const struct express_host *with = hamlyn_express_with(system, peer->host);
	const struct hamlyn_express_end *area = express_meant(system, peer->host, wire->to, false);

	if (!with || with->part.memory != ask->memory)
		return HAMLYN_EXPRESS_REFUSED_MEMORY;
	if (!area || area->state != EXPRESS_OPEN || area->key != ask->key)
		return HAMLYN_EXPRESS_REFUSED_ACCESS;
	/* The same view may have asked twice. */
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

	if (!wire->from || wire->private_length != sizeof(ask))
		return;
	memcpy(&ask, data, sizeof(ask));
	refused.why = express_refusal(system, peer, wire, &ask);
	if (refused.why) {
		/* If there is no room for it, the view's host will ask again. */
		hamlyn_express_say(peer, NULL, HAMLYN_EXPRESS_SAY_REFUSED, wire->to, wire->from,
				   &refused, sizeof(refused));
		return;
	}
	area = express_meant(system, peer->host, wire->to, false);
	/* While the area has a view, it depends on the host. */
	hamlyn_peer_watch(peer);
	area->other = wire->from;
	hamlyn_express_state(system, area, HAMLYN_EXPRESS_SAY_PAGES);
}

/*
 * Returns whether the host believes that its area has a view here which does not exist. The view
 * asked twice and was granted by the second answer, or before one side lost the other. Then no
 * process here sees the pages, and the host is told so.
 */
static bool view_is_gone(struct hamlyn_peer *peer, const struct hamlyn_wire *wire)
{
	const struct hamlyn_express_end *view =
		express_meant(peer->system, peer->host, wire->to, true);

	if (view && view->other == wire->from)
		return false;
	if (wire->to)
		hamlyn_express_say(peer, NULL, HAMLYN_EXPRESS_SAY_UNMAP, wire->to, wire->from, NULL,
				   0);
	return true;
}

/* Finds the view that a message answers; NULL if it waits for no answer about that area. */
static struct hamlyn_express_end *view_asking(const struct hamlyn_peer *peer,
					      const struct hamlyn_wire *wire)
{
	struct hamlyn_express_end *view = express_meant(peer->system, peer->host, wire->to, true);

	return view && view->state == EXPRESS_ASKING && view->other == wire->from ? view : NULL;
}

static void said_pages(struct hamlyn_peer *peer, const struct hamlyn_wire *wire, const u8 *data)
{
	struct hamlyn_system *system = peer->system;
	/* Check the link first: this may find that all is lost. */
	bool here = hamlyn_express_here(system);
	struct hamlyn_express_end *view = view_asking(peer, wire);
	int count = -EHOSTUNREACH;

	if (view_is_gone(peer, wire))
		return;
	if (!view || wire->private_length != sizeof(view->pages))
		return;
	memcpy(&view->pages, data, sizeof(view->pages));
	if (here)
		count = hamlyn_part_view(&express_host_of(system, view)->part, &view->pages);
	if (count < 0) {
		hamlyn_express_view_cut(system, view, count);
		return;
	}
	view->count = count;
	view->state = EXPRESS_OPEN;
	hamlyn_express_of(system)->ops->news(system);
}

static void said_refused(struct hamlyn_peer *peer, const struct hamlyn_wire *wire, const u8 *data)
{
	struct hamlyn_express_end *view = view_asking(peer, wire);
	struct hamlyn_express_refused refused;

	if (!view || wire->private_length != sizeof(refused))
		return;
	memcpy(&refused, data, sizeof(refused));
	switch (refused.why) {
	case HAMLYN_EXPRESS_REFUSED_BUSY:
		hamlyn_express_view_end(peer->system, view, -EBUSY);
		break;
	case HAMLYN_EXPRESS_REFUSED_MEMORY:
		hamlyn_express_view_end(peer->system, view, -EHOSTUNREACH);
		break;
	default:
		hamlyn_express_view_end(peer->system, view, -EACCES);
	}
	hamlyn_express_forget(peer->system, view);
}

static void said_gone(struct hamlyn_peer *peer, const struct hamlyn_wire *wire)
{
	struct hamlyn_express_end *view = express_meant(peer->system, peer->host, wire->to, true);

	if (view_is_gone(peer, wire))
		return;
	/* A view that has ended before is about to report that. */
	if (view->state != EXPRESS_ENDED)
		hamlyn_express_view_cut(peer->system, view, -EACCES);
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
	hamlyn_part_give(&express_host_of(system, area)->part, &area->pages);
	hamlyn_express_forget(system, area);
	hamlyn_express_of(system)->ops->news(system);
}

static void said_settled(struct hamlyn_peer *peer)
{
	struct hamlyn_system *system = peer->system;
	struct express_host *with = &hamlyn_express_of(system)->hosts[peer->host];
	struct hamlyn_express_end *end;

	if (!with->settling)
		return;
	with->settling = false;
	hamlyn_part_settle(&with->part);
	list_for_each_entry(end, &with->ends, on_host)
		end->astray = false;
	hamlyn_express_of(system)->ops->news(system);
}

static void express_message(struct peer_service *service, u32 host,
			    const struct hamlyn_wire *wire, const u8 *data)
{
	struct hamlyn_peer *peer = &service->system->peers[host];

	switch (wire->reason) {
	case HAMLYN_EXPRESS_SAY_MAP:
		said_map(peer, wire, data);
		return;
	case HAMLYN_EXPRESS_SAY_SETTLE:
		hamlyn_express_say(peer, NULL, HAMLYN_EXPRESS_SAY_SETTLED, 0, 0, NULL, 0);
		return;
	}
	if (!hamlyn_express_of(peer->system))
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

/* Handles an area whose host is lost: it is unknown what became of its view, if it had one. */
static void area_lost(struct hamlyn_system *system, struct hamlyn_express_end *area)
{
	area->astray = area->astray || area->other;
	area->other = 0;
	area->say = 0;
	list_del_init(&area->on_untold);
	if (area->state != EXPRESS_ENDED)
		return;
	hamlyn_part_lose(&express_host_of(system, area)->part, &area->pages);
	hamlyn_express_forget(system, area);
}

/*
 * Forgets what was arranged with a host. It sees no pages that it did not see before, and this host
 * none of its pages. A host that has restarted is asked once more to settle, if it had been.
 */
static void express_lost(struct peer_service *service, u32 host, u32 reason, bool restarted)
{
	struct hamlyn_system *system = service->system;
	struct hamlyn_express_end *end, *next;
	struct express_host *with;

	if (!hamlyn_express_of(system))
		return;
	with = &hamlyn_express_of(system)->hosts[host];
	with->settling = with->settling && restarted;
	list_for_each_entry_safe(end, next, &with->ends, on_host) {
		if (!end->view) {
			area_lost(system, end);
			continue;
		}
		if (end->state != EXPRESS_ENDED)
			hamlyn_express_view_end(system, end, -EHOSTDOWN);
		hamlyn_express_forget(system, end);
	}
	hamlyn_express_of(system)->ops->news(system);
}

/* Handles a host that has not settled yet. */
static void express_ask_again(struct hamlyn_peer *peer, struct express_host *with)
{
	if (!with->settling)
		return;
	if (time_after(jiffies, with->since + ASK_PATIENCE)) {
		with->settling = false;
		hamlyn_express_of(peer->system)->ops->news(peer->system);
	} else if (time_after(jiffies, with->asked + ASK_AGAIN)) {
		with->asked = jiffies;
		hamlyn_express_say(peer, NULL, HAMLYN_EXPRESS_SAY_SETTLE, 0, 0, NULL, 0);
	}
}

static void express_tick(struct peer_service *service, u32 host)
{
	struct hamlyn_system *system = service->system;
	struct hamlyn_express_end *end, *next;
	struct express_host *with;

	if (!hamlyn_express_of(system))
		return;
	with = &hamlyn_express_of(system)->hosts[host];
	list_for_each_entry_safe(end, next, &with->ends, on_host) {
		if (!end->view || end->state != EXPRESS_ASKING || !end->said)
			continue;
		/* The host is alive, but does not know such questions. */
		if (time_after(jiffies, end->since + ASK_PATIENCE)) {
			hamlyn_express_view_end(system, end, -EHOSTUNREACH);
			hamlyn_express_mean(system, end, HAMLYN_EXPRESS_SAY_UNMAP);
		} else if (time_after(jiffies, end->asked + ASK_AGAIN)) {
			hamlyn_express_mean(system, end, HAMLYN_EXPRESS_SAY_MAP);
		}
	}
	hamlyn_express_tell(system, with);
	express_ask_again(&system->peers[host], with);
}

static bool express_depends(const struct peer_service *service, u32 host)
{
	const struct hamlyn_express *express = hamlyn_express_of(service->system);
	const struct hamlyn_express_end *end;
	const struct express_host *with;

	if (!express)
		return false;
	with = &express->hosts[host];
	if (with->settling)
		return true;
	/*
	 * An area without a view does not depend on the host: otherwise a lost host would be lost
	 * again at each tick.
	 */
	list_for_each_entry(end, &with->ends, on_host)
		if (end->view || end->other)
			return true;
	return false;
}

static void express_free(struct peer_service *service)
{
	struct express_service *own = container_of(service, struct express_service, service);
	struct hamlyn_express *express = own->express;
	unsigned int i;

	for (i = 0; express && i < ARRAY_SIZE(express->hosts); i++)
		hamlyn_part_close(&express->hosts[i].part);
	if (express)
		xa_destroy(&express->ends);
	kfree(express);
	kfree(own);
}

static const struct peer_service_ops express_ops = {
	.kinds = BIT(HAMLYN_WIRE_EXPRESS),
	.message = express_message,
	.lost = express_lost,
	.depends = express_depends,
	.tick = express_tick,
	.free = express_free,
};

int hamlyn_express_register(struct hamlyn_system *system)
{
	struct express_service *own = kzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	own->service.ops = &express_ops;
	hamlyn_service_register(system, &own->service);
	return 0;
}
