/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Channels over memory that two machines share, and that memory alone, in C: docs/express.md.
 *
 *   c-express serve NAME              sends back what it receives, one client after the other
 *   c-express HOST NAME TEXT          sends a text, built where the peer reads it, and prints the
 *                                     reply
 *   c-express card HOST NAME TEXT     the same by the card
 *   c-express stream-sink NAME        receives and verifies a stream, in its own poll(2) loop
 *   c-express stream HOST NAME BYTES  sends a stream, in such a loop
 *   c-express area HOST               creates a page for a host, prints its number and key, and
 *                                     answers the process that maps it
 *   c-express view HOST AREA KEY      maps the page, and stores a question there
 *
 * Build it: cc c-express.c $(pkg-config --cflags --libs hamlyn)
 */
#include "common.h"

#include <express.h>
#include <hamlyn/channel.h>

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Timeout of every step. */
#define PATIENCE_MS 30000
/*
 * A stream's test pattern, and its ring, which is so short that both ends have to wait for each
 * other.
 */
#define SEED 1
#define RING 4096
/* The number that a view adds. */
#define ADDED 3

static uint32_t host_of(const char *word)
{
	return (uint32_t)strtoul(word, NULL, 10);
}

/*
 * Copies a message and releases it, because the peer may change it until it is released. Returns
 * NULL if its memory was already gone, for example after a card reset.
 */
static char *copied(struct uln_receiver *receiver, const struct uln_message *message)
{
	char *copy = malloc(message->length + 1);

	if (!copy)
		fail("there is no memory");
	memcpy(copy, message->data, message->length);
	copy[message->length] = 0;
	if (uln_release(receiver) < 0) {
		free(copy);
		return NULL;
	}
	return copy;
}

static void echo(struct uln_sender *sender, struct uln_receiver *receiver)
{
	struct uln_message message;
	unsigned long echoed = 0;
	int more;

	while ((more = uln_recv(receiver, &message, -1)) > 0) {
		char *copy = copied(receiver, &message);

		more = copy ? uln_send(sender, copy, message.length, -1) : -1;
		free(copy);
		if (more < 0)
			break;
		echoed++;
	}
	if (more == 0)
		more = uln_close(sender, -1);
	else
		uln_sender_destroy(sender);
	uln_receiver_destroy(receiver);
	printf("{\"echoed\":%lu,\"ended\":\"%s\"}\n", echoed, more < 0 ? uln_error() : "well");
	fflush(stdout);
}

static void refused(void)
{
	printf("{\"refused\":\"%s\"}\n", uln_error());
	fflush(stdout);
}

static void serve(struct uln_card *card, const char *name)
{
	struct uln_listener *listener;
	struct uln_sender *sender;
	struct uln_receiver *receiver;

	must(uln_listen(card, name, NULL, &listener));
	puts("{\"listening\":true}");
	fflush(stdout);
	for (;;) {
		int outcome = uln_accept(listener, &sender, &receiver, -1);

		/* The card is gone, and the name with it. */
		if (outcome == -ENODEV)
			must(outcome);
		/* A client that cannot be accepted, or dies meanwhile, does not end the server. */
		if (outcome < 0)
			refused();
		else
			echo(sender, receiver);
	}
}

static void ask(struct uln_card *card, int by_card, char **words)
{
	struct uln_options options = { .flags = by_card ? ULN_BY_CARD : 0 };
	struct uln_sender *sender;
	struct uln_receiver *receiver;
	struct uln_message message;
	size_t length = strlen(words[2]);
	char *back;
	void *room;

	must(uln_connect(card, host_of(words[0]), words[1], &options, &sender, &receiver, PATIENCE_MS));
	printf("{\"express\":%s}\n", must(uln_is_express(sender)) ? "true" : "false");
	must(uln_reserve(sender, length, &room, -1));
	memcpy(room, words[2], length);
	must(uln_commit(sender));
	if (!must(uln_recv(receiver, &message, PATIENCE_MS)))
		fail("the other side has closed");
	back = copied(receiver, &message);
	if (!back)
		fail(uln_error());
	printf("{\"back\":\"%s\"}\n", back);
	free(back);
	must(uln_close(sender, -1));
	if (must(uln_recv(receiver, &message, PATIENCE_MS)))
		fail("more came back than was sent");
	uln_receiver_destroy(receiver);
}

/* An end of a stream that waits only in poll(2), where a program can wait for other files too. */
struct loop {
	struct uln_sender *sender;
	struct uln_receiver *receiver;
	unsigned long sleeps;
};

static void begin(const struct loop *loop)
{
	printf("{\"express\":%s}\n", must(uln_is_express(loop->sender)) ? "true" : "false");
	fflush(stdout);
}

/* Sleeps until the armed file of a half has something to report. */
static void sleep_in_poll(struct loop *loop, int file)
{
	struct pollfd polled = { .fd = file, .events = POLLIN };

	loop->sleeps++;
	if (poll(&polled, 1, PATIENCE_MS) == 0)
		fail("nothing happens");
}

static void send_piece(struct loop *loop, const void *data, size_t length)
{
	int sent;

	while ((sent = uln_send(loop->sender, data, length, 0)) == -EAGAIN) {
		if (!must(uln_sender_arm(loop->sender, length)))
			sleep_in_poll(loop, must(uln_sender_fd(loop->sender)));
	}
	must(sent);
}

/* Receives the next piece; returns 0 if the peer has closed. */
static int next_piece(struct loop *loop, struct uln_message *message)
{
	int more;

	while ((more = uln_recv(loop->receiver, message, 0)) == -EAGAIN) {
		if (!must(uln_receiver_arm(loop->receiver)))
			sleep_in_poll(loop, must(uln_receiver_fd(loop->receiver)));
	}
	return must(more);
}

static void sink(struct uln_card *card, const char *name)
{
	struct uln_options options = { .capacity = RING, .polling_us = ULN_NO_POLLING };
	struct uln_listener *listener;
	struct uln_message message;
	struct loop loop = { .sleeps = 0 };
	uint64_t received = 0;

	must(uln_listen(card, name, &options, &listener));
	puts("{\"listening\":true}");
	fflush(stdout);
	must(uln_accept(listener, &loop.sender, &loop.receiver, PATIENCE_MS));
	begin(&loop);
	while (next_piece(&loop, &message)) {
		size_t length = message.length;
		char *bytes = copied(loop.receiver, &message);

		if (!bytes)
			fail(uln_error());
		for (size_t at = 0; at < length; at++) {
			if ((unsigned char)bytes[at] != pattern(SEED, (size_t)received + at))
				fail("a byte is wrong");
		}
		free(bytes);
		received += length;
	}
	/* Only one direction is closed: the peer still waits for this. */
	must(uln_send(loop.sender, &received, sizeof(received), PATIENCE_MS));
	must(uln_close(loop.sender, PATIENCE_MS));
	uln_receiver_destroy(loop.receiver);
	uln_listener_destroy(listener);
	printf("{\"received\":%llu,\"verified\":true,\"sleeps\":%lu}\n", (unsigned long long)received, loop.sleeps);
}

static void stream(struct uln_card *card, char **words)
{
	struct uln_options options = { .polling_us = ULN_NO_POLLING };
	size_t length = strtoul(words[2], NULL, 10), sent, piece;
	unsigned char *data = malloc(length + 1);
	struct uln_message message;
	struct loop loop = { .sleeps = 0 };
	uint64_t confirmed;

	if (!data)
		fail("there is no memory");
	fill(SEED, data, length);
	must(uln_connect(card, host_of(words[0]), words[1], &options, &loop.sender, &loop.receiver, PATIENCE_MS));
	begin(&loop);
	/* Both ends work at the same time if several pieces fit into the ring. */
	piece = (size_t)must(uln_longest(loop.sender)) / 2;
	for (sent = 0; sent < length; sent += piece)
		send_piece(&loop, data + sent, length - sent < piece ? length - sent : piece);
	free(data);
	must(uln_close(loop.sender, PATIENCE_MS));
	if (!next_piece(&loop, &message) || message.length != sizeof(confirmed))
		fail("the other side has closed");
	memcpy(&confirmed, message.data, sizeof(confirmed));
	if (next_piece(&loop, &message))
		fail("more came back than was due");
	uln_receiver_destroy(loop.receiver);
	printf("{\"sent\":%zu,\"confirmed\":%llu,\"sleeps\":%lu}\n", length, (unsigned long long)confirmed, loop.sleeps);
}

/*
 * Layout of a page, initially zero. The process at the other end may store anything, so each word
 * is loaded once.
 */
struct page {
	/* Stored by the view: a number of its own. */
	_Atomic uint64_t number;
	/* Stored by both. */
	_Atomic uint64_t sum;
	/* Stored by the area. */
	_Atomic uint64_t answer;
	/* Stored by the view. */
	_Atomic uint64_t state;
};

/* For page.state: the view waits for the answer, or has taken it. */
enum { WAITS = 1, TAKEN };

static uint64_t load(_Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_acquire);
}

/*
 * Stores a word. A process that sees it sees all earlier stores. C's default atomic stores are
 * barriers too, but not on an emulated processor.
 */
static void store(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

/*
 * Polls memory with naps in between, because there is no wake-up for plain memory. Programs that
 * need wake-ups use channels.
 */
static uint64_t wait_for_word(_Atomic uint64_t *word, uint64_t least)
{
	uint64_t value;

	for (int naps = 0; (value = load(word)) < least; naps++) {
		if (naps == PATIENCE_MS)
			fail("the other side stores nothing");
		usleep(1000);
	}
	return value;
}

static void area(struct hamlyn_card *card, uint32_t host)
{
	struct hamlyn_express_info info;
	struct hamlyn_express_area *area;
	uint64_t key, found, sum;
	struct page *page;
	uint32_t number;
	void *memory;
	size_t length;

	must(hamlyn_express_area_create(card, host, 4096, &area));
	must(hamlyn_express_area_memory(area, &memory, &length));
	must(hamlyn_express_area_name(area, &number, &key));
	must(hamlyn_express_get_info(card, host, &info));
	printf("{\"area\":%u,\"key\":%llu,\"bytes\":%zu,\"used\":%u}\n", number, (unsigned long long)key, length, info.used);
	fflush(stdout);
	page = memory;
	found = wait_for_word(&page->number, 1);
	sum = wait_for_word(&page->sum, 1);
	store(&page->answer, found + sum);
	/*
	 * The answer is stored before this load, and the view's word before the view's load of the
	 * answer: so at least one side sees the other's store. Without barriers both could load too
	 * early. If one had to wake the other, the other would then sleep forever.
	 */
	hamlyn_express_barrier();
	printf("{\"number\":%llu,\"sum\":%llu,\"waited\":%s}\n", (unsigned long long)found, (unsigned long long)sum,
	       load(&page->state) ? "true" : "false");
	fflush(stdout);
	/*
	 * Once the area is destroyed, the view sees other memory. So wait until it has the answer.
	 */
	wait_for_word(&page->state, TAKEN);
	hamlyn_express_area_destroy(area);
	puts("{\"given\":true}");
}

static void view(struct hamlyn_card *card, char **words)
{
	uint32_t number = (uint32_t)strtoul(words[1], NULL, 10);
	uint64_t key = strtoull(words[2], NULL, 10), mine = (uint64_t)getpid(), was, answer;
	struct hamlyn_express_view *view;
	struct page *page;
	void *memory;
	size_t length;
	int at_once;

	must(hamlyn_express_view_map(card, host_of(words[0]), number, key, &view));
	must(hamlyn_express_view_memory(view, &memory, &length));
	page = memory;
	was = atomic_fetch_add(&page->sum, ADDED);
	store(&page->number, mine);
	store(&page->state, WAITS);
	/* As in the area: after storing that it waits, the view must look once more. */
	hamlyn_express_barrier();
	at_once = load(&page->answer) != 0;
	answer = wait_for_word(&page->answer, 1);
	store(&page->state, TAKEN);
	hamlyn_express_view_destroy(view);
	printf("{\"bytes\":%zu,\"number\":%llu,\"was\":%llu,\"answer\":%llu,\"at_once\":%s}\n", length, (unsigned long long)mine,
	       (unsigned long long)was, (unsigned long long)answer, at_once ? "true" : "false");
}

static void channels(int argc, char **argv)
{
	struct uln_card *card;

	must(uln_card_open(NULL, &card));
	if (!strcmp(argv[1], "stream-sink"))
		sink(card, argv[2]);
	else if (argc == 5 && !strcmp(argv[1], "stream"))
		stream(card, argv + 2);
	else if (argc == 3)
		serve(card, argv[2]);
	else
		ask(card, argc == 5, argv + argc - 3);
	uln_card_close(card);
}

static void pages(char **argv)
{
	struct hamlyn_card *card;

	must(hamlyn_open(NULL, &card));
	if (!strcmp(argv[1], "area"))
		area(card, host_of(argv[2]));
	else
		view(card, argv + 2);
	hamlyn_close(card);
}

/*
 * Returns the number of words of a command, including the program's name. A command without a name
 * is HOST NAME TEXT.
 */
static int words_of(const char *command)
{
	static const char *const of_one[] = { "serve", "stream-sink", "area" }, *const of_three[] = { "card", "stream", "view" };

	for (size_t at = 0; at < 3; at++) {
		if (!strcmp(command, of_one[at]))
			return 3;
		if (!strcmp(command, of_three[at]))
			return 5;
	}
	return 4;
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc != words_of(argv[1])) {
		fprintf(stderr,
			"usage: %s serve NAME | [card] HOST NAME TEXT | stream-sink NAME | stream HOST NAME BYTES"
			" | area HOST | view HOST AREA KEY\n",
			argv[0]);
		return 2;
	}
	if (!strcmp(argv[1], "area") || !strcmp(argv[1], "view"))
		pages(argv);
	else
		channels(argc, argv);
	return 0;
}
