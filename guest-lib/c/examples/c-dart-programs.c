/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Compound operations of DART cards in C: several hosts use the registers and memory of one host.
 * The program of that host is not involved in most of them.
 *
 *   c-dart-programs serve            the host with the registers and memory: see dart_serve.h
 *   c-dart-programs call HOST OWN    another host, with a unique number OWN, starting at 0
 *
 * The caller reads one command per line:
 *
 *   increment COUNT    adds 1 to a register COUNT times; prints its value before the last
 *   add COUNT          the same by compare and swap, for functions without a card operation
 *   locked COUNT       the same on a word in memory, by reads and writes under a lock
 *   append COUNT       appends COUNT entries to a log
 *   full               prints why one more entry is refused
 *   gather             reads scattered blocks
 *   put COUNT          puts COUNT items into a queue
 *   urge PRIORITY...   puts entries into a priority queue
 *   meet ROUNDS        joins ROUNDS rounds of a barrier
 *   call COUNT         makes COUNT remote procedure calls
 *
 * The Rust program dart-driver accepts the same commands, so it can replace any of the hosts.
 *
 * Build it: cc c-dart-programs.c $(pkg-config --cflags --libs hamlyn)
 */
#include "dart_serve.h"

/*
 * Offsets that questions, entries and scattered blocks are sent from. Each host has its own blocks.
 */
#define SCRATCH 65536
#define ENTRIES 256
#define BLOCKS(own) (200000 + (own) * 300000)
#define GATHERED 100000
#define PIECES 100
#define PIECE 200

struct calling {
	uint64_t own;
	/* Last known value of the register that is changed by compare and swap. */
	uint64_t known;
	struct part parts[PARTS];
	struct dart_connection *connections[PARTS];
	struct uln_connection *watched[PARTS];
	struct dart_caller *caller;
	struct dart_member *member;
	struct dart_client *client;
};

static unsigned char *memory_of(const struct calling *calling, int part)
{
	return dart_endpoint_data(calling->parts[part].endpoint);
}

static void call_increment(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;
	uint64_t before = 0;

	(void)count;
	for (uint64_t done = 0; done < numbers[0]; done++)
		must(dart_fetch(calling->caller, COUNTER, DART_STEP_INCREMENT, 0, &before, NULL));
	printf("{\"before\":%llu}\n", (unsigned long long)before);
}

static void call_add(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;

	(void)count;
	for (uint64_t done = 0; done < numbers[0];) {
		uint64_t found;

		must(dart_compare_and_swap(calling->caller, WORD, OWN + calling->own, calling->known, calling->known + 1,
					   &found));
		done += found == calling->known;
		calling->known = found == calling->known ? found + 1 : found;
	}
	printf("{\"added\":%llu}\n", numbers[0]);
}

/* Waits for an answer: all messages sent before the question have then been executed. */
static void settle(struct calling *calling)
{
	must(dart_fetch(calling->caller, UNUSED, DART_STEP_OR, 0, NULL, NULL));
}

static void call_locked(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;
	/* Writes one word of 8 bytes; the rest of its block stays unchanged. */
	const struct dart_operation write = { .main = DART_WRITE, .mask = 0xfc };

	(void)count;
	for (uint64_t done = 0; done < numbers[0]; done++) {
		uint64_t value;

		if (done % 3 == 2) {
			while (!must(dart_try_lock(calling->caller, &lock, OWN + calling->own)))
				;
		} else {
			must(dart_lock(calling->caller, &lock));
		}
		must(dart_read(calling->caller, 0, &value, sizeof(value)));
		value++;
		memcpy(memory_of(calling, MEMORY), &value, sizeof(value));
		must(dart_send(calling->connections[MEMORY], &write, 0, sizeof(value), PATIENCE_MS));
		must(dart_unlock(calling->caller, &lock));
		must(dart_wait_until_left(calling->connections[MEMORY], PATIENCE_MS));
	}
	settle(calling);
	printf("{\"added\":%llu}\n", numbers[0]);
}

static void call_append(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;

	(void)count;
	for (uint64_t number = 0; number < numbers[0]; number++) {
		uint64_t value = calling->own * 1000 + number, from = ENTRIES + number % 16 * ENTRY;

		/* An entry's bytes must not be reused until it has left. */
		if (number % 16 == 0)
			must(dart_wait_until_left(calling->connections[MEMORY], PATIENCE_MS));
		memcpy(memory_of(calling, MEMORY) + from, &value, sizeof(value));
		must(dart_append(calling->connections[MEMORY], &the_log, ENTRY, from));
	}
	settle(calling);
	printf("{\"appended\":%llu}\n", numbers[0]);
}

static void call_full(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;
	struct dart_status status;

	(void)numbers, (void)count;
	must(dart_append(calling->connections[MEMORY], &the_log, ENTRY, ENTRIES));
	settle(calling);
	must(dart_connection_status(calling->connections[MEMORY], &status));
	printf("{\"refused\":%s}\n", status.trap == DART_TRAP_REFUSED ? "\"Refused\"" : "null");
}

static void call_gather(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;
	unsigned char *memory = memory_of(calling, MEMORY);
	uint64_t blocks = BLOCKS(calling->own), to = blocks + GATHERED;
	const struct dart_operation write = { .main = DART_WRITE_MULTIPLE, .operand = blocks };
	struct dart_piece pieces[PIECES];

	(void)numbers, (void)count;
	fill(calling->own, memory + blocks, PIECES * PIECE);
	must(dart_send(calling->connections[MEMORY], &write, blocks, PIECES * PIECE, PATIENCE_MS));
	for (size_t at = 0; at < PIECES; at++)
		pieces[at] = (struct dart_piece){ blocks + at * PIECE, to + (PIECES - 1 - at) * PIECE, PIECE, 0 };
	must(dart_gather(calling->caller, pieces, PIECES));
	for (size_t at = 0; at < PIECES; at++) {
		if (memcmp(memory + pieces[at].from, memory + pieces[at].to, PIECE))
			fail("a block is another's");
	}
	puts("{\"gathered\":true}");
}

static void call_put(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;
	struct dart_connection *connection = calling->connections[ITEMS];

	(void)count;
	for (uint64_t number = 0; number < numbers[0]; number++) {
		uint64_t item = number * 3, from = number % 32 * sizeof(item);

		if (number % 32 == 0)
			must(dart_wait_until_left(connection, PATIENCE_MS));
		memcpy(memory_of(calling, ITEMS) + from, &item, sizeof(item));
		must(dart_put(connection, number, from, sizeof(item), PATIENCE_MS));
	}
	printf("{\"put\":%llu}\n", numbers[0]);
}

static void call_urge(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;
	struct dart_connection *connection = calling->connections[URGENT];

	for (int at = 0; at < count; at++) {
		must(dart_put_urgent(connection, &priorities, calling->parts[URGENT].endpoint, 0, numbers[at]));
		must(dart_wait_until_left(connection, PATIENCE_MS));
	}
	/* The question uses another connection, but follows messages that have left the card. */
	settle(calling);
	printf("{\"put\":%d}\n", count);
}

static void call_meet(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;
	uint64_t round = 0;

	(void)count;
	for (uint64_t done = 0; done < numbers[0]; done++)
		must(dart_member_wait(calling->member, &round, PATIENCE_MS));
	printf("{\"round\":%llu}\n", (unsigned long long)round);
}

static void call_call(void *state, const unsigned long long *numbers, int count)
{
	struct calling *calling = state;

	(void)count;
	for (uint64_t number = 0; number < numbers[0]; number++) {
		unsigned char arguments[SIZE], result[SIZE];
		int length = number % SIZE;

		fill(number, arguments, length);
		if (must(dart_client_call(calling->client, arguments, length, result, SIZE, PATIENCE_MS)) != length)
			fail("a result has another length");
		for (int at = 0; at < length; at++) {
			if (result[at] != arguments[length - 1 - at])
				fail("a result is another's");
		}
	}
	printf("{\"called\":%llu}\n", numbers[0]);
}

static const struct command call_commands[] = {
	{ "increment", 1, call_increment }, { "add", 1, call_add },	  { "locked", 1, call_locked },
	{ "append", 1, call_append },	    { "full", 0, call_full },	  { "gather", 0, call_gather },
	{ "put", 1, call_put },		    { "urge", 1, call_urge },	  { "meet", 1, call_meet },
	{ "call", 1, call_call },	    { NULL, 0, NULL },
};

static void call(struct dart_card *card, uint32_t host, uint64_t own)
{
	static struct calling calling;
	struct part *parts = calling.parts;
	struct dart_connection **connections = calling.connections;

	calling.own = own;
	for (int part = 0; part < PARTS; part++) {
		struct dart_connection_options options;

		parts[part] = open_part(card, 1, 64);
		options = options_of(&parts[part]);
		must(dart_reach(card, &options, host, names[part], &connections[part], &calling.watched[part]));
	}
	must(dart_caller_create(connections[MEMORY], parts[MEMORY].events, SCRATCH, PATIENCE_MS, &calling.caller));
	must(dart_member_create(connections[BARRIER], parts[BARRIER].events, BARRIER_REGISTER, &calling.member));
	must(dart_client_create(connections[CALLS], parts[CALLS].endpoint, parts[CALLS].events, own * SIZE, SIZE,
				&calling.client));
	parts[MEMORY].events = parts[BARRIER].events = parts[CALLS].events = NULL;
	puts("{\"calling\":true}");
	fflush(stdout);
	obey_all(call_commands, &calling);
	dart_caller_destroy(calling.caller);
	dart_member_destroy(calling.member);
	dart_client_destroy(calling.client);
	for (int part = 0; part < PARTS; part++) {
		dart_connection_destroy(connections[part]);
		uln_connection_destroy(calling.watched[part]);
		close_part(&parts[part]);
	}
}

int main(int argc, char **argv)
{
	int calls = argc == 4 && !strcmp(argv[1], "call");
	struct dart_card *card;

	if (!calls && (argc != 2 || strcmp(argv[1], "serve"))) {
		fprintf(stderr, "usage: %s serve | call HOST OWN\n", argv[0]);
		return 2;
	}
	must(dart_open(NULL, &card));
	if (calls)
		call(card, strtoul(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	else
		serve(card);
	dart_close(card);
	return 0;
}
