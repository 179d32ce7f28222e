// SPDX-License-Identifier: GPL-2.0-only
/* The card as a whole: identity, start, counters. */
#include "uln_core.h"

#define MAJOR_OF(version) ((version) >> 16)
#define MINOR_OF(version) ((version) & 0xffff)
/* Interval of the check whether the card is still present. */
#define WATCH_INTERVAL (5 * HZ)

static u32 card_register(struct uln_card *card, u32 offset)
{
	return readl(card->registers + offset);
}

int uln_card_check_limit(struct uln_card *card, const char *what, u32 value, u32 least,
			 u32 most)
{
	if (value >= least && value <= most)
		return 0;
	dev_err(&card->pdev->dev, "the card has %u %s (limits %u to %u)\n", value, what, least,
		most);
	return -ENODEV;
}

/* If the period is too short for the driver, the card discards packets most of the time. */
static int card_check_handshake(struct uln_card *card)
{
	u32 period = card_register(card, ULN_REG_HANDSHAKE_TIMEOUT);

	if (!period)
		return 0;
	return uln_card_check_limit(card, "ms between handshakes", period,
				    uln_handshake_least(), U32_MAX);
}

/* Reads the identity registers, and rejects a card that this driver does not know. */
static int card_read_identity(struct uln_card *card, struct uln_query *limits)
{
	struct device *dev = &card->pdev->dev;
	u32 magic = card_register(card, ULN_REG_MAGIC);

	if (magic != ULN_MAGIC) {
		dev_err(dev, "the card's magic number is %#x, not %#x%s\n", magic, ULN_MAGIC,
			magic == U32_MAX ? ": it does not answer" :
			!magic ? ": was the machine migrated or restored? Then boot it again" : "");
		return -ENODEV;
	}
	limits->uapi_version = ULN_UAPI_VERSION;
	limits->model = card_register(card, ULN_REG_MODEL);
	if (limits->model != card->ops->model) {
		dev_err(dev, "the card is of model %u, not %u\n", limits->model,
			card->ops->model);
		return -ENODEV;
	}
	limits->abi_version = card_register(card, ULN_REG_ABI_VERSION);
	if (MAJOR_OF(limits->abi_version) != MAJOR_OF(card->ops->abi_version) ||
	    MINOR_OF(limits->abi_version) < card->ops->abi_minor) {
		dev_err(dev,
			"the card speaks version %u.%u, the driver needs %u.%u or a later %u: use card and driver of one release\n",
			MAJOR_OF(limits->abi_version), MINOR_OF(limits->abi_version),
			MAJOR_OF(card->ops->abi_version), card->ops->abi_minor,
			MAJOR_OF(card->ops->abi_version));
		return -ENODEV;
	}
	limits->vectors = card_register(card, ULN_REG_VECTORS);
	return card->ops->limits(card, limits) ?:
	       uln_card_check_limit(card, "interrupt vectors", limits->vectors, 2,
				    ULN_MAX_VECTORS) ?:
	       card_check_handshake(card);
}

static bool card_is_coherent(struct uln_card *card)
{
	return card_register(card, ULN_REG_FEATURES) & ULN_FEATURE_COHERENT;
}

int uln_card_identify(struct uln_card *card)
{
	card->coherent = card_is_coherent(card);
	return card_read_identity(card, &card->limits);
}

/*
 * Returns whether this is not the card that was probed, or has other limits. The driver's tables
 * and mappings would not fit it. The card's lock is held.
 */
bool uln_card_changed(struct uln_card *card)
{
	struct uln_query now = {};

	lockdep_assert_held(&card->lock);
	if (!card_read_identity(card, &now) && !memcmp(&now, &card->limits, sizeof(now)) &&
	    card_is_coherent(card) == card->coherent)
		return false;
	dev_err(&card->dev, "this is not the card that was here before its reset: bind it anew\n");
	return true;
}

/*
 * Returns whether the card still answers and was not reset without the driver; otherwise stops it.
 * The card's lock is held.
 */
bool uln_card_answers(struct uln_card *card)
{
	u64 page;

	lockdep_assert_held(&card->lock);
	if (!card->live)
		return false;
	page = readq(card->registers + ULN_REG_COMMAND_PAGE);
	/* A card that is short of room answers with ones once, while it makes room. */
	if (PCI_POSSIBLE_ERROR(page))
		page = readq(card->registers + ULN_REG_COMMAND_PAGE);
	if (page == card->page_dma)
		return true;
	dev_err(&card->dev, "%s\n", page == U64_MAX ? "no answer" : "has lost its state");
	uln_card_fail(card);
	return false;
}

/* Detects a dead card. Its users may sleep, or poll memory that is never written again. */
void uln_card_watch(struct work_struct *work)
{
	struct uln_card *card = container_of(to_delayed_work(work), struct uln_card, watch);

	guard(mutex)(&card->lock);
	if (!uln_card_answers(card))
		return;
	/* An interrupt may have come while the card did not answer. */
	uln_link_report(card);
	queue_delayed_work(system_freezable_wq, &card->watch, WATCH_INTERVAL);
}

/* Brings the card from any state to one with nothing open, and enables it; its lock is held. */
int uln_card_start(struct uln_card *card)
{
	lockdep_assert_held(&card->lock);
	/* Reset it before it may do DMA: an earlier kernel may have left objects open. */
	writel(ULN_CONTROL_RESET, card->registers + ULN_REG_CONTROL);
	if (uln_card_changed(card))
		return -ENODEV;
	pci_set_master(card->pdev);
	writeq(card->page_dma, card->registers + ULN_REG_COMMAND_PAGE);
	card->ops->reset(card);
	WRITE_ONCE(card->live, true);
	if (uln_selftest_access(card)) {
		dev_err(&card->pdev->dev,
			"self-test: the scratch register does not read as it should\n");
		uln_card_fail(card);
		return -EIO;
	}
	if (uln_selftest_dma(card)) {
		dev_err(&card->pdev->dev,
			"self-test: DMA fails: is the machine's memory shared with the card?\n");
		uln_card_fail(card);
		return -EIO;
	}
	writel(ULN_CONTROL_ENABLE, card->registers + ULN_REG_CONTROL);
	uln_handshake_start(card);
	uln_link_report(card);
	queue_delayed_work(system_freezable_wq, &card->watch, WATCH_INTERVAL);
	return 0;
}

/*
 * Takes the objects of all files from a stopped card, to be released; its lock is held. The files
 * are unusable afterwards.
 */
void uln_card_end_files(struct uln_card *card, struct uln_closed *closed)
{
	struct uln_file *file;

	list_for_each_entry(file, &card->files, on_card) {
		file->dead = true;
		while (uln_file_close_next(file, closed))
			cond_resched();
	}
}

int uln_card_query(struct uln_file *file, void *argument)
{
	struct uln_query *query = argument;
	struct uln_card *card = file->card;

	if (memchr_inv(query, 0, sizeof(*query)))
		return -EINVAL;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	if (!uln_card_answers(card))
		return -ENODEV;
	*query = card->limits;
	query->capabilities = ULN_CAPABILITY_SHARES | ULN_CAPABILITY_OBJECT_FILES;
	query->vectors = card->vectors;
	query->host = card_register(card, ULN_REG_HOST_ID);
	/* A card older than version 2.4 returns 0. */
	query->ports = card_register(card, ULN_REG_PORTS);
	if (card->ops->query)
		card->ops->query(card, query);
	if (uln_express_offers(card))
		query->capabilities |= ULN_CAPABILITY_EXPRESS;
	return 0;
}

int uln_card_statistics(struct uln_file *file, void *argument)
{
	struct uln_statistics *statistics = argument;
	struct uln_card *card = file->card;
	const __le64 *values;
	unsigned int i;
	int ret;

	if (memchr_inv(statistics, 0, sizeof(*statistics)))
		return -EINVAL;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = uln_command(card, ULN_COMMAND_READ_STATISTICS, 0, NULL, 0);
	if (ret)
		return ret;
	*statistics = (struct uln_statistics) { .count = card->ops->statistics };
	values = card->page + ULN_COMMAND_BODY;
	for (i = 0; i < card->ops->statistics; i++)
		statistics->values[i] = le64_to_cpu(values[i]);
	return 0;
}
