/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The programs of section 4 of the CLAN paper: message transfer, remote procedure calls, distributed queues, and what is made of them.
 * Memory is laid out as by the library's module hamlyn::clan::programs: so either end may be a program in C or in Rust.
 *
 * Made from guest-lib/c by cargo run -p hamlyn-tests --bin headers: do not edit.
 *
 * Calls return what those of hamlyn.h do. Who has to wait waits for as long as the end's timeout_ms says. Whoever is at the other end
 * is not trusted: -EINVAL for a length or an index of his that cannot be, -ECONNRESET or -EHOSTDOWN if he is gone.
 */

#ifndef CLAN_PROGRAMS_H
#define CLAN_PROGRAMS_H

#include <stddef.h>
#include <stdint.h>
#include "clan.h"

/**
 * Who calls: a request, then its reply (section 4.1). One thread at a time may use it.
 */
struct clan_client;

/**
 * Who takes. One thread at a time may use it.
 */
struct clan_consumer;

/**
 * Who puts by DMA. One thread at a time may use it.
 */
struct clan_dma_producer;

/**
 * Memory of this process that the other stores to, a window to the other's, and the connection by which each hears of the other's end.
 * An end has one program for each direction, of those below. Any number of threads may use it at once.
 */
struct clan_end;

/**
 * Who receives them: he works on the header while the body is on its way. One thread at a time may use it.
 */
struct clan_headed_receiver;

/**
 * Who sends messages whose header goes before the body, with a flag and a Tripwire for each (section 4.3). One thread at a time may
 * use it.
 */
struct clan_headed_sender;

/**
 * Who puts into a ring in the other's memory (section 4.2, Example 2): messages do not wait for each other. One thread at a time may use
 * it.
 */
struct clan_producer;

/**
 * Who reads them. One thread at a time may use it.
 */
struct clan_reader;

/**
 * Who receives them, in place or copied. One thread at a time may use it.
 */
struct clan_receiver;

/**
 * Who sends messages, one at a time, into one buffer in the other's memory (section 4.1, Example 1). One thread at a time may use it.
 */
struct clan_sender;

/**
 * Who is called. One thread at a time may use it.
 */
struct clan_server;

/**
 * Who writes bytes, by a distributed queue whose elements are bytes (section 4.3). One thread at a time may use it.
 */
struct clan_writer;

/**
 * A part of a message.
 */
struct clan_part {
  /**
   * Its bytes.
   */
  const void *data;
  /**
   * How many.
   */
  size_t length;
};

/**
 * What an element is, besides its bytes.
 */
struct clan_element {
  /**
   * What the producer has put with it.
   */
  uint64_t metadata;
  /**
   * 1 if more of its message follows, else 0.
   */
  uint32_t has_more;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[5];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Asks for a connection, tells the other of `own`, which it must be allowed to write to, and maps what it tells of. Who waits longer
 * than timeout_ms for the other, now or in any program on the end, gets -ETIMEDOUT; negative: nobody does. The aperture is the
 * end's from now on, and gone even if this fails; it fails as clan_connect does, and with -EBADMSG or -EINVAL if the other tells nonsense.
 */
int clan_end_connect(const struct clan_endpoint *endpoint,
                     struct clan_aperture *own,
                     const struct clan_address *address,
                     int timeout_ms,
                     struct clan_end **end);

/**
 * Accepts a connection that was asked for by clan_end_connect; the end is that of `endpoint`. Request and aperture are gone, even if this
 * fails; whoever asked is refused then. It fails with -EINVAL or -EBADMSG if the other tells nonsense, and with -EDOM if its memory is
 * larger than `own` and than 64 KiB: clan_end_accept_up_to allows more.
 */
int clan_end_accept(struct clan_request *request,
                    const struct clan_endpoint *endpoint,
                    struct clan_aperture *own,
                    int timeout_ms,
                    struct clan_end **end);

/**
 * The same, of memory of at most `most` bytes.
 */
int clan_end_accept_up_to(struct clan_request *request,
                          const struct clan_endpoint *endpoint,
                          struct clan_aperture *own,
                          size_t most,
                          int timeout_ms,
                          struct clan_end **end);

/**
 * The other side, and the descriptor of its memory, which is what it told.
 */
int clan_end_peer(const struct clan_end *end, struct clan_peer *peer);

/**
 * Waits until the other has ended, and says how.
 */
int clan_end_wait(const struct clan_end *end, struct clan_peer_end *peer_end, int timeout_ms);

/**
 * Closes the connection, behind all that was stored, and gives the memory back, which another connection may use (clan_cache_give); with
 * NULL it is closed. The end is gone, even if this fails: -EINVAL if a program on it was not destroyed before.
 */
int clan_end_close(struct clan_end *end,
                   struct clan_aperture **own);

/**
 * Lets an end go without closing: the other hears of it when the endpoint is closed. NULL is nothing.
 */
void clan_end_destroy(struct clan_end *end);

/**
 * Makes a sender on this end; the other end has a receiver.
 */
int clan_sender_create(const struct clan_end *end, struct clan_sender **sender);

/**
 * Lets a sender go. NULL is nothing.
 */
void clan_sender_destroy(struct clan_sender *sender);

/**
 * The longest message, in bytes.
 */
int clan_sender_capacity(const struct clan_sender *sender);

/**
 * 1 if the buffer is free (tx_ready), else 0. No system call.
 */
int clan_sender_is_ready(const struct clan_sender *sender);

/**
 * Waits until the buffer is free, and sends a message by stores.
 */
int clan_sender_send(struct clan_sender *sender, const void *data, size_t length);

/**
 * The same by DMA, from `offset` of memory of this process; it returns when that may be used again.
 */
int clan_sender_send_from(struct clan_sender *sender,
                          const struct clan_aperture *from,
                          size_t offset,
                          size_t length);

/**
 * Waits until the buffer is free, and writes bytes of the next message there; clan_sender_finish sends it.
 */
int clan_sender_write(struct clan_sender *sender, size_t offset, const void *data, size_t length);

/**
 * Tells the receiver that a message of so many bytes is there: what was written before.
 */
int clan_sender_finish(struct clan_sender *sender, size_t length);

/**
 * Makes a receiver on this end; the other end has a sender.
 */
int clan_receiver_create(const struct clan_end *end, struct clan_receiver **receiver);

/**
 * Lets a receiver go. NULL is nothing.
 */
void clan_receiver_destroy(struct clan_receiver *receiver);

/**
 * The longest message, in bytes.
 */
int clan_receiver_capacity(const struct clan_receiver *receiver);

/**
 * Is woken by the first bytes of a message from now on, and not only by the last: to wake up takes its time, which passes while the rest
 * is on its way (section 4.3).
 */
int clan_receiver_set_early(struct clan_receiver *receiver);

/**
 * Has messages be events of the queue, with this token: a Tripwire over rx_ready.
 */
int clan_receiver_register(struct clan_receiver *receiver, struct clan_events *events, uint64_t token);

/**
 * Waits for a message, and returns how many bytes it has. It stays in the buffer, for clan_receiver_read, until clan_receiver_release.
 */
int clan_receiver_wait(struct clan_receiver *receiver);

/**
 * The same without waiting, and without a system call: -EAGAIN if there is none.
 */
int clan_receiver_try_wait(struct clan_receiver *receiver);

/**
 * Copies bytes out of the message that is in the buffer.
 */
int clan_receiver_read(struct clan_receiver *receiver, size_t offset, void *to, size_t length);

/**
 * Gives the buffer back to the sender.
 */
int clan_receiver_release(struct clan_receiver *receiver);

/**
 * Waits for a message, copies it, and gives the buffer back; returns how many bytes it has. -EINVAL if it does not fit: then it stays.
 */
int clan_receiver_receive(struct clan_receiver *receiver,
                          void *to,
                          size_t size);

/**
 * Makes a client on this end; the other end has a server.
 */
int clan_client_create(const struct clan_end *end, struct clan_client **client);

/**
 * Lets a client go. NULL is nothing.
 */
void clan_client_destroy(struct clan_client *client);

/**
 * How many bytes a request may have.
 */
int clan_client_capacity(const struct clan_client *client);

/**
 * Has replies be events of the queue, with this token.
 */
int clan_client_register(struct clan_client *client, struct clan_events *events, uint64_t token);

/**
 * Calls: sends a request, waits for the reply, copies it, and returns how many bytes it has. -EINVAL for a reply that does not fit, which
 * is lost. With -ETIMEDOUT the reply may still come, and the next call waits for it first.
 */
int clan_client_call(struct clan_client *client,
                     const void *request,
                     size_t length,
                     void *reply,
                     size_t size);

/**
 * Sends a request, and does not wait. -EINVAL if there is one that is not answered.
 */
int clan_client_begin(struct clan_client *client, const void *request, size_t length);

/**
 * Takes the reply, as many bytes of it as fit, and returns how many it has. -EAGAIN if it is not there. No system call.
 */
int clan_client_try_reply(struct clan_client *client,
                          void *reply,
                          size_t size);

/**
 * Makes a server on this end; the other end has a client.
 */
int clan_server_create(const struct clan_end *end, struct clan_server **server);

/**
 * Lets a server go. NULL is nothing.
 */
void clan_server_destroy(struct clan_server *server);

/**
 * Has calls be events of the queue, with this token.
 */
int clan_server_register(struct clan_server *server, struct clan_events *events, uint64_t token);

/**
 * Waits for the next call, copies as many bytes of the request as fit, and returns how many it has. clan_server_reply answers it.
 */
int clan_server_wait(struct clan_server *server,
                     void *request,
                     size_t size);

/**
 * The same without waiting, and without a system call: -EAGAIN if there is none.
 */
int clan_server_try_wait(struct clan_server *server, void *request, size_t size);

/**
 * Answers the call that was taken last. -EINVAL if there is none.
 */
int clan_server_reply(struct clan_server *server, const void *reply, size_t length);

/**
 * Returns how many bytes the consumer's aperture needs for a queue of `count` elements of at most `element` bytes: the control words, and
 * 16 bytes more than the element for each, of which there is one more than the queue holds. SIZE_MAX if no aperture is large enough.
 */
size_t clan_queue_aperture_size(size_t element,
                                size_t count);

/**
 * Makes a producer on this end, of elements of at most so many bytes; the other end has a consumer for as many. The places are in the
 * aperture of the other end, which has clan_queue_aperture_size bytes; -EDOM if there are not two.
 */
int clan_producer_create(const struct clan_end *end,
                         size_t element,
                         struct clan_producer **producer);

/**
 * Lets a producer go. NULL is nothing.
 */
void clan_producer_destroy(struct clan_producer *producer);

/**
 * How many elements the queue has room for.
 */
int clan_producer_capacity(const struct clan_producer *producer);

/**
 * Waits for room, and puts a message of one element.
 */
int clan_producer_put(struct clan_producer *producer, const void *data, size_t length, uint64_t metadata);

/**
 * The same, if there is room: else -EAGAIN. It does not wait.
 */
int clan_producer_try_put(struct clan_producer *producer, const void *data, size_t length, uint64_t metadata);

/**
 * Puts a message of several parts, each of any length: an element or several, all with this metadata. What fails on the way leaves the
 * message unfinished: the consumer waits for the rest.
 */
int clan_producer_put_parts(struct clan_producer *producer,
                            const struct clan_part *parts,
                            size_t count,
                            uint64_t metadata);

/**
 * Makes a producer by DMA; `card` is what the end's endpoint was opened with.
 */
int clan_dma_producer_create(const struct clan_card *card,
                             const struct clan_end *end,
                             size_t element,
                             struct clan_dma_producer **producer);

/**
 * Lets a producer go. NULL is nothing.
 */
void clan_dma_producer_destroy(struct clan_dma_producer *producer);

/**
 * How many elements the queue has room for.
 */
int clan_dma_producer_capacity(const struct clan_dma_producer *producer);

/**
 * Waits for room, and puts a message of one element: `length` bytes, at least one, of memory of this process. That may be changed when
 * the request is done (clan_dma_wait, at the end's endpoint).
 */
int clan_dma_producer_put(struct clan_dma_producer *producer,
                          const struct clan_aperture *from,
                          size_t offset,
                          size_t length,
                          uint64_t metadata,
                          uint64_t *request);

/**
 * Puts a message as clan_dma_producer_put() does, if there is room for it: else -EAGAIN. It does not wait for room.
 */
int clan_dma_producer_try_put(struct clan_dma_producer *producer,
                              const struct clan_aperture *from,
                              size_t offset,
                              size_t length,
                              uint64_t metadata,
                              uint64_t *request);

/**
 * Makes a consumer on this end, of elements of at most so many bytes.
 */
int clan_consumer_create(const struct clan_end *end, size_t element, struct clan_consumer **consumer);

/**
 * Lets a consumer go. NULL is nothing.
 */
void clan_consumer_destroy(struct clan_consumer *consumer);

/**
 * Has elements be events of the queue, with this token.
 */
int clan_consumer_register(struct clan_consumer *consumer, struct clan_events *events, uint64_t token);

/**
 * Waits for the next element, copies it, and returns how many bytes it has. -EINVAL if it does not fit: then it stays.
 */
int clan_consumer_get(struct clan_consumer *consumer,
                      void *data,
                      size_t size,
                      struct clan_element *element);

/**
 * The same without waiting, and without a system call: -EAGAIN if there is none.
 */
int clan_consumer_try_get(struct clan_consumer *consumer,
                          void *data,
                          size_t size,
                          struct clan_element *element);

/**
 * Waits for a whole message, copies all its parts, and returns how many bytes it has. -EINVAL for one of more than `size` bytes, of which
 * some is taken then.
 */
int clan_consumer_get_message(struct clan_consumer *consumer,
                              void *data,
                              size_t size,
                              uint64_t *metadata);

/**
 * Makes a writer on this end; the other end has a reader.
 */
int clan_writer_create(const struct clan_end *end, struct clan_writer **writer);

/**
 * Lets a writer go. NULL is nothing.
 */
void clan_writer_destroy(struct clan_writer *writer);

/**
 * Waits until there is room for at least one byte, writes as many as there is room for, and returns how many.
 */
int clan_writer_write(struct clan_writer *writer, const void *data, size_t length);

/**
 * The same without waiting, and without a system call: -EAGAIN if there is no room.
 */
int clan_writer_try_write(struct clan_writer *writer, const void *data, size_t length);

/**
 * Makes a reader on this end; the other end has a writer.
 */
int clan_reader_create(const struct clan_end *end, struct clan_reader **reader);

/**
 * Lets a reader go. NULL is nothing.
 */
void clan_reader_destroy(struct clan_reader *reader);

/**
 * Has bytes that come be events of the queue, with this token.
 */
int clan_reader_register(struct clan_reader *reader, struct clan_events *events, uint64_t token);

/**
 * Waits until there is at least one byte, reads as many as there are and fit, and returns how many: 0 if the writer has closed the
 * connection, and all has been read.
 */
int clan_reader_read(struct clan_reader *reader,
                     void *to,
                     size_t length);

/**
 * The same without waiting, and without a system call if there is something: -EAGAIN if there is nothing yet.
 */
int clan_reader_try_read(struct clan_reader *reader, void *to, size_t length);

/**
 * Makes a sender on this end, for headers of so many bytes; the other end has a receiver for as many.
 */
int clan_headed_sender_create(const struct clan_end *end, size_t header, struct clan_headed_sender **sender);

/**
 * Lets a sender go. NULL is nothing.
 */
void clan_headed_sender_destroy(struct clan_headed_sender *sender);

/**
 * Waits until the buffer is free, and sends a header, of exactly so many bytes. The body is to follow.
 */
int clan_headed_sender_send_header(struct clan_headed_sender *sender, const void *header, size_t length);

/**
 * Sends the body of the header that was sent last. -EINVAL if there is none.
 */
int clan_headed_sender_send_body(struct clan_headed_sender *sender, const void *body, size_t length);

/**
 * Makes a receiver on this end, for headers of so many bytes.
 */
int clan_headed_receiver_create(const struct clan_end *end,
                                size_t header,
                                struct clan_headed_receiver **receiver);

/**
 * Lets a receiver go. NULL is nothing.
 */
void clan_headed_receiver_destroy(struct clan_headed_receiver *receiver);

/**
 * Waits for a header, and copies it. The body may be on its way. -EINVAL if there is less room than for a header.
 */
int clan_headed_receiver_header(struct clan_headed_receiver *receiver,
                                void *header,
                                size_t size);

/**
 * Waits for a header, if none is there, and for its body, copies that, and gives the buffer back; returns how many bytes the body has.
 * -EINVAL if it does not fit: then the message stays.
 */
int clan_headed_receiver_body(struct clan_headed_receiver *receiver,
                              void *body,
                              size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CLAN_PROGRAMS_H */
