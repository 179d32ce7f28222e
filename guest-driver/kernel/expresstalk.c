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

#include "uln_expresshost.h"

/* Time without an answer until a question is repeated, and until it fails. */
#define ASK_AGAIN HZ
#define ASK_PATIENCE (8 * HZ)

/* Finds the area, or the view, shared with a host, that the host's message refers to. */
static struct uln_express_end *express_meant(const struct uln_system *system, u32 host,
					     u32 number, bool view)
{
	struct uln_express_end *end = uln_express_find(system, number);

	return end && end->host == host && end->view == view ? end : NULL;
}

static u32 express_refusal(const struct uln_system *system, struct uln_peer *peer,
			   const struct uln_head *wire, const struct uln_express_ask *ask)
{
	const struct express_host *with = uln_express_with(system, peer->host);
	const struct uln_express_end *area = express_meant(system, peer->host, wire->to, false);

	if (!with || with->part.memory != le64_to_cpu(ask->memory))
		return ULN_EXPRESS_REFUSED_MEMORY;
	if (!area || area->state != EXPRESS_OPEN || area->key != le64_to_cpu(ask->key))
		return ULN_EXPRESS_REFUSED_ACCESS;
	/* The same view may have asked twice. */
	if (area->astray || (area->other && area->other != wire->from))
		return ULN_EXPRESS_REFUSED_BUSY;
	return 0;
}

static void said_map(struct uln_peer *peer, const struct uln_head *wire, const u8 *data)
{
	struct uln_system *system = peer->system;
	struct uln_express_refused refused = {};
	struct uln_express_end *area;
	struct uln_express_ask ask;
	u32 why;

	if (!wire->from || wire->private_length != sizeof(ask))
		return;
	memcpy(&ask, data, sizeof(ask));
	why = express_refusal(system, peer, wire, &ask);
	if (why) {
		refused.why = cpu_to_le32(why);
		/* If there is no room for it, the view's host will ask again. */
		uln_express_say(peer, NULL, ULN_EXPRESS_SAY_REFUSED, wire->to, wire->from,
				&refused, sizeof(refused));
		return;
	}
	area = express_meant(system, peer->host, wire->to, false);
	/* While the area has a view, it depends on the host. */
	uln_peer_watch(peer);
	area->other = wire->from;
	uln_express_state(system, area, ULN_EXPRESS_SAY_PAGES);
}

/*
 * Returns whether the host believes that its area has a view here which does not exist. The view
 * asked twice and was granted by the second answer, or before one side lost the other. Then no
 * process here sees the pages, and the host is told so.
 */
static bool view_is_gone(struct uln_peer *peer, const struct uln_head *wire)
{
	const struct uln_express_end *view =
		express_meant(peer->system, peer->host, wire->to, true);

	if (view && view->other == wire->from)
		return false;
	if (wire->to)
		uln_express_say(peer, NULL, ULN_EXPRESS_SAY_UNMAP, wire->to, wire->from, NULL,
				0);
	return true;
}

/* Finds the view that a message answers; NULL if it waits for no answer about that area. */
static struct uln_express_end *view_asking(const struct uln_peer *peer,
					   const struct uln_head *wire)
{
	struct uln_express_end *view = express_meant(peer->system, peer->host, wire->to, true);

	return view && view->state == EXPRESS_ASKING && view->other == wire->from ? view : NULL;
}

static void said_pages(struct uln_peer *peer, const struct uln_head *wire, const u8 *data)
{
	struct uln_system *system = peer->system;
	/* Check the link first: this may find that all is lost. */
	bool here = uln_express_here(system);
	struct uln_express_end *view = view_asking(peer, wire);
	struct uln_express_pages pages;
	int count = -EHOSTUNREACH;

	if (view_is_gone(peer, wire))
		return;
	if (!view || wire->private_length != sizeof(pages))
		return;
	memcpy(&pages, data, sizeof(pages));
	view->pages = uln_part_unpack(&pages);
	if (here)
		count = uln_part_view(&express_host_of(system, view)->part, &view->pages);
	if (count < 0) {
		uln_express_view_cut(system, view, count);
		return;
	}
	view->count = count;
	view->state = EXPRESS_OPEN;
	uln_express_of(system)->ops->news(system);
}

static void said_refused(struct uln_peer *peer, const struct uln_head *wire, const u8 *data)
{
	struct uln_express_end *view = view_asking(peer, wire);
	struct uln_express_refused refused;

	if (!view || wire->private_length != sizeof(refused))
		return;
	memcpy(&refused, data, sizeof(refused));
	switch (le32_to_cpu(refused.why)) {
	case ULN_EXPRESS_REFUSED_BUSY:
		uln_express_view_end(peer->system, view, -EBUSY);
		break;
	case ULN_EXPRESS_REFUSED_MEMORY:
		uln_express_view_end(peer->system, view, -EHOSTUNREACH);
		break;
	default:
		uln_express_view_end(peer->system, view, -EACCES);
	}
	uln_express_forget(peer->system, view);
}

static void said_gone(struct uln_peer *peer, const struct uln_head *wire)
{
	struct uln_express_end *view = express_meant(peer->system, peer->host, wire->to, true);

	if (view_is_gone(peer, wire))
		return;
	/* A view that has ended before is about to report that. */
	if (view->state != EXPRESS_ENDED)
		uln_express_view_cut(peer->system, view, -EACCES);
}

static void said_unmap(struct uln_peer *peer, const struct uln_head *wire)
{
	struct uln_express_end *area = express_meant(peer->system, peer->host, wire->to, false);
	struct uln_system *system = peer->system;

	if (!area || !wire->from || area->other != wire->from)
		return;
	area->other = 0;
	area->say = 0;
	list_del_init(&area->on_untold);
	if (area->state != EXPRESS_ENDED)
		return;
	uln_part_give(&express_host_of(system, area)->part, &area->pages);
	uln_express_forget(system, area);
	uln_express_of(system)->ops->news(system);
}

static void said_settled(struct uln_peer *peer)
{
	struct uln_system *system = peer->system;
	struct express_host *with = &uln_express_of(system)->hosts[peer->host];
	struct uln_express_end *end;

	if (!with->settling)
		return;
	with->settling = false;
	uln_part_settle(&with->part);
	list_for_each_entry(end, &with->ends, on_host)
		end->astray = false;
	uln_express_of(system)->ops->news(system);
}

static void express_message(struct peer_service *service, u32 host,
			    const struct uln_head *wire, const u8 *data)
{
	struct uln_peer *peer = &service->system->peers[host];

	switch (wire->reason) {
	case ULN_EXPRESS_SAY_MAP:
		said_map(peer, wire, data);
		return;
	case ULN_EXPRESS_SAY_SETTLE:
		uln_express_say(peer, NULL, ULN_EXPRESS_SAY_SETTLED, 0, 0, NULL, 0);
		return;
	}
	if (!uln_express_of(peer->system))
		return;
	switch (wire->reason) {
	case ULN_EXPRESS_SAY_PAGES:
		said_pages(peer, wire, data);
		return;
	case ULN_EXPRESS_SAY_REFUSED:
		said_refused(peer, wire, data);
		return;
	case ULN_EXPRESS_SAY_GONE:
		said_gone(peer, wire);
		return;
	case ULN_EXPRESS_SAY_UNMAP:
		said_unmap(peer, wire);
		return;
	case ULN_EXPRESS_SAY_SETTLED:
		said_settled(peer);
	}
}

/* Handles an area whose host is lost: it is unknown what became of its view, if it had one. */
static void area_lost(struct uln_system *system, struct uln_express_end *area)
{
	area->astray = area->astray || area->other;
	area->other = 0;
	area->say = 0;
	list_del_init(&area->on_untold);
	if (area->state != EXPRESS_ENDED)
		return;
	uln_part_lose(&express_host_of(system, area)->part, &area->pages);
	uln_express_forget(system, area);
}

/*
 * Forgets what was arranged with a host. It sees no pages that it did not see before, and this host
 * none of its pages. A host that has restarted is asked once more to settle, if it had been.
 */
static void express_lost(struct peer_service *service, u32 host, u32 reason, bool restarted)
{
	struct uln_system *system = service->system;
	struct uln_express_end *end, *next;
	struct express_host *with;

	if (!uln_express_of(system))
		return;
	with = &uln_express_of(system)->hosts[host];
	with->settling = with->settling && restarted;
	list_for_each_entry_safe(end, next, &with->ends, on_host) {
		if (!end->view) {
			area_lost(system, end);
			continue;
		}
		if (end->state != EXPRESS_ENDED)
			uln_express_view_end(system, end, -EHOSTDOWN);
		uln_express_forget(system, end);
	}
	uln_express_of(system)->ops->news(system);
}

/* Handles a host that has not settled yet. */
static void express_ask_again(struct uln_peer *peer, struct express_host *with)
{
	if (!with->settling)
		return;
	if (time_after(jiffies, with->since + ASK_PATIENCE)) {
		with->settling = false;
		uln_express_of(peer->system)->ops->news(peer->system);
	} else if (time_after(jiffies, with->asked + ASK_AGAIN)) {
		with->asked = jiffies;
		uln_express_say(peer, NULL, ULN_EXPRESS_SAY_SETTLE, 0, 0, NULL, 0);
	}
}

static void express_tick(struct peer_service *service, u32 host)
{
	struct uln_system *system = service->system;
	struct uln_express_end *end, *next;
	struct express_host *with;

	if (!uln_express_of(system))
		return;
	with = &uln_express_of(system)->hosts[host];
	list_for_each_entry_safe(end, next, &with->ends, on_host) {
		if (!end->view || end->state != EXPRESS_ASKING || !end->said)
			continue;
		/* The host is alive, but does not know such questions. */
		if (time_after(jiffies, end->since + ASK_PATIENCE)) {
			uln_express_view_end(system, end, -EHOSTUNREACH);
			uln_express_mean(system, end, ULN_EXPRESS_SAY_UNMAP);
		} else if (time_after(jiffies, end->asked + ASK_AGAIN)) {
			uln_express_mean(system, end, ULN_EXPRESS_SAY_MAP);
		}
	}
	uln_express_tell(system, with);
	express_ask_again(&system->peers[host], with);
}

static bool express_depends(const struct peer_service *service, u32 host)
{
	const struct uln_express *express = uln_express_of(service->system);
	const struct uln_express_end *end;
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
	struct uln_express *express = own->express;
	unsigned int i;

	for (i = 0; express && i < ARRAY_SIZE(express->hosts); i++)
		uln_part_close(&express->hosts[i].part);
	if (express)
		xa_destroy(&express->ends);
	kfree(express);
	kfree(own);
}

static const struct peer_service_ops express_ops = {
	.kinds = BIT(ULN_WIRE_EXPRESS),
	.message = express_message,
	.lost = express_lost,
	.depends = express_depends,
	.tick = express_tick,
	.free = express_free,
};

int uln_express_register(struct uln_system *system)
{
	struct express_service *own = kzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	own->service.ops = &express_ops;
	uln_service_register(system, &own->service);
	return 0;
}
