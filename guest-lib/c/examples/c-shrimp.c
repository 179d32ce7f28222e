/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SHRIMP cards in C: what one process stores in its memory arrives in another process' memory.
 *
 *   c-shrimp receive             has memory, and takes a message and pages from a sender
 *   c-shrimp send [BYTES]        stores a message there, and sends BYTES bytes of pages
 *
 * The receiver accepts the connection with the handle of its memory. The sender passes a handle
 * with its request: the receiver stores an answer in that memory. The Rust example "shrimp hello"
 * is the same without an answer, so either end works with either.
 *
 * Build it: cc c-shrimp.c $(pkg-config --cflags --libs hamlyn)
 */
#include <shrimp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "shrimp-hello"
#define PATIENCE_MS 60000

/*
 * Memory layout: the message's length, or 0 if there is no message; the number of bytes of pages
 * that have arrived; the message; the pages.
 */
#define FLAG 0
#define PAGES_FLAG 4
#define MESSAGE 8
#define PAGES 4096
#define MOST 20000

/* Exits if a call has failed. */
static int must(int outcome)
{
	if (outcome < 0) {
		printf("{\"error\":\"%s\"}\n", uln_error());
		exit(1);
	}
	return outcome;
}

static void say(const char *line)
{
	printf("%s\n", line);
	fflush(stdout);
}

/*
 * Returns a byte of the pages' test pattern, which the peer can check: SplitMix64, 8 bytes per
 * word.
 */
static unsigned char pattern(size_t at)
{
	uint64_t word = 7 + (at / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return (unsigned char)((word ^ word >> 31) >> at % 8 * 8);
}

static struct shrimp_receive_buffer *export_memory(struct shrimp_card *card, size_t length, struct shrimp_handle *handle)
{
	struct shrimp_receive_buffer *buffer;

	must(shrimp_export(card, length, SHRIMP_ALL_HOSTS, &buffer));
	must(shrimp_receive_buffer_handle(buffer, handle));
	return buffer;
}

/* Takes the handle that was passed. Returns 0 if there was none. */
static int passed_handle(const struct uln_passed *passed, struct shrimp_handle *handle)
{
	if (passed->length != sizeof(*handle))
		return 0;
	memcpy(handle, passed->data, sizeof(*handle));
	return 1;
}

/*
 * Stores a message and then its length. The stores themselves are sent, and a reader that sees the
 * last store sees all of them.
 */
static void store_message(struct shrimp_send_buffer *to, const char *text)
{
	struct shrimp_memory memory;

	must(shrimp_write(to, MESSAGE, text, strlen(text)));
	/* Like shrimp_store(to, FLAG, strlen(text), 4), but a plain store without checks. */
	must(shrimp_get_memory(to, &memory));
	__atomic_store_n((uint32_t *)((char *)memory.stores + FLAG), (uint32_t)strlen(text), __ATOMIC_RELEASE);
}

static void print_message(struct shrimp_receive_buffer *buffer, const char *what)
{
	uint32_t length;

	must(shrimp_wait(buffer, FLAG, 0, &length, PATIENCE_MS));
	if (length > PAGES - MESSAGE)
		length = PAGES - MESSAGE;
	printf("{\"%s\":\"%.*s\"}\n", what, (int)length, (char *)shrimp_receive_buffer_data(buffer) + MESSAGE);
	fflush(stdout);
}

static void verify(struct shrimp_receive_buffer *buffer)
{
	const unsigned char *pages = (unsigned char *)shrimp_receive_buffer_data(buffer) + PAGES;
	uint32_t length;

	must(shrimp_wait(buffer, PAGES_FLAG, 0, &length, PATIENCE_MS));
	if (length > MOST)
		length = MOST;
	for (size_t at = 0; at < length; at++) {
		if (pages[at] != pattern(at)) {
			printf("{\"error\":\"byte %zu is wrong\"}\n", at);
			exit(1);
		}
	}
	printf("{\"received\":%u,\"verified\":true}\n", length);
}

static void receive(struct shrimp_card *card)
{
	struct shrimp_receive_buffer *buffer;
	struct shrimp_send_buffer *back = NULL;
	struct shrimp_handle handle, other;
	struct uln_connection *connection;
	struct uln_name_listener *listener;
	struct uln_request *request;
	struct uln_passed passed;

	buffer = export_memory(card, PAGES + MOST, &handle);
	must(shrimp_listen(card, NAME, 1, &listener));
	say("{\"listening\":\"" NAME "\"}");
	must(uln_name_listener_request(listener, &request, PATIENCE_MS));
	must(uln_request_passed(request, &passed));
	if (passed_handle(&passed, &other))
		must(shrimp_map(card, &other, 0, PAGES, SHRIMP_MODE_BLOCKED, &back));
	must(uln_request_accept(request, &handle, sizeof(handle), &connection));
	print_message(buffer, "message");
	verify(buffer);
	if (back)
		store_message(back, "hello yourself");
	/* Earlier stores arrive before the end. */
	must(uln_connection_close(connection, "thank you", 9));
	shrimp_send_buffer_destroy(back);
	uln_name_listener_destroy(listener);
	shrimp_receive_buffer_destroy(buffer);
}

static void send_pages(struct shrimp_card *card, const struct shrimp_handle *handle, size_t length)
{
	struct shrimp_send_buffer *pages;
	struct shrimp_memory memory;

	must(shrimp_map(card, handle, PAGES, length, SHRIMP_MODE_DELIBERATE, &pages));
	must(shrimp_get_memory(pages, &memory));
	for (size_t at = 0; at < length; at++)
		((unsigned char *)memory.stores)[at] = pattern(at);
	must(shrimp_send(pages, 0, length));
	/* Later stores arrive after the pages. */
	must(shrimp_wait_until_sent(pages, PATIENCE_MS));
	shrimp_send_buffer_destroy(pages);
}

static void send_all(struct shrimp_card *card, size_t length)
{
	struct shrimp_receive_buffer *answer;
	struct shrimp_send_buffer *front;
	struct shrimp_handle own, handle;
	struct uln_connection *connection;
	struct uln_passed passed;
	struct uln_end end;

	answer = export_memory(card, PAGES, &own);
	must(shrimp_connect_any(card, 0, NAME, &own, sizeof(own), &connection, PATIENCE_MS));
	must(uln_connection_passed(connection, &passed));
	if (!passed_handle(&passed, &handle)) {
		say("{\"error\":\"no handle was passed\"}");
		exit(1);
	}
	must(shrimp_map(card, &handle, 0, PAGES, SHRIMP_MODE_SINGLE, &front));
	store_message(front, "hello from C");
	send_pages(card, &handle, length);
	must(shrimp_store(front, PAGES_FLAG, length, 4));
	/* The buffers must live until everything has arrived: the receiver reports that. */
	must(uln_connection_end(connection, &end, PATIENCE_MS));
	printf("{\"sent\":%zu,\"end\":\"%.*s\"}\n", length, (int)end.length, (const char *)end.data);
	if (*(volatile uint32_t *)((char *)shrimp_receive_buffer_data(answer) + FLAG))
		print_message(answer, "answer");
	uln_connection_destroy(connection);
	shrimp_send_buffer_destroy(front);
	shrimp_receive_buffer_destroy(answer);
}

int main(int argc, char **argv)
{
	int sends = argc > 1 && !strcmp(argv[1], "send");
	size_t length = argc > 2 ? strtoul(argv[2], NULL, 10) : MOST;
	struct shrimp_card *card;

	if (argc < 2 || argc > 2 + sends || (!sends && strcmp(argv[1], "receive"))) {
		fprintf(stderr, "usage: %s receive | send [BYTES]\n", argv[0]);
		return 2;
	}
	must(shrimp_open(NULL, &card));
	if (sends)
		send_all(card, length);
	else
		receive(card);
	shrimp_close(card);
	return 0;
}
