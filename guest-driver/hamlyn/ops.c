// SPDX-License-Identifier: GPL-2.0-only
/*
 * The operations of a Hamlyn card that the core calls: its limits, the parts that are mapped, its
 * objects and its calls.
 */
#include "hamlyn.h"

enum { BAR_WINDOWS = 2, BAR_DOORBELLS = 4 };

/* A card that reports more of anything than this is broken. */
#define MAX_OBJECTS (1U << 24)
/* The terminus control area has words for this many. */
#define MAX_TERMINI (HAMLYN_TERMINUS_CONTROL_SIZE / HAMLYN_TERMINUS_CONTROL_STRIDE)

/* The core allocates and frees both as one. */
static_assert(!offsetof(struct hamlyn_parts, card));
static_assert(HAMLYN_STATISTICS <= ARRAY_SIZE(((struct uln_statistics *)0)->values));

static void ops_init(struct uln_card *card)
{
	struct hamlyn_parts *parts = hamlyn_parts(card);

	xa_init_flags(&parts->termini, XA_FLAGS_ALLOC);
	xa_init_flags(&parts->slots, XA_FLAGS_ALLOC);
	xa_init_flags(&parts->queues, XA_FLAGS_ALLOC);
	xa_init_flags(&parts->registrations, XA_FLAGS_ALLOC1);
}

static void ops_free(struct uln_card *card)
{
	struct hamlyn_parts *parts = hamlyn_parts(card);

	xa_destroy(&parts->termini);
	xa_destroy(&parts->slots);
	xa_destroy(&parts->queues);
	xa_destroy(&parts->registrations);
	hamlyn_wellknown_free(card);
}

/*
 * Cards of this version and later have one memory for all objects, and registers that describe it.
 */
#define ABI_SRAM 0x00020006

static_assert(sizeof(struct hamlyn_sram_query) <= sizeof(((struct uln_query *)0)->card));

/* Bytes of a card's memory after the directory; 0: the card is too old to have one memory. */
static u32 ops_sram_room(const struct uln_query *limits)
{
	u64 numbers = (u64)limits->termini + limits->slots + limits->queues;
	u64 directory = round_up(numbers * HAMLYN_SRAM_NUMBER, HAMLYN_SRAM_UNIT);

	if (limits->abi_version < ABI_SRAM || directory >= limits->sram_size)
		return 0;
	return limits->sram_size - directory;
}

static int ops_limits(struct uln_card *card, struct uln_query *limits)
{
	struct hamlyn_sram_query *sram = (struct hamlyn_sram_query *)limits->card;

	limits->packet_size = readl(card->registers + HAMLYN_REG_PACKET_SIZE);
	limits->sram_size = readl(card->registers + HAMLYN_REG_SRAM_SIZE);
	limits->termini = readl(card->registers + HAMLYN_REG_TERMINI);
	limits->slots = readl(card->registers + HAMLYN_REG_SLOTS);
	limits->queues = readl(card->registers + HAMLYN_REG_QUEUES);
	sram->room = ops_sram_room(limits);
	return uln_card_check_limit(card, "termini", limits->termini, 1, MAX_TERMINI) ?:
	       uln_card_check_limit(card, "slots", limits->slots, 1, MAX_OBJECTS) ?:
	       uln_card_check_limit(card, "notification queues", limits->queues, 1, MAX_OBJECTS);
}

/*
 * Processes map windows and doorbells; the driver maps windows, and the control areas after them.
 */
static int ops_map(struct uln_card *card)
{
	struct hamlyn_parts *parts = hamlyn_parts(card);
	u64 windows = (u64)card->limits.termini * HAMLYN_WINDOW_SIZE;
	struct pci_dev *pdev = card->pdev;
	int ret;

	parts->terminus_control =
		DIV_ROUND_UP(card->limits.queues, 512) * HAMLYN_QUEUE_CONTROL_SIZE;
	parts->control_size = parts->terminus_control + HAMLYN_TERMINUS_CONTROL_SIZE;
	ret = uln_bar_check(pdev, BAR_WINDOWS, windows + parts->control_size) ?:
	      uln_bar_check(pdev, BAR_DOORBELLS,
			    (u64)card->limits.termini * HAMLYN_DOORBELL_SIZE) ?:
	      pcim_request_region(pdev, BAR_WINDOWS, ULN_NAME) ?:
	      pcim_request_region(pdev, BAR_DOORBELLS, ULN_NAME);
	if (ret)
		return ret;
	parts->windows = pci_resource_start(pdev, BAR_WINDOWS);
	parts->trapped_doorbells = pci_resource_start(pdev, BAR_DOORBELLS);
	parts->doorbells = parts->trapped_doorbells;
	parts->memory = uln_windows_map(card, parts->windows, windows + parts->control_size);
	if (!parts->memory)
		return -ENOMEM;
	parts->control = parts->memory + windows;
	card->pending = parts->control + HAMLYN_QUEUE_CONTROL_PENDING;
	return 0;
}

static int ops_prepare(struct uln_card *card)
{
	return ops_map(card) ?: hamlyn_bells_join(card) ?: hamlyn_wellknown_init(card);
}

static void ops_announce(const struct uln_card *card)
{
	dev_info(&card->pdev->dev,
		 "%s: %u termini, %u slots, %u queues, %u vectors, doorbells are %s\n",
		 dev_name(&card->dev), card->limits.termini, card->limits.slots,
		 card->limits.queues, card->vectors,
		 hamlyn_parts(card)->posted ? "posted" : "trapped");
}

static void ops_query(const struct uln_card *card, struct uln_query *query)
{
	struct hamlyn_sram_query *sram = (struct hamlyn_sram_query *)query->card;

	query->capabilities |= HAMLYN_CAPABILITY_COMPLETIONS | HAMLYN_CAPABILITY_REGISTRATIONS;
	if (sram->room) {
		sram->free = readl(card->registers + HAMLYN_REG_SRAM_FREE);
		sram->longest = readl(card->registers + HAMLYN_REG_SRAM_LONGEST);
	}
	hamlyn_wellknown_query(card, query);
}

static u32 ops_shares(const struct uln_card *card, unsigned int kind)
{
	struct uln_query query = card->limits;

	hamlyn_wellknown_query(card, &query);
	switch (kind) {
	case HAMLYN_TERMINI:
		return query.termini;
	case HAMLYN_SLOTS:
		return query.slots;
	default:
		return query.queues;
	}
}

static void ops_reset(struct uln_card *card)
{
	struct hamlyn_parts *parts = hamlyn_parts(card);

	memset_io(parts->control, 0, parts->control_size);
}

static void ops_stop(struct uln_card *card)
{
	struct hamlyn_parts *parts = hamlyn_parts(card);
	struct hamlyn_terminus *terminus;
	struct hamlyn_queue *queue;
	unsigned long index;

	xa_for_each(&parts->queues, index, queue)
		wake_up_all(&queue->sleepers.wait);
	xa_for_each(&parts->termini, index, terminus)
		wake_up_all(&terminus->sleepers.wait);
}

static const char * const commands[] = {
	[HAMLYN_COMMAND_OPEN_TERMINUS] = "open-terminus",
	[HAMLYN_COMMAND_CLOSE_TERMINUS] = "close-terminus",
	[HAMLYN_COMMAND_SET_SEND_BUFFER] = "set-send-buffer",
	[HAMLYN_COMMAND_CLEAR_SEND_BUFFER] = "clear-send-buffer",
	[HAMLYN_COMMAND_OPEN_SLOT] = "open-slot",
	[HAMLYN_COMMAND_CLOSE_SLOT] = "close-slot",
	[HAMLYN_COMMAND_OPEN_QUEUE] = "open-queue",
	[HAMLYN_COMMAND_CLOSE_QUEUE] = "close-queue",
};

static const struct card_call calls[] = {
	{ HAMLYN_IOC_TERMINUS_CREATE, true, hamlyn_terminus_create, hamlyn_terminus_undo },
	{ HAMLYN_IOC_TERMINUS_DESTROY, false, hamlyn_terminus_destroy },
	{ HAMLYN_IOC_TERMINUS_WAIT, false, hamlyn_terminus_wait },
	{ HAMLYN_IOC_TERMINUS_ARM, true, hamlyn_terminus_arm },
	{ HAMLYN_IOC_SEND_BUFFER_SET, false, hamlyn_send_buffer_set },
	{ HAMLYN_IOC_SEND_BUFFER_CLEAR, false, hamlyn_send_buffer_clear },
	{ HAMLYN_IOC_QUEUE_CREATE, true, hamlyn_queue_create, hamlyn_queue_undo },
	{ HAMLYN_IOC_QUEUE_DESTROY, false, hamlyn_queue_destroy },
	{ HAMLYN_IOC_QUEUE_WAIT, false, hamlyn_queue_wait },
	{ HAMLYN_IOC_QUEUE_ARM, true, hamlyn_queue_arm },
	{ HAMLYN_IOC_SLOT_CREATE, true, hamlyn_slot_create, hamlyn_slot_undo },
	{ HAMLYN_IOC_SLOT_DESTROY, false, hamlyn_slot_destroy },
	{ HAMLYN_IOC_REGISTRATION_CREATE, true, hamlyn_registration_create,
	  hamlyn_registration_undo },
	{ HAMLYN_IOC_REGISTRATION_DESTROY, false, hamlyn_registration_destroy },
};

static const struct card_kind * const kinds[] = {
	[HAMLYN_KIND_SLOT] = &hamlyn_slot_kind,
	[HAMLYN_KIND_TERMINUS] = &hamlyn_terminus_kind,
	[HAMLYN_KIND_QUEUE] = &hamlyn_queue_kind,
	[HAMLYN_KIND_REGISTRATION] = &hamlyn_registration_kind,
	[HAMLYN_KIND_EXPRESS] = &uln_express_kind,
};
static_assert(ARRAY_SIZE(kinds) <= ULN_CARD_KINDS);

const struct card_ops hamlyn_card_ops = {
	.model = HAMLYN_MODEL,
	.name = "hamlyn",
	.abi_version = HAMLYN_ABI_VERSION,
	/* A later addition, the card's PORTS, reads as 0 where it is missing. */
	.abi_minor = 3,
	.statistics = HAMLYN_STATISTICS,
	.commands = commands,
	.commands_count = ARRAY_SIZE(commands),
	.shared = { "termini", "slots", "queues" },
	.shares = ops_shares,
	.size = sizeof(struct hamlyn_parts),
	.kinds = kinds,
	.kinds_count = ARRAY_SIZE(kinds),
	.calls = calls,
	.calls_count = ARRAY_SIZE(calls),
	.load = hamlyn_bells_init,
	.unload = hamlyn_bells_exit,
	.init = ops_init,
	.free = ops_free,
	.limits = ops_limits,
	.prepare = ops_prepare,
	.announce = ops_announce,
	.query = ops_query,
	.reset = ops_reset,
	.start = hamlyn_wellknown_start,
	.stop = ops_stop,
	.end = hamlyn_wellknown_stop,
	.lanes = &hamlyn_lane_ops,
};
