// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts: vector 0 says that the link has changed; the others, that there is something for
 * somebody who sleeps.
 */
#include <linux/interrupt.h>

#include "core.h"
#include "hamlyn_trace.h"

/* Lets the card raise the vector again, before what it raised it for is looked at. */
static void interrupt_acknowledge(struct hamlyn_vector *vector)
{
	struct hamlyn_card *card = vector->card;

	writel(0, card->pending + vector->number * HAMLYN_PENDING_STRIDE);
	mb(); /* Either the card sees the word cleared, or we see what it has written. */
	trace_hamlyn_interrupt(card->number, vector->number);
	atomic_inc(&vector->arrived);
	wake_up_all(&card->arrival);
}

static irqreturn_t interrupt_queue(int irq, void *data)
{
	struct hamlyn_vector *vector = data;

	interrupt_acknowledge(vector);
	hamlyn_sleepers_fired(vector);
	return IRQ_HANDLED;
}

static irqreturn_t interrupt_link(int irq, void *data)
{
	interrupt_acknowledge(data);
	return IRQ_WAKE_THREAD;
}

static irqreturn_t interrupt_link_changed(int irq, void *data)
{
	struct hamlyn_vector *vector = data;

	guard(mutex)(&vector->card->lock);
	hamlyn_card_report_link(vector->card);
	return IRQ_HANDLED;
}

static void interrupt_free_vectors(void *pdev)
{
	pci_free_irq_vectors(pdev);
}

static void interrupt_free(void *data)
{
	struct hamlyn_vector *vector = data;

	pci_free_irq(vector->card->pdev, vector->number, vector);
}

/*
 * One vector for the link and one for each processor, as far as the card has them; given back with
 * the device.
 */
int hamlyn_interrupts_request(struct hamlyn_card *card)
{
	unsigned int wanted = min(card->limits.vectors, num_online_cpus() + FIRST_VECTOR);
	struct pci_dev *pdev = card->pdev;
	int ret, i;

	ret = pci_alloc_irq_vectors(pdev, FIRST_VECTOR + 1, wanted, PCI_IRQ_MSIX);
	if (ret < 0)
		return dev_err_probe(&pdev->dev, ret, "no MSI-X vectors (2 to %u wanted)\n",
				     wanted);
	card->vectors = ret;
	ret = devm_add_action_or_reset(&pdev->dev, interrupt_free_vectors, pdev);
	if (ret)
		return ret;

	for (i = 0; i < card->vectors; i++) {
		struct hamlyn_vector *vector = &card->vector[i];
		bool link = i == HAMLYN_VECTOR_LINK;

		ret = pci_request_irq(pdev, i, link ? interrupt_link : interrupt_queue,
				      link ? interrupt_link_changed : NULL, vector, "%s%d-%d",
				      card->ops->name, card->number, i);
		if (ret)
			return dev_err_probe(&pdev->dev, ret, "vector %d cannot be had\n", i);
		ret = devm_add_action_or_reset(&pdev->dev, interrupt_free, vector);
		if (ret)
			return ret;
	}
	return 0;
}
