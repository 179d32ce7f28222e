/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The DART card: declarations that its files share.
 *
 *   ops.c         operations that the core calls
 *   endpoint.c    regions of processes' virtual memory
 *   pages.c       where their pages are, as the card is told
 *   miss.c        pages that the card asks for
 *   bank.c        address registers and programs
 *   queue.c       queues of records about messages
 *   connection.c  ends of paths to other hosts
 *   farewell.c    messages to other ends when an end here closes
 *   fifo.c        what the card reports, and the sleepers that it wakes
 *   transport.c   how operating systems reach each other
 *   lane.c        channels of the kernel
 *
 * The card's lock guards all of it, except what the card is told of pages. That has a lock of its
 * own, dart_parts.translations, below the card's lock and processes' mmap_lock. The kernel may
 * reclaim memory, and wait for that lock, wherever memory is allocated; so none is allocated with
 * it held.
 */
#ifndef _DART_H
#define _DART_H

#include <linux/mmu_notifier.h>

#include "uln_core.h"
#include "dart_card.h"
#include "dart_uapi.h"
#include "uln_transport.h"

#define DART_HOSTS ULN_WELL_KNOWN_SLOTS
static_assert(DART_HOSTS == DART_FIRST_CONNECTION);
/* Endpoints of processes follow. */
#define DART_OWN_ENDPOINTS (DART_SYSTEM_ENDPOINT + 1)

struct dart_own;

struct dart_parts {
	struct uln_card card;
	/* Bus address of BAR 2, and the driver's mapping of its own connections' pages. */
	resource_size_t memory;
	void __iomem *pages;
	struct xarray endpoints;
	struct xarray banks;
	struct xarray queues;
	struct xarray connections;
	/* Registers and entries that belong to banks. */
	unsigned long *registers;
	unsigned long *entries;
	/* Guards what the card is told of pages, and whether it may be told. */
	struct mutex translations;
	bool told;
	/* Number of connections with their other end on each host. */
	u32 arranged[DART_HOSTS];
	/* Other ends that must still be told, as there was no room for it. */
	struct list_head farewells;
	struct delayed_work tell;
	/* The driver's own memory and connections. */
	struct dart_own *own;
};

#define dart_parts(of) container_of_const(of, struct dart_parts, card)

/* Kinds that name others come before these. */
enum {
	DART_KIND_CONNECTION,
	DART_KIND_QUEUE,
	DART_KIND_BANK,
	DART_KIND_ENDPOINT,
	DART_KIND_EXPRESS,
};

static inline const struct dart_query *dart_limits(const struct uln_card *card)
{
	return (const struct dart_query *)card->limits.card;
}

struct dart_endpoint_object {
	struct card_object object;
	struct uln_card *card;
	/* Memory of the driver's own, which is pinned; NULL: a region of a process. */
	struct uln_pages *pinned;
	struct mmu_interval_notifier notifier;
	u64 address;
	u64 length;
	/* Number of connections that name it. */
	u32 connections;
	/*
	 * Pages that the card may know: by number, the oldest first, and how many; whether it may
	 * be told of any.
	 */
	struct xarray frames;
	struct list_head by_age;
	u32 count;
	bool told;
};

struct dart_bank_object {
	struct card_object object;
	u32 registers;
	u32 entries;
	u32 first_register;
	u32 first_entry;
	/* Number of connections that have a window of it. */
	u32 connections;
};

struct dart_queue_object {
	struct card_object object;
	struct uln_pages *memory;
	u32 records;
	u32 flags;
	struct uln_waiters sleepers;
};

/* The other end of a connection, and what it is told when this one ends. */
struct dart_farewell {
	struct list_head on_card;
	u32 host;
	u32 from;
	u32 to;
	u64 key;
	/* The share of the connection's user, once that is closed. */
	struct uln_share *share;
};

struct dart_connection_object {
	struct card_object object;
	struct uln_card *card;
	struct uln_pages *state;
	struct dart_endpoint_object *endpoint;
	struct dart_bank_object *bank;
	u32 host;
	u64 key;
	/* What its other end will be told, if it has one. */
	struct dart_farewell *farewell;
	/* Finds pages that it waits for. */
	struct work_struct misses;
	/* Threads that wait until messages have left, and for exceptions that no queue takes. */
	struct uln_waiters sleepers;
	struct uln_waiters excepted;
};

/* endpoint.c */
extern const struct card_kind dart_endpoint_kind;
int dart_endpoint_open(struct uln_file *file, void *argument);
int dart_endpoint_close(struct uln_file *file, void *argument);
void dart_endpoint_undo(struct uln_file *file, void *argument);
int dart_endpoint_pin(struct uln_file *file, struct uln_pages *memory, u32 *index);
struct dart_endpoint_object *dart_endpoint_find(struct uln_file *file, u32 index);

/* pages.c */
extern const struct mmu_interval_notifier_ops dart_endpoint_pages;
void dart_pages_begin(struct dart_endpoint_object *endpoint);
void dart_pages_end(struct dart_endpoint_object *endpoint);
void dart_pages_drop(struct dart_endpoint_object *endpoint);
void dart_pages_forget(struct dart_endpoint_object *endpoint);
void dart_page_find(struct dart_endpoint_object *endpoint, u64 number, bool writes);
void dart_pages_tell(struct uln_card *card, bool told);

/* miss.c */
int dart_misses_load(void);
void dart_misses_unload(void);
void dart_misses_init(struct dart_connection_object *connection);
void dart_misses_told(struct dart_connection_object *connection);

/* bank.c */
extern const struct card_kind dart_bank_kind;
int dart_bank_open(struct uln_file *file, void *argument);
int dart_bank_close(struct uln_file *file, void *argument);
void dart_bank_undo(struct uln_file *file, void *argument);
int dart_bank_set_program(struct uln_file *file, void *argument);
struct dart_bank_object *dart_bank_find(struct uln_file *file, u32 index);

/* queue.c */
extern const struct card_kind dart_queue_kind;
int dart_queue_open(struct uln_file *file, void *argument);
int dart_queue_close(struct uln_file *file, void *argument);
void dart_queue_undo(struct uln_file *file, void *argument);
int dart_queue_wait(struct uln_file *file, void *argument);
bool dart_queue_is(struct uln_file *file, u32 index);
const struct dart_record *dart_queue_record(const struct dart_queue_object *queue, u32 n);
void dart_queue_taken(const struct dart_queue_object *queue, u32 taken);

/* connection.c */
extern const struct card_kind dart_connection_kind;
int dart_connection_open(struct uln_file *file, void *argument);
int dart_connection_close(struct uln_file *file, void *argument);
void dart_connection_undo(struct uln_file *file, void *argument);
int dart_connect(struct uln_file *file, void *argument);
int dart_left_wait(struct uln_file *file, void *argument);
int dart_exception_wait(struct uln_file *file, void *argument);
void dart_message(struct uln_card *card, u32 host, const struct uln_head *wire,
		  const u8 *data);
void dart_lost(struct uln_card *card, u32 host);

/* farewell.c */
void dart_farewell_set(struct dart_connection_object *connection, struct dart_farewell *farewell);
void dart_farewell_forget(struct dart_connection_object *connection);
bool dart_farewell_say(struct dart_connection_object *connection);
void dart_farewells_lost(struct uln_card *card, u32 host);
void dart_farewells_later(struct work_struct *work);

/* fifo.c */
void dart_raised(struct uln_card *card, unsigned int vector);

/* transport.c */
int dart_own_init(struct uln_card *card);
void dart_own_free(struct uln_card *card);
void dart_own_start(struct uln_card *card);
void dart_own_stop(struct uln_card *card, struct uln_closed *closed);
void dart_own_arrived(struct uln_card *card, u32 connection);
struct uln_fifo *dart_own_fifo(struct uln_card *card);

/* lane.c */
extern const struct uln_lane_ops dart_lane_ops;

/* ops.c */
extern const struct card_ops dart_card_ops;

#endif /* _DART_H */
