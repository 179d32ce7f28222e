/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Dart card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-headers: do not edit.
 */
#ifndef _DART_CARD_H
#define _DART_CARD_H

#include <linux/types.h>
#include "uln.h"
#include "uln_kernel.h"

/* The DART card's commands, besides those that all cards have (command). */

/* Opens endpoint index. Body: dart_open_endpoint. */
#define DART_COMMAND_OPEN_ENDPOINT 1

/*
 * Closes an endpoint. Its connections must be closed first; otherwise the command fails with
 * ULN_STATUS_IN_USE.
 */
#define DART_COMMAND_CLOSE_ENDPOINT 2

/* Opens connection index. Body: dart_open_connection. The driver must zero its state first. */
#define DART_COMMAND_OPEN_CONNECTION 3

/* Closes a connection. Once the command has completed, none of its messages accesses memory. */
#define DART_COMMAND_CLOSE_CONNECTION 4

/*
 * Sets the connection at the other end, on the other host. Body: dart_connect. Before that,
 * messages are accepted, and none is sent.
 */
#define DART_COMMAND_CONNECT 5

/* Opens queue index. Body: dart_open_queue. The driver must zero its memory first. */
#define DART_COMMAND_OPEN_QUEUE 6

/* Closes a queue. Connections that name it have no queue from then on. */
#define DART_COMMAND_CLOSE_QUEUE 7

/* Opens the FIFO. Body: dart_open_fifo. */
#define DART_COMMAND_OPEN_FIFO 8

/* Closes the FIFO. */
#define DART_COMMAND_CLOSE_FIFO 11

/* Reads which pages connection index waits for. The answer is a body: dart_misses. */
#define DART_COMMAND_READ_MISSES 12

/* Sets address registers, from index on. Body: dart_values. */
#define DART_COMMAND_SET_REGISTERS 13

/* Sets entries of the programs, from index on. Body: dart_program. */
#define DART_COMMAND_SET_PROGRAM 14

/* Breaks connection index, because its other end has gone. Body: dart_break. */
#define DART_COMMAND_BREAK 15

/* In place of a queue's number: none. */
#define DART_NO_QUEUE 0xffffffff

/* In place of the peer's number: not known yet. */
#define DART_NO_PEER 0xffffffff

/* Maximum number of pages in dart_misses: those of the longest message, wherever it begins. */
#define DART_MAX_PAGES 32

/* Maximum number of values or entries in a command. */
#define DART_MAX_VALUES 32

/* In dart_open_endpoint.flags: its memory is area, which does not move. */
#define DART_ENDPOINT_PINNED 1

/* In dart_open_connection.flags: its messages may write to the endpoint. */
#define DART_CONNECTION_WRITE 1

/* In dart_open_connection.flags: its messages may read from the endpoint. */
#define DART_CONNECTION_READ 2

/*
 * In dart_open_connection.flags: a connection of the operating system. Its other end is the
 * connection on the other host that has this host's number and the same key. Its messages access
 * only the page of the endpoint that has the sending host's number. Lost packets or a lost link do
 * not break it. It uses no credits and waits for nothing, and executed messages are reported in
 * the FIFO. A message that would have to wait, or to be answered, is skipped.
 */
#define DART_CONNECTION_SYSTEM 4

/*
 * In dart_open_queue.flags: each record interrupts. Without it, a record interrupts only if a
 * process sleeps on the queue.
 */
#define DART_QUEUE_IMMEDIATE 1

/* In dart_misses.pages: the page is to be written to. */
#define DART_PAGE_WRITES 1ULL

/*
 * In dart_entry.flags: the operand is that of the CALL
 * (DART_CALL_OPERAND).
 */
#define DART_ENTRY_OPERAND 1

/* Body of DART_COMMAND_OPEN_ENDPOINT. */
struct dart_open_endpoint {
	/* With DART_ENDPOINT_PINNED, its memory; otherwise zero. */
	struct uln_area area;
	/* Its base: a virtual address that is a multiple of 4; zero if it is pinned. */
	__le64 base;
	/* Bytes; zero if it is pinned. */
	__le64 length;
	/* The address space of the virtual address; zero if it is pinned. */
	__le32 space;
	/* DART_ENDPOINT_PINNED or 0. */
	__le32 flags;
};

/* Body of DART_COMMAND_OPEN_CONNECTION. */
struct dart_open_connection {
	/* Its state: DART_STATE_SIZE bytes, described in connection. */
	struct uln_area state;
	/* Its endpoint. */
	__le32 endpoint;
	/* The other host. */
	__le32 host;
	/* The first of its address registers. */
	__le32 register_base;
	/* Number of address registers, up to DART_MAX_REGISTERS. */
	__le32 register_bound;
	/* The first entry of its program. */
	__le32 program_base;
	/* Number of program entries. */
	__le32 program_bound;
	/* The queue for the events of its messages, or DART_NO_QUEUE to report no events. */
	__le32 events;
	/*
	 * The queue for its exceptions. With DART_NO_QUEUE, the card counts them in the state, and
	 * interrupts.
	 */
	__le32 exceptions;
	/* Any of DART_CONNECTION_*. */
	__le32 flags;
	/* Zero. */
	__le32 reserved;
	/*
	 * Its key. A packet for the connection must carry it, so only the holder of the key can be
	 * the other end.
	 */
	__le64 key;
};

/* Body of DART_COMMAND_CONNECT. */
struct dart_connect {
	/* The key of the connection at its other end. */
	__le64 key;
	/* The number of the connection at its other end. */
	__le32 peer;
	/* Zero. */
	__le32 reserved;
};

/* Body of DART_COMMAND_OPEN_QUEUE. */
struct dart_open_queue {
	/* Its memory: a page of queue, then records of dart_record. */
	struct uln_area memory;
	/*
	 * Number of records: a power of two from DART_MIN_RECORDS to
	 * DART_MAX_RECORDS.
	 */
	__le32 records;
	/* DART_QUEUE_IMMEDIATE or 0. */
	__le32 flags;
};

/* Body of DART_COMMAND_OPEN_FIFO. */
struct dart_open_fifo {
	/* records of dart_fifo_record, all zero. */
	struct uln_area area;
	/*
	 * Number of records: a power of two, at least the number of queues plus three for each
	 * connection, and at most DART_MAX_FIFO.
	 */
	__le32 records;
	/* Zero. */
	__le32 reserved;
};

/* Answer of DART_COMMAND_READ_MISSES. */
struct dart_misses {
	/* Address space of the pages. */
	__le32 space;
	/* Number of pages. */
	__le32 count;
	/* Virtual addresses, with DART_PAGE_WRITES if the page is to be written to. */
	__le64 pages[32];
};

/* Body of DART_COMMAND_BREAK. */
struct dart_break {
	/* Reason, which the owner finds in DART_STATE_BROKEN; not 0. */
	__le32 why;
	/* Zero. */
	__le32 reserved;
};

/* Body of DART_COMMAND_SET_REGISTERS. */
struct dart_values {
	/* Number of values. */
	__le32 count;
	/* Zero. */
	__le32 reserved;
	/* The new values. */
	__le64 values[32];
};

/* An entry of a program, which a DART_MAIN_CALL executes. */
struct dart_entry {
	/* The opcode. */
	__le32 opcode;
	/* DART_ENTRY_OPERAND or 0. */
	__le32 flags;
	/* The operand; zero if the entry takes the sender's operand. */
	__le64 operand;
};

/* Body of DART_COMMAND_SET_PROGRAM. */
struct dart_program {
	/* Number of entries. */
	__le32 count;
	/* Zero. */
	__le32 reserved;
	/* The new entries. */
	struct dart_entry entries[32];
};

/*
 * A connection (section 3): its page of BAR 2, and the memory in which the card reports its state.
 *
 * The Send Registers keep what was stored to them, so a message like the last one takes one store.
 */

/* Send Register, u64: opcode, mask and indices, as in dart_control. */
#define DART_SEND_CONTROL 0x00

/* Send Register, u64: the operand. */
#define DART_SEND_OPERAND 0x08

/* Send Register, u64: offset of the data from the endpoint's base. */
#define DART_SEND_OFFSET 0x10

/*
 * Send Register, u32: bytes of data. Storing it sends the message. The limit is DART_LONGEST
 * for a DART_MAIN_WRITE_MULTIPLE, a CALL that asks nothing, an EXCEPTION, and
 * a message unknown to the card. For all others it is a block; the rest of the block is 0.
 */
#define DART_SEND_LENGTH 0x18

/*
 * Send Register, u64: bytes of data in the lower DART_SEND_DATA_SHIFT bits, and their offset
 * in the others. Storing it sets DART_SEND_OFFSET and sends the message, with one store
 * instead of two. Cards of ABI version 1.1 and later have it.
 */
#define DART_SEND_DATA 0x20

/* Number of bits of the length in DART_SEND_DATA. */
#define DART_SEND_DATA_SHIFT 24

/*
 * Address register 0 of the connection's window, u64, for loads and stores. The other registers
 * follow it. Registers that do not exist load as ones.
 */
#define DART_PAGE_REGISTERS 0x800

/* Bytes of a connection's page. */
#define DART_PAGE_SIZE 4096

/* Connection numbers are below this, because a cell's header has no space for larger ones. */
#define DART_NUMBERS 0x10000000

/*
 * The smallest window of a card, in cells. A connection uses no more than this until the other end
 * has reported its own window.
 */
#define DART_SMALLEST_WINDOW 2048

/* Maximum number of address registers in a connection's window. */
#define DART_MAX_REGISTERS 256

/* Maximum bytes of data in a message. */
#define DART_LONGEST 65504

/* Maximum number of messages of a connection that wait to leave. */
#define DART_MAX_SENDS 64

/*
 * u32, stored by the card: number of messages that have left or never will, modulo 2^32. They are
 * counted in the order of their stores.
 */
#define DART_STATE_LEFT 0x00

/*
 * u32: number of them that were dropped, because the connection is broken, they were invalid, or
 * there was no space for them.
 */
#define DART_STATE_DROPPED 0x04

/* u32: why the last of these was dropped, DART_DROPPED_*. */
#define DART_STATE_DROPPED_WHY 0x08

/*
 * u32: number of messages that had a trap at the receiver, modulo 2^32. The card writes it after
 * the other words about a trap.
 */
#define DART_STATE_TRAPS 0x0c

/* u32: the last trap, DART_TRAP_*. */
#define DART_STATE_TRAP 0x10

/* u32: the opcode of that message. */
#define DART_STATE_TRAP_OPCODE 0x14

/* u32: 0, or why the connection is broken, DART_BROKEN_*. */
#define DART_STATE_BROKEN 0x18

/*
 * u32: number of exceptions at this end that no queue took, modulo 2^32. The card writes it last,
 * after trap and opcode.
 */
#define DART_STATE_EXCEPTIONS 0x1c

/* u32: the last of these exceptions, DART_TRAP_*. */
#define DART_STATE_EXCEPTION 0x20

/* u32: the opcode of that message. */
#define DART_STATE_EXCEPTION_OPCODE 0x24

/* Bytes of the state. Its address is a multiple of this. */
#define DART_STATE_SIZE 64

/* Dropped: the length exceeds the limit of the opcode. */
#define DART_DROPPED_LENGTH 1

/* Dropped: the data is not inside the endpoint, or the memory does not exist. */
#define DART_DROPPED_MEMORY 2

/* Dropped: the maximum number of messages was waiting. */
#define DART_DROPPED_ROOM 3

/* Dropped: the connection is broken. */
#define DART_DROPPED_BROKEN 4

/* Broken: a packet has been lost. */
#define DART_BROKEN_LOST 1

/* Broken: the link is down. */
#define DART_BROKEN_LINK 2

/* Broken: the peer has violated the protocol, or sent more than it may. */
#define DART_BROKEN_PEER 3

/* Broken: memory that the driver has named cannot be accessed. */
#define DART_BROKEN_MEMORY 4

/* Broken: the other end has been closed, or its host is lost. */
#define DART_BROKEN_GONE 5

/* The operation of a message (Figures 2 and 3). */

/* Bytes of data in a control cell: a block. */
#define DART_BLOCK 32

/* The control of a message: in the payload of the first cell, before its data. */
struct dart_control {
	/* The operation: a DART_MAIN_* and the fields below. */
	__le32 opcode;
	/* Bit w deselects word w of 4 bytes in each block. */
	__u8 mask;
	/* Registers i, j and k of the receiver's window. */
	__u8 indices[3];
	/* An offset, or data. */
	__le64 operand;
};

/* Main operation: uses registers only. */
#define DART_MAIN_NONE 0

/* Main operation: writes a block. */
#define DART_MAIN_WRITE 1

/* Main operation: writes the data of the cells behind the first. */
#define DART_MAIN_WRITE_MULTIPLE 2

/* Main operation: answers with a block. */
#define DART_MAIN_READ 3

/* Main operation: answers with the requested number of bytes. */
#define DART_MAIN_READ_MULTIPLE 4

/* Main operation: answers with register i, before and after the message. */
#define DART_MAIN_ANSWER 5

/*
 * Main operation: executes an entry of the receiver's program. The operand is the entry's number.
 * With DART_CALL_OPERAND it is the operand of an entry with
 * DART_ENTRY_OPERAND. It has no fields other than DART_CALL_*.
 */
#define DART_MAIN_CALL 6

/* Main operation: a software exception. The software defines the other fields. */
#define DART_MAIN_EXCEPTION 7

/*
 * In a CALL: it is a question. Its data is that of a READ_MULTIPLE, and its entry answers with the
 * requested number of bytes. The number is 0 if the entry reads a block, or answers with a
 * register.
 */
#define DART_CALL_ASKS 0x8

/*
 * In a CALL: the entry's number is in the field at DART_CALL_ENTRY_SHIFT, and the operand is
 * the sender's.
 */
#define DART_CALL_OPERAND 0x10

/* Field of a CALL with DART_CALL_OPERAND, 16 bits: the entry's number. */
#define DART_CALL_ENTRY_SHIFT 16

/* Field: addressing mode. */
#define DART_ADDRESSING_SHIFT 3

/* Addressing: the address is the operand. */
#define DART_ADDRESSING_DIRECT 0

/* Addressing: the address is register i. */
#define DART_ADDRESSING_INDIRECT 1

/* Addressing: the address is register i plus the operand. */
#define DART_ADDRESSING_INDEXED 2

/* Field: order of address generation, register operations and comparison. */
#define DART_ORDER_SHIFT 5

/* Order: address, register operations, comparison. */
#define DART_ORDER_FIRST 0

/* Order: first register operation, address, second register operation, comparison. */
#define DART_ORDER_BETWEEN 1

/* Order: register operations, address, comparison. */
#define DART_ORDER_BEHIND 2

/* Order: comparison, address, register operations. */
#define DART_ORDER_COMPARED 3

/*
 * Field: the first register operation, 7 bits. The operation is in bits 0 to 3, DART_SOURCE_*
 * from bit 4, DART_TARGET_* in bit 6.
 */
#define DART_FIRST_SHIFT 8

/* Field: the second register operation, like the first. */
#define DART_SECOND_SHIFT 16

/* In a register operation: its source. */
#define DART_SOURCE_SHIFT 4

/* In a register operation: its target. */
#define DART_TARGET_SHIFT 6

/* Register operation: none. */
#define DART_OP_NONE 0

/* Register operation: sets the target to the source. */
#define DART_OP_MOVE 1

/* Register operation: sets the target to the source's complement. */
#define DART_OP_NOT 2

/* Register operation: sets the target to the negated source, modulo 2^64. */
#define DART_OP_NEGATE 3

/* Register operation: increments the target, modulo 2^64. It has no source. */
#define DART_OP_INCREMENT 4

/* Register operation: decrements the target, modulo 2^64. It has no source. */
#define DART_OP_DECREMENT 5

/* Register operation: adds the source, modulo 2^64. */
#define DART_OP_ADD 6

/* Register operation: subtracts the source, modulo 2^64. */
#define DART_OP_SUBTRACT 7

/* Register operation: bitwise AND with the source. */
#define DART_OP_AND 8

/* Register operation: bitwise OR with the source. */
#define DART_OP_OR 9

/* Register operation: bitwise XOR with the source. */
#define DART_OP_XOR 10

/* Register operation: minimum of target and source, unsigned. */
#define DART_OP_MINIMUM 11

/* Register operation: maximum of target and source, unsigned. */
#define DART_OP_MAXIMUM 12

/* Register operation: shifts the target left by the source modulo 64; zeros come in. */
#define DART_OP_LEFT 13

/* Register operation: shifts the target right by the source modulo 64; zeros come in. */
#define DART_OP_RIGHT 14

/* Register operation: sets the target to the source if the target equals the operand. */
#define DART_OP_REPLACE 15

/* Source, or right side of a comparison: the operand. */
#define DART_SOURCE_OPERAND 0

/* Source, or right side of a comparison: the value, which is the result of the step before. */
#define DART_SOURCE_VALUE 1

/* Source, or right side of a comparison: register j. */
#define DART_SOURCE_J 2

/* Source, or right side of a comparison: register k. */
#define DART_SOURCE_K 3

/* Target, or left side of a comparison: register i. */
#define DART_TARGET_I 0

/* Target, or left side of a comparison: register j. */
#define DART_TARGET_J 1

/* Field: the comparison. */
#define DART_COMPARE_SHIFT 24

/* Comparison: none. */
#define DART_COMPARE_NONE 0

/* Comparison: left side equal to right side. */
#define DART_COMPARE_EQUAL 1

/* Comparison: left side not equal to right side. */
#define DART_COMPARE_UNEQUAL 2

/* Comparison: left side less than right side, unsigned. */
#define DART_COMPARE_LESS 3

/* Comparison: left side less than or equal to right side, unsigned. */
#define DART_COMPARE_NOT_MORE 4

/* Comparison: left side less than right side, signed. */
#define DART_COMPARE_SIGNED_LESS 5

/* Comparison: left side less than or equal to right side, signed. */
#define DART_COMPARE_SIGNED_NOT_MORE 6

/* Comparison: always holds. It has no sides. */
#define DART_COMPARE_ALWAYS 7

/* Field: left side of the comparison, DART_TARGET_*. */
#define DART_LEFT_SHIFT 27

/* Field: right side of the comparison, DART_SOURCE_*. */
#define DART_RIGHT_SHIFT 28

/* If the comparison holds, the message is refused, without an event. */
#define DART_REFUSE 0x40000000

/*
 * The FIFO: events that need the driver.
 *
 * The card writes records to a ring in the driver's memory, and raises
 * DART_VECTOR_FIFO for the first. When the driver has taken the records, it
 * stores their number to DART_REG_FIFO_TAKEN. If there are more by then, the
 * card raises the vector again. A connection or queue with an untaken record gets no second one of
 * that kind.
 */

/* Maximum number of records in the FIFO. */
#define DART_MAX_FIFO 131072

/* Bytes of a record. */
#define DART_FIFO_SIZE 8

/*
 * In dart_fifo_record.what, with a connection: it waits for pages
 * (DART_COMMAND_READ_MISSES).
 */
#define DART_FIFO_MISSES 0x00000000

/*
 * In dart_fifo_record.what, with a queue: it has records for a sleeping process, or is an
 * immediate queue.
 */
#define DART_FIFO_QUEUE 0x40000000

/*
 * In dart_fifo_record.what, with a connection of the operating system: messages have been
 * executed. With any other connection: it had an exception that no queue took
 * (DART_STATE_EXCEPTIONS).
 */
#define DART_FIFO_ARRIVED 0xc0000000

/*
 * In dart_fifo_record.what, with a connection: a process sleeps until messages have left, and
 * they have left, or the connection is broken.
 */
#define DART_FIFO_LEFT 0x80000000

/* A record. Record n, counted from 0, is at n modulo the ring's size. */
struct dart_fifo_record {
	/* DART_FIFO_*, and the number of the connection or queue. */
	__le32 what;
	/* n + 1, modulo 2^32. The card writes it last. */
	__le32 number;
};

/* Identity of the DART card. */

/* PCI device id of the DART card. */
#define DART_PCI_DEVICE 0x4454

/* Value of ULN_REG_MODEL for the DART card. */
#define DART_MODEL 4

/* Value of ULN_REG_ABI_VERSION for the DART card. */
#define DART_ABI_VERSION 0x00010001

/*
 * Queues of events and exceptions (sections 1 and 2): rings in their owner's memory, any number of
 * them.
 *
 * The record of an exception carries all data of its message. If there are more than 32 bytes,
 * data has the first 32. The rest of the length bytes is in dart_parts, in the places of
 * the next records. A queue of 2,048 records has room for any message.
 *
 * The owner takes records, and stores their number to DART_QUEUE_TAKEN. If a queue is full,
 * messages with a record for it wait; the card retries them within 1 ms.
 */

/*
 * In the queue's first page, u32, stored by the owner: number of records that it has taken, modulo
 * 2^32.
 */
#define DART_QUEUE_TAKEN 0x000

/* Bytes before the records. */
#define DART_QUEUE_HEAD 4096

/* Minimum number of records in a queue. */
#define DART_MIN_RECORDS 16

/* Maximum number of records in a queue. */
#define DART_MAX_RECORDS 65536

/* Bytes of a record. */
#define DART_RECORD_SIZE 64

/* Kind: a message's comparison held, and the message was executed. */
#define DART_RECORD_COMPARED 1

/* Kind: a software exception. The software executes the message. */
#define DART_RECORD_EXCEPTION 2

/* Kind: a message was not executed. A DART_TRAP_* is added to this. */
#define DART_RECORD_TRAP 16

/*
 * In the kind of an exception: the rest of the message's data does not fit even into the empty
 * queue, and is lost.
 */
#define DART_RECORD_CUT 0x100

/* Bytes of a message's data in each dart_part. */
#define DART_PART 60

/* A record of a message. Record n, counted from 0, is at n modulo the queue's size. */
struct dart_record {
	/* The message's control. */
	struct dart_control control;
	/* The data of its first cell. */
	__le64 data[4];
	/*
	 * Bytes of data of a message of several blocks, otherwise 0. If there are more than 32,
	 * data has the first of them.
	 */
	__le32 length;
	/* The connection that the message arrived on. */
	__le32 connection;
	/* Kind of record, DART_RECORD_*. */
	__le32 kind;
	/* n + 1, modulo 2^32. The card writes it last. */
	__le32 number;
};

/* More data of an exception, behind its record. */
struct dart_part {
	/* The data, padded with zeros. */
	__u8 data[60];
	/* Like the number of a record in this place. */
	__le32 number;
};

/* Registers of the DART card, in BAR 0, besides those that all cards have. */

/* RO. Number of connections. */
#define DART_REG_CONNECTIONS 0x100

/* RO. Number of endpoints. */
#define DART_REG_ENDPOINTS 0x104

/* RO. Number of address registers. */
#define DART_REG_REGISTERS 0x108

/* RO. Number of entries of all programs together. */
#define DART_REG_PROGRAM 0x10c

/* RO. Number of queues. */
#define DART_REG_QUEUES 0x110

/* RO. Number of translations in the TLB. */
#define DART_REG_TLB 0x114

/* RO. Number of cells that a connection may have in flight. */
#define DART_REG_WINDOW 0x118

/* WO. Number of FIFO records that the driver has taken, modulo 2^32 (fifo). */
#define DART_REG_FIFO_TAKEN 0x120

/*
 * WO, 8 bytes. A process sleeps on a queue. The lower half is the queue's number; the upper half
 * is the number of records the process has taken, modulo 2^32. If there are more, or as soon as
 * there are, the card puts the queue into the FIFO, once.
 */
#define DART_REG_ARM 0x128

/*
 * WO, 8 bytes. A process sleeps until messages of a connection have left. The lower half is the
 * connection's number; the upper half is the number that has left, as the process knows it. If the
 * number differs, or as soon as it does, the card puts the connection into the FIFO, once.
 */
#define DART_REG_ARM_LEFT 0x130

/*
 * WO, 8 bytes. The address space that the next three registers apply to. Each of these registers
 * keeps what was stored.
 */
#define DART_REG_TLB_SPACE 0x140

/* WO, 8 bytes. Virtual address of a page. */
#define DART_REG_TLB_PAGE 0x148

/* WO, 8 bytes. Reports the bus address of that page, and DART_FRAME_*. */
#define DART_REG_TLB_FILL 0x150

/*
 * RW, 8 bytes. A store of n invalidates the translations of n pages, from that page on. Once a
 * load, which returns 0, has completed, the card no longer uses these translations.
 */
#define DART_REG_TLB_INVALIDATE 0x158

/*
 * In DART_REG_TLB_FILL: the page is writable. With DART_FRAME_NONE: it is not writable,
 * but may be readable.
 */
#define DART_FRAME_WRITABLE 1ULL

/* In DART_REG_TLB_FILL: the page does not exist. */
#define DART_FRAME_NONE 2ULL

/* MSI-X vector for new records in the FIFO. */
#define DART_VECTOR_FIFO 1

/*
 * The DART card's counters. They are 64 bits wide, count from the card's start or reset, and are
 * in the order of dart_statistic.
 */

/* Number of counters. */
#define DART_STATISTICS 27

/* Why a message was not executed, in the order of the checks. The message has changed nothing. */

/* The card does not implement the operation, which is left to the software. */
#define DART_TRAP_UNIMPLEMENTED 1

/* It uses a register that is not in the connection's window. */
#define DART_TRAP_INDEX 2

/* Its comparison holds, and the message is then refused as it requested. */
#define DART_TRAP_REFUSED 3

/* The connection has no right to write to the endpoint, or to read from it. */
#define DART_TRAP_RIGHT 4

/* The address is not a multiple of 4. */
#define DART_TRAP_MISALIGNED 5

/* A word is not inside the endpoint. */
#define DART_TRAP_BOUNDS 6

/* The memory does not exist, or is not writable. */
#define DART_TRAP_NO_MEMORY 7

/*
 * Messages between the drivers of two hosts about connections, of the card's own kind
 * (ULN_WIRE_CARD). reason is the message's kind, from the sender's connection, and to
 * the receiver's.
 *
 * Messages of operating systems use the connections below DART_FIRST_CONNECTION, each with the
 * host of its number. They travel as [records](crate::kernel::wire::UlnRecord), which a
 * WRITE_MULTIPLE puts into the sender's page of the receiver's endpoint DART_SYSTEM_ENDPOINT.
 */

/*
 * First connection of processes. Those below it belong to the operating systems, each with the
 * host of its number.
 */
#define DART_FIRST_CONNECTION 64

/*
 * Number of the endpoint for operating systems' messages. It has a page for each host; the memory
 * behind these pages is for this host's outgoing messages.
 */
#define DART_SYSTEM_ENDPOINT 0

/* The key of operating systems' connections, which is not a secret. */
#define DART_SYSTEM_KEY 0x5452414453595354ULL

/* Connection from, the other end of to, has ended. Followed by the key of to, 8 bytes. */
#define DART_SAY_GONE 1

#endif /* _DART_CARD_H */
