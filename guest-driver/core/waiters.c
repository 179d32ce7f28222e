// SPDX-License-Identifier: GPL-2.0-only
/*
 * How processes sleep until the card has something for them, if it has a FIFO for that (fifo.c):
 * they store to a register what they wait for. The card looks whether it is there when it takes the
 * store, and then whenever it writes something; it answers with a record in the FIFO, once. So
 * sleeper and card cannot miss each other. (Cards with words for it have sleepers.c.)
 *
 * There may be several who wait on an object, each of whom for something else. A record wakes all;
 * who still has to wait arms again.
 */
#include <linux/hrtimer.h>

#include "hamlyn_core.h"

void hamlyn_waiters_init(struct hamlyn_waiters *waiters, struct hamlyn_file *file,
			 const struct hamlyn_expected *expected)
{
	waiters->file = file;
	waiters->expected = expected;
	init_waitqueue_head(&waiters->wait);
	spin_lock_init(&waiters->lock);
}

void hamlyn_waiters_open(struct hamlyn_waiters *waiters)
{
	guard(spinlock)(&waiters->lock);
	WRITE_ONCE(waiters->open, true);
}

/* Those who sleep learn that there is nothing to wait for any more. */
void hamlyn_waiters_close(struct hamlyn_waiters *waiters)
{
	scoped_guard(spinlock, &waiters->lock)
		WRITE_ONCE(waiters->open, false);
	wake_up_all(&waiters->wait);
	wake_up_all(&waiters->file->wait);
}

/**
 * hamlyn_waiters_ready() - look for what is waited for, and have the card tell if it is not there
 * @waiters: the waiters
 * @what: what is waited for, as their hamlyn_expected understands it
 *
 * Return: whether it is there. If not, the wait queues of object and file are woken when it is.
 */
bool hamlyn_waiters_ready(struct hamlyn_waiters *waiters, u64 what)
{
	if (waiters->expected->arrived(waiters, what))
		return true;
	scoped_guard(spinlock, &waiters->lock)
		if (waiters->open)
			waiters->expected->arm(waiters, what);
	return false;
}

/**
 * hamlyn_waiters_wake() - wake waiters: the card has told of something, or the driver has it
 * @waiters: the waiters
 *
 * A record must have been taken before: until then the card writes no second one.
 */
void hamlyn_waiters_wake(struct hamlyn_waiters *waiters)
{
	scoped_guard(spinlock, &waiters->lock)
		waiters->armed = 0;
	wake_up_all(&waiters->wait);
	wake_up_all(&waiters->file->wait);
}

/* Nothing will come any more. */
static bool waiters_hopeless(const struct hamlyn_waiters *waiters)
{
	return !READ_ONCE(waiters->open) || !READ_ONCE(waiters->file->card->live);
}

static long waiters_sleep(struct hamlyn_waiters *waiters, u64 what, s64 timeout_ns)
{
	if (timeout_ns == 0)
		return -ETIME;
	if (timeout_ns == HAMLYN_WAIT_FOREVER)
		return wait_event_interruptible(waiters->wait,
						waiters_hopeless(waiters) ||
							hamlyn_waiters_ready(waiters, what));
	return wait_event_interruptible_hrtimeout(
		waiters->wait,
		waiters_hopeless(waiters) || hamlyn_waiters_ready(waiters, what),
		ns_to_ktime(timeout_ns));
}

/**
 * hamlyn_waiters_wait() - sleep until what is waited for is there
 * @waiters: the waiters, which the caller has a reference to
 * @what: what is waited for
 * @timeout_ns: for how long, or HAMLYN_WAIT_FOREVER
 *
 * Return: 0; -ETIMEDOUT, -EINTR, -ENOENT if the object is closed, -ENODEV if the card is gone.
 */
int hamlyn_waiters_wait(struct hamlyn_waiters *waiters, u64 what, s64 timeout_ns)
{
	long ret;

	if (waiters->expected->arrived(waiters, what))
		return 0;
	ret = waiters_sleep(waiters, what, timeout_ns);
	/* First of all: it may have come together with the time-out or the signal. */
	if (waiters->expected->arrived(waiters, what))
		return 0;
	if (ret == -ETIME)
		return -ETIMEDOUT;
	/* Nobody need know, unless what is left of a time-out must be reckoned. */
	if (ret)
		return timeout_ns == HAMLYN_WAIT_FOREVER ? -ERESTARTNOHAND : -EINTR;
	CLASS(hamlyn_entry, entry)(waiters->file);
	return entry.error ?: -ENOENT;
}
