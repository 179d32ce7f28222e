// SPDX-License-Identifier: GPL-2.0-only
/*
 * The card on its bus: probe, character device, reset, removal.
 *
 * All that probe acquires is managed by the device (devm), and released in the reverse order. The
 * card's structure goes last.
 */
#include <linux/devm-helpers.h>
#include <linux/module.h>

#include "uln_cards.h"
#include "uln_connect.h"
#include "uln_core.h"
#include "uln_express.h"

enum { BAR_REGISTERS = 0 };

/* The last reference to the structure is gone; an open file may have had it. */
static void card_release(struct device *dev)
{
	struct uln_card *card = container_of(dev, struct uln_card, dev);

	xa_destroy(&card->numbers);
	xa_destroy(&card->shares.users);
	/* The card may have a service of the system. */
	uln_system_free(card->system);
	card->ops->free(card);
	kfree(card->express);
	pci_dev_put(card->pdev);
	kfree(card);
}

static void card_put(void *data)
{
	struct uln_card *card = data;

	uln_model_leave(card);
	put_device(&card->dev);
}

static struct uln_card *card_create(struct pci_dev *pdev, const struct card_ops *ops)
{
	struct uln_card *card = kzalloc(ops->size, GFP_KERNEL);
	unsigned int i;
	int ret;

	if (!card)
		return ERR_PTR(-ENOMEM);
	card->ops = ops;
	ret = uln_model_join(card);
	if (ret) {
		kfree(card);
		return ERR_PTR(ret);
	}
	card->pdev = pci_dev_get(pdev);
	mutex_init(&card->lock);
	INIT_LIST_HEAD(&card->files);
	init_waitqueue_head(&card->link_changed);
	INIT_LIST_HEAD(&card->bindings);
	INIT_LIST_HEAD(&card->on_cards);
	init_waitqueue_head(&card->arrival);
	INIT_DELAYED_WORK(&card->beat, uln_handshake_beat);
	uln_mappings_init(card);
	xa_init_flags(&card->numbers, XA_FLAGS_ALLOC);
	uln_holders_init(card);
	ops->init(card);
	for (i = 0; i < ARRAY_SIZE(card->vector); i++) {
		card->vector[i].card = card;
		card->vector[i].number = i;
		spin_lock_init(&card->vector[i].lock);
		INIT_LIST_HEAD(&card->vector[i].armed);
	}
	device_initialize(&card->dev);
	card->dev.parent = &pdev->dev;
	card->dev.release = card_release;
	ret = devm_add_action_or_reset(&pdev->dev, card_put, card);
	return ret ? ERR_PTR(ret) : card;
}

static int card_map_registers(struct uln_card *card)
{
	struct pci_dev *pdev = card->pdev;
	int ret;

	ret = uln_bar_check(pdev, BAR_REGISTERS, ULN_REGISTERS_SIZE);
	if (ret)
		return ret;
	card->registers = pcim_iomap_region(pdev, BAR_REGISTERS, ULN_NAME);
	return PTR_ERR_OR_ZERO(card->registers);
}

/* Not at address 0: a card that was reset reports that its command page is there. */
static int card_allocate_page(struct uln_card *card)
{
	unsigned int tries;

	/* Memory at address 0 is freed with the device, so the second page lies elsewhere. */
	for (tries = 0; tries < 2 && !card->page_dma; tries++) {
		card->page = dmam_alloc_coherent(&card->pdev->dev, ULN_COMMAND_PAGE_SIZE,
						 &card->page_dma, GFP_KERNEL);
		if (!card->page)
			return -ENOMEM;
	}
	return 0;
}

static void system_cancel(void *system)
{
	uln_system_cancel(system);
}

/* Called once for a card, before it is started; the system is freed with the card's structure. */
static int card_join_system(struct uln_card *card)
{
	int ret;

	card->system = uln_system_create(card, &card->lock, card->number);
	if (!card->system)
		return -ENOMEM;
	ret = uln_connections_register(card->system) ?: uln_express_register(card->system);
	if (ret)
		return ret;
	return devm_add_action_or_reset(&card->pdev->dev, system_cancel, card->system);
}

static int card_prepare(struct uln_card *card)
{
	struct pci_dev *pdev = card->pdev;
	int ret;

	ret = pcim_enable_device(pdev);
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "the device cannot be enabled\n");
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "no 64-bit DMA\n");
	ret = card_map_registers(card) ?: uln_card_identify(card) ?: card->ops->prepare(card);
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "not a card that can be used\n");
	return card_allocate_page(card) ?: card_join_system(card) ?:
	       uln_express_join(card, &uln_express_file_ops) ?:
	       uln_interrupts_request(card) ?: uln_state_keep(pdev, &card->state) ?:
	       devm_delayed_work_autocancel(&pdev->dev, &card->watch, uln_card_watch);
}

/* Stops DMA first: then nothing can reach what the files release. */
static void card_quiesce(struct uln_card *card)
{
	struct uln_closed closed;

	uln_bindings_pause(card);
	uln_closed_init(&closed, card);
	scoped_guard(mutex, &card->lock) {
		uln_card_stop(card);
		if (card->ops->end)
			card->ops->end(card, &closed);
		uln_card_end_files(card, &closed);
	}
	uln_closed_release(&closed);
}

/*
 * Starts the driver's own objects. Then files may be opened, unless the card has failed meanwhile.
 */
static void card_open_doors(struct uln_card *card)
{
	if (card->ops->start)
		card->ops->start(card);
	uln_express_retry(card);
	guard(mutex)(&card->lock);
	card->ready = card->live;
}

/*
 * If the driver is forced on a function, the id has no operations: the registers show whether it is
 * such a card.
 */
static const struct card_ops *card_operations(const struct pci_device_id *id)
{
	return id->driver_data ? (const struct card_ops *)id->driver_data : uln_model_first();
}

static int uln_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct uln_card *card = card_create(pdev, card_operations(id));
	int ret;

	if (IS_ERR(card))
		return PTR_ERR(card);
	ret = card_prepare(card);
	if (ret)
		return ret;
	pci_set_drvdata(pdev, card);
	scoped_guard(mutex, &card->lock)
		ret = uln_card_start(card);
	if (ret)
		return ret;
	card_open_doors(card);

	cdev_init(&card->cdev, &uln_fops);
	card->cdev.owner = THIS_MODULE;
	ret = cdev_device_add(&card->cdev, &card->dev);
	if (ret) {
		card_quiesce(card);
		return dev_err_probe(&pdev->dev, ret, "no character device\n");
	}
	scoped_guard(mutex, &card->lock)
		card->shown = true;
	card->ops->announce(card);
	uln_bindings_add(card);
	return 0;
}

static void uln_remove(struct pci_dev *pdev)
{
	struct uln_card *card = pci_get_drvdata(pdev);

	uln_bindings_remove(card);
	scoped_guard(mutex, &card->lock)
		card->shown = false;
	cdev_device_del(&card->cdev, &card->dev);
	card_quiesce(card);
	uln_mappings_wait(card);
}

static void uln_shutdown(struct pci_dev *pdev)
{
	card_quiesce(pci_get_drvdata(pdev));
}

/*
 * Makes the card usable again after files have lost their objects; their calls fail with ENODEV.
 * The card may have been started since it was stopped, if it was reset in between.
 */
static int card_restart(struct uln_card *card, const char *why)
{
	int ret;

	card_quiesce(card);
	scoped_guard(mutex, &card->lock)
		ret = uln_card_start(card);
	if (ret)
		return ret;
	card_open_doors(card);
	uln_bindings_resume(card);
	dev_info(&card->pdev->dev, "%s; files that were open have lost what they had\n", why);
	return 0;
}

static void uln_reset_prepare(struct pci_dev *pdev)
{
	card_quiesce(pci_get_drvdata(pdev));
}

static void uln_reset_done(struct pci_dev *pdev)
{
	card_restart(pci_get_drvdata(pdev), "reset");
}

/* The card loses its state with its power, so what it could reach is released before. */
static int uln_suspend(struct device *dev)
{
	card_quiesce(dev_get_drvdata(dev));
	return 0;
}

static int uln_resume(struct device *dev)
{
	return card_restart(dev_get_drvdata(dev), "resumed");
}

/*
 * Resumes from an image of the machine's memory. This host has forgotten what it sent after the
 * image was taken, so other hosts must not take it for the same system.
 */
static int uln_restore(struct device *dev)
{
	struct uln_card *card = dev_get_drvdata(dev);

	scoped_guard(mutex, &card->lock)
		uln_system_reborn(card->system);
	return card_restart(card, "restored");
}

static const struct dev_pm_ops uln_pm = {
	.suspend = pm_sleep_ptr(uln_suspend),
	.resume = pm_sleep_ptr(uln_resume),
	.freeze = pm_sleep_ptr(uln_suspend),
	.thaw = pm_sleep_ptr(uln_resume),
	.poweroff = pm_sleep_ptr(uln_suspend),
	.restore = pm_sleep_ptr(uln_restore),
};

/*
 * After a bus error of any kind a store or a deposit may be missing, so all open files lose their
 * objects.
 */
static pci_ers_result_t uln_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	dev_err(&pdev->dev, "an error of the bus: the card is stopped\n");
	card_quiesce(pci_get_drvdata(pdev));
	return state == pci_channel_io_perm_failure ? PCI_ERS_RESULT_DISCONNECT :
						      PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t uln_slot_reset(struct pci_dev *pdev)
{
	struct uln_card *card = pci_get_drvdata(pdev);

	card_quiesce(card);
	uln_state_restore(pdev, card->state);
	guard(mutex)(&card->lock);
	return uln_card_changed(card) ? PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_RECOVERED;
}

static void uln_error_resume(struct pci_dev *pdev)
{
	card_restart(pci_get_drvdata(pdev), "reset after an error of the bus");
}

static const struct pci_error_handlers uln_errors = {
	.error_detected = uln_error_detected,
	.slot_reset = uln_slot_reset,
	.resume = uln_error_resume,
	.reset_prepare = uln_reset_prepare,
	.reset_done = uln_reset_done,
};

#define CARD_ID(device, operations) \
	{ PCI_DEVICE(ULN_PCI_VENDOR, device), .driver_data = (kernel_ulong_t)&operations },
static const struct pci_device_id uln_ids[] = {
	ULN_CARDS(CARD_ID)
	{},
};
MODULE_DEVICE_TABLE(pci, uln_ids);

static struct pci_driver uln_driver = {
	.name = ULN_NAME,
	.id_table = uln_ids,
	.probe = uln_probe,
	.remove = uln_remove,
	.shutdown = uln_shutdown,
	.err_handler = &uln_errors,
	.driver.pm = pm_sleep_ptr(&uln_pm),
};

static int __init uln_init(void)
{
	int ret;

	ret = uln_handshake_init();
	if (ret)
		return ret;
	ret = uln_models_load();
	if (ret)
		goto exit_handshake;
	ret = uln_express_load();
	if (ret)
		goto unload_models;
	ret = pci_register_driver(&uln_driver);
	if (ret)
		goto unload_express;
	return 0;

unload_express:
	uln_express_unload();
unload_models:
	uln_models_unload();
exit_handshake:
	uln_handshake_exit();
	return ret;
}
module_init(uln_init);

static void __exit uln_exit(void)
{
	pci_unregister_driver(&uln_driver);
	uln_express_unload();
	uln_models_unload();
	uln_handshake_exit();
}
module_exit(uln_exit);

MODULE_DESCRIPTION("Hamlyn user-level network card");
MODULE_AUTHOR("The Hamlyn project");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.9.0");
