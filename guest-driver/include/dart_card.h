/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * What a guest and a Dart card agree on.
 *
 * Made from device/abi by cargo run -p hamlyn-tests --bin headers: do not edit.
 */
#ifndef _DART_CARD_H
#define _DART_CARD_H

#include <linux/types.h>
#include "hamlyn_family.h"
#include "hamlyn_kernel.h"

/* The DART card's operations, beside those that all cards have (command). */

/* Open an endpoint: index is its number. Body: dart_open_endpoint. */
#define DART_COMMAND_OPEN_ENDPOINT 1

/* Close an endpoint. Its connections must have been closed before: else it is refused as in use. */
#define DART_COMMAND_CLOSE_ENDPOINT 2

/*
 * Open a connection: index is its number. Body: dart_open_connection. The driver has made its state
 * zero.
 */
#define DART_COMMAND_OPEN_CONNECTION 3

/* Close a connection. When it is answered nothing of it reaches memory any more. */
#define DART_COMMAND_CLOSE_CONNECTION 4

/*
 * Say which connection of the other host is at the other end. Body: dart_connect. Messages are
 * taken before, and none leaves.
 */
#define DART_COMMAND_CONNECT 5

/* Open a queue: index is its number. Body: dart_open_queue. The driver has made its memory zero. */
#define DART_COMMAND_OPEN_QUEUE 6

/* Close a queue. Connections that name it have none from then on. */
#define DART_COMMAND_CLOSE_QUEUE 7

/* Open the FIFO. Body: dart_open_fifo. */
#define DART_COMMAND_OPEN_FIFO 8

/* Close the FIFO. */
#define DART_COMMAND_CLOSE_FIFO 11

/* Ask which pages connection index waits for. The answer is a body: dart_misses. */
#define DART_COMMAND_READ_MISSES 12

/* Set address registers, from index on. Body: dart_values. */
#define DART_COMMAND_SET_REGISTERS 13

/* Set entries of the programs, from index on. Body: dart_program. */
#define DART_COMMAND_SET_PROGRAM 14

/* Break connection index off: its other end is no more. Body: dart_break. */
#define DART_COMMAND_BREAK 15

/* Instead of a queue's number: none. */
#define DART_NO_QUEUE 0xffffffff

/* Instead of the peer's number: it is not known yet. */
#define DART_NO_PEER 0xffffffff

/* The most pages of dart_misses: those of the longest message, wherever it begins. */
#define DART_MAX_PAGES 32

/* The most values or entries of a command. */
#define DART_MAX_VALUES 32

/* In dart_open_endpoint.flags: its memory is area, which stays where it is. */
#define DART_ENDPOINT_PINNED 1

/* In dart_open_connection.flags: its messages may write to the endpoint. */
#define DART_CONNECTION_WRITE 1

/* In dart_open_connection.flags: its messages may read from the endpoint. */
#define DART_CONNECTION_READ 2

/*
 * In dart_open_connection.flags: the operating system's. Its other end is that host's connection
 * with the number of this host, and the same key. Its messages reach only the page of the endpoint
 * that has the number of the host that they are from. It is not broken when packets are lost or the
 * link goes, nobody pays or waits for anything, and what has been executed is told in the FIFO. A
 * message that would have to wait, or be answered, is passed over.
 */
#define DART_CONNECTION_SYSTEM 4

/* In dart_open_queue.flags: each record interrupts; else those that somebody sleeps for. */
#define DART_QUEUE_IMMEDIATE 1

/* In dart_misses.pages: it is to be written to. */
#define DART_PAGE_WRITES 1ULL

/* In dart_entry.flags: the operand is the one that the CALL has (DART_CALL_OPERAND). */
#define DART_ENTRY_OPERAND 1

/* Body of DART_COMMAND_OPEN_ENDPOINT. */
struct dart_open_endpoint {
	/* With DART_ENDPOINT_PINNED, its memory; else zero. */
	struct hamlyn_area area;
	/* Its first byte, a virtual address that is a multiple of 4; zero if it is pinned. */
	__u64 base;
	/* Bytes; zero if it is pinned. */
	__u64 length;
	/* Whose virtual address: its address space; zero if it is pinned. */
	__u32 space;
	/* DART_ENDPOINT_PINNED or 0. */
	__u32 flags;
};

/* Body of DART_COMMAND_OPEN_CONNECTION. */
struct dart_open_connection {
	/* DART_STATE_SIZE bytes, of connection. */
	struct hamlyn_area state;
	/* Its endpoint. */
	__u32 endpoint;
	/* The other host. */
	__u32 host;
	/* The first of its address registers. */
	__u32 register_base;
	/* How many there are, up to DART_MAX_REGISTERS. */
	__u32 register_bound;
	/* The first entry of its program. */
	__u32 program_base;
	/* How many there are. */
	__u32 program_bound;
	/* The queue for what its messages tell of, or DART_NO_QUEUE: then nobody is told. */
	__u32 events;
	/*
	 * The queue for its exceptions, or DART_NO_QUEUE: then the card counts them in the state,
	 * and interrupts.
	 */
	__u32 exceptions;
	/* DART_CONNECTION_*, any of them. */
	__u32 flags;
	/* Zero. */
	__u32 reserved;
	/* What packets must have to be for it: who has this is its other end. */
	__u64 key;
};

/* Body of DART_COMMAND_CONNECT. */
struct dart_connect {
	/* The key of the connection at its other end. */
	__u64 key;
	/* That one's number. */
	__u32 peer;
	/* Zero. */
	__u32 reserved;
};

/* Body of DART_COMMAND_OPEN_QUEUE. */
struct dart_open_queue {
	/* Its memory: a page of queue, then records of dart_record. */
	struct hamlyn_area memory;
	/* Records, DART_MIN_RECORDS to DART_MAX_RECORDS, a power of two. */
	__u32 records;
	/* DART_QUEUE_IMMEDIATE or 0. */
	__u32 flags;
};

/* Body of DART_COMMAND_OPEN_FIFO. */
struct dart_open_fifo {
	/* records of dart_fifo_record, all zero. */
	struct hamlyn_area area;
	/*
	 * Records, a power of two, at least as many as there are queues and three for each
	 * connection, and at most DART_MAX_FIFO.
	 */
	__u32 records;
	/* Zero. */
	__u32 reserved;
};

/* Answer of DART_COMMAND_READ_MISSES. */
struct dart_misses {
	/* Whose pages they are. */
	__u32 space;
	/* How many. */
	__u32 count;
	/* Virtual addresses, and DART_PAGE_WRITES. */
	__u64 pages[32];
};

/* Body of DART_COMMAND_BREAK. */
struct dart_break {
	/* Why: what its owner finds in DART_STATE_BROKEN, not 0. */
	__u32 why;
	/* Zero. */
	__u32 reserved;
};

/* Body of DART_COMMAND_SET_REGISTERS. */
struct dart_values {
	/* How many. */
	__u32 count;
	/* Zero. */
	__u32 reserved;
	/* What they become. */
	__u64 values[32];
};

/* An entry of a program: what a DART_MAIN_CALL executes. */
struct dart_entry {
	/* The opcode. */
	__u32 opcode;
	/* DART_ENTRY_OPERAND or 0. */
	__u32 flags;
	/* The operand; zero if it is the sender's. */
	__u64 operand;
};

/* Body of DART_COMMAND_SET_PROGRAM. */
struct dart_program {
	/* How many. */
	__u32 count;
	/* Zero. */
	__u32 reserved;
	/* What they become. */
	struct dart_entry entries[32];
};

/*
 * A connection (section 3): its page of BAR 2, and the memory in which the card says how it fares.
 *
 * The Send Registers keep what was stored to them, so that the next message like the last takes a
 * store.
 */

/* Send Register, u64: opcode, mask and indices, as in dart_control. */
#define DART_SEND_CONTROL 0x00

/* Send Register, u64: the operand. */
#define DART_SEND_OPERAND 0x08

/* Send Register, u64: where the data is, from the endpoint's base. */
#define DART_SEND_OFFSET 0x10

/*
 * Send Register, u32: bytes of data. Storing it sends: up to DART_LONGEST of a
 * DART_MAIN_WRITE_MULTIPLE, of a CALL that asks nothing, of an EXCEPTION and of what the card does
 * not know; of all others up to a block, whose rest is 0.
 */
#define DART_SEND_LENGTH 0x18

/*
 * Address register 0 of the connection's window, u64, to be loaded and stored; the others are
 * behind it. Those that there are not load as ones.
 */
#define DART_PAGE_REGISTERS 0x800

/* Bytes of a connection's page. */
#define DART_PAGE_SIZE 4096

/* Connections have numbers below this: a cell's header has room for no larger ones. */
#define DART_NUMBERS 0x10000000

/*
 * The smallest window of a card, in cells: a connection uses no more of it before the other end has
 * said its own.
 */
#define DART_SMALLEST_WINDOW 2048

/* The most address registers of a connection's window. */
#define DART_MAX_REGISTERS 256

/* The most bytes of data of a message. */
#define DART_LONGEST 65504

/* How many messages of a connection can wait to leave. */
#define DART_MAX_SENDS 64

/*
 * u32, stored by the card: how many messages have left, or will not, modulo 2^32: of those that
 * were stored first.
 */
#define DART_STATE_LEFT 0x00

/*
 * u32: how many of them have not left: the connection is broken, or they make no sense, or there
 * was no room for them.
 */
#define DART_STATE_DROPPED 0x04

/* u32: why the last of these was dropped, DART_DROPPED_*. */
#define DART_STATE_DROPPED_WHY 0x08

/*
 * u32, written last of what is known of a trap: how many messages had one at the receiver, modulo
 * 2^32.
 */
#define DART_STATE_TRAPS 0x0c

/* u32: the last of them, DART_TRAP_*. */
#define DART_STATE_TRAP 0x10

/* u32: that message's opcode. */
#define DART_STATE_TRAP_OPCODE 0x14

/* u32: 0, or why the connection is broken, DART_BROKEN_*. */
#define DART_STATE_BROKEN 0x18

/*
 * u32: exceptions of this end that no queue took, modulo 2^32. The card writes it last, behind trap
 * and opcode.
 */
#define DART_STATE_EXCEPTIONS 0x1c

/* u32: the last of them, DART_TRAP_*. */
#define DART_STATE_EXCEPTION 0x20

/* u32: that message's opcode. */
#define DART_STATE_EXCEPTION_OPCODE 0x24

/* Bytes of it; where it is, is a multiple of that. */
#define DART_STATE_SIZE 64

/* The length is more than the opcode takes. */
#define DART_DROPPED_LENGTH 1

/* The data is not inside the endpoint, or there is no such memory. */
#define DART_DROPPED_MEMORY 2

/* As many messages waited as can. */
#define DART_DROPPED_ROOM 3

/* The connection is broken. */
#define DART_DROPPED_BROKEN 4

/* A packet has been lost. */
#define DART_BROKEN_LOST 1

/* The link is down. */
#define DART_BROKEN_LINK 2

/* The peer has sent what makes no sense, or more than it may. */
#define DART_BROKEN_PEER 3

/* Memory that the driver has named cannot be reached. */
#define DART_BROKEN_MEMORY 4

/* The other end has been closed, or its host is lost. */
#define DART_BROKEN_GONE 5

/* What a message is to do (Figures 2 and 3). */

/* Bytes of data in a control cell: a block. */
#define DART_BLOCK 32

/* The control of a message, in the first cell's payload before its data. */
struct dart_control {
	/* The operation: a DART_MAIN_*, and the fields below. */
	__u32 opcode;
	/* Bit w deselects word w, of 4 bytes, in each block. */
	__u8 mask;
	/* Registers i, j and k of the receiver's window. */
	__u8 indices[3];
	/* An offset, or data. */
	__u64 operand;
};

/* Main operation: registers alone. */
#define DART_MAIN_NONE 0

/* Main operation: writes a block. */
#define DART_MAIN_WRITE 1

/* Main operation: writes what the cells behind the first carry. */
#define DART_MAIN_WRITE_MULTIPLE 2

/* Main operation: answers with a block. */
#define DART_MAIN_READ 3

/* Main operation: answers with as many bytes as are asked for. */
#define DART_MAIN_READ_MULTIPLE 4

/* Main operation: answers with register i, as it was and as it is. */
#define DART_MAIN_ANSWER 5

/*
 * Main operation: what an entry of the receiver's program says. The operand is the entry's number;
 * or, with DART_CALL_OPERAND, what an entry with DART_ENTRY_OPERAND works on. There are no other
 * fields than DART_CALL_*.
 */
#define DART_MAIN_CALL 6

/* Main operation: a software exception. The other fields are the software's. */
#define DART_MAIN_EXCEPTION 7

/*
 * In a CALL: it is a question. Its data is that of a READ_MULTIPLE, and its entry answers with as
 * many bytes as are asked for: 0 if it reads a block, or answers with a register.
 */
#define DART_CALL_ASKS 0x8

/*
 * In a CALL: the entry's number is in the field DART_CALL_ENTRY_SHIFT, and the operand is the
 * sender's.
 */
#define DART_CALL_OPERAND 0x10

/* Field of a CALL with DART_CALL_OPERAND, 16 bits: the entry's number. */
#define DART_CALL_ENTRY_SHIFT 16

/* Field: how the address is generated. */
#define DART_ADDRESSING_SHIFT 3

/* It is the operand. */
#define DART_ADDRESSING_DIRECT 0

/* It is in register i. */
#define DART_ADDRESSING_INDIRECT 1

/* It is register i plus the operand. */
#define DART_ADDRESSING_INDEXED 2

/* Field: when the address is generated. */
#define DART_ORDER_SHIFT 5

/* Before the register operations; the comparison is last. */
#define DART_ORDER_FIRST 0

/* Between them. */
#define DART_ORDER_BETWEEN 1

/* Behind them. */
#define DART_ORDER_BEHIND 2

/* The comparison is first, then the address, then the register operations. */
#define DART_ORDER_COMPARED 3

/*
 * Field: the first register operation, of 7 bits: which it is, DART_SOURCE_* from bit 4,
 * DART_TARGET_* in bit 6.
 */
#define DART_FIRST_SHIFT 8

/* Field: the second register operation, as the first. */
#define DART_SECOND_SHIFT 16

/* Of a register operation: its source. */
#define DART_SOURCE_SHIFT 4

/* Of a register operation: its target. */
#define DART_TARGET_SHIFT 6

/* Register operation: none. */
#define DART_OP_NONE 0

/* The target becomes the source. */
#define DART_OP_MOVE 1

/* The target becomes the source's complement. */
#define DART_OP_NOT 2

/* The target becomes the source's negative, modulo 2^64. */
#define DART_OP_NEGATE 3

/* One more, modulo 2^64. There is no source. */
#define DART_OP_INCREMENT 4

/* One less, modulo 2^64. There is no source. */
#define DART_OP_DECREMENT 5

/* Plus the source, modulo 2^64. */
#define DART_OP_ADD 6

/* Minus the source, modulo 2^64. */
#define DART_OP_SUBTRACT 7

/* Bits that both have. */
#define DART_OP_AND 8

/* Bits that one of them has. */
#define DART_OP_OR 9

/* Bits that only one of them has. */
#define DART_OP_XOR 10

/* The lesser, unsigned. */
#define DART_OP_MINIMUM 11

/* The greater, unsigned. */
#define DART_OP_MAXIMUM 12

/* To the left by the source modulo 64; zeros come in. */
#define DART_OP_LEFT 13

/* To the right by the source modulo 64; zeros come in. */
#define DART_OP_RIGHT 14

/* The source, if the target is the operand. */
#define DART_OP_REPLACE 15

/* A source, or a comparison's right side: the operand. */
#define DART_SOURCE_OPERAND 0

/* What the step before has made. */
#define DART_SOURCE_VALUE 1

/* Register j. */
#define DART_SOURCE_J 2

/* Register k. */
#define DART_SOURCE_K 3

/* A target, or a comparison's left side: register i. */
#define DART_TARGET_I 0

/* Register j. */
#define DART_TARGET_J 1

/* Field: the comparison. */
#define DART_COMPARE_SHIFT 24

/* There is none. */
#define DART_COMPARE_NONE 0

/* The left side is the right. */
#define DART_COMPARE_EQUAL 1

/* It is not. */
#define DART_COMPARE_UNEQUAL 2

/* It is less, unsigned. */
#define DART_COMPARE_LESS 3

/* It is not more, unsigned. */
#define DART_COMPARE_NOT_MORE 4

/* It is less, signed. */
#define DART_COMPARE_SIGNED_LESS 5

/* It is not more, signed. */
#define DART_COMPARE_SIGNED_NOT_MORE 6

/* It holds. There are no sides. */
#define DART_COMPARE_ALWAYS 7

/* Field: the comparison's left side, DART_TARGET_*. */
#define DART_LEFT_SHIFT 27

/* Field: its right side, DART_SOURCE_*. */
#define DART_RIGHT_SHIFT 28

/* If the comparison holds the message is refused, and there is no event. */
#define DART_REFUSE 0x40000000

/*
 * The FIFO: what the driver is to look after.
 *
 * The card writes records to a ring in the driver's memory and raises DART_VECTOR_FIFO for the
 * first. When the driver has taken what is there it says so in DART_REG_FIFO_TAKEN, and the vector
 * is raised again if there is more by then. What has a record that is not taken yet gets no second
 * one.
 */

/* The most records of the FIFO. */
#define DART_MAX_FIFO 131072

/* Bytes of a record. */
#define DART_FIFO_SIZE 8

/* In dart_fifo_record.what, with a connection: it waits for pages (DART_COMMAND_READ_MISSES). */
#define DART_FIFO_MISSES 0x00000000

/* In dart_fifo_record.what, with a queue: it has records for who sleeps, or is an immediate one. */
#define DART_FIFO_QUEUE 0x40000000

/*
 * In dart_fifo_record.what, with a connection of the operating system's: messages have been
 * executed. With any other: it had an exception that no queue takes (DART_STATE_EXCEPTIONS).
 */
#define DART_FIFO_ARRIVED 0xc0000000

/*
 * In dart_fifo_record.what, with a connection: messages have left for who sleeps until they have,
 * or it is broken.
 */
#define DART_FIFO_LEFT 0x80000000

/* Something has happened. The n-th record, from 0, is at n modulo the ring's size. */
struct dart_fifo_record {
	/* DART_FIFO_*, and a number. */
	__u32 what;
	/* n + 1, modulo 2^32. The card writes it last. */
	__u32 number;
};

/* Who the DART card is. */

/* PCI device id of the DART card. */
#define DART_PCI_DEVICE 0x4454

/* Value of HAMLYN_REG_MODEL for the DART card. */
#define DART_MODEL 4

/* Value of HAMLYN_REG_ABI_VERSION for the DART card. */
#define DART_ABI_VERSION 0x00010000

/*
 * Queues of what a host is told of (sections 1 and 2): a ring in its owner's memory, of which there
 * can be any number.
 *
 * The record of an exception carries all of its message's data. data has the first 32 bytes if
 * there are more; the rest of length bytes is in dart_parts, which take the places of the next
 * records. A queue of 2,048 records has room for any message.
 *
 * The owner takes records, and stores how many to DART_QUEUE_TAKEN. If a queue is full, messages
 * that have something for it wait, and are looked at again within 1 ms.
 */

/*
 * In the queue's first page, u32, stored by the owner: how many records he has taken, modulo 2^32.
 */
#define DART_QUEUE_TAKEN 0x000

/* Bytes before the records. */
#define DART_QUEUE_HEAD 4096

/* The fewest records of a queue. */
#define DART_MIN_RECORDS 16

/* The most records of a queue. */
#define DART_MAX_RECORDS 65536

/* Bytes of a record. */
#define DART_RECORD_SIZE 64

/* A message's comparison held; it has been executed. */
#define DART_RECORD_COMPARED 1

/* A software exception: the software is to do what the message says. */
#define DART_RECORD_EXCEPTION 2

/* A message was not executed: this and a DART_TRAP_*. */
#define DART_RECORD_TRAP 16

/*
 * In the kind of an exception: the queue has fewer records than the rest of the message's data
 * takes, which is lost.
 */
#define DART_RECORD_CUT 0x100

/* Bytes of a message's data in each dart_part. */
#define DART_PART 60

/* What a message has to tell. The n-th record, from 0, is at n modulo the queue's size. */
struct dart_record {
	/* The message's control. */
	struct dart_control control;
	/* The data of its first cell. */
	__u64 data[4];
	/*
	 * Bytes of data of a message of several blocks, of which data has the first if there are
	 * more than 32; else 0.
	 */
	__u32 length;
	/* Whose message it is. */
	__u32 connection;
	/* DART_RECORD_*. */
	__u32 kind;
	/* n + 1, modulo 2^32. The card writes it last. */
	__u32 number;
};

/* Data of the exception whose record is before it. */
struct dart_part {
	/* The data, and zeros behind its end. */
	__u8 data[60];
	/* As that of a record in its place. */
	__u32 number;
};

/* Registers of the DART card, in BAR 0, beside those that all cards have. */

/* RO. How many connections there can be. */
#define DART_REG_CONNECTIONS 0x100

/* RO. How many endpoints there can be. */
#define DART_REG_ENDPOINTS 0x104

/* RO. How many address registers there are. */
#define DART_REG_REGISTERS 0x108

/* RO. How many entries all programs together can have. */
#define DART_REG_PROGRAM 0x10c

/* RO. How many queues there can be. */
#define DART_REG_QUEUES 0x110

/* RO. How many translations the TLB has. */
#define DART_REG_TLB 0x114

/* RO. How many cells a connection may have on their way. */
#define DART_REG_WINDOW 0x118

/* WO. How many records of the FIFO the driver has taken, modulo 2^32 (fifo). */
#define DART_REG_FIFO_TAKEN 0x120

/*
 * WO, 8 bytes. Somebody sleeps on a queue: its number in the lower half, and in the upper how many
 * records they have taken, modulo 2^32. If there are more, or as soon as there are, the queue is
 * put into the FIFO, once.
 */
#define DART_REG_ARM 0x128

/*
 * WO, 8 bytes. Somebody sleeps until messages of a connection have left: its number in the lower
 * half, and in the upper how many have, as they know. If it is another number, or as soon as it is,
 * the connection is put into the FIFO, once.
 */
#define DART_REG_ARM_LEFT 0x130

/* WO, 8 bytes. Which address space the next three are about; each keeps what was stored. */
#define DART_REG_TLB_SPACE 0x140

/* WO, 8 bytes. Virtual address of a page. */
#define DART_REG_TLB_PAGE 0x148

/* WO, 8 bytes. Storing it says where that page is on the bus, and DART_FRAME_*. */
#define DART_REG_TLB_FILL 0x150

/*
 * RW, 8 bytes. Storing it takes the translations of so many pages back, from that page on. When a
 * load, which answers 0, is answered nothing is reached by them any more.
 */
#define DART_REG_TLB_INVALIDATE 0x158

/*
 * In DART_REG_TLB_FILL: it may be written to; with DART_FRAME_NONE, it may not, and perhaps be
 * read.
 */
#define DART_FRAME_WRITABLE 1ULL

/* In DART_REG_TLB_FILL: there is no such page. */
#define DART_FRAME_NONE 2ULL

/* MSI-X vector that says that there are new records in the FIFO. */
#define DART_VECTOR_FIFO 1

/*
 * The DART card's counters. They are 64 bits wide, count from the card's start or reset, and stand
 * in the order of dart_statistic.
 */

/* How many counters there are. */
#define DART_STATISTICS 27

/*
 * Why a message was not executed, in the order in which it is looked for. It has changed nothing.
 */

/* The card has no such operation: it is the software's. */
#define DART_TRAP_UNIMPLEMENTED 1

/* A register that it uses is not in the connection's window. */
#define DART_TRAP_INDEX 2

/* Its comparison holds, and it said that it is refused then. */
#define DART_TRAP_REFUSED 3

/* The connection may not write to the endpoint, or read from it. */
#define DART_TRAP_RIGHT 4

/* The address is no multiple of 4. */
#define DART_TRAP_MISALIGNED 5

/* A word is not inside the endpoint. */
#define DART_TRAP_BOUNDS 6

/* There is no memory, or it cannot be written to. */
#define DART_TRAP_NO_MEMORY 7

/*
 * What the drivers of two hosts say to each other about connections, in messages of the card's own
 * (HAMLYN_WIRE_CARD): reason says what it is, from is the sender's connection and to the
 * receiver's.
 *
 * All messages of operating systems go by the connections below DART_FIRST_CONNECTION, each with
 * the host of its number, as [records](crate::kernel::wire::HamlynRecord) that a WRITE_MULTIPLE
 * puts into the sender's page of the receiver's endpoint DART_SYSTEM_ENDPOINT.
 */

/*
 * Connections of processes begin here: those below are the operating systems', each with the host
 * of its number.
 */
#define DART_FIRST_CONNECTION 64

/*
 * The number of the endpoint for operating systems' messages: a page for each host, and what is
 * behind them is the sender's.
 */
#define DART_SYSTEM_ENDPOINT 0

/* The key of operating systems' connections, which is no secret. */
#define DART_SYSTEM_KEY 0x5452414453595354ULL

/* Connection from, the other end of to, is no more. Behind it: the key of to, 8 bytes. */
#define DART_SAY_GONE 1

#endif /* _DART_CARD_H */
