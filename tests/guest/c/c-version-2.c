/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The calls of a program that was built for the first driver of version 2, kept as it was built:
 * numbers and layouts are literals, and no header is included that could change them. It shows that
 * the driver still accepts all of them. Other programs need not be written like this: they use the
 * library.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define PAGE 4096

struct query {
	uint32_t uapi_version, abi_version, model, host;
	uint64_t capabilities;
	uint32_t packet_size, sram_size, termini, slots, queues, vectors;
	uint64_t reserved[10];
};

struct object {
	uint32_t index, reserved0;
	uint64_t reserved1;
};

struct terminus {
	uint32_t terminus, weight;
	uint64_t window_offset, doorbell_offset, status_offset, reserved[4];
};

struct send_buffer {
	uint32_t terminus, tag;
	uint64_t address, length, reserved;
};

struct queue {
	uint32_t entries, queue;
	uint64_t offset, size, reserved;
};

struct queue_wait {
	uint32_t queue, cursor, pass, ready;
	int64_t timeout_ns;
	uint64_t reserved;
};

struct slot {
	uint64_t area_address, area_length, metadata_address;
	uint32_t metadata_entries, mode, queue, notification_index, flags, slot;
	uint64_t key, reserved[5];
};

struct statistics {
	uint32_t count, reserved;
	uint64_t values[64];
};

static int card;

/* Makes a call that must fail with this errno, or succeed for 0. */
static void call(const char *what, unsigned long code, void *argument, int expected)
{
	int outcome = ioctl(card, code, argument) < 0 ? errno : 0;

	if (outcome != expected) {
		fprintf(stderr, "%s: %s\n", what, strerror(outcome));
		exit(1);
	}
}

static void holds(const char *what, int condition)
{
	if (!condition) {
		fprintf(stderr, "not so: %s\n", what);
		exit(1);
	}
}

static void *map(const char *what, uint64_t offset, size_t size, int access)
{
	void *start = mmap(NULL, size, access, MAP_SHARED, card, (off_t)offset);

	holds(what, start != MAP_FAILED);
	return start;
}

static uint32_t describe(void)
{
	struct query query = { 0 };
	struct statistics statistics = { 0 };

	call("query", 0xc0804801, &query, 0);
	holds("the driver is of version 2", query.uapi_version >> 16 == 2);
	holds("the card is a Hamlyn card that has everything", query.model == 1 && query.termini && query.slots && query.queues);
	call("statistics", 0xc208480c, &statistics, 0);
	holds("there are counters", statistics.count > 0 && statistics.count <= 64);
	return query.uapi_version;
}

static void terminus(void *memory)
{
	struct terminus terminus = { .weight = 1 };
	struct send_buffer buffer = { .tag = 3, .address = (uintptr_t)memory, .length = PAGE };
	struct send_buffer gone = { .tag = 3 };
	struct object object = { 0 };

	call("create a terminus", 0xc0404802, &terminus, 0);
	map("a window", terminus.window_offset, 65536, PROT_READ | PROT_WRITE);
	map("a doorbell", terminus.doorbell_offset, PAGE, PROT_WRITE);
	map("status words", terminus.status_offset, PAGE, PROT_READ);
	buffer.terminus = gone.terminus = object.index = terminus.terminus;
	call("set a send buffer", 0xc0204804, &buffer, 0);
	call("set it again", 0xc0204804, &buffer, EBUSY);
	call("clear a send buffer", 0xc0204805, &gone, 0);
	call("destroy a terminus", 0xc0104803, &object, 0);
	call("destroy it again", 0xc0104803, &object, ENOENT);
}

static void slot(void *memory)
{
	struct queue queue = { .entries = 16 };
	struct slot slot = { .area_address = (uintptr_t)memory, .area_length = PAGE, .notification_index = 5 };
	struct queue_wait wait = { 0 };
	struct object object = { 0 };

	call("create a queue", 0xc0204806, &queue, 0);
	map("a queue", queue.offset, queue.size, PROT_READ);
	slot.queue = wait.queue = queue.queue;
	call("create a slot", 0xc060480a, &slot, 0);
	holds("it has a key", slot.key != 0);
	call("look at a queue", 0xc0204808, &wait, ETIMEDOUT);
	call("arm a queue", 0xc0204809, &wait, 0);
	holds("nothing has come", wait.ready == 0);
	object.index = queue.queue;
	call("destroy a queue that a slot names", 0xc0104807, &object, EBUSY);
	object.index = slot.slot;
	call("destroy a slot", 0xc010480b, &object, 0);
	object.index = queue.queue;
	call("destroy a queue", 0xc0104807, &object, 0);
}

int main(int count, char **arguments)
{
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t version;

	card = open(count > 1 ? arguments[1] : "/dev/hamlyn0", O_RDWR | O_CLOEXEC);
	holds("there is a card, and memory", card >= 0 && memory != MAP_FAILED);
	version = describe();
	terminus(memory);
	slot(memory);
	printf("as built for 2.0, with %u.%u\n", version >> 16, version & 0xffff);
	return 0;
}
