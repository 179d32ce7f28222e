// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Areas of express memory, and views of them, by host and by number. */
#include <linux/nospec.h>

#include "uln_expresshost.h"

bool uln_express_here(const struct uln_system *system)
{
	const struct uln_express *express = uln_express_of(system);
	struct peer_transport *transport = system->transport;
	u32 host;

	return express && system->open && transport->ops->link(transport, &host) &&
	       host == express->own;
}

bool uln_express_is(const struct uln_system *system)
{
	const struct uln_express *express = uln_express_of(system);
	unsigned int i;

	if (!uln_express_here(system))
		return false;
	for (i = 0; i < ARRAY_SIZE(express->hosts); i++)
		if (express->hosts[i].part.pages)
			return true;
	return false;
}

struct express_host *uln_express_with(const struct uln_system *system, u32 host)
{
	struct uln_express *express = uln_express_of(system);
	struct express_host *with;

	if (host >= ULN_WELL_KNOWN_SLOTS || !uln_express_here(system))
		return NULL;
	with = &express->hosts[array_index_nospec(host, ULN_WELL_KNOWN_SLOTS)];
	return with->part.pages ? with : NULL;
}

struct uln_express_end *uln_express_find(const struct uln_system *system, u32 number)
{
	struct uln_express *express = uln_express_of(system);

	return express ? xa_load(&express->ends, number) : NULL;
}

u32 uln_express_place(const struct uln_express_end *end, u32 page)
{
	const struct express_run *run = end->pages.run;

	/* The caller has checked that the page is in range. */
	for (; page >= run->count; run++)
		page -= run->count;
	return run->first + page;
}

int uln_express_add(struct uln_system *system, struct uln_express_end *end)
{
	struct uln_express *express = uln_express_of(system);
	int ret;

	ret = xa_alloc_cyclic(&express->ends, &end->number, end, XA_LIMIT(1, INT_MAX),
			      &express->next_number, GFP_KERNEL);
	if (ret < 0)
		return ret == -EBUSY ? -ENOSPC : ret;
	uln_share_get(end->share);
	if (!end->view)
		uln_share_express(end->share, end->host, end->count);
	uln_system_watch(system, end->host);
	INIT_LIST_HEAD(&end->on_untold);
	list_add_tail(&end->on_host, &express_host_of(system, end)->ends);
	express->ops->hold(end);
	return 0;
}

void uln_express_forget(struct uln_system *system, struct uln_express_end *end)
{
	struct uln_express *express = uln_express_of(system);

	xa_erase(&express->ends, end->number);
	end->number = 0;
	list_del_init(&end->on_untold);
	list_del_init(&end->on_host);
	if (!end->view)
		uln_share_express(end->share, end->host, -(s32)end->count);
	uln_share_put(end->share);
	end->share = NULL;
	express->ops->drop(end);
}
