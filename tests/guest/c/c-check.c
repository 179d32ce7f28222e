/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Checks calls of hamlyn.h within one machine, which sends to itself. */
#include "check.h"

#include <poll.h>
#include <string.h>


static struct hamlyn_card *card;
static struct hamlyn_manager *manager;
static struct hamlyn_terminus *terminus;

/* Checks the handles of a message, of a message of pieces and of a share. */
static void check_handles(void)
{
	struct hamlyn_slot_options options = { 0 };
	struct hamlyn_handle *handles[3];
	struct hamlyn_send_buffer *buffer;
	struct hamlyn_notification news;
	struct hamlyn_piece piece;
	struct hamlyn_ticket fast, ticket;
	struct hamlyn_queue *queue;
	struct hamlyn_share whole;
	struct hamlyn_area *area;
	struct hamlyn_slot *slot;

	options.metadata_entries = 1;
	CHECK(0, hamlyn_queue_create(card, 16, &queue));
	CHECK(0, hamlyn_area_create(card, NULL, 4096, &area));
	CHECK(0, hamlyn_slot_create(card, area, queue, &options, &slot));
	CHECK(0, hamlyn_slot_ticket(slot, HAMLYN_FAST, &fast) | hamlyn_slot_ticket(slot, 0, &ticket));
	CHECK(0, hamlyn_terminus_post(terminus, &fast, NULL, "a", 1, &handles[0], PATIENCE_MS));
	CHECK(0, hamlyn_handle_wait(handles[0], PATIENCE_MS));
	CHECK(0, hamlyn_handle_wait(handles[0], 0));
	CHECK(1, hamlyn_handle_arm(handles[0]));
	CHECK(0, hamlyn_area_register(card, area) | hamlyn_area_register(card, area));
	CHECK(-22, hamlyn_send_buffer_create_in(terminus, area, 4000, 100, &buffer));
	CHECK(0, hamlyn_send_buffer_create_in(terminus, area, 2000, 100, &buffer));
	CHECK(1, hamlyn_send_buffer_data(buffer) == (char *)hamlyn_area_data(area) + 2000);
	piece.buffer = buffer;
	piece.start = 0;
	piece.length = 100;
	CHECK(0, hamlyn_terminus_post_pieces(terminus, &fast, NULL, &piece, 1, &handles[1], PATIENCE_MS));
	CHECK(0, hamlyn_handle_wait(handles[1], PATIENCE_MS));
	CHECK(0, hamlyn_share_whole(&ticket, &whole));
	CHECK(0, hamlyn_terminus_post_share(terminus, &whole, NULL, "d", 1, &handles[2], PATIENCE_MS));
	CHECK(0, hamlyn_handle_wait(handles[2], PATIENCE_MS));
	for (unsigned int at = 0; at < 3; at++)
		CHECK(0, hamlyn_queue_receive(queue, &news, PATIENCE_MS));
	CHECK(-11, hamlyn_queue_receive(queue, &news, 0));
	for (unsigned int at = 0; at < 3; at++)
		hamlyn_handle_destroy(handles[at]);
	hamlyn_handle_destroy(NULL);
	CHECK(-22, hamlyn_handle_wait(NULL, 0));
	hamlyn_send_buffer_destroy(buffer);
	hamlyn_slot_destroy(slot);
	hamlyn_area_destroy(area);
	hamlyn_queue_destroy(queue);
}

/* Checks that the terminus' descriptor wakes a sleeper when the card completes a request. */
static void check_sleep(void)
{
	struct pollfd finished = { hamlyn_terminus_fd(terminus), POLLIN, 0 };
	struct hamlyn_slot_options options = { 0 };
	struct hamlyn_handle *handle;
	struct hamlyn_ticket ticket;
	struct hamlyn_area *area;
	struct hamlyn_slot *slot;

	options.metadata_entries = 1;
	CHECK(0, hamlyn_area_create(card, NULL, 4096, &area));
	CHECK(0, hamlyn_slot_create(card, area, NULL, &options, &slot));
	CHECK(0, hamlyn_slot_ticket(slot, HAMLYN_FAST, &ticket));
	for (unsigned int round = 0; round < 200; round++) {
		CHECK(0, hamlyn_terminus_post(terminus, &ticket, NULL, "a", 1, &handle, PATIENCE_MS));
		if (!hamlyn_handle_arm(handle))
			CHECK(1, poll(&finished, 1, PATIENCE_MS));
		CHECK(0, hamlyn_handle_wait(handle, 0));
		hamlyn_handle_destroy(handle);
	}
	hamlyn_slot_destroy(slot);
	hamlyn_area_destroy(area);
}

/*
 * Forges a ticket whose data ends past 2^32. Its checksum is valid, so only the card can refuse it.
 */
static void forge(struct hamlyn_ticket *ticket)
{
	uint32_t sum = ~0u;
	unsigned int at, bit;

	memset(ticket->bytes + 20, 0xff, 4);
	for (at = 0; at < 36; at++)
		for (sum ^= ticket->bytes[at], bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
	for (at = 0; at < 4; at++)
		ticket->bytes[36 + at] = (uint8_t)(~sum >> 8 * at);
}

/* Checks that a refused request fails and the request before it succeeds. */
static void check_refused(void)
{
	struct hamlyn_slot_options options = { 0 };
	struct hamlyn_handle *handles[2];
	struct hamlyn_ticket ticket;
	struct hamlyn_area *area;
	struct hamlyn_slot *slot;

	options.metadata_entries = 1;
	CHECK(0, hamlyn_area_create(card, NULL, 4096, &area));
	CHECK(0, hamlyn_slot_create(card, area, NULL, &options, &slot));
	CHECK(0, hamlyn_slot_ticket(slot, 0, &ticket));
	CHECK(0, hamlyn_terminus_post(terminus, &ticket, NULL, "a", 1, &handles[0], PATIENCE_MS));
	forge(&ticket);
	CHECK(0, hamlyn_terminus_post(terminus, &ticket, NULL, "ab", 2, &handles[1], PATIENCE_MS));
	CHECK(-1, hamlyn_handle_wait(handles[1], PATIENCE_MS));
	CHECK(-1, hamlyn_handle_wait(handles[1], 0));
	CHECK(0, hamlyn_handle_wait(handles[0], PATIENCE_MS));
	hamlyn_handle_destroy(handles[0]);
	hamlyn_handle_destroy(handles[1]);
	hamlyn_slot_destroy(slot);
	hamlyn_area_destroy(area);
}

/* A receiver class that adds up the numbers in messages' metadata. */
struct sum {
	struct hamlyn_end_point *end_point;
	unsigned int messages, total, lost;
};

static int add(void *context, const struct hamlyn_arrived *arrived)
{
	struct sum *sum = context;

	sum->messages++;
	sum->total += arrived->metadata[0];
	/* The last entry stays locked. */
	return arrived->entry == 2 || hamlyn_end_point_reopen(sum->end_point, arrived->entry) == 0;
}

static int lose(void *context)
{
	((struct sum *)context)->lost++;
	return 0;
}

/* Sleeps until @messages messages have arrived. */
static void await(const struct sum *sum, unsigned int messages)
{
	while (sum->messages < messages && hamlyn_manager_wait(manager, PATIENCE_MS) >= 0)
		;
	CHECK(messages, sum->messages);
}

static void check_receiver_class(void)
{
	struct sum sum = { 0, 0, 0, 0 };
	struct hamlyn_receiver_class class = { add, lose, &sum, { 0 } }, empty = { 0, lose, &sum, { 0 } };
	struct hamlyn_ticket ticket, other;
	struct hamlyn_message message;
	unsigned char number = 20;
	uint64_t tokens[2];

	memset(&message, 0, sizeof(message));
	message.metadata = &number;
	message.metadata_length = 1;
	CHECK(-22, hamlyn_end_point_create(manager, &empty, 3, 16, &sum.end_point));
	CHECK(-22, hamlyn_end_point_create(manager, &class, 0, 16, &sum.end_point));
	CHECK(0, hamlyn_end_point_create(manager, &class, 3, 16, &sum.end_point));
	CHECK(0, hamlyn_end_point_set_token(sum.end_point, 7));
	CHECK(-22, hamlyn_end_point_ticket(sum.end_point, 3, &ticket));
	CHECK(0, hamlyn_end_point_ticket(sum.end_point, 1, &ticket));
	CHECK(0, hamlyn_terminus_send(terminus, &ticket, &message, "one", 4, PATIENCE_MS));
	await(&sum, 1);
	number = 22;
	CHECK(0, hamlyn_terminus_send(terminus, &ticket, &message, "two", 4, PATIENCE_MS));
	CHECK(0, hamlyn_end_point_ticket(sum.end_point, 2, &other));
	CHECK(0, hamlyn_terminus_send(terminus, &other, &message, "six", 4, PATIENCE_MS));
	await(&sum, 3);
	CHECK(64, sum.total);
	CHECK(0, strcmp(hamlyn_end_point_data(sum.end_point, 1), "two"));
	CHECK(1, hamlyn_end_point_data(sum.end_point, 3) == NULL);
	CHECK(0, hamlyn_end_point_is_locked(sum.end_point, 1));
	CHECK(1, hamlyn_end_point_is_locked(sum.end_point, 2));
	CHECK(1, hamlyn_manager_ready(manager, tokens, 2));
	CHECK(7, tokens[0]);
	CHECK(0, hamlyn_manager_ready(manager, tokens, 2));
	/* Send half a message, and revoke the ticket. */
	message.word = 1;
	CHECK(-22, hamlyn_terminus_send(terminus, &ticket, &message, "half", 5, PATIENCE_MS));
	message.word = 0;
	message.delta = 1;
	CHECK(0, hamlyn_terminus_send(terminus, &ticket, &message, "half", 5, PATIENCE_MS));
	while (!hamlyn_end_point_is_partial(sum.end_point, 1))
		;
	CHECK(0, hamlyn_end_point_revoke(sum.end_point, 1));
	CHECK(0, hamlyn_end_point_is_partial(sum.end_point, 1));
	hamlyn_end_point_destroy(sum.end_point);
	CHECK(1, sum.messages == 3 && !sum.lost);
}

static void check_group(void)
{
	struct hamlyn_datagram_receiver *group[3];
	struct hamlyn_ticket ticket, stolen;
	struct hamlyn_datagram datagram;
	uint64_t tokens[2];
	int at;

	CHECK(-22, hamlyn_datagram_group_create(manager, 64, NULL, 3));
	CHECK(0, hamlyn_datagram_group_create(manager, 64, group, 3));
	for (at = 0; at < 3; at++)
		CHECK(0, hamlyn_datagram_set_token(group[at], 10 + at));
	CHECK(0, hamlyn_datagram_receiver_ticket(group[0], &stolen));
	CHECK(0, hamlyn_datagram_revoke(group[0]));
	CHECK(0, hamlyn_datagram_send(manager, &stolen, "no", 2, 0, NULL, PATIENCE_MS));
	for (at = 0; at < 3; at++) {
		CHECK(0, hamlyn_datagram_receiver_ticket(group[at], &ticket));
		CHECK(0, hamlyn_datagram_send(manager, &ticket, "yes", 3, 0, NULL, PATIENCE_MS));
	}
	CHECK(0, hamlyn_manager_flush(manager, PATIENCE_MS));
	for (at = 0; at < 3; at++) {
		CHECK(0, hamlyn_datagram_receive(group[at], &datagram, PATIENCE_MS));
		CHECK(3, datagram.length);
	}
	/* The array has room for two of the three tokens. */
	CHECK(2, hamlyn_manager_ready(manager, tokens, 2));
	CHECK(1, tokens[0] == 10 && tokens[1] == 11);
	CHECK(1, hamlyn_manager_ready(manager, tokens, 2));
	CHECK(12, tokens[0]);
	CHECK(0, hamlyn_manager_ready(manager, tokens, 2));
	CHECK(0, hamlyn_datagram_is_partial(group[2]));
	CHECK(0, hamlyn_datagram_set_stall_timeout(group[2], 1000));
	CHECK(0, hamlyn_datagram_rearm(group[2]) | hamlyn_datagram_forget(group[2]));
	for (at = 0; at < 3; at++)
		hamlyn_datagram_receiver_destroy(group[at]);
}

int main(void)
{
	CHECK(0, hamlyn_open(NULL, &card));
	if (wrong)
		return 1;
	CHECK(0, hamlyn_manager_create(card, &manager));
	CHECK(0, hamlyn_terminus_create(card, 1, &terminus));
	if (wrong)
		return 1;
	check_handles();
	check_sleep();
	check_refused();
	check_receiver_class();
	check_group();
	hamlyn_terminus_destroy(terminus);
	hamlyn_manager_destroy(manager);
	hamlyn_close(card);
	printf("{\"checked\":%u,\"wrong\":%u}\n", checked, wrong);
	return wrong != 0;
}
