// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shares: how much of a card one user may hold. Every user may open the device, and its objects are
 * scarce, so without shares one process could take all of them.
 *
 * A user may hold @share percent of what the others leave, and at least one of each kind: by
 * default as many as remain free. If any number of users take all they can, one more still gets
 * something: two have a third each, and a third is left. A part is reserved for privileged users
 * (CAP_SYS_RESOURCE), so that the operator can still use a full card; shares do not limit them.
 *
 * The user that opened the file is charged, not the caller: a file that was passed on, or
 * inherited, is still the opener's.
 */
#include <linux/cred.h>
#include <linux/moduleparam.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "uln_shares.h"

static unsigned int share = 50;
module_param(share, uint, 0644);
MODULE_PARM_DESC(share, "percent of what others leave that one user may hold (1 to 100)");

static unsigned int reserve = 10;
module_param(reserve, uint, 0644);
MODULE_PARM_DESC(reserve,
		 "percent of a card that is left to those with CAP_SYS_RESOURCE (0 to 90)");

/* The smallest number of objects of which one is reserved. */
#define LEAST_RESERVED_OF 4

/* Returns how many objects there are for processes. */
static u32 share_total(const struct uln_shares *all, unsigned int kind)
{
	return kind == ULN_CONNECTIONS ? ULN_MAX_CONNECTIONS : all->total(all, kind);
}

/* Returns how many of @all a user may hold if the others hold @others. */
static u32 share_part(u32 all, u32 others, bool privileged)
{
	u32 kept;

	if (!privileged) {
		kept = (u64)all * min(READ_ONCE(reserve), 90U) / 100;
		if (!kept && all >= LEAST_RESERVED_OF && READ_ONCE(reserve))
			kept = 1;
		all -= kept;
	}
	if (others >= all)
		return 0;
	all -= others;
	if (privileged)
		return all;
	return max((u64)all * clamp(READ_ONCE(share), 1U, 100U) / 100, 1ULL);
}

/* Returns how many of a kind a user may hold now; the card's lock is held. */
u32 uln_share_limit(const struct uln_share *of, unsigned int kind, bool privileged)
{
	return share_part(share_total(of->all, kind), of->all->held[kind] - of->held[kind],
			  privileged);
}

/*
 * Counts @count more, at least one; the card's lock is held. -EDQUOT: the user would exceed its
 * limit, though the card has enough. The driver's own objects have no share, and are not counted.
 */
int uln_share_take_some(struct uln_share *of, unsigned int kind, u32 count, bool privileged)
{
	if (!of)
		return 0;
	lockdep_assert_held(of->all->lock);
	if ((u64)of->held[kind] + count > uln_share_limit(of, kind, privileged))
		return (u64)of->all->held[kind] + count > share_total(of->all, kind) ? -ENOSPC :
										       -EDQUOT;
	of->held[kind] += count;
	of->all->held[kind] += count;
	return 0;
}

void uln_share_give_some(struct uln_share *of, unsigned int kind, u32 count)
{
	if (!of)
		return;
	lockdep_assert_held(of->all->lock);
	of->held[kind] -= count;
	of->all->held[kind] -= count;
}

int uln_share_take(struct uln_share *of, unsigned int kind, bool privileged)
{
	return uln_share_take_some(of, kind, 1, privileged);
}

void uln_share_give(struct uln_share *of, unsigned int kind)
{
	uln_share_give_some(of, kind, 1);
}

/*
 * Counts one more message that waits for a host, beside @waiting others of at most @most. The
 * driver's own messages find room in what users leave.
 */
int uln_share_say(struct uln_share *of, u32 host, u32 waiting, u32 most)
{
	if (!of)
		return 0;
	if (of->said[host] >= share_part(most, waiting - of->said[host], false))
		return -ENOBUFS;
	of->said[host]++;
	uln_share_get(of);
	return 0;
}

/* Reverts uln_share_say(). */
void uln_share_said(struct uln_share *of, u32 host)
{
	if (!of)
		return;
	of->said[host]--;
	uln_share_put(of);
}

u32 uln_share_user(const struct uln_share *of)
{
	return of ? __kuid_val(of->user) + 1 : 0;
}

void uln_share_express(struct uln_share *of, u32 host, s32 pages)
{
	if (of)
		of->express[host] += pages;
}

u32 uln_share_express_held(const struct uln_share *of, u32 host)
{
	return of ? of->express[host] : 0;
}

u32 uln_share_express_limit(const struct uln_share *of, u32 host, u32 held, u32 all,
			    bool privileged)
{
	return of ? share_part(all, held - of->express[host], privileged) : all;
}

void uln_share_get(struct uln_share *of)
{
	if (of)
		of->users++;
}

/* The card's lock is held. A thread that still holds the gate must have another reference. */
void uln_share_put(struct uln_share *of)
{
	if (!of || --of->users)
		return;
	xa_erase(&of->all->users, __kuid_val(of->user));
	kfree(of);
}

/*
 * Returns the user that opens a file. All ids in a user namespace count as its owner, who may map
 * any number of them.
 */
static kuid_t share_user(void)
{
	struct user_namespace *ns;
	kuid_t user = current_uid();

	for (ns = current_user_ns(); ns != &init_user_ns; ns = ns->parent)
		user = ns->owner;
	return user;
}

void uln_shares_init(struct uln_shares *all, struct mutex *lock,
		     u32 (*total)(const struct uln_shares *all, unsigned int kind))
{
	all->lock = lock;
	all->total = total;
	xa_init(&all->users);
}

struct uln_share *uln_share_alloc(void)
{
	return kzalloc(sizeof(struct uln_share), GFP_KERNEL_ACCOUNT);
}

/* Finds the share of the user that opens a file, which is @spare if there is none yet. */
int uln_share_join(struct uln_shares *all, struct uln_share **spare,
		   struct uln_share **joined)
{
	kuid_t user = share_user();
	struct uln_share *of;
	int ret;

	lockdep_assert_held(all->lock);
	of = xa_load(&all->users, __kuid_val(user));
	if (!of) {
		of = *spare;
		of->all = all;
		of->user = user;
		mutex_init(&of->gate);
		ret = xa_insert(&all->users, __kuid_val(user), of, GFP_KERNEL);
		if (ret)
			return ret;
		*spare = NULL;
	}
	uln_share_get(of);
	*joined = of;
	return 0;
}

/*
 * Allocates zeroed memory charged to @payer instead of the current task's cgroup. Never waits for
 * memory, because callers hold the card's lock.
 */
void *uln_zalloc_charged(size_t size, struct mem_cgroup *payer)
{
	struct mem_cgroup *before = set_active_memcg(payer);
	void *memory = kzalloc(size, GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN);

	set_active_memcg(before);
	return memory;
}
