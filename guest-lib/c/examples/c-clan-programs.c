/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The programs of section 4 of the CLAN paper in C, each with two sides.
 *
 *   c-clan-programs hello receive | send             messages, one at a time, and memory by DMA
 *   c-clan-programs rpc serve | call [COUNT]         calls: the server reverses the request
 *   c-clan-programs queue consume | produce [COUNT]  a queue, with messages of several parts;
 *                                                    with produce-dma the card fetches them
 *   c-clan-programs stream read | write [COUNT]      a byte stream
 *   c-clan-programs headed receive | send [COUNT]    header and body sent separately
 *
 * The Rust examples "clan hello", "clan rpc" and "clan queue" use the same protocols, so each side
 * works with either.
 *
 * Build it: cc c-clan-programs.c $(pkg-config --cflags --libs hamlyn)
 */
#include "clan_meet.h"

/*
 * Sizes in bytes: either end's memory, the data sent by DMA, a queue's elements, and its longest
 * message.
 */
#define LENGTH 4096
#define QUEUE_LENGTH 16384
#define BYTES 20000
#define SEED 7
#define ELEMENT 64
#define LONGEST 150
/* Maximum body of a message with a header, which contains the body's length. */
#define BODY 1000

static void hello_receive(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = be_met(card, LENGTH);
	struct clan_aperture *aperture = memory(card, BYTES);
	struct clan_descriptor descriptor;
	struct clan_receiver *receiver;
	struct clan_sender *sender;
	struct clan_peer peer;
	char text[LENGTH];
	int length;

	(void)count;
	must(clan_receiver_create(meeting.end, &receiver));
	must(clan_receiver_set_early(receiver));
	must(clan_sender_create(meeting.end, &sender));
	must(clan_end_peer(meeting.end, &peer));
	length = must(clan_receiver_receive(receiver, text, sizeof(text)));
	printf("{\"from\":%u,\"message\":\"%.*s\"}\n", peer.address.host, length, text);
	must(clan_aperture_descriptor(aperture, &descriptor));
	must(clan_sender_send(sender, &descriptor, sizeof(descriptor)));
	must(clan_receiver_receive(receiver, text, sizeof(text)));
	verify(SEED, clan_aperture_data(aperture), BYTES);
	printf("{\"received\":%d,\"verified\":true}\n", BYTES);
	/* Build the answer in place. */
	must(clan_sender_write(sender, 0, "thank ", 6));
	must(clan_sender_write(sender, 6, "you", 3));
	must(clan_sender_finish(sender, 9));
	clan_receiver_destroy(receiver);
	clan_sender_destroy(sender);
	wait_and_part(&meeting);
	clan_aperture_destroy(aperture);
}

/* Sends the pattern by DMA. Later stores arrive after it. */
static void send_pattern(struct clan_card *card, struct clan_endpoint *endpoint, const struct clan_descriptor *to)
{
	struct clan_transfer transfer = { .remote = *to, .length = BYTES };
	struct clan_aperture *from;
	uint64_t request;

	must(clan_aperture_create(card, NULL, BYTES, 0, &from));
	fill(SEED, clan_aperture_data(from), BYTES);
	transfer.local = from;
	must(clan_dma_put(endpoint, &transfer, 1, &request, PATIENCE_MS));
	must(clan_dma_wait(endpoint, request, PATIENCE_MS));
	clan_aperture_destroy(from);
}

static void hello_send(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = meet(card, LENGTH);
	struct clan_descriptor descriptor;
	struct clan_receiver *receiver;
	struct clan_sender *sender;
	unsigned char loaded[8];
	struct clan_window *window;
	char text[LENGTH];
	int length;

	(void)count;
	must(clan_sender_create(meeting.end, &sender));
	must(clan_receiver_create(meeting.end, &receiver));
	must(clan_sender_send(sender, "hello from C", 12));
	must(clan_receiver_receive(receiver, &descriptor, sizeof(descriptor)));
	send_pattern(card, meeting.endpoint, &descriptor);
	must(clan_sender_send(sender, "it is there", 11));
	must(clan_map(meeting.endpoint, &descriptor, 0, sizeof(loaded), &window));
	must(clan_read(window, 0, loaded, sizeof(loaded)));
	verify(SEED, loaded, sizeof(loaded));
	clan_window_destroy(window);
	/* Read the answer in place. */
	length = must(clan_receiver_wait(receiver));
	must(clan_receiver_read(receiver, 0, text, length));
	must(clan_receiver_release(receiver));
	printf("{\"sent\":%d,\"loaded\":true,\"answer\":\"%.*s\"}\n", BYTES, length, text);
	clan_sender_destroy(sender);
	clan_receiver_destroy(receiver);
	part(&meeting);
}

static void rpc_serve(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = be_met(card, LENGTH);
	unsigned char request[LENGTH], reply[LENGTH];
	struct clan_server *server;
	int length;

	must(clan_server_create(meeting.end, &server));
	for (count = 0; (length = clan_server_wait(server, request, sizeof(request))) != -ECONNRESET; count++) {
		must(length);
		for (int at = 0; at < length; at++)
			reply[at] = request[length - 1 - at];
		must(clan_server_reply(server, reply, length));
	}
	printf("{\"answered\":%llu}\n", (unsigned long long)count);
	clan_server_destroy(server);
	clan_end_destroy(meeting.end);
	clan_endpoint_destroy(meeting.endpoint);
}

static void rpc_call(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = meet(card, LENGTH);
	struct clan_client *client;

	must(clan_client_create(meeting.end, &client));
	for (uint32_t round = 0; round < count; round++) {
		unsigned char request[4], reply[8];

		for (int at = 0; at < 4; at++)
			request[at] = (unsigned char)(round >> 8 * at);
		if (must(clan_client_call(client, request, sizeof(request), reply, sizeof(reply))) != 4)
			fail("the answer has another length");
		for (int at = 0; at < 4; at++) {
			if (reply[at] != request[3 - at])
				fail("the answer is another's");
		}
	}
	printf("{\"calls\":%llu}\n", (unsigned long long)count);
	clan_client_destroy(client);
	part(&meeting);
}

static void queue_consume(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = be_met(card, QUEUE_LENGTH);
	struct clan_consumer *consumer;
	unsigned char bytes[LONGEST];
	uint64_t metadata;

	must(clan_consumer_create(meeting.end, ELEMENT, &consumer));
	for (uint64_t item = 0; item < count; item++) {
		int length = must(clan_consumer_get_message(consumer, bytes, sizeof(bytes), &metadata));

		if (metadata != item || length == 0)
			fail("an item is not in its place");
		verify(item, bytes, length);
	}
	printf("{\"taken\":%llu,\"in_order\":true}\n", (unsigned long long)count);
	clan_consumer_destroy(consumer);
	wait_and_part(&meeting);
}

static void queue_produce(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = meet(card, QUEUE_LENGTH);
	struct clan_producer *producer;
	unsigned char bytes[LONGEST];
	const struct clan_part parts[] = { { bytes, 3 }, { bytes + 3, LONGEST - 3 } };

	must(clan_producer_create(meeting.end, ELEMENT, &producer));
	for (uint64_t item = 0; item < count; item++) {
		fill(item, bytes, sizeof(bytes));
		if (item % 10 == 9)
			must(clan_producer_put_parts(producer, parts, 2, item));
		else
			must(clan_producer_put(producer, bytes, 1 + item % ELEMENT, item));
	}
	printf("{\"produced\":%llu,\"dma\":false}\n", (unsigned long long)count);
	clan_producer_destroy(producer);
	part(&meeting);
}

static void queue_produce_dma(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = meet(card, QUEUE_LENGTH);
	struct clan_dma_producer *producer;
	struct clan_aperture *items;
	uint64_t request = 0;

	must(clan_dma_producer_create(card, meeting.end, ELEMENT, &producer));
	/* Each item has its own bytes: they must stay until the card has fetched them. */
	must(clan_aperture_create(card, NULL, (count + 1) * ELEMENT, 0, &items));
	for (uint64_t item = 0; item < count; item++) {
		fill(item, (unsigned char *)clan_aperture_data(items) + item * ELEMENT, ELEMENT);
		int put = clan_dma_producer_try_put(producer, items, item * ELEMENT, ELEMENT, item, &request);

		/* Without room, wait for it. */
		if (put == -EAGAIN)
			put = clan_dma_producer_put(producer, items, item * ELEMENT, ELEMENT, item, &request);
		must(put);
	}
	if (count)
		must(clan_dma_wait(meeting.endpoint, request, PATIENCE_MS));
	printf("{\"produced\":%llu,\"dma\":true}\n", (unsigned long long)count);
	clan_dma_producer_destroy(producer);
	clan_aperture_destroy(items);
	part(&meeting);
}

static void stream_read(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = be_met(card, LENGTH);
	struct clan_reader *reader;
	unsigned char bytes[777];
	uint64_t done = 0;
	int length;

	must(clan_reader_create(meeting.end, &reader));
	while ((length = must(clan_reader_read(reader, bytes, sizeof(bytes)))) != 0) {
		for (int at = 0; at < length; at++) {
			if (bytes[at] != pattern(SEED, done++))
				fail("a byte is wrong");
		}
	}
	if (done != count)
		fail("bytes are missing");
	printf("{\"read\":%llu,\"verified\":true}\n", (unsigned long long)done);
	clan_reader_destroy(reader);
	clan_end_destroy(meeting.end);
	clan_endpoint_destroy(meeting.endpoint);
}

static void stream_write(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = meet(card, LENGTH);
	unsigned char *bytes = malloc(count + 1);
	struct clan_writer *writer;

	if (!bytes)
		fail("there is no memory");
	fill(SEED, bytes, count);
	must(clan_writer_create(meeting.end, &writer));
	for (uint64_t done = 0; done < count;)
		done += must(clan_writer_write(writer, bytes + done, count - done));
	printf("{\"written\":%llu}\n", (unsigned long long)count);
	clan_writer_destroy(writer);
	free(bytes);
	part(&meeting);
}

static void headed_receive(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = be_met(card, LENGTH);
	struct clan_headed_receiver *receiver;
	unsigned char body[BODY];
	uint64_t said;

	must(clan_headed_receiver_create(meeting.end, sizeof(said), &receiver));
	for (uint64_t item = 0; item < count; item++) {
		must(clan_headed_receiver_header(receiver, &said, sizeof(said)));
		if (said > sizeof(body) || must(clan_headed_receiver_body(receiver, body, sizeof(body))) != (int)said)
			fail("a body is not as its header says");
		verify(item, body, said);
	}
	printf("{\"received\":%llu,\"verified\":true}\n", (unsigned long long)count);
	clan_headed_receiver_destroy(receiver);
	wait_and_part(&meeting);
}

static void headed_send(struct clan_card *card, uint64_t count)
{
	struct meeting meeting = meet(card, LENGTH);
	struct clan_headed_sender *sender;
	unsigned char body[BODY];

	must(clan_headed_sender_create(meeting.end, sizeof(uint64_t), &sender));
	for (uint64_t item = 0; item < count; item++) {
		uint64_t length = item * 13 % (BODY + 1);

		must(clan_headed_sender_send_header(sender, &length, sizeof(length)));
		/* The receiver processes the header meanwhile. */
		fill(item, body, length);
		must(clan_headed_sender_send_body(sender, body, length));
	}
	printf("{\"sent\":%llu}\n", (unsigned long long)count);
	clan_headed_sender_destroy(sender);
	part(&meeting);
}

static const struct {
	const char *program, *side;
	void (*run)(struct clan_card *card, uint64_t count);
	uint64_t count;
} programs[] = {
	{ "hello", "receive", hello_receive, 1 },
	{ "hello", "send", hello_send, 1 },
	{ "rpc", "serve", rpc_serve, 0 },
	{ "rpc", "call", rpc_call, 1000 },
	{ "queue", "consume", queue_consume, 2000 },
	{ "queue", "produce", queue_produce, 2000 },
	{ "queue", "produce-dma", queue_produce_dma, 500 },
	{ "stream", "read", stream_read, 100000 },
	{ "stream", "write", stream_write, 100000 },
	{ "headed", "receive", headed_receive, 200 },
	{ "headed", "send", headed_send, 200 },
};

int main(int argc, char **argv)
{
	struct clan_card *card;

	for (size_t at = 0; argc >= 3 && argc <= 4 && at < sizeof(programs) / sizeof(*programs); at++) {
		if (strcmp(argv[1], programs[at].program) || strcmp(argv[2], programs[at].side))
			continue;
		must(clan_open(NULL, &card));
		programs[at].run(card, argc > 3 ? strtoull(argv[3], NULL, 10) : programs[at].count);
		clan_close(card);
		return 0;
	}
	fprintf(stderr, "usage: %s hello | rpc | queue | stream | headed SIDE [COUNT]\n", argv[0]);
	return 2;
}
