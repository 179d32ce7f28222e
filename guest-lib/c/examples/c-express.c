/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Channels through memory that two machines share, and that memory alone, in C: docs/express.md.
 *
 *   c-express serve NAME              sends back what it receives, one client after the other
 *   c-express HOST NAME TEXT          sends a text, built where the peer reads it, and prints the
 *                                     reply
 *   c-express messages HOST NAME TEXT the same by card messages
 *   c-express stream-sink NAME        receives and verifies a byte stream, in its own poll(2) loop
 *   c-express stream HOST NAME BYTES  sends a byte stream, in such a loop
 *   c-express area HOST               creates a page for a host, prints its number and key, and
 *                                     answers the process that maps it
 *   c-express view HOST AREA KEY      maps the page, and stores a question there
 *
 * Build it: cc c-express.c $(pkg-config --cflags --libs hamlyn)
 */
#include "common.h"

#include <express.h>

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
static char *copied(struct hamlyn_channel_receiver *receiver, const struct hamlyn_channel_message *message)
{
	char *copy = malloc(message->length + 1);

	if (!copy)
		fail("there is no memory");
	memcpy(copy, message->data, message->length);
	copy[message->length] = 0;
	if (hamlyn_channel_release(receiver) < 0) {
		free(copy);
		return NULL;
	}
	return copy;
}

static void echo(struct hamlyn_channel_sender *sender, struct hamlyn_channel_receiver *receiver)
{
	struct hamlyn_channel_message message;
	unsigned long echoed = 0;
	int more;

	while ((more = hamlyn_channel_receive(receiver, &message, -1)) > 0) {
		char *copy = copied(receiver, &message);

		more = copy ? hamlyn_channel_send(sender, copy, message.length, -1) : -1;
		free(copy);
		if (more < 0)
			break;
		echoed++;
	}
	if (more == 0)
		more = hamlyn_channel_close(sender, -1);
	else
		hamlyn_channel_sender_destroy(sender);
	hamlyn_channel_receiver_destroy(receiver);
	printf("{\"echoed\":%lu,\"ended\":\"%s\"}\n", echoed, more < 0 ? uln_error() : "well");
	fflush(stdout);
}

static void refused(void)
{
	printf("{\"refused\":\"%s\"}\n", uln_error());
	fflush(stdout);
}

static void serve(struct hamlyn_manager *manager, const char *name)
{
	struct hamlyn_channel_listener *listener;
	struct hamlyn_channel_sender *sender;
	struct hamlyn_channel_receiver *receiver;

	must(hamlyn_channel_listen(manager, name, NULL, &listener));
	puts("{\"listening\":true}");
	fflush(stdout);
	for (;;) {
		int outcome = hamlyn_channel_accept(listener, &sender, &receiver, -1);

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

static void ask(struct hamlyn_manager *manager, int by_messages, char **words)
{
	struct hamlyn_channel_options options = { .flags = by_messages ? HAMLYN_CHANNEL_BY_MESSAGES : 0 };
	struct hamlyn_channel_sender *sender;
	struct hamlyn_channel_receiver *receiver;
	struct hamlyn_channel_message message;
	size_t length = strlen(words[2]);
	char *back;
	void *room;

	must(hamlyn_channel_connect(manager, host_of(words[0]), words[1], &options, &sender, &receiver, PATIENCE_MS));
	printf("{\"express\":%s}\n", must(hamlyn_channel_is_express(sender)) ? "true" : "false");
	must(hamlyn_channel_reserve(sender, length, &room, -1));
	memcpy(room, words[2], length);
	must(hamlyn_channel_commit(sender));
	if (!must(hamlyn_channel_receive(receiver, &message, PATIENCE_MS)))
		fail("the other side has closed");
	back = copied(receiver, &message);
	if (!back)
		fail(uln_error());
	printf("{\"back\":\"%s\"}\n", back);
	free(back);
	must(hamlyn_channel_close(sender, -1));
	if (must(hamlyn_channel_receive(receiver, &message, PATIENCE_MS)))
		fail("more came back than was sent");
	hamlyn_channel_receiver_destroy(receiver);
}

/* An end of a stream that waits only in poll(2), where a program can wait for other files too. */
struct loop {
	struct hamlyn_manager *manager;
	struct hamlyn_channel_receiver *receiver;
	/* The manager's file, and the one that reports the end of the peer. */
	struct pollfd files[2];
	int timeout_ms;
	/* How often the timeout may still expire. */
	int may_run_out;
	unsigned long sleeps;
};

static void begin(struct loop *loop, struct hamlyn_manager *manager, struct hamlyn_channel_sender *sender,
		  struct hamlyn_channel_receiver *receiver)
{
	*loop = (struct loop){ .manager = manager, .receiver = receiver, .timeout_ms = PATIENCE_MS };
	loop->files[0] = (struct pollfd){ .fd = must(hamlyn_manager_fd(manager)), .events = POLLIN };
	loop->files[1] = (struct pollfd){ .fd = must(hamlyn_channel_peer_fd(receiver)), .events = POLLIN };
	printf("{\"express\":%s}\n", must(hamlyn_channel_is_express(sender)) ? "true" : "false");
	fflush(stdout);
}

static void sleep_in_poll(struct loop *loop)
{
	int left;

	loop->sleeps++;
	if (poll(loop->files, 2, loop->timeout_ms) == 0 && loop->may_run_out-- == 0)
		fail("nothing happens");
	if (!loop->files[1].revents)
		return;
	left = hamlyn_channel_peer_ended(loop->receiver);
	if (left == -EAGAIN)
		return;
	/*
	 * Data that arrived before the end must still be read. The file stays readable, and has
	 * nothing more to report.
	 */
	loop->timeout_ms = must(left);
	loop->may_run_out = 1;
	loop->files[1].fd = -1;
}

/*
 * Waits until there may be room for `room` bytes if a sender is given, else until bytes may have
 * arrived. The caller then tries again.
 */
static void wait_for_change(struct loop *loop, struct hamlyn_channel_sender *sender, size_t room)
{
	int changed = must(sender ? hamlyn_channel_arm_room(sender, room) : hamlyn_channel_arm(loop->receiver));

	/* Arm both, whatever the first call returns. */
	changed |= must(hamlyn_manager_arm(loop->manager));
	if (!changed)
		sleep_in_poll(loop);
	must(hamlyn_manager_poll(loop->manager));
}

/* Reads as many bytes as are available, at least one; returns 0 if the peer has closed. */
static size_t next_bytes(struct loop *loop, void *to, size_t length)
{
	int came;

	while ((came = hamlyn_channel_read(loop->receiver, to, length, 0)) == -EAGAIN)
		wait_for_change(loop, NULL, 0);
	return (size_t)must(came);
}

static void sink(struct hamlyn_manager *manager, const char *name)
{
	struct hamlyn_channel_options options = { .capacity = RING, .polling_us = ULN_NO_POLLING };
	struct hamlyn_channel_listener *listener;
	struct hamlyn_channel_sender *sender;
	struct hamlyn_channel_receiver *receiver;
	unsigned char bytes[1500];
	uint64_t received = 0;
	struct loop loop;
	size_t came;

	must(hamlyn_channel_listen(manager, name, &options, &listener));
	puts("{\"listening\":true}");
	fflush(stdout);
	must(hamlyn_channel_accept(listener, &sender, &receiver, PATIENCE_MS));
	begin(&loop, manager, sender, receiver);
	while ((came = next_bytes(&loop, bytes, sizeof(bytes))) > 0) {
		for (size_t at = 0; at < came; at++) {
			if (bytes[at] != pattern(SEED, (size_t)received + at))
				fail("a byte is wrong");
		}
		received += came;
	}
	/* Only one direction is closed: the peer still waits for this. */
	must(hamlyn_channel_write(sender, &received, sizeof(received), PATIENCE_MS));
	must(hamlyn_channel_close(sender, PATIENCE_MS));
	hamlyn_channel_receiver_destroy(receiver);
	hamlyn_channel_listener_destroy(listener);
	printf("{\"received\":%llu,\"verified\":true,\"sleeps\":%lu}\n", (unsigned long long)received, loop.sleeps);
}

static void stream(struct hamlyn_manager *manager, char **words)
{
	struct hamlyn_channel_options options = { .polling_us = ULN_NO_POLLING };
	size_t length = strtoul(words[2], NULL, 10), sent = 0, piece;
	unsigned char *data = malloc(length + 1);
	struct hamlyn_channel_sender *sender;
	struct hamlyn_channel_receiver *receiver;
	uint64_t confirmed;
	struct loop loop;

	if (!data)
		fail("there is no memory");
	fill(SEED, data, length);
	must(hamlyn_channel_connect(manager, host_of(words[0]), words[1], &options, &sender, &receiver, PATIENCE_MS));
	begin(&loop, manager, sender, receiver);
	/* Larger pieces are never sent at once, and there is no way to wait for more room. */
	piece = (size_t)must(hamlyn_channel_longest(sender)) / 4;
	while (sent < length) {
		size_t next = length - sent < piece ? length - sent : piece;
		int went = hamlyn_channel_write(sender, data + sent, next, 0);

		if (went == -EAGAIN)
			wait_for_change(&loop, sender, next);
		else
			sent += (size_t)must(went);
	}
	free(data);
	must(hamlyn_channel_close(sender, PATIENCE_MS));
	/* The peer wrote it in one piece, so it arrives as one. */
	if (next_bytes(&loop, &confirmed, sizeof(confirmed)) != sizeof(confirmed))
		fail("the other side has closed");
	if (next_bytes(&loop, &(char){ 0 }, 1))
		fail("more came back than was due");
	hamlyn_channel_receiver_destroy(receiver);
	printf("{\"sent\":%zu,\"confirmed\":%llu,\"sleeps\":%lu}\n", sent, (unsigned long long)confirmed, loop.sleeps);
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

static void channels(struct hamlyn_card *card, int argc, char **argv)
{
	int is_sink = !strcmp(argv[1], "stream-sink"), streams = argc == 5 && !strcmp(argv[1], "stream");
	/* For a loop that sleeps in poll(2), calls must not busy-poll. */
	struct hamlyn_manager_options options = { .polling_us = is_sink || streams ? ULN_NO_POLLING : 0 };
	struct hamlyn_manager *manager;

	must(hamlyn_manager_create_with(card, &options, &manager));
	if (is_sink)
		sink(manager, argv[2]);
	else if (streams)
		stream(manager, argv + 2);
	else if (argc == 3)
		serve(manager, argv[2]);
	else
		ask(manager, argc == 5, argv + argc - 3);
	hamlyn_manager_destroy(manager);
}

/*
 * Returns the number of words of a command, including the program's name. A command without a name
 * is HOST NAME TEXT.
 */
static int words_of(const char *command)
{
	static const char *const of_one[] = { "serve", "stream-sink", "area" }, *const of_three[] = { "messages", "stream", "view" };

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
	struct hamlyn_card *card;

	if (argc < 2 || argc != words_of(argv[1])) {
		fprintf(stderr,
			"usage: %s serve NAME | [messages] HOST NAME TEXT | stream-sink NAME | stream HOST NAME BYTES"
			" | area HOST | view HOST AREA KEY\n",
			argv[0]);
		return 2;
	}
	must(hamlyn_open(NULL, &card));
	if (!strcmp(argv[1], "area"))
		area(card, host_of(argv[2]));
	else if (!strcmp(argv[1], "view"))
		view(card, argv + 2);
	else
		channels(card, argc, argv);
	hamlyn_close(card);
	return 0;
}
