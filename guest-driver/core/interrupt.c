// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts: vector 0 reports that the link has changed. The others wake sleepers, or serve what
 * the card uses them for.
 */
#include <linux/interrupt.h>
#include <linux/sched/rt.h>

#include "uln_core.h"
#include "uln_trace.h"

/* Lets the card raise the vector again, before the driver checks why it was raised. */
static void interrupt_acknowledge(struct uln_vector *vector)
{
	struct uln_card *card = vector->card;

	if (card->pending)
		writel(0, card->pending + vector->number * ULN_PENDING_STRIDE);
	mb(); /* Either the card sees the word cleared, or the driver sees its news. */
	trace_hamlyn_interrupt(card->number, vector->number);
	atomic_inc(&vector->arrived);
	wake_up_all(&card->arrival);
}

static irqreturn_t interrupt_queue(int irq, void *data)
{
	struct uln_vector *vector = data;

	interrupt_acknowledge(vector);
	return uln_sleepers_fired(vector) ? IRQ_HANDLED : IRQ_WAKE_THREAD;
}

/*
 * Processes on this and other hosts can have interrupts raised as often as they like. So the thread
 * drops the real-time priority that it starts with: at that it would keep the processor from all
 * others.
 */
static void interrupt_yield(void)
{
	if (rt_task(current))
		sched_set_normal(current, 0);
}

/* Runs if there are too many sleepers for a handler to check. */
static irqreturn_t interrupt_queue_rest(int irq, void *data)
{
	interrupt_yield();
	uln_sleepers_fired_all(data);
	return IRQ_HANDLED;
}

/* The work takes the card's lock, so a thread does it. */
static irqreturn_t interrupt_thread(int irq, void *data)
{
	interrupt_acknowledge(data);
	return IRQ_WAKE_THREAD;
}

static irqreturn_t interrupt_raised(int irq, void *data)
{
	struct uln_vector *vector = data;

	interrupt_yield();
	vector->card->ops->raised(vector->card, vector->number);
	/* Users of channels in the kernel may have raised softirqs, which run now. */
	local_bh_disable();
	local_bh_enable();
	return IRQ_HANDLED;
}

static irqreturn_t interrupt_link_changed(int irq, void *data)
{
	struct uln_vector *vector = data;

	guard(mutex)(&vector->card->lock);
	uln_link_report(vector->card);
	return IRQ_HANDLED;
}

static void interrupt_free_vectors(void *pdev)
{
	pci_free_irq_vectors(pdev);
}

static void interrupt_free(void *data)
{
	struct uln_vector *vector = data;

	pci_free_irq(vector->card->pdev, vector->number, vector);
}

/* Returns the handler of a vector, and sets @thread to what runs after it. */
static irq_handler_t interrupt_handler(const struct uln_card *card, unsigned int vector,
				       irq_handler_t *thread)
{
	if (vector == ULN_VECTOR_LINK)
		*thread = interrupt_link_changed;
	else if (card->ops->raised)
		*thread = interrupt_raised;
	else
		*thread = interrupt_queue_rest;
	return *thread == interrupt_queue_rest ? interrupt_queue : interrupt_thread;
}

/*
 * Requests one vector for the link and one for each processor, or the number that the card needs,
 * as far as it has them. They are freed with the device.
 */
int uln_interrupts_request(struct uln_card *card)
{
	unsigned int others = card->ops->vectors ?: num_online_cpus();
	unsigned int wanted = min(card->limits.vectors, others + ULN_FIRST_VECTOR);
	struct pci_dev *pdev = card->pdev;
	int ret, i;

	ret = pci_alloc_irq_vectors(pdev, ULN_FIRST_VECTOR + 1, wanted, PCI_IRQ_MSIX);
	if (ret < 0)
		return dev_err_probe(&pdev->dev, ret, "no MSI-X vectors (2 to %u wanted): is pci=nomsi on the command line?\n",
				     wanted);
	card->vectors = ret;
	ret = devm_add_action_or_reset(&pdev->dev, interrupt_free_vectors, pdev);
	if (ret)
		return ret;

	for (i = 0; i < card->vectors; i++) {
		struct uln_vector *vector = &card->vector[i];
		irq_handler_t thread, at_once = interrupt_handler(card, i, &thread);

		ret = pci_request_irq(pdev, i, at_once, thread, vector, "%s%d-%d",
				      card->ops->name, card->number, i);
		if (ret)
			return dev_err_probe(&pdev->dev, ret, "vector %d cannot be had\n", i);
		ret = devm_add_action_or_reset(&pdev->dev, interrupt_free, vector);
		if (ret)
			return ret;
	}
	return 0;
}
