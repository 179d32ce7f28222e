// SPDX-License-Identifier: GPL-2.0-only
/*
 * How processes sleep until the card has something for them: they store to a register what they wait
 * for. The card looks whether it is there when it takes the store, and then whenever it writes
 * something; it answers with a record in the FIFO (fifo.c), once. So sleeper and card cannot miss each
 * other.
 *
 * There may be several sleepers on an object, each of whom waits for something else. A record wakes
 * all; who still has to wait arms again.
 */
#include <linux/hrtimer.h>

#include "clan.h"

void clan_sleepers_init(struct clan_sleepers *sleepers, struct hamlyn_file *file,
			const struct clan_awaited *awaited)
{
	sleepers->file = file;
	sleepers->awaited = awaited;
	init_waitqueue_head(&sleepers->wait);
	spin_lock_init(&sleepers->lock);
}

void clan_sleepers_open(struct clan_sleepers *sleepers)
{
	guard(spinlock)(&sleepers->lock);
	WRITE_ONCE(sleepers->open, true);
}

/* Those who sleep learn that there is nothing to wait for any more. */
void clan_sleepers_close(struct clan_sleepers *sleepers)
{
	scoped_guard(spinlock, &sleepers->lock)
		WRITE_ONCE(sleepers->open, false);
	wake_up_all(&sleepers->wait);
	wake_up_all(&sleepers->file->wait);
}

/* Whether what is waited for is there; if not, the card has been told, and the wait queues get woken. */
bool clan_sleepers_ready(struct clan_sleepers *sleepers, u64 what)
{
	if (sleepers->awaited->arrived(sleepers, what))
		return true;
	scoped_guard(spinlock, &sleepers->lock)
		if (sleepers->open)
			sleepers->awaited->arm(sleepers, what);
	return false;
}

/*
 * The card has told of it, or the driver has something itself. A record must have been taken before:
 * until then the card writes no second one, whoever arms.
 */
void clan_sleepers_wake(struct clan_sleepers *sleepers)
{
	scoped_guard(spinlock, &sleepers->lock)
		sleepers->armed = 0;
	wake_up_all(&sleepers->wait);
	wake_up_all(&sleepers->file->wait);
}

/* Nothing will come any more. */
static bool sleepers_hopeless(const struct clan_sleepers *sleepers)
{
	return !READ_ONCE(sleepers->open) || !READ_ONCE(sleepers->file->card->live);
}

static long sleepers_sleep(struct clan_sleepers *sleepers, u64 what, s64 timeout_ns)
{
	if (timeout_ns == 0)
		return -ETIME;
	if (timeout_ns == HAMLYN_WAIT_FOREVER)
		return wait_event_interruptible(sleepers->wait,
						sleepers_hopeless(sleepers) ||
							clan_sleepers_ready(sleepers, what));
	return wait_event_interruptible_hrtimeout(
		sleepers->wait,
		sleepers_hopeless(sleepers) || clan_sleepers_ready(sleepers, what),
		ns_to_ktime(timeout_ns));
}

/* Sleeps until it is there; the caller holds whatever the sleepers are part of. */
int clan_sleepers_wait(struct clan_sleepers *sleepers, u64 what, s64 timeout_ns)
{
	long ret;

	if (sleepers->awaited->arrived(sleepers, what))
		return 0;
	ret = sleepers_sleep(sleepers, what, timeout_ns);
	/* First of all: it may have come together with the time-out or the signal. */
	if (sleepers->awaited->arrived(sleepers, what))
		return 0;
	if (ret == -ETIME)
		return -ETIMEDOUT;
	/* Nobody need know, unless what is left of a time-out must be reckoned. */
	if (ret)
		return timeout_ns == HAMLYN_WAIT_FOREVER ? -ERESTARTNOHAND : -EINTR;
	CLASS(hamlyn_entry, entry)(sleepers->file);
	return entry.error ?: -ENOENT;
}
