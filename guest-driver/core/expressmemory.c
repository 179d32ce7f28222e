// SPDX-License-Identifier: GPL-2.0-only
/*
 * PCI functions with express memory (docs/express.md). They lie beside a card of any model and may
 * come after it and go before it, so they have a driver of their own. The card's scratch register
 * shows which card a function belongs to.
 */
#include <linux/random.h>
#include <linux/rwsem.h>

#include "uln_expresscard.h"

enum { BAR_MEMORY = 0 };

struct express_function {
	struct pci_dev *pdev;
	struct list_head on_functions;
	/* The card that the function belongs to. */
	struct uln_card *card;
	struct pci_saved_state *state;
	void __iomem *registers;
	u32 host;
	u32 hosts;
	u64 part;
	u64 memory;
};

/* Guards both lists and the links between them. Each card's lock is below it. */
static DECLARE_RWSEM(functions_lock);
static LIST_HEAD(functions);
static LIST_HEAD(cards);

void uln_express_hold(void)
{
	down_read(&functions_lock);
}

void uln_express_let_go(void)
{
	up_read(&functions_lock);
}

static bool function_belongs(const struct express_function *function, struct uln_card *card)
{
	u32 pattern = get_random_u32();

	writel(pattern, card->registers + ULN_REG_SCRATCH);
	return readl(function->registers + ULN_EXPRESS_REG_SCRATCH) == ~pattern;
}

/* Takes the part that is shared with a host, if the function has it. */
static int function_take(const struct express_function *function, struct uln_card *card,
			 u32 host)
{
	u64 offset = readq(function->registers + ULN_EXPRESS_REG_PARTS + host * sizeof(u64));
	u64 size = pci_resource_len(function->pdev, BAR_MEMORY);
	struct express_place *place = &card->express->parts[host];
	int ret;

	if (!offset || host == function->host)
		return 0;
	if (!PAGE_ALIGNED(offset) || offset > size || function->part > size - offset ||
	    place->memory)
		return -EINVAL;
	place->start = pci_resource_start(function->pdev, BAR_MEMORY) + offset;
	/* This is ordinary memory. Later mappings of its pages get the same caching. */
	place->memory = memremap(place->start, function->part, MEMREMAP_WB);
	if (!place->memory)
		return -ENOMEM;
	ret = uln_express_part(card->system, host, function->memory,
			       function->part / ULN_PAGE_SIZE);
	if (ret) {
		memunmap(place->memory);
		place->memory = NULL;
	}
	return ret;
}

static void function_attach(struct express_function *function, struct uln_card *card)
{
	unsigned int host;
	int ret;

	lockdep_assert_held_write(&functions_lock);
	guard(mutex)(&card->lock);
	if (!function_belongs(function, card))
		return;
	ret = uln_express_begin(card->system, card->express->ops, function->host);
	for (host = 0; host < function->hosts && !ret; host++)
		ret = function_take(function, card, host);
	if (ret)
		dev_warn(&function->pdev->dev, "not all of its express memory can be used: %d\n",
			 ret);
	function->card = card;
	dev_info(&card->dev, "express memory of host %u: %llu KiB with each other\n",
		 function->host, function->part >> 10);
}

/* Ends a card's express memory. On return nothing reaches it, and other hosts know. */
static void memory_stop(struct uln_card *card)
{
	struct uln_express_memory *express = card->express;
	unsigned int host;

	lockdep_assert_held_write(&functions_lock);
	guard(mutex)(&card->lock);
	uln_express_stop(card->system);
	for (host = 0; host < ARRAY_SIZE(express->parts); host++) {
		if (express->parts[host].memory)
			memunmap(express->parts[host].memory);
		express->parts[host] = (struct express_place) {};
	}
}

static void function_offer(struct express_function *function)
{
	struct uln_express_memory *express;

	guard(rwsem_write)(&functions_lock);
	if (list_empty(&function->on_functions))
		list_add(&function->on_functions, &functions);
	list_for_each_entry(express, &cards, on_cards)
		if (!function->card)
			function_attach(function, express->card);
}

/*
 * Called after the card has been started. A function that came while the card was being reset could
 * not be told from another card's.
 */
void uln_express_retry(struct uln_card *card)
{
	struct express_function *function;

	guard(rwsem_write)(&functions_lock);
	list_for_each_entry(function, &functions, on_functions)
		if (!function->card)
			function_attach(function, card);
}

/* Stops the use of a function. The card's other functions are attached again from the start. */
static void function_withdraw(struct express_function *function)
{
	struct uln_card *card = function->card;
	struct express_function *other;

	guard(rwsem_write)(&functions_lock);
	list_del_init(&function->on_functions);
	card = function->card;
	function->card = NULL;
	if (!card)
		return;
	memory_stop(card);
	list_for_each_entry(other, &functions, on_functions) {
		if (other->card != card)
			continue;
		other->card = NULL;
		function_attach(other, card);
	}
}

static void card_leave(void *data)
{
	struct uln_card *card = data;
	struct express_function *function;

	guard(rwsem_write)(&functions_lock);
	list_del(&card->express->on_cards);
	memory_stop(card);
	list_for_each_entry(function, &functions, on_functions)
		if (function->card == card)
			function->card = NULL;
}

/* Adds a card, and what its files do. Its express memory may be present, come later, or never. */
int uln_express_join(struct uln_card *card, const struct uln_express_ops *ops)
{
	struct uln_express_memory *express;
	struct express_function *function;

	/* Freed with the card's structure: files that outlive the device use it. */
	express = kzalloc(sizeof(*express), GFP_KERNEL);
	if (!express)
		return -ENOMEM;
	express->card = card;
	express->ops = ops;
	init_waitqueue_head(&express->wait);
	card->express = express;
	scoped_guard(rwsem_write, &functions_lock) {
		list_add(&express->on_cards, &cards);
		list_for_each_entry(function, &functions, on_functions)
			if (!function->card)
				function_attach(function, card);
	}
	return devm_add_action_or_reset(&card->pdev->dev, card_leave, card);
}

/* Reads the function's description; fails if it makes no sense. */
static int function_identify(struct express_function *function)
{
	struct pci_dev *pdev = function->pdev;
	u32 version;

	if (readl(function->registers + ULN_EXPRESS_REG_MAGIC) != ULN_EXPRESS_MAGIC)
		return -ENODEV;
	version = readl(function->registers + ULN_EXPRESS_REG_VERSION);
	if (version >> 16 != ULN_EXPRESS_VERSION >> 16) {
		dev_err(&pdev->dev,
			"express memory of version %#x is not known (this driver has %#x)\n",
			version, ULN_EXPRESS_VERSION);
		return -ENODEV;
	}
	function->host = readl(function->registers + ULN_EXPRESS_REG_HOST);
	function->hosts = readl(function->registers + ULN_EXPRESS_REG_HOSTS);
	function->part = readq(function->registers + ULN_EXPRESS_REG_PART);
	function->memory = readq(function->registers + ULN_EXPRESS_REG_MEMORY);
	if (function->hosts > ULN_EXPRESS_HOSTS || function->host >= function->hosts ||
	    !function->memory || !is_power_of_2(function->part) ||
	    function->part < ULN_EXPRESS_LEAST_PART ||
	    function->part > ULN_EXPRESS_MOST_PART) {
		dev_err(&pdev->dev, "host %u of %u with parts of %llu bytes makes no sense\n",
			function->host, function->hosts, function->part);
		return -ENODEV;
	}
	return 0;
}

static int function_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct express_function *function;
	int ret;

	function = devm_kzalloc(&pdev->dev, sizeof(*function), GFP_KERNEL);
	if (!function)
		return -ENOMEM;
	function->pdev = pdev;
	INIT_LIST_HEAD(&function->on_functions);
	ret = pcim_enable_device(pdev) ?:
	      uln_bar_check(pdev, BAR_MEMORY, ULN_EXPRESS_REGISTERS_SIZE) ?:
	      pcim_request_region(pdev, BAR_MEMORY, ULN_NAME) ?:
	      uln_state_keep(pdev, &function->state);
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "its memory cannot be had\n");
	function->registers = devm_ioremap(&pdev->dev, pci_resource_start(pdev, BAR_MEMORY),
					   ULN_EXPRESS_REGISTERS_SIZE);
	if (!function->registers)
		return -ENOMEM;
	ret = function_identify(function);
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "not express memory that can be used\n");
	pci_set_drvdata(pdev, function);
	function_offer(function);
	return 0;
}

static void function_remove(struct pci_dev *pdev)
{
	function_withdraw(pci_get_drvdata(pdev));
}

static void function_reset_prepare(struct pci_dev *pdev)
{
	function_withdraw(pci_get_drvdata(pdev));
}

/* After a reset or resume, this may be another function, or none. */
static void function_again(struct express_function *function)
{
	if (!function_identify(function))
		function_offer(function);
}

static void function_reset_done(struct pci_dev *pdev)
{
	function_again(pci_get_drvdata(pdev));
}

static int function_suspend(struct device *dev)
{
	function_withdraw(dev_get_drvdata(dev));
	return 0;
}

static int function_resume(struct device *dev)
{
	function_again(dev_get_drvdata(dev));
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(function_pm, function_suspend, function_resume);

static pci_ers_result_t function_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	function_withdraw(pci_get_drvdata(pdev));
	return state == pci_channel_io_perm_failure ? PCI_ERS_RESULT_DISCONNECT :
						      PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t function_slot_reset(struct pci_dev *pdev)
{
	struct express_function *function = pci_get_drvdata(pdev);

	uln_state_restore(pdev, function->state);
	return PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers function_errors = {
	.error_detected = function_error_detected,
	.slot_reset = function_slot_reset,
	.resume = function_reset_done,
	.reset_prepare = function_reset_prepare,
	.reset_done = function_reset_done,
};

static const struct pci_device_id function_ids[] = {
	{ PCI_DEVICE(ULN_PCI_VENDOR, ULN_PCI_EXPRESS) },
	{},
};
MODULE_DEVICE_TABLE(pci, function_ids);

static struct pci_driver function_driver = {
	.name = ULN_NAME "-express",
	.id_table = function_ids,
	.probe = function_probe,
	.remove = function_remove,
	.err_handler = &function_errors,
	.driver.pm = pm_sleep_ptr(&function_pm),
};

int uln_express_load(void)
{
	return pci_register_driver(&function_driver);
}

void uln_express_unload(void)
{
	pci_unregister_driver(&function_driver);
}
