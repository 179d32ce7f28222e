/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A test of core/lane.c by seeds: two hosts and the cards between them (honest.c, carrier.c), and
 * one host whose other end does what it likes (hostile.c).
 */
#ifndef _LANES_TEST_H
#define _LANES_TEST_H

#include "uln_channel.h"
#include "uln_lane.h"

/* A frame's head, and what all positions are multiples of. */
#define HEAD 8
#define UNIT 16U
#define RING ULN_PAGE_SIZE
#define RING_MOST (128U << 10)

/* program.c: the seed that runs, and its numbers. */
void fail(const char *what, ...) __attribute__((noreturn, format(printf, 1, 2)));
void random_begin(u64 seed);
u32 random_word(void);
/* Returns a number below @count. */
u32 below(u32 count);
/* Returns true once in @count times. */
bool once_in(u32 count);
#define one_of(...)                                                           \
	({                                                                    \
		const u32 _all[] = { __VA_ARGS__ };                           \
		_all[below(ARRAY_SIZE(_all))];                                \
	})

#define check(holds, ...)                     \
	do {                                  \
		if (!(holds))                 \
			fail(__VA_ARGS__);    \
	} while (0)

/* kernel.c: allocations fail once in @failures times, unless 0. */
extern u32 failures;
/* Pieces of memory and mappings that exist. */
extern int pieces;
void wake_up(wait_queue_head_t *head);

/* threads.c: threads that a seed switches between. */
struct thread;
extern void (*interleaved)(void);
/* The thread that runs; NULL: the cards, or the only one. */
extern struct thread *current;
struct thread *thread_start(unsigned int number, void (*run)(void *data), void *data);
bool thread_is_over(const struct thread *thread);
/* Runs a thread until it yields. False: it is over, or sleeps. */
bool thread_run(struct thread *thread);
void thread_yield(void);
void thread_sleep(const bool *until);

/* A frame, at the positions that it and what is skipped before it have in the ring. */
struct frame {
	u32 skipped_at, at, end;
	u32 length;
	const u8 *bytes;
};

enum unit {
	/* Not sent yet, or reported as released. */
	FREE,
	SENT,
	ARRIVED,
	RELEASED,
};

/* Sent by one end, in order. Positions and counts are modulo 2^32, as the lane's. */
struct direction {
	struct frame frames[256];
	unsigned int appended, released;
	/* Positions behind the last frame that was appended, deposited, released and reported. */
	u32 appended_at, passed_at, released_at, reported_at;
	/* Deposits that the sender's card has got, that the receiver has taken, and reported. */
	u32 deposits, deposits_taken, deposits_reported;
	/* A state for each UNIT of the ring. */
	u8 units[RING_MOST / UNIT];
};

/* Sent by a card, and not announced yet. */
struct flight {
	u32 to, length;
	/* Bytes that have arrived, from the front. */
	u32 landed;
	/* A report's bytes, if the card has copied them. */
	u8 copy[sizeof(struct uln_lane_report)];
};

struct announcement {
	u32 to, length;
};

#define FLIGHTS 64
#define ANNOUNCEMENTS 2048
#define REPEATED 8

/* One end of the lane: a host and its card. */
struct end {
	struct uln_lane lane;
	struct uln_card card;
	struct end *other;
	/* The card can reach the lane's memory. */
	bool open;
	/* A send has failed, and room was not announced since. */
	bool full;
	/* The next send or arming breaks the lane. */
	bool breaks;
	/* An announcement wakes the lane's user. */
	bool armed;
	u32 flying;
	u32 repeatable;
	u32 announced, taken;
	struct flight flights[FLIGHTS];
	/* The last sends that were announced. */
	struct announcement repeats[REPEATED];
	struct announcement announcements[ANNOUNCEMENTS];

	/* honest.c: the lane's user. */
	struct thread *sender, *poller;
	u32 planned;
	/* The lock of what sends. */
	bool locked;
	/* False: the sender waits until there is room for @wanted bytes. */
	bool room;
	u32 wanted;
	bool scheduled;
	bool ending, broke;

	/* The last member, as a seed need not clear all of its units. */
	struct direction sent;
};

/* carrier.c: cards and wires. */
struct carrier {
	struct uln_lane_ops ops;
	/* Sends overtake each other, and reports are copied at once. If not, sends are repeated. */
	bool overtakes;
	/* Number of sends that a card holds. Beside, it refuses one in @refuses. */
	u32 capacity, refuses;
	/* What it does with sends to a host that is gone. */
	enum { GONE_DROPS, GONE_REFUSES, GONE_BREAKS } gone;
	/* There is one wait queue for announcements and room. */
	bool one_queue;
};

extern struct carrier carrier;
void carrier_begin(void);
/* An end's card does one of its tasks, if it has any. */
bool carrier_step(struct end *end);

/* honest.c, hostile.c */
void honest(void);
void hostile(void);

#endif /* _LANES_TEST_H */
