/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The event-driven server of section 5.3 of the CLAN paper in C: one loop for any number of
 * clients.
 *
 *   c-clan-server serve [CLIENTS]      echoes requests until CLIENTS clients have left
 *   c-clan-server ask [COUNT]          sends COUNT requests
 *
 * The Rust example "clan server" uses the same protocol, so each side works with either.
 *
 * Build it: cc c-clan-server.c $(pkg-config --cflags --libs hamlyn)
 */
#include "clan_meet.h"

#include <sys/select.h>

/* Size of either end's memory, and of its control words, in bytes. */
#define LENGTH 4096
#define CONTROL 64
/* Maximum number of clients, in total and of one host, and the listener's token. */
#define CLIENTS 64
#define CLIENTS_OF_HOST 48
#define LISTENER UINT64_MAX
/* How long the loop polls before it sleeps. */
#define POLLING_US 15

struct client {
	struct clan_end *end;
	struct clan_server *server;
	struct clan_endpoint *endpoint;
	uint32_t host;
};

static struct client clients[CLIENTS + 1];
static struct clan_events *events;
static struct clan_cache *cache;
static unsigned long long served, left, sleeps;

/* Closes a connection. The endpoint and its memory can be reused by the next client. */
static void disconnect(struct client *client)
{
	struct clan_aperture *aperture;

	must(clan_events_unregister(events, client->endpoint));
	/* The close fails if the client has died. Its memory is released nevertheless. */
	if (clan_end_close(client->end, &aperture) < 0)
		clan_endpoint_destroy(client->endpoint);
	else
		must(clan_cache_give(cache, client->host, client->endpoint, aperture));
	client->end = NULL;
}

static void leave(struct client *client)
{
	clan_server_destroy(client->server);
	disconnect(client);
	left++;
}

/* Answers all pending calls. Returns 0 if the client violates the protocol. */
static int answer(struct client *client)
{
	unsigned char bytes[LENGTH];
	int length;

	while ((length = clan_server_try_wait(client->server, bytes, sizeof(bytes))) >= 0) {
		/* A client may die before its answer. */
		if (clan_server_reply(client->server, bytes, length) < 0)
			return 0;
		served++;
	}
	return length == -EAGAIN;
}

/* Returns a free slot for another client of a host, or CLIENTS if there is none. */
static uint64_t find_place(uint32_t host)
{
	uint64_t token = CLIENTS;
	int of_host = 0;

	for (uint64_t i = 0; i < CLIENTS; i++) {
		if (!clients[i].end)
			token = i;
		else if (clients[i].host == host)
			of_host++;
	}
	return of_host < CLIENTS_OF_HOST ? token : CLIENTS;
}

/* Accepts or refuses a request. No request, however invalid, ends the server. */
static void admit(struct clan_request *request)
{
	struct clan_aperture *aperture;
	struct client *client;
	struct clan_peer peer;
	uint64_t token;

	must(clan_request_peer(request, &peer));
	token = find_place(peer.address.host);
	client = &clients[token];
	if (token == CLIENTS ||
	    clan_cache_take(cache, peer.address.host, &client->endpoint, &aperture)) {
		clan_refuse(request, "too many", 8);
		return;
	}
	client->host = peer.address.host;
	must(clan_events_register(events, client->endpoint, CLAN_INTEREST_MESSAGES | CLAN_INTEREST_FAULTS, token));
	/* The contents that the last user left must not count as a request. */
	memset(clan_aperture_data(aperture), 0, CONTROL);
	/* A client that has died, or passed invalid data, does not end the server. */
	if (clan_end_accept(request, client->endpoint, aperture, -1, &client->end) < 0) {
		must(clan_events_unregister(events, client->endpoint));
		clan_endpoint_destroy(client->endpoint);
		client->end = NULL;
		return;
	}
	if (clan_server_create(client->end, &client->server) < 0) {
		disconnect(client);
		return;
	}
	must(clan_server_register(client->server, events, token));
	/* A request may have arrived before the Tripwire was set. */
	if (!answer(client))
		leave(client);
}

static void happened(struct clan_endpoint *listener, const struct clan_event *event)
{
	struct clan_request *request;
	struct clan_peer_end end;
	struct clan_fault fault;
	struct client *client;

	if (event->token == LISTENER) {
		while (clan_receive_request(listener, &request, 0) == 0)
			admit(request);
		return;
	}
	client = &clients[event->token];
	if (!client->end)
		return;
	/* The client's last calls came before its end: answer them first. */
	if (!answer(client) || clan_end_wait(client->end, &end, 0) == 0 ||
	    clan_endpoint_fault(client->endpoint, &fault, 0) == 0) {
		answer(client);
		leave(client);
	}
}

/* As in the paper: a server can wait for other files too. */
static void sleep_in_select(int file)
{
	struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	fd_set files;

	FD_ZERO(&files);
	FD_SET(file, &files);
	if (select(file + 1, &files, NULL, NULL, &patience) == 0)
		fail("nothing happens");
}

static void serve(struct clan_card *card, unsigned long long count)
{
	struct clan_endpoint_options options = { .tripwires = 1, .requests = 16 };
	struct clan_endpoint *listener = open_port(card);
	struct clan_cache_info info;
	struct clan_event event;

	must(clan_events_create(card, 4096, &events));
	must(clan_cache_create(card, &options, LENGTH, CLAN_RIGHT_WRITE, CLIENTS, &cache));
	must(clan_events_register(events, listener, CLAN_INTEREST_MESSAGES, LISTENER));
	while (left < count) {
		while (clan_events_poll(events, POLLING_US, &event) == 0)
			happened(listener, &event);
		sleeps++;
		if (left < count)
			sleep_in_select(must(clan_events_fd(events)));
	}
	must(clan_cache_get_info(cache, &info));
	printf("{\"served\":%llu,\"clients\":%llu,\"sleeps\":%llu,\"endpoints_used_again\":%llu,\"endpoints_opened\":%llu}\n",
	       served, left, sleeps, (unsigned long long)info.hits, (unsigned long long)info.misses);
	clan_cache_destroy(cache);
	clan_events_destroy(events);
	clan_endpoint_destroy(listener);
}

static void ask(struct clan_card *card, uint32_t count)
{
	struct meeting meeting = meet(card, LENGTH);
	struct clan_client *client;
	uint32_t reply;

	must(clan_client_create(meeting.end, &client));
	for (uint32_t round = 0; round < count; round++) {
		if (must(clan_client_call(client, &round, sizeof(round), &reply, sizeof(reply))) != sizeof(reply) ||
		    reply != round)
			fail("the answer is another's");
	}
	printf("{\"requests\":%u}\n", count);
	clan_client_destroy(client);
	part(&meeting);
}

int main(int argc, char **argv)
{
	int serves = argc > 1 && !strcmp(argv[1], "serve");
	struct clan_card *card;
	unsigned long count;

	if (argc < 2 || argc > 3 || (!serves && strcmp(argv[1], "ask"))) {
		fprintf(stderr, "usage: %s serve [CLIENTS] | ask [COUNT]\n", argv[0]);
		return 2;
	}
	count = argc > 2 ? strtoul(argv[2], NULL, 10) : serves ? 1 : 1000;
	must(clan_open(NULL, &card));
	if (serves)
		serve(card, count);
	else
		ask(card, count);
	clan_close(card);
	return 0;
}
