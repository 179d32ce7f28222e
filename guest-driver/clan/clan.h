/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CLAN card: declarations that its files share.
 *
 *   ops.c        operations that the core calls
 *   aperture.c   memory here that other hosts may reach
 *   window.c     pages of the card through which others' memory is reached
 *   endpoint.c   endpoints: Tripwires, DMA requests, messages
 *   lookup.c     endpoints by number and by port
 *   events.c     event queues
 *   fifo.c       what the card reports, and the sleepers that it wakes
 *   message.c    out-of-band messages, and peers
 *   farewell.c   peers that must still be told of an end
 *   request.c    endpoints that the driver uses itself
 *   kick.c       DMA requests that the driver carries out
 *   transport.c  how operating systems reach each other
 *   lane.c       channels of the kernel
 *
 * The card's lock guards all of it.
 */
#ifndef _CLAN_H
#define _CLAN_H

#include "uln_core.h"
#include "clan_card.h"
#include "clan_uapi.h"
#include "uln_transport.h"

#define CLAN_HOSTS ULN_WELL_KNOWN_SLOTS
static_assert(CLAN_HOSTS <= BITS_PER_LONG_LONG);

/* The driver's own objects; those of processes follow. */
#define CLAN_OWN_RECORDS (CLAN_SYSTEM_APERTURE + 1)
#define CLAN_OWN_APERTURES (CLAN_OWN_RECORDS + 1)
#define CLAN_OWN_ENDPOINT 0
#define CLAN_OWN_ENDPOINTS 1
#define CLAN_OWN_TRIPWIRES 1
/* The number of the only Tripwire of an endpoint that the driver uses. */
#define CLAN_OWN_TRIPWIRE 0

struct clan_own;

struct clan_parts {
	struct uln_card card;
	/* Bus address of BAR 2, and the driver's mapping of its endpoints' pages. */
	resource_size_t memory;
	void __iomem *pages;
	struct xarray apertures;
	struct xarray windows;
	struct xarray endpoints;
	struct xarray events;
	/*
	 * By port. A value in the place of an endpoint: the port is free as soon as a peer has been
	 * told.
	 */
	struct xarray ports;
	u32 next_aperture;
	u32 next_port;
	/* Number of Tripwires of open endpoints. */
	u32 tripwires;
	/* Window pages in use, and groups with a member here. */
	unsigned long *windowed;
	DECLARE_BITMAP(groups, CLAN_GROUPS);
	/* Number of endpoints with their peer on each host. */
	u32 arranged[CLAN_HOSTS];
	/* Hosts to which any endpoint has sent something, and that were not lost since. */
	u64 spoken;
	/* Peers that must still be told of an end, as there was no room for it. */
	struct list_head farewells;
	struct delayed_work tell;
	/* The driver's own memory and endpoint. */
	struct clan_own *own;
};

/* In clan_parts.endpoints, the tag of what is not a process's: an engine (kick.c). */
#define CLAN_ENGINE_TAG 1

#define clan_parts(of) container_of_const(of, struct clan_parts, card)

/* Kinds that name others come before these. */
enum {
	CLAN_KIND_WINDOW,
	CLAN_KIND_ENDPOINT,
	CLAN_KIND_EVENTS,
	CLAN_KIND_APERTURE,
	CLAN_KIND_EXPRESS,
};

/* A card's limits, as the core keeps them (uln_query.card). */
struct clan_limits {
	struct clan_query query;
	u32 event_queues;
	u32 reserved;
};

static inline const struct clan_limits *clan_limits(const struct uln_card *card)
{
	return (const struct clan_limits *)card->limits.card;
}

struct clan_aperture_object {
	struct card_object object;
	struct uln_pages *memory;
	/* Bytes of the memory. */
	u64 length;
	/* The memory is a lane's. */
	bool lent;
	u64 key;
	u32 flags;
	u32 group;
};

struct clan_events_object {
	struct card_object object;
	struct uln_pages *memory;
	u32 records;
	/* Number of sources that have a record of their own. */
	u32 sources;
	struct uln_waiters sleepers;
};

struct clan_engine;

/* A peer that must be told of an end: its host and port, and the port that ends. */
struct clan_farewell {
	struct list_head on_card;
	u32 host;
	u32 to;
	u32 port;
	/* The share of the endpoint's user, once that is closed. */
	struct uln_share *share;
};

/* A request for a connection that was delivered, and not answered here. */
struct clan_asker {
	u32 host;
	u32 port;
	__u64 nonce;
};

struct clan_endpoint_object {
	struct card_object object;
	struct uln_pages *memory;
	u32 port;
	u32 tripwires;
	u32 requests;
	/* The event queue that its events go to, or CLAN_NO_EVENTS. */
	u32 events;
	/* Number of windows that name it. */
	u32 windows;
	/* Number of messages that were put into its queue. */
	u32 messages;
	/* Hosts to which it has sent something, and that were not lost since. */
	u64 spoken;
	/* The last requests for a connection; a port of 0: none. */
	struct clan_asker askers[CLAN_MESSAGES];
	u32 asks;
	/* What its peer will be told, if it has one. */
	struct clan_farewell *farewell;
	/* Set if the driver carries out its requests. */
	struct clan_engine *engine;
	struct uln_waiters sleepers;
	/* Bits that the endpoint's own file reports. */
	u64 polled;
};

struct clan_window_object {
	struct card_object object;
	struct clan_endpoint_object *endpoint;
	u32 pages;
};

/* lookup.c */
void clan_endpoints_without(struct uln_file *file, u32 events);
struct clan_endpoint_object *clan_endpoint_find(struct uln_file *file, u32 index);
struct clan_endpoint_object *clan_endpoint_at(struct uln_card *card, u32 port);
resource_size_t clan_endpoint_page(const struct uln_card *card, u32 index);

/* request.c */
void __iomem *clan_endpoint_registers(struct uln_card *card, u32 endpoint);
void clan_requests_go(struct uln_card *card, u32 endpoint, const struct uln_pages *memory, u32 put);
int clan_tripwire_set(struct uln_card *card, u32 endpoint, const struct uln_pages *memory,
		      u32 aperture, u64 offset, u64 length, u32 actions);

/* aperture.c */
extern const struct card_kind clan_aperture_kind;
int clan_aperture_open(struct uln_file *file, void *argument);
int clan_aperture_lend(struct uln_file *file, struct uln_pages *memory,
		       struct clan_aperture *answer);
int clan_aperture_close(struct uln_file *file, void *argument);
void clan_aperture_undo(struct uln_file *file, void *argument);

/* window.c */
extern const struct card_kind clan_window_kind;
int clan_window_open(struct uln_file *file, void *argument);
int clan_window_close(struct uln_file *file, void *argument);
void clan_window_undo(struct uln_file *file, void *argument);

/* endpoint.c */
extern const struct card_kind clan_endpoint_kind;
int clan_endpoint_open(struct uln_file *file, void *argument);
int clan_endpoint_close(struct uln_file *file, void *argument);
void clan_endpoint_undo(struct uln_file *file, void *argument);
int clan_endpoint_wait(struct uln_file *file, void *argument);
int clan_endpoint_set_events(struct uln_file *file, void *argument);

/* Returns whether there can be such an aperture at all. */
static inline bool clan_target_is_sound(u32 host, u32 aperture)
{
	if (host < CLAN_GROUP_HOST)
		return true;
	return host - CLAN_GROUP_HOST < CLAN_GROUPS && !aperture;
}

/* Returns whether what could not be sent may be sent later. */
static inline bool clan_is_busy(int ret)
{
	return ret == -ENOBUFS || ret == -ENOMEM;
}

/* Returns a word of an endpoint's memory, which its owner may change at any moment. */
static inline void *clan_state(const struct uln_pages *memory, u32 word)
{
	return page_address(memory->page[0]) + word;
}

static inline u32 clan_state_read(const struct uln_pages *memory, u32 word)
{
	return le32_to_cpu(READ_ONCE(*(const __le32 *)clan_state(memory, word)));
}

static inline void clan_state_write(const struct uln_pages *memory, u32 word, u32 value)
{
	WRITE_ONCE(*(__le32 *)clan_state(memory, word), cpu_to_le32(value));
}

/*
 * Returns the bits of an endpoint's bitmap that are set: those in which the card's half and the
 * owner's differ.
 */
static inline u64 clan_bits(const struct uln_pages *memory)
{
	const __le64 *card = clan_state(memory, CLAN_STATE_BITS);
	const __le64 *cleared = clan_state(memory, CLAN_STATE_CLEARED);

	return le64_to_cpu(READ_ONCE(*card) ^ READ_ONCE(*cleared));
}

/* Clears a bit of an endpoint of the driver's own; later events set it again. */
static inline void clan_clear_bit(const struct uln_pages *memory, u32 bit)
{
	const __le64 *card = clan_state(memory, CLAN_STATE_BITS);
	__le64 *cleared = clan_state(memory, CLAN_STATE_CLEARED);
	__le64 mask = cpu_to_le64(BIT_ULL(bit));

	WRITE_ONCE(*cleared, (READ_ONCE(*cleared) & ~mask) | (READ_ONCE(*card) & mask));
	mb(); /* The caller checks what the bit stands for after that. */
}

/* Returns request @n of an endpoint's memory, which has room for @requests. */
static inline struct clan_request *clan_request_at(const struct uln_pages *memory, u32 n,
						   u32 requests)
{
	u32 place = (n & (requests - 1)) * CLAN_REQUEST_SIZE;

	return page_address(memory->page[1 + place / ULN_PAGE_SIZE]) + place % ULN_PAGE_SIZE;
}

/* events.c */
extern const struct card_kind clan_events_kind;
int clan_events_open(struct uln_file *file, void *argument);
int clan_events_close(struct uln_file *file, void *argument);
void clan_events_undo(struct uln_file *file, void *argument);
int clan_events_wait(struct uln_file *file, void *argument);
int clan_events_reserve(struct uln_file *file, u32 index, u32 sources);
void clan_events_give(struct uln_file *file, u32 index, u32 sources);

/* fifo.c */
void clan_raised(struct uln_card *card, unsigned int vector);

/* message.c */
int clan_send(struct uln_file *file, void *argument);
int clan_peer(struct uln_file *file, void *argument);
void clan_message(struct uln_card *card, u32 host, const struct uln_head *wire,
		  const u8 *data);
void clan_lost(struct uln_card *card, u32 host);
void clan_refuse_askers(struct clan_endpoint_object *endpoint);
void clan_dropped(struct uln_card *card, u32 host, const struct uln_head *wire,
		  const u8 *data);

/* farewell.c */
void clan_farewell_set(struct clan_endpoint_object *endpoint, struct clan_farewell *farewell);
void clan_farewell_forget(struct clan_endpoint_object *endpoint);
bool clan_farewell_say(struct clan_endpoint_object *endpoint);
void clan_farewells_lost(struct uln_card *card, u32 host);
void clan_farewells_later(struct work_struct *work);

/* kick.c */
int clan_kick(struct uln_file *file, void *argument);
struct clan_engine *clan_engine_alloc(struct clan_endpoint_object *endpoint);
int clan_engine_open(struct clan_engine *engine);
void clan_engine_close(struct clan_engine *engine);
void clan_engine_told(struct clan_engine *engine);
void clan_engine_unmap(struct clan_engine *engine);
void clan_engine_free(struct clan_engine *engine);

/* transport.c */
int clan_own_init(struct uln_card *card);
void clan_own_free(struct uln_card *card);
void clan_own_start(struct uln_card *card);
void clan_own_stop(struct uln_card *card, struct uln_closed *closed);
void clan_own_arrived(struct uln_card *card);
struct uln_fifo *clan_own_fifo(struct uln_card *card);

/* lane.c */
extern const struct uln_lane_ops clan_lane_ops;

/* ops.c */
extern const struct card_ops clan_card_ops;

#endif /* _CLAN_H */
