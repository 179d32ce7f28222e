// SPDX-License-Identifier: GPL-2.0-only
/*
 * The card's second function: doorbells where a store is posted. The first function has doorbells
 * too, but there each store is a round trip.
 *
 * The second function may come after the first and go before it, so it has a driver of its own: it
 * cannot go, or get another driver, unnoticed. When it comes or goes the doorbells move. Those that
 * are mapped are withdrawn, and fault in again at the other place.
 */
#include <linux/random.h>

#include "hamlyn.h"

enum { BAR_POSTED_DOORBELLS = 0 };

/* A second function; on the list of bells while it can be used. */
struct hamlyn_bell {
	struct pci_dev *pdev;
	struct list_head on_bells;
	/* The card that has its doorbells there. */
	struct uln_card *card;
	struct pci_saved_state *state;
};

/* Guards both lists and the links between them. Each card's lock is below it. */
static DEFINE_MUTEX(bells_lock);
static LIST_HEAD(bells);
static LIST_HEAD(cards);

/* Moves doorbells to this place; the card's lock is held. */
static void bell_move(struct uln_card *card, resource_size_t start, bool posted)
{
	struct hamlyn_parts *parts = hamlyn_parts(card);
	struct hamlyn_terminus *terminus;
	unsigned long index;

	lockdep_assert_held(&card->lock);
	parts->doorbells = start;
	parts->posted = posted;
	xa_for_each(&parts->termini, index, terminus) {
		uln_withdraw(&terminus->object, HAMLYN_MAP_DOORBELL, HAMLYN_DOORBELL_SIZE);
		if (hamlyn_post_move(terminus))
			uln_card_fail(card);
	}
}

/* Returns whether two functions are neighbours: those of one card. */
static bool bell_belongs(const struct hamlyn_bell *bell, const struct uln_card *card)
{
	return bell->pdev->bus == card->pdev->bus && bell->pdev->devfn == card->pdev->devfn + 1 &&
	       PCI_SLOT(bell->pdev->devfn) == PCI_SLOT(card->pdev->devfn);
}

/* Returns 0, or 1 if this is not a doorbell of the card: those read as its scratch register. */
static u32 bell_test(struct uln_card *card, resource_size_t doorbell)
{
	void __iomem *page = ioremap(doorbell, HAMLYN_DOORBELL_SIZE);
	u32 pattern = get_random_u32();
	u32 result;

	if (!page)
		return 1;
	writel(pattern, card->registers + ULN_REG_SCRATCH);
	result = readl(page) != ~pattern;
	iounmap(page);
	return result;
}

static void bell_attach(struct hamlyn_bell *bell, struct uln_card *card)
{
	resource_size_t start = pci_resource_start(bell->pdev, BAR_POSTED_DOORBELLS);
	u64 size = (u64)card->limits.termini * HAMLYN_DOORBELL_SIZE;

	lockdep_assert_held(&bells_lock);
	guard(mutex)(&card->lock);
	if (!uln_bar_holds(bell->pdev, BAR_POSTED_DOORBELLS, size)) {
		dev_warn(&bell->pdev->dev, "its doorbells cannot be used\n");
		return;
	}
	if (bell_test(card, start)) {
		dev_warn(&bell->pdev->dev, "its doorbells are another card's\n");
		return;
	}
	bell->card = card;
	bell_move(card, start, true);
}

/*
 * Warns if the function can never have a card: some hypervisors give each device a slot of its own.
 * A card that is present but has no driver yet may still take it.
 */
static void bell_look_for_card(const struct hamlyn_bell *bell)
{
	unsigned int devfn = bell->pdev->devfn;
	struct pci_dev *card = NULL;

	if (PCI_FUNC(devfn))
		card = pci_get_slot(bell->pdev->bus, devfn - 1);
	if (!card || card->vendor != ULN_PCI_VENDOR || card->device != HAMLYN_PCI_DEVICE)
		dev_warn(&bell->pdev->dev,
			 "these doorbells have no card: it must be the function before this one in the same slot\n");
	pci_dev_put(card);
}

/* Makes a second function available: its card may be present. */
static void bell_offer(struct hamlyn_bell *bell)
{
	struct hamlyn_parts *parts;
	struct uln_card *card;

	guard(mutex)(&bells_lock);
	if (list_empty(&bell->on_bells))
		list_add(&bell->on_bells, &bells);
	list_for_each_entry(parts, &cards, on_cards) {
		card = &parts->card;
		if (bell_belongs(bell, card) && !bell->card) {
			bell_attach(bell, card);
			if (bell->card)
				dev_info(&card->dev, "from now on doorbells are posted\n");
		}
	}
}

/* Stops the use of a second function: on return nothing can reach it. */
static void bell_withdraw(struct hamlyn_bell *bell)
{
	struct uln_card *card;

	guard(mutex)(&bells_lock);
	/* A card that comes meanwhile does not find it either. */
	list_del_init(&bell->on_bells);
	card = bell->card;
	if (!card)
		return;
	bell->card = NULL;
	scoped_guard(mutex, &card->lock)
		bell_move(card, hamlyn_parts(card)->trapped_doorbells, false);
	dev_info(&card->dev, "from now on doorbells are trapped\n");
}

static void bells_leave(void *data)
{
	struct uln_card *card = data;
	struct hamlyn_bell *bell;

	guard(mutex)(&bells_lock);
	list_del(&hamlyn_parts(card)->on_cards);
	list_for_each_entry(bell, &bells, on_bells)
		if (bell->card == card)
			bell->card = NULL;
}

/* Adds an identified card: its second function may be present, come later, or never. */
int hamlyn_bells_join(struct uln_card *card)
{
	struct hamlyn_bell *bell;

	scoped_guard(mutex, &bells_lock) {
		list_add(&hamlyn_parts(card)->on_cards, &cards);
		list_for_each_entry(bell, &bells, on_bells)
			if (bell_belongs(bell, card))
				bell_attach(bell, card);
	}
	return devm_add_action_or_reset(&card->pdev->dev, bells_leave, card);
}

static int bell_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct hamlyn_bell *bell;
	int ret;

	bell = devm_kzalloc(&pdev->dev, sizeof(*bell), GFP_KERNEL);
	if (!bell)
		return -ENOMEM;
	ret = pcim_enable_device(pdev) ?:
	      pcim_request_region(pdev, BAR_POSTED_DOORBELLS, ULN_NAME) ?:
	      uln_state_keep(pdev, &bell->state);
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "its doorbells cannot be had\n");
	bell->pdev = pdev;
	INIT_LIST_HEAD(&bell->on_bells);
	pci_set_drvdata(pdev, bell);
	bell_look_for_card(bell);
	bell_offer(bell);
	return 0;
}

static void bell_remove(struct pci_dev *pdev)
{
	bell_withdraw(pci_get_drvdata(pdev));
}

/* A ring while the function is reset would be lost. */
static void bell_reset_prepare(struct pci_dev *pdev)
{
	bell_withdraw(pci_get_drvdata(pdev));
}

static void bell_reset_done(struct pci_dev *pdev)
{
	bell_offer(pci_get_drvdata(pdev));
}

/* After it, this may be another function, or none: it is tested again. */
static int bell_suspend(struct device *dev)
{
	bell_withdraw(dev_get_drvdata(dev));
	return 0;
}

static int bell_resume(struct device *dev)
{
	bell_offer(dev_get_drvdata(dev));
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(bell_pm, bell_suspend, bell_resume);

static pci_ers_result_t bell_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	bell_withdraw(pci_get_drvdata(pdev));
	return state == pci_channel_io_perm_failure ? PCI_ERS_RESULT_DISCONNECT :
						      PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t bell_slot_reset(struct pci_dev *pdev)
{
	struct hamlyn_bell *bell = pci_get_drvdata(pdev);

	uln_state_restore(pdev, bell->state);
	return PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers bell_errors = {
	.error_detected = bell_error_detected,
	.slot_reset = bell_slot_reset,
	.resume = bell_reset_done,
	.reset_prepare = bell_reset_prepare,
	.reset_done = bell_reset_done,
};

static const struct pci_device_id bell_ids[] = {
	{ PCI_DEVICE(ULN_PCI_VENDOR, HAMLYN_PCI_DOORBELL) },
	{},
};
MODULE_DEVICE_TABLE(pci, bell_ids);

static struct pci_driver bell_driver = {
	.name = ULN_NAME "-doorbell",
	.id_table = bell_ids,
	.probe = bell_probe,
	.remove = bell_remove,
	.err_handler = &bell_errors,
	.driver.pm = pm_sleep_ptr(&bell_pm),
};

int hamlyn_bells_init(void)
{
	return pci_register_driver(&bell_driver);
}

void hamlyn_bells_exit(void)
{
	pci_unregister_driver(&bell_driver);
}
