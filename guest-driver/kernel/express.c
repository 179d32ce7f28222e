// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Areas of express memory and views of them: how they begin and end. */
#include <linux/random.h>

#include "uln_expresshost.h"

int uln_express_begin(struct uln_system *system, const struct uln_express_ops *ops,
		      u32 own)
{
	struct uln_express *express = uln_express_of(system);
	unsigned int i;

	lockdep_assert_held(system->lock);
	if (!express) {
		express = kzalloc(sizeof(*express), GFP_KERNEL);
		if (!express)
			return -ENOMEM;
		xa_init_flags(&express->ends, XA_FLAGS_ALLOC1);
		for (i = 0; i < ARRAY_SIZE(express->hosts); i++) {
			INIT_LIST_HEAD(&express->hosts[i].ends);
			INIT_LIST_HEAD(&express->hosts[i].untold);
		}
		uln_express_service_of(system)->express = express;
	}
	/* All parts belong to one host. */
	for (i = 0; i < ARRAY_SIZE(express->hosts); i++)
		if (express->hosts[i].part.pages && express->own != own)
			return -EINVAL;
	express->ops = ops;
	express->own = own;
	return 0;
}

int uln_express_part(struct uln_system *system, u32 host, u64 memory, u32 pages)
{
	struct uln_express *express = uln_express_of(system);
	struct express_host *with;

	lockdep_assert_held(system->lock);
	if (host >= ARRAY_SIZE(express->hosts) || host == express->own)
		return -EINVAL;
	with = &express->hosts[host];
	if (with->part.pages)
		return -EBUSY;
	return uln_part_open(&with->part, memory, pages, express->own < host);
}

/* Ends all parts, after everything that was arranged has been lost. */
void uln_express_stop(struct uln_system *system)
{
	struct uln_express *express = uln_express_of(system);
	unsigned int i;

	if (!express)
		return;
	uln_system_lost(system, ULN_END_CARD_RESET);
	for (i = 0; i < ARRAY_SIZE(express->hosts); i++) {
		struct uln_express_end *end, *next;

		/* Areas of processes remain. */
		list_for_each_entry_safe(end, next, &express->hosts[i].ends, on_host) {
			express->ops->withdraw(end);
			uln_express_close(system, end);
		}
		uln_part_close(&express->hosts[i].part);
	}
}

/* Checks whether the pages are free, and within the user's share of them. */
static int area_fits(const struct express_part *part, const struct uln_express_end *area,
		     bool privileged)
{
	u32 limit = uln_share_express_limit(area->share, area->host, part->used + part->leaving,
					    part->pages / 2 - part->astray, privileged);

	if (area->count > uln_part_free(part))
		return -ENOSPC;
	return uln_share_express_held(area->share, area->host) + area->count > limit ? -EDQUOT :
											  0;
}

static int area_take(struct uln_system *system, struct express_host *with,
		     struct uln_express_end *area)
{
	struct express_part *part = &with->part;
	int ret;

	ret = uln_part_take(part, area->count, &area->pages);
	if (ret)
		return ret;
	ret = uln_express_add(system, area);
	if (ret)
		uln_part_give(part, &area->pages);
	return ret;
}

int uln_express_create(struct uln_system *system, struct uln_express_end *area, u32 host,
		       u32 pages, struct uln_share *share, bool privileged, bool again)
{
	struct express_host *with = uln_express_with(system, host);
	int ret;

	lockdep_assert_held(system->lock);
	if (!with)
		return -EHOSTUNREACH;
	if (!pages || pages > with->part.pages / 2)
		return -EINVAL;
	area->state = EXPRESS_OPEN;
	area->host = host;
	area->count = pages;
	area->share = share;
	area->key = (u64)get_random_u32() << 32 | get_random_u32();
	ret = area_fits(&with->part, area, privileged);
	/* Once the host has settled, there are more pages, and the share is larger. */
	if (ret && with->part.astray) {
		if (with->settling)
			return -EAGAIN;
		if (again)
			return ret == -ENOSPC ? -EHOSTDOWN : ret;
		return uln_express_ask_settle(&system->peers[host], with) ?: -EAGAIN;
	}
	return ret ?: area_take(system, with, area);
}

int uln_express_map(struct uln_system *system, struct uln_express_end *view, u32 host,
		    u32 other, u64 key, struct uln_share *share)
{
	int ret;

	lockdep_assert_held(system->lock);
	if (!uln_express_with(system, host))
		return -EHOSTUNREACH;
	view->view = true;
	view->state = EXPRESS_ASKING;
	view->host = host;
	view->other = other;
	view->key = key;
	view->share = share;
	view->since = jiffies;
	ret = uln_express_add(system, view);
	if (!ret)
		uln_express_state(system, view, ULN_EXPRESS_SAY_MAP);
	return ret;
}

void uln_express_view_end(struct uln_system *system, struct uln_express_end *view,
			  int error)
{
	if (view->state == EXPRESS_OPEN) {
		uln_express_of(system)->ops->withdraw(view);
		uln_part_unview(&express_host_of(system, view)->part, &view->pages);
	}
	view->state = EXPRESS_ENDED;
	view->error = error;
	uln_express_of(system)->ops->news(system);
}

void uln_express_view_cut(struct uln_system *system, struct uln_express_end *view,
			  int error)
{
	uln_express_view_end(system, view, error);
	if (view->said)
		uln_express_state(system, view, ULN_EXPRESS_SAY_UNMAP);
	else
		uln_express_forget(system, view);
}

static void area_close(struct uln_system *system, struct uln_express_end *area)
{
	struct express_part *part = &express_host_of(system, area)->part;

	area->state = EXPRESS_ENDED;
	if (area->other) {
		uln_part_leave(part, &area->pages);
		uln_express_state(system, area, ULN_EXPRESS_SAY_GONE);
		return;
	}
	if (area->astray)
		uln_part_lose(part, &area->pages);
	else
		uln_part_give(part, &area->pages);
	uln_express_forget(system, area);
}

void uln_express_close(struct uln_system *system, struct uln_express_end *end)
{
	lockdep_assert_held(system->lock);
	if (end->state == EXPRESS_ENDED)
		return;
	if (end->view)
		uln_express_view_cut(system, end, -ENODEV);
	else
		area_close(system, end);
}

void uln_express_describe(const struct uln_system *system, const struct uln_share *share,
			  bool privileged, struct uln_express_query *query)
{
	const struct express_host *with = uln_express_with(system, query->host);
	const struct express_part *part;

	if (!with)
		return;
	part = &with->part;
	query->part = (u64)part->pages * 4096;
	query->pages = part->pages / 2;
	query->used = part->used;
	query->leaving = part->leaving + part->astray;
	query->viewed = part->viewed;
	query->held = uln_share_express_held(share, query->host);
	query->limit = uln_share_express_limit(share, query->host, part->used + part->leaving,
					       part->pages / 2 - part->astray, privileged);
}
