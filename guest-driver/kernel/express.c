// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Areas of express memory and views of them: how they begin and end. */
#include <linux/random.h>

#include "hamlyn_expresshost.h"

int hamlyn_express_begin(struct hamlyn_system *system, const struct hamlyn_express_ops *ops,
			 u32 own)
{
	struct hamlyn_express *express = hamlyn_express_of(system);
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
		hamlyn_express_service_of(system)->express = express;
	}
	/* All parts belong to one host. */
	for (i = 0; i < ARRAY_SIZE(express->hosts); i++)
		if (express->hosts[i].part.pages && express->own != own)
			return -EINVAL;
	express->ops = ops;
	express->own = own;
	return 0;
}

int hamlyn_express_part(struct hamlyn_system *system, u32 host, u64 memory, u32 pages)
{
	struct hamlyn_express *express = hamlyn_express_of(system);
	struct express_host *with;

	lockdep_assert_held(system->lock);
	if (host >= ARRAY_SIZE(express->hosts) || host == express->own)
		return -EINVAL;
	with = &express->hosts[host];
	if (with->part.pages)
		return -EBUSY;
	return hamlyn_part_open(&with->part, memory, pages, express->own < host);
}

/* Ends all parts, after everything that was arranged has been lost. */
void hamlyn_express_stop(struct hamlyn_system *system)
{
	struct hamlyn_express *express = hamlyn_express_of(system);
	unsigned int i;

	if (!express)
		return;
	hamlyn_system_lost(system, HAMLYN_END_CARD_RESET);
	for (i = 0; i < ARRAY_SIZE(express->hosts); i++) {
		struct hamlyn_express_end *end, *next;

		/* Areas of processes remain. */
		list_for_each_entry_safe(end, next, &express->hosts[i].ends, on_host) {
			express->ops->withdraw(end);
			hamlyn_express_close(system, end);
		}
		hamlyn_part_close(&express->hosts[i].part);
	}
}

/* Checks whether the pages are free, and within the user's share of them. */
static int area_fits(const struct express_part *part, const struct hamlyn_express_end *area,
		     bool privileged)
{
	u32 limit = hamlyn_share_express_limit(area->share, area->host, part->used + part->leaving,
					       part->pages / 2 - part->astray, privileged);

	if (area->count > hamlyn_part_free(part))
		return -ENOSPC;
	return hamlyn_share_express_held(area->share, area->host) + area->count > limit ? -EDQUOT :
											  0;
}

static int area_take(struct hamlyn_system *system, struct express_host *with,
		     struct hamlyn_express_end *area)
{
	struct express_part *part = &with->part;
	int ret;

	ret = hamlyn_part_take(part, area->count, &area->pages);
	if (ret)
		return ret;
	ret = hamlyn_express_add(system, area);
	if (ret)
		hamlyn_part_give(part, &area->pages);
	return ret;
}

int hamlyn_express_create(struct hamlyn_system *system, struct hamlyn_express_end *area, u32 host,
			  u32 pages, struct hamlyn_share *share, bool privileged, bool again)
{
	struct express_host *with = hamlyn_express_with(system, host);
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
		return hamlyn_express_ask_settle(&system->peers[host], with) ?: -EAGAIN;
	}
	return ret ?: area_take(system, with, area);
}

int hamlyn_express_map(struct hamlyn_system *system, struct hamlyn_express_end *view, u32 host,
		       u32 other, u64 key, struct hamlyn_share *share)
{
	int ret;

	lockdep_assert_held(system->lock);
	if (!hamlyn_express_with(system, host))
		return -EHOSTUNREACH;
	view->view = true;
	view->state = EXPRESS_ASKING;
	view->host = host;
	view->other = other;
	view->key = key;
	view->share = share;
	view->since = jiffies;
	ret = hamlyn_express_add(system, view);
	if (!ret)
		hamlyn_express_state(system, view, HAMLYN_EXPRESS_SAY_MAP);
	return ret;
}

void hamlyn_express_view_end(struct hamlyn_system *system, struct hamlyn_express_end *view,
			     int error)
{
	if (view->state == EXPRESS_OPEN) {
		hamlyn_express_of(system)->ops->withdraw(view);
		hamlyn_part_unview(&express_host_of(system, view)->part, &view->pages);
	}
	view->state = EXPRESS_ENDED;
	view->error = error;
	hamlyn_express_of(system)->ops->news(system);
}

void hamlyn_express_view_cut(struct hamlyn_system *system, struct hamlyn_express_end *view,
			     int error)
{
	hamlyn_express_view_end(system, view, error);
	if (view->said)
		hamlyn_express_state(system, view, HAMLYN_EXPRESS_SAY_UNMAP);
	else
		hamlyn_express_forget(system, view);
}

static void area_close(struct hamlyn_system *system, struct hamlyn_express_end *area)
{
	struct express_part *part = &express_host_of(system, area)->part;

	area->state = EXPRESS_ENDED;
	if (area->other) {
		hamlyn_part_leave(part, &area->pages);
		hamlyn_express_state(system, area, HAMLYN_EXPRESS_SAY_GONE);
		return;
	}
	if (area->astray)
		hamlyn_part_lose(part, &area->pages);
	else
		hamlyn_part_give(part, &area->pages);
	hamlyn_express_forget(system, area);
}

void hamlyn_express_close(struct hamlyn_system *system, struct hamlyn_express_end *end)
{
	lockdep_assert_held(system->lock);
	if (end->state == EXPRESS_ENDED)
		return;
	if (end->view)
		hamlyn_express_view_cut(system, end, -ENODEV);
	else
		area_close(system, end);
}

void hamlyn_express_describe(const struct hamlyn_system *system, const struct hamlyn_share *share,
			     bool privileged, struct hamlyn_express_query *query)
{
	const struct express_host *with = hamlyn_express_with(system, query->host);
	const struct express_part *part;

	if (!with)
		return;
	part = &with->part;
	query->part = (u64)part->pages * 4096;
	query->pages = part->pages / 2;
	query->used = part->used;
	query->leaving = part->leaving + part->astray;
	query->viewed = part->viewed;
	query->held = hamlyn_share_express_held(share, query->host);
	query->limit = hamlyn_share_express_limit(share, query->host, part->used + part->leaving,
						  part->pages / 2 - part->astray, privileged);
}
