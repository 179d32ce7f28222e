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

/* Main operation: what the receiver's program says at the place that the operand names. There are no other fields. */
#define DART_MAIN_CALL 6

/* Main operation: a software exception. The other fields are the software's. */
#define DART_MAIN_EXCEPTION 7

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

/* Field: the first register operation, of 7 bits: which it is, DART_SOURCE_* from bit 4, DART_TARGET_* in bit 6. */
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

/* Why a message was not executed, in the order in which it is looked for. It has changed nothing. */

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

#endif /* _DART_CARD_H */
