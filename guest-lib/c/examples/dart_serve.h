/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host whose registers and memory the compound operations use. It reads one command per line:
 *
 *   admit              accepts the next client, on all connections
 *   counter REGISTER   prints the register's value
 *   word OFFSET        prints 8 bytes of memory
 *   log ENTRIES        creates a log of ENTRIES entries
 *   logged             prints the log's entries, sorted
 *   items COUNT        takes COUNT items
 *   backlog            creates a priority queue
 *   urgent             prints whether an event arrives within a moment, and all
 *                      received entries, the most urgent first
 *   barrier ROUNDS     releases ROUNDS rounds of a barrier
 *   calls COUNT        answers COUNT calls: each result is the arguments backwards
 */
#ifndef DART_SERVE_H
#define DART_SERVE_H

#include "dart_roles.h"

#define CLIENTS 8
/* Maximum number of entries that are listed, of a log and of urgent ones. */
#define LISTED 4096

struct serving {
	struct dart_card *card;
	struct part parts[PARTS];
	struct uln_name_listener *listeners[PARTS];
	struct dart_connection *connections[PARTS][CLIENTS];
	struct uln_connection *known[PARTS][CLIENTS];
	size_t clients;
	struct dart_backlog *backlog;
	struct dart_barrier *barrier;
	struct dart_server *server;
};

static void serve_admit(void *state, const unsigned long long *numbers, int count)
{
	struct serving *serving = state;

	(void)numbers, (void)count;
	if (serving->clients == CLIENTS)
		fail("there are too many clients");
	for (int part = 0; part < PARTS; part++) {
		/* The window is the whole bank: the shared registers, then each client's own. */
		struct dart_connection_options options = options_of(&serving->parts[part]);
		struct uln_request *request;

		must(uln_name_listener_request(serving->listeners[part], &request, PATIENCE_MS));
		must(dart_admit(serving->card, &options, request, &serving->connections[part][serving->clients],
				&serving->known[part][serving->clients]));
	}
	printf("{\"admitted\":%zu}\n", ++serving->clients);
}

/* Returns any of the connections: all have the shared registers. */
static struct dart_connection *any(struct serving *serving, int part)
{
	if (!serving->clients)
		fail("there is no client");
	return serving->connections[part][0];
}

static void serve_counter(void *state, const unsigned long long *numbers, int count)
{
	uint64_t value;

	(void)count;
	must(dart_register(any(state, MEMORY), numbers[0], &value));
	printf("{\"value\":%llu}\n", (unsigned long long)value);
}

static void serve_word(void *state, const unsigned long long *numbers, int count)
{
	const struct serving *serving = state;
	const char *memory = dart_endpoint_data(serving->parts[MEMORY].endpoint);
	uint64_t value;

	(void)count;
	if (numbers[0] > LENGTH - sizeof(value))
		fail("no such word");
	memcpy(&value, memory + numbers[0], sizeof(value));
	printf("{\"value\":%llu}\n", (unsigned long long)value);
}

static void serve_log(void *state, const unsigned long long *numbers, int count)
{
	(void)count;
	must(dart_log_set(any(state, MEMORY), &the_log, LOG_START, ENTRY, numbers[0]));
	puts("{\"set\":true}");
}

static int in_order(const void *one, const void *other)
{
	const uint64_t *first = one, *second = other;

	return (*first > *second) - (*first < *second);
}

static void list(const char *name, const uint64_t *values, size_t count)
{
	printf("\"%s\":[", name);
	for (size_t at = 0; at < count; at++)
		printf("%s%llu", at ? "," : "", (unsigned long long)values[at]);
	puts("]}");
}

static void serve_logged(void *state, const unsigned long long *numbers, int count)
{
	struct serving *serving = state;
	const char *memory = dart_endpoint_data(serving->parts[MEMORY].endpoint);
	static uint64_t entries[LISTED];
	uint64_t written;

	(void)numbers, (void)count;
	must(dart_log_written(any(serving, MEMORY), &the_log, LOG_START, &written));
	if (written / ENTRY > LISTED)
		fail("there are too many entries");
	for (size_t at = 0; at < written / ENTRY; at++)
		memcpy(&entries[at], memory + LOG_START + at * ENTRY, sizeof(*entries));
	qsort(entries, written / ENTRY, sizeof(*entries), in_order);
	putchar('{');
	list("entries", entries, written / ENTRY);
}

/* Returns the client that a record belongs to. */
static size_t client_of(const struct serving *serving, int part, const struct dart_record *record)
{
	for (size_t client = 0; client < serving->clients; client++) {
		if (must(dart_connection_number(serving->connections[part][client])) == (int)record->connection)
			return client;
	}
	fail("a record of an unknown connection");
	return 0;
}

static void serve_items(void *state, const unsigned long long *numbers, int count)
{
	struct serving *serving = state;
	uint64_t next[CLIENTS] = { 0 };
	struct dart_record record;

	(void)count;
	for (uint64_t item = 0; item < numbers[0]; item++) {
		size_t client;

		must(dart_queue_next(serving->parts[ITEMS].events, &record, PATIENCE_MS));
		client = client_of(serving, ITEMS, &record);
		if (record.operand != next[client] || record.words[0] != next[client] * 3)
			fail("an item is not in its place");
		next[client]++;
	}
	printf("{\"came\":%llu,", numbers[0]);
	list("each", next, serving->clients);
}

static void serve_backlog(void *state, const unsigned long long *numbers, int count)
{
	struct serving *serving = state;

	(void)numbers, (void)count;
	must(dart_backlog_create(any(serving, URGENT), &priorities, URGENT_START, &serving->backlog));
	puts("{\"begun\":true}");
}

static void serve_urgent(void *state, const unsigned long long *numbers, int count)
{
	struct serving *serving = state;
	struct dart_queue *events = serving->parts[URGENT].events;
	struct dart_urgent entries[2];
	uint64_t taken[LISTED];
	struct dart_record record;
	size_t all = 0;
	int event, some;

	(void)numbers, (void)count;
	event = dart_queue_next(events, &record, MOMENT_MS) == 0;
	while (dart_queue_next(events, &record, 0) == 0)
		;
	/* Takes as many at a time as there is room for: the most urgent of all that are left. */
	while ((some = must(dart_backlog_take(serving->backlog, serving->parts[URGENT].endpoint, entries, 2))) != 0) {
		for (int at = 0; at < some && all < LISTED; at++)
			taken[all++] = entries[at].priority;
	}
	printf("{\"event\":%s,", event ? "true" : "false");
	list("taken", taken, all);
}

static void serve_barrier(void *state, const unsigned long long *numbers, int count)
{
	struct serving *serving = state;
	struct part *part = &serving->parts[BARRIER];
	uint64_t round = 0;

	(void)count;
	if (!serving->barrier) {
		must(dart_barrier_create((const struct dart_connection *const *)serving->connections[BARRIER],
					 serving->clients, part->events, BARRIER_REGISTER, &serving->barrier));
		part->events = NULL;
	}
	/* The members may arrive now. */
	puts("{\"open\":true}");
	fflush(stdout);
	for (uint64_t done = 0; done < numbers[0]; done++)
		must(dart_barrier_release(serving->barrier, &round, PATIENCE_MS));
	printf("{\"round\":%llu}\n", (unsigned long long)round);
}

static void serve_calls(void *state, const unsigned long long *numbers, int count)
{
	struct serving *serving = state;
	struct part *part = &serving->parts[CALLS];

	(void)count;
	if (!serving->server) {
		must(dart_server_create(part->endpoint, (const struct dart_connection *const *)serving->connections[CALLS],
					serving->clients, part->events, SIZE, &serving->server));
		part->events = NULL;
	}
	for (uint64_t done = 0; done < numbers[0]; done++) {
		unsigned char arguments[SIZE], result[SIZE];
		struct dart_call *taken;
		int length = must(dart_server_next(serving->server, arguments, SIZE, &taken, PATIENCE_MS));

		for (int at = 0; at < length; at++)
			result[at] = arguments[length - 1 - at];
		must(dart_server_answer(serving->server, taken, result, length));
	}
	printf("{\"answered\":%llu}\n", numbers[0]);
}

static const struct command serve_commands[] = {
	{ "admit", 0, serve_admit },	 { "counter", 1, serve_counter }, { "word", 1, serve_word },
	{ "log", 1, serve_log },	 { "logged", 0, serve_logged },	  { "items", 1, serve_items },
	{ "backlog", 0, serve_backlog }, { "urgent", 0, serve_urgent },	  { "barrier", 1, serve_barrier },
	{ "calls", 1, serve_calls },	 { NULL, 0, NULL },
};

static void serve(struct dart_card *card)
{
	static struct serving serving;

	serving.card = card;
	for (int part = 0; part < PARTS; part++) {
		serving.parts[part] = open_part(card, 32, 16);
		must(dart_name_listen(card, names[part], CLIENTS, &serving.listeners[part]));
	}
	puts("{\"serving\":true}");
	fflush(stdout);
	obey_all(serve_commands, &serving);
	dart_backlog_destroy(serving.backlog);
	dart_barrier_destroy(serving.barrier);
	dart_server_destroy(serving.server);
	for (int part = 0; part < PARTS; part++) {
		for (size_t client = 0; client < serving.clients; client++) {
			dart_connection_destroy(serving.connections[part][client]);
			uln_connection_destroy(serving.known[part][client]);
		}
		uln_name_listener_destroy(serving.listeners[part]);
		close_part(&serving.parts[part]);
	}
}

#endif
