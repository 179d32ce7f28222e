/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The message-passing primitives of shrimp_primitives.h, each used as in a program, with messages
 * that are verified.
 *
 *   c-primitives send|receive PRIMITIVE [COUNT]    single, copy, double1, double2, double3, update
 *                                                  or nx
 *   c-count c-primitives count-send|count-receive PRIMITIVE [NODES]
 *
 * The Rust example "shrimp primitives" uses the same protocols, so either end works with either.
 *
 * Build it: cc c-primitives.c $(pkg-config --cflags --libs hamlyn)
 */
#include <shrimp_primitives.h>

#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_MS 60000
#define BLOCK (3 * 4096 + 400)
#define HALF 6000
#define BARRIER 1
#define TIMES 10
#define HANDLES 3

/*
 * Numbers of the marks: the primitive, the primitive with a store by the program, and a check
 * whether a transfer is done.
 */
#define ONE 1
#define STORE 2
#define CHECK 3
#define MARK(base, number) __asm__ volatile("int3; nopl %c0(%%rax)" : : "i"((base) + (number)) : "memory")
#define BEGIN(number) MARK(0x4d410000, number)
#define END(number) MARK(0x4d410100, number)

static const size_t lengths[HANDLES] = { SHRIMP_NX_LENGTH, SHRIMP_NX_LENGTH, BLOCK };
static const uint32_t modes[HANDLES] = { SHRIMP_MODE_SINGLE, SHRIMP_MODE_SINGLE, SHRIMP_MODE_DELIBERATE };
static const size_t typed[] = { 0, 1, 100, 2047, 2048, 2049, 5000, 10000 };
static const uint16_t types[] = { 0, 77, 65535 };

static struct shrimp_receive_buffer *own[HANDLES];
static struct shrimp_send_buffer *out[HANDLES];
static struct shrimp_end messages, barriers;
static struct shrimp_nx program, node;
static unsigned char bytes[SHRIMP_NX_LENGTH];
/*
 * Number of nodes that csend and crecv know when instructions are counted. The last is the other
 * end; the others send nothing.
 */
static unsigned int nodes = 1;
static struct shrimp_receive_buffer *silent_own[SHRIMP_NX_NODES];
static struct shrimp_send_buffer *silent_out[SHRIMP_NX_NODES];

/* Exits if a call has failed. */
static int64_t must(int64_t outcome)
{
	if (outcome < 0) {
		printf("{\"error\":\"%lld: %s\"}\n", (long long)outcome, uln_error());
		exit(1);
	}
	return outcome;
}

static void wrong(const char *what, unsigned int message, size_t number)
{
	printf("{\"error\":\"%s of message %u: %zu\"}\n", what, message, number);
	exit(1);
}

/* Returns a byte of the test pattern: SplitMix64, 8 bytes per word. */
static unsigned char pattern(unsigned int seed, size_t at)
{
	uint64_t word = seed + (at / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return (unsigned char)((word ^ word >> 31) >> at % 8 * 8);
}

static const unsigned char *made(unsigned int seed, size_t length)
{
	for (size_t at = 0; at < length; at++)
		bytes[at] = pattern(seed, at);
	return bytes;
}

static void verify(unsigned int message, const unsigned char *found, size_t length)
{
	for (size_t at = 0; at < length; at++) {
		if (found[at] != pattern(message, at))
			wrong("a byte", message, at);
	}
}

static __attribute__((noinline)) void barrier(void)
{
	must(shrimp_csend(&program, BARRIER, NULL, 0, 0));
	must(shrimp_crecv(&program, BARRIER, NULL, 0));
}

static void both(void)
{
	barrier();
	barrier();
}

/* Connects to the other side. Maps its memory, while it maps this side's. */
static struct uln_connection *meet(struct shrimp_card *card, int sends, const char *name)
{
	struct shrimp_handle handles[HANDLES];
	struct uln_connection *connection = NULL;
	struct uln_name_listener *listener;
	struct uln_request *request = NULL;
	struct uln_passed passed;

	for (int at = 0; at < HANDLES; at++) {
		must(shrimp_export(card, lengths[at], SHRIMP_ALL_HOSTS, &own[at]));
		must(shrimp_receive_buffer_handle(own[at], &handles[at]));
	}
	if (sends) {
		must(shrimp_connect_any(card, 0, name, handles, sizeof(handles), &connection, PATIENCE_MS));
		must(uln_connection_passed(connection, &passed));
	} else {
		must(shrimp_listen(card, name, 1, &listener));
		printf("{\"listening\":\"%s\"}\n", name);
		fflush(stdout);
		must(uln_name_listener_request(listener, &request, PATIENCE_MS));
		must(uln_request_passed(request, &passed));
		uln_name_listener_destroy(listener);
	}
	if (passed.length != sizeof(handles))
		wrong("bytes of handles", 0, passed.length);
	for (int at = 0; at < HANDLES; at++) {
		struct shrimp_handle other;

		memcpy(&other, passed.data + at * sizeof(other), sizeof(other));
		must(shrimp_map(card, &other, 0, lengths[at], modes[at], &out[at]));
	}
	must(shrimp_end_init(&messages, own[0], out[0], PATIENCE_MS));
	must(shrimp_end_init(&barriers, own[1], out[1], PATIENCE_MS));
	must(shrimp_nx_init(&program, &barriers, 1));
	must(shrimp_nx_init(&node, &messages, 1));
	if (!sends)
		must(uln_request_accept(request, handles, sizeof(handles), &connection));
	return connection;
}

static size_t single_length(unsigned int message)
{
	return 1 + message * 977 % 9000;
}

static void store(unsigned char *to, const unsigned char *from, size_t length)
{
	/* 8 bytes at a time, to an aligned address: the buffer has room for the last store. */
	for (size_t at = 0; at < length; at += 8) {
		uint64_t word;

		memcpy(&word, from + at, 8);
		*(volatile uint64_t *)(void *)(to + at) = word;
	}
}

static void send_single(unsigned int count)
{
	struct shrimp_single single;

	must(shrimp_single_sender(&single, &messages));
	for (unsigned int message = 0; message < count; message++) {
		const unsigned char *from = made(message, single_length(message));

		must(shrimp_single_wait_free(&single));
		store(single.data, from, single_length(message));
		shrimp_single_send(&single, (uint32_t)single_length(message));
	}
}

static void receive_single(unsigned int count, int copies)
{
	struct shrimp_single single;
	uint32_t length;

	must(shrimp_single_receiver(&single, &messages));
	for (unsigned int message = 0; message < count; message++) {
		if (copies) {
			length = (uint32_t)must(shrimp_single_receive(&single, bytes, sizeof(bytes)));
			verify(message, bytes, length);
		} else {
			length = (uint32_t)must(shrimp_single_wait(&single));
			verify(message, single.data, length);
			shrimp_single_release(&single);
		}
		if (length != single_length(message))
			wrong("length", message, length);
	}
}

static void send_double(unsigned int count, int kind)
{
	struct shrimp_double halves;

	must(shrimp_double_init(&halves, &messages, HALF));
	for (unsigned int message = 0; message < count; message++) {
		const unsigned char *from = made(message, HALF);

		if (kind == 3)
			must(shrimp_double_wait_free(&halves));
		store(shrimp_double_to(&halves), from, HALF);
		if (kind == 1)
			shrimp_double_swap(&halves);
		else if (kind == 2)
			shrimp_double_announce(&halves);
		else
			shrimp_double_send(&halves);
		if (kind < 3)
			barrier();
	}
}

static void receive_double(unsigned int count, int kind)
{
	struct shrimp_double halves;

	must(shrimp_double_init(&halves, &messages, HALF));
	for (unsigned int message = 0; message < count; message++) {
		if (kind == 1)
			barrier();
		else
			must(shrimp_double_wait(&halves));
		memcpy(bytes, shrimp_double_from(&halves), HALF);
		if (kind == 1)
			shrimp_double_swap(&halves);
		else if (kind == 2)
			shrimp_double_take(&halves);
		else
			shrimp_double_release(&halves);
		if (kind == 2)
			barrier();
		verify(message, bytes, HALF);
	}
}

/* Returns the number of words of a block, and stores its first word. */
static size_t block(unsigned int message, size_t *first)
{
	*first = message * 331 % (BLOCK / 4 / 2);
	return message % 2 ? BLOCK / 4 - *first : 100;
}

static void send_blocks(unsigned int count)
{
	struct shrimp_update update;
	size_t first, words;

	must(shrimp_update_init(&update, out[2]));
	for (unsigned int message = 0; message < count; message++) {
		words = block(message, &first);
		must(shrimp_write(out[2], 4 * first, made(message, 4 * words), 4 * words));
		must(shrimp_update_send(&update, first, (uint32_t)words));
		/* Later stores arrive after the block. */
		while (!shrimp_update_is_done(&update))
			must(shrimp_update_wait(&update, 60000));
		both();
	}
}

static void receive_blocks(unsigned int count)
{
	size_t first, words;

	for (unsigned int message = 0; message < count; message++) {
		words = block(message, &first);
		barrier();
		verify(message, (unsigned char *)shrimp_receive_buffer_data(own[2]) + 4 * first, 4 * words);
		barrier();
	}
}

static void send_typed(unsigned int count)
{
	for (unsigned int at = 0; at < 3 * count; at++)
		must(shrimp_csend(&node, types[at % 3], made(at / 3, typed[at % 8]), typed[at % 8], 0));
}

static void receive_typed(unsigned int count)
{
	for (unsigned int message = 0; message < count; message++) {
		/*
		 * Receive the last one of those sent first: the ones before it stay in their
		 * buffers.
		 */
		for (unsigned int place = 3; place-- > 0;) {
			size_t length = (size_t)must(shrimp_crecv(&node, types[place], bytes, 10000));

			if (length != typed[(3 * message + place) % 8])
				wrong("length", message, length);
			verify(message, bytes, length);
		}
	}
}

static void use(const char *primitive, int sends, unsigned int count)
{
	int kind = primitive[strlen(primitive) - 1] - '0';

	if (!strncmp(primitive, "double", 6))
		(sends ? send_double : receive_double)(count, kind);
	else if (!strcmp(primitive, "update"))
		(sends ? send_blocks : receive_blocks)(count);
	else if (!strcmp(primitive, "nx"))
		(sends ? send_typed : receive_typed)(count);
	else if (sends)
		send_single(count);
	else
		receive_single(count, !strcmp(primitive, "copy"));
	barrier();
	printf("{\"primitive\":\"%s\",\"%s\":%u}\n", primitive, sends ? "sent" : "verified", count);
}

/* Creates ends that lead back to this process, as nodes that send nothing. */
static void know_nodes(struct shrimp_card *card)
{
	struct shrimp_end ends[SHRIMP_NX_NODES];
	struct shrimp_handle handle;

	for (unsigned int at = 0; at + 1 < nodes; at++) {
		must(shrimp_export(card, SHRIMP_NX_LENGTH, SHRIMP_ALL_HOSTS, &silent_own[at]));
		must(shrimp_receive_buffer_handle(silent_own[at], &handle));
		must(shrimp_map(card, &handle, 0, SHRIMP_NX_LENGTH, SHRIMP_MODE_SINGLE, &silent_out[at]));
		must(shrimp_end_init(&ends[at], silent_own[at], silent_out[at], PATIENCE_MS));
	}
	ends[nodes - 1] = messages;
	must(shrimp_nx_init(&node, ends, nodes));
}

/*
 * Each is a separate function with the contents of a program's inner loop: one message per
 * iteration, and no length, type, node or array that the compiler knows. When the receiver's
 * counted code begins, all data has arrived.
 */
#define COUNTED(name, ...)                                      \
	static __attribute__((noinline)) void name(void)        \
	{                                                       \
		__VA_ARGS__                                     \
	}

COUNTED(count_send_single,
	struct shrimp_single single;
	volatile uint32_t length = 100;
	must(shrimp_single_sender(&single, &messages));
	for (int time = 0; time < TIMES; time++) {
		uint32_t of = length;
		BEGIN(ONE);
		if (shrimp_single_wait_free(&single))
			exit(1);
		shrimp_single_send(&single, of);
		END(ONE);
		both();
	})

COUNTED(count_receive_single,
	struct shrimp_single single;
	must(shrimp_single_receiver(&single, &messages));
	for (int time = 0; time < TIMES; time++) {
		barrier();
		BEGIN(ONE);
		if (shrimp_single_wait(&single) < 0)
			exit(1);
		shrimp_single_release(&single);
		END(ONE);
		barrier();
	})

/* The array that messages are copied to and from. */
static unsigned char *volatile array = bytes;
static volatile size_t array_length = sizeof(bytes);

COUNTED(count_receive_copy,
	struct shrimp_single single;
	must(shrimp_single_receiver(&single, &messages));
	for (int time = 0; time < TIMES; time++) {
		unsigned char *to = array;
		size_t room = array_length;
		barrier();
		BEGIN(ONE);
		if (shrimp_single_receive(&single, to, room) < 0)
			exit(1);
		END(ONE);
		barrier();
	})

/* Volatile, so that the compiler does not know it; like array_length. */
static volatile size_t half = HALF;

/* A swap only selects where the next message goes, so a store to that place is counted with it. */
#define SWAP_AND_STORE(to) do {                                                 \
	shrimp_double_swap(&halves);                                            \
	*(volatile uint64_t *)(void *)(to) = 1;                                 \
} while (0)

COUNTED(count_send_double1,
	struct shrimp_double halves;
	must(shrimp_double_init(&halves, &messages, half));
	for (int time = 0; time < TIMES; time++) {
		BEGIN(STORE);
		SWAP_AND_STORE(shrimp_double_to(&halves));
		END(STORE);
		both();
	})

COUNTED(count_receive_double1,
	struct shrimp_double halves;
	must(shrimp_double_init(&halves, &messages, half));
	for (int time = 0; time < TIMES; time++) {
		barrier();
		BEGIN(STORE);
		SWAP_AND_STORE(halves.own + halves.at + SHRIMP_DOUBLE_DATA);
		END(STORE);
		barrier();
	})

COUNTED(count_send_double2,
	struct shrimp_double halves;
	must(shrimp_double_init(&halves, &messages, half));
	for (int time = 0; time < TIMES; time++) {
		BEGIN(ONE);
		shrimp_double_announce(&halves);
		END(ONE);
		both();
	})

COUNTED(count_receive_double2,
	struct shrimp_double halves;
	must(shrimp_double_init(&halves, &messages, half));
	for (int time = 0; time < TIMES; time++) {
		barrier();
		BEGIN(ONE);
		if (shrimp_double_wait(&halves))
			exit(1);
		shrimp_double_take(&halves);
		END(ONE);
		barrier();
	})

COUNTED(count_send_double3,
	struct shrimp_double halves;
	must(shrimp_double_init(&halves, &messages, half));
	for (int time = 0; time < TIMES; time++) {
		BEGIN(ONE);
		if (shrimp_double_wait_free(&halves))
			exit(1);
		shrimp_double_send(&halves);
		END(ONE);
		both();
	})

COUNTED(count_receive_double3,
	struct shrimp_double halves;
	must(shrimp_double_init(&halves, &messages, half));
	for (int time = 0; time < TIMES; time++) {
		barrier();
		BEGIN(ONE);
		if (shrimp_double_wait(&halves))
			exit(1);
		shrimp_double_release(&halves);
		END(ONE);
		barrier();
	})

COUNTED(count_send_update,
	struct shrimp_update update;
	volatile uint32_t words = 100;
	must(shrimp_update_init(&update, out[2]));
	for (size_t first = 0; first < TIMES; first++) {
		uint32_t of = words;
		BEGIN(ONE);
		if (shrimp_update_send(&update, first, of))
			exit(1);
		END(ONE);
		must(shrimp_update_wait(&update, 60000));
		BEGIN(CHECK);
		if (!shrimp_update_is_done(&update))
			exit(1);
		END(CHECK);
		both();
	})

COUNTED(count_receive_update,
	for (int time = 0; time < TIMES; time++)
		both();)

COUNTED(count_send_nx,
	volatile uint16_t type = 12;
	volatile unsigned int to = nodes - 1;
	volatile size_t length = 100;
	struct shrimp_nx *volatile known = &node;
	for (int time = 0; time < TIMES; time++) {
		struct shrimp_nx *nx = known;
		unsigned char *from = array;
		size_t size = length;
		unsigned int at = to;
		uint16_t of = type;
		BEGIN(ONE);
		if (shrimp_csend(nx, of, from, size, at))
			exit(1);
		END(ONE);
		both();
	})

COUNTED(count_receive_nx,
	volatile uint16_t type = 12;
	struct shrimp_nx *volatile known = &node;
	for (int time = 0; time < TIMES; time++) {
		struct shrimp_nx *nx = known;
		unsigned char *to = array;
		size_t room = array_length;
		uint16_t of = type;
		barrier();
		BEGIN(ONE);
		if (shrimp_crecv(nx, of, to, room) < 0)
			exit(1);
		END(ONE);
		barrier();
	})

static const struct {
	const char *name;
	void (*send)(void), (*receive)(void);
} counted[] = {
	{ "single", count_send_single, count_receive_single },
	{ "copy", count_send_single, count_receive_copy },
	{ "double1", count_send_double1, count_receive_double1 },
	{ "double2", count_send_double2, count_receive_double2 },
	{ "double3", count_send_double3, count_receive_double3 },
	{ "update", count_send_update, count_receive_update },
	{ "nx", count_send_nx, count_receive_nx },
};

int main(int argc, char **argv)
{
	int counts = argc > 1 && !strncmp(argv[1], "count-", 6);
	const char *side = argc > 1 ? argv[1] + 6 * counts : "";
	unsigned int count = argc > 3 ? (unsigned int)strtoul(argv[3], NULL, 10) : 20, at = 0;
	int sends = !strcmp(side, "send");
	const char *primitive = argc > 2 ? argv[2] : "";
	struct uln_connection *connection;
	struct shrimp_card *card;
	struct uln_end end;

	while (at < sizeof(counted) / sizeof(counted[0]) && strcmp(counted[at].name, primitive))
		at++;
	if ((!sends && strcmp(side, "receive")) || at == sizeof(counted) / sizeof(counted[0])) {
		fprintf(stderr, "usage: %s [count-]send|[count-]receive PRIMITIVE [COUNT or NODES]\n", argv[0]);
		return 2;
	}
	if (counts && argc > 3)
		nodes = count;
	if (!nodes || nodes > SHRIMP_NX_NODES) {
		fprintf(stderr, "%u nodes are out of range (1 to %d)\n", nodes, SHRIMP_NX_NODES);
		return 2;
	}
	must(shrimp_open(NULL, &card));
	connection = meet(card, sends, counts ? "shrimp-count" : "shrimp-primitives");
	if (counts)
		know_nodes(card);
	if (counts)
		(sends ? counted[at].send : counted[at].receive)();
	else
		use(primitive, sends, count);
	if (sends)
		must(uln_connection_end(connection, &end, PATIENCE_MS));
	else
		must(uln_connection_close(connection, NULL, 0));
	for (unsigned int at = 0; at + 1 < nodes; at++) {
		shrimp_send_buffer_destroy(silent_out[at]);
		shrimp_receive_buffer_destroy(silent_own[at]);
	}
	for (int buffer = 0; buffer < HANDLES; buffer++) {
		shrimp_send_buffer_destroy(out[buffer]);
		shrimp_receive_buffer_destroy(own[buffer]);
	}
	shrimp_close(card);
	return 0;
}
