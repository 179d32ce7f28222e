// SPDX-License-Identifier: GPL-2.0-only
/* The operations of a CLAN card that the core calls. */
#include <linux/devm-helpers.h>

#include "clan.h"

enum { BAR_PAGES = 2 };

/* A card that reports more than this is broken. */
#define MAX_OBJECTS (1U << 20)
/* CLAN_REG_ARM has 16 bits for an endpoint's number. */
#define MAX_ENDPOINTS (1U << 16)

static_assert(!offsetof(struct clan_parts, card));
static_assert(sizeof(struct clan_limits) <= sizeof(((struct uln_query *)0)->card));
static_assert(CLAN_STATISTICS <= ARRAY_SIZE(((struct uln_statistics *)0)->values));

static void ops_init(struct uln_card *card)
{
	struct clan_parts *parts = clan_parts(card);

	xa_init_flags(&parts->apertures, XA_FLAGS_ALLOC);
	xa_init(&parts->windows);
	xa_init_flags(&parts->endpoints, XA_FLAGS_ALLOC);
	xa_init_flags(&parts->events, XA_FLAGS_ALLOC);
	xa_init_flags(&parts->ports, XA_FLAGS_ALLOC);
	INIT_LIST_HEAD(&parts->farewells);
}

static void ops_free(struct uln_card *card)
{
	struct clan_parts *parts = clan_parts(card);

	xa_destroy(&parts->apertures);
	xa_destroy(&parts->windows);
	xa_destroy(&parts->endpoints);
	xa_destroy(&parts->events);
	xa_destroy(&parts->ports);
	bitmap_free(parts->windowed);
	clan_own_free(card);
}

static int ops_limits(struct uln_card *card, struct uln_query *limits)
{
	struct clan_limits *own = (struct clan_limits *)limits->card;
	struct clan_query *query = &own->query;

	query->apertures = readl(card->registers + CLAN_REG_APERTURES);
	query->window_pages = readl(card->registers + CLAN_REG_WINDOW_PAGES);
	query->endpoints = readl(card->registers + CLAN_REG_ENDPOINTS);
	query->tripwires = readl(card->registers + CLAN_REG_TRIPWIRES);
	query->burst = readl(card->registers + CLAN_REG_BURST);
	query->credits = readl(card->registers + CLAN_REG_CREDITS);
	own->event_queues = readl(card->registers + CLAN_REG_EVENT_QUEUES);
	return uln_card_check_limit(card, "apertures", query->apertures, CLAN_OWN_APERTURES + 1,
				    MAX_OBJECTS) ?:
	       uln_card_check_limit(card, "window pages", query->window_pages, 1, MAX_OBJECTS) ?:
	       uln_card_check_limit(card, "endpoints", query->endpoints, CLAN_OWN_ENDPOINTS + 1,
				    MAX_ENDPOINTS) ?:
	       uln_card_check_limit(card, "Tripwires", query->tripwires, 1, CLAN_MAX_FIFO / 2) ?:
	       uln_card_check_limit(card, "event queues", own->event_queues, 1,
				    CLAN_MAX_FIFO / 2 - query->endpoints) ?:
	       uln_card_check_limit(card, "bytes in a packet", query->burst, sizeof(u64),
				    U32_MAX);
}

/* Processes map windows and endpoints' pages; the driver maps only endpoints' pages. */
static int ops_prepare(struct uln_card *card)
{
	const struct clan_query *limits = &clan_limits(card)->query;
	u64 pages = (u64)limits->endpoints + limits->window_pages;
	struct clan_parts *parts = clan_parts(card);
	struct pci_dev *pdev = card->pdev;
	int ret;

	ret = uln_bar_check(pdev, BAR_PAGES, pages * ULN_PAGE_SIZE) ?:
	      pcim_request_region(pdev, BAR_PAGES, card->ops->name);
	if (ret)
		return ret;
	parts->memory = pci_resource_start(pdev, BAR_PAGES);
	parts->pages = devm_ioremap(&pdev->dev, parts->memory,
				    (u64)limits->endpoints * CLAN_ENDPOINT_SIZE);
	parts->windowed = bitmap_zalloc(limits->window_pages, GFP_KERNEL);
	if (!parts->pages || !parts->windowed)
		return -ENOMEM;
	return devm_delayed_work_autocancel(&pdev->dev, &parts->tell, clan_farewells_later) ?:
	       clan_own_init(card);
}

static void ops_announce(const struct uln_card *card)
{
	const struct clan_query *limits = &clan_limits(card)->query;

	dev_info(&card->pdev->dev, "%s: %u apertures, %u window pages, %u endpoints, %u Tripwires\n",
		 dev_name(&card->dev), limits->apertures, limits->window_pages, limits->endpoints,
		 limits->tripwires);
}

static u32 ops_shares(const struct uln_card *card, unsigned int kind)
{
	const struct clan_limits *limits = clan_limits(card);

	switch (kind) {
	case CLAN_SHARE_APERTURES:
		return limits->query.apertures - CLAN_OWN_APERTURES;
	case CLAN_SHARE_WINDOW_PAGES:
		return limits->query.window_pages;
	default:
		return limits->query.endpoints - CLAN_OWN_ENDPOINTS;
	}
}

static void ops_query(const struct uln_card *card, struct uln_query *query)
{
	struct clan_limits *own = (struct clan_limits *)query->card;

	own->query.apertures = ops_shares(card, CLAN_SHARE_APERTURES);
	own->query.endpoints = ops_shares(card, CLAN_SHARE_ENDPOINTS);
	own->query.tripwires -= CLAN_OWN_TRIPWIRES;
	own->event_queues = 0;
	if (uln_system_is_open(card->system))
		query->capabilities |= ULN_CAPABILITY_CONNECTIONS | ULN_CAPABILITY_QUESTIONS;
}

/* The card has no words of its own to clear. */
static void ops_reset(struct uln_card *card)
{
}

static void ops_stop(struct uln_card *card)
{
	struct clan_parts *parts = clan_parts(card);
	struct clan_events_object *events;
	unsigned long index;
	void *entry;

	xa_for_each(&parts->endpoints, index, entry)
		if (!xa_pointer_tag(entry))
			wake_up_all(&((struct clan_endpoint_object *)entry)->sleepers.wait);
	xa_for_each(&parts->events, index, events)
		wake_up_all(&events->sleepers.wait);
}

static const char * const commands[] = {
	[CLAN_COMMAND_OPEN_APERTURE] = "open-aperture",
	[CLAN_COMMAND_CLOSE_APERTURE] = "close-aperture",
	[CLAN_COMMAND_OPEN_WINDOW] = "open-window",
	[CLAN_COMMAND_CLOSE_WINDOW] = "close-window",
	[CLAN_COMMAND_OPEN_ENDPOINT] = "open-endpoint",
	[CLAN_COMMAND_CLOSE_ENDPOINT] = "close-endpoint",
	[CLAN_COMMAND_OPEN_EVENTS] = "open-events",
	[CLAN_COMMAND_CLOSE_EVENTS] = "close-events",
	[CLAN_COMMAND_OPEN_FIFO] = "open-fifo",
	[CLAN_COMMAND_CLOSE_FIFO] = "close-fifo",
	[CLAN_COMMAND_SET_EVENTS] = "set-events",
};

static const struct card_call calls[] = {
	/* The first ones are frequent. */
	{ CLAN_IOC_WAIT, true, clan_endpoint_wait },
	{ CLAN_IOC_EVENTS_WAIT, false, clan_events_wait },
	{ CLAN_IOC_KICK, false, clan_kick },
	{ CLAN_IOC_SEND, false, clan_send },
	{ CLAN_IOC_PEER, false, clan_peer },
	{ CLAN_IOC_APERTURE_OPEN, true, clan_aperture_open, clan_aperture_undo },
	{ CLAN_IOC_APERTURE_CLOSE, false, clan_aperture_close },
	{ CLAN_IOC_WINDOW_OPEN, true, clan_window_open, clan_window_undo },
	{ CLAN_IOC_WINDOW_CLOSE, false, clan_window_close },
	{ CLAN_IOC_ENDPOINT_OPEN, true, clan_endpoint_open, clan_endpoint_undo },
	{ CLAN_IOC_ENDPOINT_CLOSE, false, clan_endpoint_close },
	{ CLAN_IOC_EVENTS_OPEN, true, clan_events_open, clan_events_undo },
	{ CLAN_IOC_EVENTS_CLOSE, false, clan_events_close },
	{ CLAN_IOC_EVENTS_OF, false, clan_endpoint_set_events },
};

static const struct card_kind * const kinds[] = {
	[CLAN_KIND_WINDOW] = &clan_window_kind,
	[CLAN_KIND_ENDPOINT] = &clan_endpoint_kind,
	[CLAN_KIND_EVENTS] = &clan_events_kind,
	[CLAN_KIND_APERTURE] = &clan_aperture_kind,
	[CLAN_KIND_EXPRESS] = &uln_express_kind,
};
static_assert(ARRAY_SIZE(kinds) <= ULN_CARD_KINDS);

const struct card_ops clan_card_ops = {
	.model = CLAN_MODEL,
	.name = "clan",
	.abi_version = CLAN_ABI_VERSION,
	.statistics = CLAN_STATISTICS,
	.commands = commands,
	.commands_count = ARRAY_SIZE(commands),
	.shared = {
		[CLAN_SHARE_APERTURES] = "apertures",
		[CLAN_SHARE_WINDOW_PAGES] = "window-pages",
		[CLAN_SHARE_ENDPOINTS] = "endpoints",
	},
	.shares = ops_shares,
	.vectors = CLAN_VECTOR_FIFO,
	.size = sizeof(struct clan_parts),
	.kinds = kinds,
	.kinds_count = ARRAY_SIZE(kinds),
	.calls = calls,
	.calls_count = ARRAY_SIZE(calls),
	.init = ops_init,
	.free = ops_free,
	.limits = ops_limits,
	.prepare = ops_prepare,
	.announce = ops_announce,
	.query = ops_query,
	.reset = ops_reset,
	.raised = clan_raised,
	.start = clan_own_start,
	.stop = ops_stop,
	.end = clan_own_stop,
	.lanes = &clan_lane_ops,
};
