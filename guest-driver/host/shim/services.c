// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Kernel services for the driver, implemented by what Rust passes in. */
#include <linux/cleanup.h>
#include <linux/random.h>
#include <stdlib.h>

#include "host.h"

static _Thread_local struct host *now;

struct host *host_now(void)
{
	return now;
}

struct host *host_enter(struct host *host, const struct host_call *call)
{
	struct host *before = now;

	now = host;
	host->call = call;
	host_set_peer_timeout(host->peer_timeout);
	return before;
}

void host_leave(struct host *host, struct host *before)
{
	if (host->lock.held)
		host_complain("the lock is kept");
	host->call = NULL;
	now = before;
}

void host_complain(const char *complaint)
{
	if (!now->complaint)
		now->complaint = complaint;
}

/* Locks. */

void mutex_lock(struct mutex *lock)
{
	if (lock->held)
		host_complain("a lock is taken twice");
	lock->held = true;
}

void mutex_unlock(struct mutex *lock)
{
	if (!lock->held)
		host_complain("a lock is given back that is not held");
	lock->held = false;
}

void lockdep_assert_held(struct mutex *lock)
{
	if (!lock->held)
		host_complain("the lock is to be held");
}

/* Time and random numbers. */

unsigned long host_jiffies(void)
{
	return INITIAL_JIFFIES + now->call->now;
}

u32 get_random_u32(void)
{
	return now->call->random(now->call->ports);
}

/* Memory. */

#define PIECE 0x5049454345ull
/* Fills freed memory. */
#define SPOILT 0x6b

struct piece {
	struct list_head on_host;
	u64 mark;
	size_t size;
	_Alignas(16) u8 bytes[];
};

void *kzalloc(size_t size, gfp_t flags)
{
	struct piece *piece;

	if (!now->call->allocates(now->call->ports))
		return NULL;
	piece = calloc(1, sizeof(*piece) + size);
	if (!piece)
		return NULL;
	piece->mark = PIECE;
	piece->size = size;
	list_add_tail(&piece->on_host, &now->memory);
	now->pieces++;
	return piece->bytes;
}

void kfree(const void *memory)
{
	struct piece *piece;

	if (!memory)
		return;
	piece = container_of(memory, struct piece, bytes);
	if (piece->mark != PIECE) {
		host_complain("memory that was not allocated here is freed");
		return;
	}
	list_del(&piece->on_host);
	now->pieces--;
	memset(piece->bytes, SPOILT, piece->size);
	piece->mark = 0;
	free(piece);
}

/* Work. */

static bool work_begin(struct work_struct *work, unsigned long delay)
{
	if (!list_empty(&work->on_system))
		return false;
	work->due = host_jiffies() + delay;
	list_add_tail(&work->on_system, &now->work);
	return true;
}

bool queue_work(struct workqueue_struct *queue, struct work_struct *work)
{
	return work_begin(work, 0);
}

bool queue_delayed_work(struct workqueue_struct *queue, struct delayed_work *work,
			unsigned long delay)
{
	return work_begin(&work->work, delay);
}

void cancel_work_sync(struct work_struct *work)
{
	if (!list_empty(&work->on_system))
		list_del_init(&work->on_system);
}

void cancel_delayed_work_sync(struct delayed_work *work)
{
	cancel_work_sync(&work->work);
}

void wake_up_all(wait_queue_head_t *wait)
{
	if (wait->file)
		now->call->woken(now->call->ports, wait->file);
}

/* Users' shares. */

void *uln_zalloc_charged(size_t size, struct mem_cgroup *payer)
{
	return kzalloc(size, GFP_KERNEL);
}

void uln_share_get(struct uln_share *share)
{
	share->users++;
}

void uln_share_put(struct uln_share *share)
{
	share->users--;
}

int uln_share_take(struct uln_share *share, unsigned int kind, bool privileged)
{
	if (share->held[kind] >= ULN_MAX_CONNECTIONS)
		return -ENOSPC;
	share->held[kind]++;
	return 0;
}

void uln_share_give(struct uln_share *share, unsigned int kind)
{
	if (!share->held[kind])
		host_complain("more is given back than was taken");
	else
		share->held[kind]--;
}

/* The driver's own messages have no share. */
int uln_share_say(struct uln_share *share, u32 host, u32 waiting, u32 most)
{
	(void)waiting;
	(void)most;
	if (!share)
		return 0;
	if (share->said[host] >= share->most_said)
		return -ENOBUFS;
	share->said[host]++;
	uln_share_get(share);
	return 0;
}

void uln_share_express(struct uln_share *share, u32 host, s32 pages)
{
	share->express[host] += pages;
}

u32 uln_share_express_held(const struct uln_share *share, u32 host)
{
	return share->express[host];
}

/* A user may have everything except what is spared for others. */
u32 uln_share_express_limit(const struct uln_share *share, u32 host, u32 held, u32 all,
			    bool privileged)
{
	(void)host;
	(void)held;
	(void)privileged;
	return all > share->spared ? all - share->spared : 0;
}

/* A program at a card's socket has no user id of a machine. */
u32 uln_share_user(const struct uln_share *share)
{
	return 0;
}

void uln_share_said(struct uln_share *share, u32 host)
{
	if (!share)
		return;
	share->said[host]--;
	uln_share_put(share);
}

/* Pointers, looked up by number. */

struct numbered {
	struct hlist_node on_chain;
	u32 number;
	void *entry;
};

static struct hlist_head *xa_chain(struct xarray *xa, unsigned long number)
{
	return &xa->chains[number % XA_CHAINS];
}

static struct numbered *xa_find_number(struct xarray *xa, unsigned long number)
{
	struct numbered *numbered;

	hlist_for_each_entry(numbered, xa_chain(xa, number), on_chain)
		if (numbered->number == number)
			return numbered;
	return NULL;
}

void xa_init_flags(struct xarray *xa, gfp_t flags)
{
	memset(xa, 0, sizeof(*xa));
}

void *xa_load(struct xarray *xa, unsigned long number)
{
	struct numbered *numbered = xa_find_number(xa, number);

	return numbered ? numbered->entry : NULL;
}

void *xa_erase(struct xarray *xa, unsigned long number)
{
	struct numbered *numbered = xa_find_number(xa, number);
	void *entry = xa_load(xa, number);

	if (!numbered)
		return NULL;
	hlist_del_init(&numbered->on_chain);
	kfree(numbered);
	xa->count--;
	return entry;
}

/* Finds the next free number, starting at *next and wrapping to the minimum. */
static bool xa_next_free(struct xarray *xa, struct xa_limit limit, u32 *next)
{
	u32 number = clamp(*next, limit.min, limit.max), first = number;

	while (xa_find_number(xa, number)) {
		number = number == limit.max ? limit.min : number + 1;
		if (number == first)
			return false;
	}
	*next = number;
	return true;
}

int xa_alloc_cyclic(struct xarray *xa, u32 *number, void *entry, struct xa_limit limit, u32 *next,
		    gfp_t flags)
{
	struct numbered *numbered;
	u32 chosen = *next;

	if (!xa_next_free(xa, limit, &chosen))
		return -EBUSY;
	numbered = kzalloc(sizeof(*numbered), flags);
	if (!numbered)
		return -ENOMEM;
	numbered->number = chosen;
	numbered->entry = entry;
	hlist_add_head(&numbered->on_chain, xa_chain(xa, chosen));
	xa->count++;
	*number = chosen;
	*next = chosen == limit.max ? limit.min : chosen + 1;
	return 0;
}

void xa_destroy(struct xarray *xa)
{
	struct numbered *numbered;
	struct hlist_node *after;
	unsigned int chain;

	for (chain = 0; chain < XA_CHAINS; chain++)
		hlist_for_each_entry_safe(numbered, after, &xa->chains[chain], on_chain) {
			hlist_del_init(&numbered->on_chain);
			kfree(numbered);
		}
	xa->count = 0;
}
