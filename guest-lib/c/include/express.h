/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Express memory: two processes of two hosts with Hamlyn cards share pages, and reach each other by loads and stores alone. Channels carry
 * messages in them; those of the library's module hamlyn::express are the same, so either end may be a program in C or in Rust.
 *
 * Made from guest-lib/c by cargo run -p hamlyn-tests --bin headers: do not edit.
 *
 * Calls return what those of hamlyn.h do; hamlyn_error(), timeout_ms and managers are described there. Whoever is at the other end is not
 * trusted, and may change what is shared at any moment.
 */

#ifndef EXPRESS_H
#define EXPRESS_H

#include <stddef.h>
#include <stdint.h>
#include "hamlyn.h"

/**
 * For hamlyn_channel_options.flags: by messages of cards, even if there is express memory.
 */
#define HAMLYN_CHANNEL_BY_MESSAGES 1

/**
 * A name under which others open channels to this process. Any number of threads may use it at once.
 */
struct hamlyn_channel_listener;

/**
 * The receiving end of a channel. One thread at a time may use it.
 */
struct hamlyn_channel_receiver;

/**
 * The sending end of a channel. One thread at a time may use it.
 */
struct hamlyn_channel_sender;

/**
 * Pages that this process has made for a process of another host.
 */
struct hamlyn_express_area;

/**
 * Pages that a process of another host has made, as this one has them mapped.
 */
struct hamlyn_express_view;

/**
 * How a channel's end is to be; 0 in any place is the default.
 */
struct hamlyn_channel_options {
  /**
   * Bytes of the ring that this end receives in, in whole pages: 61440 by default. The longest message to it has 8 less. One page more is
   * taken of what the two hosts share.
   */
  uint64_t capacity;
  /**
   * How often a call that waits looks at memory before it sleeps: 200 by default. HAMLYN_NO_LOOKS is none.
   */
  uint32_t looks;
  /**
   * HAMLYN_CHANNEL_BY_MESSAGES, or 0.
   */
  uint32_t flags;
  /**
   * Must be 0.
   */
  uint32_t reserved[4];
};

/**
 * A message that has come, where the other side put it.
 */
struct hamlyn_channel_message {
  /**
   * Its bytes. The other side may change them for as long as they are there: copy what is to be believed, and look at the copy.
   */
  const void *data;
  /**
   * How many.
   */
  size_t length;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[4];
};

/**
 * What there is of express memory with a host.
 */
struct hamlyn_express_info {
  /**
   * Bytes that the two hosts share, half of which are this host's to give; 0: there are none.
   */
  uint64_t part;
  /**
   * Pages that are this host's to give.
   */
  uint32_t pages;
  /**
   * Of these, pages that areas have.
   */
  uint32_t used;
  /**
   * Pages that areas had, until the other host confirms that nobody there sees them any more.
   */
  uint32_t leaving;
  /**
   * Pages of the other host's that are mapped here.
   */
  uint32_t viewed;
  /**
   * Pages that areas of this user have.
   */
  uint32_t held;
  /**
   * How many he may hold as things stand.
   */
  uint32_t limit;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[4];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Takes a name, of 1 to 64 bytes, under which processes of other hosts open channels to this one. The options, which may be NULL, are for
 * the ends of this side.
 */
int hamlyn_channel_listen(const struct hamlyn_manager *manager,
                          const char *name,
                          const struct hamlyn_channel_options *options,
                          struct hamlyn_channel_listener **listener);

/**
 * Gives the name back. NULL is nothing.
 */
void hamlyn_channel_listener_destroy(struct hamlyn_channel_listener *listener);

/**
 * A file descriptor, which stays the library's: readable while somebody wants to connect.
 */
int hamlyn_channel_listener_fd(const struct hamlyn_channel_listener *listener);

/**
 * Gives both ends of a channel to the next who connects. They may go to different threads. If the other side dies their calls fail, behind
 * all that had come: with -ECONNRESET (its process), -EHOSTDOWN (its host) or -ENETDOWN (the way there). A failure for want of pages
 * (-ENOSPC, -EDQUOT) is told to who asked, and is no reason to accept no more.
 */
int hamlyn_channel_accept(const struct hamlyn_channel_listener *listener,
                          struct hamlyn_channel_sender **sender,
                          struct hamlyn_channel_receiver **receiver,
                          int timeout_ms);

/**
 * Connects to a name on a host, and gives both ends, as hamlyn_channel_accept does: -ECONNREFUSED if nobody listens there,
 * -EHOSTUNREACH if there is no such host. Where the two hosts have no express memory it goes by messages of cards, and
 * hamlyn_channel_is_express says so. The options may be NULL.
 */
int hamlyn_channel_connect(const struct hamlyn_manager *manager,
                           uint32_t host,
                           const char *name,
                           const struct hamlyn_channel_options *options,
                           struct hamlyn_channel_sender **sender,
                           struct hamlyn_channel_receiver **receiver,
                           int timeout_ms);

/**
 * Lets a sender go without closing: the receiver is told so, behind all that was sent. NULL is nothing.
 */
void hamlyn_channel_sender_destroy(struct hamlyn_channel_sender *sender);

/**
 * Returns 1 if the channel goes by express memory, 0 if by messages of cards.
 */
int hamlyn_channel_is_express(const struct hamlyn_channel_sender *sender);

/**
 * Returns how many bytes the longest message has.
 */
int hamlyn_channel_longest(const struct hamlyn_channel_sender *sender);

/**
 * Sends a message, which is copied once, to where the other side reads it. Waits while there is no room for it.
 */
int hamlyn_channel_send(struct hamlyn_channel_sender *sender,
                        const void *data,
                        size_t length,
                        int timeout_ms);

/**
 * Gives room for a message of so many bytes where the other side will read it, to be built there and sent by hamlyn_channel_commit. The
 * other side may look at it and change it at any moment. Any other message that is sent first takes its place. The room is valid
 * until the next call with this sender.
 */
int hamlyn_channel_reserve(struct hamlyn_channel_sender *sender,
                           size_t length,
                           void **data,
                           int timeout_ms);

/**
 * Sends what hamlyn_channel_reserve gave room for. -EINVAL if there is nothing.
 */
int hamlyn_channel_commit(struct hamlyn_channel_sender *sender);

/**
 * Sends bytes of a stream, where it means nothing in which messages they go: as many as go in one piece, a quarter of
 * hamlyn_channel_longest at most. Returns how many.
 */
int hamlyn_channel_write(struct hamlyn_channel_sender *sender,
                         const void *data,
                         size_t length,
                         int timeout_ms);

/**
 * From now on hamlyn_manager_wait and hamlyn_manager_fd tell of it once there may be room for a message of so many bytes. Returns 1 if there
 * is: try again. Call hamlyn_manager_arm as well, and both before each wait.
 */
int hamlyn_channel_arm_room(struct hamlyn_channel_sender *sender,
                            size_t length);

/**
 * Gives a sender a token for hamlyn_manager_ready.
 */
int hamlyn_channel_sender_set_token(struct hamlyn_channel_sender *sender, uint64_t token);

/**
 * Waits until all that was sent is on its way, and whoever sleeps for it has been woken. With a time-out of 0 it sends on what it can, and does
 * not ask whether he has been.
 */
int hamlyn_channel_flush(struct hamlyn_channel_sender *sender,
                         int timeout_ms);

/**
 * Closes it: the other side receives all that was sent, and then that there is no more. The sender is gone even if this fails
 * (hamlyn_channel_try_close does not wait).
 */
int hamlyn_channel_close(struct hamlyn_channel_sender *sender,
                         int timeout_ms);

/**
 * Closes it without waiting, and the sender stays. -EAGAIN until all is on its way: call it again then. Once it has returned 0 comes
 * hamlyn_channel_sender_destroy.
 */
int hamlyn_channel_try_close(struct hamlyn_channel_sender *sender);

/**
 * Lets a receiver go. NULL is nothing.
 */
void hamlyn_channel_receiver_destroy(struct hamlyn_channel_receiver *receiver);

/**
 * Gives the next message, without copying; it stays until it is released, or the next is received. Returns 1, or 0 if the other side has
 * closed and all was received. -EBADMSG if it stored what makes no sense, which ends the channel. What hamlyn_channel_release says of the
 * message before is said here, if it is still there.
 */
int hamlyn_channel_receive(struct hamlyn_channel_receiver *receiver,
                           struct hamlyn_channel_message *message,
                           int timeout_ms);

/**
 * Releases the message that was received last: the other side has its room again. Nothing happens if there is none. An error says that it
 * was gone before, as after a reset of the card: what was seen of it is of no worth.
 */
int hamlyn_channel_release(struct hamlyn_channel_receiver *receiver);

/**
 * Copies bytes of a stream that have come, where it means nothing in which messages they came: waits for the first, and takes what is
 * there. Returns how many; 0 if the other side has closed. Not beside hamlyn_channel_receive: one or the other.
 */
int hamlyn_channel_read(struct hamlyn_channel_receiver *receiver,
                        void *to,
                        size_t length,
                        int timeout_ms);

/**
 * From now on hamlyn_manager_wait and hamlyn_manager_fd tell of it once a message may have come. Returns 1 if one has, or the end: try
 * again. Call hamlyn_manager_arm as well, and both before each wait.
 */
int hamlyn_channel_arm(struct hamlyn_channel_receiver *receiver);

/**
 * Gives a receiver a token for hamlyn_manager_ready.
 */
int hamlyn_channel_receiver_set_token(struct hamlyn_channel_receiver *receiver, uint64_t token);

/**
 * A file descriptor, which stays the library's: readable once the other side has ended. Then call hamlyn_channel_peer_ended.
 */
int hamlyn_channel_peer_fd(const struct hamlyn_channel_receiver *receiver);

/**
 * Returns after how many milliseconds at the latest hamlyn_channel_receive says that the other side has ended; -EAGAIN if it has not.
 */
int hamlyn_channel_peer_ended(const struct hamlyn_channel_receiver *receiver);

/**
 * Describes what there is with a host. -EOPNOTSUPP if this card has no express memory.
 */
int hamlyn_express_get_info(const struct hamlyn_card *card, uint32_t host, struct hamlyn_express_info *info);

/**
 * Makes pages for a process of another host: `length` bytes, a multiple of 4096, of zeros. -EHOSTUNREACH if there is no express memory with
 * that host, -ENOSPC if too few pages are free, -EDQUOT if too few of the user's share.
 */
int hamlyn_express_area_create(const struct hamlyn_card *card,
                               uint32_t host,
                               size_t length,
                               struct hamlyn_express_area **area);

/**
 * Takes the pages out of both processes. Nobody gets them before the other host has confirmed that. NULL is nothing.
 */
void hamlyn_express_area_destroy(struct hamlyn_express_area *area);

/**
 * What a process of the other host has to know to map them: a number, and a key.
 */
int hamlyn_express_area_name(const struct hamlyn_express_area *area, uint32_t *number, uint64_t *key);

/**
 * Where an area's memory is, until it is destroyed, and how many bytes. The other process may change any of them at any moment: load a word
 * once, check it, and then use it.
 */
int hamlyn_express_area_memory(const struct hamlyn_express_area *area,
                               void **memory,
                               size_t *length);

/**
 * Maps pages that a process of another host has made, once. Waits for that host's answer. -EACCES if there are none of that number, or not
 * with that key, -EBUSY if somebody has mapped them, -EHOSTUNREACH if there is no express memory with that host.
 */
int hamlyn_express_view_map(const struct hamlyn_card *card,
                            uint32_t host,
                            uint32_t number,
                            uint64_t key,
                            struct hamlyn_express_view **view);

/**
 * Unmaps them. NULL is nothing.
 */
void hamlyn_express_view_destroy(struct hamlyn_express_view *view);

/**
 * Where a view's memory is, until it is destroyed, and how many bytes. When the other end is gone it shows memory that nobody else sees.
 */
int hamlyn_express_view_memory(const struct hamlyn_express_view *view,
                               void **memory,
                               size_t *length);

/**
 * Keeps stores before it before loads behind it, for the other machine as well: an emulated processor makes too little of C's
 * atomic_thread_fence().
 */
void hamlyn_express_barrier(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EXPRESS_H */
