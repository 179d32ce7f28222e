// SPDX-License-Identifier: GPL-2.0-only
/* Self-tests: register access, DMA, interrupts. Each start of a card also runs the first two. */
#include <linux/capability.h>
#include <linux/jiffies.h>
#include <linux/random.h>

#include "uln_core.h"

/* Time limit for an interrupt: an emulated machine may stand still for seconds. */
#define INTERRUPT_TIMEOUT (10 * HZ)

/* Returns 0, or 1 if the scratch register does not read as the complement of what was written. */
u32 uln_selftest_access(struct uln_card *card)
{
	static const u32 patterns[] = { 0, 0xffffffff, 0x55555555, 0x12345678 };
	void __iomem *scratch = card->registers + ULN_REG_SCRATCH;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(patterns); i++) {
		writel(patterns[i], scratch);
		if (readl(scratch) != ~patterns[i])
			return 1;
	}
	return 0;
}

/* Returns 0, or 1 if the card refused, 2 if the bytes are wrong. The card's lock is held. */
u32 uln_selftest_dma(struct uln_card *card)
{
	struct device *dev = &card->pdev->dev;
	struct uln_test_dma body = { .length = cpu_to_le64(ULN_PAGE_SIZE) };
	dma_addr_t dma;
	u32 result = 1;
	void *from;

	from = dma_alloc_coherent(dev, 2 * ULN_PAGE_SIZE, &dma, GFP_KERNEL);
	if (!from)
		return 1;
	get_random_bytes(from, 2 * ULN_PAGE_SIZE);
	body.from = cpu_to_le64(dma);
	body.to = cpu_to_le64(dma + ULN_PAGE_SIZE);
	if (!uln_command(card, ULN_COMMAND_TEST_DMA, 0, &body, sizeof(body)))
		result = memcmp(from, from + ULN_PAGE_SIZE, ULN_PAGE_SIZE) ? 2 : 0;
	dma_free_coherent(dev, 2 * ULN_PAGE_SIZE, from, dma);
	return result;
}

/*
 * Returns 0, or 3 if the memory of processes cannot be shared with the card, as with bounce
 * buffers. The card's lock is held.
 */
static u32 selftest_pages(struct uln_card *card)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	dma_addr_t dma;
	int ret = -ENOMEM;

	if (page)
		ret = uln_page_map(card, page, DMA_BIDIRECTIONAL, &dma);
	if (!ret)
		uln_page_unmap(card, dma, DMA_BIDIRECTIONAL);
	if (page)
		__free_page(page);
	return ret ? 3 : 0;
}

/* Raises a vector and waits for it, without the card's lock, which the link's interrupt takes. */
static int selftest_raise(struct uln_file *file, struct uln_vector *vector)
{
	struct uln_card *card = file->card;
	int before;

	scoped_guard(mutex, &card->lock) {
		if (!uln_file_live(file))
			return -ENODEV;
		before = atomic_read(&vector->arrived);
		writel(vector->number, card->registers + ULN_REG_INTERRUPT_TEST);
	}
	return wait_event_interruptible_timeout(
		card->arrival, atomic_read(&vector->arrived) != before, INTERRUPT_TIMEOUT);
}

int uln_selftest(struct uln_file *file, void *argument)
{
	struct uln_self_test *test = argument;
	struct uln_card *card = file->card;
	unsigned int i;
	int ret;

	if (memchr_inv(test, 0, sizeof(*test)))
		return -EINVAL;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	*test = (struct uln_self_test) {};
	scoped_guard(mutex, &card->lock) {
		if (!uln_file_live(file))
			return -ENODEV;
		test->access = uln_selftest_access(card);
		test->dma = uln_selftest_dma(card) ?: selftest_pages(card);
	}
	for (i = 0; i < card->vectors && !test->interrupt; i++) {
		ret = selftest_raise(file, &card->vector[i]);
		if (ret < 0)
			return ret == -ERESTARTSYS ? -EINTR : ret;
		if (!ret)
			test->interrupt = i + 1;
	}
	return 0;
}
