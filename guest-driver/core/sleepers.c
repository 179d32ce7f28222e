// SPDX-License-Identifier: GPL-2.0-only
/*
 * How processes sleep until the card has something for them. What that is depends on the object on
 * which they sleep (struct uln_awaited).
 *
 * There must be no lost wake-up. The sleeper sets the armed word to YES, issues a full barrier, and
 * checks once more before it sleeps. The card writes its news, issues a full barrier, and reads the
 * armed word. If it is YES, the card writes FIRED and raises an interrupt. The handler changes
 * FIRED to NO and wakes all sleepers. Those that must still wait arm again.
 *
 * There is one armed word but there may be several sleepers, which wait for different things. A
 * sleeper that wants to arm and finds FIRED has come before the interrupt, and does the interrupt's
 * work itself. If it only set the word back to YES, those that the card wanted to wake would sleep
 * on.
 */
#include <linux/irq.h>

#include "uln_core.h"

/* Armed words that an interrupt handler reads: processes decide how many there are. */
#define SLEEPERS_BATCH 64

void uln_sleepers_init(struct uln_sleepers *sleepers, struct uln_file *file,
		       const struct uln_awaited *awaited)
{
	sleepers->file = file;
	sleepers->awaited = awaited;
	init_waitqueue_head(&sleepers->wait);
	INIT_LIST_HEAD(&sleepers->on_armed);
}

/* Returns whether the vector interrupts this processor. Either may change at any moment. */
static bool vector_is_near(const struct uln_vector *vector)
{
	unsigned int irq = pci_irq_vector(vector->card->pdev, vector->number);
	const struct cpumask *processors = irq_get_effective_affinity_mask(irq);

	return processors && cpumask_test_cpu(raw_smp_processor_id(), processors);
}

/*
 * A thread that opens a queue most likely waits where it runs now. So a vector that interrupts that
 * processor wakes it there. "None is pending" is then close to the paper, which has it by processor
 * (section 2.6). Chooses in turn among those vectors, or among all if there is none.
 */
static struct uln_vector *sleepers_vector(struct uln_card *card)
{
	unsigned int first = card->next_vector++, number = card->vectors - ULN_FIRST_VECTOR, i;
	struct uln_vector *vectors = &card->vector[ULN_FIRST_VECTOR];

	for (i = 0; i < number; i++) {
		if (vector_is_near(&vectors[(first + i) % number]))
			return &vectors[(first + i) % number];
	}
	return &vectors[first % number];
}

/**
 * uln_sleepers_place() - choose the vector that wakes sleepers, and the armed word
 * @sleepers: sleepers of an object that is about to be opened; the card's lock is held
 * @armed: the word, which is shared with the card
 */
void uln_sleepers_place(struct uln_sleepers *sleepers, void __iomem *armed)
{
	struct uln_card *card = sleepers->file->card;

	lockdep_assert_held(&card->lock);
	sleepers->vector = sleepers_vector(card);
	sleepers->armed = armed;
	writel(ULN_ARMED_NO, armed);
}

void uln_sleepers_open(struct uln_sleepers *sleepers)
{
	guard(spinlock_irq)(&sleepers->vector->lock);
	WRITE_ONCE(sleepers->open, true);
}

/* The card can no longer have fired it; the vector's lock is held. */
static void sleepers_disarmed(struct uln_sleepers *sleepers)
{
	if (list_empty(&sleepers->on_armed))
		return;
	list_del_init(&sleepers->on_armed);
	sleepers->vector->armed_count--;
}

/**
 * uln_sleepers_close() - wake the sleepers of an object that is closed
 * @sleepers: the sleepers
 */
void uln_sleepers_close(struct uln_sleepers *sleepers)
{
	scoped_guard(spinlock_irq, &sleepers->vector->lock) {
		WRITE_ONCE(sleepers->open, false);
		sleepers_disarmed(sleepers);
	}
	wake_up_all(&sleepers->wait);
}

/* Makes waiting threads check again; the vector's lock is held. */
static void sleepers_wake(struct uln_sleepers *sleepers)
{
	wake_up_all(&sleepers->wait);
	wake_up_all(&sleepers->file->wait);
}

/* Makes the card interrupt when the awaited event occurs; the vector's lock is held. */
static void sleepers_arm(struct uln_sleepers *sleepers, const void *what)
{
	u32 word = readl(sleepers->armed);

	if (sleepers->awaited->want)
		sleepers->awaited->want(sleepers, what, word == ULN_ARMED_YES);
	/* Only the card changes YES, and it changes nothing else: this overwrites no news of it. */
	if (word == ULN_ARMED_YES)
		return;
	writel(ULN_ARMED_YES, sleepers->armed);
	if (list_empty(&sleepers->on_armed)) {
		list_add_tail(&sleepers->on_armed, &sleepers->vector->armed);
		sleepers->vector->armed_count++;
	}
	if (word != ULN_ARMED_NO)
		sleepers_wake(sleepers);
}

/**
 * uln_sleepers_ready() - check for an event, and make the card interrupt if it is missing
 * @sleepers: the sleepers
 * @what: the event, as their uln_awaited interprets it
 *
 * Return: whether it occurred. If not, the wait queues of object and file are woken when it does.
 */
bool uln_sleepers_ready(struct uln_sleepers *sleepers, const void *what)
{
	if (sleepers->awaited->arrived(sleepers, what))
		return true;
	scoped_guard(spinlock_irqsave, &sleepers->vector->lock) {
		if (!sleepers->open)
			return false;
		sleepers_arm(sleepers, what);
	}
	mb(); /* Either the card sees the armed word, or the driver sees its news. */
	return sleepers->awaited->arrived(sleepers, what);
}

/*
 * Handles an interrupt: wakes sleepers for which the card has written something. Checks the first
 * SLEEPERS_BATCH of them; those still armed become the last. Returns false if there are more.
 */
bool uln_sleepers_fired(struct uln_vector *vector)
{
	struct uln_sleepers *sleepers;
	unsigned int count, i;

	guard(spinlock_irqsave)(&vector->lock);
	count = vector->armed_count;
	for (i = 0; i < min(count, SLEEPERS_BATCH); i++) {
		sleepers = list_first_entry(&vector->armed, struct uln_sleepers, on_armed);
		if (readl(sleepers->armed) == ULN_ARMED_YES) {
			list_move_tail(&sleepers->on_armed, &vector->armed);
			continue;
		}
		writel(ULN_ARMED_NO, sleepers->armed);
		sleepers_disarmed(sleepers);
		sleepers_wake(sleepers);
	}
	return count <= SLEEPERS_BATCH;
}

/* The same for all that are armed now, in a thread. */
void uln_sleepers_fired_all(struct uln_vector *vector)
{
	unsigned int looks = DIV_ROUND_UP(READ_ONCE(vector->armed_count), SLEEPERS_BATCH);

	for (; looks; looks--) {
		uln_sleepers_fired(vector);
		cond_resched();
	}
}

/* Returns whether no event can occur any longer. */
static bool sleepers_hopeless(const struct uln_sleepers *sleepers)
{
	return !READ_ONCE(sleepers->open) || !READ_ONCE(sleepers->file->card->live);
}

static long sleepers_sleep(struct uln_sleepers *sleepers, const void *what, s64 timeout_ns)
{
	if (timeout_ns == 0)
		return -ETIME;
	if (timeout_ns == ULN_WAIT_FOREVER)
		return wait_event_interruptible(sleepers->wait,
						sleepers_hopeless(sleepers) ||
							uln_sleepers_ready(sleepers, what));
	return wait_event_interruptible_hrtimeout(
		sleepers->wait,
		sleepers_hopeless(sleepers) || uln_sleepers_ready(sleepers, what),
		ns_to_ktime(timeout_ns));
}

/**
 * uln_sleepers_wait() - sleep until an event has occurred
 * @sleepers: the sleepers, to which the caller has a reference
 * @what: the event
 * @timeout_ns: time limit, or ULN_WAIT_FOREVER
 *
 * Return: 0; -ETIMEDOUT, -EINTR, -ENOENT if the object is closed, -ENODEV if the card is gone.
 */
int uln_sleepers_wait(struct uln_sleepers *sleepers, const void *what, s64 timeout_ns)
{
	long ret = sleepers_sleep(sleepers, what, timeout_ns);

	/* First of all: the event may have come together with the time-out or the signal. */
	if (sleepers->awaited->arrived(sleepers, what))
		return 0;
	if (ret == -ETIME)
		return -ETIMEDOUT;
	/*
	 * The thread was stopped or suspended. The kernel restarts the call, unless a signal has a
	 * handler, or the rest of a time-out would have to be computed.
	 */
	if (ret)
		return timeout_ns == ULN_WAIT_FOREVER ? -ERESTARTNOHAND : -EINTR;
	CLASS(uln_entry, entry)(sleepers->file);
	return entry.error ?: -ENOENT;
}
