/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Message-passing primitives of section 5.2 of the SHRIMP paper, for programs in C: single and
 * double buffering, deliberate update, csend and crecv. The memory layout is that of the library's
 * module hamlyn::shrimp::primitives, so either end may be a program in C or in Rust. The module's
 * documentation describes when to use which primitive.
 *
 * A primitive consists of plain loads and stores in the program itself. Only a wait calls the
 * library. The other end is not trusted: a flag or length that it stores is loaded once, and
 * checked.
 *
 * Functions return 0, or the value that their comment describes, or a negative errno:
 * -ETIMEDOUT                  the wait has timed out
 * -EPROTO                     the other end has stored an invalid value
 * -EMSGSIZE                   the message does not fit
 * -ECONNRESET or -EHOSTDOWN   the other end is gone
 *
 * This header is for x86-64, where stores become visible in program order.
 */

#ifndef SHRIMP_PRIMITIVES_H
#define SHRIMP_PRIMITIVES_H

#include <errno.h>
#include <sched.h>
#include <string.h>
#include "shrimp.h"

/* A function off the fast path. */
#define SHRIMP_SLOW static __attribute__((noinline, cold, unused))

/* A function on the fast path: inlined into the program's own code. */
#define SHRIMP_FAST static inline __attribute__((always_inline))

/* Compiler barrier: the compiler moves neither loads nor stores across it. */
#define SHRIMP_IN_ORDER() __asm__ volatile("" ::: "memory")

/* Copies bytes, 8 at a time, in ascending order. */
SHRIMP_FAST void shrimp_copy(void *to, const void *from, size_t length)
{
	size_t words = length / 8, left = length % 8;

	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
}

/*
 * One end of a channel: a receive buffer, and a send buffer. The send buffer is mapped for
 * automatic update to the other end's receive buffer, starting at its byte 0.
 */
struct shrimp_end {
	unsigned char *own, *out;
	size_t own_length, out_length;
	const struct shrimp_receive_buffer *own_buffer;
	const struct shrimp_send_buffer *out_buffer;
	int timeout_ms;
};

/* Interval at which a wait checks that the other end is still there, in milliseconds. */
#define SHRIMP_LIFE_MS 100

/*
 * Returns the monotonic clock in milliseconds. Makes the system call of clock_gettime(2) directly,
 * because some of the standards that a program may be compiled by do not declare the function.
 */
SHRIMP_SLOW int64_t shrimp_now_ms(void)
{
	struct { int64_t seconds, nanoseconds; } now = {0, 0};
	long outcome;

	__asm__ volatile("syscall" : "=a"(outcome) : "0"(228L), "D"(1L), "S"(&now) : "rcx", "r11", "memory");
	return now.seconds * 1000 + now.nanoseconds / 1000000;
}

/* Returns the deadline of a wait of timeout_ms that begins now; a negative one never expires. */
SHRIMP_SLOW int64_t shrimp_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? INT64_MAX : shrimp_now_ms() + timeout_ms;
}

/* Returns the milliseconds until a deadline, from 0 to limit_ms. */
SHRIMP_SLOW int shrimp_left_ms(int64_t deadline, int limit_ms)
{
	int64_t left = deadline - shrimp_now_ms();

	return left > limit_ms ? limit_ms : left < 0 ? 0 : (int)left;
}

/*
 * Initializes an end from two buffers, which must outlive it. A primitive that waits longer than
 * timeout_ms for the other end fails with -ETIMEDOUT; -1 means no limit. For a long message of
 * shrimp_nx, the timeout applies to each 2,048 bytes.
 *
 * Fails with -EINVAL if the send buffer is mapped for deliberate update, or if either buffer does
 * not begin at a page boundary.
 */
SHRIMP_SLOW int shrimp_end_init(struct shrimp_end *end, const struct shrimp_receive_buffer *own,
				const struct shrimp_send_buffer *out, int timeout_ms)
{
	struct shrimp_handle handle;
	struct shrimp_handle_info info;
	struct shrimp_memory memory;
	int outcome = shrimp_receive_buffer_handle(own, &handle);

	if (outcome >= 0)
		outcome = shrimp_handle_get_info(&handle, &info);
	if (outcome >= 0)
		outcome = shrimp_get_memory(out, &memory);
	if (outcome < 0)
		return outcome;
	if (memory.mode == SHRIMP_MODE_DELIBERATE || (uintptr_t)memory.stores % 4096 || info.place)
		return -EINVAL;
	end->own = (unsigned char *)shrimp_receive_buffer_data(own);
	end->own_length = info.length;
	end->out = (unsigned char *)memory.stores;
	end->out_length = memory.length;
	end->own_buffer = own;
	end->out_buffer = out;
	end->timeout_ms = timeout_ms;
	return 0;
}

/* Fails if the other end is gone. */
SHRIMP_SLOW int shrimp_end_check(const struct shrimp_send_buffer *out)
{
	switch (shrimp_state(out)) {
	case SHRIMP_STATE_MAPPED:
		return 0;
	case SHRIMP_STATE_LOST:
		return -EHOSTDOWN;
	default:
		return -ECONNRESET;
	}
}

/*
 * Waits at most limit_ms until the word at `offset` of the end's own memory differs from `value`.
 * Returns 1 if it differs, or 0 after limit_ms. Fails if the other end is gone.
 */
SHRIMP_SLOW int shrimp_end_changes(const struct shrimp_end *end, size_t offset, uint32_t value, int limit_ms)
{
	uint32_t now;
	int outcome = shrimp_wait(end->own_buffer, offset, value, &now, limit_ms);

	if (outcome != -ETIMEDOUT && outcome != -EAGAIN)
		return outcome < 0 ? outcome : 1;
	outcome = shrimp_end_check(end->out_buffer);
	if (outcome >= 0)
		return 0;
	/*
	 * The other end may have stored something after the last look, before it was lost. Its
	 * stores arrive before its loss is known.
	 */
	return __atomic_load_n((const uint32_t *)(const void *)(end->own + offset), __ATOMIC_ACQUIRE) != value ? 1 : outcome;
}

/*
 * Blocks until the word at `offset` differs from `value`. Fails with -ETIMEDOUT if the deadline has
 * passed, without a look at the word: the caller has looked before. So a loop of looks and waits
 * ends even if the other end changes the word all the time.
 */
SHRIMP_SLOW int shrimp_end_wait(const struct shrimp_end *end, size_t offset, uint32_t value, int64_t deadline)
{
	int left, outcome;

	while ((left = shrimp_left_ms(deadline, SHRIMP_LIFE_MS)) > 0) {
		outcome = shrimp_end_changes(end, offset, value, left);
		if (outcome)
			return outcome < 0 ? outcome : 0;
	}
	return -ETIMEDOUT;
}

/*
 * Single buffering (Figure 5). A message has 1 to `capacity` bytes.
 */
struct shrimp_single {
	uint32_t *own, *out;
	unsigned char *data;
	uint32_t capacity;
	const struct shrimp_end *end;
};

/* Offset of a message, and value of the flag while the buffer is free. */
#define SHRIMP_SINGLE_DATA 64
#define SHRIMP_SINGLE_FREE UINT32_C(0x80000000)

SHRIMP_FAST int shrimp_single_init(struct shrimp_single *single, const struct shrimp_end *end, unsigned char *data, size_t length)
{
	uint32_t never = 0;

	if (end->own_length < SHRIMP_SINGLE_DATA || end->out_length < SHRIMP_SINGLE_DATA)
		return -EINVAL;
	single->own = (uint32_t *)(void *)end->own;
	single->out = (uint32_t *)(void *)end->out;
	single->data = data + SHRIMP_SINGLE_DATA;
	single->capacity = (uint32_t)(length - SHRIMP_SINGLE_DATA) & ~7u;
	single->end = end;
	/* Keep a value that the other end may have sent already. */
	__atomic_compare_exchange_n(single->own, &never, SHRIMP_SINGLE_FREE, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return 0;
}

/* Initializes the sending side. The program stores messages at `data`. */
SHRIMP_FAST int shrimp_single_sender(struct shrimp_single *single, const struct shrimp_end *end)
{
	return shrimp_single_init(single, end, end->out, end->out_length);
}

/* Initializes the receiving side. The program finds messages at `data`. */
SHRIMP_FAST int shrimp_single_receiver(struct shrimp_single *single, const struct shrimp_end *end)
{
	return shrimp_single_init(single, end, end->own, end->own_length);
}

SHRIMP_FAST void shrimp_single_flag(const struct shrimp_single *single, uint32_t value)
{
	SHRIMP_IN_ORDER();
	*single->own = value;
	SHRIMP_IN_ORDER();
	*single->out = value;
	SHRIMP_IN_ORDER();
}

SHRIMP_SLOW int shrimp_single_until_free(const uint32_t *flag, uint32_t capacity, const struct shrimp_end *end)
{
	int64_t deadline = shrimp_deadline(end->timeout_ms);
	uint32_t length;
	int outcome;

	while ((length = __atomic_load_n(flag, __ATOMIC_ACQUIRE)) != SHRIMP_SINGLE_FREE) {
		if (length > capacity)
			return -EPROTO;
		outcome = shrimp_end_wait(end, 0, length, deadline);
		if (outcome < 0)
			return outcome;
	}
	return 0;
}

SHRIMP_SLOW int64_t shrimp_single_until_full(const uint32_t *flag, uint32_t capacity, const struct shrimp_end *end)
{
	int64_t deadline = shrimp_deadline(end->timeout_ms);
	uint32_t length;
	int outcome;

	while ((length = __atomic_load_n(flag, __ATOMIC_ACQUIRE)) == SHRIMP_SINGLE_FREE) {
		outcome = shrimp_end_wait(end, 0, SHRIMP_SINGLE_FREE, deadline);
		if (outcome < 0)
			return outcome;
	}
	return length > capacity ? -EPROTO : (int64_t)length;
}

/* Sender: blocks until the buffer is free. */
SHRIMP_FAST int shrimp_single_wait_free(const struct shrimp_single *single)
{
	SHRIMP_IN_ORDER();
	if (__builtin_expect(*single->own != SHRIMP_SINGLE_FREE, 0))
		return shrimp_single_until_free(single->own, single->capacity, single->end);
	SHRIMP_IN_ORDER();
	return 0;
}

/* Sender: notifies the receiver of a message of `length` bytes, 1 to `capacity`. */
SHRIMP_FAST void shrimp_single_send(const struct shrimp_single *single, uint32_t length)
{
	shrimp_single_flag(single, length);
}

/* Receiver: blocks until a message arrives, and returns its length in bytes. */
SHRIMP_FAST int64_t shrimp_single_wait(const struct shrimp_single *single)
{
	uint32_t length;

	SHRIMP_IN_ORDER();
	length = *(const volatile uint32_t *)single->own;
	if (__builtin_expect(length > single->capacity, 0))
		return shrimp_single_until_full(single->own, single->capacity, single->end);
	SHRIMP_IN_ORDER();
	return length;
}

/* Receiver: frees the buffer. */
SHRIMP_FAST void shrimp_single_release(const struct shrimp_single *single)
{
	shrimp_single_flag(single, SHRIMP_SINGLE_FREE);
}

/*
 * Single buffering with copy: blocks until a message arrives, copies it, and frees the buffer.
 * Returns the length of the message in bytes. A message that does not fit in `room` is kept.
 */
SHRIMP_FAST int64_t shrimp_single_receive(const struct shrimp_single *single, void *to, size_t room)
{
	int64_t length = shrimp_single_wait(single);

	if (__builtin_expect(length < 0, 0))
		return length;
	if (__builtin_expect((uint64_t)length > room, 0))
		return -EMSGSIZE;
	shrimp_copy(to, single->data, (size_t)length);
	shrimp_single_release(single);
	return length;
}

/*
 * Double buffering (Figure 6): two halves, which are used in turn. The program's loop determines
 * the case:
 *
 * Case 1: both sides swap, with a barrier of the program in between.
 * Case 2: the sender announces. The receiver waits and takes. A barrier shows that a half is free.
 * Case 3: the sender waits until a half is free, stores, and sends. The receiver waits and
 *   releases.
 */
struct shrimp_double {
	unsigned char *own, *out;
	size_t at, stride;
	const struct shrimp_end *end;
};

#define SHRIMP_DOUBLE_DATA 64

/* Initializes either side for messages of `bytes` bytes each, at most 2 MiB. */
SHRIMP_FAST int shrimp_double_init(struct shrimp_double *halves, const struct shrimp_end *end, size_t bytes)
{
	size_t stride = 2 * SHRIMP_DOUBLE_DATA;

	if (bytes > (size_t)2 << 20)
		return -EINVAL;
	while (stride < bytes + SHRIMP_DOUBLE_DATA)
		stride *= 2;
	if (2 * stride > end->own_length || 2 * stride > end->out_length)
		return -EINVAL;
	halves->own = end->own;
	halves->out = end->out;
	halves->at = 0;
	halves->stride = stride;
	halves->end = end;
	return 0;
}

/* Returns the address where the sender stores the next message. */
SHRIMP_FAST unsigned char *shrimp_double_to(const struct shrimp_double *halves)
{
	return halves->out + halves->at + SHRIMP_DOUBLE_DATA;
}

/* Returns the address where the receiver finds the next message. */
SHRIMP_FAST const unsigned char *shrimp_double_from(const struct shrimp_double *halves)
{
	return halves->own + halves->at + SHRIMP_DOUBLE_DATA;
}

SHRIMP_FAST void shrimp_double_flag(unsigned char *half, uint32_t value)
{
	SHRIMP_IN_ORDER();
	*(uint32_t *)(void *)half = value;
	SHRIMP_IN_ORDER();
}

SHRIMP_SLOW int shrimp_double_until(const struct shrimp_end *end, size_t at, int is_full)
{
	const uint32_t *flag = (const uint32_t *)(const void *)(end->own + at);
	int64_t deadline = shrimp_deadline(end->timeout_ms);
	uint32_t value;
	int outcome;

	while (((value = __atomic_load_n(flag, __ATOMIC_ACQUIRE)) != 0) != is_full) {
		outcome = shrimp_end_wait(end, at, value, deadline);
		if (outcome < 0)
			return outcome;
	}
	return 0;
}

/* Continues with the other half. */
SHRIMP_FAST void shrimp_double_swap(struct shrimp_double *halves)
{
	halves->at ^= halves->stride;
}

/* Case 2: notifies the receiver of the message, and continues with the other half. */
SHRIMP_FAST void shrimp_double_announce(struct shrimp_double *halves)
{
	shrimp_double_flag(halves->out + halves->at, 1);
	shrimp_double_swap(halves);
}

/*
 * Case 3, before the half is used: blocks until the receiver has finished with the half's previous
 * message.
 */
SHRIMP_FAST int shrimp_double_wait_free(const struct shrimp_double *halves)
{
	SHRIMP_IN_ORDER();
	if (__builtin_expect(*(const uint32_t *)(const void *)(halves->own + halves->at) != 0, 0))
		return shrimp_double_until(halves->end, halves->at, 0);
	SHRIMP_IN_ORDER();
	return 0;
}

/* Case 3: notifies the receiver of the message, and continues with the other half. */
SHRIMP_FAST void shrimp_double_send(struct shrimp_double *halves)
{
	shrimp_double_flag(halves->own + halves->at, 1);
	shrimp_double_announce(halves);
}

/* Cases 2 and 3: blocks until the message has arrived. */
SHRIMP_FAST int shrimp_double_wait(const struct shrimp_double *halves)
{
	SHRIMP_IN_ORDER();
	if (__builtin_expect(*(const uint32_t *)(const void *)(halves->own + halves->at) == 0, 0))
		return shrimp_double_until(halves->end, halves->at, 1);
	SHRIMP_IN_ORDER();
	return 0;
}

/* Case 2: finishes with the message, and continues with the other half. */
SHRIMP_FAST void shrimp_double_take(struct shrimp_double *halves)
{
	shrimp_double_flag(halves->own + halves->at, 0);
	shrimp_double_swap(halves);
}

/* Case 3: finishes with the message, notifies the sender, and continues with the other half. */
SHRIMP_FAST void shrimp_double_release(struct shrimp_double *halves)
{
	shrimp_double_flag(halves->own + halves->at, 0);
	shrimp_double_flag(halves->out + halves->at, 0);
	shrimp_double_swap(halves);
}

/*
 * Deliberate-update transfer (section 4.3) of blocks of 4-byte words. Nothing else may send from
 * this buffer in the meantime.
 */
struct shrimp_update {
	uint32_t *commands, *last;
	size_t words;
	const struct shrimp_send_buffer *buffer;
};

/*
 * Initializes transfers from a buffer that is mapped for deliberate update, and begins at a page
 * boundary.
 */
SHRIMP_FAST int shrimp_update_init(struct shrimp_update *update, const struct shrimp_send_buffer *buffer)
{
	struct shrimp_memory memory;
	int outcome = shrimp_get_memory(buffer, &memory);

	if (outcome < 0)
		return outcome;
	if ((uintptr_t)memory.commands % 4096)
		return -EINVAL;
	update->commands = update->last = (uint32_t *)memory.commands;
	update->words = memory.length / 4;
	update->buffer = buffer;
	return 0;
}

/* Sends a block through the library: one that crosses pages, or for which the engine was busy. */
SHRIMP_SLOW int shrimp_update_pages(const struct shrimp_send_buffer *buffer, size_t first, uint32_t words)
{
	return first > SIZE_MAX / 8 ? -EINVAL : shrimp_send(buffer, 4 * first, (size_t)4 * words);
}

/*
 * Sends a block of `words` words, at least one, starting at word `first`. Returns when the last
 * page's transfer has begun.
 */
SHRIMP_FAST int shrimp_update_send(struct shrimp_update *update, size_t first, uint32_t words)
{
	size_t last = first + words - 1;
	uint32_t found = 0;
	int outcome;

	if (__builtin_expect(last < update->words && (first ^ last) < 1024, 1)) {
		update->last = update->commands + first;
		if (__builtin_expect(__atomic_compare_exchange_n(update->last, &found, words, 0, __ATOMIC_ACQ_REL,
								 __ATOMIC_ACQUIRE), 1))
			return 0;
	}
	outcome = shrimp_update_pages(update->buffer, first, words);
	if (outcome < 0)
		return outcome;
	update->last = update->commands + ((last ^ first) < 1024 ? first : last & ~(size_t)1023);
	return 0;
}

/*
 * Returns 1 if the card has read the last block that was sent, or 0 if its engine is busy, maybe
 * with another transfer.
 */
SHRIMP_FAST int shrimp_update_is_done(const struct shrimp_update *update)
{
	int is_done;

	SHRIMP_IN_ORDER();
	is_done = *update->last == 0;
	if (is_done)
		SHRIMP_IN_ORDER();
	return is_done;
}

/* Flags in the value of a command page: a transfer that began there is under way; one waits. */
#define SHRIMP_UPDATE_BASE UINT32_C(0x40000000)
#define SHRIMP_UPDATE_WAITS UINT32_C(0x20000000)

/*
 * Returns 1 if a transfer is done, from the command page's value at the word where it began. The
 * engine may be working on another one.
 */
SHRIMP_SLOW int shrimp_update_has_ended(uint32_t says)
{
	return !(says & (SHRIMP_UPDATE_BASE | SHRIMP_UPDATE_WAITS));
}

SHRIMP_SLOW int shrimp_update_until_done(const uint32_t *command, const struct shrimp_send_buffer *buffer, int timeout_ms)
{
	int64_t deadline = shrimp_deadline(timeout_ms);
	unsigned int looks = 0;
	int outcome;

	while (!shrimp_update_has_ended(__atomic_load_n(command, __ATOMIC_ACQUIRE))) {
		if (shrimp_now_ms() >= deadline)
			return -ETIMEDOUT;
		if (++looks % 1000 == 0 && (outcome = shrimp_end_check(buffer)) < 0)
			return outcome;
		sched_yield();
	}
	return shrimp_end_check(buffer);
}

/*
 * Blocks for at most timeout_ms until the card has read everything that was sent; -1 means no
 * limit. Transfers of other processes do not matter. Fails if the other end is gone.
 */
SHRIMP_FAST int shrimp_update_wait(const struct shrimp_update *update, int timeout_ms)
{
	return shrimp_update_until_done(update->last, update->buffer, timeout_ms);
}

/*
 * NX/2's csend and crecv: messages of any length, distinguished by types of 16 bits. The library's
 * module nx describes the memory layout. A node's number is its position among the ends.
 */
#define SHRIMP_NX_BUFFERS 16
#define SHRIMP_NX_PIECE 2048
#define SHRIMP_NX_DATA 4096
#define SHRIMP_NX_LENGTH (SHRIMP_NX_DATA + SHRIMP_NX_BUFFERS * SHRIMP_NX_PIECE)
#define SHRIMP_NX_NODES 63
#define SHRIMP_NX_BUSY 128

struct shrimp_nx_peer {
	uint64_t *arrived, *sent;
	uint32_t *busy, *freed;
	unsigned char *from, *to;
	unsigned int taken, filled, next;
	const struct shrimp_end *end;
};

/* A piece that has arrived: the value of its slot, and the node that sent it. */
struct shrimp_nx_piece {
	uint64_t place;
	unsigned int node;
};

struct shrimp_nx {
	struct shrimp_nx_peer peers[SHRIMP_NX_NODES];
	struct shrimp_nx_piece pending[SHRIMP_NX_NODES * SHRIMP_NX_BUFFERS + 1];
	unsigned int nodes, count;
};

/*
 * Initializes a node with an end for each other node. Both buffers of an end must have at least
 * SHRIMP_NX_LENGTH bytes.
 */
SHRIMP_SLOW int shrimp_nx_init(struct shrimp_nx *nx, const struct shrimp_end *ends, unsigned int nodes)
{
	unsigned int node;

	if (!nodes || nodes > SHRIMP_NX_NODES)
		return -EINVAL;
	nx->nodes = nodes;
	nx->count = 0;
	for (node = 0; node < nodes; node++) {
		const struct shrimp_end *end = ends + node;
		struct shrimp_nx_peer *peer = nx->peers + node;

		if (end->own_length < SHRIMP_NX_LENGTH || end->out_length < SHRIMP_NX_LENGTH)
			return -EINVAL;
		peer->arrived = (uint64_t *)(void *)end->own;
		peer->sent = (uint64_t *)(void *)end->out;
		peer->busy = (uint32_t *)(void *)(end->own + SHRIMP_NX_BUSY);
		peer->freed = (uint32_t *)(void *)(end->out + SHRIMP_NX_BUSY);
		peer->from = end->own + SHRIMP_NX_DATA;
		peer->to = end->out + SHRIMP_NX_DATA;
		peer->taken = peer->filled = peer->next = 0;
		peer->end = end;
	}
	return 0;
}

/* Blocks until a buffer is free, and returns its number. */
SHRIMP_SLOW int shrimp_nx_until_free(const struct shrimp_nx_peer *peer)
{
	int64_t deadline = shrimp_deadline(peer->end->timeout_ms);
	unsigned int more;
	uint32_t value;
	int outcome;

	for (;;) {
		for (more = 0; more < SHRIMP_NX_BUFFERS; more++) {
			unsigned int buffer = (peer->next + more) % SHRIMP_NX_BUFFERS;

			if (!__atomic_load_n(peer->busy + buffer, __ATOMIC_ACQUIRE))
				return (int)buffer;
		}
		if (shrimp_now_ms() >= deadline)
			return -ETIMEDOUT;
		value = __atomic_load_n(peer->busy + peer->next, __ATOMIC_ACQUIRE);
		outcome = value ? shrimp_end_changes(peer->end, SHRIMP_NX_BUSY + 4 * peer->next, value, 1) : 0;
		if (outcome < 0)
			return outcome;
	}
}

SHRIMP_FAST int shrimp_nx_send_piece(struct shrimp_nx_peer *peer, uint16_t type, const void *bytes, size_t length, uint32_t left)
{
	unsigned int buffer = peer->next;
	int found;

	if (__builtin_expect(__atomic_load_n(peer->busy + buffer, __ATOMIC_ACQUIRE) != 0, 0)) {
		found = shrimp_nx_until_free(peer);
		if (found < 0)
			return found;
		buffer = (unsigned int)found;
	}
	peer->busy[buffer] = 1;
	shrimp_copy(peer->to + (size_t)buffer * SHRIMP_NX_PIECE, bytes, length);
	/* The other node sees the bytes before it sees this. */
	__atomic_store_n(peer->sent + peer->filled,
			 UINT64_C(1) << 63 | (uint64_t)buffer << 48 | (uint64_t)type << 32 | left, __ATOMIC_RELEASE);
	peer->filled = (peer->filled + 1) % SHRIMP_NX_BUFFERS;
	peer->next = (buffer + 1) % SHRIMP_NX_BUFFERS;
	return 0;
}

SHRIMP_SLOW int shrimp_nx_send_pieces(struct shrimp_nx_peer *peer, uint16_t type, const unsigned char *bytes, size_t length)
{
	size_t piece;
	int outcome = length > UINT32_MAX ? -EMSGSIZE : 0;

	while (length && outcome >= 0) {
		piece = length < SHRIMP_NX_PIECE ? length : SHRIMP_NX_PIECE;
		outcome = shrimp_nx_send_piece(peer, type, bytes, piece, (uint32_t)length);
		bytes += piece;
		length -= piece;
	}
	return outcome;
}

/* Sends a message of this type to a node. Returns when the bytes may be changed. */
SHRIMP_FAST int shrimp_csend(struct shrimp_nx *nx, uint16_t type, const void *bytes, size_t length, unsigned int node)
{
	if (__builtin_expect(node >= nx->nodes, 0))
		return -EINVAL;
	if (__builtin_expect(length > SHRIMP_NX_PIECE, 0))
		return shrimp_nx_send_pieces(nx->peers + node, type, (const unsigned char *)bytes, length);
	return shrimp_nx_send_piece(nx->peers + node, type, bytes, length, (uint32_t)length);
}

SHRIMP_FAST uint16_t shrimp_nx_type(uint64_t place)
{
	return (uint16_t)(place >> 32);
}

/*
 * Takes the piece in a node's next slot, and empties the slot. Returns 1, 0 if the slot was empty,
 * or -EPROTO.
 */
SHRIMP_FAST int shrimp_nx_take(struct shrimp_nx_peer *peer, uint64_t *place)
{
	uint64_t *here = peer->arrived + peer->taken;

	*place = __atomic_load_n(here, __ATOMIC_ACQUIRE);
	if (!*place)
		return 0;
	*here = 0;
	peer->taken = (peer->taken + 1) % SHRIMP_NX_BUFFERS;
	return __builtin_expect(*place >> 52 == 0x800, 1) ? 1 : -EPROTO;
}

/* Copies a piece out, and frees its buffer. */
SHRIMP_FAST void shrimp_nx_read(const struct shrimp_nx_peer *peer, uint64_t place, void *to, size_t length)
{
	unsigned int buffer = place >> 48 & (SHRIMP_NX_BUFFERS - 1);

	shrimp_copy(to, peer->from + (size_t)buffer * SHRIMP_NX_PIECE, length);
	SHRIMP_IN_ORDER();
	peer->freed[buffer] = 0;
	SHRIMP_IN_ORDER();
}

/* Takes all pieces that have arrived. Returns 1 if there were any. */
SHRIMP_SLOW int shrimp_nx_collect(struct shrimp_nx *nx)
{
	unsigned int node, other, same, before = nx->count;
	struct shrimp_nx_piece *pending;
	uint64_t place;
	int found;

	for (node = 0; node < nx->nodes; node++) {
		while ((found = shrimp_nx_take(nx->peers + node, &place)) > 0) {
			for (other = same = 0; other < nx->count; other++)
				same += nx->pending[other].node == node;
			/* A correct sender waits for a free buffer first. */
			if (same == SHRIMP_NX_BUFFERS)
				return -EPROTO;
			pending = nx->pending + nx->count++;
			pending->place = place;
			pending->node = node;
		}
		if (found < 0)
			return found;
	}
	return nx->count > before;
}

/*
 * Waits a short time for the next piece of each node, or only of node `only` if that is a valid
 * number. Sets `gone` to the error of a node that is gone. Fails if all of these nodes are gone.
 */
SHRIMP_SLOW int shrimp_nx_glance(const struct shrimp_nx *nx, unsigned int only, int *gone)
{
	unsigned int node = only < nx->nodes ? only : 0, last = only < nx->nodes ? only : nx->nodes - 1;
	int outcome, is_there = 0;

	for (; node <= last; node++) {
		outcome = shrimp_end_changes(nx->peers[node].end, 8 * nx->peers[node].taken + 4, 0, 1);
		if (outcome < 0)
			*gone = outcome;
		else
			is_there = 1;
	}
	return is_there ? 0 : *gone;
}

/*
 * Blocks until there is a piece of this type, and takes it. The piece is of node `only` if that is
 * a valid number.
 */
SHRIMP_SLOW int shrimp_nx_search(struct shrimp_nx *nx, uint16_t type, unsigned int only, struct shrimp_nx_piece *piece)
{
	int outcome, waits = 0, gone = -ETIMEDOUT;
	int64_t deadline = 0;
	unsigned int at;

	for (;;) {
		for (at = 0; at < nx->count; at++) {
			*piece = nx->pending[at];
			if (shrimp_nx_type(piece->place) == type && (only >= nx->nodes || only == piece->node)) {
				nx->count--;
				memmove(nx->pending + at, nx->pending + at + 1, (nx->count - at) * sizeof(*piece));
				return 0;
			}
		}
		outcome = shrimp_nx_collect(nx);
		if (!outcome) {
			/* Avoids reading the clock if a piece is already there. */
			if (!waits)
				deadline = shrimp_deadline(nx->peers[0].end->timeout_ms);
			waits = 1;
			if (shrimp_now_ms() >= deadline)
				return gone;
			outcome = shrimp_nx_glance(nx, only, &gone);
		}
		if (outcome < 0)
			return outcome;
	}
}

SHRIMP_FAST int shrimp_nx_next(struct shrimp_nx *nx, uint16_t type, unsigned int only, struct shrimp_nx_piece *piece)
{
	int found;

	if (nx->nodes == 1 && !nx->count) {
		found = shrimp_nx_take(nx->peers, &piece->place);
		piece->node = 0;
		if (__builtin_expect(found > 0 && shrimp_nx_type(piece->place) == type, 1))
			return 0;
		if (found < 0)
			return found;
		if (found)
			nx->pending[nx->count++] = *piece;
	}
	return shrimp_nx_search(nx, type, only, piece);
}

/* Puts back the first piece of a message that does not fit. */
SHRIMP_SLOW int64_t shrimp_nx_put_back(struct shrimp_nx *nx, struct shrimp_nx_piece piece)
{
	memmove(nx->pending + 1, nx->pending, nx->count * sizeof(piece));
	nx->pending[0] = piece;
	nx->count++;
	return -EMSGSIZE;
}

SHRIMP_SLOW int64_t shrimp_nx_receive_pieces(struct shrimp_nx *nx, struct shrimp_nx_piece piece, unsigned char *to)
{
	const unsigned int node = piece.node;
	const uint16_t type = shrimp_nx_type(piece.place);
	const uint32_t length = (uint32_t)piece.place;
	uint32_t left = length, part;
	int outcome;

	for (;;) {
		if ((uint32_t)piece.place != left)
			return -EPROTO;
		part = left < SHRIMP_NX_PIECE ? left : SHRIMP_NX_PIECE;
		shrimp_nx_read(nx->peers + node, piece.place, to + (length - left), part);
		left -= part;
		if (!left)
			return length;
		outcome = shrimp_nx_next(nx, type, node, &piece);
		if (outcome < 0)
			return outcome;
	}
}

/*
 * Blocks until a message of this type arrives, copies it, and returns its length in bytes. A
 * message that does not fit in `room` is kept.
 *
 * Reports that a node is gone only when no other node is left that could send, or when the wait has
 * timed out.
 */
SHRIMP_FAST int64_t shrimp_crecv(struct shrimp_nx *nx, uint16_t type, void *to, size_t room)
{
	struct shrimp_nx_piece piece;
	int outcome = shrimp_nx_next(nx, type, SHRIMP_NX_NODES, &piece);
	uint32_t length;

	if (__builtin_expect(outcome < 0, 0))
		return outcome;
	length = (uint32_t)piece.place;
	if (__builtin_expect(length > room, 0))
		return shrimp_nx_put_back(nx, piece);
	if (__builtin_expect(length > SHRIMP_NX_PIECE, 0))
		return shrimp_nx_receive_pieces(nx, piece, (unsigned char *)to);
	shrimp_nx_read(nx->peers + piece.node, piece.place, to, length);
	return length;
}

#endif /* SHRIMP_PRIMITIVES_H */
