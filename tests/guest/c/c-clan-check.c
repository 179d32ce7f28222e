/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Checks calls of clan.h within one machine, which accesses its own memory. Prints each call whose
 * result is not the expected one.
 */
#include "check.h"

#include <clan_programs.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#define LENGTH 12000

static struct clan_card *card;
static struct clan_endpoint *endpoint;
static struct clan_aperture *aperture;
static struct clan_descriptor descriptor;
static struct clan_window *window;
static volatile unsigned char *data;

/*
 * Waits until earlier stores have arrived: a load after a store of the same endpoint ensures that.
 */
static void arrive(void)
{
	uint64_t value;

	CHECK(0, clan_load(window, 0, 8, &value));
}

static void check_card(void)
{
	struct clan_card_info info;
	uint64_t values[200];
	char name[HAMLYN_TEXT_SIZE];
	struct clan_card *other;

	CHECK(-2, clan_open("/dev/clan99", &other));
	CHECK(0, clan_get_info(card, &info));
	CHECK(1, info.host < info.ports && info.apertures > 0 && info.tripwires > 0 && info.burst > 0);
	CHECK(1, clan_statistics(card, values, 2) > 10);
	CHECK(0, clan_statistic_name(0, name, sizeof(name)));
	CHECK(-22, clan_statistic_name(0, name, 3));
	CHECK(-22, clan_statistic_name(100000, name, sizeof(name)));
}

static void check_apertures(void)
{
	static _Alignas(8) unsigned char own[100];
	struct clan_descriptor_info info;
	struct clan_descriptor again;
	struct clan_aperture *other;
	char text[HAMLYN_TEXT_SIZE];

	CHECK(-22, clan_aperture_create(card, NULL, 0, CLAN_RIGHT_READ, &other));
	CHECK(-22, clan_aperture_create(card, NULL, 100, 4, &other));
	CHECK(-22, clan_aperture_create(card, own + 1, 99, 0, &other));
	CHECK(0, clan_aperture_create(card, own, sizeof(own), CLAN_RIGHT_READ, &other));
	CHECK(1, clan_aperture_data(other) == own);
	clan_aperture_destroy(other);
	CHECK(-22, clan_aperture_join(card, 64, 1, 100, &other));
	CHECK(0, clan_aperture_join(card, 63, 1, 100, &other));
	CHECK(0, clan_aperture_descriptor(other, &again));
	CHECK(0, clan_descriptor_get_info(&again, &info));
	CHECK(1, info.host == ULN_NO_LINK && info.length == 100);
	clan_aperture_destroy(other);
	CHECK(0, clan_descriptor_print(&descriptor, text, sizeof(text)));
	CHECK(0, clan_descriptor_parse(text, &again));
	CHECK(0, memcmp(&descriptor, &again, sizeof(again)));
	CHECK(0, clan_descriptor_get_info(&descriptor, &info));
	CHECK(1, info.length == LENGTH && info.rights == (CLAN_RIGHT_READ | CLAN_RIGHT_WRITE));
}

static void check_endpoints(void)
{
	struct clan_endpoint_options options = { .port = 70000 };
	struct clan_address address, again;
	struct clan_endpoint *other;
	struct clan_fault fault;

	CHECK(-22, clan_endpoint_create(card, &options, &other));
	options = (struct clan_endpoint_options){ .requests = 17 };
	CHECK(-22, clan_endpoint_create(card, &options, &other));
	options = (struct clan_endpoint_options){ .flags = 2 };
	CHECK(-22, clan_endpoint_create(card, &options, &other));
	options = (struct clan_endpoint_options){ .reserved = { 1 } };
	CHECK(-22, clan_endpoint_create(card, &options, &other));
	CHECK(0, clan_endpoint_address(endpoint, &address));
	options = (struct clan_endpoint_options){ .port = address.port };
	CHECK(-16, clan_endpoint_create(card, &options, &other));
	options = (struct clan_endpoint_options){ .tripwires = CLAN_NO_TRIPWIRES, .polling_us = CLAN_NO_POLLING };
	CHECK(0, clan_endpoint_create(card, &options, &other));
	CHECK(0, clan_endpoint_address(other, &again));
	CHECK(1, again.host == address.host && again.port != address.port);
	CHECK(0, clan_endpoint_set_polling(other, 15));
	CHECK(-11, clan_endpoint_fault(other, &fault, 0));
	clan_endpoint_destroy(other);
}

static void check_messages(void)
{
	struct clan_message message;
	struct clan_address address;
	char much[CLAN_MESSAGE_SIZE + 1] = "much";

	CHECK(0, clan_endpoint_address(endpoint, &address));
	CHECK(-11, clan_receive_message(endpoint, &message, 0));
	CHECK(-110, clan_receive_message(endpoint, &message, 10));
	CHECK(-22, clan_send_message(endpoint, &address, much, sizeof(much)));
	CHECK(-22, clan_send_message(endpoint, &address, NULL, 1));
	CHECK(0, clan_send_message(endpoint, &address, much, CLAN_MESSAGE_SIZE));
	CHECK(0, clan_receive_message(endpoint, &message, PATIENCE_MS));
	CHECK(CLAN_MESSAGE_DATA, message.kind);
	CHECK(0, memcmp(message.data, much, CLAN_MESSAGE_SIZE));
	CHECK(1, message.from.host == address.host && message.from.port == address.port);
	address.port = 9;
	CHECK(0, clan_send_message(endpoint, &address, "hi", 2));
	CHECK(0, clan_receive_message(endpoint, &message, PATIENCE_MS));
	CHECK(CLAN_MESSAGE_UNDELIVERED, message.kind);
	CHECK(0, strcmp((char *)message.data, "hi"));
}

/*
 * Checks that a processor's widest stores act like the same number of 8-byte stores that are sent
 * together.
 */
static void check_wide_stores(void)
{
	typedef unsigned char wide __attribute__((vector_size(16)));
	volatile wide *to = (volatile wide *)((char *)clan_window_data(window) + 4032);
	unsigned char expected[64];
	wide value;

	for (unsigned int byte = 0; byte < sizeof(expected); byte++)
		expected[byte] = 200 - byte;
	for (unsigned int part = 0; part < sizeof(expected) / sizeof(value); part++) {
		memcpy(&value, expected + part * sizeof(value), sizeof(value));
		to[part] = value;
	}
	arrive();
	CHECK(0, memcmp((char *)data + 4032, expected, sizeof(expected)));
	memcpy((char *)clan_window_data(window) + 6000, expected, sizeof(expected));
	arrive();
	CHECK(0, memcmp((char *)data + 6000, expected, sizeof(expected)));
}

static void check_windows(void)
{
	struct clan_descriptor broken = descriptor;
	struct clan_window *other;
	uint64_t value;
	char text[6];

	CHECK(-22, clan_map(endpoint, &descriptor, 0, 0, &other));
	CHECK(-22, clan_map(endpoint, &descriptor, 4, 8, &other));
	CHECK(-22, clan_map(endpoint, &descriptor, 8, LENGTH, &other));
	broken.bytes[12] ^= 1;
	CHECK(-22, clan_map(endpoint, &broken, 0, LENGTH, &other));
	CHECK(0, clan_store(window, 8, 0x1122334455667788, 8));
	CHECK(0, clan_store(window, 16, 0x99aabbcc, 4));
	CHECK(0, clan_store(window, 20, 0xddee, 2));
	CHECK(0, clan_store(window, 22, 0xff, 1));
	CHECK(0, clan_write(window, 101, "hello", 6));
	__atomic_store_n((uint32_t *)clan_window_data(window) + 10, 40, __ATOMIC_RELEASE);
	arrive();
	CHECK(0, memcmp((char *)data + 8, "\x88\x77\x66\x55\x44\x33\x22\x11\xcc\xbb\xaa\x99\xee\xdd\xff", 15));
	CHECK(0, strcmp((char *)data + 101, "hello"));
	CHECK(40, data[40]);
	for (unsigned int width = 1; width <= 8; width *= 2) {
		CHECK(0, clan_load(window, 8, width, &value));
		CHECK(1, value == UINT64_C(0x1122334455667788) << (64 - 8 * width) >> (64 - 8 * width));
	}
	CHECK(0, clan_read(window, 101, text, sizeof(text)));
	CHECK(0, strcmp(text, "hello"));
	CHECK(-22, clan_store(window, 0, 7, 3));
	CHECK(-22, clan_load(window, 0, 16, &value));
	CHECK(-22, clan_store(window, 2, 7, 4));
	CHECK(-22, clan_store(window, LENGTH, 7, 1));
	CHECK(-22, clan_write(window, LENGTH - 1, "hi", 2));
	CHECK(-22, clan_read(window, LENGTH, text, 1));
}

/* Checks that a forbidden access causes a fault and changes nothing. */
static void check_faults(void)
{
	struct clan_descriptor readable;
	struct clan_aperture *other;
	struct clan_window *mapped;
	struct clan_fault fault;
	uint64_t value;

	CHECK(0, clan_aperture_create(card, NULL, 64, CLAN_RIGHT_READ, &other));
	CHECK(0, clan_aperture_descriptor(other, &readable));
	CHECK(0, clan_map(endpoint, &readable, 0, 64, &mapped));
	CHECK(0, clan_store(mapped, 8, 1, 8));
	CHECK(0, clan_endpoint_fault(endpoint, &fault, PATIENCE_MS));
	CHECK(1, fault.reason == CLAN_FAULT_REFUSED && fault.offset == 8);
	CHECK(0, ((unsigned char *)clan_aperture_data(other))[8]);
	clan_aperture_destroy(other);
	CHECK(-1, clan_load(mapped, 8, 8, &value));
	CHECK(0, clan_endpoint_fault(endpoint, &fault, PATIENCE_MS));
	clan_window_destroy(mapped);
}

static void check_tripwires(void)
{
	struct clan_watch watch = { .offset = 0, .length = 8 }, none = { .length = 0 }, odd = { .length = 8, .flags = 16 };
	struct clan_watch once = { .offset = 64, .length = 8, .flags = CLAN_WATCH_READS | CLAN_WATCH_ONCE };
	struct clan_tripwire *tripwires[3];
	struct clan_tripset *tripset;
	uint64_t value;
	uint32_t fired;

	CHECK(-22, clan_tripwire_create(endpoint, aperture, &none, tripwires));
	CHECK(-22, clan_tripwire_create(endpoint, aperture, &odd, tripwires));
	CHECK(0, clan_tripwire_create(endpoint, aperture, &watch, &tripwires[0]));
	CHECK(0, clan_store(window, 8, 1, 8));
	arrive();
	CHECK(0, clan_tripwire_test(tripwires[0]));
	CHECK(-11, clan_tripwire_wait(tripwires[0], 0));
	CHECK(0, clan_store(window, 0, 1, 8));
	CHECK(0, clan_store(window, 4, 1, 4));
	arrive();
	CHECK(2, clan_tripwire_test(tripwires[0]));
	CHECK(2, clan_tripwire_wait(tripwires[0], PATIENCE_MS));
	CHECK(0, clan_tripwire_disable(tripwires[0]));
	CHECK(0, clan_store(window, 0, 1, 8));
	arrive();
	CHECK(0, clan_tripwire_clear(tripwires[0]));
	CHECK(0, clan_tripwire_enable(tripwires[0]));
	/* Reads, once; and accesses by this process to another host's memory. */
	CHECK(0, clan_tripwire_create(endpoint, aperture, &once, &tripwires[1]));
	CHECK(0, clan_load(window, 64, 8, &value));
	CHECK(0, clan_load(window, 64, 8, &value));
	CHECK(1, clan_tripwire_clear(tripwires[1]));
	CHECK(0, clan_tripwire_watch(tripwires[1], aperture, &watch));
	CHECK(0, clan_tripwire_create_remote(endpoint, &descriptor, &watch, &tripwires[2]));
	CHECK(0, clan_tripwire_watch_remote(tripwires[2], &descriptor, &once));
	CHECK(-22, clan_tripset_create(tripwires, 0, &tripset));
	CHECK(0, clan_tripset_create(tripwires, 3, &tripset));
	CHECK(1, !tripwires[0] && !tripwires[1] && !tripwires[2]);
	CHECK(-22, clan_tripset_disable(tripset, 3));
	CHECK(0, clan_tripset_disable(tripset, 1));
	CHECK(0, clan_load(window, 64, 8, &value));
	CHECK(0, clan_store(window, 0, 1, 8));
	arrive();
	CHECK(0, clan_tripset_wait(tripset, &fired, PATIENCE_MS));
	CHECK(5, fired);
	CHECK(0, clan_tripset_enable(tripset, 1));
	CHECK(-11, clan_tripset_wait(tripset, &fired, 0));
	clan_tripset_destroy(tripset);
}

static void check_dma(void)
{
	struct clan_transfer transfers[2] = { { .remote = descriptor, .remote_offset = 5000, .length = 3000 } };
	struct clan_aperture *own;
	unsigned char *bytes;
	uint64_t request;

	CHECK(0, clan_aperture_create(card, NULL, 3000, 0, &own));
	bytes = clan_aperture_data(own);
	memset(bytes, 5, 3000);
	CHECK(-22, clan_dma_put(endpoint, transfers, 1, &request, 0));
	transfers[0].local = own;
	CHECK(-22, clan_dma_put(endpoint, transfers, 0, &request, 0));
	transfers[0].flags = 8;
	CHECK(-22, clan_dma_put(endpoint, transfers, 1, &request, 0));
	transfers[0].flags = CLAN_TRANSFER_QUIET;
	transfers[1] = transfers[0];
	transfers[1].flags = CLAN_TRANSFER_READ;
	transfers[1].local_offset = 1;
	CHECK(-22, clan_dma_put(endpoint, transfers, 2, &request, 0));
	transfers[1].length = 2999;
	transfers[1].remote_offset = 4999;
	CHECK(0, clan_dma_put(endpoint, transfers, 2, &request, 0));
	CHECK(0, clan_dma_wait(endpoint, request, PATIENCE_MS));
	CHECK(1, clan_dma_is_done(endpoint, request));
	CHECK(0, clan_dma_in_flight(endpoint));
	CHECK(-22, clan_dma_is_done(endpoint, request + 1));
	CHECK(1, data[5000] == 5 && data[7999] == 5 && data[8000] == 0);
	CHECK(1, bytes[0] == 5 && bytes[1] == 0 && bytes[2] == 5);
	clan_aperture_destroy(own);
}

/* Returns how many of poll(2), select(2) and epoll(7) report the file as readable now. */
static int readable(int file)
{
	struct pollfd ready = { .fd = file, .events = POLLIN };
	struct epoll_event event = { .events = EPOLLIN };
	struct timeval now = { .tv_sec = 0 };
	int epoll = epoll_create1(0), count;
	fd_set files;

	FD_ZERO(&files);
	FD_SET(file, &files);
	CHECK(0, epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event));
	count = poll(&ready, 1, 0) + select(file + 1, &files, NULL, NULL, &now) + epoll_wait(epoll, &event, 1, 0);
	close(epoll);
	return count;
}

static void check_events(void)
{
	struct clan_watch watch = { .offset = 0, .length = 8 };
	struct clan_tripwire *tripwire;
	struct clan_events *events;
	struct clan_message message;
	struct clan_address address;
	struct clan_event event;
	struct pollfd ready;

	CHECK(-22, clan_events_create(card, 17, &events));
	CHECK(0, clan_events_create(card, 64, &events));
	CHECK(-22, clan_events_register(events, endpoint, 8, 1));
	CHECK(0, clan_events_register(events, endpoint, CLAN_INTEREST_MESSAGES, 1));
	CHECK(0, clan_tripwire_create(endpoint, aperture, &watch, &tripwire));
	CHECK(0, clan_events_register_tripwire(events, tripwire, 2));
	CHECK(-11, clan_events_next(events, &event, 0));
	CHECK(-11, clan_events_poll(events, 10, &event));
	ready = (struct pollfd){ .fd = clan_events_fd(events), .events = POLLIN };
	CHECK(0, readable(ready.fd));
	CHECK(0, clan_events_arm(events));
	CHECK(0, clan_store(window, 0, 1, 8));
	CHECK(1, poll(&ready, 1, PATIENCE_MS));
	CHECK(3, readable(ready.fd));
	CHECK(1, clan_events_arm(events));
	CHECK(0, clan_events_next(events, &event, PATIENCE_MS));
	CHECK(1, event.token == 2 && event.what == CLAN_EVENT_TRIPWIRE);
	CHECK(0, clan_endpoint_address(endpoint, &address));
	CHECK(0, clan_send_message(endpoint, &address, "hi", 2));
	CHECK(0, clan_events_next(events, &event, PATIENCE_MS));
	CHECK(1, event.token == 1 && event.what == CLAN_EVENT_MESSAGE);
	CHECK(0, clan_receive_message(endpoint, &message, PATIENCE_MS));
	CHECK(0, clan_events_unregister_tripwire(events, tripwire));
	CHECK(0, clan_store(window, 0, 1, 8));
	arrive();
	CHECK(-11, clan_events_next(events, &event, 0));
	CHECK(0, clan_events_unregister(events, endpoint));
	clan_tripwire_destroy(tripwire);
	clan_events_destroy(events);
}

/* Checks connections by name, which pass data in both directions: a descriptor, and an answer. */
static void check_names(void)
{
	struct uln_connection *here, *there;
	struct uln_connecting *asking;
	struct uln_name_listener *listener;
	struct uln_request *request;
	struct uln_passed passed;
	struct uln_found found;
	struct clan_card_info info;

	CHECK(0, clan_get_info(card, &info));
	CHECK(-111, clan_name_connect(card, info.host, "c-check", NULL, 0, &there));
	CHECK(-22, clan_name_listen(card, "", 1, &listener));
	CHECK(0, clan_name_listen(card, "c-check", 1, &listener));
	CHECK(1, clan_name_find(card, "c-check", &found, PATIENCE_MS));
	CHECK(1, found.hosts == UINT64_C(1) << info.host);
	CHECK(0, clan_name_connect_begin(card, info.host, "c-check", &descriptor, sizeof(descriptor), &asking));
	CHECK(0, uln_name_listener_request(listener, &request, PATIENCE_MS));
	CHECK(0, uln_request_passed(request, &passed));
	CHECK(1, passed.length == sizeof(descriptor) && !memcmp(passed.data, &descriptor, sizeof(descriptor)));
	CHECK(0, uln_request_accept(request, "welcome", 7, &here));
	CHECK(0, uln_connecting_finish(asking, &there, PATIENCE_MS));
	CHECK(0, uln_connection_passed(there, &passed));
	CHECK(1, passed.length == 7 && !memcmp(passed.data, "welcome", 7));
	CHECK(0, uln_connection_close(here, NULL, 0));
	uln_connection_destroy(there);
	uln_name_listener_destroy(listener);
	CHECK(-111, clan_name_connect_any(card, UINT64_C(1) << info.host, "c-check", NULL, 0, &there, PATIENCE_MS));
}

/* Connections of endpoints wait for each other, so a single machine can only test a refusal. */
static void check_connections(void)
{
	struct clan_connection *connection;
	struct clan_request *request;
	struct clan_address address;
	struct clan_cache_info info;
	struct clan_cache *cache;
	struct clan_endpoint *kept;
	struct clan_aperture *memory;
	struct clan_end *end;

	CHECK(0, clan_endpoint_address(endpoint, &address));
	address.port = 9;
	CHECK(-111, clan_connect(endpoint, &address, NULL, 0, &connection, PATIENCE_MS));
	CHECK(-22, clan_connect(endpoint, &address, &info, CLAN_TOLD_SIZE + 1, &connection, PATIENCE_MS));
	CHECK(-11, clan_receive_request(endpoint, &request, 0));
	CHECK(-22, clan_cache_create(card, NULL, 64, 4, 1, &cache));
	CHECK(0, clan_cache_create(card, NULL, 64, CLAN_RIGHT_WRITE, 1, &cache));
	for (int i = 0; i < 2; i++) {
		CHECK(0, clan_cache_take(cache, 7, &kept, &memory));
		CHECK(0, clan_cache_give(cache, 7, kept, memory));
	}
	CHECK(0, clan_cache_get_info(cache, &info));
	CHECK(1, info.hits == 1 && info.misses == 1 && info.kept == 1);
	CHECK(0, clan_cache_take(cache, 7, &kept, &memory));
	CHECK(-111, clan_end_connect(kept, memory, &address, PATIENCE_MS, &end));
	clan_endpoint_destroy(kept);
	clan_cache_destroy(cache);
}

int main(void)
{
	CHECK(0, clan_open(NULL, &card));
	if (wrong)
		return 1;
	check_card();
	CHECK(0, clan_endpoint_create(card, NULL, &endpoint));
	CHECK(0, clan_aperture_create(card, NULL, LENGTH, CLAN_RIGHT_READ | CLAN_RIGHT_WRITE, &aperture));
	CHECK(0, clan_aperture_descriptor(aperture, &descriptor));
	CHECK(0, clan_map(endpoint, &descriptor, 0, LENGTH, &window));
	if (wrong)
		return 1;
	data = clan_aperture_data(aperture);
	check_apertures();
	check_endpoints();
	check_messages();
	check_windows();
	check_wide_stores();
	check_faults();
	check_tripwires();
	check_dma();
	check_events();
	check_connections();
	check_names();
	clan_window_destroy(window);
	clan_aperture_destroy(aperture);
	clan_endpoint_destroy(endpoint);
	clan_close(card);
	printf("{\"checked\":%u,\"wrong\":%u}\n", checked, wrong);
	return wrong != 0;
}
