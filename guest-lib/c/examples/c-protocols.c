/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The three protocols in C. One side receives:
 *
 *   c-protocols tagged|datagram|stream listen [bytes]            and the other sends:
 *   c-protocols tagged|datagram|stream connect HOST [bytes]
 *
 * They find each other by a name. Alternatively, the user copies a line of JSON from one to the
 * other:
 *
 *   c-protocols tagged|datagram|stream receive [bytes]           prints the ticket or seed
 *   c-protocols tagged|datagram|stream send TICKET|SEED [bytes]
 *
 * Build it: cc c-protocols.c $(pkg-config --cflags --libs hamlyn)
 */
#include <hamlyn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 60000
#define NAME "c-protocols"
#define TAG 7
#define TAGS 64

/* Exits if a call has failed. */
static int must(int outcome)
{
	if (outcome < 0) {
		printf("{\"error\":\"%s\"}\n", uln_error());
		exit(1);
	}
	return outcome;
}

/* Returns a byte of the test pattern, which the peer can check: SplitMix64, 8 bytes per word. */
static unsigned char pattern(size_t at)
{
	uint64_t word = 1 + (at / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return (unsigned char)((word ^ word >> 31) >> at % 8 * 8);
}

static unsigned char *make_bytes(size_t length)
{
	unsigned char *bytes = malloc(length + 1);

	if (!bytes)
		abort();
	for (size_t at = 0; at < length; at++)
		bytes[at] = pattern(at);
	return bytes;
}

/* Compares received bytes that start at `offset` in the message. */
static void verify(const void *data, size_t length, size_t offset)
{
	const unsigned char *bytes = data;

	for (size_t at = 0; at < length; at++) {
		if (bytes[at] != pattern(offset + at)) {
			printf("{\"error\":\"byte %zu is wrong\"}\n", offset + at);
			exit(1);
		}
	}
}

/* The connection, if the sides find each other by name. */
static struct uln_connection *connection;
static int by_name;

/* Passes a ticket or seed to the next requester, or prints its text. */
static void offer(struct hamlyn_card *card, const char *kind, const char *text, const void *bytes, size_t length)
{
	struct uln_name_listener *listener;
	struct uln_request *request;

	if (!by_name) {
		printf("{\"%s\":\"%s\"}\n", kind, text);
		fflush(stdout);
		return;
	}
	must(hamlyn_listen(card, NAME, 1, &listener));
	printf("{\"listening\":\"" NAME "\"}\n");
	fflush(stdout);
	must(uln_name_listener_request(listener, &request, PATIENCE_MS));
	must(uln_request_accept(request, bytes, length, &connection));
	uln_name_listener_destroy(listener);
}

static void offer_ticket(struct hamlyn_card *card, const struct hamlyn_ticket *ticket)
{
	char text[HAMLYN_TEXT_SIZE];

	must(hamlyn_ticket_print(ticket, text, sizeof(text)));
	offer(card, "ticket", text, ticket, sizeof(*ticket));
}

/* Connects to a host, and takes what it passes: a ticket or a seed of `length` bytes. */
static void ask(struct hamlyn_card *card, const char *host, void *bytes, size_t length)
{
	struct uln_passed passed;

	must(hamlyn_connect(card, (uint32_t)strtoul(host, NULL, 10), NAME, NULL, 0, &connection));
	must(uln_connection_passed(connection, &passed));
	if (passed.length != length) {
		printf("{\"error\":\"%zu bytes were passed instead of %zu\"}\n", passed.length, length);
		exit(1);
	}
	memcpy(bytes, passed.data, length);
}

static struct hamlyn_ticket ask_ticket(struct hamlyn_card *card, const char *whom)
{
	struct hamlyn_ticket ticket;

	if (by_name)
		ask(card, whom, &ticket, sizeof(ticket));
	else
		must(hamlyn_ticket_parse(whom, &ticket));
	return ticket;
}

/* Disconnects. The receiver waits for the sender's end, and prints how it ended. */
static void part(int receives)
{
	struct uln_end end;

	if (!connection)
		return;
	if (receives) {
		must(uln_connection_end(connection, &end, PATIENCE_MS));
		printf("{\"closed\":%s}\n", end.reason == ULN_END_CLOSED ? "true" : "false");
		uln_connection_destroy(connection);
	} else {
		must(uln_connection_close(connection, NULL, 0));
	}
}

static size_t tagged_receive(struct hamlyn_card *card, size_t length)
{
	struct hamlyn_tag_receiver *receiver;
	struct hamlyn_ticket ticket;
	unsigned char *bytes = make_bytes(length);

	must(hamlyn_tag_receiver_create(card, length, TAGS, &receiver));
	must(hamlyn_tag_receiver_ticket(receiver, &ticket));
	offer_ticket(card, &ticket);
	must(hamlyn_tag_receive_specific(receiver, TAG, PATIENCE_MS));
	must(hamlyn_tag_read(receiver, 0, bytes, length));
	verify(bytes, length, 0);
	hamlyn_tag_receiver_destroy(receiver);
	free(bytes);
	return length;
}

static void tagged_send(struct hamlyn_card *card, struct hamlyn_manager *manager, const char *whom, size_t length)
{
	struct hamlyn_ticket ticket = ask_ticket(card, whom);
	unsigned char *bytes = make_bytes(length);

	must(hamlyn_tag_send(manager, &ticket, bytes, length, 0, TAG, PATIENCE_MS));
	must(hamlyn_manager_flush(manager, PATIENCE_MS));
	free(bytes);
}

static void reverse(unsigned char *bytes, size_t length)
{
	for (size_t at = 0; at < length / 2; at++) {
		unsigned char first = bytes[at];

		bytes[at] = bytes[length - 1 - at];
		bytes[length - 1 - at] = first;
	}
}

/* Answers with the same bytes in reverse, for the sender to verify. */
static size_t datagram_receive(struct hamlyn_card *card, struct hamlyn_manager *manager, size_t capacity)
{
	struct hamlyn_datagram_receiver *receiver;
	struct hamlyn_datagram datagram;
	struct hamlyn_ticket ticket;
	unsigned char *bytes;
	size_t length;

	must(hamlyn_datagram_receiver_create(manager, capacity, &receiver));
	must(hamlyn_datagram_receiver_ticket(receiver, &ticket));
	offer_ticket(card, &ticket);
	must(hamlyn_datagram_receive(receiver, &datagram, PATIENCE_MS));
	length = datagram.length;
	bytes = make_bytes(length);
	memcpy(bytes, datagram.data, length);
	reverse(bytes, length);
	if (datagram.has_reply)
		must(hamlyn_datagram_send(manager, &datagram.reply, bytes, length, 0, NULL, PATIENCE_MS));
	must(hamlyn_manager_flush(manager, PATIENCE_MS));
	hamlyn_datagram_receiver_destroy(receiver);
	free(bytes);
	return length;
}

static void datagram_send(struct hamlyn_card *card, struct hamlyn_manager *manager, const char *whom, size_t length)
{
	struct hamlyn_ticket ticket = ask_ticket(card, whom), reply;
	struct hamlyn_datagram_receiver *replies;
	struct hamlyn_datagram answer;
	unsigned char *bytes = make_bytes(length);

	must(hamlyn_datagram_receiver_create(manager, length, &replies));
	must(hamlyn_datagram_receiver_ticket(replies, &reply));
	must(hamlyn_datagram_send(manager, &ticket, bytes, length, 0, &reply, PATIENCE_MS));
	must(hamlyn_datagram_receive(replies, &answer, PATIENCE_MS));
	reverse(bytes, length);
	if (answer.length != length || memcmp(answer.data, bytes, length)) {
		printf("{\"error\":\"the reply is wrong\"}\n");
		exit(1);
	}
	hamlyn_datagram_receiver_destroy(replies);
	free(bytes);
}

static size_t stream_receive(struct hamlyn_card *card, struct hamlyn_manager *manager)
{
	struct hamlyn_stream_receiver *receiver;
	struct hamlyn_record record;
	struct hamlyn_seed seed;
	char text[HAMLYN_TEXT_SIZE];
	size_t received = 0;

	must(hamlyn_stream_receiver_create(manager, NULL, &receiver));
	must(hamlyn_stream_receiver_seed(receiver, &seed));
	must(hamlyn_seed_print(&seed, text, sizeof(text)));
	offer(card, "seed", text, &seed, sizeof(seed));
	while (must(hamlyn_stream_receive(receiver, &record, PATIENCE_MS))) {
		verify(record.data, record.length, received);
		received += record.length;
		must(hamlyn_stream_release(receiver, record.number));
	}
	hamlyn_stream_receiver_destroy(receiver);
	return received;
}

static void stream_send(struct hamlyn_card *card, struct hamlyn_manager *manager, const char *whom, size_t length)
{
	struct hamlyn_stream_sender *sender;
	struct hamlyn_seed seed;
	unsigned char *bytes = make_bytes(length);
	size_t sent = 0;

	if (by_name)
		ask(card, whom, &seed, sizeof(seed));
	else
		must(hamlyn_seed_parse(whom, &seed));
	must(hamlyn_stream_sender_create(manager, &seed, &sender));
	/*
	 * Alternate between small and long pieces: the small ones are held back until there are
	 * more.
	 */
	for (size_t piece = 100; sent < length; piece = 50100 - piece) {
		if (piece > length - sent)
			piece = length - sent;
		sent += (size_t)must(hamlyn_stream_send(sender, bytes + sent, piece, PATIENCE_MS));
	}
	must(hamlyn_stream_close(sender, PATIENCE_MS));
	free(bytes);
}

static int usage(const char *program)
{
	fprintf(stderr, "usage: %s tagged|datagram|stream listen|receive [bytes]\n", program);
	fprintf(stderr, "       %s tagged|datagram|stream connect HOST [bytes]\n", program);
	fprintf(stderr, "       %s tagged|datagram|stream send TICKET|SEED [bytes]\n", program);
	return 2;
}

int main(int argc, char **argv)
{
	const char *protocol = argc > 2 ? argv[1] : "", *role = argc > 2 ? argv[2] : "";
	int tagged = !strcmp(protocol, "tagged"), datagram = !strcmp(protocol, "datagram");
	int receives = !strcmp(role, "listen") || !strcmp(role, "receive");
	int sends = !strcmp(role, "connect") || !strcmp(role, "send");
	int more = receives ? 3 : 4;
	struct hamlyn_manager *manager;
	struct hamlyn_card *card;
	size_t length;

	if ((!tagged && !datagram && strcmp(protocol, "stream")) || (!receives && !sends) || argc < more)
		return usage(argv[0]);
	by_name = !strcmp(role, "listen") || !strcmp(role, "connect");
	length = argc > more ? strtoul(argv[more], NULL, 10) : 1000;
	must(hamlyn_open(NULL, &card));
	must(hamlyn_manager_create(card, &manager));
	if (receives) {
		length = tagged ? tagged_receive(card, length) :
			 datagram ? datagram_receive(card, manager, length) : stream_receive(card, manager);
		printf("{\"received\":%zu%s}\n", length, datagram ? "" : ",\"verified\":true");
	} else {
		(tagged ? tagged_send : datagram ? datagram_send : stream_send)(card, manager, argv[3], length);
		printf("{\"sent\":%zu}\n", length);
	}
	part(receives);
	hamlyn_manager_destroy(manager);
	hamlyn_close(card);
	return 0;
}
