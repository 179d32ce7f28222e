// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Calls on a system, as a card's folder and core/connectfile.c make them. */
#include <linux/bitops.h>
#include <linux/cleanup.h>
#include <stdlib.h>

#include "host.h"
#include "uln_expresshost.h"

static struct host *host_of(struct peer_transport *transport)
{
	return container_of(transport, struct host, transport);
}

static bool transport_link(struct peer_transport *transport, u32 *host)
{
	struct host *own = host_of(transport);

	/* Losses of the link have been reported before. */
	return own->call->link(own->call->ports, host);
}

static bool transport_post(struct peer_transport *transport, u32 host, u32 entry,
			   const struct uln_wire *wire, const void *data, u32 length)
{
	const struct host_call *call = host_of(transport)->call;

	return call->post(call->ports, host, entry, wire, data, length);
}

static bool transport_take(struct peer_transport *transport, u32 *host, u32 *entry)
{
	const struct host_call *call = host_of(transport)->call;

	return call->take(call->ports, host, entry);
}

static bool transport_more(struct peer_transport *transport)
{
	const struct host_call *call = host_of(transport)->call;

	return call->more(call->ports);
}

static const u8 *transport_read(struct peer_transport *transport, u32 host, u32 entry,
				struct uln_wire *wire)
{
	struct host *own = host_of(transport);

	own->call->read(own->call->ports, host, entry, wire, own->place);
	return own->place;
}

static void transport_reopen(struct peer_transport *transport, u32 host, u32 entry)
{
	const struct host_call *call = host_of(transport)->call;

	call->reopen(call->ports, host, entry);
}

static const struct peer_transport_ops transport_ops = {
	.link = transport_link,
	.post = transport_post,
	.take = transport_take,
	.more = transport_more,
	.read = transport_read,
	.reopen = transport_reopen,
};

static const struct host_call *service_call(const struct peer_service *service)
{
	return container_of(service, struct host, service)->call;
}

static void service_message(struct peer_service *service, u32 host, const struct uln_head *head,
			    const u8 *data)
{
	const struct host_call *call = service_call(service);
	const struct uln_wire wire = uln_wire_pack(head);

	call->message(call->ports, host, &wire, data);
}

static void service_lost(struct peer_service *service, u32 host, u32 reason, bool restarted)
{
	const struct host_call *call = service_call(service);

	call->lost(call->ports, host);
}

static bool service_depends(const struct peer_service *service, u32 host)
{
	const struct host_call *call = service_call(service);

	return call->depends(call->ports, host);
}

static const struct peer_service_ops service_ops = {
	.kinds = BIT(ULN_WIRE_CARD),
	.message = service_message,
	.lost = service_lost,
	.depends = service_depends,
};

/* Records the peers for which our incarnation changed during the call. */
static void host_note(struct host *host)
{
	unsigned int i;

	if (host->incarnations == host->system->incarnations)
		return;
	host->incarnations = host->system->incarnations;
	for (i = 0; i < ARRAY_SIZE(host->mine); i++) {
		if (host->mine[i] == host->system->peers[i].mine)
			continue;
		host->mine[i] = host->system->peers[i].mine;
		host->renewed[i] = host->call->now;
	}
}

struct verb host_verb_begin(struct host *host, const struct host_call *call, bool locks)
{
	struct verb verb = { host, host_enter(host, call), locks };

	if (locks)
		mutex_lock(&host->lock);
	return verb;
}

void host_verb_end(struct verb *verb)
{
	if (verb->locks)
		mutex_unlock(&verb->host->lock);
	host_note(verb->host);
	host_leave(verb->host, verb->before);
}

static struct uln_system *host_create_system(struct host *host, int number)
{
	struct uln_system *system = uln_system_create(NULL, &host->lock, number);

	if (!system)
		return NULL;
	if (uln_connections_register(system) || uln_express_register(system)) {
		uln_system_free(system);
		return NULL;
	}
	uln_service_register(system, &host->service);
	return system;
}

struct host *host_create(const struct host_call *call, int number, u32 peer_timeout)
{
	struct host *host = calloc(1, sizeof(*host)), *before;

	if (!host)
		return NULL;
	host->transport.ops = &transport_ops;
	host->service.ops = &service_ops;
	host->peer_timeout = peer_timeout;
	INIT_LIST_HEAD(&host->work);
	INIT_LIST_HEAD(&host->memory);
	INIT_LIST_HEAD(&host->ends);
	host_express_user(host, 1, UINT_MAX);
	host_express_user(host, 0, UINT_MAX);
	before = host_enter(host, call);
	host->system = host_create_system(host, number);
	host->pieces = 0;
	host_leave(host, before);
	if (host->system)
		return host;
	free(host);
	return NULL;
}

/* Frees the system with everything that its callers still hold of it. */
void host_destroy(struct host *host)
{
	struct host *before = host_enter(host, NULL);
	struct list_head *piece;

	uln_system_cancel(host->system);
	uln_system_free(host->system);
	host_leave(host, before);
	while (!list_empty(&host->memory)) {
		piece = host->memory.next;
		list_del(piece);
		/* The allocation begins with its list element. */
		free(piece);
	}
	free(host);
}

void host_open(struct host *host, const struct host_call *call)
{
	VERB(host, call, true);
	uln_system_open(host->system, &host->transport);
}

void host_stop(struct host *host, const struct host_call *call)
{
	VERB(host, call, true);
	uln_system_stop(host->system);
}

void host_lost(struct host *host, const struct host_call *call, u32 reason)
{
	VERB(host, call, true);
	uln_system_lost(host->system, reason);
}

void host_arrived(struct host *host, const struct host_call *call)
{
	VERB(host, call, false);
	uln_system_arrived(host->system);
}

void host_lapsed(struct host *host, const struct host_call *call)
{
	VERB(host, call, false);
	uln_system_lapsed(host->system);
}

/* Returns the work that is due first, or NULL if there is none. */
static struct work_struct *host_next_work(const struct host *host)
{
	struct work_struct *work, *first = NULL;

	list_for_each_entry(work, &host->work, on_system)
		if (!first || time_after(first->due, work->due))
			first = work;
	return first;
}

/* Runs one piece of work if one is due. Returns whether it did. */
bool host_work(struct host *host, const struct host_call *call)
{
	struct work_struct *work = host_next_work(host);

	VERB(host, call, false);
	if (!work || time_after(work->due, host_jiffies()))
		return false;
	list_del_init(&work->on_system);
	work->function(work);
	return true;
}

/* Returns in @due when the next work is due, in milliseconds. Returns false if there is none. */
bool host_due(const struct host *host, u64 *due)
{
	const struct work_struct *work = host_next_work(host);

	if (work)
		*due = work->due - INITIAL_JIFFIES;
	return work;
}

int host_say(struct host *host, const struct host_call *call, u32 to, const struct uln_wire *wire,
	     const u8 *data)
{
	const struct uln_head head = uln_wire_unpack(wire);

	VERB(host, call, true);
	return uln_system_say(host->system, to, &head, data);
}

void host_set_hosts(struct host *host, const struct host_call *call, u32 hosts)
{
	VERB(host, call, true);
	uln_system_set_hosts(host->system, hosts);
}

void host_watch(struct host *host, const struct host_call *call, u32 peer)
{
	VERB(host, call, true);
	uln_system_watch(host->system, peer);
}

int host_listen(struct host *host, const struct host_call *call, const struct uln_listen *listen,
		u32 file, struct uln_listener **opened)
{
	struct uln_listener *listener;
	int ret;

	VERB(host, call, true);
	listener = kzalloc(sizeof(*listener), GFP_KERNEL);
	if (!listener)
		return -ENOMEM;
	uln_listener_init(listener, host->system, &host->shares[0], false);
	listener->wait.file = file;
	ret = uln_listener_open(listener, listen);
	if (ret)
		kfree(listener);
	else
		*opened = listener;
	return ret;
}

int host_claim(struct host *host, const struct host_call *call, struct uln_listener *listener,
	       u32 file, struct uln_connection **claimed)
{
	int ret;

	VERB(host, call, true);
	ret = uln_listener_next(listener, claimed);
	if (!ret)
		(*claimed)->wait.file = file;
	return ret;
}

void host_unlisten(struct host *host, const struct host_call *call,
		   struct uln_listener *listener)
{
	VERB(host, call, true);
	uln_listener_close(listener);
	kfree(listener);
}

/* Returns the number of waiting requests, or a negative value if the listener is dead. */
int host_waiting(const struct uln_listener *listener)
{
	return listener->dead ? -ENODEV : (int)listener->waiting;
}

int host_request(struct host *host, const struct host_call *call,
		 const struct uln_connect *connect, bool question, u32 file,
		 struct uln_connection **made)
{
	struct uln_connection *connection;
	int ret;

	VERB(host, call, true);
	connection = kzalloc(sizeof(*connection), GFP_KERNEL);
	if (!connection)
		return -ENOMEM;
	connection->question = question;
	ret = uln_connection_request(host->system, &host->shares[0], false, connect, connection);
	if (ret) {
		kfree(connection);
		return ret;
	}
	connection->wait.file = file;
	*made = connection;
	return 0;
}

int host_answer(struct host *host, const struct host_call *call,
		struct uln_connection *connection, u32 kind, const struct uln_private *private)
{
	VERB(host, call, true);
	return uln_connection_answer(connection, kind, private);
}

int host_close(struct host *host, const struct host_call *call,
	       struct uln_connection *connection, u32 reason, const struct uln_private *private)
{
	VERB(host, call, true);
	return uln_connection_close(connection, reason, private);
}

/*
 * Ends a connection whose process is about to exit, and its card with it. The peer gets
 * ULN_END_DIED, and the holder ULN_END_CARD_RESET.
 */
void host_abandon(struct host *host, const struct host_call *call,
		  struct uln_connection *connection)
{
	VERB(host, call, true);
	if (!uln_connection_close(connection, ULN_END_DIED, NULL))
		connection->reason = ULN_END_CARD_RESET;
}

void host_release(struct host *host, const struct host_call *call,
		  struct uln_connection *connection)
{
	VERB(host, call, true);
	uln_connection_release(connection);
}

void host_describe(const struct uln_connection *connection,
		   struct uln_connection_state *state)
{
	uln_connection_describe(connection, state);
}

/* Does not count pages that wait until a host is asked to settle: they may wait forever. */
static void express_sizes(const struct host *host, struct host_sizes *sizes)
{
	const struct uln_express *express = uln_express_of(host->system);
	const struct express_part *part;
	unsigned int i, user;

	for (i = 0; express && i < ULN_WELL_KNOWN_SLOTS; i++) {
		part = &express->hosts[i].part;
		sizes->used += part->used;
		sizes->leaving += part->leaving;
		sizes->viewed += part->viewed;
		for (user = 0; user < HOST_USERS; user++)
			sizes->counted += uln_share_express_held(&host->shares[user], i);
	}
}

void host_sizes(const struct host *host, struct host_sizes *sizes)
{
	const struct uln_connections *connections = uln_connections_of(host->system);
	const struct uln_listener *listener;
	unsigned int i;

	memset(sizes, 0, sizeof(*sizes));
	sizes->connections = connections->numbers.count;
	for (i = 0; i < ARRAY_SIZE(connections->listeners); i++)
		hlist_for_each_entry(listener, &connections->listeners[i], by_name)
			sizes->listeners++;
	for (i = 0; i < ARRAY_SIZE(host->system->peers); i++)
		sizes->messages += host->system->peers[i].queued;
	sizes->pieces = host->pieces;
	for (i = 0; i < HOST_USERS; i++) {
		sizes->held += host->shares[i].held[ULN_CONNECTIONS];
		sizes->users += host->shares[i].users;
	}
	express_sizes(host, sizes);
}

/* Returns when this side last forgot its state for a host, in milliseconds. */
u64 host_renewed(const struct host *host, u32 peer)
{
	return peer < ARRAY_SIZE(host->renewed) ? host->renewed[peer] : 0;
}

const char *host_complaint(const struct host *host)
{
	return host->complaint;
}
