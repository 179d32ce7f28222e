/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CLAN cards in C: windows, DMA, Tripwires, and one event queue for all events.
 *
 *   c-clan receive             passes a descriptor of its memory to a requester, and is notified
 *                              when the memory is written to
 *   c-clan send [BYTES]        stores a message there, and sends BYTES bytes by DMA
 *
 * Build it: cc c-clan.c $(pkg-config --cflags --libs hamlyn)
 */
#include "clan_meet.h"

#include <poll.h>

/*
 * Memory layout: the message's length, or 0 if there is no message; the number of bytes of pages
 * that have arrived; the message; the pages.
 */
#define FLAG 0
#define PAGES_FLAG 8
#define MESSAGE 16
#define PAGES 4096
#define MOST 20000
#define SEED 7
/* How long a waiting program polls before it sleeps (section 5.3). */
#define POLLING_US 15
/* Tokens of events: the Tripwires' positions, and this for messages. */
#define MESSAGES 2

static struct clan_tripwire *watch(struct clan_endpoint *endpoint, struct clan_aperture *aperture, size_t offset)
{
	struct clan_watch watch = { .offset = offset, .length = 8 };
	struct clan_tripwire *tripwire;

	must(clan_tripwire_create(endpoint, aperture, &watch, &tripwire));
	return tripwire;
}

/* Sleeps in poll(2), where a program can wait for other files too. */
static uint64_t next_event(struct clan_events *events)
{
	struct pollfd ready = { .fd = must(clan_events_fd(events)), .events = POLLIN };
	struct clan_event event;
	int outcome;

	while ((outcome = clan_events_poll(events, POLLING_US, &event)) == -EAGAIN) {
		if (poll(&ready, 1, PATIENCE_MS) == 0)
			fail("nothing happens");
	}
	must(outcome);
	return event.token;
}

/*
 * Loads a length. What the peer wrote before the word is then visible. The peer can change the word
 * at any time, so load it once, then check it.
 */
static size_t load_length(const char *data, size_t offset, size_t limit)
{
	uint64_t length = __atomic_load_n((const uint64_t *)(const void *)(data + offset), __ATOMIC_ACQUIRE);

	return length < limit ? length : limit;
}

/* Takes the message and the pages, each when its Tripwire has fired. */
static void take(struct clan_events *events, struct clan_tripwire *const tripwires[2], const char *data,
		 struct clan_connection *connection)
{
	size_t length, missing = 2;
	struct clan_peer_end end;

	while (missing) {
		uint64_t token = next_event(events);

		if (token == MESSAGES) {
			if (clan_connection_end(connection, &end, 0) == 0)
				fail("the sender is gone");
			continue;
		}
		/* Clear before you look: a later write is then another event. */
		must(clan_tripwire_clear(tripwires[token]));
		length = load_length(data, token ? PAGES_FLAG : FLAG, token ? MOST : PAGES - MESSAGE);
		if (token) {
			verify(SEED, (const unsigned char *)data + PAGES, length);
			printf("{\"received\":%zu,\"verified\":true}\n", length);
		} else {
			printf("{\"message\":\"%.*s\"}\n", (int)length, data + MESSAGE);
		}
		fflush(stdout);
		missing--;
	}
}

static void receive(struct clan_card *card)
{
	struct clan_endpoint *listener = open_port(card), *endpoint;
	struct clan_aperture *aperture = memory(card, PAGES + MOST);
	struct clan_tripwire *tripwires[2];
	struct clan_connection *connection;
	struct clan_descriptor descriptor;
	struct clan_request *request;
	struct clan_events *events;
	struct clan_peer_end end;

	must(clan_endpoint_create(card, NULL, &endpoint));
	must(clan_events_create(card, 64, &events));
	must(clan_events_register(events, endpoint, CLAN_INTEREST_MESSAGES, MESSAGES));
	tripwires[0] = watch(endpoint, aperture, FLAG);
	tripwires[1] = watch(endpoint, aperture, PAGES_FLAG);
	for (uint64_t token = 0; token < 2; token++)
		must(clan_events_register_tripwire(events, tripwires[token], token));
	must(clan_aperture_descriptor(aperture, &descriptor));
	must(clan_receive_request(listener, &request, PATIENCE_MS));
	must(clan_accept(request, endpoint, &descriptor, sizeof(descriptor), &connection));
	take(events, tripwires, clan_aperture_data(aperture), connection);
	must(clan_connection_send(connection, "thank you", 9));
	must(clan_connection_end(connection, &end, PATIENCE_MS));
	clan_connection_destroy(connection);
	clan_tripwire_destroy(tripwires[0]);
	clan_tripwire_destroy(tripwires[1]);
	clan_events_destroy(events);
	clan_aperture_destroy(aperture);
	clan_endpoint_destroy(endpoint);
	clan_endpoint_destroy(listener);
}

struct asking {
	struct clan_endpoint *endpoint;
	struct clan_connection *connection;
};

static int ask(void *asking, const struct clan_address *address)
{
	struct asking *connect = asking;

	return clan_connect(connect->endpoint, address, NULL, 0, &connect->connection, ANSWER_MS);
}

/* Sends by DMA from the program's own memory. A Tripwire fires when the last byte has left. */
static void send_pages(struct clan_card *card, struct clan_endpoint *endpoint, const struct clan_descriptor *to, size_t length)
{
	static _Alignas(8) unsigned char pages[MOST];
	struct clan_watch last = { .offset = PAGES + length - 1, .length = 1 };
	struct clan_transfer transfer = { .remote = *to, .remote_offset = PAGES, .length = length };
	struct clan_tripwire *sent;
	struct clan_aperture *from;
	uint64_t request;

	fill(SEED, pages, length);
	must(clan_aperture_create(card, pages, length, 0, &from));
	must(clan_tripwire_create_remote(endpoint, to, &last, &sent));
	transfer.local = from;
	must(clan_dma_put(endpoint, &transfer, 1, &request, PATIENCE_MS));
	must(clan_dma_wait(endpoint, request, PATIENCE_MS));
	must(clan_tripwire_wait(sent, PATIENCE_MS));
	clan_tripwire_destroy(sent);
	clan_aperture_destroy(from);
}

/*
 * Loads 16 bytes of the peer's memory with the program's own instruction: the load crosses the
 * network in pieces.
 */
static int loads_vector(struct clan_window *window, size_t offset, const char *expected)
{
	const char *from = (const char *)clan_window_data(window) + offset;
	char bytes[16];

#ifdef __SSE2__
	__asm__ volatile("movdqu %1, %%xmm0\n\tmovdqu %%xmm0, %0"
			 : "=m"(bytes) : "m"(*(const char (*)[16])from) : "xmm0");
#else
	memcpy(bytes, from, sizeof(bytes));
#endif
	return !memcmp(bytes, expected, sizeof(bytes));
}

static void send_all(struct clan_card *card, size_t length)
{
	static const char text[16] = "hello from C";
	struct clan_descriptor descriptor;
	uint8_t told[CLAN_TOLD_SIZE];
	struct clan_window *window;
	struct asking asking;
	struct clan_peer peer;
	uint64_t loaded;
	int vector;

	must(clan_endpoint_create(card, NULL, &asking.endpoint));
	ask_all(card, ask, &asking);
	must(clan_connection_peer(asking.connection, &peer));
	memcpy(&descriptor, peer.told, sizeof(descriptor));
	must(clan_map(asking.endpoint, &descriptor, 0, PAGES, &window));
	must(clan_write(window, MESSAGE, text, strlen(text)));
	must(clan_store(window, FLAG, strlen(text), 8));
	send_pages(card, asking.endpoint, &descriptor, length);
	/* This store leaves after the pages, so it arrives after them. */
	must(clan_store(window, PAGES_FLAG, length, 8));
	/* Read across the network. */
	must(clan_load(window, FLAG, 8, &loaded));
	vector = loads_vector(window, MESSAGE, text);
	must(clan_connection_receive(asking.connection, &told, PATIENCE_MS));
	printf("{\"sent\":%zu,\"loaded\":%s,\"vector\":%s,\"answer\":\"%.*s\"}\n", length,
	       loaded == strlen(text) ? "true" : "false", vector ? "true" : "false", (int)sizeof(told), (const char *)told);
	must(clan_connection_close(asking.connection, NULL, 0));
	clan_window_destroy(window);
	clan_endpoint_destroy(asking.endpoint);
}

int main(int argc, char **argv)
{
	int sends = argc > 1 && !strcmp(argv[1], "send");
	size_t length = argc > 2 ? strtoul(argv[2], NULL, 10) : MOST;
	struct clan_card *card;

	if (argc < 2 || argc > 2 + sends || (!sends && strcmp(argv[1], "receive")) || length < 1 || length > MOST) {
		fprintf(stderr, "usage: %s receive | send [BYTES]\n", argv[0]);
		return 2;
	}
	must(clan_open(NULL, &card));
	if (sends)
		send_all(card, length);
	else
		receive(card);
	clan_close(card);
	return 0;
}
