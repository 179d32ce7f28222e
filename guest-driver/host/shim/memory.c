// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Calls on a system about express memory, as core/expressfile.c makes them. */
#include <linux/cleanup.h>

#include "host.h"

#define host_end(of) container_of(of, struct host_end, end)

static void end_hold(struct uln_express_end *end)
{
	host_end(end)->users++;
}

static void end_drop(struct uln_express_end *end)
{
	if (!--host_end(end)->users)
		kfree(host_end(end));
}

static void end_withdraw(struct uln_express_end *end)
{
	const struct host_call *call = host_now()->call;

	call->withdraw(call->ports, host_end(end)->file);
}

/* Wakes the waiters of all areas and views. */
static void end_news(struct uln_system *system)
{
	struct host *host = host_now();
	const struct host_end *end;

	list_for_each_entry(end, &host->ends, on_host)
		host->call->woken(host->call->ports, end->file);
}

static const struct uln_express_ops express_ops = {
	.hold = end_hold,
	.drop = end_drop,
	.withdraw = end_withdraw,
	.news = end_news,
};

int host_express_begin(struct host *host, const struct host_call *call, u32 own)
{
	VERB(host, call, true);
	return uln_express_begin(host->system, &express_ops, own);
}

int host_express_part(struct host *host, const struct host_call *call, u32 peer, u64 memory, u32 pages)
{
	VERB(host, call, true);
	return uln_express_part(host->system, peer, memory, pages);
}

void host_express_stop(struct host *host, const struct host_call *call)
{
	VERB(host, call, true);
	uln_express_stop(host->system);
}

static struct host_end *end_alloc(struct host *host, u32 file)
{
	struct host_end *end = kzalloc(sizeof(*end), GFP_KERNEL);

	if (!end)
		return NULL;
	end->users = 1;
	end->file = file;
	list_add_tail(&end->on_host, &host->ends);
	return end;
}

static int end_made(struct host_end *end, int ret, struct host_end **made)
{
	if (ret) {
		list_del(&end->on_host);
		end_drop(&end->end);
		return ret;
	}
	*made = end;
	return 0;
}

int host_express_create(struct host *host, const struct host_call *call, u32 peer, u32 pages, bool again,
			u32 file, struct host_end **made)
{
	struct host_end *end;

	VERB(host, call, true);
	end = end_alloc(host, file);
	if (!end)
		return -ENOMEM;
	return end_made(end,
			uln_express_create(host->system, &end->end, peer, pages, host->asks, false, again),
			made);
}

int host_express_map(struct host *host, const struct host_call *call, u32 peer, u32 area, u64 key, u32 file,
		     struct host_end **made)
{
	struct host_end *end;

	VERB(host, call, true);
	end = end_alloc(host, file);
	if (!end)
		return -ENOMEM;
	return end_made(end, uln_express_map(host->system, &end->end, peer, area, key, host->asks), made);
}

void host_express_close(struct host *host, const struct host_call *call, struct host_end *end)
{
	VERB(host, call, true);
	uln_express_close(host->system, &end->end);
	list_del(&end->on_host);
	end_drop(&end->end);
}

void host_express_user(struct host *host, u32 user, u32 messages)
{
	host->asks = &host->shares[user % HOST_USERS];
	host->asks->most_said = messages;
}

void host_express_spare(struct host *host, u32 pages)
{
	host->asks->spared = pages;
}

void host_express_describe(struct host *host, const struct host_call *call,
			   struct uln_express_query *query)
{
	VERB(host, call, true);
	uln_express_describe(host->system, host->asks, false, query);
}

void host_express_look(const struct host_end *end, struct host_end_state *state)
{
	state->state = end->end.state;
	state->error = end->end.error;
	state->number = end->end.number;
	state->count = end->end.count;
	state->key = end->end.key;
	state->pages = uln_part_pack(&end->end.pages);
}
