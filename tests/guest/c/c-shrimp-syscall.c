/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * System calls on the memory of a send buffer, for tests.
 *
 *   c-shrimp-syscall HANDLE LENGTH
 *
 * It maps the receive buffer, reports that, and executes one command per line:
 *
 *   split    munmap(2) of the first page
 *   write    write(2) of 4 bytes from the first page to a pipe
 *   read     read(2) of 4 bytes from a pipe into the first page
 *   touch    a store to the first page, which waits until the page is there
 *
 * It prints the call's return value, or the negated errno.
 */
#include "common.h"

#include <errno.h>
#include <shrimp.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int pipe_ends[2];

static int answer(const char *line, volatile uint32_t *memory)
{
	uint32_t word = 0;

	if (!strcmp(line, "split\n"))
		return munmap((void *)memory, 4096);
	if (!strcmp(line, "write\n"))
		return write(pipe_ends[1], (const void *)memory, sizeof(word));
	if (!strcmp(line, "read\n")) {
		if (write(pipe_ends[1], &word, sizeof(word)) != sizeof(word))
			fail("the pipe is full");
		return read(pipe_ends[0], (void *)memory, sizeof(word));
	}
	*memory = 1;
	return 0;
}

int main(int argc, char **argv)
{
	struct shrimp_send_buffer *buffer;
	struct shrimp_memory memory;
	struct shrimp_handle handle;
	struct shrimp_card *card;
	char line[16];

	if (argc != 3 || pipe(pipe_ends))
		fail("usage: c-shrimp-syscall HANDLE LENGTH");
	must(shrimp_open(NULL, &card));
	must(shrimp_handle_parse(argv[1], &handle));
	must(shrimp_map(card, &handle, 0, strtoul(argv[2], NULL, 10), SHRIMP_MODE_SINGLE, &buffer));
	must(shrimp_get_memory(buffer, &memory));
	printf("{\"mapped\":true}\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		int returned = answer(line, memory.stores);

		printf("{\"returned\":%d}\n", returned < 0 ? -errno : returned);
		fflush(stdout);
	}
	shrimp_send_buffer_destroy(buffer);
	shrimp_close(card);
	return 0;
}
