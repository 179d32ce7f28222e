// SPDX-License-Identifier: GPL-2.0-only
/* The operations of an echo card that the core calls. */
#include "echo.h"
#include "uln_system.h"

enum { BAR_OUTBOXES = 2, BAR_DOORBELLS = 4 };

static_assert(!offsetof(struct echo_parts, card));

static void ops_init(struct uln_card *card)
{
	xa_init_flags(&echo_parts(card)->mailboxes, XA_FLAGS_ALLOC);
}

static void ops_free(struct uln_card *card)
{
	xa_destroy(&echo_parts(card)->mailboxes);
	echo_own_free(card);
}

static int ops_limits(struct uln_card *card, struct uln_query *limits)
{
	struct echo_query *own = (struct echo_query *)limits->card;

	static_assert(sizeof(*own) <= sizeof(limits->card));
	own->mailboxes = readl(card->registers + ECHO_REG_MAILBOXES);
	return uln_card_check_limit(card, "mailboxes", own->mailboxes,
				    ECHO_SYSTEM_MAILBOX + 2, ECHO_MAX_MAILBOXES);
}

/* Processes use outboxes and doorbells; the driver clears outboxes, and uses the control page. */
static int ops_prepare(struct uln_card *card)
{
	u64 control = (u64)echo_mailboxes(card) * ECHO_OUTBOX_SIZE;
	u64 doorbells = (u64)echo_mailboxes(card) * ECHO_DOORBELL_SIZE;
	struct echo_parts *parts = echo_parts(card);
	struct pci_dev *pdev = card->pdev;
	int ret;

	ret = uln_bar_check(pdev, BAR_OUTBOXES, control + ECHO_CONTROL_SIZE) ?:
	      uln_bar_check(pdev, BAR_DOORBELLS, doorbells) ?:
	      pcim_request_region(pdev, BAR_OUTBOXES, card->ops->name) ?:
	      pcim_request_region(pdev, BAR_DOORBELLS, card->ops->name);
	if (ret)
		return ret;
	parts->outboxes = pci_resource_start(pdev, BAR_OUTBOXES);
	parts->doorbells = pci_resource_start(pdev, BAR_DOORBELLS);
	parts->memory = uln_windows_map(card, parts->outboxes, control + ECHO_CONTROL_SIZE);
	if (!parts->memory)
		return -ENOMEM;
	parts->control = parts->memory + control;
	card->pending = parts->control + ECHO_CONTROL_PENDING;
	return echo_own_init(card);
}

static void ops_announce(const struct uln_card *card)
{
	dev_info(&card->pdev->dev, "%s: %u mailboxes\n", dev_name(&card->dev),
		 echo_mailboxes(card));
}

static u32 ops_shares(const struct uln_card *card, unsigned int kind)
{
	return echo_mailboxes(card) - 1;
}

static void ops_query(const struct uln_card *card, struct uln_query *query)
{
	((struct echo_query *)query->card)->mailboxes -= 1;
	if (uln_system_is_open(card->system))
		query->capabilities |= ULN_CAPABILITY_CONNECTIONS | ULN_CAPABILITY_QUESTIONS;
}

static void ops_reset(struct uln_card *card)
{
	memset_io(echo_parts(card)->control, 0, ECHO_CONTROL_SIZE);
}

static void ops_stop(struct uln_card *card)
{
	struct echo_mailbox_object *mailbox;
	unsigned long index;

	xa_for_each(&echo_parts(card)->mailboxes, index, mailbox)
		wake_up_all(&mailbox->sleepers.wait);
}

static const char * const commands[] = {
	[ECHO_COMMAND_OPEN_MAILBOX] = "open-mailbox",
	[ECHO_COMMAND_CLOSE_MAILBOX] = "close-mailbox",
};

static const struct card_call calls[] = {
	{ ECHO_IOC_MAILBOX_OPEN, true, echo_mailbox_open, echo_mailbox_undo },
	{ ECHO_IOC_MAILBOX_CLOSE, false, echo_mailbox_close },
	{ ECHO_IOC_MAILBOX_WAIT, false, echo_mailbox_wait },
};

static const struct card_kind * const kinds[] = { &echo_mailbox_kind, &uln_express_kind };

const struct card_ops echo_card_ops = {
	.model = ECHO_MODEL,
	.name = "echo",
	.abi_version = ECHO_ABI_VERSION,
	.statistics = ECHO_STATISTICS,
	.commands = commands,
	.commands_count = ARRAY_SIZE(commands),
	.shared = { "mailboxes" },
	.shares = ops_shares,
	.lanes = &echo_lane_ops,
	.size = sizeof(struct echo_parts),
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
	.start = echo_own_start,
	.stop = ops_stop,
	.end = echo_own_stop,
};
