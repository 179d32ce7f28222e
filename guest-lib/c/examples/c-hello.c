/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The first program with a Hamlyn card, in C. It can exchange messages with the Rust one. */
/* Build it: cc c-hello.c $(pkg-config --cflags --libs hamlyn) */
#include <hamlyn.h>

#include <stdio.h>
#include <stdlib.h>

static void must(int outcome)
{
	if (outcome < 0) {
		fprintf(stderr, "%s\n", uln_error());
		exit(1);
	}
}

/* Creates a receiver, prints its seed, and prints what arrives. */
static void receive(const struct hamlyn_manager *manager)
{
	struct hamlyn_stream_receiver *stream;
	struct hamlyn_record record;
	struct hamlyn_seed seed;
	char text[HAMLYN_TEXT_SIZE];
	int more;

	must(hamlyn_stream_receiver_create(manager, NULL, &stream));
	must(hamlyn_stream_receiver_seed(stream, &seed));
	must(hamlyn_seed_print(&seed, text, sizeof(text)));
	printf("%s\n", text);
	fflush(stdout);
	while ((more = hamlyn_stream_receive(stream, &record, -1)) > 0) {
		printf("%.*s\n", (int)record.length, (const char *)record.data);
		must(hamlyn_stream_release(stream, record.number));
	}
	must(more);
	hamlyn_stream_receiver_destroy(stream);
}

/* Creates the sender from the receiver's seed, and sends one message. */
static void send_to(const struct hamlyn_manager *manager, const char *text)
{
	struct hamlyn_stream_sender *stream;
	struct hamlyn_seed seed;

	must(hamlyn_seed_parse(text, &seed));
	must(hamlyn_stream_sender_create(manager, &seed, &stream));
	must(hamlyn_stream_send(stream, "hello over there", 16, -1));
	must(hamlyn_stream_close(stream, -1));
}

int main(int count, char **arguments)
{
	struct hamlyn_card *card;
	struct hamlyn_manager *manager;

	must(hamlyn_open(NULL, &card));
	must(hamlyn_manager_create(card, &manager));
	if (count > 1)
		send_to(manager, arguments[1]);
	else
		receive(manager);
	hamlyn_manager_destroy(manager);
	hamlyn_close(card);
	return 0;
}
