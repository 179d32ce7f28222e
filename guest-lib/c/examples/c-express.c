/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Channels through memory that two machines share, in C: docs/express.md.
 *
 *   c-express serve NAME            sends back what comes, to one after the other
 *   c-express HOST NAME TEXT        sends a text, built where the other side reads it, and prints what comes back
 *   c-express messages HOST NAME TEXT      the same by messages of cards
 *
 * Build it: cc c-express.c $(pkg-config --cflags --libs hamlyn)
 */
#include "common.h"

#include <express.h>

#include <string.h>

/* What is to be believed is copied first: the other side may change a message for as long as it is there. */
static void echo(struct hamlyn_channel_sender *sender, struct hamlyn_channel_receiver *receiver)
{
	struct hamlyn_channel_message message;
	unsigned long echoed = 0;
	int more;

	while ((more = hamlyn_channel_receive(receiver, &message, -1)) > 0) {
		size_t length = message.length;
		char *copy = malloc(length + 1);

		if (!copy)
			fail("there is no memory");
		memcpy(copy, message.data, length);
		must(hamlyn_channel_release(receiver));
		more = hamlyn_channel_send(sender, copy, length, -1);
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
	printf("{\"echoed\":%lu,\"ended\":\"%s\"}\n", echoed, more < 0 ? hamlyn_error() : "well");
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
		must(hamlyn_channel_accept(listener, &sender, &receiver, -1));
		echo(sender, receiver);
	}
}

static void ask(struct hamlyn_manager *manager, int by_messages, char **words)
{
	struct hamlyn_channel_options options = { .flags = by_messages ? HAMLYN_CHANNEL_BY_MESSAGES : 0 };
	struct hamlyn_channel_sender *sender;
	struct hamlyn_channel_receiver *receiver;
	struct hamlyn_channel_message message;
	uint32_t host = (uint32_t)strtoul(words[0], NULL, 10);
	size_t length = strlen(words[2]);
	void *room;

	must(hamlyn_channel_connect(manager, host, words[1], &options, &sender, &receiver, 30000));
	printf("{\"express\":%s}\n", must(hamlyn_channel_is_express(sender)) ? "true" : "false");
	must(hamlyn_channel_reserve(sender, length, &room, -1));
	memcpy(room, words[2], length);
	must(hamlyn_channel_commit(sender));
	if (!must(hamlyn_channel_receive(receiver, &message, 30000)))
		fail("the other side has closed");
	printf("{\"back\":\"%.*s\"}\n", (int)message.length, (const char *)message.data);
	must(hamlyn_channel_release(receiver));
	must(hamlyn_channel_close(sender, -1));
	if (must(hamlyn_channel_receive(receiver, &message, 30000)))
		fail("more came back than was sent");
	hamlyn_channel_receiver_destroy(receiver);
}

int main(int argc, char **argv)
{
	int serves = argc == 3 && !strcmp(argv[1], "serve");
	int by_messages = argc == 5 && !strcmp(argv[1], "messages");
	struct hamlyn_manager *manager;
	struct hamlyn_card *card;

	if (!serves && !by_messages && argc != 4) {
		fprintf(stderr, "usage: %s serve NAME | [messages] HOST NAME TEXT\n", argv[0]);
		return 2;
	}
	must(hamlyn_open(NULL, &card));
	must(hamlyn_manager_create(card, &manager));
	if (serves)
		serve(manager, argv[2]);
	else
		ask(manager, by_messages, argv + argc - 3);
	hamlyn_manager_destroy(manager);
	hamlyn_close(card);
	return 0;
}
