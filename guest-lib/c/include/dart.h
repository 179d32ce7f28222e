/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * DART cards: messages that carry operations on the memory and the registers of another host, which its card executes.
 *
 * Made from guest-lib/c by cargo run -p hamlyn-tests --bin headers: do not edit.
 *
 * Calls return what those of hamlyn.h do; hamlyn_error(), timeout_ms and connections by name are described there.
 * Sections are those of the paper, "A Hybrid Deposit Model for Low Overhead Communication in High Speed LANs".
 */

#ifndef DART_H
#define DART_H

#include <stddef.h>
#include <stdint.h>
#include "hamlyn.h"

/**
 * Main operation: registers alone.
 */
#define DART_REGISTERS 0

/**
 * Main operation: writes up to 32 bytes.
 */
#define DART_WRITE 1

/**
 * Main operation: writes up to DART_LONGEST bytes.
 */
#define DART_WRITE_MULTIPLE 2

/**
 * Main operation: reads 32 bytes (dart_ask).
 */
#define DART_READ 3

/**
 * Main operation: reads up to DART_LONGEST bytes (dart_ask).
 */
#define DART_READ_MULTIPLE 4

/**
 * Main operation: answers with register i as it was and as it is (dart_ask).
 */
#define DART_ANSWER 5

/**
 * Main operation: what the entry `operand` of the receiver's program says. There is nothing else but indices, mask and data.
 */
#define DART_CALL 6

/**
 * Main operation: a software exception, which the receiver's software finds in its exception queue. `about`, of 29 bits, and the
 * operand are its own.
 */
#define DART_EXCEPTION 7

/**
 * Main operation: the opcode is `about`, as it travels. One that the receiver's card does not know is its software's.
 */
#define DART_OPCODE 8

/**
 * Main operation: what the entry `about` of the receiver's program says, 0 to 65535. If that entry takes its caller's operand, it takes
 * `operand`.
 */
#define DART_CALL_WITH 9

/**
 * The address is the operand.
 */
#define DART_DIRECT 0

/**
 * The address is register i.
 */
#define DART_INDIRECT 1

/**
 * The address is register i plus the operand.
 */
#define DART_INDEXED 2

/**
 * The address is generated before the register operations; the comparison is last.
 */
#define DART_ADDRESS_FIRST 0

/**
 * Between the register operations.
 */
#define DART_ADDRESS_BETWEEN 1

/**
 * Behind the register operations.
 */
#define DART_ADDRESS_BEHIND 2

/**
 * The comparison is first, then the address is generated, then the register operations follow.
 */
#define DART_COMPARED_FIRST 3

/**
 * There is no register operation.
 */
#define DART_STEP_NONE 0

/**
 * The target becomes the source.
 */
#define DART_STEP_MOVE 1

/**
 * Its complement.
 */
#define DART_STEP_NOT 2

/**
 * Its negative.
 */
#define DART_STEP_NEGATE 3

/**
 * One more; the source is not looked at.
 */
#define DART_STEP_INCREMENT 4

/**
 * One less; the source is not looked at.
 */
#define DART_STEP_DECREMENT 5

/**
 * Plus the source.
 */
#define DART_STEP_ADD 6

/**
 * Minus the source.
 */
#define DART_STEP_SUBTRACT 7

/**
 * Bits that both have.
 */
#define DART_STEP_AND 8

/**
 * Bits that one has.
 */
#define DART_STEP_OR 9

/**
 * Bits that only one has.
 */
#define DART_STEP_XOR 10

/**
 * The lesser, unsigned.
 */
#define DART_STEP_MINIMUM 11

/**
 * The greater, unsigned.
 */
#define DART_STEP_MAXIMUM 12

/**
 * To the left by the source modulo 64.
 */
#define DART_STEP_SHIFT_LEFT 13

/**
 * To the right by the source modulo 64.
 */
#define DART_STEP_SHIFT_RIGHT 14

/**
 * The source, if the target is the operand.
 */
#define DART_STEP_REPLACE_IF_EQUAL 15

/**
 * A source, or a comparison's right side: the operand.
 */
#define DART_SOURCE_OPERAND 0

/**
 * What the step before has made.
 */
#define DART_SOURCE_VALUE 1

/**
 * Register j.
 */
#define DART_SOURCE_J 2

/**
 * Register k.
 */
#define DART_SOURCE_K 3

/**
 * A target, or a comparison's left side: register i.
 */
#define DART_TARGET_I 0

/**
 * Register j.
 */
#define DART_TARGET_J 1

/**
 * There is no comparison, and no event.
 */
#define DART_COMPARE_NONE 0

/**
 * Both sides are the same.
 */
#define DART_COMPARE_EQUAL 1

/**
 * They are not.
 */
#define DART_COMPARE_UNEQUAL 2

/**
 * The left is less, unsigned.
 */
#define DART_COMPARE_LESS 3

/**
 * The left is not more, unsigned.
 */
#define DART_COMPARE_NOT_MORE 4

/**
 * The left is less, signed.
 */
#define DART_COMPARE_SIGNED_LESS 5

/**
 * The left is not more, signed.
 */
#define DART_COMPARE_SIGNED_NOT_MORE 6

/**
 * It holds. There are no sides.
 */
#define DART_COMPARE_ALWAYS 7

/**
 * Numbers of 8 bytes in a block, which is what a message has in its first cell.
 */
#define DART_WORDS 4

/**
 * For dart_queue_create: each record interrupts, for exceptions, and what must not wait. Without it records are taken when it suits, and
 * there is an interrupt only if somebody sleeps.
 */
#define DART_QUEUE_IMMEDIATE 1

/**
 * The message's comparison held; it has been executed.
 */
#define DART_RECORD_COMPARED 1

/**
 * A software exception: the software is to do what the message says.
 */
#define DART_RECORD_EXCEPTION 2

/**
 * The message was not executed, as `trap` says.
 */
#define DART_RECORD_TRAP 16

/**
 * Bytes of an address.
 */
#define DART_ADDRESS_SIZE 24

/**
 * The most bytes of data of a message.
 */
#define DART_LONGEST 65504

/**
 * How many messages of a connection can wait to leave.
 */
#define DART_MAX_SENDS 64

/**
 * The other end's messages may read the endpoint.
 */
#define DART_RIGHT_READ 1

/**
 * They may write to it.
 */
#define DART_RIGHT_WRITE 2

/**
 * For dart_connection_options: a window without registers, where 0 is all that there are.
 */
#define DART_NO_REGISTERS 4294967295

/**
 * The receiver's card knows no such operation.
 */
#define DART_TRAP_UNIMPLEMENTED 1

/**
 * A register is not inside the connection's window.
 */
#define DART_TRAP_INDEX 2

/**
 * The message's comparison held, and it said that it is refused then.
 */
#define DART_TRAP_REFUSED 3

/**
 * The connection may not write to the endpoint, or not read it.
 */
#define DART_TRAP_RIGHT 4

/**
 * The address is no multiple of 4.
 */
#define DART_TRAP_MISALIGNED 5

/**
 * A word is not inside the endpoint.
 */
#define DART_TRAP_BOUNDS 6

/**
 * There is no memory, or it cannot be written to.
 */
#define DART_TRAP_NO_MEMORY 7

/**
 * A message has more data than its operation takes.
 */
#define DART_DROPPED_LENGTH 1

/**
 * Its data is not inside the endpoint, or there is no such memory.
 */
#define DART_DROPPED_MEMORY 2

/**
 * As many messages waited as can.
 */
#define DART_DROPPED_ROOM 3

/**
 * The connection is broken.
 */
#define DART_DROPPED_BROKEN 4

/**
 * A packet was lost on the way.
 */
#define DART_BROKEN_LOST 1

/**
 * The link is or was down.
 */
#define DART_BROKEN_LINK 2

/**
 * The other end's card sent what makes no sense.
 */
#define DART_BROKEN_PEER 3

/**
 * The connection's own memory cannot be reached.
 */
#define DART_BROKEN_MEMORY 4

/**
 * The other end has been closed, or its host is lost.
 */
#define DART_BROKEN_GONE 5

/**
 * Address registers of the card, of 64 bits and zero at first, and entries of programs (section 2). Connections have windows of it, which
 * may overlap and nest: what two of them have in common the messages of both change. Any number of threads may use it at once.
 */
struct dart_bank;

/**
 * An open DART card. What is made with it is this process' own; objects that work together are made with the same open card. Any
 * number of threads may use it at once.
 */
struct dart_card;

/**
 * One end of a path to another host, or to this one (section 3): what is sent by it is executed by the other end's card, on that one's
 * endpoint and registers, in the order in which it was sent, each message once or not at all. Any number of threads may use it at once.
 */
struct dart_connection;

/**
 * A region of this process' memory, which messages of the connections that name it write to and read, and what is sent comes from
 * (section 3). Nothing of it is pinned: a page that was never touched, or that is swapped out, is brought in when a message needs it. Any
 * number of threads may use it at once.
 */
struct dart_endpoint;

/**
 * Records of what messages tell, in memory of this process, of as many connections as name the queue (section 1). If it is full the
 * messages wait, and what comes behind them on their connections: nothing is lost. An exception takes a place for each 60 bytes of its
 * message's data more, so a queue for exceptions of any length has 2048 records. One thread at a time may use it.
 */
struct dart_queue;

/**
 * What a card is.
 */
struct dart_card_info {
  /**
   * Its host id, or HAMLYN_NO_LINK while its link is down.
   */
  uint32_t host;
  /**
   * Version of the card's contract: major in the upper half, minor in the lower.
   */
  uint32_t abi_version;
  /**
   * Connections that processes may have.
   */
  uint32_t connections;
  /**
   * Endpoints that processes may have.
   */
  uint32_t endpoints;
  /**
   * Address registers of all banks together (section 2 of the paper).
   */
  uint32_t registers;
  /**
   * Entries of all programs.
   */
  uint32_t program;
  /**
   * Queues.
   */
  uint32_t queues;
  /**
   * Translations of pages that the card keeps (section 3).
   */
  uint32_t tlb;
  /**
   * Cells that a connection may have on their way.
   */
  uint32_t window;
  /**
   * Ports of the switch, which host ids are below; 0 while the link is down.
   */
  uint32_t ports;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[6];
};

/**
 * A register operation; zeros are none.
 */
struct dart_step {
  /**
   * DART_STEP_ADD or another.
   */
  uint32_t step;
  /**
   * DART_SOURCE_J or another.
   */
  uint32_t source;
  /**
   * DART_TARGET_I or DART_TARGET_J.
   */
  uint32_t target;
};

/**
 * When there is an event at the end, a record in the receiver's event queue; zeros are never.
 */
struct dart_condition {
  /**
   * DART_COMPARE_EQUAL or another.
   */
  uint32_t comparison;
  /**
   * DART_TARGET_I or DART_TARGET_J.
   */
  uint32_t left;
  /**
   * DART_SOURCE_J or another.
   */
  uint32_t right;
  /**
   * 1: if it holds the message is refused instead; it changes nothing, and its sender is told. Else 0.
   */
  uint32_t refuse;
};

/**
 * What a message does at its receiver (Figures 2 and 5); docs/dart.md has the semantics. What is not said is zeros, which are nothing:
 * .main = DART_WRITE, .operand = 4096, .addressing = DART_INDEXED, .first = { DART_STEP_ADD, DART_SOURCE_J, DART_TARGET_I },
 * .indices = { 0, 1 } writes to where register 0 says, from byte 4096 on; then register 0 moves on by register 1.
 */
struct dart_operation {
  /**
   * An offset in the receiver's endpoint, or data for its registers.
   */
  uint64_t operand;
  /**
   * DART_WRITE or another.
   */
  uint32_t main;
  /**
   * DART_INDEXED or another; of what uses no memory 0.
   */
  uint32_t addressing;
  /**
   * DART_ADDRESS_BETWEEN or another; of what uses no memory 0.
   */
  uint32_t order;
  /**
   * The first register operation.
   */
  struct dart_step first;
  /**
   * The second.
   */
  struct dart_step second;
  /**
   * The conditional.
   */
  struct dart_condition condition;
  /**
   * Of DART_EXCEPTION, DART_OPCODE and DART_CALL_WITH; of others 0.
   */
  uint32_t about;
  /**
   * Registers i, j and k of the receiver's window.
   */
  uint8_t indices[3];
  /**
   * Bit w deselects word w, of 4 bytes, in each block of 32.
   */
  uint8_t mask;
  /**
   * For dart_bank_set_program, 1: the entry takes the operand of its caller, a message of DART_CALL_WITH, and `operand` is 0. Else 0.
   */
  uint32_t callers_operand;
  /**
   * Must be 0.
   */
  uint32_t reserved[3];
};

/**
 * What a message has told.
 */
struct dart_record {
  /**
   * The message's operand.
   */
  uint64_t operand;
  /**
   * The data of its first cell, 32 bytes, and zeros.
   */
  uint64_t words[DART_WORDS];
  /**
   * The connection that it came by, as dart_connection_number calls it.
   */
  uint32_t connection;
  /**
   * DART_RECORD_COMPARED or another.
   */
  uint32_t what;
  /**
   * Of DART_RECORD_TRAP, DART_TRAP_BOUNDS or another; else 0.
   */
  uint32_t trap;
  /**
   * The message's opcode: see dart_operation_opcode. Of an exception, what it is about is in bits 3 to 31.
   */
  uint32_t opcode;
  /**
   * Registers i, j and k of the window.
   */
  uint8_t indices[3];
  /**
   * The message's mask.
   */
  uint8_t mask;
  /**
   * Bytes of data of a message of several blocks; else 0.
   */
  uint32_t length;
  /**
   * 1: the queue was too small for the data of an exception, of which `words` are all that is left. Else 0.
   */
  uint32_t cut;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[3];
};

/**
 * What names a connection to whom may be its other end: its host, its number there, and its key. It may be copied, handed on as text, or
 * be passed by a name; the bytes hold the key, which is a secret. They carry a checksum, which is checked when an address is used.
 */
struct dart_address {
  /**
   * Its binary form.
   */
  uint8_t bytes[DART_ADDRESS_SIZE];
};

/**
 * What an address says, but for the key.
 */
struct dart_address_info {
  /**
   * The connection's host.
   */
  uint32_t host;
  /**
   * Its number there.
   */
  uint32_t number;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[6];
};

/**
 * What a connection is made of. All of it may be destroyed before the connection is.
 */
struct dart_connection_options {
  /**
   * What messages reach, and what is sent comes from.
   */
  const struct dart_endpoint *endpoint;
  /**
   * What the window is of.
   */
  const struct dart_bank *bank;
  /**
   * Where its messages' events are told; NULL is nowhere.
   */
  const struct dart_queue *events;
  /**
   * Where its exceptions are told: what is for software, and what was not executed; NULL is nowhere.
   */
  const struct dart_queue *exceptions;
  /**
   * The window's first register.
   */
  uint32_t first_register;
  /**
   * How many it has, up to 256; 0 is all that are behind, or 256. DART_NO_REGISTERS is none.
   */
  uint32_t registers;
  /**
   * The program's first entry.
   */
  uint32_t first_entry;
  /**
   * How many it has; 0 is none.
   */
  uint32_t entries;
  /**
   * What the other end's messages may do to the endpoint: DART_RIGHT_READ, DART_RIGHT_WRITE, both, or 0. They may change the window's
   * registers whatever this is.
   */
  uint32_t rights;
  /**
   * Must be 0.
   */
  uint32_t reserved[5];
};

/**
 * How a connection fares.
 */
struct dart_status {
  /**
   * How many of its messages have left, or will not, modulo 2^32.
   */
  uint32_t left;
  /**
   * How many of them have not left.
   */
  uint32_t dropped;
  /**
   * Why the last of these did not, DART_DROPPED_ROOM or another; 0 if there is none.
   */
  uint32_t dropped_why;
  /**
   * How many of its messages were not executed by their receiver, modulo 2^32.
   */
  uint32_t traps;
  /**
   * Why the last of these was not, DART_TRAP_BOUNDS or another; 0 if there is none.
   */
  uint32_t trap;
  /**
   * That message's opcode.
   */
  uint32_t trap_opcode;
  /**
   * Why it takes and sends nothing any more, DART_BROKEN_GONE or another; 0 if it does.
   */
  uint32_t broken;
  /**
   * How many messages of the other end had a trap here that no exception queue took, modulo 2^32.
   */
  uint32_t exceptions;
  /**
   * Why the last of these had one, DART_TRAP_BOUNDS or another; 0 if there is none.
   */
  uint32_t exception;
  /**
   * That message's opcode.
   */
  uint32_t exception_opcode;
  /**
   * For what may come: zeros.
   */
  uint32_t reserved[2];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens a card, "/dev/dartN". NULL is the card that the environment variable DART_CARD names, else /dev/dart0. -EPROTO for a card of
 * another model.
 */
int dart_open(const char *name,
              struct dart_card **card);

/**
 * Lets a card go; it is closed when all that was made with it is gone too. NULL is nothing.
 */
void dart_close(struct dart_card *card);

/**
 * Describes a card as it is now.
 */
int dart_get_info(const struct dart_card *card, struct dart_card_info *info);

/**
 * Reads the card's counters, as many as there is room for. Returns how many there are.
 */
int dart_statistics(const struct dart_card *card, uint64_t *values, size_t count);

/**
 * Writes the name of a counter, by its place among them, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
 */
int dart_statistic_name(uint32_t number,
                        char *text,
                        size_t size);

/**
 * Opens an endpoint over `length` bytes of the program's own memory, at least one, which begins at a multiple of 4, or with NULL over new
 * memory, zeroed, none of which is there before it is touched. The program's own memory has to stay until the endpoint is destroyed, and
 * all that was made with it: connections, and what was made with these.
 */
int dart_endpoint_create(const struct dart_card *card,
                         void *memory,
                         size_t length,
                         struct dart_endpoint **endpoint);

/**
 * Lets an endpoint go; it is closed when the connections that name it are destroyed, too. NULL is nothing.
 */
void dart_endpoint_destroy(struct dart_endpoint *endpoint);

/**
 * Where its bytes are; NULL for NULL. What arrives changes them at any time, so load a flag by __atomic_load_n(..., __ATOMIC_ACQUIRE) or
 * the like: what its writer had written before it is there then.
 */
void *dart_endpoint_data(const struct dart_endpoint *endpoint);

/**
 * Tells the kernel that an endpoint's memory is not needed soon: its pages may go to swap space. -EINVAL if the memory is the program's
 * own and does not begin with a page.
 */
int dart_endpoint_page_out(const struct dart_endpoint *endpoint);

/**
 * Gives the pages of an endpoint's memory back: those that are touched again, by whomever, are zero. -EINVAL if the memory is the
 * program's own.
 */
int dart_endpoint_discard(const struct dart_endpoint *endpoint);

/**
 * Opens a bank of address registers, 1 to 1024, and entries of programs, 0 to 256.
 */
int dart_bank_create(const struct dart_card *card,
                     uint32_t registers,
                     uint32_t entries,
                     struct dart_bank **bank);

/**
 * Lets a bank go; it is closed when the connections that have windows of it are destroyed, too. NULL is nothing.
 */
void dart_bank_destroy(struct dart_bank *bank);

/**
 * Sets `count` entries, from `first` on: the opcode and the operand of each operation is what a message executes that calls it
 * (DART_CALL, DART_CALL_WITH); indices, mask and data are the message's. If this fails some may be set.
 */
int dart_bank_set_program(const struct dart_bank *bank,
                          uint32_t first,
                          const struct dart_operation *operations,
                          size_t count);

/**
 * An operation's opcode as it travels, and as records and a connection's status have it.
 */
int dart_operation_opcode(const struct dart_operation *operation, uint32_t *opcode);

/**
 * Opens a queue with room for so many records, 16 to 65536, a power of two. `flags` is DART_QUEUE_IMMEDIATE or 0.
 */
int dart_queue_create(const struct dart_card *card,
                      uint32_t records,
                      uint32_t flags,
                      struct dart_queue **queue);

/**
 * Lets a queue go; it is closed when the connections that name it are destroyed, too. NULL is nothing.
 */
void dart_queue_destroy(struct dart_queue *queue);

/**
 * A file descriptor for poll(2) and the like, which stays the library's: readable while a queue of the same open card is not empty.
 * Take records until there are none before you wait.
 */
int dart_queue_fd(const struct dart_queue *queue);

/**
 * Returns all data of the message that the record taken last is about, if that is an exception, else the data of its first cell, and stores its
 * length to `length`. It is valid until the next record is taken. NULL if there is no queue.
 */
const void *dart_queue_data(const struct dart_queue *queue,
                            size_t *length);

/**
 * Takes the next record. If one is there that is no system call.
 */
int dart_queue_next(struct dart_queue *queue, struct dart_record *record, int timeout_ms);

/**
 * Takes the next record; looks for it for as many microseconds, and does not sleep. -EAGAIN if there is none.
 */
int dart_queue_poll(struct dart_queue *queue, uint32_t polling_us, struct dart_record *record);

/**
 * Makes an address of what another program has told in its own way.
 */
int dart_address_of(uint32_t host, uint32_t number, uint64_t key, struct dart_address *address);

/**
 * Reads an address' text, "dart1:" and digits.
 */
int dart_address_parse(const char *text, struct dart_address *address);

/**
 * Writes an address' text, with a zero behind it, into `size` bytes; HAMLYN_TEXT_SIZE are enough.
 */
int dart_address_print(const struct dart_address *address, char *text, size_t size);

/**
 * Says what an address says.
 */
int dart_address_get_info(const struct dart_address *address, struct dart_address_info *info);

/**
 * Opens a connection with another host, or with this one. It takes messages at once; none leave before dart_connect.
 */
int dart_connection_create(const struct dart_card *card,
                           const struct dart_connection_options *options,
                           uint32_t host,
                           struct dart_connection **connection);

/**
 * Lets a connection go; it is closed when what was made with it is destroyed, too. The other end is told. NULL is nothing.
 */
void dart_connection_destroy(struct dart_connection *connection);

/**
 * Its number at this host, which records have.
 */
int dart_connection_number(const struct dart_connection *connection);

/**
 * The other end's host id.
 */
int dart_connection_host(const struct dart_connection *connection);

/**
 * What its other end must know to be that: for the process that is to be the other end, and for nobody else. -ENETDOWN while the card's
 * link is down.
 */
int dart_connection_address(const struct dart_connection *connection,
                            struct dart_address *address);

/**
 * Says what a connection's other end is, once. Both ends do.
 */
int dart_connect(const struct dart_connection *connection, const struct dart_address *address);

/**
 * Sends a message with these bytes of this end's endpoint, which must not be changed before it has left (dart_wait_until_left). No
 * system call, unless it waits for room: DART_MAX_SENDS can wait to leave. -ECONNRESET or -ENETDOWN if the connection is broken.
 */
int dart_send(const struct dart_connection *connection,
              const struct dart_operation *operation,
              uint64_t offset,
              uint64_t length,
              int timeout_ms);

/**
 * Asks: what is read, or register i, comes back as a message of the operation `answer` with it as its data, which is executed here. So
 * it may be put somewhere, or told as an event with its data, or both.
 *
 * `bytes` are read by a DART_READ_MULTIPLE, or by a DART_CALL of one, whose answer is a DART_WRITE_MULTIPLE; others have one block. The question takes 20 bytes
 * of this end's endpoint from `scratch` on, until it has left. -EAGAIN if as many messages wait to leave as can.
 */
int dart_ask(const struct dart_connection *connection,
             const struct dart_operation *question,
             const struct dart_operation *answer,
             uint32_t bytes,
             uint64_t scratch);

/**
 * Waits until all messages that were sent have left: their data may be changed. What becomes of them only an answer tells.
 */
int dart_wait_until_left(const struct dart_connection *connection,
                         int timeout_ms);

/**
 * Waits until `exceptions` of dart_connection_status is another number than `known`.
 */
int dart_wait_for_exception(const struct dart_connection *connection, uint32_t known, int timeout_ms);

/**
 * Loads register `number` of a connection's window, as it is now.
 */
int dart_register(const struct dart_connection *connection, uint32_t number, uint64_t *value);

/**
 * Stores to register `number` of a connection's window.
 */
int dart_set_register(const struct dart_connection *connection, uint32_t number, uint64_t value);

/**
 * Says how a connection fares. No system call.
 */
int dart_connection_status(const struct dart_connection *connection, struct dart_status *status);

/**
 * Takes a name, as hamlyn_listen does: the listener, who asks there and the connections that the operating systems watch are those of any
 * card. dart_admit makes a connection of the card's with who has asked.
 */
int dart_name_listen(const struct dart_card *card,
                     const char *name,
                     uint32_t backlog,
                     struct hamlyn_listener **listener);

/**
 * Connects to a name on a host, as hamlyn_connect does. An address may be passed, here or with the answer; dart_reach does that.
 */
int dart_name_connect(const struct dart_card *card,
                      uint32_t host,
                      const char *name,
                      const void *data,
                      size_t length,
                      struct hamlyn_connection **connection);

/**
 * Asks for a connection as hamlyn_connect_begin does.
 */
int dart_name_connect_begin(const struct dart_card *card,
                            uint32_t host,
                            const char *name,
                            const void *data,
                            size_t length,
                            struct hamlyn_connecting **connecting);

/**
 * Connects to a name on whichever of these hosts accepts first, as hamlyn_connect_any does: bit h of the word stands for host h, and 0
 * for all hosts.
 */
int dart_name_connect_any(const struct dart_card *card,
                          uint64_t hosts,
                          const char *name,
                          const void *data,
                          size_t length,
                          struct hamlyn_connection **connection,
                          int timeout_ms);

/**
 * Which hosts have a listener of a name, as hamlyn_find does; returns how many.
 */
int dart_name_find(const struct dart_card *card,
                   const char *name,
                   struct hamlyn_found *found,
                   int timeout_ms);

/**
 * Opens a connection with whoever listens under a name at a host, and connects both ends. `known` is the connection of the two processes
 * that the operating systems watch, and tells of the other's end. It fails as dart_connection_create and hamlyn_connect do, and with
 * -EINVAL if who listens answers otherwise than dart_admit does.
 */
int dart_reach(const struct dart_card *card,
               const struct dart_connection_options *options,
               uint32_t host,
               const char *name,
               struct dart_connection **connection,
               struct hamlyn_connection **known);

/**
 * Opens a connection with who has asked for it by dart_reach, and connects both ends. The request is gone, even if this fails: who has
 * asked is told that there is none.
 */
int dart_admit(const struct dart_card *card,
               const struct dart_connection_options *options,
               struct hamlyn_request *request,
               struct dart_connection **connection,
               struct hamlyn_connection **known);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DART_H */
