/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared by the two roles of c-dart-programs: connections by name, and the layout of registers and
 * memory.
 */
#ifndef DART_ROLES_H
#define DART_ROLES_H

#include "common.h"

#include <dart_programs.h>

#include <errno.h>
#include <string.h>

#define PATIENCE_MS 60000
/* How long to wait before concluding that nothing arrives. */
#define MOMENT_MS 300

/* The connections of each client. */
enum { MEMORY, ITEMS, URGENT, BARRIER, CALLS, PARTS };
static const char *const names[PARTS] = { "memory", "items", "urgent", "barrier", "calls" };

/* Size of either end's memory in bytes, for each connection. */
#define LENGTH (1 << 20)
/*
 * Registers of the memory connection's window: a counter, a word for compare and swap, and a
 * register that only questions use. From OWN on, each client has one register of its own.
 */
#define COUNTER 0
#define WORD 1
#define UNUSED 7
#define OWN 16
static const struct dart_lock_registers lock = { .tickets = 2, .turn = 3 };
static const struct dart_log the_log = { .tail = 8, .step = 9, .end = 10 };
#define ENTRY 16
#define LOG_START 4096
static const struct dart_priority_registers priorities = { .tail = 11, .most = 12, .step = 13 };
#define URGENT_START (1 << 19)
#define BARRIER_REGISTER 14
/* Size in bytes of an area for arguments, and of one for a result. */
#define SIZE 1024

/* The parts of a connection. */
struct part {
	struct dart_endpoint *endpoint;
	struct dart_bank *bank;
	/* NULL once a program has it. */
	struct dart_queue *events;
};

static inline struct part open_part(struct dart_card *card, uint32_t registers, uint32_t records)
{
	struct part part;

	must(dart_endpoint_create(card, NULL, LENGTH, &part.endpoint));
	must(dart_bank_create(card, registers, 0, &part.bank));
	must(dart_queue_create(card, records, 0, &part.events));
	return part;
}

static inline struct dart_connection_options options_of(const struct part *part)
{
	return (struct dart_connection_options){
		.endpoint = part->endpoint,
		.bank = part->bank,
		.events = part->events,
		.rights = DART_RIGHT_READ | DART_RIGHT_WRITE,
	};
}

static inline void close_part(struct part *part)
{
	dart_queue_destroy(part->events);
	dart_bank_destroy(part->bank);
	dart_endpoint_destroy(part->endpoint);
}

/* A line: its first word, and the numbers after it. */
struct line {
	char word[32];
	unsigned long long numbers[8];
	int count;
};

/* Reads the next line. Returns 0 if there is none. */
static inline int next_line(struct line *line)
{
	char text[256], *rest, *end;

	if (!fgets(text, sizeof(text), stdin))
		return 0;
	rest = text + strcspn(text, " \n");
	snprintf(line->word, sizeof(line->word), "%.*s", (int)(rest - text), text);
	for (line->count = 0; line->count < 8; line->count++, rest = end) {
		line->numbers[line->count] = strtoull(rest, &end, 10);
		if (end == rest)
			break;
	}
	return 1;
}

/* A command of a role; `state` is the role's own. */
struct command {
	const char *word;
	int numbers;
	void (*obey)(void *state, const unsigned long long *numbers, int count);
};

/* Executes all lines. Each must have one of the commands, and at least its number of numbers. */
static inline void obey_all(const struct command *commands, void *state)
{
	const struct command *command;
	struct line line;

	while (next_line(&line)) {
		for (command = commands; command->word && strcmp(command->word, line.word); command++)
			;
		if (!command->word || line.count < command->numbers)
			fail("no such line");
		command->obey(state, line.numbers, line.count);
		fflush(stdout);
	}
}

#endif
