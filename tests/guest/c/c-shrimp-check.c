/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Checks every call of shrimp.h within one machine, which maps its own memory. Prints each call
 * whose result is not the expected one.
 */
#define _DEFAULT_SOURCE
#include "check.h"

#include <shrimp.h>
#include <shrimp_primitives.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH 12000

static struct shrimp_card *card;

/* Waits for a word that is in flight, and reports it if it does not arrive. */
static void arrives(const volatile uint32_t *word, uint32_t due)
{
	for (int i = 0; i < 60000 && *word != due; i++)
		usleep(1000);
	check("what arrives", due, *word);
}

static struct shrimp_receive_buffer *receive_buffer(size_t length, struct shrimp_handle *handle)
{
	struct shrimp_receive_buffer *buffer = NULL;

	CHECK(0, shrimp_export(card, length, SHRIMP_ALL_HOSTS, &buffer));
	CHECK(0, shrimp_receive_buffer_handle(buffer, handle));
	return buffer;
}

static void check_card(void)
{
	struct shrimp_card_info info;
	uint64_t values[200];
	char name[HAMLYN_TEXT_SIZE];
	struct shrimp_card *other;

	CHECK(-2, shrimp_open("/dev/shrimp99", &other));
	CHECK(0, shrimp_get_info(card, &info));
	CHECK(1, info.host < info.ports && info.pages > 0 && info.fifo > 0 && info.columns > 0);
	CHECK(1, shrimp_statistics(card, values, 2) > 10);
	CHECK(0, shrimp_statistic_name(0, name, sizeof(name)));
	CHECK(0, strcmp(name, "stores_seen"));
	CHECK(-22, shrimp_statistic_name(0, name, 3));
	CHECK(-22, shrimp_statistic_name(100000, name, sizeof(name)));
}

static void check_refusals(struct shrimp_handle handle)
{
	struct shrimp_receive_buffer *buffer;
	struct shrimp_send_buffer *mapped;
	struct shrimp_handle_info info;
	struct shrimp_handle again;
	char text[HAMLYN_TEXT_SIZE];

	CHECK(-22, shrimp_export(card, 0, SHRIMP_ALL_HOSTS, &buffer));
	CHECK(-22, shrimp_export(card, (16 << 20) + 1, SHRIMP_ALL_HOSTS, &buffer));
	CHECK(-22, shrimp_export(card, 100, 0, &buffer));
	CHECK(0, shrimp_handle_print(&handle, text, sizeof(text)));
	CHECK(0, shrimp_handle_parse(text, &again));
	CHECK(0, memcmp(&handle, &again, sizeof(handle)));
	CHECK(0, shrimp_handle_get_info(&handle, &info));
	CHECK(LENGTH, info.length);
	CHECK(-22, shrimp_map(card, &handle, 0, 0, SHRIMP_MODE_SINGLE, &mapped));
	CHECK(-22, shrimp_map(card, &handle, 1, LENGTH, SHRIMP_MODE_SINGLE, &mapped));
	CHECK(-22, shrimp_map(card, &handle, 0, LENGTH, 0, &mapped));
	CHECK(-22, shrimp_map(card, &handle, 0, LENGTH, 4, &mapped));
	handle.bytes[12] ^= 1;
	CHECK(-22, shrimp_map(card, &handle, 0, LENGTH, SHRIMP_MODE_SINGLE, &mapped));
}

static void check_stores(struct shrimp_send_buffer *from, struct shrimp_receive_buffer *to)
{
	unsigned char *data = shrimp_receive_buffer_data(to);
	uint64_t value;
	uint32_t now;
	char text[6];

	CHECK(0, shrimp_store(from, 8, 0x1122334455667788, 8));
	CHECK(0, shrimp_store(from, 16, 0x99aabbcc, 4));
	CHECK(0, shrimp_store(from, 20, 0xddee, 2));
	CHECK(0, shrimp_store(from, 22, 0xff, 1));
	CHECK(0, shrimp_write(from, 100, "hello", 6));
	CHECK(0, shrimp_store(from, 0, 7, 4));
	CHECK(0, shrimp_wait(to, 0, 0, &now, PATIENCE_MS));
	CHECK(7, now);
	CHECK(0, memcmp(data + 8, "\x88\x77\x66\x55\x44\x33\x22\x11\xcc\xbb\xaa\x99\xee\xdd\xff", 15));
	CHECK(0, strcmp((char *)data + 100, "hello"));
	for (unsigned int width = 1; width <= 8; width *= 2) {
		CHECK(0, shrimp_load(from, 8, width, &value));
		CHECK(1, value == UINT64_C(0x1122334455667788) << (64 - 8 * width) >> (64 - 8 * width));
	}
	CHECK(0, shrimp_read(from, 100, text, sizeof(text)));
	CHECK(0, strcmp(text, "hello"));
	CHECK(-22, shrimp_store(from, 0, 7, 3));
	CHECK(-22, shrimp_load(from, 0, 16, &value));
	CHECK(-22, shrimp_store(from, 2, 7, 4));
	CHECK(-22, shrimp_store(from, LENGTH, 7, 1));
	CHECK(-22, shrimp_write(from, LENGTH - 1, "hi", 2));
	CHECK(-22, shrimp_write(from, 0, NULL, 2));
	CHECK(-22, shrimp_read(from, LENGTH, text, 1));
	CHECK(-11, shrimp_wait(to, 0, 7, &now, 0));
	CHECK(-110, shrimp_wait(to, 0, 7, &now, 10));
	CHECK(-22, shrimp_wait(to, 2, 7, &now, 0));
	CHECK(-22, shrimp_wait(to, LENGTH, 7, &now, 0));
	CHECK(-22, shrimp_wait_shared(from, 0, 7, &now, 0));
}

/*
 * Starts a transfer like shrimp_send: repeats a locked instruction until it shows that the engine
 * was free.
 */
static void send_by_hand(const struct shrimp_memory *memory, size_t offset, uint32_t words)
{
	uint32_t *command = (uint32_t *)((char *)memory->commands + offset);
	uint32_t found;

	do {
		found = 0;
	} while (!__atomic_compare_exchange_n(command, &found, words, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

static void check_deliberate(struct shrimp_send_buffer *from, struct shrimp_receive_buffer *to)
{
	volatile uint32_t *data = shrimp_receive_buffer_data(to);
	struct shrimp_memory memory;

	CHECK(-22, shrimp_send(from, 0, 4));
	CHECK(-22, shrimp_set_mode(from, 9));
	CHECK(0, shrimp_set_mode(from, SHRIMP_MODE_DELIBERATE));
	CHECK(0, shrimp_get_memory(from, &memory));
	CHECK(1, memory.loads == memory.stores && memory.length == LENGTH);
	((uint32_t *)memory.stores)[50] = 50;
	((uint32_t *)memory.stores)[2000] = 2000;
	CHECK(-22, shrimp_send(from, 2, 4));
	CHECK(-22, shrimp_send(from, LENGTH, 4));
	CHECK(0, shrimp_send(from, 0, LENGTH));
	CHECK(0, shrimp_wait_until_sent(from, PATIENCE_MS));
	arrives(data + 2000, 2000);
	arrives(data + 50, 50);
	((uint32_t *)memory.stores)[60] = 60;
	send_by_hand(&memory, 240, 1);
	arrives(data + 60, 60);
	while (!shrimp_is_free(from))
		usleep(1000);
	/* Switch back: stores are sent automatically again. */
	CHECK(0, shrimp_set_mode(from, SHRIMP_MODE_BLOCKED));
	CHECK(0, shrimp_get_memory(from, &memory));
	__atomic_store_n((uint32_t *)memory.stores + 70, 70, __ATOMIC_RELEASE);
	arrives(data + 70, 70);
	CHECK(70, __atomic_load_n((uint32_t *)memory.stores + 70, __ATOMIC_ACQUIRE));
	CHECK(70, ((const volatile uint32_t *)memory.loads)[70]);
}

static void check_shared(void)
{
	struct shrimp_receive_buffer *buffer[2], *small;
	struct shrimp_send_buffer *shared[2];
	struct shrimp_handle handle[2], other;
	uint32_t now;

	buffer[0] = receive_buffer(5000, &handle[0]);
	buffer[1] = receive_buffer(5000, &handle[1]);
	small = receive_buffer(4000, &other);
	/* The small buffer is destroyed even though the call fails. */
	CHECK(-22, shrimp_share(card, small, &handle[0], SHRIMP_MODE_SINGLE, &shared[0]));
	CHECK(0, shrimp_share(card, buffer[0], &handle[1], SHRIMP_MODE_SINGLE, &shared[0]));
	CHECK(0, shrimp_share(card, buffer[1], &handle[0], SHRIMP_MODE_SINGLE, &shared[1]));
	for (int i = 0; i < 2; i++) {
		CHECK(0, shrimp_store(shared[i], 400 + 4 * i, 5, 4));
		CHECK(0, shrimp_wait_shared(shared[1 - i], 400 + 4 * i, 0, &now, PATIENCE_MS));
		CHECK(5, now);
	}
	CHECK(SHRIMP_STATE_MAPPED, shrimp_state(shared[0]));
	shrimp_send_buffer_destroy(shared[0]);
	shrimp_send_buffer_destroy(shared[1]);
}

static void check_end(struct shrimp_send_buffer *from, struct shrimp_receive_buffer *to, const struct shrimp_handle *handle)
{
	struct shrimp_send_buffer *mapped;

	CHECK(SHRIMP_STATE_MAPPED, shrimp_state(from));
	shrimp_receive_buffer_destroy(to);
	for (int i = 0; i < 60000 && shrimp_state(from) == SHRIMP_STATE_MAPPED; i++)
		usleep(1000);
	CHECK(SHRIMP_STATE_TAKEN_BACK, shrimp_state(from));
	CHECK(0, shrimp_set_mode(from, SHRIMP_MODE_DELIBERATE));
	CHECK(-104, shrimp_wait_until_sent(from, PATIENCE_MS));
	CHECK(-13, shrimp_map(card, handle, 0, 100, SHRIMP_MODE_SINGLE, &mapped));
	shrimp_send_buffer_destroy(from);
}

static void check_names(void)
{
	struct uln_name_listener *listener;
	struct uln_request *request;
	struct uln_connecting *asking;
	struct uln_connection *here, *there;
	struct uln_found found;
	struct shrimp_card_info info;

	CHECK(0, shrimp_get_info(card, &info));
	CHECK(-111, shrimp_connect(card, info.host, "c-check", NULL, 0, &there));
	CHECK(-22, shrimp_listen(card, "", 1, &listener));
	CHECK(0, shrimp_listen(card, "c-check", 1, &listener));
	CHECK(1, shrimp_find(card, "c-check", &found, PATIENCE_MS));
	CHECK(1, found.hosts == UINT64_C(1) << info.host);
	CHECK(0, shrimp_connect_begin(card, info.host, "c-check", "hi", 2, &asking));
	CHECK(0, uln_name_listener_request(listener, &request, PATIENCE_MS));
	CHECK(0, uln_request_accept(request, NULL, 0, &here));
	CHECK(0, uln_connecting_finish(asking, &there, PATIENCE_MS));
	CHECK(0, uln_connection_close(here, NULL, 0));
	uln_connection_destroy(there);
	uln_name_listener_destroy(listener);
	CHECK(-111, shrimp_connect_any(card, UINT64_C(1) << info.host, "c-check", NULL, 0, &there, PATIENCE_MS));
}

/* Two ends of a channel within this machine. */
struct pair {
	struct shrimp_receive_buffer *own[2];
	struct shrimp_send_buffer *out[2];
	struct shrimp_end ends[2];
};

static void pair_open(struct pair *pair, int timeout_ms)
{
	struct shrimp_handle handles[2];

	for (int end = 0; end < 2; end++)
		pair->own[end] = receive_buffer(SHRIMP_NX_LENGTH, handles + end);
	for (int end = 0; end < 2; end++) {
		pair->out[end] = NULL;
		CHECK(0, shrimp_map(card, handles + !end, 0, SHRIMP_NX_LENGTH, SHRIMP_MODE_SINGLE, pair->out + end));
		CHECK(0, shrimp_end_init(pair->ends + end, pair->own[end], pair->out[end], timeout_ms));
	}
}

static void pair_close(struct pair *pair)
{
	for (int end = 0; end < 2; end++)
		shrimp_send_buffer_destroy(pair->out[end]);
	for (int end = 0; end < 2; end++)
		shrimp_receive_buffer_destroy(pair->own[end]);
}

/*
 * Checks the program's own arrays as buffers: two in a page have separate destinations, and the
 * bytes around them stay unchanged.
 */
static void check_own(void)
{
	static _Alignas(4096) unsigned char from[8192], to[8192];
	struct shrimp_receive_buffer *into[2] = { NULL, NULL }, *other;
	struct shrimp_send_buffer *out[2] = { NULL, NULL }, *mapped;
	struct shrimp_handle handles[2];
	struct shrimp_handle_info info;
	struct shrimp_card_info own;

	memset(to, 9, sizeof(to));
	CHECK(-22, shrimp_export_memory(card, NULL, 4096, SHRIMP_ALL_HOSTS, &other));
	CHECK(-22, shrimp_export_memory(card, to + 4, 100, SHRIMP_ALL_HOSTS, &other));
	CHECK(-22, shrimp_export_memory(card, to + 6, 8186, SHRIMP_ALL_HOSTS, &other));
	CHECK(0, shrimp_export_memory(card, to, 1000, SHRIMP_ALL_HOSTS, &into[0]));
	CHECK(0, shrimp_export_memory(card, to + 1000, 5000, SHRIMP_ALL_HOSTS, &into[1]));
	CHECK(-22, shrimp_export_memory(card, to, 500, SHRIMP_ALL_HOSTS, &other));
	CHECK(1, shrimp_receive_buffer_data(into[1]) == to + 1000);
	for (int part = 0; part < 2; part++)
		CHECK(0, shrimp_receive_buffer_handle(into[part], &handles[part]));
	CHECK(0, shrimp_handle_get_info(&handles[1], &info));
	CHECK(1000, info.place);
	CHECK(-22, shrimp_map_memory(card, from, 1000, &handles[1], 0, SHRIMP_MODE_SINGLE, &mapped));
	CHECK(-22, shrimp_map_memory(card, NULL, 1000, &handles[0], 0, SHRIMP_MODE_SINGLE, &mapped));
	CHECK(0, shrimp_map_memory(card, from, 1000, &handles[0], 0, SHRIMP_MODE_SINGLE, &out[0]));
	CHECK(0, shrimp_map_memory(card, from + 1000, 5000, &handles[1], 0, SHRIMP_MODE_DELIBERATE, &out[1]));
	if (wrong)
		return;
	CHECK(0, shrimp_store(out[1], 0, 2, 4));
	CHECK(0, shrimp_store(out[1], 4996, 3, 4));
	CHECK(0, shrimp_store(out[0], 996, 1, 4));
	arrives((const uint32_t *)(const void *)(to + 996), 1);
	CHECK(0x09090909, *(const uint32_t *)(const void *)(to + 1000));
	/*
	 * A plain store to the program's array, by code that does not know about the buffer
	 * (section 2).
	 */
	CHECK(0, shrimp_get_info(card, &own));
	if (own.snoops) {
		*(volatile uint32_t *)(void *)(from + 496) = 7;
		arrives((const uint32_t *)(const void *)(to + 496), 7);
	}
	CHECK(0, shrimp_send(out[1], 0, 5000));
	CHECK(0, shrimp_wait_until_sent(out[1], PATIENCE_MS));
	arrives((const uint32_t *)(const void *)(to + 5996), 3);
	CHECK(2, *(const uint32_t *)(const void *)(to + 1000));
	CHECK(2, *(const uint32_t *)(const void *)(from + 1000));
	CHECK(9, to[0] & to[995] & to[6000] & to[8191]);
	for (int part = 0; part < 2; part++) {
		shrimp_send_buffer_destroy(out[part]);
		shrimp_receive_buffer_destroy(into[part]);
	}
	/* The program may use the memory freely again. */
	CHECK(0, shrimp_export_memory(card, to, sizeof(to), SHRIMP_ALL_HOSTS, &into[0]));
	shrimp_receive_buffer_destroy(into[0]);
}

/*
 * Checks that with a zero timeout a primitive returns what is there, and reports if there is
 * nothing.
 */
static void check_time_outs(void)
{
	static struct shrimp_nx here, there;
	struct shrimp_single single = {0};
	struct shrimp_double halves = {0};
	struct shrimp_end ends[2];
	struct pair one, other;
	char text[8];

	pair_open(&one, 0);
	pair_open(&other, 0);
	if (wrong)
		return;
	/* Two nodes, of which one has sent something. */
	ends[0] = one.ends[0];
	ends[1] = other.ends[0];
	CHECK(0, shrimp_nx_init(&here, ends, 2));
	CHECK(0, shrimp_nx_init(&there, one.ends + 1, 1));
	CHECK(-ETIMEDOUT, shrimp_crecv(&here, 7, text, sizeof(text)));
	CHECK(0, shrimp_csend(&there, 7, "hello", 5, 0));
	arrives((const uint32_t *)(const void *)one.ends[0].own, 5);
	CHECK(5, shrimp_crecv(&here, 7, text, sizeof(text)));
	CHECK(0, memcmp(text, "hello", 5));
	/*
	 * A free buffer is found, whichever it is. Wait first until the first message's buffer has
	 * been returned.
	 */
	arrives(there.peers[0].busy, 0);
	for (int buffer = 0; buffer < SHRIMP_NX_BUFFERS; buffer++)
		there.peers[0].busy[buffer] = 1;
	CHECK(-ETIMEDOUT, shrimp_csend(&there, 7, "x", 1, 0));
	there.peers[0].busy[SHRIMP_NX_BUFFERS - 1] = 0;
	CHECK(0, shrimp_csend(&there, 7, "x", 1, 0));
	CHECK(0, shrimp_single_sender(&single, other.ends));
	CHECK(0, shrimp_single_wait_free(&single));
	*single.own = 1;
	CHECK(-ETIMEDOUT, shrimp_single_wait_free(&single));
	*single.own = SHRIMP_SINGLE_FREE;
	CHECK(-ETIMEDOUT, shrimp_single_wait(&single));
	CHECK(0, shrimp_double_init(&halves, other.ends + 1, 64));
	CHECK(-ETIMEDOUT, shrimp_double_wait(&halves));
	pair_close(&other);
	pair_close(&one);
}

static uint32_t alternating;

/*
 * Stores values to this end's flag that another host might store: 1, 2, 1, 2, but never that the
 * buffer is free.
 */
static void *alternate(void *flag)
{
	uint32_t length = 1;

	while (__atomic_load_n(&alternating, __ATOMIC_ACQUIRE)) {
		__atomic_store_n((uint32_t *)flag, length, __ATOMIC_RELEASE);
		length = 3 - length;
	}
	return NULL;
}

/* Checks that the timeout applies to the whole call, however often the flag changes meanwhile. */
static void check_alternating(void)
{
	struct shrimp_single single = {0};
	struct pair pair;
	pthread_t thread;

	pair_open(&pair, 50);
	if (wrong)
		return;
	CHECK(0, shrimp_single_sender(&single, pair.ends));
	alternating = 1;
	*single.own = 1;
	CHECK(0, pthread_create(&thread, NULL, alternate, single.own));
	if (wrong)
		return;
	CHECK(-ETIMEDOUT, shrimp_single_wait_free(&single));
	__atomic_store_n(&alternating, 0, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	pair_close(&pair);
}

/*
 * Checks that a transfer is complete once the engine has processed it, even if the engine works for
 * other processes.
 */
static void check_update(struct shrimp_receive_buffer *to, const struct shrimp_handle *handle)
{
	struct shrimp_send_buffer *from = NULL;
	struct shrimp_update update = {0};
	struct shrimp_end end;

	CHECK(0, shrimp_update_has_ended(0x80000000u | SHRIMP_UPDATE_BASE | 9));
	CHECK(0, shrimp_update_has_ended(0x80000000u | SHRIMP_UPDATE_WAITS | 1024));
	CHECK(1, shrimp_update_has_ended(0x80000000u | 1024));
	CHECK(0, shrimp_map(card, handle, 0, 8192, SHRIMP_MODE_DELIBERATE, &from));
	if (wrong)
		return;
	CHECK(-EINVAL, shrimp_end_init(&end, to, from, 0));
	CHECK(0, shrimp_update_init(&update, from));
	CHECK(0, shrimp_update_send(&update, 0, 2048));
	CHECK(0, shrimp_update_wait(&update, PATIENCE_MS));
	shrimp_send_buffer_destroy(from);
}

int main(void)
{
	struct shrimp_receive_buffer *to;
	struct shrimp_send_buffer *from = NULL;
	struct shrimp_handle handle;

	CHECK(0, shrimp_open(NULL, &card));
	if (wrong)
		return 1;
	check_card();
	to = receive_buffer(LENGTH, &handle);
	check_refusals(handle);
	CHECK(0, shrimp_map(card, &handle, 0, LENGTH, SHRIMP_MODE_SINGLE, &from));
	if (wrong)
		return 1;
	check_stores(from, to);
	check_deliberate(from, to);
	check_shared();
	check_time_outs();
	check_alternating();
	check_update(to, &handle);
	check_own();
	check_end(from, to, &handle);
	check_names();
	shrimp_close(card);
	printf("{\"checked\":%u,\"wrong\":%u}\n", checked, wrong);
	return wrong != 0;
}
