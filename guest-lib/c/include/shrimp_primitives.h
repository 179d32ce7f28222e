/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The message-passing primitives of section 5.2 of the SHRIMP paper, for programs in C: single and double buffering, deliberate update,
 * csend and crecv. Memory is laid out as by the library's module hamlyn::shrimp::primitives, whose pages say when to use which: so
 * either end may be a program in C or in Rust.
 *
 * A primitive is plain loads and stores in the program itself; only who has to wait makes a call. Whoever is at the other end is not
 * trusted: what it stores as a flag or a length is loaded once, and checked. Calls return 0 or what they say, or -errno: -ETIMEDOUT,
 * -EPROTO for nonsense of the other end's, -EMSGSIZE for what does not fit, -ECONNRESET or -EHOSTDOWN if the other end is gone.
 *
 * This header is for x86-64, whose stores others see in the order of the program.
 */

#ifndef SHRIMP_PRIMITIVES_H
#define SHRIMP_PRIMITIVES_H

#include <errno.h>
#include <sched.h>
#include <string.h>
#include "shrimp.h"

/* Off the fast path. */
#define SHRIMP_SLOW static __attribute__((noinline, cold, unused))

/* On it: part of the program's own code. */
#define SHRIMP_FAST static inline __attribute__((always_inline))

/* Neither loads nor stores are moved over it by the compiler. */
#define SHRIMP_IN_ORDER() __asm__ volatile("" ::: "memory")

/* Copies bytes, 8 at a time, in rising order. */
SHRIMP_FAST void shrimp_copy(void *to, const void *from, size_t length)
{
	size_t words = length / 8, left = length % 8;

	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
}

/*
 * One end of a channel: a receive buffer, and a send buffer that is mapped for automatic update to the other's, from its byte 0 on.
 */
struct shrimp_end {
	unsigned char *own, *out;
	size_t own_length, out_length;
	const struct shrimp_receive_buffer *own_buffer;
	const struct shrimp_send_buffer *out_buffer;
	int timeout_ms;
};

/* How often who waits asks whether the other end still is there. */
#define SHRIMP_LIFE_MS 100

/* Milliseconds of the monotonic clock: clock_gettime(2), which not every standard that a program is compiled by declares. */
SHRIMP_SLOW int64_t shrimp_now_ms(void)
{
	struct { int64_t seconds, nanoseconds; } now = {0, 0};
	long outcome;

	__asm__ volatile("syscall" : "=a"(outcome) : "0"(228L), "D"(1L), "S"(&now) : "rcx", "r11", "memory");
	return now.seconds * 1000 + now.nanoseconds / 1000000;
}

/* The end of a wait of timeout_ms that begins now; a negative one has no end. */
SHRIMP_SLOW int64_t shrimp_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? INT64_MAX : shrimp_now_ms() + timeout_ms;
}

/* Milliseconds until a deadline, 0 to limit_ms. */
SHRIMP_SLOW int shrimp_left_ms(int64_t deadline, int limit_ms)
{
	int64_t left = deadline - shrimp_now_ms();

	return left > limit_ms ? limit_ms : left < 0 ? 0 : (int)left;
}

/*
 * Makes an end of two buffers, which must outlive it. A primitive that waits longer than timeout_ms for the other end fails with
 * -ETIMEDOUT; -1 is no limit. Each 2,048 bytes of a long message of shrimp_nx may take so long. -EINVAL: the send buffer is mapped for deliberate update, or either buffer does
 * not begin where a page does.
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

/* Returns 1 when the word of the own memory is another than `value`, and 0 after so long. Fails if the other end is gone. */
SHRIMP_SLOW int shrimp_end_changes(const struct shrimp_end *end, size_t offset, uint32_t value, int limit_ms)
{
	uint32_t now;
	int outcome = shrimp_wait(end->own_buffer, offset, value, &now, limit_ms);

	if (outcome != -ETIMEDOUT && outcome != -EAGAIN)
		return outcome < 0 ? outcome : 1;
	outcome = shrimp_end_check(end->out_buffer);
	if (outcome >= 0)
		return 0;
	/* Who is gone may have stored something since that look, and it is here before he is known to be gone. */
	return __atomic_load_n((const uint32_t *)(const void *)(end->own + offset), __ATOMIC_ACQUIRE) != value ? 1 : outcome;
}

/*
 * Returns when it is another. The caller has looked before: -ETIMEDOUT if the deadline is over. So a loop of looks and waits ends, also
 * if the other end changes the word all the time.
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

/* Where a message begins, and the flag's value while the buffer is free. */
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
	/* What the other may have sent already stays. */
	__atomic_compare_exchange_n(single->own, &never, SHRIMP_SINGLE_FREE, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return 0;
}

/* Who sends: messages are stored at `data`. */
SHRIMP_FAST int shrimp_single_sender(struct shrimp_single *single, const struct shrimp_end *end)
{
	return shrimp_single_init(single, end, end->out, end->out_length);
}

/* Who receives: messages are found at `data`. */
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

/* The sender: waits until the buffer is free. */
SHRIMP_FAST int shrimp_single_wait_free(const struct shrimp_single *single)
{
	SHRIMP_IN_ORDER();
	if (__builtin_expect(*single->own != SHRIMP_SINGLE_FREE, 0))
		return shrimp_single_until_free(single->own, single->capacity, single->end);
	SHRIMP_IN_ORDER();
	return 0;
}

/* The sender: tells the receiver that a message of so many bytes, 1 to `capacity`, is in the buffer. */
SHRIMP_FAST void shrimp_single_send(const struct shrimp_single *single, uint32_t length)
{
	shrimp_single_flag(single, length);
}

/* The receiver: waits for a message, and returns how many bytes it has. */
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

/* The receiver: gives the buffer back. */
SHRIMP_FAST void shrimp_single_release(const struct shrimp_single *single)
{
	shrimp_single_flag(single, SHRIMP_SINGLE_FREE);
}

/* Single buffering with copy: returns how many bytes the message has. One that does not fit in `room` stays. */
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
 * Double buffering (Figure 6): two halves, which are used in turn. In case 1 both sides swap, and a barrier of the program's is
 * between; in case 2 the sender announces, and the receiver waits and takes, and a barrier says that a half is free; in case 3 the
 * sender waits until it is free, stores, and sends, and the receiver waits and releases.
 */
struct shrimp_double {
	unsigned char *own, *out;
	size_t at, stride;
	const struct shrimp_end *end;
};

#define SHRIMP_DOUBLE_DATA 64

/* For messages of so many bytes each, on either side: up to 2 MiB. */
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

/* Where the sender stores the next message, and where the receiver finds it. */
SHRIMP_FAST unsigned char *shrimp_double_to(const struct shrimp_double *halves)
{
	return halves->out + halves->at + SHRIMP_DOUBLE_DATA;
}

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

/* Goes on with the other half. */
SHRIMP_FAST void shrimp_double_swap(struct shrimp_double *halves)
{
	halves->at ^= halves->stride;
}

/* Case 2: tells that the message is there, and goes on with the other half. */
SHRIMP_FAST void shrimp_double_announce(struct shrimp_double *halves)
{
	shrimp_double_flag(halves->out + halves->at, 1);
	shrimp_double_swap(halves);
}

/* Case 3, before the half is used: waits until the receiver is done with what was in it. */
SHRIMP_FAST int shrimp_double_wait_free(const struct shrimp_double *halves)
{
	SHRIMP_IN_ORDER();
	if (__builtin_expect(*(const uint32_t *)(const void *)(halves->own + halves->at) != 0, 0))
		return shrimp_double_until(halves->end, halves->at, 0);
	SHRIMP_IN_ORDER();
	return 0;
}

/* Case 3: tells that the message is there, and goes on with the other half. */
SHRIMP_FAST void shrimp_double_send(struct shrimp_double *halves)
{
	shrimp_double_flag(halves->own + halves->at, 1);
	shrimp_double_announce(halves);
}

/* Cases 2 and 3: waits until the message is there. */
SHRIMP_FAST int shrimp_double_wait(const struct shrimp_double *halves)
{
	SHRIMP_IN_ORDER();
	if (__builtin_expect(*(const uint32_t *)(const void *)(halves->own + halves->at) == 0, 0))
		return shrimp_double_until(halves->end, halves->at, 1);
	SHRIMP_IN_ORDER();
	return 0;
}

/* Case 2: is done with the message, and goes on with the other half. */
SHRIMP_FAST void shrimp_double_take(struct shrimp_double *halves)
{
	shrimp_double_flag(halves->own + halves->at, 0);
	shrimp_double_swap(halves);
}

/* Case 3: is done with the message, tells the sender so, and goes on with the other half. */
SHRIMP_FAST void shrimp_double_release(struct shrimp_double *halves)
{
	shrimp_double_flag(halves->own + halves->at, 0);
	shrimp_double_flag(halves->out + halves->at, 0);
	shrimp_double_swap(halves);
}

/*
 * Deliberate-update transfer (section 4.3), of blocks of words of 4 bytes. Nobody else may send of this buffer meanwhile.
 */
struct shrimp_update {
	uint32_t *commands, *last;
	size_t words;
	const struct shrimp_send_buffer *buffer;
};

/* Of a buffer that is mapped for deliberate update, and begins where a page does. */
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

/* Several pages, or an engine that is busy: then by the library. */
SHRIMP_SLOW int shrimp_update_pages(const struct shrimp_send_buffer *buffer, size_t first, uint32_t words)
{
	return first > SIZE_MAX / 8 ? -EINVAL : shrimp_send(buffer, 4 * first, (size_t)4 * words);
}

/* Sends a block of so many words from `first` on, at least one. It returns when the last page's transfer has begun. */
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

/* 1 if the card has read what was sent last; 0 if its engine is busy, which may be with another's. */
SHRIMP_FAST int shrimp_update_is_done(const struct shrimp_update *update)
{
	int is_done;

	SHRIMP_IN_ORDER();
	is_done = *update->last == 0;
	if (is_done)
		SHRIMP_IN_ORDER();
	return is_done;
}

/* In what a command page says. */
#define SHRIMP_UPDATE_BASE UINT32_C(0x40000000)
#define SHRIMP_UPDATE_LEFT UINT32_C(0xffff)
/* The most transfers that can be ahead of one. */
#define SHRIMP_UPDATE_AHEAD 64

/* What was seen of a transfer that is waited for. */
struct shrimp_update_seen {
	uint32_t left, others;
	int itself;
};

/*
 * Whether a transfer is done, by what the command page says where it began. The engine is free then; or it has had this transfer, and has
 * another's; or it has had more of others' than can be ahead.
 */
SHRIMP_SLOW int shrimp_update_has_ended(struct shrimp_update_seen *seen, uint32_t says)
{
	uint32_t left = says & SHRIMP_UPDATE_LEFT;

	if (!says)
		return 1;
	if (says & SHRIMP_UPDATE_BASE) {
		seen->itself = 1;
		return 0;
	}
	/* What is left of one becomes less, so this is the next. */
	if (left > seen->left || !seen->others)
		seen->others++;
	seen->left = left;
	return seen->itself || seen->others > SHRIMP_UPDATE_AHEAD;
}

SHRIMP_SLOW int shrimp_update_until_done(const uint32_t *command, const struct shrimp_send_buffer *buffer, int timeout_ms)
{
	int64_t deadline = shrimp_deadline(timeout_ms);
	struct shrimp_update_seen seen = {0, 0, 0};
	unsigned int looks = 0;
	int outcome;

	while (!shrimp_update_has_ended(&seen, __atomic_load_n(command, __ATOMIC_ACQUIRE))) {
		if (shrimp_now_ms() >= deadline)
			return -ETIMEDOUT;
		if (++looks % 1000 == 0 && (outcome = shrimp_end_check(buffer)) < 0)
			return outcome;
		sched_yield();
	}
	return shrimp_end_check(buffer);
}

/*
 * Waits until the card has read all that was sent, timeout_ms at most; -1 is no limit. What other processes send does not matter. Fails
 * if the other end is gone.
 */
SHRIMP_FAST int shrimp_update_wait(const struct shrimp_update *update, int timeout_ms)
{
	return shrimp_update_until_done(update->last, update->buffer, timeout_ms);
}

/*
 * NX/2's csend and crecv: messages of any length, told apart by types of 16 bits. What is in memory is described in the library's
 * module nx. Nodes are known by their place among the ends.
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

/* A piece that has arrived: what its place said, and whose it is. */
struct shrimp_nx_piece {
	uint64_t place;
	unsigned int node;
};

struct shrimp_nx {
	struct shrimp_nx_peer peers[SHRIMP_NX_NODES];
	struct shrimp_nx_piece pending[SHRIMP_NX_NODES * SHRIMP_NX_BUFFERS + 1];
	unsigned int nodes, count;
};

/* A node, with an end for each other: both buffers of an end have at least SHRIMP_NX_LENGTH bytes. */
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

/* Any buffer that is free. */
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
	/* The other sees the bytes before it sees this. */
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

/* Sends a message of this type to a node. It returns when the bytes may be changed. */
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

/* What is in a node's next place, which is empty then: 1, 0 if there was nothing, or -EPROTO. */
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

/* Copies a piece out, and gives its buffer back. */
SHRIMP_FAST void shrimp_nx_read(const struct shrimp_nx_peer *peer, uint64_t place, void *to, size_t length)
{
	unsigned int buffer = place >> 48 & (SHRIMP_NX_BUFFERS - 1);

	shrimp_copy(to, peer->from + (size_t)buffer * SHRIMP_NX_PIECE, length);
	SHRIMP_IN_ORDER();
	peer->freed[buffer] = 0;
	SHRIMP_IN_ORDER();
}

/* Takes all that has come: 1 if there was anything. */
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
			/* Whoever is as he should be waits for a buffer first. */
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

/* Waits a moment for the next piece of each node, or of this one, if it is one. `gone` says why one is; fails if nobody is left. */
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

/* The next piece of this type; of this node, if it is one. */
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
			/* A piece that is there costs no look at the clock. */
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

/* Puts back what does not fit. */
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
 * Waits for a message of this type, and copies it; returns how many bytes it has. One that does not fit in `room` stays. Who waits is told
 * that a node is gone when no other is left that could send, or the time is over.
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
