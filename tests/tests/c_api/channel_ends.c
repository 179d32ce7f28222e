/*
 * Both ends of a channel by hamlyn/channel.h, which uses the card because the fabric has one host.
 * The other end is a thread that sends back every message.
 */
#define _DEFAULT_SOURCE
#include <hamlyn/channel.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct uln_listener *listener;

static int failed(int outcome)
{
	if (outcome < 0)
		fprintf(stderr, "%s\n", uln_error());
	return outcome < 0;
}

static void *echo(void *nothing)
{
	struct uln_sender *sender;
	struct uln_receiver *receiver;
	struct uln_message message;
	void *room;

	if (failed(uln_accept(listener, &sender, &receiver, 60000)))
		return nothing;
	while (uln_recv(receiver, &message, 60000) == 1) {
		if (failed(uln_reserve(sender, message.length, &room, 60000)))
			return nothing;
		memcpy(room, message.data, message.length);
		if (failed(uln_commit(sender)))
			return nothing;
	}
	failed(uln_close(sender, 60000));
	uln_receiver_destroy(receiver);
	return nothing;
}

int main(void)
{
	struct uln_options options = { 8192, ULN_NO_POLLING, ULN_BY_CARD, { 0 } };
	struct uln_options wrong = { .flags = 2 }, later = { .reserved = { 1 } }, huge = { .capacity = 1 << 30 };
	struct uln_message message;
	struct uln_listener *other;
	struct uln_receiver *receiver;
	struct uln_sender *sender;
	struct uln_card *card;
	uint64_t behind, position;
	pthread_t thread;
	void *room;

	if (failed(uln_card_open(NULL, &card)) || failed(uln_listen(card, "both", NULL, &listener)))
		return 1;
#define SAY(call) printf("%d\n", (int)(call))
	SAY(uln_version() == ULN_VERSION);
	SAY(strcmp(uln_card_model(card), "hamlyn"));
	SAY(uln_card_model(NULL) == NULL);
	SAY(uln_card_host(card));
	SAY(uln_listener_fd(listener) > 2);
	SAY(uln_accept(listener, &sender, &receiver, 0));
	SAY(uln_listen(card, "both", NULL, &other));
	SAY(uln_listen(card, "other", &wrong, &other));
	SAY(uln_listen(card, "other", &later, &other));
	SAY(uln_listen(card, "other", &huge, &other));
	SAY(uln_connect(card, 0, "absent", NULL, &sender, &receiver, 60000));
	SAY(uln_connect_any(card, "absent", NULL, &sender, &receiver, 60000));
	pthread_create(&thread, NULL, echo, NULL);
	SAY(uln_connect(card, 0, "both", &options, &sender, &receiver, 60000));
	SAY(uln_is_express(sender));
	SAY(uln_longest(sender) > 1000);
	SAY(uln_recv(receiver, &message, 0));
	SAY(uln_recv(receiver, &message, 1));
	SAY(uln_commit(sender));
	SAY(uln_put(sender));
	SAY(uln_send(sender, NULL, 1, 0));
	SAY(uln_send(sender, "", 1 << 30, 0));
	SAY(uln_send(sender, "abc", 3, -1));
	SAY(uln_recv(receiver, &message, -1));
	SAY(message.length == 3 && !memcmp(message.data, "abc", 3));
	SAY(uln_release(receiver));
	SAY(uln_release(receiver));
	/* A call that finds no room ends the room before it. */
	SAY(uln_reserve(sender, 100, &room, -1));
	SAY(uln_reserve(sender, 1 << 30, &room, 0));
	SAY(uln_commit(sender));
	/* Two messages that are put are sent together. */
	SAY(uln_reserve(sender, 2, &room, -1));
	memcpy(room, "de", 2);
	SAY(uln_put(sender));
	SAY(uln_reserve(sender, 1, &room, 60000));
	memcpy(room, "f", 1);
	SAY(uln_put(sender));
	SAY(uln_flush(sender, 60000));
	SAY(uln_sent(sender, &position));
	SAY(uln_delivered(sender, position, 60000));
	SAY(uln_delivered(sender, position + 1, 0));
	SAY(uln_flush(sender, 0));
	SAY(uln_recv(receiver, &message, 60000));
	SAY(message.length == 2 && !memcmp(message.data, "de", 2));
	SAY(uln_recv(receiver, &message, 60000));
	SAY(message.length == 1 && !memcmp(message.data, "f", 1));
	SAY(uln_bytes_behind(sender, &behind));
	SAY(behind < 65536);
	SAY(uln_close(sender, 60000));
	SAY(uln_recv(receiver, &message, 60000));
	SAY(uln_recv(NULL, &message, 0));
	uln_receiver_destroy(receiver);
	pthread_join(thread, NULL);
	uln_listener_destroy(listener);
	uln_card_close(card);
	return 0;
}
