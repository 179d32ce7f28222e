// SPDX-License-Identifier: GPL-2.0-only
/*
 * How processes sleep until the card has something for them, if it has a FIFO for that (fifo.c).
 * They store to a register what they wait for. The card checks for it when it takes the store, and
 * whenever it writes something. It answers with one record in the FIFO, so there is no lost
 * wake-up. (Cards with armed words have sleepers.c.)
 *
 * Channels of the kernel wait here too, in softirqs, so the lock keeps these off.
 *
 * Several threads may wait on an object, for different things. A record wakes all; those that must
 * still wait arm again.
 */
#include <linux/hrtimer.h>

#include "uln_core.h"

void uln_waiters_init(struct uln_waiters *waiters, struct uln_file *file,
		      const struct uln_expected *expected)
{
	waiters->file = file;
	waiters->expected = expected;
	init_waitqueue_head(&waiters->wait);
	spin_lock_init(&waiters->lock);
}

void uln_waiters_open(struct uln_waiters *waiters)
{
	guard(spinlock_bh)(&waiters->lock);
	WRITE_ONCE(waiters->open, true);
}

/* Wakes all waiters: there is nothing left to wait for. */
void uln_waiters_close(struct uln_waiters *waiters)
{
	scoped_guard(spinlock_bh, &waiters->lock)
		WRITE_ONCE(waiters->open, false);
	wake_up_all(&waiters->wait);
	wake_up_all(&waiters->file->wait);
}

/**
 * uln_waiters_ready() - check for an event, and make the card report it if it is missing
 * @waiters: the waiters
 * @what: the event, as their uln_expected interprets it
 *
 * Return: whether it occurred. If not, the wait queues of object and file are woken when it does.
 */
bool uln_waiters_ready(struct uln_waiters *waiters, u64 what)
{
	if (waiters->expected->arrived(waiters, what))
		return true;
	scoped_guard(spinlock_bh, &waiters->lock)
		if (waiters->open)
			waiters->expected->arm(waiters, what);
	return false;
}

/**
 * uln_waiters_wake() - wake waiters after an event that the card reported, or the driver caused
 * @waiters: the waiters
 *
 * A record must have been taken before: until then the card writes no second one.
 */
void uln_waiters_wake(struct uln_waiters *waiters)
{
	scoped_guard(spinlock_bh, &waiters->lock)
		waiters->armed = 0;
	wake_up_all(&waiters->wait);
	wake_up_all(&waiters->file->wait);
}

/* Returns whether no event can occur any longer. */
static bool waiters_hopeless(const struct uln_waiters *waiters)
{
	return !READ_ONCE(waiters->open) || !READ_ONCE(waiters->file->card->live);
}

static long waiters_sleep(struct uln_waiters *waiters, u64 what, s64 timeout_ns)
{
	if (timeout_ns == 0)
		return -ETIME;
	if (timeout_ns == ULN_WAIT_FOREVER)
		return wait_event_interruptible(waiters->wait,
						waiters_hopeless(waiters) ||
							uln_waiters_ready(waiters, what));
	return wait_event_interruptible_hrtimeout(
		waiters->wait,
		waiters_hopeless(waiters) || uln_waiters_ready(waiters, what),
		ns_to_ktime(timeout_ns));
}

/**
 * uln_waiters_wait() - sleep until an event has occurred
 * @waiters: the waiters, to which the caller has a reference
 * @what: the event
 * @timeout_ns: time limit, or ULN_WAIT_FOREVER
 *
 * Return: 0; -ETIMEDOUT, -EINTR, -ENOENT if the object is closed, -ENODEV if the card is gone.
 */
int uln_waiters_wait(struct uln_waiters *waiters, u64 what, s64 timeout_ns)
{
	long ret;

	if (waiters->expected->arrived(waiters, what))
		return 0;
	ret = waiters_sleep(waiters, what, timeout_ns);
	/* First of all: the event may have come together with the time-out or the signal. */
	if (waiters->expected->arrived(waiters, what))
		return 0;
	if (ret == -ETIME)
		return -ETIMEDOUT;
	/*
	 * The kernel restarts the call, unless a signal has a handler, or the rest of a time-out
	 * would have to be computed.
	 */
	if (ret)
		return timeout_ns == ULN_WAIT_FOREVER ? -ERESTARTNOHAND : -EINTR;
	CLASS(uln_entry, entry)(waiters->file);
	return entry.error ?: -ENOENT;
}
