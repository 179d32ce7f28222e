/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * guest-driver/kernel without a kernel: any number of systems in one process, each called by one
 * thread at a time. The systems share nothing. A thread-local variable holds the system that the
 * thread is calling.
 *
 *   services.c   kernel services for the driver: time, memory, work, and so on
 *   verbs.c      calls on a system, as core/connectfile.c and a card's folder make them
 *   memory.c     the same for express memory, as core/expressfile.c makes them
 *
 * src/foreign.rs is the Rust side, and follows this file line by line.
 */
#ifndef _HOST_H
#define _HOST_H

#include "uln_connect.h"
#include "uln_express.h"

/*
 * What a system can access during a call. @ports belongs to Rust, and is passed to each function.
 */
struct host_call {
	void *ports;
	/* Milliseconds. */
	u64 now;
	u32 (*random)(void *ports);
	bool (*allocates)(void *ports);
	bool (*link)(void *ports, u32 *host);
	bool (*post)(void *ports, u32 host, u32 entry, const struct uln_wire *wire, const u8 *data,
		     u32 length);
	bool (*take)(void *ports, u32 *host, u32 *entry);
	bool (*more)(void *ports);
	void (*read)(void *ports, u32 host, u32 entry, struct uln_wire *wire, u8 *place);
	void (*reopen)(void *ports, u32 host, u32 entry);
	void (*message)(void *ports, u32 host, const struct uln_wire *wire, const u8 *data);
	void (*lost)(void *ports, u32 host);
	bool (*depends)(void *ports, u32 host);
	/* Waiters on a file must look at it. */
	void (*woken)(void *ports, u32 file);
	/* The area or view of a file has ended, and its process did not close it. */
	void (*withdraw)(void *ports, u32 file);
};

/* A user. It may have everything, except what is spared for others. */
struct uln_share {
	u32 users;
	u32 held[ULN_KINDS];
	u32 express[ULN_WELL_KNOWN_SLOTS];
	/* Pages of express memory that only other users may have. */
	u32 spared;
	/* Number of this user's messages that wait for each host, and its limit. */
	u32 said[ULN_WELL_KNOWN_SLOTS];
	u32 most_said;
};

/* One of the users asks for express memory; everything else belongs to the first one. */
#define HOST_USERS 2

/* An area or a view of express memory that a process has. */
struct host_end {
	struct uln_express_end end;
	u32 users;
	u32 file;
	struct list_head on_host;
};

struct host {
	struct uln_system *system;
	/* NULL while the system is not being called. */
	const struct host_call *call;
	struct mutex lock;
	struct peer_transport transport;
	struct peer_service service;
	struct uln_share shares[HOST_USERS];
	struct uln_share *asks;
	/* Milliseconds. */
	u32 peer_timeout;
	struct list_head work;
	struct list_head memory;
	/* Areas and views of processes. */
	struct list_head ends;
	u32 pieces;
	/* Data of the message that was read last. */
	u8 place[ULN_WELL_KNOWN_PLACE_SIZE];
	/* Our incarnation for each peer, and the time of its last change in milliseconds. */
	u32 incarnations;
	u64 mine[ULN_WELL_KNOWN_SLOTS];
	u64 renewed[ULN_WELL_KNOWN_SLOTS];
	/* First operation that a kernel does not allow. */
	const char *complaint;
};

/* Number of entries in a system's tables. */
struct host_sizes {
	u32 connections;
	u32 listeners;
	u32 messages;
	/* Memory allocations, except the system itself. */
	u32 pieces;
	/* Objects that are charged to a user. */
	u32 held;
	/* References to users. */
	u32 users;
	/*
	 * Pages of express memory: of areas, leaving until the other host confirms, of views, and
	 * charged to a user.
	 */
	u32 used;
	u32 leaving;
	u32 viewed;
	u32 counted;
};

/* State of an area or a view. */
struct host_end_state {
	/* enum express_state */
	u32 state;
	int error;
	u32 number;
	u32 count;
	u64 key;
	struct uln_express_pages pages;
};

/* Returns the system that this thread is calling. */
struct host *host_now(void);
/* Begin and end a call; @before is the system that was being called before. */
struct host *host_enter(struct host *host, const struct host_call *call);
void host_leave(struct host *host, struct host *before);
void host_complain(const char *complaint);

/* Begin and end of a verb: verbs.c. */
struct verb {
	struct host *host, *before;
	bool locks;
};
struct verb host_verb_begin(struct host *host, const struct host_call *call, bool locks);
void host_verb_end(struct verb *verb);

#define VERB(host, call, locks) \
	struct verb _verb __attribute__((unused, cleanup(host_verb_end))) = host_verb_begin(host, call, locks)

/* In peer.c, by module_param. */
void host_set_peer_timeout(unsigned int milliseconds);

/* In verbs.c, for Rust. */
struct host *host_create(const struct host_call *call, int number, u32 peer_timeout);
void host_destroy(struct host *host);
void host_open(struct host *host, const struct host_call *call);
void host_stop(struct host *host, const struct host_call *call);
void host_lost(struct host *host, const struct host_call *call, u32 reason);
void host_arrived(struct host *host, const struct host_call *call);
void host_lapsed(struct host *host, const struct host_call *call);
bool host_work(struct host *host, const struct host_call *call);
bool host_due(const struct host *host, u64 *due);
int host_say(struct host *host, const struct host_call *call, u32 to, const struct uln_wire *wire,
	     const u8 *data);
void host_set_hosts(struct host *host, const struct host_call *call, u32 hosts);
void host_watch(struct host *host, const struct host_call *call, u32 peer);
int host_listen(struct host *host, const struct host_call *call, const struct uln_listen *listen,
		u32 file, struct uln_listener **opened);
int host_claim(struct host *host, const struct host_call *call, struct uln_listener *listener,
	       u32 file, struct uln_connection **claimed);
void host_unlisten(struct host *host, const struct host_call *call,
		   struct uln_listener *listener);
int host_waiting(const struct uln_listener *listener);
int host_request(struct host *host, const struct host_call *call,
		 const struct uln_connect *connect, bool question, u32 file,
		 struct uln_connection **made);
int host_answer(struct host *host, const struct host_call *call,
		struct uln_connection *connection, u32 kind, const struct uln_private *private);
int host_close(struct host *host, const struct host_call *call,
	       struct uln_connection *connection, u32 reason, const struct uln_private *private);
void host_abandon(struct host *host, const struct host_call *call,
		  struct uln_connection *connection);
void host_release(struct host *host, const struct host_call *call,
		  struct uln_connection *connection);
void host_describe(const struct uln_connection *connection,
		   struct uln_connection_state *state);
int host_express_begin(struct host *host, const struct host_call *call, u32 own);
int host_express_part(struct host *host, const struct host_call *call, u32 peer, u64 memory, u32 pages);
void host_express_stop(struct host *host, const struct host_call *call);
int host_express_create(struct host *host, const struct host_call *call, u32 peer, u32 pages, bool again,
			u32 file, struct host_end **made);
int host_express_map(struct host *host, const struct host_call *call, u32 peer, u32 area, u64 key, u32 file,
		     struct host_end **made);
void host_express_close(struct host *host, const struct host_call *call, struct host_end *end);
/*
 * Selects the user for later express memory requests, and its limit of waiting messages per host.
 */
void host_express_user(struct host *host, u32 user, u32 messages);
void host_express_spare(struct host *host, u32 pages);
void host_express_describe(struct host *host, const struct host_call *call,
			   struct uln_express_query *query);
void host_express_look(const struct host_end *end, struct host_end_state *state);
void host_sizes(const struct host *host, struct host_sizes *sizes);
u64 host_renewed(const struct host *host, u32 peer);
const char *host_complaint(const struct host *host);

#endif /* _HOST_H */
