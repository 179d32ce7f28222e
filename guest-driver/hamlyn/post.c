// SPDX-License-Identifier: GPL-2.0-only
/* Requests of termini that are the driver's own, which its threads and softirqs post. */
#include "hamlyn.h"

static void __iomem *post_map_doorbell(const struct hamlyn_terminus *terminus)
{
	u64 offset = (u64)terminus->object.index * HAMLYN_DOORBELL_SIZE;

	return ioremap(hamlyn_parts(terminus->object.card)->doorbells + offset,
		       HAMLYN_DOORBELL_SIZE);
}

/* Lets the driver post requests to a new terminus; the card's lock is held. */
int hamlyn_post_open(struct hamlyn_terminus *terminus)
{
	lockdep_assert_held(&terminus->object.card->lock);
	spin_lock_init(&terminus->bell_lock);
	terminus->bell = post_map_doorbell(terminus);
	return terminus->bell ? 0 : -ENOMEM;
}

/* Follows a doorbell that has moved; the card's lock is held. */
int hamlyn_post_move(struct hamlyn_terminus *terminus)
{
	void __iomem *old = terminus->bell, *bell;

	if (!old)
		return 0;
	bell = post_map_doorbell(terminus);
	if (!bell)
		return -ENOMEM;
	scoped_guard(spinlock_bh, &terminus->bell_lock)
		terminus->bell = bell;
	iounmap(old);
	return 0;
}

void hamlyn_post_close(struct hamlyn_terminus *terminus)
{
	if (terminus->bell)
		iounmap(terminus->bell);
	terminus->bell = NULL;
}

static u32 post_completed(const struct hamlyn_terminus *terminus)
{
	const struct hamlyn_terminus_status *status = page_address(terminus->status);

	return le32_to_cpu(READ_ONCE(status->completed));
}

/* Returns whether a request can be posted. If not, the terminus's wait queue is woken later. */
bool hamlyn_post_ready(struct hamlyn_terminus *terminus)
{
	const struct hamlyn_terminus_wait wait = {
		.completed = terminus->tail - HAMLYN_WORK_QUEUE_USABLE + 1,
	};

	return terminus->tail - post_completed(terminus) < HAMLYN_WORK_QUEUE_USABLE ||
	       uln_sleepers_ready(&terminus->sleepers, &wait);
}

/*
 * Posts a request with metadata, behind which @body follows at once: both lengths fit their units.
 * False: the work queue is full. One thread at a time for each terminus.
 */
bool hamlyn_post(struct hamlyn_terminus *terminus, const struct hamlyn_request *request,
		 const void *metadata, u32 metadata_length, const void *body, u32 length)
{
	void __iomem *window = hamlyn_window(terminus->object.card, terminus->object.index);
	void __iomem *to = window + HAMLYN_WINDOW_WORK_QUEUE +
			   terminus->tail % HAMLYN_WORK_QUEUE_ENTRIES * HAMLYN_ENTRY_SIZE;

	if (terminus->tail - post_completed(terminus) >= HAMLYN_WORK_QUEUE_USABLE)
		return false;
	memcpy_toio(to, request, sizeof(*request));
	memcpy_toio(to + sizeof(*request), metadata, metadata_length);
	memcpy_toio(to + sizeof(*request) + metadata_length, body, length);
	wmb(); /* The whole request is visible before the tail. */
	writel(++terminus->tail, window + HAMLYN_WINDOW_TAIL);
	mb(); /* The card sees the tail before it sleeps, or the driver sees it asleep. */
	if (readl(window + HAMLYN_WINDOW_AWAKE))
		return true;
	guard(spinlock_bh)(&terminus->bell_lock);
	writel(1, terminus->bell);
	return true;
}
