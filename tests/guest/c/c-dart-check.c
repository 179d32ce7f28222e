/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Checks calls of dart.h within one machine, which sends to itself. Prints each call whose result
 * is not the expected one.
 */
#include "check.h"

#include <dart_programs.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define LENGTH 65536
#define SCRATCH 32768

/* One end of the connection. */
struct end {
	struct dart_endpoint *endpoint;
	struct dart_bank *bank;
	struct dart_queue *events, *exceptions;
	struct dart_connection_options options;
	struct dart_connection *connection;
	unsigned char *data;
};

static struct dart_card *card;
static uint32_t host;
static struct end here, there;

#define OPERATION(...) (&(struct dart_operation){ __VA_ARGS__ })
#define TELL { .comparison = DART_COMPARE_ALWAYS }

static void open_end(struct end *end)
{
	CHECK(0, dart_endpoint_create(card, NULL, LENGTH, &end->endpoint));
	CHECK(0, dart_bank_create(card, 16, 4, &end->bank));
	CHECK(0, dart_queue_create(card, 16, 0, &end->events));
	CHECK(0, dart_queue_create(card, 16, DART_QUEUE_IMMEDIATE, &end->exceptions));
	end->data = dart_endpoint_data(end->endpoint);
	end->options = (struct dart_connection_options){
		.endpoint = end->endpoint,
		.bank = end->bank,
		.events = end->events,
		.exceptions = end->exceptions,
		.entries = 4,
		.rights = DART_RIGHT_READ | DART_RIGHT_WRITE,
	};
}

static void close_end(struct end *end)
{
	dart_connection_destroy(end->connection);
	dart_queue_destroy(end->events);
	dart_queue_destroy(end->exceptions);
	dart_bank_destroy(end->bank);
	dart_endpoint_destroy(end->endpoint);
	memset(end, 0, sizeof(*end));
}

static void connect_ends(void)
{
	struct dart_address addresses[2];

	CHECK(0, dart_connection_create(card, &here.options, host, &here.connection));
	CHECK(0, dart_connection_create(card, &there.options, host, &there.connection));
	CHECK(0, dart_connection_address(here.connection, &addresses[0]));
	CHECK(0, dart_connection_address(there.connection, &addresses[1]));
	CHECK(0, dart_connect(here.connection, &addresses[1]));
	CHECK(0, dart_connect(there.connection, &addresses[0]));
}

static void open_both(void)
{
	open_end(&here);
	open_end(&there);
	connect_ends();
}

static void close_both(void)
{
	close_end(&here);
	close_end(&there);
}

/* Waits for an answer: all messages sent before the question have then been executed. */
static void settle(void)
{
	struct dart_record record;

	CHECK(0, dart_ask(here.connection, OPERATION(.main = DART_ANSWER, .indices = { 15 }),
			  OPERATION(.operand = 4242, .condition = TELL), 0, SCRATCH));
	CHECK(0, dart_queue_next(here.events, &record, PATIENCE_MS));
	CHECK(4242, record.operand);
}

static void check_card(void)
{
	struct dart_card_info info;
	char name[HAMLYN_TEXT_SIZE];
	struct dart_card *other;
	uint64_t values[200];

	CHECK(-2, dart_open("/dev/dart99", &other));
	CHECK(0, dart_get_info(card, &info));
	CHECK(1, info.host < info.ports && info.connections > 0 && info.registers > 0 && info.queues > 0 && info.tlb > 0);
	host = info.host;
	CHECK(1, dart_statistics(card, values, 2) > 10);
	CHECK(0, dart_statistic_name(0, name, sizeof(name)));
	CHECK(-22, dart_statistic_name(0, name, 3));
	CHECK(-22, dart_statistic_name(100000, name, sizeof(name)));
}

static void check_parts(void)
{
	static _Alignas(4096) unsigned char own[8192];
	const struct dart_operation nonsense = { .main = DART_CALL_WITH + 1 }, add = { .first = { .step = DART_STEP_INCREMENT } };
	struct dart_endpoint *endpoint;
	struct dart_queue *queue;
	struct dart_bank *bank;

	CHECK(-22, dart_endpoint_create(card, NULL, 0, &endpoint));
	CHECK(-22, dart_endpoint_create(card, own + 1, 100, &endpoint));
	CHECK(0, dart_endpoint_create(card, own, sizeof(own), &endpoint));
	CHECK(1, dart_endpoint_data(endpoint) == own);
	CHECK(0, dart_endpoint_page_out(endpoint));
	CHECK(-22, dart_endpoint_discard(endpoint));
	dart_endpoint_destroy(endpoint);
	CHECK(0, dart_endpoint_create(card, NULL, 100, &endpoint));
	memset(dart_endpoint_data(endpoint), 1, 100);
	CHECK(0, dart_endpoint_discard(endpoint));
	CHECK(0, *(unsigned char *)dart_endpoint_data(endpoint));
	dart_endpoint_destroy(endpoint);
	CHECK(-22, dart_bank_create(card, 0, 0, &bank));
	CHECK(-22, dart_bank_create(card, 1025, 0, &bank));
	CHECK(-22, dart_bank_create(card, 1, 257, &bank));
	CHECK(0, dart_bank_create(card, 1, 2, &bank));
	CHECK(0, dart_bank_set_program(bank, 1, &add, 1));
	CHECK(-22, dart_bank_set_program(bank, 2, &add, 1));
	CHECK(-22, dart_bank_set_program(bank, 0, &nonsense, 1));
	CHECK(-22, dart_bank_set_program(bank, 0, NULL, 1));
	dart_bank_destroy(bank);
	CHECK(-22, dart_queue_create(card, 15, 0, &queue));
	CHECK(-22, dart_queue_create(card, 17, 0, &queue));
	CHECK(-22, dart_queue_create(card, 16, 2, &queue));
}

/* Checks that a connection cannot be opened with this field changed. */
#define REFUSED(change)                                                                                            \
	do {                                                                                                       \
		struct dart_connection_options options = here.options;                                             \
		struct dart_connection *other;                                                                     \
		options.change;                                                                                    \
		check("connection with " #change, -22, dart_connection_create(card, &options, host, &other));      \
	} while (0)

static void check_connections(void)
{
	struct dart_connection_options options;
	struct dart_connection *other;
	struct dart_address address;
	struct dart_address_info info;
	struct dart_card *again;
	struct dart_bank *bank;
	uint64_t value;

	open_end(&here);
	REFUSED(endpoint = NULL);
	REFUSED(bank = NULL);
	REFUSED(first_register = 17);
	REFUSED(registers = 17);
	REFUSED(registers = 257);
	REFUSED(first_entry = 1);
	REFUSED(rights = 4);
	REFUSED(reserved[0] = 1);
	/* Parts from different open cards. */
	CHECK(0, dart_open(NULL, &again));
	CHECK(0, dart_bank_create(again, 1, 0, &bank));
	options = here.options;
	options.bank = bank;
	CHECK(-22, dart_connection_create(card, &options, host, &other));
	CHECK(-22, dart_connection_create(again, &here.options, host, &other));
	dart_bank_destroy(bank);
	dart_close(again);
	options = here.options;
	options.first_register = 3;
	CHECK(0, dart_connection_create(card, &options, host, &other));
	CHECK(host, dart_connection_host(other));
	CHECK(0, dart_set_register(other, 12, 77));
	CHECK(0, dart_register(other, 12, &value));
	CHECK(77, value);
	CHECK(-22, dart_register(other, 13, &value));
	CHECK(0, dart_connection_address(other, &address));
	CHECK(0, dart_address_get_info(&address, &info));
	CHECK(1, info.host == host && (int)info.number == dart_connection_number(other));
	address.bytes[0] ^= 1;
	CHECK(-22, dart_connect(other, &address));
	CHECK(0, dart_address_of(host + 1, 1, 1, &address));
	CHECK(-22, dart_connect(other, &address));
	dart_connection_destroy(other);
	options.registers = DART_NO_REGISTERS;
	CHECK(0, dart_connection_create(card, &options, host, &other));
	CHECK(-22, dart_set_register(other, 0, 1));
	dart_connection_destroy(other);
	close_end(&here);
}

static void check_messages(void)
{
	const struct dart_operation append = { .main = DART_WRITE, .addressing = DART_INDIRECT, .first = { DART_STEP_ADD, DART_SOURCE_J, DART_TARGET_I } };
	struct dart_record record;
	struct dart_status status;
	const void *data;
	uint32_t opcode;
	uint64_t value;
	size_t length;

	open_both();
	memset(here.data, 5, 1000);
	CHECK(-22, dart_send(here.connection, OPERATION(.main = DART_WRITE), 0, 33, 0));
	CHECK(-22, dart_send(here.connection, OPERATION(.main = DART_WRITE_MULTIPLE), 0, DART_LONGEST + 1, 0));
	CHECK(-22, dart_send(here.connection, OPERATION(.main = DART_WRITE), LENGTH - 31, 32, 0));
	CHECK(-22, dart_send(here.connection, OPERATION(.main = DART_WRITE), UINT64_MAX, 32, 0));
	CHECK(-22, dart_send(here.connection, OPERATION(.main = DART_CALL_WITH + 1), 0, 32, 0));
	CHECK(-22, dart_send(here.connection, OPERATION(.main = DART_WRITE, .callers_operand = 1), 0, 32, 0));
	CHECK(-11, dart_queue_next(there.events, &record, 0));
	CHECK(-11, dart_queue_poll(there.events, 10, &record));
	CHECK(-110, dart_queue_next(there.events, &record, 10));
	/* A block, a longer message, an operation of the receiver's own, and an exception. */
	CHECK(0, dart_send(here.connection, OPERATION(.main = DART_WRITE, .operand = 64, .condition = TELL), 0, 32, 0));
	CHECK(0, dart_queue_next(there.events, &record, PATIENCE_MS));
	CHECK(1, record.what == DART_RECORD_COMPARED && record.operand == 64 && record.words[3] == 0x0505050505050505);
	CHECK(record.connection, dart_connection_number(there.connection));
	CHECK(0, memcmp(there.data + 64, here.data, 32));
	CHECK(0, dart_send(here.connection, OPERATION(.main = DART_WRITE_MULTIPLE, .operand = 4096, .condition = TELL), 0, 1000, PATIENCE_MS));
	CHECK(0, dart_queue_next(there.events, &record, PATIENCE_MS));
	CHECK(1000, record.length);
	CHECK(0, memcmp(there.data + 4096, here.data, 1000));
	CHECK(0, dart_bank_set_program(there.bank, 3, &append, 1));
	CHECK(0, dart_set_register(there.connection, 1, 8192));
	CHECK(0, dart_set_register(there.connection, 2, 32));
	CHECK(0, dart_send(here.connection, OPERATION(.main = DART_CALL, .operand = 3, .indices = { 1, 2 }), 0, 32, 0));
	settle();
	CHECK(0, dart_register(there.connection, 1, &value));
	CHECK(8192 + 32, value);
	CHECK(0, memcmp(there.data + 8192, here.data, 32));
	CHECK(0, dart_bank_set_program(there.bank, 2, OPERATION(.main = DART_WRITE, .callers_operand = 1), 1));
	CHECK(0, dart_send(here.connection, OPERATION(.main = DART_CALL_WITH, .about = 2, .operand = 12288), 0, 32, 0));
	settle();
	CHECK(0, memcmp(there.data + 12288, here.data, 32));
	/*
	 * Entries that answer: with a register, to which the caller's operand is added, and with
	 * the contents of memory.
	 */
	CHECK(0, dart_bank_set_program(there.bank, 1, OPERATION(.main = DART_ANSWER, .first = { DART_STEP_ADD, DART_SOURCE_OPERAND, DART_TARGET_I }, .callers_operand = 1), 1));
	CHECK(0, dart_set_register(there.connection, 3, 100));
	CHECK(0, dart_ask(here.connection, OPERATION(.main = DART_CALL_WITH, .about = 1, .operand = 5, .indices = { 3 }),
			  OPERATION(.operand = 4243, .condition = TELL), 0, SCRATCH));
	CHECK(0, dart_queue_next(here.events, &record, PATIENCE_MS));
	CHECK(1, record.operand == 4243 && record.words[0] == 100 && record.words[1] == 105);
	CHECK(0, dart_bank_set_program(there.bank, 0, OPERATION(.main = DART_READ_MULTIPLE, .operand = 4096), 1));
	CHECK(0, dart_ask(here.connection, OPERATION(.main = DART_CALL),
			  OPERATION(.main = DART_WRITE_MULTIPLE, .operand = 16384), 1000, SCRATCH + 64));
	settle();
	CHECK(0, memcmp(here.data + 16384, there.data + 4096, 1000));
	CHECK(0, dart_send(here.connection, OPERATION(.main = DART_EXCEPTION, .about = 77, .operand = 5), 0, 8, 0));
	CHECK(0, dart_queue_next(there.exceptions, &record, PATIENCE_MS));
	CHECK(1, record.what == DART_RECORD_EXCEPTION && record.opcode >> 3 == 77 && record.operand == 5);
	/* All data of an exception is there. */
	CHECK(0, dart_send(here.connection, OPERATION(.main = DART_EXCEPTION, .about = 78), 0, 900, 0));
	CHECK(0, dart_queue_next(there.exceptions, &record, PATIENCE_MS));
	data = dart_queue_data(there.exceptions, &length);
	CHECK(1, record.what == DART_RECORD_EXCEPTION && record.length == 900 && record.cut == 0 && length == 900);
	CHECK(0, memcmp(data, here.data, 900));
	CHECK(-11, dart_wait_for_exception(there.connection, 0, 0));
	/*
	 * The receiver's software gets an opcode that its card does not know, in its wire format. A
	 * refused message changes nothing, and both ends are notified.
	 */
	CHECK(0, dart_send(here.connection, OPERATION(.main = DART_OPCODE, .about = 0x80), 0, 0, 0));
	CHECK(0, dart_queue_next(there.exceptions, &record, PATIENCE_MS));
	CHECK(1, record.what == DART_RECORD_TRAP && record.trap == DART_TRAP_UNIMPLEMENTED && record.opcode == 0x80);
	CHECK(0, dart_operation_opcode(OPERATION(.main = DART_WRITE, .addressing = DART_INDEXED), &opcode));
	CHECK(0, dart_send(here.connection, OPERATION(.main = DART_WRITE, .addressing = DART_INDEXED, .operand = LENGTH), 0, 4, 0));
	CHECK(0, dart_queue_next(there.exceptions, &record, PATIENCE_MS));
	CHECK(1, record.trap == DART_TRAP_BOUNDS && record.opcode == opcode);
	settle();
	CHECK(0, dart_wait_until_left(here.connection, PATIENCE_MS));
	CHECK(0, dart_connection_status(here.connection, &status));
	CHECK(1, status.traps == 2 && status.trap == DART_TRAP_BOUNDS && status.trap_opcode == opcode);
	CHECK(1, status.dropped == 0 && status.broken == 0);
	close_both();
}

/* Checks that the owner is also notified of a trap without an exception queue. */
static void check_exceptions(void)
{
	struct dart_status status;

	open_end(&here);
	open_end(&there);
	there.options.exceptions = NULL;
	connect_ends();
	CHECK(0, dart_send(here.connection, OPERATION(.main = DART_WRITE, .operand = LENGTH), 0, 4, 0));
	CHECK(0, dart_wait_for_exception(there.connection, 0, PATIENCE_MS));
	CHECK(0, dart_connection_status(there.connection, &status));
	CHECK(1, status.exceptions == 1 && status.exception == DART_TRAP_BOUNDS && status.traps == 0);
	CHECK(-110, dart_wait_for_exception(there.connection, 1, 10));
	close_both();
}

static void check_waiting(void)
{
	struct pollfd ready = { .events = POLLIN };
	struct dart_record record;
	struct dart_status status;
	int sent, outcome = 0;

	open_both();
	ready.fd = dart_queue_fd(there.events);
	CHECK(0, poll(&ready, 1, 10));
	CHECK(0, dart_put(here.connection, 9, 0, 8, PATIENCE_MS));
	CHECK(1, poll(&ready, 1, PATIENCE_MS));
	CHECK(0, dart_queue_next(there.events, &record, 0));
	CHECK(9, record.operand);
	/* No record is taken: first the queue fills up, then the cards. */
	for (sent = 0; sent < 10000 && outcome == 0; sent++)
		outcome = dart_put(here.connection, sent, 0, 8, 1000);
	CHECK(-110, outcome);
	for (int item = 0; item < sent - 1; item++) {
		if (dart_queue_next(there.events, &record, PATIENCE_MS) != 0 || record.operand != (uint64_t)item)
			CHECK(item, record.operand);
	}
	CHECK(0, dart_wait_until_left(here.connection, PATIENCE_MS));
	/* Close the other end. */
	dart_connection_destroy(there.connection);
	there.connection = NULL;
	do
		CHECK(0, dart_connection_status(here.connection, &status));
	while (status.broken == 0);
	CHECK(DART_BROKEN_GONE, status.broken);
	CHECK(-104, dart_send(here.connection, OPERATION(.main = DART_WRITE), 0, 8, 0));
	close_both();
}

static void check_callers(void)
{
	const struct dart_lock_registers lock = { .tickets = 4, .turn = 5 };
	const struct dart_log log = { .tail = 6, .step = 7, .end = 8 };
	const struct dart_piece pieces[] = { { 100, 2000, 40, 0 }, { 0, 3000, 4, 0 } }, wrong_piece = { 0, 0, 4, 1 };
	struct dart_caller *caller;
	uint64_t before, after, words[DART_WORDS], written;

	open_both();
	for (int at = 0; at < 200; at++)
		there.data[at] = at;
	CHECK(0, dart_caller_create(here.connection, here.events, SCRATCH, PATIENCE_MS, &caller));
	here.events = NULL;
	CHECK(0, dart_fetch(caller, 3, DART_STEP_ADD, 5, &before, &after));
	CHECK(0, dart_fetch(caller, 3, DART_STEP_INCREMENT, 0, NULL, NULL));
	CHECK(1, before == 0 && after == 5);
	CHECK(-22, dart_fetch(caller, 3, DART_STEP_NONE, 0, &before, &after));
	CHECK(-22, dart_fetch(caller, 3, 16, 0, &before, &after));
	CHECK(-22, dart_fetch(caller, 256, DART_STEP_ADD, 0, &before, &after));
	CHECK(-1, dart_fetch(caller, 16, DART_STEP_ADD, 0, &before, &after));
	CHECK(0, dart_compare_and_swap(caller, 3, 14, 6, 60, &before));
	CHECK(6, before);
	CHECK(0, dart_compare_and_swap(caller, 3, 14, 6, 61, &before));
	CHECK(60, before);
	CHECK(0, dart_caller_ask(caller, OPERATION(.main = DART_READ, .operand = 8), &words));
	CHECK(0, memcmp(words, there.data + 8, sizeof(words)));
	CHECK(0, dart_read(caller, 20, words, 5));
	CHECK(0, memcmp(words, there.data + 20, 5));
	CHECK(-22, dart_read(caller, 20, words, 33));
	CHECK(-1, dart_read(caller, LENGTH, words, 4));
	CHECK(0, dart_gather(caller, pieces, 2));
	CHECK(0, memcmp(here.data + 2000, there.data + 100, 40) || memcmp(here.data + 3000, there.data, 4));
	CHECK(-22, dart_gather(caller, &wrong_piece, 1));
	CHECK(0, dart_lock(caller, &lock));
	CHECK(0, dart_try_lock(caller, &lock, 14));
	CHECK(0, dart_unlock(caller, &lock));
	CHECK(1, dart_try_lock(caller, &lock, 14));
	CHECK(0, dart_unlock(caller, &lock));
	CHECK(-22, dart_log_set(there.connection, &log, 1024, 36, 2));
	CHECK(-22, dart_log_set(there.connection, &log, 1024, 6, 2));
	CHECK(0, dart_log_set(there.connection, &log, 1024, 8, 2));
	CHECK(-22, dart_append(here.connection, &log, 6, 0));
	for (int entry = 0; entry < 3; entry++) {
		memset(here.data + 8 * entry, 10 + entry, 8);
		CHECK(0, dart_append(here.connection, &log, 8, 8 * entry));
	}
	/* The third entry exceeds the log. */
	CHECK(0, dart_wait_until_left(here.connection, PATIENCE_MS));
	do
		CHECK(0, dart_log_written(there.connection, &log, 1024, &written));
	while (written < 16);
	CHECK(0, dart_read(caller, 1024, words, 16));
	CHECK(16, written);
	CHECK(0, memcmp(there.data + 1024, here.data, 16) || there.data[1024 + 16]);
	dart_caller_destroy(caller);
	close_both();
}

static void check_priorities(void)
{
	const struct dart_priority_registers registers = { .tail = 1, .most = 2, .step = 3 };
	const struct dart_priority_registers outside = { .tail = 16, .most = 2, .step = 3 };
	struct dart_backlog *backlog;
	struct dart_urgent taken[2];

	open_both();
	CHECK(-22, dart_backlog_create(there.connection, &outside, 0, &backlog));
	CHECK(0, dart_backlog_create(there.connection, &registers, 4096, &backlog));
	CHECK(0, dart_backlog_take(backlog, there.endpoint, taken, 2));
	CHECK(-22, dart_put_urgent(here.connection, &registers, here.endpoint, LENGTH - 8, 1));
	CHECK(-22, dart_put_urgent(here.connection, &registers, here.endpoint, 0, 0));
	for (uint64_t priority = 1; priority <= 3; priority++) {
		memset(here.data + 32 * priority, priority, DART_URGENT_SIZE);
		CHECK(0, dart_put_urgent(here.connection, &registers, here.endpoint, 32 * priority, priority));
	}
	settle();
	CHECK(2, dart_backlog_take(backlog, there.endpoint, taken, 2));
	CHECK(1, taken[0].priority == 3 && taken[1].priority == 2 && taken[1].data[DART_URGENT_SIZE - 1] == 2);
	CHECK(1, dart_backlog_take(backlog, there.endpoint, taken, 2));
	CHECK(1, taken[0].priority);
	CHECK(0, dart_backlog_take(backlog, there.endpoint, taken, 2));
	dart_backlog_destroy(backlog);
	close_both();
}

static void check_barrier(void)
{
	const struct dart_connection *members[2] = { NULL, NULL };
	struct dart_barrier *barrier;
	struct dart_member *member;
	uint64_t round;

	open_both();
	/* The queue is destroyed even though the call fails. */
	CHECK(-22, dart_barrier_create(members, 0, there.events, 4, &barrier));
	CHECK(-22, dart_barrier_create(members, 1, here.events, 4, &barrier));
	there.events = here.events = NULL;
	close_both();
	open_both();
	members[0] = there.connection;
	CHECK(0, dart_barrier_create(members, 1, there.events, 4, &barrier));
	CHECK(0, dart_member_create(here.connection, here.events, 4, &member));
	there.events = here.events = NULL;
	CHECK(-11, dart_barrier_release(barrier, &round, 0));
	/* The member arrives, and does not wait. */
	CHECK(-11, dart_member_wait(member, NULL, 0));
	CHECK(0, dart_barrier_release(barrier, &round, PATIENCE_MS));
	CHECK(1, round);
	dart_barrier_destroy(barrier);
	dart_member_destroy(member);
	close_both();
}

static void check_calls(void)
{
	const struct dart_connection *clients[1];
	struct dart_client *client;
	struct dart_server *server;
	struct dart_call *taken;
	char text[80] = "question";

	open_both();
	clients[0] = there.connection;
	CHECK(0, dart_server_create(there.endpoint, clients, 1, there.events, 64, &server));
	CHECK(0, dart_client_create(here.connection, here.endpoint, here.events, 0, 64, &client));
	there.events = here.events = NULL;
	CHECK(-11, dart_server_next(server, text, sizeof(text), &taken, 0));
	strcpy(text, "question");
	CHECK(-22, dart_client_call(client, text, 65, text, 3, 0));
	CHECK(-22, dart_client_call(client, text, 8, NULL, 3, 0));
	/* The client does not wait, but the server gets the question and answers. */
	CHECK(-11, dart_client_call(client, text, 8, text, 3, 0));
	memset(text, 0, sizeof(text));
	CHECK(8, dart_server_next(server, text, 5, &taken, PATIENCE_MS));
	CHECK(0, memcmp(text, "quest", 6));
	CHECK(0, dart_server_answer(server, taken, "answer", 6));
	while (((volatile unsigned char *)here.data)[5] != 'r')
		;
	dart_client_destroy(client);
	dart_server_destroy(server);
	close_both();
}

static void check_names(void)
{
	struct uln_connecting *connecting;
	struct uln_connection *known, *admitted;
	struct dart_connection *connection;
	struct uln_name_listener *listener;
	struct uln_request *request;
	struct uln_passed passed;
	struct uln_found found;
	struct dart_address address;

	open_end(&here);
	open_end(&there);
	CHECK(-111, dart_reach(card, &here.options, host, "absent", &connection, &known));
	CHECK(-111, dart_name_connect(card, host, "absent", NULL, 0, &known));
	CHECK(0, dart_name_listen(card, "check", 4, &listener));
	CHECK(1, dart_name_find(card, "check", &found, PATIENCE_MS));
	/* No address is passed: there is no connection, and the requester is notified. */
	CHECK(0, dart_name_connect_begin(card, host, "check", NULL, 0, &connecting));
	CHECK(0, uln_name_listener_request(listener, &request, PATIENCE_MS));
	CHECK(-22, dart_admit(card, &there.options, request, &connection, &known));
	CHECK(-111, uln_connecting_finish(connecting, &known, PATIENCE_MS));
	/* Connect step by step, because one thread runs both ends. */
	CHECK(0, dart_connection_create(card, &here.options, host, &here.connection));
	CHECK(0, dart_connection_address(here.connection, &address));
	CHECK(0, dart_name_connect_begin(card, host, "check", &address, sizeof(address), &connecting));
	CHECK(0, uln_name_listener_request(listener, &request, PATIENCE_MS));
	CHECK(0, dart_admit(card, &there.options, request, &there.connection, &admitted));
	CHECK(0, uln_connecting_finish(connecting, &known, PATIENCE_MS));
	CHECK(0, uln_connection_passed(known, &passed));
	CHECK(sizeof(address), passed.length);
	memcpy(&address, passed.data, sizeof(address));
	CHECK(0, dart_connect(here.connection, &address));
	settle();
	uln_connection_destroy(admitted);
	uln_connection_destroy(known);
	uln_name_listener_destroy(listener);
	CHECK(-111, dart_name_connect_any(card, UINT64_C(1) << host, "check", NULL, 0, &known, PATIENCE_MS));
	close_both();
}

int main(void)
{
	CHECK(0, dart_open(NULL, &card));
	if (wrong)
		return 1;
	check_card();
	check_parts();
	check_connections();
	check_messages();
	check_exceptions();
	check_waiting();
	check_callers();
	check_priorities();
	check_barrier();
	check_calls();
	check_names();
	dart_close(card);
	printf("{\"checked\":%u,\"wrong\":%u}\n", checked, wrong);
	return wrong != 0;
}
