/*
 * Both ends of a channel, which uses messages because the fabric has one host. The other end is a
 * thread that sends back every message.
 */
#define _DEFAULT_SOURCE
#include <express.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct hamlyn_manager *manager;
static struct hamlyn_channel_listener *listener;

static int failed(int outcome)
{
	if (outcome < 0)
		fprintf(stderr, "%s\n", uln_error());
	return outcome < 0;
}

/* Returns whether the manager reports this token as ready. */
static int is_ready(struct hamlyn_manager *of, uint64_t token)
{
	uint64_t tokens[2];
	int count = hamlyn_manager_ready(of, tokens, 2);

	while (count > 0)
		if (tokens[--count] == token)
			return 1;
	return 0;
}

static void *echo(void *nothing)
{
	struct hamlyn_channel_sender *sender;
	struct hamlyn_channel_receiver *receiver;
	struct hamlyn_channel_message message;
	char copy[64];

	if (failed(hamlyn_channel_accept(listener, &sender, &receiver, 60000)))
		return nothing;
	while (hamlyn_channel_receive(receiver, &message, 60000) == 1) {
		size_t length = message.length;

		memcpy(copy, message.data, length);
		if (failed(hamlyn_channel_release(receiver)) || failed(hamlyn_channel_send(sender, copy, length, 60000)))
			return nothing;
	}
	failed(hamlyn_channel_close(sender, 60000));
	hamlyn_channel_receiver_destroy(receiver);
	return nothing;
}

int main(void)
{
	struct hamlyn_channel_options options = { 4096, ULN_NO_POLLING, 0, { 0 } };
	struct hamlyn_channel_message message;
	struct hamlyn_channel_sender *sender;
	struct hamlyn_channel_receiver *receiver;
	struct hamlyn_manager *other;
	struct hamlyn_card *card;
	struct pollfd ended = { 0, POLLIN, 0 };
	pthread_t thread;
	char bytes[8];
	void *room;

	if (failed(hamlyn_open(NULL, &card)) || failed(hamlyn_manager_create(card, &manager)) ||
	    failed(hamlyn_manager_create(card, &other)) ||
	    failed(hamlyn_channel_listen(manager, "two", NULL, &listener)))
		return 1;
	pthread_create(&thread, NULL, echo, NULL);
#define SAY(call) printf("%d\n", (int)(call))
	SAY(hamlyn_channel_connect(other, 0, "two", &options, &sender, &receiver, 60000));
	SAY(hamlyn_channel_is_express(sender));
	SAY(hamlyn_channel_sender_set_token(sender, 4));
	SAY(hamlyn_channel_receiver_set_token(receiver, 3));
	SAY(hamlyn_channel_longest(sender));
	SAY(hamlyn_channel_receive(receiver, &message, 0));
	SAY(hamlyn_channel_receive(receiver, &message, 1));
	SAY(hamlyn_channel_commit(sender));
	SAY(hamlyn_channel_reserve(sender, 70000, &room, 0));
	SAY(hamlyn_channel_reserve(sender, 5, &room, 60000));
	memcpy(room, "built", 5);
	SAY(hamlyn_channel_commit(sender));
	SAY(hamlyn_channel_commit(sender));
	SAY(hamlyn_channel_flush(sender, 60000));
	SAY(hamlyn_channel_receive(receiver, &message, 60000));
	SAY(message.length == 5 && !memcmp(message.data, "built", 5));
	SAY(is_ready(other, 3));
	SAY(hamlyn_channel_release(receiver));
	SAY(hamlyn_channel_release(receiver));
	SAY(hamlyn_channel_write(sender, "stream", 6, 60000));
	SAY(hamlyn_channel_flush(sender, 60000));
	SAY(hamlyn_channel_read(receiver, bytes, 4, 60000));
	SAY(hamlyn_channel_read(receiver, bytes + 4, 4, 60000));
	SAY(memcmp(bytes, "stream", 6));
	SAY(hamlyn_channel_read(receiver, bytes, 4, 0));
	SAY(hamlyn_channel_arm(receiver));
	SAY(hamlyn_channel_arm_room(sender, 8));
	SAY(hamlyn_channel_peer_ended(receiver));
	while (hamlyn_channel_try_close(sender) == -11)
		;
	SAY(hamlyn_channel_try_close(sender));
	SAY(hamlyn_channel_receive(receiver, &message, 60000));
	pthread_join(thread, NULL);
	ended.fd = hamlyn_channel_peer_fd(receiver);
	SAY(ended.fd > 2);
	hamlyn_channel_sender_destroy(sender);
	hamlyn_channel_receiver_destroy(receiver);
	hamlyn_channel_listener_destroy(listener);
	return 0;
}
