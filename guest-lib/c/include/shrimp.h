/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SHRIMP cards: what a process stores in its own memory arrives in another's, of another virtual machine.
 *
 * Made from guest-lib/c by cargo run -p hamlyn-tests --bin headers: do not edit.
 *
 * Calls return what those of hamlyn.h do; hamlyn_error(), timeout_ms and connections are described there.
 */

#ifndef SHRIMP_H
#define SHRIMP_H

#include <stddef.h>
#include <stdint.h>
#include "hamlyn.h"

/**
 * Bytes of a handle.
 */
#define SHRIMP_HANDLE_SIZE 72

/**
 * All hosts, for shrimp_export.
 */
#define SHRIMP_ALL_HOSTS 18446744073709551615ull

/**
 * Automatic update, single-write: each store is sent at once, as a packet of its own.
 */
#define SHRIMP_MODE_SINGLE 1

/**
 * Automatic update, blocked-write: stores that follow each other in place and time go as one packet.
 */
#define SHRIMP_MODE_BLOCKED 2

/**
 * Deliberate update: what shrimp_send says is sent, when it says so.
 */
#define SHRIMP_MODE_DELIBERATE 3

/**
 * What is stored arrives.
 */
#define SHRIMP_STATE_MAPPED 1

/**
 * The receive buffer was taken back, or its process has ended: what is stored goes nowhere.
 */
#define SHRIMP_STATE_TAKEN_BACK 2

/**
 * The other host is lost, or has begun anew: what is stored goes nowhere.
 */
#define SHRIMP_STATE_LOST 3

/**
 * An open SHRIMP card. Any number of threads may use it at once.
 */
struct shrimp_card;

/**
 * Memory that others store to. What arrives is there: nobody is asked, and no call is needed to let it in. What one host has
 * stored arrives in the order in which it was stored; stores of several hosts come in any order among them. Any number of threads may
 * use it at once.
 */
struct shrimp_receive_buffer;

/**
 * Memory of this process that is mapped to a receive buffer of another host: what is stored in it arrives there, in the order in which
 * it was stored, and nothing says when. Any number of threads may use it at once.
 */
struct shrimp_send_buffer;

/**
 * What a card is.
 */
struct shrimp_card_info {
  /**
   * Its host id, or HAMLYN_NO_LINK while its link is down.
   */
  uint32_t host;
  /**
   * Version of the card's contract: major in the upper half, minor in the lower.
   */
  uint32_t abi_version;
  /**
   * Entries of its page table, one for each page of this machine's memory.
   */
  uint32_t pages;
  /**
   * Columns of the mesh.
   */
  uint32_t columns;
  /**
   * Bytes of each of its FIFOs.
   */
  uint32_t fifo;
  /**
   * 1 if it sees this machine's stores now. 0: stores have to go to window pages, as shrimp_store and shrimp_memory know.
   */
  uint32_t snoops;
  /**
   * Ports of the switch, which host ids are below; 0 while the link is down.
   */
  uint32_t ports;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[9];
};

/**
 * What names a receive buffer to those who may map theirs to it. It may be copied, handed on as text, or passed when a connection
 * begins. Who has it, and is on a host that the owner allows, may store there. The bytes carry a checksum, which is checked when a
 * handle is used.
 */
struct shrimp_handle {
  /**
   * Its binary form.
   */
  uint8_t bytes[SHRIMP_HANDLE_SIZE];
};

/**
 * What a handle says.
 */
struct shrimp_handle_info {
  /**
   * How many bytes the receive buffer has.
   */
  uint64_t length;
  /**
   * The host that has it.
   */
  uint32_t host;
  /**
   * Its number there.
   */
  uint32_t number;
  /**
   * Offset of its first byte in that byte's page: a byte arrives at the offset that it was stored at.
   */
  uint32_t place;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[3];
};

/**
 * Where a send buffer lies in this process, for those who build primitives of their own. It is good until the buffer is destroyed.
 */
struct shrimp_memory {
  /**
   * Its bytes, to load from.
   */
  const void *loads;
  /**
   * Where stores must go to be sent by automatic update: the same memory once more, if the card sees this machine's stores; else
   * window pages, and what was stored there is in memory a little later. A load from here waits for the stores before it. Stores of
   * 1, 2, 4 or 8 bytes, each at a multiple of as many.
   */
  void *stores;
  /**
   * The command pages: a command about a byte of the buffer is a store of 4 bytes at its place here.
   */
  void *commands;
  /**
   * How many bytes it has.
   */
  size_t length;
  /**
   * When what is stored is sent: SHRIMP_MODE_.
   */
  uint32_t mode;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[7];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens a card, "/dev/shrimpN". NULL is the card that the environment variable SHRIMP_CARD names, else /dev/shrimp0. -EPROTO
 * for a card of another model.
 */
int shrimp_open(const char *name,
                struct shrimp_card **card);

/**
 * Lets a card go; it is closed when all that was made from it is gone too. NULL is nothing.
 */
void shrimp_close(struct shrimp_card *card);

/**
 * Describes a card as it is now.
 */
int shrimp_get_info(const struct shrimp_card *card, struct shrimp_card_info *info);

/**
 * Reads the card's counters, as many as there is room for. Returns how many there are.
 */
int shrimp_statistics(const struct shrimp_card *card, uint64_t *values, size_t count);

/**
 * Writes the name of a counter, by its place among them, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
 */
int shrimp_statistic_name(uint32_t number,
                          char *text,
                          size_t size);

/**
 * Reads a handle's text, "shrimp2:" and digits.
 */
int shrimp_handle_parse(const char *text, struct shrimp_handle *handle);

/**
 * Writes a handle's text, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
 */
int shrimp_handle_print(const struct shrimp_handle *handle, char *text, size_t size);

/**
 * Says what a handle says.
 */
int shrimp_handle_get_info(const struct shrimp_handle *handle, struct shrimp_handle_info *info);

/**
 * Makes a receive buffer of 1 byte to 16 MiB, zeroed, that processes of these hosts may map theirs to: bit h of the word stands for
 * host h. SHRIMP_ALL_HOSTS are all of them; with none it is refused.
 */
int shrimp_export(const struct shrimp_card *card,
                  size_t length,
                  uint64_t hosts,
                  struct shrimp_receive_buffer **buffer);

/**
 * Makes a receive buffer of `length` bytes of the program's own memory, up to 16 MiB with what is before it in its page. Its bytes stay
 * as they are until a host stores to them. Other hosts change them at any time, so access them as shrimp_receive_buffer_data says.
 * The memory stays where it is until the buffer is destroyed.
 *
 * A page has at most two parts. So memory that begins inside a page begins at a multiple of 4 and reaches that page's end, and two
 * receive buffers that share a page touch; if not: -EINVAL. Only these bytes are exposed, and not the rest of their pages.
 */
int shrimp_export_memory(const struct shrimp_card *card,
                         void *memory,
                         size_t length,
                         uint64_t hosts,
                         struct shrimp_receive_buffer **buffer);

/**
 * Takes a receive buffer back: nothing more arrives in it, and shrimp_state tells this to those that had mapped it. Its memory is gone,
 * if it is not the program's own. NULL is nothing.
 */
void shrimp_receive_buffer_destroy(struct shrimp_receive_buffer *buffer);

/**
 * What others name it by. -ENETDOWN while the card's link is down.
 */
int shrimp_receive_buffer_handle(const struct shrimp_receive_buffer *buffer, struct shrimp_handle *handle);

/**
 * Where its bytes are; NULL for NULL. New memory begins at a page. What arrives changes them at any time, so load a flag by
 * __atomic_load_n(..., __ATOMIC_ACQUIRE) or the like: what its sender had stored before it is there then. What is stored here is for
 * this process alone.
 */
void *shrimp_receive_buffer_data(const struct shrimp_receive_buffer *buffer);

/**
 * Sleeps while the 4 bytes at `offset`, a multiple of 4, are `value`, and stores what they are then. That its writer is gone is nothing
 * that arrives: keep a connection, or give a time-out.
 */
int shrimp_wait(const struct shrimp_receive_buffer *buffer,
                size_t offset,
                uint32_t value,
                uint32_t *now,
                int timeout_ms);

/**
 * Makes a send buffer of `length` bytes, zeroed, and maps it to those bytes of a receive buffer that begin at `offset`. It waits for
 * the other host's operating system: -EACCES if that refuses, -EHOSTUNREACH if there is no such host.
 */
int shrimp_map(const struct shrimp_card *card,
               const struct shrimp_handle *handle,
               uint64_t offset,
               size_t length,
               uint32_t mode,
               struct shrimp_send_buffer **buffer);

/**
 * Makes a send buffer of `length` bytes of the program's own memory, and maps it to those bytes of a receive buffer that begin at
 * `offset`. Its bytes stay as they are, and are not sent before they are stored again: by shrimp_store, shrimp_write, or where
 * shrimp_get_memory says. The memory stays where it is until the buffer is destroyed, and who stores to it by its own address sends that only
 * where the card sees the machine's stores (`snoops` of shrimp_info).
 *
 * The memory begins at the same byte of a page as what it is mapped to (shrimp_handle_info's `place`, and `offset`). Only these bytes
 * are mapped, so two send buffers, each to its own destination, may share a page where they touch. Memory that begins inside a page
 * begins at a multiple of 4 and reaches that page's end. If not: -EINVAL.
 */
int shrimp_map_memory(const struct shrimp_card *card,
                      void *memory,
                      size_t length,
                      const struct shrimp_handle *handle,
                      uint64_t offset,
                      uint32_t mode,
                      struct shrimp_send_buffer **buffer);

/**
 * Shares memory with a process of another host: a receive buffer of this process' own is mapped to the other's, of the same length, and
 * the other does the same. What either stores is stored in both. Let each word have one writer: there is no order between the stores of
 * the two, and algorithms for one memory, as Dekker's and Peterson's, exclude nobody here.
 * The receive buffer is gone, even if this fails: its memory is the send buffer's now.
 */
int shrimp_share(const struct shrimp_card *card,
                 struct shrimp_receive_buffer *own,
                 const struct shrimp_handle *other,
                 uint32_t mode,
                 struct shrimp_send_buffer **buffer);

/**
 * Lets a send buffer go: what was stored is sent, and nothing after it. Its memory is gone, if it is not the program's own. NULL is
 * nothing.
 */
void shrimp_send_buffer_destroy(struct shrimp_send_buffer *buffer);

/**
 * Stores the lower `width` bytes of `value` (1, 2, 4 or 8) at `offset`, a multiple of as many: a store that arrives in one piece.
 */
int shrimp_store(const struct shrimp_send_buffer *buffer,
                 size_t offset,
                 uint64_t value,
                 uint32_t width);

/**
 * Loads `width` bytes (1, 2, 4 or 8) at `offset`, a multiple of as many, from this process' own memory, behind all its stores.
 */
int shrimp_load(const struct shrimp_send_buffer *buffer,
                size_t offset,
                uint32_t width,
                uint64_t *value);

/**
 * Stores bytes, in rising order and by as many as 8 at a time: who sees the last of them need not see the first, unless it was stored
 * by another call. So a flag is a store of its own, behind this.
 */
int shrimp_write(const struct shrimp_send_buffer *buffer,
                 size_t offset,
                 const void *data,
                 size_t length);

/**
 * Copies bytes out of this process' own memory.
 */
int shrimp_read(const struct shrimp_send_buffer *buffer, size_t offset, void *to, size_t length);

/**
 * Sleeps while 4 bytes of shared memory are `value`, as shrimp_wait does. Only for what shrimp_share has made.
 */
int shrimp_wait_shared(const struct shrimp_send_buffer *buffer,
                       size_t offset,
                       uint32_t value,
                       uint32_t *now,
                       int timeout_ms);

/**
 * Says where a send buffer lies. Where stores must go may be another place after shrimp_set_mode.
 */
int shrimp_get_memory(const struct shrimp_send_buffer *buffer, struct shrimp_memory *memory);

/**
 * Changes when what is stored is sent. What was stored before is sent as it was to be sent then; a deliberate update that is under way
 * is waited for. Other threads must not store meanwhile.
 */
int shrimp_set_mode(const struct shrimp_send_buffer *buffer,
                    uint32_t mode);

/**
 * Whether it still leads somewhere: SHRIMP_STATE_MAPPED or another.
 */
int shrimp_state(const struct shrimp_send_buffer *buffer);

/**
 * Has the card send these bytes as they are in memory: offset and length are multiples of 4, and the mode is SHRIMP_MODE_DELIBERATE. It
 * returns when the card has begun with the last page: memory must not change before shrimp_wait_until_sent, and what is stored or sent
 * later arrives later only if that was waited for.
 */
int shrimp_send(const struct shrimp_send_buffer *buffer,
                size_t offset,
                size_t length);

/**
 * Waits until the card has read all that shrimp_send was called for. -ECONNRESET or -EHOSTDOWN if it was sent to nobody, or may have
 * been: the receive buffer was taken back, or its host is lost.
 */
int shrimp_wait_until_sent(const struct shrimp_send_buffer *buffer,
                           int timeout_ms);

/**
 * 1 if the card's engine for deliberate updates has nothing to do, else 0: there is one for all processes of the machine.
 */
int shrimp_is_free(const struct shrimp_send_buffer *buffer);

/**
 * Takes a name, as hamlyn_listen does: the listener, who asks there and the connections are those of any card.
 */
int shrimp_listen(const struct shrimp_card *card,
                  const char *name,
                  uint32_t backlog,
                  struct hamlyn_listener **listener);

/**
 * Connects to a name on a host, as hamlyn_connect does. A handle may be passed, here or with the answer.
 */
int shrimp_connect(const struct shrimp_card *card,
                   uint32_t host,
                   const char *name,
                   const void *data,
                   size_t length,
                   struct hamlyn_connection **connection);

/**
 * Asks for a connection as hamlyn_connect_begin does.
 */
int shrimp_connect_begin(const struct shrimp_card *card,
                         uint32_t host,
                         const char *name,
                         const void *data,
                         size_t length,
                         struct hamlyn_connecting **connecting);

/**
 * Connects to a name on whichever of these hosts accepts first, as hamlyn_connect_any does: bit h of the word stands for host h, and 0
 * for all hosts.
 */
int shrimp_connect_any(const struct shrimp_card *card,
                       uint64_t hosts,
                       const char *name,
                       const void *data,
                       size_t length,
                       struct hamlyn_connection **connection,
                       int timeout_ms);

/**
 * Which hosts have a listener of a name, as hamlyn_find does; returns how many.
 */
int shrimp_find(const struct shrimp_card *card, const char *name, struct hamlyn_found *found, int timeout_ms);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SHRIMP_H */
