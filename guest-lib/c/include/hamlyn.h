/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hamlyn: messages by a virtual user-level network card, between processes of different virtual machines.
 *
 * Made from guest-lib/c by cargo run -p hamlyn-tests --bin headers: do not edit.
 *
 * A call returns 0 or more, or a negative errno; hamlyn_error() says why the last one failed in this thread. A call that
 * fails changes nothing, unless it says what it leaves. What it gives is stored by its last pointers. No pointer may be
 * NULL unless it says so.
 *
 * timeout_ms is as for poll(2), in every call that has it: milliseconds, 0 to look without waiting (-EAGAIN if it would have
 * to), negative to wait for ever; -ETIMEDOUT if the time is over.
 */

#ifndef HAMLYN_H
#define HAMLYN_H

#include <stddef.h>
#include <stdint.h>

/**
 * The version of the library that this header describes: major << 16 | minor << 8 | patch.
 */
#define HAMLYN_VERSION 256

/**
 * The host id of a card whose link is down.
 */
#define HAMLYN_NO_LINK 4294967295

/**
 * Bytes of a ticket.
 */
#define HAMLYN_TICKET_SIZE 40

/**
 * Bytes of a seed.
 */
#define HAMLYN_SEED_SIZE 52

/**
 * Room for the text of a ticket or a seed, with the zero behind it.
 */
#define HAMLYN_TEXT_SIZE 256

/**
 * For hamlyn_manager_options.looks: calls that wait sleep at once.
 */
#define HAMLYN_NO_LOOKS 4294967295

/**
 * Messages are checked against the slot's own key and bounds.
 */
#define HAMLYN_MODE_NORMAL 0

/**
 * And against the metadata entry's.
 */
#define HAMLYN_MODE_PARANOID 1

/**
 * And an entry takes one message until hamlyn_slot_reopen.
 */
#define HAMLYN_MODE_ONE_SHOT 2

/**
 * A sleeping receiver is woken by messages alone that ask for it.
 */
#define HAMLYN_SLOT_QUIET 1

/**
 * Who may write may also fetch-and-op words, and so read them.
 */
#define HAMLYN_SLOT_FETCHABLE 2

/**
 * In place of a metadata entry: fast mode.
 */
#define HAMLYN_FAST 4294967295

/**
 * Bytes of metadata that a message brings at most.
 */
#define HAMLYN_METADATA_SIZE 60

/**
 * Bytes of a share.
 */
#define HAMLYN_SHARE_SIZE 52

/**
 * Moves the data without a notification.
 */
#define HAMLYN_MESSAGE_SILENT 1

/**
 * Wakes the receiver if it sleeps.
 */
#define HAMLYN_MESSAGE_INTERRUPT 2

/**
 * The word plus the operand.
 */
#define HAMLYN_OP_ADD 0

/**
 * The word and the operand, bit by bit.
 */
#define HAMLYN_OP_AND 1

/**
 * The word or the operand.
 */
#define HAMLYN_OP_OR 2

/**
 * The word exclusive-or the operand.
 */
#define HAMLYN_OP_XOR 3

/**
 * The operand.
 */
#define HAMLYN_OP_SWAP 4

/**
 * The operand if the word is `compare`.
 */
#define HAMLYN_OP_COMPARE_SWAP 5

/**
 * The most bytes that a connection's side passes the other at a time.
 */
#define HAMLYN_MAX_PRIVATE 256

/**
 * The peer closed the connection.
 */
#define HAMLYN_END_CLOSED 1

/**
 * The peer's process died, or let go of the connection without closing it.
 */
#define HAMLYN_END_DIED 2

/**
 * The peer's host gives no sign of life: it has died, was paused, or cannot be reached.
 */
#define HAMLYN_END_HOST_LOST 3

/**
 * The peer's host, or its card, has started anew.
 */
#define HAMLYN_END_HOST_RESET 4

/**
 * This host's link went down.
 */
#define HAMLYN_END_LINK_LOST 5

/**
 * This host stood still, and its card discarded what arrived meanwhile.
 */
#define HAMLYN_END_LAPSED 6

/**
 * This host's card was reset or removed, or has failed.
 */
#define HAMLYN_END_CARD_RESET 7

/**
 * Memory that receivers are made in: what arrives is written there, and nobody copies it.
 */
struct hamlyn_area;

/**
 * A participant of a barrier. One thread at a time may use it.
 */
struct hamlyn_barrier;

/**
 * Memory to send from without copying. One thread at a time may use it; it goes to any number of peers.
 */
struct hamlyn_buffer;

/**
 * An open card: one protection domain. Any number of threads may use it at once.
 */
struct hamlyn_card;

/**
 * A connection that was asked for. One thread at a time may use it.
 */
struct hamlyn_connecting;

/**
 * A connection, which the operating systems set up and watch. It carries no data but what both sides pass when it begins and
 * ends: tickets and seeds, perhaps. It tells of the other side's end. Any number of threads may use it at once.
 */
struct hamlyn_connection;

/**
 * Receives one datagram at a time: the next one is refused until hamlyn_datagram_rearm. One thread at a time may use it.
 */
struct hamlyn_datagram_receiver;

/**
 * A slot in one-shot mode with a part of its memory for each of its metadata entries, and a receiver of the program's own that is
 * called for what arrives there. Any number of threads may use it.
 */
struct hamlyn_end_point;

/**
 * A participant of a barrier that the others are not known to yet.
 */
struct hamlyn_entrance;

/**
 * The handle of a request. Any number of threads may use it.
 */
struct hamlyn_handle;

/**
 * A name that others can connect to. Any number of threads may use it at once.
 */
struct hamlyn_listener;

/**
 * A send terminus with a notification queue and memory to send from. Receivers are registered with it. Any number of
 * threads may use it at once.
 */
struct hamlyn_manager;

/**
 * Where a card tells of messages (section 2.6 of the paper), for slots of the program's own. Any number of threads may use it.
 */
struct hamlyn_queue;

/**
 * Somebody who wants to connect. One thread at a time may use it.
 */
struct hamlyn_request;

/**
 * One of a terminus' eight send buffers: memory that the card gathers from.
 */
struct hamlyn_send_buffer;

/**
 * An area opened to who holds a ticket. Any number of threads may use it.
 */
struct hamlyn_slot;

/**
 * A name under which others open streams to this process. Any number of threads may use it at once.
 */
struct hamlyn_stream_listener;

/**
 * The receiving end. It is made first, and gives the seed that the sender is made from. One thread at a time may use it.
 */
struct hamlyn_stream_receiver;

/**
 * Somebody who wants to open streams. One thread at a time may use it.
 */
struct hamlyn_stream_request;

/**
 * The sending end of a stream: bytes in order, from one sender to one receiver. One thread at a time may use it.
 */
struct hamlyn_stream_sender;

/**
 * Receives tagged remote writes. One thread at a time may use it.
 */
struct hamlyn_tag_receiver;

/**
 * A send terminus of the program's own. Any number of threads may use it.
 */
struct hamlyn_terminus;

/**
 * What a card is and how much of everything it has.
 */
struct hamlyn_card_info {
  /**
   * Its host id, or HAMLYN_NO_LINK while its link is down.
   */
  uint32_t host;
  /**
   * Version of the card's contract: major in the upper half, minor in the lower.
   */
  uint32_t abi_version;
  /**
   * The most data in a packet, in bytes.
   */
  uint32_t packet_size;
  /**
   * The card's memory, in bytes.
   */
  uint32_t sram_size;
  /**
   * Send termini.
   */
  uint32_t termini;
  /**
   * Slots.
   */
  uint32_t slots;
  /**
   * Notification queues.
   */
  uint32_t queues;
  /**
   * Interrupt vectors.
   */
  uint32_t vectors;
  /**
   * Ports of the switch, which host ids are below; 0 while the link is down, or if the card or driver is too old to know.
   */
  uint32_t ports;
  /**
   * Bytes of the card's memory that are free; 0 also if the card or driver is too old to know.
   */
  uint32_t sram_free;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[6];
};

/**
 * Permission to write into a receiver's buffer. It may be copied, sent in a message and used on any host; who has it may
 * write. The bytes carry a checksum, which is checked when a ticket is first used.
 */
struct hamlyn_ticket {
  /**
   * Its binary form.
   */
  uint8_t bytes[HAMLYN_TICKET_SIZE];
};

/**
 * What a stream's sender is made from: the tickets for its receiver's buffers. As with tickets, who has it may send.
 */
struct hamlyn_seed {
  /**
   * Its binary form.
   */
  uint8_t bytes[HAMLYN_SEED_SIZE];
};

/**
 * How a manager is made; 0 in any place is the default.
 */
struct hamlyn_manager_options {
  /**
   * Entries of its first notification queue, 2 to 65536: 1024 by default. It takes another queue by itself when that is too
   * short for all its receivers.
   */
  uint32_t entries;
  /**
   * How often a call that waits looks at memory before it sleeps: 200 by default. HAMLYN_NO_LOOKS is none.
   */
  uint32_t looks;
  /**
   * Must be 0.
   */
  uint32_t reserved[6];
};

/**
 * A datagram that has come.
 */
struct hamlyn_datagram {
  /**
   * Its bytes, where the card put them. They stay until the receiver is re-armed or destroyed.
   */
  const void *data;
  /**
   * How many.
   */
  size_t length;
  /**
   * Where in the receiver's buffer they start.
   */
  size_t offset;
  /**
   * Whether it brought a ticket for a reply: 1 or 0.
   */
  int has_reply;
  /**
   * That ticket.
   */
  struct hamlyn_ticket reply;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[4];
};

/**
 * How a stream's receiver is made; 0 in any place is the default.
 */
struct hamlyn_stream_options {
  /**
   * Bytes of a record's buffer: 16384 by default.
   */
  uint32_t record_size;
  /**
   * Buffers to begin with: 16 by default.
   */
  uint32_t records;
  /**
   * Buffers that it grows to by itself: 256 by default.
   */
  uint32_t max_records;
  /**
   * Must be 0.
   */
  uint32_t reserved[5];
};

/**
 * Bytes that have come, a part of the stream.
 */
struct hamlyn_record {
  /**
   * Its number, for hamlyn_stream_release.
   */
  uint64_t number;
  /**
   * Its bytes, where the card put them. They stay until it is released or the receiver is destroyed.
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
 * A message that is whole.
 */
struct hamlyn_notification {
  /**
   * Where its metadata entry lies, for hamlyn_slot_entry; 0 for a fast-mode message.
   */
  uint64_t metadata;
  /**
   * The slot that it arrived in.
   */
  uint32_t slot;
  /**
   * The number that the slot was given.
   */
  uint32_t index;
  /**
   * Whether it came by fast mode: 1 or 0.
   */
  uint32_t is_fast;
  /**
   * The word that a fast-mode message brought.
   */
  uint32_t word;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[4];
};

/**
 * How a slot is to be; zeros are the whole area, no metadata entries, the normal mode.
 */
struct hamlyn_slot_options {
  /**
   * The first byte of the area that it covers.
   */
  size_t start;
  /**
   * How many: 0 for all that follow.
   */
  size_t length;
  /**
   * Metadata entries; with none only fast-mode messages come in.
   */
  uint32_t metadata_entries;
  /**
   * HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID or HAMLYN_MODE_ONE_SHOT.
   */
  uint32_t mode;
  /**
   * A number that its notifications carry.
   */
  uint32_t index;
  /**
   * HAMLYN_SLOT_QUIET and HAMLYN_SLOT_FETCHABLE.
   */
  uint32_t flags;
  /**
   * Must be 0.
   */
  uint32_t reserved[4];
};

/**
 * A message that is whole.
 */
struct hamlyn_arrived {
  /**
   * The slot's number on this host.
   */
  uint32_t slot;
  /**
   * Which of the end point's metadata entries it came to.
   */
  uint32_t entry;
  /**
   * The metadata that it brought: as many bytes as its sender gave, then zeros. Its sender has written that: check it.
   */
  uint8_t metadata[HAMLYN_METADATA_SIZE];
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[5];
};

/**
 * What a receiver does. The functions are called by whatever thread takes notifications of the manager, one call at a time. A lock is
 * held meanwhile: they record what has come and return, and call nothing that waits or takes notifications.
 */
struct hamlyn_receiver_class {
  /**
   * Records the arrival of a message. If it returns 1 the end point's token is among those of hamlyn_manager_ready.
   */
  int (*process_arrival)(void*, const struct hamlyn_arrived*);
  /**
   * Notes that notifications were lost, perhaps of this receiver: it looks which entries are locked. The same of what it returns.
   */
  int (*arrivals_lost)(void*);
  /**
   * What both are handed first. It stays until hamlyn_end_point_destroy has returned.
   */
  void *context;
  /**
   * Must be 0.
   */
  uint32_t reserved[4];
};

/**
 * What a message has beside its data; zeros are nothing of it.
 */
struct hamlyn_message {
  /**
   * Metadata, up to HAMLYN_METADATA_SIZE bytes; not in fast mode.
   */
  const void *metadata;
  /**
   * How many bytes of it.
   */
  size_t metadata_length;
  /**
   * Where in the ticket's buffer the data goes.
   */
  uint32_t offset;
  /**
   * In fast mode the word that the notification carries, else the packet counter's initial value (section 2.5).
   */
  uint32_t word;
  /**
   * HAMLYN_MESSAGE_SILENT and HAMLYN_MESSAGE_INTERRUPT.
   */
  uint32_t flags;
  /**
   * Must be 0.
   */
  uint32_t reserved[5];
};

/**
 * Some bytes of a send buffer.
 */
struct hamlyn_piece {
  /**
   * The buffer, which is the terminus'.
   */
  const struct hamlyn_send_buffer *buffer;
  /**
   * The first byte.
   */
  size_t start;
  /**
   * How many.
   */
  size_t length;
};

/**
 * A part of a group receive (section 2.5 of the paper): a piece of a ticket's buffer, and what it counts for. It is used up by
 * sending or dividing it, once: who keeps a copy closes the group too early.
 */
struct hamlyn_share {
  /**
   * Its binary form.
   */
  uint8_t bytes[HAMLYN_SHARE_SIZE];
};

/**
 * Which hosts have a name: bit h of each word stands for host h.
 */
struct hamlyn_found {
  /**
   * Hosts on which somebody listened under it when they were asked.
   */
  uint64_t hosts;
  /**
   * Hosts that cannot say, as their drivers are too old: only who connects will know.
   */
  uint64_t too_old;
  /**
   * Hosts that have said nothing in time: most are not there.
   */
  uint64_t silent;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[10];
};

/**
 * What the other side has passed. It stays until the request or connection is gone.
 */
struct hamlyn_passed {
  /**
   * Its bytes.
   */
  const void *data;
  /**
   * How many, at most HAMLYN_MAX_PRIVATE.
   */
  size_t length;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[4];
};

/**
 * How a connection ended.
 */
struct hamlyn_end {
  /**
   * HAMLYN_END_CLOSED or another.
   */
  uint32_t reason;
  /**
   * How many bytes the other side passed when it closed.
   */
  uint32_t length;
  /**
   * Those bytes, and zeros.
   */
  uint8_t data[HAMLYN_MAX_PRIVATE];
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[6];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library that the program runs with, as HAMLYN_VERSION is of the one that it was compiled for. One with the
 * same major number (and, while that is 0, the same minor number) does.
 */
uint32_t hamlyn_version(void);

/**
 * Why the last call that failed in this thread did: a sentence, valid until the thread's next call that fails.
 */
const char *hamlyn_error(void);

/**
 * Opens a card: "/dev/hamlynN", or "vfio-user:" and the path of a card's socket, with no virtual machine. NULL is
 * the card that the environment variable HAMLYN_CARD names, else /dev/hamlyn0.
 */
int hamlyn_open(const char *name,
                struct hamlyn_card **card);

/**
 * Lets a card go; it is closed when all that was made from it is gone too. NULL is nothing.
 */
void hamlyn_close(struct hamlyn_card *card);

/**
 * Describes a card as it is now.
 */
int hamlyn_get_info(const struct hamlyn_card *card, struct hamlyn_card_info *info);

/**
 * Reads a ticket's text, "hamlyn1:" and digits.
 */
int hamlyn_ticket_parse(const char *text, struct hamlyn_ticket *ticket);

/**
 * Writes a ticket's text, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
 */
int hamlyn_ticket_print(const struct hamlyn_ticket *ticket, char *text, size_t size);

/**
 * Reads a seed's text, "hamlynseed1:" and digits.
 */
int hamlyn_seed_parse(const char *text, struct hamlyn_seed *seed);

/**
 * Writes a seed's text, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
 */
int hamlyn_seed_print(const struct hamlyn_seed *seed, char *text, size_t size);

/**
 * Creates a manager.
 */
int hamlyn_manager_create(const struct hamlyn_card *card, struct hamlyn_manager **manager);

/**
 * Creates a manager as the options say.
 */
int hamlyn_manager_create_with(const struct hamlyn_card *card,
                               const struct hamlyn_manager_options *options,
                               struct hamlyn_manager **manager);

/**
 * Lets a manager go; it lives on for the senders and receivers that were made from it. NULL is nothing.
 */
void hamlyn_manager_destroy(struct hamlyn_manager *manager);

/**
 * Waits until the card has taken all that hamlyn_tag_send and hamlyn_datagram_send have sent: what it has not is lost when
 * the manager goes. If the card has refused any of it, this says so, once.
 */
int hamlyn_manager_flush(const struct hamlyn_manager *manager,
                         int timeout_ms);

/**
 * Waits until something has arrived for one of the manager's receivers: looks at memory for a while, then sleeps. Returns
 * at once if something has since the last call, perhaps noticed by a call for another receiver: ask all once more.
 * One loop for each manager, by this or by hamlyn_manager_arm.
 */
int hamlyn_manager_wait(const struct hamlyn_manager *manager,
                        int timeout_ms);

/**
 * Takes notice of all that has arrived, without waiting. Returns how many messages that were.
 */
int hamlyn_manager_poll(const struct hamlyn_manager *manager);

/**
 * Stores the tokens (hamlyn_datagram_set_token and its like) of those that have something new since the last call, at most `count` of
 * them, in rising order. Returns how many; if those are `count`, call it again before the loop waits. Ask each until it has no more;
 * one may be asked in vain. A sender is among them when it was out of room (-EAGAIN) and may find some.
 */
int hamlyn_manager_ready(const struct hamlyn_manager *manager,
                         uint64_t *tokens,
                         size_t count);

/**
 * A file descriptor for poll(2) and the like, which stays the library's, and the same for as long as the manager lives. It may
 * stand for more than this manager: call hamlyn_manager_arm before each wait, and hamlyn_manager_poll or a receiver's call with
 * a time-out of 0 behind it.
 */
int hamlyn_manager_fd(const struct hamlyn_manager *manager);

/**
 * Makes hamlyn_manager_fd readable once the next message is there, or, if a call that sends was out of room (-EAGAIN), once there is
 * some. Returns 1 if it is so already (then the descriptor may not become readable for it) or hamlyn_manager_wake was called, else 0.
 * It looks at memory for a while first.
 */
int hamlyn_manager_arm(const struct hamlyn_manager *manager);

/**
 * Ends a call that waits at a manager, or the next one that would, from any thread: hamlyn_manager_wait returns 0, others
 * -ECANCELED. hamlyn_manager_fd is readable until hamlyn_manager_arm has returned 1 for it. Who has several threads that wait has
 * the one that was woken wake the next. A sleep that had begun before the first call for this manager notices within a second.
 */
int hamlyn_manager_wake(const struct hamlyn_manager *manager);

/**
 * Writes data `offset` bytes into the receiver's buffer and enqueues the tag there. At most as long as a packet
 * (hamlyn_card_info.packet_size). The data may be changed when this returns. There is no order among several. It waits while
 * there is more to send than the card has room for.
 */
int hamlyn_tag_send(const struct hamlyn_manager *manager,
                    const struct hamlyn_ticket *ticket,
                    const void *data,
                    size_t length,
                    uint32_t offset,
                    uint32_t tag,
                    int timeout_ms);

/**
 * Creates a receiver with a buffer of `length` bytes, and a queue for as many as `tags` tags (2 to 65536) that have arrived
 * and were not taken.
 */
int hamlyn_tag_receiver_create(const struct hamlyn_card *card,
                               size_t length,
                               uint32_t tags,
                               struct hamlyn_tag_receiver **receiver);

/**
 * Lets a receiver go, with its buffer. NULL is nothing.
 */
void hamlyn_tag_receiver_destroy(struct hamlyn_tag_receiver *receiver);

/**
 * The ticket that senders need.
 */
int hamlyn_tag_receiver_ticket(const struct hamlyn_tag_receiver *receiver, struct hamlyn_ticket *ticket);

/**
 * Takes the next tag that has arrived.
 */
int hamlyn_tag_receive(struct hamlyn_tag_receiver *receiver, uint32_t *tag, int timeout_ms);

/**
 * Takes this very tag once it has arrived; others stay for later, in their order. -ENOSPC if as many others stand aside as the
 * receiver was created for: take some by hamlyn_tag_receive.
 */
int hamlyn_tag_receive_specific(struct hamlyn_tag_receiver *receiver,
                                uint32_t tag,
                                int timeout_ms);

/**
 * A file descriptor for poll(2) and the like, which stays the library's. Call hamlyn_tag_arm before each wait, and
 * hamlyn_tag_receive with a time-out of 0 behind it until it has no more.
 */
int hamlyn_tag_fd(const struct hamlyn_tag_receiver *receiver);

/**
 * Makes hamlyn_tag_fd readable once a tag has arrived. Returns 1 if there is one that was not taken (then the descriptor may not
 * become readable for it), else 0.
 */
int hamlyn_tag_arm(const struct hamlyn_tag_receiver *receiver);

/**
 * Copies bytes out of the receiver's buffer, from `offset` on.
 */
int hamlyn_tag_read(const struct hamlyn_tag_receiver *receiver, size_t offset, void *to, size_t length);

/**
 * Creates a receiver for datagrams of up to `capacity` bytes; it is ready for one.
 */
int hamlyn_datagram_receiver_create(const struct hamlyn_manager *manager,
                                    size_t capacity,
                                    struct hamlyn_datagram_receiver **receiver);

/**
 * Creates `count` receivers for datagrams of up to `capacity` bytes each, which share a slot and nothing else, and stores them one
 * behind the other. Each is ready, has a key of its own, and is destroyed by itself.
 */
int hamlyn_datagram_group_create(const struct hamlyn_manager *manager,
                                 size_t capacity,
                                 struct hamlyn_datagram_receiver **receivers,
                                 size_t count);

/**
 * Gives a receiver a token for hamlyn_manager_ready.
 */
int hamlyn_datagram_set_token(struct hamlyn_datagram_receiver *receiver, uint64_t token);

/**
 * Lets a receiver go, with its buffer. NULL is nothing.
 */
void hamlyn_datagram_receiver_destroy(struct hamlyn_datagram_receiver *receiver);

/**
 * The ticket that senders need.
 */
int hamlyn_datagram_receiver_ticket(const struct hamlyn_datagram_receiver *receiver,
                                    struct hamlyn_ticket *ticket);

/**
 * Gives the datagram that has come: the same one until the receiver is re-armed. -ENODATA if packets of one have arrived, and no
 * other for 10 s (hamlyn_datagram_set_stall_timeout): its sender was lost half-way. hamlyn_datagram_revoke or
 * hamlyn_datagram_forget makes the receiver ready again.
 */
int hamlyn_datagram_receive(const struct hamlyn_datagram_receiver *receiver,
                            struct hamlyn_datagram *datagram,
                            int timeout_ms);

/**
 * Makes a receiver ready for the next datagram. What the last one's `data` points to may change now.
 */
int hamlyn_datagram_rearm(struct hamlyn_datagram_receiver *receiver);

/**
 * Returns 1 if packets of a datagram have arrived and not all of them, else 0.
 */
int hamlyn_datagram_is_partial(const struct hamlyn_datagram_receiver *receiver);

/**
 * Gives up a datagram that is not whole. The tickets stay valid: what its sender still sends counts to the next datagram.
 */
int hamlyn_datagram_forget(struct hamlyn_datagram_receiver *receiver);

/**
 * Sets how long packets of a datagram may stand alone before hamlyn_datagram_receive returns -ENODATA; 10000 at first.
 */
int hamlyn_datagram_set_stall_timeout(struct hamlyn_datagram_receiver *receiver,
                                      uint32_t timeout_ms);

/**
 * Gives a receiver a new key: the tickets that were handed out are void. A datagram that has come stays until
 * hamlyn_datagram_rearm; one that is not whole is forgotten, and the buffer is zeroed.
 */
int hamlyn_datagram_revoke(struct hamlyn_datagram_receiver *receiver);

/**
 * Sends a datagram `offset` bytes into a receiver's buffer, with a ticket for a reply or NULL. The data may be changed when
 * this returns. It waits while there is more to send than the card has room for. To have sent is not to have delivered: a receiver
 * that is not ready refuses the datagram, and this side is not told.
 */
int hamlyn_datagram_send(const struct hamlyn_manager *manager,
                         const struct hamlyn_ticket *ticket,
                         const void *data,
                         size_t length,
                         uint32_t offset,
                         const struct hamlyn_ticket *reply,
                         int timeout_ms);

/**
 * Creates a receiver; the options may be NULL.
 */
int hamlyn_stream_receiver_create(const struct hamlyn_manager *manager,
                                  const struct hamlyn_stream_options *options,
                                  struct hamlyn_stream_receiver **receiver);

/**
 * Lets a receiver go, with its buffers. NULL is nothing.
 */
void hamlyn_stream_receiver_destroy(struct hamlyn_stream_receiver *receiver);

/**
 * The seed that the sender is to be made from.
 */
int hamlyn_stream_receiver_seed(const struct hamlyn_stream_receiver *receiver, struct hamlyn_seed *seed);

/**
 * Gives the next record, without copying. Returns 1, or 0 if the sender has closed the stream and all was received.
 */
int hamlyn_stream_receive(const struct hamlyn_stream_receiver *receiver,
                          struct hamlyn_record *record,
                          int timeout_ms);

/**
 * Copies bytes out of the stream until `length` are there, and releases what was read whole. Returns how many: less if the time
 * is over or the stream has ended meanwhile, which the next call says, and 0 if the sender has closed the stream and all was
 * received. Not beside hamlyn_stream_receive: one or the other.
 */
int hamlyn_stream_read(struct hamlyn_stream_receiver *receiver,
                       void *to,
                       size_t length,
                       int timeout_ms);

/**
 * Releases all records up to and with this number. What their `data` points to may change now.
 */
int hamlyn_stream_release(struct hamlyn_stream_receiver *receiver, uint64_t number);

/**
 * Creates a sender from a receiver's seed.
 */
int hamlyn_stream_sender_create(const struct hamlyn_manager *manager,
                                const struct hamlyn_seed *seed,
                                struct hamlyn_stream_sender **sender);

/**
 * Lets a sender go without closing: the receiver is told that the stream was abandoned. NULL is nothing.
 */
void hamlyn_stream_sender_destroy(struct hamlyn_stream_sender *sender);

/**
 * Sends bytes, which may be changed when this returns. Few are held back until there are more, or hamlyn_stream_flush.
 * Returns how many were taken: all, or as many as there was room for in time.
 */
int hamlyn_stream_send(struct hamlyn_stream_sender *sender,
                       const void *data,
                       size_t length,
                       int timeout_ms);

/**
 * Gives a sender a token for hamlyn_manager_ready.
 */
int hamlyn_stream_sender_set_token(struct hamlyn_stream_sender *sender, uint64_t token);

/**
 * Gives a receiver a token for hamlyn_manager_ready.
 */
int hamlyn_stream_receiver_set_token(struct hamlyn_stream_receiver *receiver, uint64_t token);

/**
 * Sends what is held back.
 */
int hamlyn_stream_flush(struct hamlyn_stream_sender *sender, int timeout_ms);

/**
 * Closes a stream: sends what is held back, tells the receiver that nothing comes behind it, and lets the sender go, which
 * is gone even if this fails (hamlyn_stream_try_close does not wait).
 */
int hamlyn_stream_close(struct hamlyn_stream_sender *sender,
                        int timeout_ms);

/**
 * Closes a stream without waiting, and the sender stays. -EAGAIN until all is on its way: call it again then. Once it has returned 0
 * comes hamlyn_stream_sender_destroy.
 */
int hamlyn_stream_try_close(struct hamlyn_stream_sender *sender);

/**
 * Makes an area of `length` bytes of the program's own memory, up to 1 GiB, or with NULL of memory that the library takes. The
 * memory has to stay mapped and writable until the area and all that was made in it are destroyed; until then the program may read
 * what has arrived there, in place, and is not to write. A card that is attached to by its socket takes whole pages of private
 * memory, such as aligned_alloc(4096, ...) gives, and no other thread is to touch them while this call or the last of those that
 * destroy runs. In a virtual machine any bytes do.
 */
int hamlyn_area_create(const struct hamlyn_card *card,
                       void *memory,
                       size_t length,
                       struct hamlyn_area **area);

/**
 * Lets an area go. NULL is nothing.
 */
void hamlyn_area_destroy(struct hamlyn_area *area);

/**
 * Where an area's bytes are; NULL for NULL.
 */
void *hamlyn_area_data(const struct hamlyn_area *area);

/**
 * Creates a receiver for datagrams as long as the area; it is ready for one.
 */
int hamlyn_datagram_receiver_create_in(const struct hamlyn_manager *manager,
                                       const struct hamlyn_area *area,
                                       struct hamlyn_datagram_receiver **receiver);

/**
 * Creates a stream's receiver whose records arrive in the area: of `record_size` bytes for each of `records` at least. With
 * `max_records` 0 it makes no more.
 */
int hamlyn_stream_receiver_create_in(const struct hamlyn_manager *manager,
                                     const struct hamlyn_area *area,
                                     const struct hamlyn_stream_options *options,
                                     struct hamlyn_stream_receiver **receiver);

/**
 * Creates a receiver of tagged remote writes into the area, with a queue for as many as `tags` tags (2 to 65536).
 */
int hamlyn_tag_receiver_create_in(const struct hamlyn_card *card,
                                  const struct hamlyn_area *area,
                                  uint32_t tags,
                                  struct hamlyn_tag_receiver **receiver);

/**
 * Makes a send buffer of `length` bytes of the program's own memory, up to 1 GiB, or with NULL of memory that the library takes.
 * The memory has to stay mapped until the buffer is destroyed; a card behind a socket wants of it what hamlyn_area_create says. A
 * manager has at most eight of them, so a program with many messages makes one, and sends parts of it.
 */
int hamlyn_buffer_create(const struct hamlyn_manager *manager,
                         void *memory,
                         size_t length,
                         struct hamlyn_buffer **buffer);

/**
 * Lets a buffer go at once: the memory is the program's again. What the card has not gathered yet is refused, so wait first
 * (hamlyn_buffer_wait). NULL is nothing.
 */
void hamlyn_buffer_destroy(struct hamlyn_buffer *buffer);

/**
 * Where a buffer's bytes are, to be written to while none of them is on its way; NULL for NULL.
 */
void *hamlyn_buffer_data(const struct hamlyn_buffer *buffer);

/**
 * Waits until the card has finished with all that was sent from a buffer: its bytes may be changed then.
 */
int hamlyn_buffer_wait(const struct hamlyn_buffer *buffer, int timeout_ms);

/**
 * Sends `length` bytes from `start` in a buffer as a datagram, as hamlyn_datagram_send does, but without copying: they are not to be
 * changed until hamlyn_buffer_wait.
 */
int hamlyn_datagram_send_from(const struct hamlyn_manager *manager,
                              const struct hamlyn_ticket *ticket,
                              const struct hamlyn_buffer *buffer,
                              size_t start,
                              size_t length,
                              uint32_t offset,
                              const struct hamlyn_ticket *reply,
                              int timeout_ms);

/**
 * Sends `length` bytes from `start` in a buffer by a stream, without copying: they are not to be changed until hamlyn_buffer_wait.
 * Returns how many were taken: all, or as many as there was room for in time.
 */
int hamlyn_stream_send_from(struct hamlyn_stream_sender *sender,
                            const struct hamlyn_buffer *buffer,
                            size_t start,
                            size_t length,
                            int timeout_ms);

/**
 * Sends `length` bytes from `start` in a buffer as a tagged remote write, at most as long as a packet, without copying: they are not
 * to be changed until hamlyn_buffer_wait.
 */
int hamlyn_tag_send_from(const struct hamlyn_manager *manager,
                         const struct hamlyn_ticket *ticket,
                         const struct hamlyn_buffer *buffer,
                         size_t start,
                         size_t length,
                         uint32_t offset,
                         uint32_t tag,
                         int timeout_ms);

/**
 * Creates a notification queue of 2 to 65536 entries.
 */
int hamlyn_queue_create(const struct hamlyn_card *card, uint32_t entries, struct hamlyn_queue **queue);

/**
 * Lets a queue go; it stays for the slots that name it. NULL is nothing.
 */
void hamlyn_queue_destroy(struct hamlyn_queue *queue);

/**
 * Takes the next notification. -EOVERFLOW, once, if some were overwritten before they were taken.
 */
int hamlyn_queue_receive(const struct hamlyn_queue *queue,
                         struct hamlyn_notification *notification,
                         int timeout_ms);

/**
 * A file descriptor for poll(2) and the like, which stays the library's. Call hamlyn_queue_arm before each wait.
 */
int hamlyn_queue_fd(const struct hamlyn_queue *queue);

/**
 * Makes hamlyn_queue_fd readable once the next notification is there. Returns 1 if it is there already, else 0.
 */
int hamlyn_queue_arm(const struct hamlyn_queue *queue);

/**
 * Opens an area, or a part of it, and notifies of messages by the queue; without a queue (NULL) data arrives without a word.
 */
int hamlyn_slot_create(const struct hamlyn_card *card,
                       const struct hamlyn_area *area,
                       const struct hamlyn_queue *queue,
                       const struct hamlyn_slot_options *options,
                       struct hamlyn_slot **slot);

/**
 * Closes a slot: when this has returned nothing more arrives. NULL is nothing.
 */
void hamlyn_slot_destroy(struct hamlyn_slot *slot);

/**
 * The ticket for a metadata entry, or with HAMLYN_FAST for fast mode.
 */
int hamlyn_slot_ticket(const struct hamlyn_slot *slot, uint32_t entry, struct hamlyn_ticket *ticket);

/**
 * Which metadata entry of the slot a notification is about: -ENOENT if it is of another slot, or of a fast-mode message.
 */
int hamlyn_slot_entry(const struct hamlyn_slot *slot,
                      const struct hamlyn_notification *notification);

/**
 * Copies the metadata that a message brought, HAMLYN_METADATA_SIZE bytes: as many as its sender gave, then what was there.
 */
int hamlyn_slot_metadata(const struct hamlyn_slot *slot,
                         uint32_t entry,
                         void *to);

/**
 * For the paranoid modes: gives an entry a random key of its own and `length` bytes from `start` in the slot. Tickets that were
 * handed out for it are void; hamlyn_slot_ticket gives another. The entry counts packets from 0. If the card cannot be reached
 * the entry stays closed.
 */
int hamlyn_slot_protect(const struct hamlyn_slot *slot,
                        uint32_t entry,
                        uint64_t start,
                        uint64_t length);

/**
 * For the paranoid modes: takes an entry from all who have a ticket for it, until hamlyn_slot_protect. A packet that the card is checking
 * at this moment may still be written.
 */
int hamlyn_slot_shut(const struct hamlyn_slot *slot,
                     uint32_t entry);

/**
 * In one-shot mode: lets an entry take its next message, with metadata of zeros and a packet count of 0. Nothing happens if it is
 * not locked.
 */
int hamlyn_slot_reopen(const struct hamlyn_slot *slot,
                       uint32_t entry);

/**
 * In one-shot mode: returns 1 if an entry has had its message, else 0.
 */
int hamlyn_slot_is_locked(const struct hamlyn_slot *slot, uint32_t entry);

/**
 * Returns 1 if packets of a message, or of a group of them, have arrived and not all of them, else 0. One that stays so is lost:
 * hamlyn_slot_forget or hamlyn_slot_protect resets the entry.
 */
int hamlyn_slot_is_partial(const struct hamlyn_slot *slot,
                           uint32_t entry);

/**
 * Gives up a message, or a group of them, that will never be whole: the entry counts packets from 0. Its tickets stay valid.
 */
int hamlyn_slot_forget(const struct hamlyn_slot *slot,
                       uint32_t entry);

/**
 * Creates an end point of `entries` metadata entries, each with `length` bytes of memory; 0 for metadata alone.
 */
int hamlyn_end_point_create(const struct hamlyn_manager *manager,
                            const struct hamlyn_receiver_class *receiver_class,
                            uint32_t entries,
                            size_t length,
                            struct hamlyn_end_point **end_point);

/**
 * Closes an end point. After this returns, the library does not call the receiver; so the receiver must not call this. NULL is
 * nothing.
 */
void hamlyn_end_point_destroy(struct hamlyn_end_point *end_point);

/**
 * The ticket for a metadata entry and its part of the memory.
 */
int hamlyn_end_point_ticket(const struct hamlyn_end_point *end_point,
                            uint32_t entry,
                            struct hamlyn_ticket *ticket);

/**
 * Lets a metadata entry take its next message. Nothing happens if it has had none.
 */
int hamlyn_end_point_reopen(const struct hamlyn_end_point *end_point, uint32_t entry);

/**
 * Returns 1 if a metadata entry has had its message, else 0.
 */
int hamlyn_end_point_is_locked(const struct hamlyn_end_point *end_point, uint32_t entry);

/**
 * Returns 1 if packets of a message have arrived at a metadata entry and not all of them, else 0. If it stays so,
 * hamlyn_end_point_revoke.
 */
int hamlyn_end_point_is_partial(const struct hamlyn_end_point *end_point,
                                uint32_t entry);

/**
 * Gives a metadata entry a new key: the tickets for it that were handed out are void, and a message that is not whole is forgotten.
 */
int hamlyn_end_point_revoke(const struct hamlyn_end_point *end_point,
                            uint32_t entry);

/**
 * Where a metadata entry's part of the memory is; NULL for NULL, and for an entry that there is not.
 */
const void *hamlyn_end_point_data(const struct hamlyn_end_point *end_point, uint32_t entry);

/**
 * Gives an end point a token for hamlyn_manager_ready.
 */
int hamlyn_end_point_set_token(const struct hamlyn_end_point *end_point, uint64_t token);

/**
 * Creates a send terminus with `weight` times the share of the link of one of weight 1 (0 is 1).
 */
int hamlyn_terminus_create(const struct hamlyn_card *card,
                           uint32_t weight,
                           struct hamlyn_terminus **terminus);

/**
 * Lets a terminus go: what is still in its work queue is abandoned, so flush it. It lives on for its send buffers and barriers.
 * NULL is nothing.
 */
void hamlyn_terminus_destroy(struct hamlyn_terminus *terminus);

/**
 * Sends bytes with the request itself, up to 448 with what metadata there is; they may be changed when this returns. -EPERM if the
 * card has refused an earlier one, which is said once; this one is sent all the same (hamlyn_terminus_post gives a handle of each
 * request instead). The message may be NULL.
 */
int hamlyn_terminus_send(const struct hamlyn_terminus *terminus,
                         const struct hamlyn_ticket *ticket,
                         const struct hamlyn_message *message,
                         const void *data,
                         size_t length,
                         int timeout_ms);

/**
 * Sends up to 28 pieces of the terminus' send buffers, one behind the other, without copying: they are not to be changed until
 * hamlyn_terminus_flush. Otherwise as hamlyn_terminus_send.
 */
int hamlyn_terminus_send_pieces(const struct hamlyn_terminus *terminus,
                                const struct hamlyn_ticket *ticket,
                                const struct hamlyn_message *message,
                                const struct hamlyn_piece *pieces,
                                size_t count,
                                int timeout_ms);

/**
 * Sends bytes as a share of a group, which uses the share up; there may be fewer than it has room for. Otherwise as
 * hamlyn_terminus_send; the message's `word` must be 0.
 */
int hamlyn_terminus_send_share(const struct hamlyn_terminus *terminus,
                               const struct hamlyn_share *share,
                               const struct hamlyn_message *message,
                               const void *data,
                               size_t length,
                               int timeout_ms);

/**
 * Waits until the card has finished with all requests. If it has refused any of them, this says so, once.
 */
int hamlyn_terminus_flush(const struct hamlyn_terminus *terminus, int timeout_ms);

/**
 * A file descriptor for poll(2) and the like, which stays the library's: readable once what hamlyn_terminus_arm_room or
 * hamlyn_terminus_arm_flush was called for is there, the one that was called last. It may stand for more than this terminus: call
 * that before each wait.
 */
int hamlyn_terminus_fd(const struct hamlyn_terminus *terminus);

/**
 * Makes hamlyn_terminus_fd readable once there is room for a call that sends: for who was without, once half of the work queue is
 * free. Returns 1 if there is room (then the descriptor may not become readable for it), else 0.
 */
int hamlyn_terminus_arm_room(const struct hamlyn_terminus *terminus);

/**
 * Makes hamlyn_terminus_fd readable once the card has finished with all that was sent until now. Returns 1 if it has (then the
 * descriptor may not become readable for it), else 0. hamlyn_terminus_flush says whether it has refused any.
 */
int hamlyn_terminus_arm_flush(const struct hamlyn_terminus *terminus);

/**
 * Changes the 64-bit word `offset` bytes into a ticket's buffer (a multiple of 8), and stores what it was. The slot is
 * HAMLYN_SLOT_FETCHABLE. After a time-out it is not known whether the word was changed.
 */
int hamlyn_fetch(const struct hamlyn_terminus *terminus,
                 const struct hamlyn_ticket *ticket,
                 uint32_t offset,
                 uint32_t operation,
                 uint64_t operand,
                 uint64_t compare,
                 uint64_t *found,
                 int timeout_ms);

/**
 * Makes a send buffer of `length` bytes of the program's own memory, or with NULL of memory that the library takes; as
 * hamlyn_buffer_create says.
 */
int hamlyn_send_buffer_create(const struct hamlyn_terminus *terminus,
                              void *memory,
                              size_t length,
                              struct hamlyn_send_buffer **buffer);

/**
 * Takes a send buffer from the card at once, which refuses what it had not gathered. NULL is nothing.
 */
void hamlyn_send_buffer_destroy(struct hamlyn_send_buffer *buffer);

/**
 * Where a send buffer's bytes are; NULL for NULL.
 */
void *hamlyn_send_buffer_data(const struct hamlyn_send_buffer *buffer);

/**
 * Starts a group: all of a ticket's buffer. One notification comes when all its parts have.
 */
int hamlyn_share_whole(const struct hamlyn_ticket *ticket, struct hamlyn_share *share);

/**
 * Divides a share into `count` parts, as equal as can be, which are stored; the share is used up.
 */
int hamlyn_share_split(const struct hamlyn_share *share, struct hamlyn_share *parts, size_t count);

/**
 * Takes the first `length` bytes off a share, for a message that is not its last.
 */
int hamlyn_share_take(struct hamlyn_share *share, uint32_t length, struct hamlyn_share *taken);

/**
 * Makes a place at a barrier (section 2.5 of the paper).
 */
int hamlyn_entrance_create(const struct hamlyn_card *card, struct hamlyn_entrance **entrance);

/**
 * Lets a place go that was not joined from. NULL is nothing.
 */
void hamlyn_entrance_destroy(struct hamlyn_entrance *entrance);

/**
 * The ticket that all other participants need.
 */
int hamlyn_entrance_ticket(const struct hamlyn_entrance *entrance, struct hamlyn_ticket *ticket);

/**
 * Joins the barrier of those whose tickets these are, in an order on which all agree; this one's own is number `index`. The
 * entrance is used up, also by a failure.
 */
int hamlyn_barrier_join(struct hamlyn_entrance *entrance,
                        const struct hamlyn_terminus *terminus,
                        const struct hamlyn_ticket *tickets,
                        size_t count,
                        size_t index,
                        struct hamlyn_barrier **barrier);

/**
 * Enters the next round, and leaves it when all others have entered it. After a time-out call it again to wait on.
 */
int hamlyn_barrier_wait(struct hamlyn_barrier *barrier,
                        int timeout_ms);

/**
 * Lets a participant go. NULL is nothing.
 */
void hamlyn_barrier_destroy(struct hamlyn_barrier *barrier);

/**
 * Reads the card's counters, as many as there is room for. Returns how many there are.
 */
int hamlyn_statistics(const struct hamlyn_card *card, uint64_t *values, size_t count);

/**
 * Writes the name of a counter, by its place among them, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
 */
int hamlyn_statistic_name(uint32_t number,
                          char *text,
                          size_t size);

/**
 * Sends bytes as hamlyn_terminus_send does, and stores a handle of the request. What the handle says of it, no other call says.
 */
int hamlyn_terminus_post(const struct hamlyn_terminus *terminus,
                         const struct hamlyn_ticket *ticket,
                         const struct hamlyn_message *message,
                         const void *data,
                         size_t length,
                         struct hamlyn_handle **handle,
                         int timeout_ms);

/**
 * Sends pieces of send buffers as hamlyn_terminus_send_pieces does, and stores a handle of the request. Once it has finished the
 * pieces may be changed.
 */
int hamlyn_terminus_post_pieces(const struct hamlyn_terminus *terminus,
                                const struct hamlyn_ticket *ticket,
                                const struct hamlyn_message *message,
                                const struct hamlyn_piece *pieces,
                                size_t count,
                                struct hamlyn_handle **handle,
                                int timeout_ms);

/**
 * Sends bytes as a share of a group as hamlyn_terminus_send_share does, and stores a handle of the request.
 */
int hamlyn_terminus_post_share(const struct hamlyn_terminus *terminus,
                               const struct hamlyn_share *share,
                               const struct hamlyn_message *message,
                               const void *data,
                               size_t length,
                               struct hamlyn_handle **handle,
                               int timeout_ms);

/**
 * Waits until the card has finished with a request. -EPERM if it has refused it, as often as this is called; hamlyn_error says why.
 * With a time-out of 0 it only looks: -EAGAIN if the card has not finished.
 */
int hamlyn_handle_wait(const struct hamlyn_handle *handle,
                       int timeout_ms);

/**
 * Makes the terminus' hamlyn_terminus_fd readable once the card has finished with a request. Returns 1 if it has (then the
 * descriptor may not become readable for it), else 0.
 */
int hamlyn_handle_arm(const struct hamlyn_handle *handle);

/**
 * Lets a handle go; its request goes on. NULL is nothing.
 */
void hamlyn_handle_destroy(struct hamlyn_handle *handle);

/**
 * Takes a name, of 1 to 64 bytes, under which processes of any host open streams to this one.
 */
int hamlyn_stream_listen(const struct hamlyn_manager *manager,
                         const char *name,
                         struct hamlyn_stream_listener **listener);

/**
 * Takes a name as hamlyn_stream_listen does; the streams to this side are to be as the options say, which may be NULL.
 */
int hamlyn_stream_listen_with(const struct hamlyn_manager *manager,
                              const char *name,
                              const struct hamlyn_stream_options *options,
                              struct hamlyn_stream_listener **listener);

/**
 * Gives the name back. NULL is nothing.
 */
void hamlyn_stream_listener_destroy(struct hamlyn_stream_listener *listener);

/**
 * A file descriptor, which stays the library's: readable while somebody wants to connect.
 */
int hamlyn_stream_listener_fd(const struct hamlyn_stream_listener *listener);

/**
 * Gives streams to and from the next who connects. If the other side dies their calls fail, behind all that had come: with
 * -ECONNRESET (its process), -EHOSTDOWN (its host) or -ENETDOWN (the way there).
 */
int hamlyn_stream_accept(const struct hamlyn_stream_listener *listener,
                         struct hamlyn_stream_sender **sender,
                         struct hamlyn_stream_receiver **receiver,
                         int timeout_ms);

/**
 * Gives the next who wants to open streams, and leaves it to the caller whether to accept: hamlyn_stream_request_accept or
 * hamlyn_stream_request_reject. It may outlive its listener.
 */
int hamlyn_stream_listener_request(const struct hamlyn_stream_listener *listener,
                                   struct hamlyn_stream_request **request,
                                   int timeout_ms);

/**
 * The host id of who wants to open streams.
 */
int hamlyn_stream_request_host(const struct hamlyn_stream_request *request);

/**
 * Accepts, and gives the streams, as hamlyn_stream_accept does. If they cannot be made, the asker is told why. The request is
 * gone, even if this fails.
 */
int hamlyn_stream_request_accept(struct hamlyn_stream_request *request,
                                 struct hamlyn_stream_sender **sender,
                                 struct hamlyn_stream_receiver **receiver);

/**
 * Rejects, for a reason that the asker's error shows: as much of it as 256 bytes hold. The request is gone, even if this fails.
 */
int hamlyn_stream_request_reject(struct hamlyn_stream_request *request,
                                 const char *reason);

/**
 * Lets a request go: it is rejected. NULL is nothing.
 */
void hamlyn_stream_request_destroy(struct hamlyn_stream_request *request);

/**
 * Connects to a name on a host, and gives streams there and back, as hamlyn_stream_accept does: -ECONNREFUSED if nobody
 * listens there, -EHOSTUNREACH if there is no such host.
 */
int hamlyn_stream_connect(const struct hamlyn_manager *manager,
                          uint32_t host,
                          const char *name,
                          struct hamlyn_stream_sender **sender,
                          struct hamlyn_stream_receiver **receiver,
                          int timeout_ms);

/**
 * Connects as hamlyn_stream_connect does; the stream to this side is to be as the options say, which may be NULL.
 */
int hamlyn_stream_connect_with(const struct hamlyn_manager *manager,
                               uint32_t host,
                               const char *name,
                               const struct hamlyn_stream_options *options,
                               struct hamlyn_stream_sender **sender,
                               struct hamlyn_stream_receiver **receiver,
                               int timeout_ms);

/**
 * A file descriptor, which stays the library's, of a receiver that hamlyn_stream_accept or hamlyn_stream_connect gave: readable
 * once the other side has ended. Then call hamlyn_stream_peer_ended. -ENOTCONN for another receiver.
 */
int hamlyn_stream_peer_fd(const struct hamlyn_stream_receiver *receiver);

/**
 * Returns after how many milliseconds at the latest hamlyn_stream_receive says that the other side has ended, for what it has sent
 * may come until then; -EAGAIN if it has not. hamlyn_stream_send says so at once.
 */
int hamlyn_stream_peer_ended(const struct hamlyn_stream_receiver *receiver);

/**
 * Takes a name, of 1 to 64 bytes, that processes of any host can connect to. Up to `backlog` requests, 1 to 1024, wait.
 */
int hamlyn_listen(const struct hamlyn_card *card,
                  const char *name,
                  uint32_t backlog,
                  struct hamlyn_listener **listener);

/**
 * Connects to a name on a host, passes up to HAMLYN_MAX_PRIVATE bytes, and waits until the other side has accepted, up to 30
 * seconds: -ECONNREFUSED if nobody listens there or it was rejected, -EHOSTUNREACH if there is no such host.
 */
int hamlyn_connect(const struct hamlyn_card *card,
                   uint32_t host,
                   const char *name,
                   const void *data,
                   size_t length,
                   struct hamlyn_connection **connection);

/**
 * Asks for a connection as hamlyn_connect does, and does not wait for the answer.
 */
int hamlyn_connect_begin(const struct hamlyn_card *card,
                         uint32_t host,
                         const char *name,
                         const void *data,
                         size_t length,
                         struct hamlyn_connecting **connecting);

/**
 * Connects to a name, as hamlyn_connect does, on whichever of these hosts accepts first: bit h of the word stands for host h, and
 * 0 for all hosts. They are asked at once, and first whether they have the name.
 */
int hamlyn_connect_any(const struct hamlyn_card *card,
                       uint64_t hosts,
                       const char *name,
                       const void *data,
                       size_t length,
                       struct hamlyn_connection **connection,
                       int timeout_ms);

/**
 * Which hosts have a listener of a name; returns how many. All hosts of the switch are asked at once: it is done once each has
 * answered, or with the time-out, which is no error. A host that is not there never answers; 2000 ms allow for a busy one. Then
 * hamlyn_connect.
 */
int hamlyn_find(const struct hamlyn_card *card,
                const char *name,
                struct hamlyn_found *found,
                int timeout_ms);

/**
 * Gives the name back; who waits is rejected. NULL is nothing.
 */
void hamlyn_listener_destroy(struct hamlyn_listener *listener);

/**
 * A file descriptor, which stays the library's: readable while somebody wants to connect.
 */
int hamlyn_listener_fd(const struct hamlyn_listener *listener);

/**
 * Gives the next who wants to connect.
 */
int hamlyn_listener_request(const struct hamlyn_listener *listener,
                            struct hamlyn_request **request,
                            int timeout_ms);

/**
 * The host id of who wants to connect.
 */
int hamlyn_request_host(const struct hamlyn_request *request);

/**
 * Stores the user id of the process that wants to connect, as hamlyn_connection_user does.
 */
int hamlyn_request_user(const struct hamlyn_request *request, uint32_t *user);

/**
 * What who wants to connect has passed.
 */
int hamlyn_request_passed(const struct hamlyn_request *request, struct hamlyn_passed *passed);

/**
 * Accepts, and passes up to HAMLYN_MAX_PRIVATE bytes. The request is gone, even if this fails.
 */
int hamlyn_accept(struct hamlyn_request *request,
                  const void *data,
                  size_t length,
                  struct hamlyn_connection **connection);

/**
 * Rejects, and passes up to HAMLYN_MAX_PRIVATE bytes. The request is gone, even if this fails. NULL is refused.
 */
int hamlyn_reject(struct hamlyn_request *request,
                  const void *data,
                  size_t length);

/**
 * A file descriptor, which stays the library's: writable once the connection is accepted, readable once there will be none.
 */
int hamlyn_connecting_fd(const struct hamlyn_connecting *connecting);

/**
 * Waits for the answer and fails as hamlyn_connect does. What was asked for is gone, even if this fails: given up, if there is
 * no answer in time.
 */
int hamlyn_connect_finish(struct hamlyn_connecting *connecting,
                          struct hamlyn_connection **connection,
                          int timeout_ms);

/**
 * Gives up what was asked for; the other side is told. NULL is nothing.
 */
void hamlyn_connecting_destroy(struct hamlyn_connecting *connecting);

/**
 * The other side's host id.
 */
int hamlyn_connection_host(const struct hamlyn_connection *connection);

/**
 * Stores the peer's user id, as the operating system of its host says. -ENODATA if that host
 * does not say: the peer is a program at a card's socket, or its host's driver is too old.
 */
int hamlyn_connection_user(const struct hamlyn_connection *connection, uint32_t *user);

/**
 * What the other side passed when the connection began.
 */
int hamlyn_connection_passed(const struct hamlyn_connection *connection, struct hamlyn_passed *passed);

/**
 * A file descriptor, which stays the library's: readable once the connection has ended.
 */
int hamlyn_connection_fd(const struct hamlyn_connection *connection);

/**
 * Waits until the connection has ended, and says how.
 */
int hamlyn_connection_end(const struct hamlyn_connection *connection, struct hamlyn_end *end, int timeout_ms);

/**
 * Closes a connection, and passes up to HAMLYN_MAX_PRIVATE bytes. What was sent may still be on its way: hamlyn_manager_flush
 * and hamlyn_stream_close wait for it. The connection is gone, even if this fails.
 */
int hamlyn_connection_close(struct hamlyn_connection *connection,
                            const void *data,
                            size_t length);

/**
 * Lets a connection go without closing: the other side is told that this process has died. NULL is nothing.
 */
void hamlyn_connection_destroy(struct hamlyn_connection *connection);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HAMLYN_H */
