/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A first program in C: streams by name, in both directions.
 *
 *   c-echo serve NAME            sends back what it receives, one client after the other
 *   c-echo HOST NAME TEXT        sends a text and prints the reply
 *
 * Build it: cc c-echo.c $(pkg-config --cflags --libs hamlyn)
 */
#include <hamlyn.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exits if a call has failed. */
static int must(int outcome)
{
	if (outcome < 0) {
		fprintf(stderr, "error: %s\n", uln_error());
		exit(1);
	}
	return outcome;
}

static void serve(struct hamlyn_manager *manager, const char *name)
{
	struct hamlyn_stream_listener *listener;
	struct hamlyn_stream_sender *sender;
	struct hamlyn_stream_receiver *receiver;
	struct hamlyn_record record;
	int more;

	must(hamlyn_stream_listen(manager, name, &listener));
	puts("{\"listening\":true}");
	fflush(stdout);
	for (;;) {
		more = hamlyn_stream_accept(listener, &sender, &receiver, -1);
		/* The card is gone, and the name with it. */
		if (more == -ENODEV)
			must(more);
		/* A client that cannot be accepted, or dies, does not end the server. */
		if (more < 0) {
			printf("{\"refused\":\"%s\"}\n", uln_error());
			fflush(stdout);
			continue;
		}
		while ((more = hamlyn_stream_receive(receiver, &record, -1)) > 0) {
			more = hamlyn_stream_send(sender, record.data, record.length, -1);
			if (more >= 0)
				more = hamlyn_stream_release(receiver, record.number);
			if (more < 0)
				break;
		}
		if (more == 0)
			more = hamlyn_stream_close(sender, -1);
		else
			hamlyn_stream_sender_destroy(sender);
		printf("{\"ended\":\"%s\"}\n", more < 0 ? uln_error() : "well");
		fflush(stdout);
		hamlyn_stream_receiver_destroy(receiver);
	}
}

static void ask(struct hamlyn_manager *manager, uint32_t host, const char *name, const char *text)
{
	struct hamlyn_stream_sender *sender;
	struct hamlyn_stream_receiver *receiver;
	struct hamlyn_record record;

	must(hamlyn_stream_connect(manager, host, name, &sender, &receiver, 30000));
	must(hamlyn_stream_send(sender, text, strlen(text), -1));
	must(hamlyn_stream_close(sender, -1));
	while (must(hamlyn_stream_receive(receiver, &record, -1))) {
		fwrite(record.data, 1, record.length, stdout);
		must(hamlyn_stream_release(receiver, record.number));
	}
	putchar('\n');
	hamlyn_stream_receiver_destroy(receiver);
}

int main(int argc, char **argv)
{
	int serves = argc == 3 && !strcmp(argv[1], "serve");
	struct hamlyn_manager *manager;
	struct hamlyn_card *card;

	if (!serves && argc != 4) {
		fprintf(stderr, "usage: %s serve NAME | HOST NAME TEXT\n", argv[0]);
		return 2;
	}
	must(hamlyn_open(NULL, &card));
	must(hamlyn_manager_create(card, &manager));
	if (serves)
		serve(manager, argv[2]);
	else
		ask(manager, (uint32_t)strtoul(argv[1], NULL, 10), argv[2], argv[3]);
	hamlyn_manager_destroy(manager);
	hamlyn_close(card);
	return 0;
}
