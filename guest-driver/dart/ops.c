// SPDX-License-Identifier: GPL-2.0-only
/* The operations of a DART card that the core calls. */
#include <linux/bitmap.h>
#include <linux/devm-helpers.h>

#include "dart.h"

enum { BAR_PAGES = 2 };

/* A card that reports more than this is broken. */
#define MAX_OBJECTS (1U << 20)
/* The FIFO has room for three times this many, with as many queues. */
#define MAX_CONNECTIONS (1U << 14)

static_assert(!offsetof(struct dart_parts, card));
static_assert(sizeof(struct dart_query) <= sizeof(((struct uln_query *)0)->card));
static_assert(DART_STATISTICS <= ARRAY_SIZE(((struct uln_statistics *)0)->values));
static_assert(4 * MAX_CONNECTIONS <= DART_MAX_FIFO);

static void ops_init(struct uln_card *card)
{
	struct dart_parts *parts = dart_parts(card);

	xa_init_flags(&parts->endpoints, XA_FLAGS_ALLOC);
	xa_init_flags(&parts->banks, XA_FLAGS_ALLOC);
	xa_init_flags(&parts->queues, XA_FLAGS_ALLOC);
	xa_init_flags(&parts->connections, XA_FLAGS_ALLOC);
	mutex_init(&parts->translations);
	INIT_LIST_HEAD(&parts->farewells);
}

static void ops_free(struct uln_card *card)
{
	struct dart_parts *parts = dart_parts(card);

	xa_destroy(&parts->endpoints);
	xa_destroy(&parts->banks);
	xa_destroy(&parts->queues);
	xa_destroy(&parts->connections);
	bitmap_free(parts->registers);
	bitmap_free(parts->entries);
	dart_own_free(card);
}

static int ops_limits(struct uln_card *card, struct uln_query *limits)
{
	struct dart_query *query = (struct dart_query *)limits->card;

	query->connections = readl(card->registers + DART_REG_CONNECTIONS);
	query->endpoints = readl(card->registers + DART_REG_ENDPOINTS);
	query->registers = readl(card->registers + DART_REG_REGISTERS);
	query->program = readl(card->registers + DART_REG_PROGRAM);
	query->queues = readl(card->registers + DART_REG_QUEUES);
	query->tlb = readl(card->registers + DART_REG_TLB);
	query->window = readl(card->registers + DART_REG_WINDOW);
	return uln_card_check_limit(card, "connections", query->connections,
				    DART_FIRST_CONNECTION + 1, MAX_CONNECTIONS) ?:
	       uln_card_check_limit(card, "endpoints", query->endpoints, DART_OWN_ENDPOINTS + 1,
				    MAX_OBJECTS) ?:
	       uln_card_check_limit(card, "address registers", query->registers, 1,
				    MAX_OBJECTS) ?:
	       uln_card_check_limit(card, "program entries", query->program, 1, MAX_OBJECTS) ?:
	       uln_card_check_limit(card, "queues", query->queues, 1, MAX_CONNECTIONS) ?:
	       uln_card_check_limit(card, "translations", query->tlb, 1, MAX_OBJECTS) ?:
	       uln_card_check_limit(card, "cells in a window", query->window, 1, U32_MAX);
}

/* The first pages are the driver's, the others are for processes. */
static int ops_prepare(struct uln_card *card)
{
	const struct dart_query *limits = dart_limits(card);
	struct dart_parts *parts = dart_parts(card);
	struct pci_dev *pdev = card->pdev;
	int ret;

	ret = uln_bar_check(pdev, BAR_PAGES, (u64)limits->connections * DART_PAGE_SIZE) ?:
	      pcim_request_region(pdev, BAR_PAGES, card->ops->name);
	if (ret)
		return ret;
	parts->memory = pci_resource_start(pdev, BAR_PAGES);
	parts->pages = devm_ioremap(&pdev->dev, parts->memory, DART_HOSTS * DART_PAGE_SIZE);
	parts->registers = bitmap_zalloc(limits->registers, GFP_KERNEL);
	parts->entries = bitmap_zalloc(limits->program, GFP_KERNEL);
	if (!parts->pages || !parts->registers || !parts->entries)
		return -ENOMEM;
	return devm_delayed_work_autocancel(&pdev->dev, &parts->tell, dart_farewells_later) ?:
	       dart_own_init(card);
}

static void ops_announce(const struct uln_card *card)
{
	const struct dart_query *limits = dart_limits(card);

	dev_info(&card->pdev->dev,
		 "%s: %u connections, %u endpoints, %u address registers, %u queues, %u translations\n",
		 dev_name(&card->dev), limits->connections, limits->endpoints, limits->registers,
		 limits->queues, limits->tlb);
}

static u32 ops_shares(const struct uln_card *card, unsigned int kind)
{
	const struct dart_query *limits = dart_limits(card);

	switch (kind) {
	case DART_SHARE_CONNECTIONS:
		return limits->connections - DART_FIRST_CONNECTION;
	case DART_SHARE_REGISTERS:
		return limits->registers;
	default:
		return limits->queues;
	}
}

static void ops_query(const struct uln_card *card, struct uln_query *query)
{
	struct dart_query *own = (struct dart_query *)query->card;

	own->connections -= DART_FIRST_CONNECTION;
	own->endpoints -= DART_OWN_ENDPOINTS;
	if (uln_system_is_open(card->system))
		query->capabilities |= ULN_CAPABILITY_CONNECTIONS | ULN_CAPABILITY_QUESTIONS;
}

/* The card has no words of its own to clear. */
static void ops_reset(struct uln_card *card)
{
}

static void ops_stop(struct uln_card *card)
{
	struct dart_parts *parts = dart_parts(card);
	struct dart_connection_object *connection;
	struct dart_queue_object *queue;
	unsigned long index;

	dart_pages_tell(card, false);
	xa_for_each(&parts->connections, index, connection) {
		wake_up_all(&connection->sleepers.wait);
		wake_up_all(&connection->excepted.wait);
	}
	xa_for_each(&parts->queues, index, queue)
		wake_up_all(&queue->sleepers.wait);
}

static const char * const commands[] = {
	[DART_COMMAND_OPEN_ENDPOINT] = "open-endpoint",
	[DART_COMMAND_CLOSE_ENDPOINT] = "close-endpoint",
	[DART_COMMAND_OPEN_CONNECTION] = "open-connection",
	[DART_COMMAND_CLOSE_CONNECTION] = "close-connection",
	[DART_COMMAND_CONNECT] = "connect",
	[DART_COMMAND_OPEN_QUEUE] = "open-queue",
	[DART_COMMAND_CLOSE_QUEUE] = "close-queue",
	[DART_COMMAND_OPEN_FIFO] = "open-fifo",
	[DART_COMMAND_CLOSE_FIFO] = "close-fifo",
	[DART_COMMAND_READ_MISSES] = "read-misses",
	[DART_COMMAND_SET_REGISTERS] = "set-registers",
	[DART_COMMAND_SET_PROGRAM] = "set-program",
	[DART_COMMAND_BREAK] = "break",
};

static const struct card_call calls[] = {
	/* The first ones are frequent. */
	{ DART_IOC_QUEUE_WAIT, false, dart_queue_wait },
	{ DART_IOC_LEFT_WAIT, false, dart_left_wait },
	{ DART_IOC_EXCEPTION_WAIT, false, dart_exception_wait },
	{ DART_IOC_CONNECT, false, dart_connect },
	{ DART_IOC_SET_PROGRAM, false, dart_bank_set_program },
	{ DART_IOC_ENDPOINT_OPEN, true, dart_endpoint_open, dart_endpoint_undo },
	{ DART_IOC_ENDPOINT_CLOSE, false, dart_endpoint_close },
	{ DART_IOC_BANK_OPEN, true, dart_bank_open, dart_bank_undo },
	{ DART_IOC_BANK_CLOSE, false, dart_bank_close },
	{ DART_IOC_QUEUE_OPEN, true, dart_queue_open, dart_queue_undo },
	{ DART_IOC_QUEUE_CLOSE, false, dart_queue_close },
	{ DART_IOC_CONNECTION_OPEN, true, dart_connection_open, dart_connection_undo },
	{ DART_IOC_CONNECTION_CLOSE, false, dart_connection_close },
};

static const struct card_kind * const kinds[] = {
	[DART_KIND_CONNECTION] = &dart_connection_kind,
	[DART_KIND_QUEUE] = &dart_queue_kind,
	[DART_KIND_BANK] = &dart_bank_kind,
	[DART_KIND_ENDPOINT] = &dart_endpoint_kind,
	[DART_KIND_EXPRESS] = &uln_express_kind,
};
static_assert(ARRAY_SIZE(kinds) <= ULN_CARD_KINDS);

const struct card_ops dart_card_ops = {
	.model = DART_MODEL,
	.name = "dart",
	.abi_version = DART_ABI_VERSION,
	.statistics = DART_STATISTICS,
	.commands = commands,
	.commands_count = ARRAY_SIZE(commands),
	.shared = {
		[DART_SHARE_CONNECTIONS] = "card-connections",
		[DART_SHARE_REGISTERS] = "registers",
		[DART_SHARE_QUEUES] = "queues",
	},
	.shares = ops_shares,
	.vectors = DART_VECTOR_FIFO,
	.size = sizeof(struct dart_parts),
	.kinds = kinds,
	.kinds_count = ARRAY_SIZE(kinds),
	.calls = calls,
	.calls_count = ARRAY_SIZE(calls),
	.load = dart_misses_load,
	.unload = dart_misses_unload,
	.init = ops_init,
	.free = ops_free,
	.limits = ops_limits,
	.prepare = ops_prepare,
	.announce = ops_announce,
	.query = ops_query,
	.reset = ops_reset,
	.raised = dart_raised,
	.start = dart_own_start,
	.stop = ops_stop,
	.end = dart_own_stop,
	.lanes = &dart_lane_ops,
};
