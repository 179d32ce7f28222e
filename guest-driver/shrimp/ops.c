// SPDX-License-Identifier: GPL-2.0-only
/* The operations of a SHRIMP card that the core calls. */
#include <linux/devm-helpers.h>

#include "shrimp.h"

enum { BAR_MEMORY = 2 };

/* A page table with more entries than this is broken: it would be for 64 GiB. */
#define MAX_PAGES (1U << 24)

static_assert(!offsetof(struct shrimp_parts, card));

static void ops_init(struct uln_card *card)
{
	struct shrimp_parts *parts = shrimp_parts(card);

	xa_init(&parts->nipt);
	xa_init_flags(&parts->exports, XA_FLAGS_ALLOC);
	xa_init_flags(&parts->mappings, XA_FLAGS_ALLOC);
	init_waitqueue_head(&parts->turn);
	spin_lock_init(&parts->engine);
	INIT_LIST_HEAD(&parts->telling);
	INIT_LIST_HEAD(&parts->endings);
}

static void ops_free(struct uln_card *card)
{
	struct shrimp_parts *parts = shrimp_parts(card);

	xa_destroy(&parts->nipt);
	xa_destroy(&parts->exports);
	xa_destroy(&parts->mappings);
	shrimp_own_free(card);
}

static int ops_limits(struct uln_card *card, struct uln_query *limits)
{
	struct shrimp_query *own = (struct shrimp_query *)limits->card;

	static_assert(sizeof(*own) <= sizeof(limits->card));
	own->pages = readl(card->registers + SHRIMP_REG_PAGES);
	own->columns = readl(card->registers + SHRIMP_REG_COLUMNS);
	own->fifo = readl(card->registers + SHRIMP_REG_FIFO);
	return uln_card_check_limit(card, "pages", own->pages, 1, MAX_PAGES) ?:
	       uln_card_check_limit(card, "columns", own->columns, 1, U16_MAX);
}

/* Processes map window pages and command pages; the driver maps only command pages. */
static int ops_map(struct uln_card *card)
{
	u64 commands = (u64)shrimp_table(card) * ULN_PAGE_SIZE;
	struct shrimp_parts *parts = shrimp_parts(card);
	struct pci_dev *pdev = card->pdev;
	int ret;

	ret = uln_bar_check(pdev, BAR_MEMORY, 2 * commands) ?:
	      pcim_request_region(pdev, BAR_MEMORY, card->ops->name);
	if (ret)
		return ret;
	parts->memory = pci_resource_start(pdev, BAR_MEMORY);
	parts->commands = devm_ioremap(&pdev->dev, parts->memory, commands);
	return parts->commands ? 0 : -ENOMEM;
}

static int ops_prepare(struct uln_card *card)
{
	return ops_map(card) ?:
	       devm_delayed_work_autocancel(&card->pdev->dev, &shrimp_parts(card)->tell,
					    shrimp_tell_later) ?:
	       devm_delayed_work_autocancel(&card->pdev->dev, &shrimp_parts(card)->answers,
					    shrimp_answers_look) ?:
	       shrimp_paging_init(card) ?:
	       shrimp_own_init(card);
}

static bool card_snoops(const struct uln_card *card)
{
	return readl(card->registers + SHRIMP_REG_SNOOPS);
}

static void ops_announce(const struct uln_card *card)
{
	/* Whether stores are snooped is unknown before a page is mapped out. */
	dev_info(&card->pdev->dev, "%s: %u pages, %u columns\n", dev_name(&card->dev),
		 shrimp_table(card), ((const struct shrimp_query *)card->limits.card)->columns);
}

static void ops_query(const struct uln_card *card, struct uln_query *query)
{
	struct shrimp_query *own = (struct shrimp_query *)query->card;

	own->snoops = card_snoops(card);
	if (uln_system_is_open(card->system))
		query->capabilities |= ULN_CAPABILITY_CONNECTIONS | ULN_CAPABILITY_QUESTIONS;
}

static u32 ops_shares(const struct uln_card *card, unsigned int kind)
{
	return SHRIMP_MAX_OBJECTS;
}

/* The card has no words of its own to clear. */
static void ops_reset(struct uln_card *card)
{
}

static void ops_stop(struct uln_card *card)
{
	struct shrimp_parts *parts = shrimp_parts(card);
	struct shrimp_mapping_object *mapping;
	struct shrimp_export_object *export;
	unsigned long index;

	xa_for_each(&parts->exports, index, export)
		wake_up_all(&export->wait);
	xa_for_each(&parts->mappings, index, mapping)
		wake_up_all(&mapping->wait);
	wake_up_all(&parts->turn);
}

static const char * const commands[] = {
	[SHRIMP_COMMAND_SET_ENTRY] = "set-entry",
	[SHRIMP_COMMAND_SET_SYSTEM_PAGE] = "set-system-page",
	[SHRIMP_COMMAND_OPEN_ARRIVALS] = "open-arrivals",
	[SHRIMP_COMMAND_CLOSE_ARRIVALS] = "close-arrivals",
	[SHRIMP_COMMAND_SET_ENTRIES] = "set-entries",
};

static const struct card_call calls[] = {
	{ SHRIMP_IOC_EXPORT, true, shrimp_export, shrimp_export_undo },
	{ SHRIMP_IOC_UNEXPORT, false, shrimp_unexport },
	{ SHRIMP_IOC_MAP, true, shrimp_map, shrimp_map_undo },
	{ SHRIMP_IOC_UNMAP, false, shrimp_unmap },
	{ SHRIMP_IOC_WAIT, true, shrimp_wait },
	{ SHRIMP_IOC_STATE, true, shrimp_state },
};

static const struct card_kind * const kinds[] = {
	[SHRIMP_KIND_MAPPING] = &shrimp_mapping_kind,
	[SHRIMP_KIND_EXPORT] = &shrimp_export_kind,
	[SHRIMP_KIND_EXPRESS] = &uln_express_kind,
};
static_assert(ARRAY_SIZE(kinds) <= ULN_CARD_KINDS);

const struct card_ops shrimp_card_ops = {
	.model = SHRIMP_MODEL,
	.name = "shrimp",
	.abi_version = SHRIMP_ABI_VERSION,
	/* It added SHRIMP_ENTRY_SYSTEM. */
	.abi_minor = 4,
	.statistics = SHRIMP_STATISTICS,
	.commands = commands,
	.commands_count = ARRAY_SIZE(commands),
	.shared = { "exports", "mappings" },
	.shares = ops_shares,
	.lanes = &shrimp_lane_ops,
	.groups = shrimp_groups,
	.vectors = SHRIMP_VECTOR_OUTGOING,
	.size = sizeof(struct shrimp_parts),
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
	.raised = shrimp_raised,
	.start = shrimp_own_start,
	.stop = ops_stop,
	.end = shrimp_own_stop,
};
