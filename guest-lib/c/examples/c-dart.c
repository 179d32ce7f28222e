/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * DART cards in C: messages that write, read and compute at another host, whose program is notified
 * only when it asked for it.
 *
 *   c-dart receive             has memory and registers, admits one sender, and is notified of
 *                              three messages
 *   c-dart send HOST [BYTES]   sends a text, BYTES bytes and entries of a log; increments a
 *                              counter, reads back, and has a message refused
 *
 * Build it: cc c-dart.c $(pkg-config --cflags --libs hamlyn)
 */
#include "common.h"

#include <dart.h>

#include <errno.h>
#include <poll.h>
#include <string.h>

#define NAME "c-dart"
#define PATIENCE_MS 60000
/*
 * Layout of either end's memory: questions, the text, the log, the pages, and the pages that are
 * read back.
 */
#define SCRATCH 0
#define TEXT 64
#define LOG 128
#define PAGES 4096
#define MOST 20000
#define BACK 65536
#define LENGTH (BACK + MOST)
#define SEED 7
/*
 * Registers of the receiver's window: a counter, the offset of the log's next entry, and the length
 * of an entry.
 */
#define COUNTER 0
#define TAIL 1
#define STEP 2
#define ENTRY 8
/* The receiver's program entry that the sender calls: it appends to the log, wherever that is. */
#define APPEND 0
/* The exception's `about`, and the numbers by which the sender identifies its answers. */
#define ABOUT 99
#define COUNTED 1
#define READ_BACK BACK

/* An event at the end, whatever the registers contain. */
#define TELL { .comparison = DART_COMPARE_ALWAYS }

/* One end and all its parts. */
struct end {
	unsigned char *memory;
	struct dart_endpoint *endpoint;
	struct dart_bank *bank;
	struct dart_queue *events, *exceptions;
	struct dart_connection_options options;
};

static struct end open_end(struct dart_card *card, unsigned char *memory)
{
	struct end end = { .memory = memory };

	must(dart_endpoint_create(card, memory, LENGTH, &end.endpoint));
	must(dart_bank_create(card, 8, 1, &end.bank));
	must(dart_queue_create(card, 16, 0, &end.events));
	must(dart_queue_create(card, 16, DART_QUEUE_IMMEDIATE, &end.exceptions));
	end.options = (struct dart_connection_options){
		.endpoint = end.endpoint,
		.bank = end.bank,
		.events = end.events,
		.exceptions = end.exceptions,
		.entries = 1,
		.rights = DART_RIGHT_READ | DART_RIGHT_WRITE,
	};
	return end;
}

static void close_end(struct end *end)
{
	dart_queue_destroy(end->events);
	dart_queue_destroy(end->exceptions);
	dart_bank_destroy(end->bank);
	dart_endpoint_destroy(end->endpoint);
}

/*
 * Sleeps in poll(2), where a program can wait for other files too, until either queue has a record.
 */
static struct dart_record next_record(struct end *end)
{
	struct pollfd ready[] = {
		{ .fd = must(dart_queue_fd(end->events)), .events = POLLIN },
		{ .fd = must(dart_queue_fd(end->exceptions)), .events = POLLIN },
	};
	struct dart_record record;
	int outcome;

	for (;;) {
		if ((outcome = dart_queue_next(end->exceptions, &record, 0)) != -EAGAIN)
			break;
		if ((outcome = dart_queue_next(end->events, &record, 0)) != -EAGAIN)
			break;
		if (poll(ready, 2, PATIENCE_MS) == 0)
			fail("nothing happens");
	}
	must(outcome);
	return record;
}

/* Sets the receiver's registers and program: a sender that is admitted uses these. */
static void prepare_log(struct end *end, struct dart_connection *connection)
{
	const struct dart_operation append = {
		.main = DART_WRITE,
		.addressing = DART_INDIRECT,
		.first = { DART_STEP_ADD, DART_SOURCE_J, DART_TARGET_I },
	};

	must(dart_bank_set_program(end->bank, APPEND, &append, 1));
	must(dart_set_register(connection, TAIL, LOG));
	must(dart_set_register(connection, STEP, ENTRY));
}

static void show(const struct dart_record *record, const struct end *end)
{
	if (record->what == DART_RECORD_EXCEPTION) {
		printf("{\"exception\":%u,\"operand\":%llu}\n", record->opcode >> 3, (unsigned long long)record->operand);
	} else if (record->what == DART_RECORD_TRAP) {
		printf("{\"trap\":%u,\"operand\":%llu}\n", record->trap, (unsigned long long)record->operand);
	} else if (record->length) {
		/*
		 * A message of several cells. The sender chose its length, so limit it to the
		 * memory after the pages.
		 */
		size_t length = record->length < MOST ? record->length : MOST;

		verify(SEED, end->memory + PAGES, length);
		printf("{\"received\":%zu,\"verified\":true}\n", length);
	} else {
		printf("{\"message\":\"%.*s\"}\n", (int)sizeof(record->words), (const char *)record->words);
	}
	fflush(stdout);
}

static void receive(struct dart_card *card)
{
	static _Alignas(8) unsigned char memory[LENGTH];
	struct end end = open_end(card, memory);
	struct dart_connection *connection;
	struct uln_connection *known;
	struct uln_name_listener *listener;
	struct uln_request *request;
	struct uln_end ended;
	uint64_t counter, tail;

	must(dart_name_listen(card, NAME, 1, &listener));
	printf("{\"listening\":\"%s\"}\n", NAME);
	fflush(stdout);
	must(uln_name_listener_request(listener, &request, PATIENCE_MS));
	must(dart_admit(card, &end.options, request, &connection, &known));
	prepare_log(&end, connection);
	/* From now on the sender may call the entries here. */
	must(dart_send(connection, &(struct dart_operation){ .condition = TELL }, 0, 0, PATIENCE_MS));
	for (int told = 0; told < 4; told++) {
		struct dart_record record = next_record(&end);

		show(&record, &end);
	}
	must(uln_connection_end(known, &ended, PATIENCE_MS));
	must(dart_register(connection, COUNTER, &counter));
	must(dart_register(connection, TAIL, &tail));
	/* The sender may have set the register to any value. */
	if (tail - LOG > 2 * ENTRY)
		fail("the log is longer than what was sent");
	printf("{\"counter\":%llu,\"log\":\"%.*s\"}\n", (unsigned long long)counter, (int)(tail - LOG), (char *)memory + LOG);
	uln_connection_destroy(known);
	uln_name_listener_destroy(listener);
	dart_connection_destroy(connection);
	close_end(&end);
}

/* Sends two messages that notify the receiver, and two that do not. */
static void send_messages(struct end *end, struct dart_connection *connection, size_t length)
{
	const struct dart_operation text = { .main = DART_WRITE, .operand = TEXT, .condition = TELL };
	const struct dart_operation pages = { .main = DART_WRITE_MULTIPLE, .operand = PAGES, .condition = TELL };
	const struct dart_operation append = { .main = DART_CALL, .operand = APPEND, .indices = { TAIL, STEP },
					       /* The words after an entry stay unchanged. */
					       .mask = 0xfc };

	strcpy((char *)end->memory + TEXT, "hello from C");
	must(dart_send(connection, &text, TEXT, strlen("hello from C"), 0));
	fill(SEED, end->memory + PAGES, length);
	must(dart_send(connection, &pages, PAGES, length, 0));
	memcpy(end->memory + LOG, "one two three ab", 2 * ENTRY);
	must(dart_send(connection, &append, LOG, ENTRY, 0));
	must(dart_send(connection, &append, LOG + ENTRY, ENTRY, 0));
	/* The sent data may be changed now. */
	must(dart_wait_until_left(connection, PATIENCE_MS));
}

/*
 * Does fetch and increment on a register of the other end. The answer is a message that creates an
 * event here.
 */
static uint64_t count(struct end *end, struct dart_connection *connection)
{
	const struct dart_operation question = { .main = DART_ANSWER, .first = { .step = DART_STEP_INCREMENT },
						 .indices = { COUNTER } };
	const struct dart_operation answer = { .operand = COUNTED, .condition = TELL };
	struct dart_record record;

	must(dart_ask(connection, &question, &answer, 0, SCRATCH));
	must(dart_queue_next(end->events, &record, PATIENCE_MS));
	if (record.operand != COUNTED)
		fail("the answer is another's");
	return record.words[1];
}

/* Does a remote read: the answer is written to this end's memory. */
static void read_back(struct end *end, struct dart_connection *connection, size_t length)
{
	const struct dart_operation question = { .main = DART_READ_MULTIPLE, .operand = PAGES };
	const struct dart_operation answer = { .main = DART_WRITE_MULTIPLE, .operand = READ_BACK, .condition = TELL };
	struct dart_record record;

	must(dart_ask(connection, &question, &answer, length, SCRATCH));
	must(dart_queue_next(end->events, &record, PATIENCE_MS));
	if (record.operand != READ_BACK || record.length != length)
		fail("the answer is another's");
	verify(SEED, end->memory + BACK, length);
}

static void send_all(struct dart_card *card, uint32_t host, size_t length)
{
	static _Alignas(8) unsigned char memory[LENGTH];
	/* Past the end of the other end's memory. */
	const struct dart_operation outside = { .main = DART_WRITE, .operand = LENGTH };
	const struct dart_operation exception = { .main = DART_EXCEPTION, .about = ABOUT, .operand = 5 };
	struct end end = open_end(card, memory);
	struct dart_connection *connection;
	struct uln_connection *known;
	struct dart_status status;
	struct dart_record record;
	uint64_t counted = 0;

	must(dart_reach(card, &end.options, host, NAME, &connection, &known));
	/* Wait until the receiver is ready. */
	must(dart_queue_next(end.events, &record, PATIENCE_MS));
	send_messages(&end, connection, length);
	must(dart_send(connection, &outside, TEXT, 4, 0));
	must(dart_send(connection, &exception, 0, 0, 0));
	/* Questions sent after these messages are answered after them. */
	for (int round = 0; round < 3; round++)
		counted = count(&end, connection);
	read_back(&end, connection, length);
	must(dart_connection_status(connection, &status));
	printf("{\"sent\":%zu,\"counted\":%llu,\"read_back\":true,\"traps\":%u,\"trap\":%u}\n", length,
	       (unsigned long long)counted, status.traps, status.trap);
	must(uln_connection_close(known, NULL, 0));
	dart_connection_destroy(connection);
	close_end(&end);
}

int main(int argc, char **argv)
{
	int sends = argc > 2 && !strcmp(argv[1], "send");
	size_t length = argc > 3 ? strtoul(argv[3], NULL, 10) : MOST;
	struct dart_card *card;

	if (argc < 2 || argc > 2 + 2 * sends || (!sends && strcmp(argv[1], "receive")) || length < 1 || length > MOST) {
		fprintf(stderr, "usage: %s receive | send HOST [BYTES]\n", argv[0]);
		return 2;
	}
	must(dart_open(NULL, &card));
	if (sends)
		send_all(card, strtoul(argv[2], NULL, 10), length);
	else
		receive(card);
	dart_close(card);
	return 0;
}
