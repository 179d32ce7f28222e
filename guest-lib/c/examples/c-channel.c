/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A channel between two processes, over any card. It can exchange messages with the Rust
 * program "channel".
 *
 *	c-channel serve		on one machine: echoes every message
 *	c-channel ask TEXT	on another
 */
/* Build it: cc c-channel.c $(pkg-config --cflags --libs hamlyn) */
#include <hamlyn/channel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int must(int outcome)
{
	if (outcome < 0) {
		fprintf(stderr, "%s\n", uln_error());
		exit(1);
	}
	return outcome;
}

/* Echoes the messages of a client until it closes the channel or is lost. */
static void serve_one(struct uln_sender *sender, struct uln_receiver *receiver)
{
	struct uln_message message;
	void *room;

	while (uln_recv(receiver, &message, -1) > 0) {
		if (uln_reserve(sender, message.length, &room, -1) < 0)
			break;
		memcpy(room, message.data, message.length);
		if (uln_commit(sender) < 0)
			break;
	}
	uln_receiver_destroy(receiver);
	uln_sender_destroy(sender);
}

static void serve(const struct uln_card *card)
{
	struct uln_listener *listener;
	struct uln_sender *sender;
	struct uln_receiver *receiver;

	must(uln_listen(card, "channel", NULL, &listener));
	printf("host %d serves by its %s card\n", must(uln_card_host(card)), uln_card_model(card));
	fflush(stdout);
	for (;;) {
		must(uln_accept(listener, &sender, &receiver, -1));
		serve_one(sender, receiver);
	}
}

static void ask(const struct uln_card *card, const char *text)
{
	struct uln_sender *sender;
	struct uln_receiver *receiver;
	struct uln_message message;

	must(uln_connect_any(card, "channel", NULL, &sender, &receiver, -1));
	must(uln_send(sender, text, strlen(text), -1));
	if (must(uln_recv(receiver, &message, -1)) == 0) {
		fprintf(stderr, "the server has closed the channel\n");
		exit(1);
	}
	printf("%.*s\n", (int)message.length, (const char *)message.data);
	must(uln_close(sender, -1));
	uln_receiver_destroy(receiver);
}

int main(int count, char **arguments)
{
	struct uln_card *card;

	must(uln_card_open(NULL, &card));
	if (count == 2 && !strcmp(arguments[1], "serve")) {
		serve(card);
	} else if (count == 3 && !strcmp(arguments[1], "ask")) {
		ask(card, arguments[2]);
	} else {
		fprintf(stderr, "arguments: serve | ask TEXT\n");
		return 2;
	}
	uln_card_close(card);
	return 0;
}
