/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CLAN cards: memory of other hosts is mapped into a window, and Tripwires fire when memory is touched, of one host or another.
 *
 * Made from guest-lib/c by cargo run -p hamlyn-tests --bin headers: do not edit.
 *
 * Calls return what those of hamlyn.h do; hamlyn_error(), timeout_ms and connections by name are described there.
 * Sections are those of the paper, "Tripwire: a synchronisation primitive for virtual memory mapped communication".
 */

#ifndef CLAN_H
#define CLAN_H

#include <stddef.h>
#include <stdint.h>
#include "hamlyn.h"

/**
 * Bytes of a descriptor.
 */
#define CLAN_DESCRIPTOR_SIZE 32

/**
 * Others may read an aperture.
 */
#define CLAN_RIGHT_READ 1

/**
 * Others may write to it.
 */
#define CLAN_RIGHT_WRITE 2

/**
 * For clan_endpoint_options: no Tripwires, where 0 is as many as there may be.
 */
#define CLAN_NO_TRIPWIRES 4294967295

/**
 * For polling_us: who waits sleeps at once.
 */
#define CLAN_NO_POLLING 4294967295

/**
 * The driver programs the DMA engine, as with the paper's card (section 3.4), and not this process: for comparison.
 */
#define CLAN_ENDPOINT_DRIVERS_DMA 1

/**
 * There is no such aperture there, or not under this key, or it does not allow that, or the byte is outside.
 */
#define CLAN_FAULT_REFUSED 1

/**
 * The other host has not answered in time, or there is no link.
 */
#define CLAN_FAULT_TIMEOUT 2

/**
 * The other host's memory could not be reached.
 */
#define CLAN_FAULT_MEMORY 3

/**
 * It was not the window's: outside of it, not aligned, or a load from a group.
 */
#define CLAN_FAULT_WINDOW 4

/**
 * A store was lost, as the link is down or the other host takes nothing for so long.
 */
#define CLAN_FAULT_LOST 5

/**
 * Bytes that a message carries (section 3.1: 40).
 */
#define CLAN_MESSAGE_SIZE 40

/**
 * Asks for a connection.
 */
#define CLAN_MESSAGE_CONNECT 1

/**
 * Accepts one.
 */
#define CLAN_MESSAGE_ACCEPT 2

/**
 * Refuses one.
 */
#define CLAN_MESSAGE_REFUSE 3

/**
 * Ends one.
 */
#define CLAN_MESSAGE_CLOSE 4

/**
 * Whatever else the two ends agree on.
 */
#define CLAN_MESSAGE_DATA 5

/**
 * From the driver: a message to that address has not been delivered, as there is no such endpoint or it had no room. The bytes are that
 * message's.
 */
#define CLAN_MESSAGE_UNDELIVERED 6

/**
 * From the driver: the peer at that address is no more, or its host is lost.
 */
#define CLAN_MESSAGE_GONE 7

/**
 * A Tripwire fires for writes, as it does if neither this nor CLAN_WATCH_READS is said.
 */
#define CLAN_WATCH_WRITES 1

/**
 * It fires for reads.
 */
#define CLAN_WATCH_READS 2

/**
 * It is disabled when it fires (section 3.3); clan_tripwire_enable enables it again.
 */
#define CLAN_WATCH_ONCE 4

/**
 * It interrupts whenever it fires, whether anybody sleeps or not, as with the paper's card: for comparison.
 */
#define CLAN_WATCH_INTERRUPTING 8

/**
 * A transfer from the other host's memory to this process', and not the other way.
 */
#define CLAN_TRANSFER_READ 1

/**
 * Nobody is told of its end, by an event or otherwise: for one of many, whose last one is waited for.
 */
#define CLAN_TRANSFER_QUIET 2

/**
 * Bytes that each side tells the other with a request, its answer, a message of the connection's, and the end: a descriptor fits.
 */
#define CLAN_TOLD_SIZE 32

/**
 * The peer closed the connection.
 */
#define CLAN_END_CLOSED 1

/**
 * The peer is no more, or its host is lost.
 */
#define CLAN_END_GONE 2

/**
 * A Tripwire has fired.
 */
#define CLAN_EVENT_TRIPWIRE 1

/**
 * A DMA request has ended that is not quiet.
 */
#define CLAN_EVENT_DMA 2

/**
 * A message has arrived, or the peer has ended: check the connection.
 */
#define CLAN_EVENT_MESSAGE 3

/**
 * There was a fault.
 */
#define CLAN_EVENT_FAULT 4

/**
 * For clan_events_register: ends of DMA requests are wanted.
 */
#define CLAN_INTEREST_DMA 1

/**
 * Messages are.
 */
#define CLAN_INTEREST_MESSAGES 2

/**
 * Faults are.
 */
#define CLAN_INTEREST_FAULTS 4

/**
 * Memory of this process that others reach who have its descriptor, by windows and by DMA (section 3.2). What they write is simply
 * there. What one host has written arrives in the order in which it was written. Any number of threads may use it at once.
 */
struct clan_aperture;

/**
 * Endpoints and their memory, kept to be used again (section 3.1), as to open them takes system calls and has pages pinned. One thread
 * at a time may use it.
 */
struct clan_cache;

/**
 * An open CLAN card. What is made with it is this process' own; objects that work together are made with the same open card. Any
 * number of threads may use it at once.
 */
struct clan_card;

/**
 * A connection of two endpoints (section 3.1), each of which hears when the other ends. It takes its endpoint's messages. Any number
 * of threads may use it at once.
 */
struct clan_connection;

/**
 * A host and a port: a process' Tripwires, its queue of DMA requests and its queue of messages (section 3.1). Any number of threads may
 * use it at once. It is closed when its windows, Tripwires, connections and programs are destroyed, too.
 */
struct clan_endpoint;

/**
 * What happens to any number of endpoints, in one queue of this process' memory (section 3.5): the card writes it, and to take an
 * event is no system call. A source has at most one event in it that is not taken, however often it happens; so who takes one
 * then looks at all there is. One thread at a time may use it.
 */
struct clan_events;

/**
 * Somebody who asks for a connection. One thread at a time may use it.
 */
struct clan_request;

/**
 * Several Tripwires of one endpoint, any of which ends a wait (section 3.3). One thread at a time may use it.
 */
struct clan_tripset;

/**
 * Something that watches bytes of an aperture, and fires when they are touched (sections 2.5 and 3.3). The card counts how often, so
 * what fires before a wait ends it. One thread at a time may use it.
 */
struct clan_tripwire;

/**
 * An aperture of another host, mapped (sections 2.1 and 3.2). A store goes there and is not waited for; stores arrive in their order. A
 * load is a read across the network, and the processor stands still meanwhile. From some hundred bytes on DMA is better. Any
 * number of threads may use it at once.
 */
struct clan_window;

/**
 * What a card is.
 */
struct clan_card_info {
  /**
   * Its host id, or HAMLYN_NO_LINK while its link is down.
   */
  uint32_t host;
  /**
   * Version of the card's contract: major in the upper half, minor in the lower.
   */
  uint32_t abi_version;
  /**
   * Apertures that processes may have.
   */
  uint32_t apertures;
  /**
   * Window pages that processes may have.
   */
  uint32_t window_pages;
  /**
   * Endpoints and event queues that processes may have.
   */
  uint32_t endpoints;
  /**
   * Tripwires of all endpoints together (section 2.5 of the paper).
   */
  uint32_t tripwires;
  /**
   * The most bytes of data in a packet.
   */
  uint32_t burst;
  /**
   * Words that a host may have on their way to another (section 2.2).
   */
  uint32_t credits;
  /**
   * Ports of the switch, which host ids are below; 0 while the link is down.
   */
  uint32_t ports;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[7];
};

/**
 * What names an aperture to those who may reach it, the paper's opaque descriptor (section 3.2). It may be copied, handed on as text, or
 * be sent in a message. Who has it reaches the memory, as far as that allows; the bytes hold a secret key. They carry a checksum,
 * which is checked when a descriptor is used.
 */
struct clan_descriptor {
  /**
   * Its binary form.
   */
  uint8_t bytes[CLAN_DESCRIPTOR_SIZE];
};

/**
 * What a descriptor says.
 */
struct clan_descriptor_info {
  /**
   * How many bytes the aperture has.
   */
  uint64_t length;
  /**
   * The host that has it; HAMLYN_NO_LINK for a group, whose members are at several.
   */
  uint32_t host;
  /**
   * Its number there.
   */
  uint32_t aperture;
  /**
   * What it allows: CLAN_RIGHT_READ and CLAN_RIGHT_WRITE.
   */
  uint32_t rights;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[5];
};

/**
 * How an endpoint is to be; zeros are any port, 32 Tripwires, 64 DMA requests, and 15 us.
 */
struct clan_endpoint_options {
  /**
   * Its port, 1 to 65535; 0 is any that is free. Ports below 1024 take CAP_NET_BIND_SERVICE.
   */
  uint32_t port;
  /**
   * How many Tripwires it has, 1 to 32; 0 is 32. CLAN_NO_TRIPWIRES is none.
   */
  uint32_t tripwires;
  /**
   * How many DMA requests its queue has room for, 16 to 1024, a power of two; 0 is 64.
   */
  uint32_t requests;
  /**
   * Microseconds for which who waits at it looks before he sleeps (section 4.3); 0 is 15. CLAN_NO_POLLING is none.
   */
  uint32_t polling_us;
  /**
   * CLAN_ENDPOINT_DRIVERS_DMA.
   */
  uint32_t flags;
  /**
   * Must be 0.
   */
  uint32_t reserved[3];
};

/**
 * Where messages go to and come from.
 */
struct clan_address {
  /**
   * The host id.
   */
  uint32_t host;
  /**
   * The port there, 1 to 65535.
   */
  uint32_t port;
};

/**
 * A load, store or DMA write of an endpoint's owner that came to nothing. A store is posted, so its fault is told a little later.
 */
struct clan_fault {
  /**
   * Which byte of the aperture.
   */
  uint64_t offset;
  /**
   * CLAN_FAULT_REFUSED or another.
   */
  uint32_t reason;
  /**
   * The host, or a group's number in the card's own form.
   */
  uint32_t host;
  /**
   * The aperture there.
   */
  uint32_t aperture;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[3];
};

/**
 * A message that has come.
 */
struct clan_message {
  /**
   * Who sent it, as the two operating systems say.
   */
  struct clan_address from;
  /**
   * CLAN_MESSAGE_DATA or another.
   */
  uint32_t kind;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[3];
  /**
   * Its bytes.
   */
  uint8_t data[CLAN_MESSAGE_SIZE];
};

/**
 * What a Tripwire watches.
 */
struct clan_watch {
  /**
   * The first byte of the aperture.
   */
  uint64_t offset;
  /**
   * How many, at least 1.
   */
  uint64_t length;
  /**
   * CLAN_WATCH_WRITES and the like; 0 is for writes.
   */
  uint32_t flags;
  /**
   * Must be 0.
   */
  uint32_t reserved[3];
};

/**
 * A transfer between an aperture of this process and one of any host (section 3.4).
 */
struct clan_transfer {
  /**
   * Memory of this process, whatever that allows others. It may be destroyed before the transfer is done.
   */
  const struct clan_aperture *local;
  /**
   * The other's.
   */
  struct clan_descriptor remote;
  /**
   * The first byte of this process' memory.
   */
  uint64_t local_offset;
  /**
   * That of the other's.
   */
  uint64_t remote_offset;
  /**
   * How many bytes, 1 byte to 1 GiB.
   */
  uint64_t length;
  /**
   * CLAN_TRANSFER_READ and CLAN_TRANSFER_QUIET; 0 writes to the other's memory.
   */
  uint32_t flags;
  /**
   * Must be 0.
   */
  uint32_t reserved[3];
};

/**
 * Who is at the other side, and what he has told when the connection was asked for, or answered.
 */
struct clan_peer {
  /**
   * Where he is.
   */
  struct clan_address address;
  /**
   * What he has told, and zeros.
   */
  uint8_t told[CLAN_TOLD_SIZE];
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[6];
};

/**
 * How the peer ended.
 */
struct clan_peer_end {
  /**
   * CLAN_END_CLOSED or CLAN_END_GONE.
   */
  uint32_t reason;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[7];
  /**
   * What it told when it closed, and zeros.
   */
  uint8_t told[CLAN_TOLD_SIZE];
};

/**
 * Something that has happened, once or more often.
 */
struct clan_event {
  /**
   * What the source was registered with.
   */
  uint64_t token;
  /**
   * CLAN_EVENT_TRIPWIRE or another.
   */
  uint32_t what;
  /**
   * Of a Tripwire's event, its number at its endpoint; else 0.
   */
  uint32_t tripwire;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[4];
};

/**
 * How a cache has done.
 */
struct clan_cache_info {
  /**
   * How often clan_cache_take found an endpoint with memory that was the same peer's.
   */
  uint64_t hits;
  /**
   * How often it did not.
   */
  uint64_t misses;
  /**
   * How many endpoints are kept.
   */
  uint32_t kept;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[3];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens a card, "/dev/clanN". NULL is the card that the environment variable CLAN_CARD names, else /dev/clan0. -EPROTO for a card of
 * another model.
 */
int clan_open(const char *name,
              struct clan_card **card);

/**
 * Lets a card go; it is closed when all that was made with it is gone too. NULL is nothing.
 */
void clan_close(struct clan_card *card);

/**
 * Describes a card as it is now.
 */
int clan_get_info(const struct clan_card *card, struct clan_card_info *info);

/**
 * Reads the card's counters, as many as there is room for. Returns how many there are.
 */
int clan_statistics(const struct clan_card *card, uint64_t *values, size_t count);

/**
 * Writes the name of a counter, by its place among them, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
 */
int clan_statistic_name(uint32_t number,
                        char *text,
                        size_t size);

/**
 * Reads a descriptor's text, "clan1:" and digits.
 */
int clan_descriptor_parse(const char *text, struct clan_descriptor *descriptor);

/**
 * Writes a descriptor's text, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
 */
int clan_descriptor_print(const struct clan_descriptor *descriptor, char *text, size_t size);

/**
 * Says what a descriptor says.
 */
int clan_descriptor_get_info(const struct clan_descriptor *descriptor, struct clan_descriptor_info *info);

/**
 * The descriptor of a group (multicast, section 2.5), 0 to 63, whose members agree on key and length. It is written to, and never
 * read.
 */
int clan_descriptor_of_group(uint32_t group,
                             uint64_t key,
                             uint64_t length,
                             struct clan_descriptor *descriptor);

/**
 * Opens an aperture over `length` bytes of the program's own memory, which begins at a multiple of 8, or with NULL over new memory,
 * zeroed: 1 byte to 1 GiB. `rights` is what others may do: CLAN_RIGHT_READ, CLAN_RIGHT_WRITE, both, or 0 if it is for DMA
 * requests of this process alone, which may use it whatever it is. The program's own memory has to stay until the aperture is
 * destroyed, and all DMA requests that use it are done.
 */
int clan_aperture_create(const struct clan_card *card,
                         void *memory,
                         size_t length,
                         uint32_t rights,
                         struct clan_aperture **aperture);

/**
 * Opens an aperture over new memory that is a member of a group (multicast, section 2.5), 0 to 63: what anybody writes to the group
 * under this key is written to each host's member. clan_descriptor_of_group names the group. -EADDRINUSE if it has a member at this
 * host.
 */
int clan_aperture_join(const struct clan_card *card,
                       uint32_t group,
                       uint64_t key,
                       size_t length,
                       struct clan_aperture **aperture);

/**
 * Closes an aperture: nobody reaches the memory any more, and its descriptors lead nowhere. NULL is nothing.
 */
void clan_aperture_destroy(struct clan_aperture *aperture);

/**
 * What others name it by. That of a member of a group is the group's. -ENETDOWN while the card's link is down.
 */
int clan_aperture_descriptor(const struct clan_aperture *aperture,
                             struct clan_descriptor *descriptor);

/**
 * Where its bytes are; NULL for NULL. What arrives changes them at any time, so load a flag by __atomic_load_n(..., __ATOMIC_ACQUIRE) or
 * the like: what its writer had written before it is there then.
 */
void *clan_aperture_data(const struct clan_aperture *aperture);

/**
 * Opens an endpoint. NULL for the options is all zeros. -EBUSY if the port is taken.
 */
int clan_endpoint_create(const struct clan_card *card,
                         const struct clan_endpoint_options *options,
                         struct clan_endpoint **endpoint);

/**
 * Lets an endpoint go. When it is closed its peer is told. NULL is nothing.
 */
void clan_endpoint_destroy(struct clan_endpoint *endpoint);

/**
 * Where others send to. -ENETDOWN while the card's link is down.
 */
int clan_endpoint_address(const struct clan_endpoint *endpoint, struct clan_address *address);

/**
 * For how many microseconds who waits looks before he sleeps, from now on; CLAN_NO_POLLING and 0 are none.
 */
int clan_endpoint_set_polling(const struct clan_endpoint *endpoint, uint32_t polling_us);

/**
 * Takes the last fault, if there was one since this was last called.
 */
int clan_endpoint_fault(const struct clan_endpoint *endpoint, struct clan_fault *fault, int timeout_ms);

/**
 * Sends a message of up to CLAN_MESSAGE_SIZE bytes, of CLAN_MESSAGE_DATA; what is missing is zeros. That it is not delivered is told by
 * a message of the driver's. -EAGAIN if there is no room for it now, -EHOSTDOWN if there is no such host.
 */
int clan_send_message(const struct clan_endpoint *endpoint,
                      const struct clan_address *address,
                      const void *data,
                      size_t length);

/**
 * Takes the next message. If one is there that is no system call. An endpoint that has a connection gives its messages to that.
 */
int clan_receive_message(const struct clan_endpoint *endpoint,
                         struct clan_message *message,
                         int timeout_ms);

/**
 * Maps those bytes of an aperture that begin at `offset`, a multiple of 8: 1 byte to 8 MiB. Whether there is such an aperture is not
 * asked: the first load or store tells, by a fault of this endpoint.
 */
int clan_map(const struct clan_endpoint *endpoint,
             const struct clan_descriptor *descriptor,
             uint64_t offset,
             size_t length,
             struct clan_window **window);

/**
 * Lets a window go; what was stored arrives. NULL is nothing.
 */
void clan_window_destroy(struct clan_window *window);

/**
 * Where its pages are in this process, for stores and loads of the program's own; NULL for NULL. Stores of 1, 2, 4 or 8 bytes, each at
 * a multiple of as many. A load that comes to nothing gives all ones, and clan_endpoint_fault tells why.
 */
void *clan_window_data(const struct clan_window *window);

/**
 * Stores the lower `width` bytes of `value` (1, 2, 4 or 8) at `offset`, a multiple of as many: a store that arrives in one piece.
 */
int clan_store(const struct clan_window *window,
               size_t offset,
               uint64_t value,
               uint32_t width);

/**
 * Loads `width` bytes (1, 2, 4 or 8) at `offset`, a multiple of as many. -EPERM if the other host refuses, -EHOSTDOWN if it does not
 * answer in time, -EOPNOTSUPP for a group.
 */
int clan_load(const struct clan_window *window,
              size_t offset,
              uint32_t width,
              uint64_t *value);

/**
 * Stores bytes, in rising order and by as many as 8 at a time.
 */
int clan_write(const struct clan_window *window, size_t offset, const void *data, size_t length);

/**
 * Loads bytes, each piece a read across the network; it fails as clan_load does.
 */
int clan_read(const struct clan_window *window, size_t offset, void *to, size_t length);

/**
 * Sets a Tripwire over bytes of an aperture of this process' own, for what other hosts do there, and enables it. -ENOSPC if all of the
 * endpoint's are in use.
 */
int clan_tripwire_create(const struct clan_endpoint *endpoint,
                         const struct clan_aperture *aperture,
                         const struct clan_watch *watch,
                         struct clan_tripwire **tripwire);

/**
 * The same over bytes of an aperture of another host, for what this process' windows and DMA requests do there: the completion of a
 * transfer, say.
 */
int clan_tripwire_create_remote(const struct clan_endpoint *endpoint,
                                const struct clan_descriptor *descriptor,
                                const struct clan_watch *watch,
                                struct clan_tripwire **tripwire);

/**
 * Disables a Tripwire and lets it go. NULL is nothing.
 */
void clan_tripwire_destroy(struct clan_tripwire *tripwire);

/**
 * Has a Tripwire watch other bytes from now on, of an aperture of this process' own, and enables it. What fired before stays counted.
 */
int clan_tripwire_watch(struct clan_tripwire *tripwire,
                        const struct clan_aperture *aperture,
                        const struct clan_watch *watch);

/**
 * The same, of an aperture of another host.
 */
int clan_tripwire_watch_remote(struct clan_tripwire *tripwire,
                               const struct clan_descriptor *descriptor,
                               const struct clan_watch *watch);

/**
 * Enables a Tripwire: a store to the card, whose answer is looked for in memory. No system call.
 */
int clan_tripwire_enable(struct clan_tripwire *tripwire);

/**
 * Disables a Tripwire: once this has returned, it does not fire.
 */
int clan_tripwire_disable(struct clan_tripwire *tripwire);

/**
 * How often it has fired since it was last cleared. No system call.
 */
int clan_tripwire_test(const struct clan_tripwire *tripwire);

/**
 * Clears it, and returns how often it had fired. Clear it before you look at what it watches: then what is written behind the look
 * fires again, and no wait misses it.
 */
int clan_tripwire_clear(struct clan_tripwire *tripwire);

/**
 * Waits until it has fired since it was last cleared, clears it, and returns how often. It looks for a moment before it sleeps.
 */
int clan_tripwire_wait(struct clan_tripwire *tripwire,
                       int timeout_ms);

/**
 * Makes a Tripset of `count` Tripwires of one endpoint, which are the set's from now on, even if this fails, and go with it: they are
 * named by their positions, and what points to them is set to NULL. Only if a pointer is NULL, or stands there twice, all
 * stay as they were.
 */
int clan_tripset_create(struct clan_tripwire **tripwires,
                        size_t count,
                        struct clan_tripset **tripset);

/**
 * Lets a Tripset go, with its Tripwires. NULL is nothing.
 */
void clan_tripset_destroy(struct clan_tripset *tripset);

/**
 * Waits until one of them has fired since it was last cleared, and tells which have: bit p of the word stands for the Tripwire at
 * position p. They are cleared.
 */
int clan_tripset_wait(struct clan_tripset *tripset,
                      uint32_t *fired,
                      int timeout_ms);

/**
 * Enables the Tripwire at a position, as clan_tripwire_enable does.
 */
int clan_tripset_enable(struct clan_tripset *tripset, uint32_t position);

/**
 * Disables the Tripwire at a position, as clan_tripwire_disable does.
 */
int clan_tripset_disable(struct clan_tripset *tripset, uint32_t position);

/**
 * Puts `count` requests, at least one, that belong together into an endpoint's queue; if one fails those behind it are skipped. That is
 * no system call if there is room. `request` is the number of the last. Requests of an endpoint are carried out in their order. A write
 * is done when all of it has left; that the other host refused it is a fault of the endpoint. A read is done when its bytes have come.
 * Stores by a window may overtake what is not done yet.
 */
int clan_dma_put(const struct clan_endpoint *endpoint,
                 const struct clan_transfer *transfers,
                 size_t count,
                 uint64_t *request,
                 int timeout_ms);

/**
 * Returns 1 if a request is done, else 0; fails if it has failed: -EPERM if the other host refuses a read, -EHOSTDOWN if it does not
 * answer in time. No system call.
 */
int clan_dma_is_done(const struct clan_endpoint *endpoint,
                     uint64_t request);

/**
 * Waits until a request is done; fails as clan_dma_is_done does.
 */
int clan_dma_wait(const struct clan_endpoint *endpoint, uint64_t request, int timeout_ms);

/**
 * How many requests of an endpoint have been put and are not done.
 */
int clan_dma_in_flight(const struct clan_endpoint *endpoint);

/**
 * Asks for a connection, tells up to CLAN_TOLD_SIZE bytes, and waits for the answer. The endpoint has no other connection meanwhile.
 * -ECONNREFUSED if it was refused, or nobody has that port; -EHOSTDOWN if there is no such host.
 */
int clan_connect(const struct clan_endpoint *endpoint,
                 const struct clan_address *address,
                 const void *data,
                 size_t length,
                 struct clan_connection **connection,
                 int timeout_ms);

/**
 * Gives the next who asks for a connection. Other messages are passed over: this endpoint is for requests.
 */
int clan_receive_request(const struct clan_endpoint *endpoint, struct clan_request **request, int timeout_ms);

/**
 * Who asks, and what he tells.
 */
int clan_request_peer(const struct clan_request *request, struct clan_peer *peer);

/**
 * Accepts, and tells up to CLAN_TOLD_SIZE bytes. The connection is that of `endpoint`, which has no other. The request is gone, even if
 * this fails.
 */
int clan_accept(struct clan_request *request,
                const struct clan_endpoint *endpoint,
                const void *data,
                size_t length,
                struct clan_connection **connection);

/**
 * Refuses, and tells why, in up to CLAN_TOLD_SIZE bytes. The request is gone, even if this fails.
 */
int clan_refuse(struct clan_request *request, const void *data, size_t length);

/**
 * Lets a request go without an answer. NULL is nothing.
 */
void clan_request_destroy(struct clan_request *request);

/**
 * The other side, and what it told when the connection began.
 */
int clan_connection_peer(const struct clan_connection *connection, struct clan_peer *peer);

/**
 * Sends the peer up to CLAN_TOLD_SIZE bytes, out of band. -EAGAIN if there is no room for them now.
 */
int clan_connection_send(const struct clan_connection *connection, const void *data, size_t length);

/**
 * Takes the next message of the peer's: its bytes, and zeros. Behind the last, -ECONNRESET if the peer has ended.
 */
int clan_connection_receive(const struct clan_connection *connection,
                            uint8_t (*data)[CLAN_TOLD_SIZE],
                            int timeout_ms);

/**
 * How many messages of clan_connection_send the peer had no room for.
 */
int clan_connection_undelivered(const struct clan_connection *connection);

/**
 * Waits until the peer has ended, and says how.
 */
int clan_connection_end(const struct clan_connection *connection, struct clan_peer_end *end, int timeout_ms);

/**
 * Closes a connection, and tells the peer up to CLAN_TOLD_SIZE bytes, behind all that was stored by the endpoint's windows. The endpoint
 * may have another connection then. The connection is gone, even if this fails.
 */
int clan_connection_close(struct clan_connection *connection,
                          const void *data,
                          size_t length);

/**
 * Lets a connection go without closing: the peer hears of it when the endpoint is closed. NULL is nothing.
 */
void clan_connection_destroy(struct clan_connection *connection);

/**
 * Opens an event queue with room for so many records, 16 to 65536, a power of two: one for each source, which are three for each
 * endpoint and one for each Tripwire that it was opened with.
 */
int clan_events_create(const struct clan_card *card,
                       uint32_t records,
                       struct clan_events **events);

/**
 * Lets an event queue go. NULL is nothing.
 */
void clan_events_destroy(struct clan_events *events);

/**
 * A file descriptor for poll(2) and the like, which stays the library's: readable while a queue of the same open card is not empty.
 * Take events until there are none before you wait.
 */
int clan_events_fd(const struct clan_events *events);

/**
 * Has an endpoint's events come here from now on, with this token, and those of before as far as they are not looked at yet: of
 * CLAN_INTEREST_DMA, CLAN_INTEREST_MESSAGES and CLAN_INTEREST_FAULTS. What it was registered for before, apart from Tripwires, is
 * forgotten.
 */
int clan_events_register(struct clan_events *events,
                         const struct clan_endpoint *endpoint,
                         uint32_t interest,
                         uint64_t token);

/**
 * Has a Tripwire's firing come here as an event from now on, with this token. The Tripwire is enabled, and its endpoint's events come
 * here, too; those that nobody registered for are passed over.
 */
int clan_events_register_tripwire(struct clan_events *events,
                                  struct clan_tripwire *tripwire,
                                  uint64_t token);

/**
 * Has no more events of an endpoint, those of its Tripwires included.
 */
int clan_events_unregister(struct clan_events *events, const struct clan_endpoint *endpoint);

/**
 * Has no more events of a Tripwire, which stays enabled.
 */
int clan_events_unregister_tripwire(struct clan_events *events, struct clan_tripwire *tripwire);

/**
 * Takes the next event.
 */
int clan_events_next(struct clan_events *events, struct clan_event *event, int timeout_ms);

/**
 * Takes the next event; looks for it for as many microseconds (section 5.3: up to 15) and does not sleep. -EAGAIN if there is none.
 */
int clan_events_poll(struct clan_events *events,
                     uint32_t polling_us,
                     struct clan_event *event);

/**
 * Makes sure that clan_events_fd tells of the next event, to who is told only of changes (EPOLLET). Returns 1 if there is one already:
 * then take it instead of waiting; else 0.
 */
int clan_events_arm(struct clan_events *events);

/**
 * Makes a cache that keeps at most so many endpoints of these options, each with an aperture of `length` bytes.
 */
int clan_cache_create(const struct clan_card *card,
                      const struct clan_endpoint_options *options,
                      size_t length,
                      uint32_t rights,
                      uint32_t most,
                      struct clan_cache **cache);

/**
 * Lets a cache go, with what it keeps. NULL is nothing.
 */
void clan_cache_destroy(struct clan_cache *cache);

/**
 * Gives an endpoint and an aperture for this peer, whatever the number says of it: its host, if all of a host is trusted alike. The
 * aperture may be one that was given back for the same peer, with what that left there; never another's, who may still have its
 * descriptor.
 */
int clan_cache_take(struct clan_cache *cache,
                    uint64_t peer,
                    struct clan_endpoint **endpoint,
                    struct clan_aperture **aperture);

/**
 * Keeps an endpoint and its aperture for the next connection with this peer, or closes them if a window, Tripwire, connection or DMA
 * request still uses them. Both are gone, even if this fails.
 */
int clan_cache_give(struct clan_cache *cache,
                    uint64_t peer,
                    struct clan_endpoint *endpoint,
                    struct clan_aperture *aperture);

/**
 * Says how a cache has done.
 */
int clan_cache_get_info(const struct clan_cache *cache, struct clan_cache_info *info);

/**
 * Takes a name, as hamlyn_listen does: the listener, who asks there and the connections are those of any card. The operating systems
 * watch such a connection, where clan_connect makes one of two endpoints, whose port is known.
 */
int clan_name_listen(const struct clan_card *card,
                     const char *name,
                     uint32_t backlog,
                     struct hamlyn_listener **listener);

/**
 * Connects to a name on a host, as hamlyn_connect does. A descriptor, or an endpoint's address, may be passed, here or with the answer.
 */
int clan_name_connect(const struct clan_card *card,
                      uint32_t host,
                      const char *name,
                      const void *data,
                      size_t length,
                      struct hamlyn_connection **connection);

/**
 * Asks for a connection as hamlyn_connect_begin does.
 */
int clan_name_connect_begin(const struct clan_card *card,
                            uint32_t host,
                            const char *name,
                            const void *data,
                            size_t length,
                            struct hamlyn_connecting **connecting);

/**
 * Connects to a name on whichever of these hosts accepts first, as hamlyn_connect_any does: bit h of the word stands for host h, and 0
 * for all hosts.
 */
int clan_name_connect_any(const struct clan_card *card,
                          uint64_t hosts,
                          const char *name,
                          const void *data,
                          size_t length,
                          struct hamlyn_connection **connection,
                          int timeout_ms);

/**
 * Which hosts have a listener of a name, as hamlyn_find does; returns how many.
 */
int clan_name_find(const struct clan_card *card,
                   const char *name,
                   struct hamlyn_found *found,
                   int timeout_ms);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CLAN_H */
