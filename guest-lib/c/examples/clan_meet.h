/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Shared by the examples of CLAN cards: how two of them connect and disconnect. */
#ifndef CLAN_MEET_H
#define CLAN_MEET_H

#include "common.h"

#include <clan_programs.h>

#include <errno.h>
#include <string.h>
#include <time.h>

#define PORT 1500
#define PATIENCE_MS 60000
/* Maximum time for a host to answer, and number of times that all hosts are asked. */
#define ANSWER_MS 20000
#define ROUNDS 600

/* Opens the port, and prints it. */
static inline struct clan_endpoint *open_port(struct clan_card *card)
{
	struct clan_endpoint_options options = { .port = PORT };
	struct clan_endpoint *listener;
	struct clan_address address;

	must(clan_endpoint_create(card, &options, &listener));
	must(clan_endpoint_address(listener, &address));
	printf("{\"listening\":%u,\"host\":%u}\n", address.port, address.host);
	fflush(stdout);
	return listener;
}

static inline struct clan_aperture *memory(struct clan_card *card, size_t length)
{
	struct clan_aperture *aperture;

	must(clan_aperture_create(card, NULL, length, CLAN_RIGHT_READ | CLAN_RIGHT_WRITE, &aperture));
	return aperture;
}

/* Calls `ask` for each host until one accepts. `ask` returns 0 if it does, else the error. */
static inline void ask_all(struct clan_card *card, int (*ask)(void *, const struct clan_address *), void *asking)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	struct clan_address address = { .port = PORT };
	struct clan_card_info info;

	must(clan_get_info(card, &info));
	for (int round = 0; round < ROUNDS; round++) {
		for (address.host = 0; address.host < info.ports; address.host++) {
			int outcome = ask(asking, &address);

			if (outcome == 0)
				return;
			if (outcome != -ECONNREFUSED && outcome != -EHOSTDOWN && outcome != -ETIMEDOUT)
				must(outcome);
		}
		nanosleep(&pause, NULL);
	}
	fail("no host has the port");
}

/* An end and its endpoint. */
struct meeting {
	struct clan_card *card;
	struct clan_endpoint *endpoint;
	struct clan_end *end;
	size_t length;
};

static inline int ask_for_end(void *asking, const struct clan_address *address)
{
	struct meeting *meeting = asking;

	return clan_end_connect(meeting->endpoint, memory(meeting->card, meeting->length), address, ANSWER_MS,
				&meeting->end);
}

/* Connects an end, with memory of `length` bytes, to the host that has the port. */
static inline struct meeting meet(struct clan_card *card, size_t length)
{
	struct meeting meeting = { .card = card, .length = length };

	must(clan_endpoint_create(card, NULL, &meeting.endpoint));
	ask_all(card, ask_for_end, &meeting);
	return meeting;
}

/* Accepts an end, with memory of `length` bytes, from the first requester at the port. */
static inline struct meeting be_met(struct clan_card *card, size_t length)
{
	struct meeting meeting = { .card = card, .length = length };
	struct clan_endpoint *listener = open_port(card);
	struct clan_request *request;

	must(clan_endpoint_create(card, NULL, &meeting.endpoint));
	must(clan_receive_request(listener, &request, PATIENCE_MS));
	must(clan_end_accept(request, meeting.endpoint, memory(card, length), PATIENCE_MS, &meeting.end));
	clan_endpoint_destroy(listener);
	return meeting;
}

/* Waits until the peer has closed, and releases the end. */
static inline void wait_and_part(struct meeting *meeting)
{
	struct clan_peer_end end;

	must(clan_end_wait(meeting->end, &end, PATIENCE_MS));
	clan_end_destroy(meeting->end);
	clan_endpoint_destroy(meeting->endpoint);
}

/* Closes the end. */
static inline void part(struct meeting *meeting)
{
	must(clan_end_close(meeting->end, NULL));
	clan_endpoint_destroy(meeting->endpoint);
}

#endif
