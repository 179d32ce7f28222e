// SPDX-License-Identifier: GPL-2.0-only
/* What each PCI function of the family needs: BARs of a size, and its configuration kept. */
#include "uln_core.h"

/* Returns whether a BAR is memory of at least this size: it is mapped, for processes too. */
bool uln_bar_holds(struct pci_dev *pdev, int bar, u64 least)
{
	return (pci_resource_flags(pdev, bar) & IORESOURCE_MEM) &&
	       pci_resource_len(pdev, bar) >= least;
}

int uln_bar_check(struct pci_dev *pdev, int bar, u64 least)
{
	u64 length = pci_resource_len(pdev, bar);

	if (uln_bar_holds(pdev, bar, least))
		return 0;
	dev_err(&pdev->dev, "BAR %d has %llu bytes, %llu of memory wanted%s\n", bar, length, least,
		length ? "" : " (a hot-plug port needs pref64-reserve)");
	return -ENODEV;
}

static void state_free(void *state)
{
	kfree(state);
}

/* Saves a function's configuration, in case the bus loses it; freed with the device. */
int uln_state_keep(struct pci_dev *pdev, struct pci_saved_state **state)
{
	int ret = pci_save_state(pdev);

	if (ret)
		return ret;
	*state = pci_store_saved_state(pdev);
	if (!*state)
		return -ENOMEM;
	return devm_add_action_or_reset(&pdev->dev, state_free, *state);
}

void uln_state_restore(struct pci_dev *pdev, struct pci_saved_state *state)
{
	pci_load_saved_state(pdev, state);
	pci_restore_state(pdev);
}
