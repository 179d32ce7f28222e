/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Compound operations of DART cards: what several hosts do with one host's registers and memory, while its software has nothing to do
 * with it. They are those of the library's module hamlyn::dart::programs: so any end may be a program in C or in Rust.
 *
 * Made from guest-lib/c by cargo run -p hamlyn-tests --bin headers: do not edit.
 *
 * Calls return what those of hamlyn.h do. Registers are numbers in the window of the end that has them.
 */

#ifndef DART_PROGRAMS_H
#define DART_PROGRAMS_H

#include <stddef.h>
#include <stdint.h>
#include "dart.h"

/**
 * Bytes of a connection's endpoint that a caller's questions are sent from.
 */
#define DART_CALLER_SCRATCH 1024

/**
 * Bytes of an entry that are its sender's.
 */
#define DART_URGENT_SIZE 24

/**
 * The receiver's side: entries in an endpoint, and an event when one is more urgent than all before it. They go on to the endpoint's
 * end, where they are refused; so a backlog is begun anew before, when nobody puts any. One thread at a time may use it.
 */
struct dart_backlog;

/**
 * Who looks after a barrier: one register of his counts those that have still to come. One thread at a time may use it.
 */
struct dart_barrier;

/**
 * A call that was taken and is to be answered. One thread at a time may use it.
 */
struct dart_call;

/**
 * Who asks the card at a connection's other end, whose software has nothing to do with it, and waits for its answers. One thread at a
 * time may use it.
 */
struct dart_caller;

/**
 * Who calls. Arguments go to a place of the server's endpoint that is this client's. One thread at a time may use it.
 */
struct dart_client;

/**
 * A member of a barrier. One thread at a time may use it.
 */
struct dart_member;

/**
 * Who is called, by any number of clients, one call of each at a time. One thread at a time may use it.
 */
struct dart_server;

/**
 * Bytes that are read: from byte `from` of the other end's endpoint to byte `to` of this end's.
 */
struct dart_piece {
  /**
   * Where they are there, a multiple of 4 from that endpoint's base.
   */
  uint64_t from;
  /**
   * Where they are to be here, a multiple of 4.
   */
  uint64_t to;
  /**
   * How many, up to DART_LONGEST.
   */
  uint32_t length;
  /**
   * Must be 0.
   */
  uint32_t reserved;
};

/**
 * A lock: which registers of the other end's window it is, both zero at first. Who wants it draws a ticket, and has it when it is his
 * turn, so that it comes to all in order.
 */
struct dart_lock_registers {
  /**
   * The next ticket.
   */
  uint8_t tickets;
  /**
   * Whose turn it is.
   */
  uint8_t turn;
};

/**
 * A log in an endpoint, entries of one length behind each other, to which many append: which registers of the window it is.
 */
struct dart_log {
  /**
   * The register that says where the next entry goes.
   */
  uint8_t tail;
  /**
   * The register that is an entry's length.
   */
  uint8_t step;
  /**
   * The register that says where the log ends.
   */
  uint8_t end;
};

/**
 * A priority queue (section 2): which registers of the window it is.
 */
struct dart_priority_registers {
  /**
   * Where the next entry goes.
   */
  uint8_t tail;
  /**
   * The most urgent of those that were not looked at.
   */
  uint8_t most;
  /**
   * The length of an entry.
   */
  uint8_t step;
};

/**
 * An entry that has come.
 */
struct dart_urgent {
  /**
   * How urgent it is.
   */
  uint64_t priority;
  /**
   * Its bytes.
   */
  uint8_t data[DART_URGENT_SIZE];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a caller by this connection, whose events go to `answers`, with questions in DART_CALLER_SCRATCH bytes of its endpoint from
 * `scratch` on. Who waits longer than timeout_ms for an answer gets -ETIMEDOUT; negative: nobody does. The queue is the caller's from now
 * on, even if this fails, and goes with it.
 */
int dart_caller_create(const struct dart_connection *connection,
                       struct dart_queue *answers,
                       uint64_t scratch,
                       int timeout_ms,
                       struct dart_caller **caller);

/**
 * Lets a caller go, with its queue. NULL is nothing.
 */
void dart_caller_destroy(struct dart_caller *caller);

/**
 * Asks, and waits for the answer: its first block. -EPERM if the other end does not execute it; dart_connection_status says why.
 */
int dart_caller_ask(struct dart_caller *caller,
                    const struct dart_operation *question,
                    uint64_t (*answer)[DART_WORDS]);

/**
 * Does one register operation, DART_STEP_ADD or another, on a register of the other end's window with this operand: fetch and
 * increment, for example. `before` is what it was, and `after` what it is, of which either may be NULL. It fails as dart_caller_ask does.
 */
int dart_fetch(struct dart_caller *caller,
               uint32_t number,
               uint32_t step,
               uint64_t operand,
               uint64_t *before,
               uint64_t *after);

/**
 * Has a register of the other end's window become `value` if it is `expected`; `found` is what it was. Register `own` of that window is
 * for this caller alone. It fails as dart_caller_ask does.
 */
int dart_compare_and_swap(struct dart_caller *caller,
                          uint32_t number,
                          uint32_t own,
                          uint64_t expected,
                          uint64_t value,
                          uint64_t *found);

/**
 * Reads up to 32 bytes from byte `from` of the other end's endpoint on, a multiple of 4. It fails as dart_caller_ask does.
 */
int dart_read(struct dart_caller *caller,
              uint64_t from,
              void *to,
              size_t length);

/**
 * Reads scattered bytes into this end's endpoint, from as many places as there are; the questions do not wait for each other. It fails
 * as dart_caller_ask does, and then some may have been read.
 */
int dart_gather(struct dart_caller *caller,
                const struct dart_piece *pieces,
                size_t count);

/**
 * Waits until the lock is this caller's. If an answer does not come it is not known whose it is. It fails as dart_caller_ask does.
 */
int dart_lock(struct dart_caller *caller,
              const struct dart_lock_registers *registers);

/**
 * Takes the lock if it is free: returns 1 if it was, else 0. Register `own` of that window is for this caller alone. It fails as
 * dart_caller_ask does.
 */
int dart_try_lock(struct dart_caller *caller,
                  const struct dart_lock_registers *registers,
                  uint32_t own);

/**
 * Gives the lock back: the next has it. What its owner did at that host before, by the same connection, is done when he has it.
 */
int dart_unlock(const struct dart_caller *caller,
                const struct dart_lock_registers *registers);

/**
 * Sets a log's registers for `entries` entries of `length` bytes, a multiple of 4 up to 32, from byte `start` of the endpoint on: by its
 * owner, with any connection that has them in its window, before anybody appends.
 */
int dart_log_set(const struct dart_connection *connection,
                 const struct dart_log *log,
                 uint64_t start,
                 uint32_t length,
                 uint64_t entries);

/**
 * How many bytes of entries a log has that begins at byte `start`: what is there of them has been written.
 */
int dart_log_written(const struct dart_connection *connection,
                     const struct dart_log *log,
                     uint64_t start,
                     uint64_t *written);

/**
 * Appends an entry of `length` bytes, that of dart_log_set, to a log at the connection's other end: the bytes of this end's endpoint
 * from byte `from` on. It is one message, executed at one moment, so that no two entries have the same place. If the log is full it is
 * refused, which dart_connection_status tells, and any question that is asked behind it. It fails as dart_send does, without waiting.
 */
int dart_append(const struct dart_connection *connection,
                const struct dart_log *log,
                uint32_t length,
                uint64_t from);

/**
 * Puts an item, up to 32 bytes of this end's endpoint from byte `from` on, into the queue that the connection's other end has for events,
 * as any number of others do. If that is full items wait, in order, first in the cards and then here: nothing is lost, and nobody else
 * waits. The consumer takes them by dart_queue_next: an item is the record's data, its tag the record's operand.
 */
int dart_put(const struct dart_connection *connection,
             uint64_t tag,
             uint64_t from,
             uint64_t length,
             int timeout_ms);

/**
 * Begins anew, with no entries, from byte `start` of the endpoint on; `connection` is any that has the registers in its window.
 */
int dart_backlog_create(const struct dart_connection *connection,
                        const struct dart_priority_registers *registers,
                        uint64_t start,
                        struct dart_backlog **backlog);

/**
 * Lets a backlog go. NULL is nothing.
 */
void dart_backlog_destroy(struct dart_backlog *backlog);

/**
 * Takes up to `size` entries of those that have come, the most urgent first, and returns how many; the others stay for the next time.
 * From then on anything that comes is more urgent than nothing, and an event. `endpoint` is the one that they are in.
 */
int dart_backlog_take(struct dart_backlog *backlog,
                      const struct dart_endpoint *endpoint,
                      struct dart_urgent *entries,
                      size_t size);

/**
 * Puts an entry into the priority queue at the connection's other end: DART_URGENT_SIZE bytes of this end's endpoint from byte `from`
 * on, behind which 8 bytes become the priority, more than 0. It is one message. It fails as dart_send does, without waiting.
 */
int dart_put_urgent(const struct dart_connection *connection,
                    const struct dart_priority_registers *registers,
                    const struct dart_endpoint *endpoint,
                    uint64_t from,
                    uint64_t priority);

/**
 * Makes a barrier of as many members as there are connections, at least one, all of whose windows have the register under this number, and
 * whose events go to `complete`. The queue is the barrier's from now on, even if this fails, and goes with it.
 */
int dart_barrier_create(const struct dart_connection *const *members,
                        size_t count,
                        struct dart_queue *complete,
                        uint32_t number,
                        struct dart_barrier **barrier);

/**
 * Lets a barrier go, with its queue. NULL is nothing.
 */
void dart_barrier_destroy(struct dart_barrier *barrier);

/**
 * Waits until all have come, and releases them. `round`, which may be NULL, is how often that has been.
 */
int dart_barrier_release(struct dart_barrier *barrier, uint64_t *round, int timeout_ms);

/**
 * Makes a member of the barrier whose register is that of the other end's window under this number; the connection's events go to
 * `released`. The queue is the member's from now on, even if this fails, and goes with it.
 */
int dart_member_create(const struct dart_connection *connection,
                       struct dart_queue *released,
                       uint32_t number,
                       struct dart_member **member);

/**
 * Lets a member go, with its queue. NULL is nothing.
 */
void dart_member_destroy(struct dart_member *member);

/**
 * Comes to the barrier, and waits until all have. `round`, which may be NULL, is the barrier's. Who did not wait to the end has come all
 * the same: the next call only waits.
 */
int dart_member_wait(struct dart_member *member,
                     uint64_t *round,
                     int timeout_ms);

/**
 * Makes a client with a place of `size` bytes from byte `place` of the server's endpoint on. `endpoint` is the connection's: its first
 * `size` bytes are for results, and as many behind them for arguments. The connection's events go to `results`, which is the client's from
 * now on, even if this fails, and goes with it.
 */
int dart_client_create(const struct dart_connection *connection,
                       const struct dart_endpoint *endpoint,
                       struct dart_queue *results,
                       uint64_t place,
                       uint64_t size,
                       struct dart_client **client);

/**
 * Lets a client go, with its queue. NULL is nothing.
 */
void dart_client_destroy(struct dart_client *client);

/**
 * Calls, waits for the result, copies as many bytes of it as fit, and returns how many it has. -EINVAL for more arguments than the place
 * has bytes. After -EAGAIN or -ETIMEDOUT the client is of no more use, as the result may still come: each call is -EINVAL then.
 */
int dart_client_call(struct dart_client *client,
                     const void *arguments,
                     size_t length,
                     void *result,
                     size_t size,
                     int timeout_ms);

/**
 * Makes a server with a place of `size` bytes for each client, in the order of their connections, in the first bytes of the endpoint that all
 * of these have, and as many behind all of them for results. Their events go to `calls`, which is the server's from now on, even if
 * this fails, and goes with it.
 */
int dart_server_create(const struct dart_endpoint *endpoint,
                       const struct dart_connection *const *clients,
                       size_t count,
                       struct dart_queue *calls,
                       uint64_t size,
                       struct dart_server **server);

/**
 * Lets a server go, with its queue. NULL is nothing.
 */
void dart_server_destroy(struct dart_server *server);

/**
 * Takes the next call, copies as many bytes of its arguments as fit, and returns how many it has. What a client says that does not keep
 * to its place is passed over.
 */
int dart_server_next(struct dart_server *server,
                     void *arguments,
                     size_t size,
                     struct dart_call **taken,
                     int timeout_ms);

/**
 * Answers a call, which is gone, even if this fails: -EINVAL for more bytes than a place has.
 */
int dart_server_answer(const struct dart_server *server,
                       struct dart_call *taken,
                       const void *result,
                       size_t length);

/**
 * Lets a call go without an answer: its client waits on. NULL is nothing.
 */
void dart_call_destroy(struct dart_call *taken);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DART_PROGRAMS_H */
