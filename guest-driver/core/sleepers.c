// SPDX-License-Identifier: GPL-2.0-only
/*
 * How processes sleep until the card has something for them: what that is, the object says on which
 * they sleep (struct hamlyn_awaited).
 *
 * Sleeper and card must not miss each other. The sleeper has the armed word at YES, issues a full
 * barrier, and looks once more before it sleeps; the card writes its news, issues a full barrier,
 * and looks at the armed word. It answers YES with FIRED and an interrupt, which answers FIRED with
 * NO and wakes everybody. Whoever still has to wait arms again.
 *
 * There is one armed word but there may be several sleepers, each of whom waits for something else.
 * A sleeper that wants to arm and finds FIRED has come before the interrupt, and does the
 * interrupt's work itself. If it only set the word back to YES, those whom the card wanted to wake
 * would sleep on.
 */
#include <linux/irq.h>

#include "hamlyn_core.h"

/* Armed words that an interrupt handler reads: processes decide how many there are. */
#define SLEEPERS_BATCH 64

void hamlyn_sleepers_init(struct hamlyn_sleepers *sleepers, struct hamlyn_file *file,
			  const struct hamlyn_awaited *awaited)
{
	sleepers->file = file;
	sleepers->awaited = awaited;
	init_waitqueue_head(&sleepers->wait);
	INIT_LIST_HEAD(&sleepers->on_armed);
}

/* Whether it interrupts the processor on which this runs. Either may change at any moment. */
static bool vector_is_near(const struct hamlyn_vector *vector)
{
	unsigned int irq = pci_irq_vector(vector->card->pdev, vector->number);
	const struct cpumask *processors = irq_get_effective_affinity_mask(irq);

	return processors && cpumask_test_cpu(raw_smp_processor_id(), processors);
}

/*
 * Who opens a queue most likely waits where he is now: a vector that interrupts that processor
 * wakes him there, and "none is pending" is close to what it is in the paper, by processor (section
 * 2.6). In turn among those, or among all if there is none.
 */
static struct hamlyn_vector *sleepers_vector(struct hamlyn_card *card)
{
	unsigned int first = card->next_vector++, number = card->vectors - HAMLYN_FIRST_VECTOR, i;
	struct hamlyn_vector *vectors = &card->vector[HAMLYN_FIRST_VECTOR];

	for (i = 0; i < number; i++) {
		if (vector_is_near(&vectors[(first + i) % number]))
			return &vectors[(first + i) % number];
	}
	return &vectors[first % number];
}

/**
 * hamlyn_sleepers_place() - choose the vector that wakes sleepers, and the armed word
 * @sleepers: the sleepers of an object that is about to be opened; the card's lock is held
 * @armed: the word, which is shared with the card
 */
void hamlyn_sleepers_place(struct hamlyn_sleepers *sleepers, void __iomem *armed)
{
	struct hamlyn_card *card = sleepers->file->card;

	lockdep_assert_held(&card->lock);
	sleepers->vector = sleepers_vector(card);
	sleepers->armed = armed;
	writel(HAMLYN_ARMED_NO, armed);
}

void hamlyn_sleepers_open(struct hamlyn_sleepers *sleepers)
{
	guard(spinlock_irq)(&sleepers->vector->lock);
	WRITE_ONCE(sleepers->open, true);
}

/* The card cannot have fired it any more; the vector's lock is held. */
static void sleepers_disarmed(struct hamlyn_sleepers *sleepers)
{
	if (list_empty(&sleepers->on_armed))
		return;
	list_del_init(&sleepers->on_armed);
	sleepers->vector->armed_count--;
}

/**
 * hamlyn_sleepers_close() - wake the sleepers of an object that is closed
 * @sleepers: the sleepers
 */
void hamlyn_sleepers_close(struct hamlyn_sleepers *sleepers)
{
	scoped_guard(spinlock_irq, &sleepers->vector->lock) {
		WRITE_ONCE(sleepers->open, false);
		sleepers_disarmed(sleepers);
	}
	wake_up_all(&sleepers->wait);
}

/* Who waits looks again; the vector's lock is held. */
static void sleepers_wake(struct hamlyn_sleepers *sleepers)
{
	wake_up_all(&sleepers->wait);
	wake_up_all(&sleepers->file->wait);
}

/* Has the card interrupt when what is waited for is there; the vector's lock is held. */
static void sleepers_arm(struct hamlyn_sleepers *sleepers, const void *what)
{
	u32 word = readl(sleepers->armed);

	if (sleepers->awaited->want)
		sleepers->awaited->want(sleepers, what, word == HAMLYN_ARMED_YES);
	/* The card alone changes YES, and nothing else: no news of it is overwritten here. */
	if (word == HAMLYN_ARMED_YES)
		return;
	writel(HAMLYN_ARMED_YES, sleepers->armed);
	if (list_empty(&sleepers->on_armed)) {
		list_add_tail(&sleepers->on_armed, &sleepers->vector->armed);
		sleepers->vector->armed_count++;
	}
	if (word != HAMLYN_ARMED_NO)
		sleepers_wake(sleepers);
}

/**
 * hamlyn_sleepers_ready() - look for what is waited for, and have the card interrupt if it is
 * not there
 * @sleepers: the sleepers
 * @what: what is waited for, as their hamlyn_awaited understands it
 *
 * Return: whether it is there. If not, the wait queues of object and file are woken when it is.
 */
bool hamlyn_sleepers_ready(struct hamlyn_sleepers *sleepers, const void *what)
{
	if (sleepers->awaited->arrived(sleepers, what))
		return true;
	scoped_guard(spinlock_irqsave, &sleepers->vector->lock) {
		if (!sleepers->open)
			return false;
		sleepers_arm(sleepers, what);
	}
	mb(); /* Either the card sees the armed word, or we see its news. */
	return sleepers->awaited->arrived(sleepers, what);
}

/*
 * An interrupt came: wakes those for whom the card has written something while they slept. Looks at
 * the first SLEEPERS_BATCH of them, which are the last then. False: there are more.
 */
bool hamlyn_sleepers_fired(struct hamlyn_vector *vector)
{
	struct hamlyn_sleepers *sleepers;
	unsigned int count, i;

	guard(spinlock_irqsave)(&vector->lock);
	count = vector->armed_count;
	for (i = 0; i < min(count, SLEEPERS_BATCH); i++) {
		sleepers = list_first_entry(&vector->armed, struct hamlyn_sleepers, on_armed);
		if (readl(sleepers->armed) == HAMLYN_ARMED_YES) {
			list_move_tail(&sleepers->on_armed, &vector->armed);
			continue;
		}
		writel(HAMLYN_ARMED_NO, sleepers->armed);
		sleepers_disarmed(sleepers);
		sleepers_wake(sleepers);
	}
	return count <= SLEEPERS_BATCH;
}

/* The same of all that are armed now, in a thread. */
void hamlyn_sleepers_fired_all(struct hamlyn_vector *vector)
{
	unsigned int looks = DIV_ROUND_UP(READ_ONCE(vector->armed_count), SLEEPERS_BATCH);

	for (; looks; looks--) {
		hamlyn_sleepers_fired(vector);
		cond_resched();
	}
}

/* Nothing will come any more. */
static bool sleepers_hopeless(const struct hamlyn_sleepers *sleepers)
{
	return !READ_ONCE(sleepers->open) || !READ_ONCE(sleepers->file->card->live);
}

static long sleepers_sleep(struct hamlyn_sleepers *sleepers, const void *what, s64 timeout_ns)
{
	if (timeout_ns == 0)
		return -ETIME;
	if (timeout_ns == HAMLYN_WAIT_FOREVER)
		return wait_event_interruptible(sleepers->wait,
						sleepers_hopeless(sleepers) ||
							hamlyn_sleepers_ready(sleepers, what));
	return wait_event_interruptible_hrtimeout(
		sleepers->wait,
		sleepers_hopeless(sleepers) || hamlyn_sleepers_ready(sleepers, what),
		ns_to_ktime(timeout_ns));
}

/**
 * hamlyn_sleepers_wait() - sleep until what is waited for is there
 * @sleepers: the sleepers, which the caller has a reference to
 * @what: what is waited for
 * @timeout_ns: for how long, or HAMLYN_WAIT_FOREVER
 *
 * Return: 0; -ETIMEDOUT, -EINTR, -ENOENT if the object is closed, -ENODEV if the card is gone.
 */
int hamlyn_sleepers_wait(struct hamlyn_sleepers *sleepers, const void *what, s64 timeout_ns)
{
	long ret = sleepers_sleep(sleepers, what, timeout_ns);

	/* First of all: it may have come together with the time-out or the signal. */
	if (sleepers->awaited->arrived(sleepers, what))
		return 0;
	if (ret == -ETIME)
		return -ETIMEDOUT;
	/*
	 * Stopped or suspended: nobody need know, unless what is left of a time-out must be
	 * reckoned.
	 */
	if (ret)
		return timeout_ns == HAMLYN_WAIT_FOREVER ? -ERESTARTNOHAND : -EINTR;
	CLASS(hamlyn_entry, entry)(sleepers->file);
	return entry.error ?: -ENOENT;
}
