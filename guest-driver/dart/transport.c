// SPDX-License-Identifier: GPL-2.0-only
/*
 * How operating systems reach each other: each has a connection with every other host. By it, it
 * writes records (core/uln_records.h) to its page of that host's endpoint, and the card there
 * reports the write.
 */
#include "dart.h"
#include "uln_records.h"
#include "uln_service.h"

static_assert(DART_HOSTS == ULN_RECORD_HOSTS);
/* Places for messages to a host, after the pages that hosts write to. */
#define SENDS (ULN_PAGE_SIZE / ULN_RECORD_PLACE_SIZE)
static_assert(!(SENDS & (SENDS - 1)) && SENDS <= DART_MAX_SENDS);
static_assert(DART_HOSTS * DART_STATE_SIZE <= ULN_PAGE_SIZE);

struct dart_own {
	struct uln_card *card;
	struct uln_records records;
	struct peer_service service;
	struct uln_file file;
	struct uln_fifo fifo;
	/* The connections' states. */
	struct uln_pages *states;
	/* The endpoint: a page that each host writes to, and one for messages to each host. */
	struct uln_pages *memory;
	/* Number of messages sent to each host. */
	u32 sent[DART_HOSTS];
};

static struct dart_own *own_of(struct peer_transport *transport)
{
	return container_of(transport, struct dart_own, records.transport);
}

static struct uln_card *service_card(const struct peer_service *service)
{
	return container_of(service, struct dart_own, service)->card;
}

/* Number of sends to @host that the card has completed. */
static u32 own_left(const struct dart_own *own, u32 host)
{
	const __le32 *left =
		page_address(own->states->page[0]) + host * DART_STATE_SIZE + DART_STATE_LEFT;
	u32 seen = le32_to_cpu(READ_ONCE(*left));

	dma_rmb(); /* The card read it before it left. */
	return seen;
}

static bool own_post(struct peer_transport *transport, u32 host, u32 entry,
		     const struct uln_wire *wire, const void *data, u32 length)
{
	struct dart_own *own = own_of(transport);
	u32 place = own->sent[host] % SENDS * ULN_RECORD_PLACE_SIZE, page = DART_HOSTS + host;
	void __iomem *registers = dart_parts(own->card)->pages + host * DART_PAGE_SIZE;
	u32 bytes;

	if (own->sent[host] - own_left(own, host) >= SENDS)
		return false;
	bytes = uln_record_write(&own->records, page_address(own->memory->page[page]) + place,
				 wire, data, length);
	own->sent[host]++;
	writeq(DART_MAIN_WRITE_MULTIPLE, registers + DART_SEND_CONTROL);
	writeq((u64)own->card->host * ULN_PAGE_SIZE + entry * ULN_RECORD_PLACE_SIZE,
	       registers + DART_SEND_OPERAND);
	writeq((u64)page * ULN_PAGE_SIZE + place, registers + DART_SEND_OFFSET);
	writel(bytes, registers + DART_SEND_LENGTH);
	return true;
}

static bool own_link(struct peer_transport *transport, u32 *host)
{
	return uln_link_host(own_of(transport)->card, host);
}

static const struct peer_transport_ops own_transport = {
	.link = own_link,
	.post = own_post,
	.take = uln_records_take,
	.more = uln_records_more,
	.read = uln_records_read,
	.reopen = uln_records_reopen,
};

static void own_message(struct peer_service *service, u32 host, const struct uln_head *wire,
			const u8 *data)
{
	dart_message(service_card(service), host, wire, data);
}

static void own_lost(struct peer_service *service, u32 host, u32 reason, bool restarted)
{
	dart_lost(service_card(service), host);
}

static bool own_depends(const struct peer_service *service, u32 host)
{
	return dart_parts(service_card(service))->arranged[host];
}

static const struct peer_service_ops own_service = {
	.kinds = BIT(ULN_WIRE_CARD),
	.message = own_message,
	.lost = own_lost,
	.depends = own_depends,
};

/* Called when a host has written to its page. */
void dart_own_arrived(struct uln_card *card, u32 connection)
{
	if (connection >= DART_HOSTS)
		return;
	dart_parts(card)->own->records.news |= BIT_ULL(connection);
	uln_system_arrived(card->system);
}

struct uln_fifo *dart_own_fifo(struct uln_card *card)
{
	return &dart_parts(card)->own->fifo;
}

/* Called once for a card, before it is started. */
int dart_own_init(struct uln_card *card)
{
	struct dart_own *own = kvzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	dart_parts(card)->own = own;
	own->card = card;
	uln_file_init(&own->file, card);
	own->file.drivers_own = true;
	own->file.number = ULN_OWN_NUMBER;
	own->records.transport.ops = &own_transport;
	own->service.ops = &own_service;
	return 0;
}

void dart_own_free(struct uln_card *card)
{
	kvfree(dart_parts(card)->own);
}

static int own_open_fifo(struct dart_own *own)
{
	struct dart_open_fifo body = { .records = cpu_to_le32(own->fifo.records) };

	own->fifo.taken = 0;
	uln_pages_describe(own->fifo.memory, &body.area);
	return uln_command(own->card, DART_COMMAND_OPEN_FIFO, 0, &body, sizeof(body));
}

static int own_open_endpoint(struct dart_own *own)
{
	struct dart_open_endpoint body = { .flags = cpu_to_le32(DART_ENDPOINT_PINNED) };

	uln_pages_describe(own->memory, &body.area);
	return uln_command(own->card, DART_COMMAND_OPEN_ENDPOINT, DART_SYSTEM_ENDPOINT, &body,
			   sizeof(body));
}

static int own_open_connection(struct dart_own *own, u32 host)
{
	struct dart_open_connection body = {
		.endpoint = cpu_to_le32(DART_SYSTEM_ENDPOINT),
		.host = cpu_to_le32(host),
		.events = cpu_to_le32(DART_NO_QUEUE),
		.exceptions = cpu_to_le32(DART_NO_QUEUE),
		.flags = cpu_to_le32(DART_CONNECTION_WRITE | DART_CONNECTION_SYSTEM),
		.key = cpu_to_le64(DART_SYSTEM_KEY),
	};

	own->sent[host] = 0;
	uln_pages_describe(own->states, &body.state);
	body.state.first = cpu_to_le32(host * DART_STATE_SIZE);
	body.state.length = cpu_to_le64(DART_STATE_SIZE);
	return uln_command(own->card, DART_COMMAND_OPEN_CONNECTION, host, &body, sizeof(body));
}

static int own_tell(struct dart_own *own)
{
	int ret = own_open_fifo(own) ?: own_open_endpoint(own);
	u32 host;

	for (host = 0; host < DART_HOSTS && !ret; host++)
		ret = own_open_connection(own, host);
	return ret;
}

static int own_open(struct dart_own *own)
{
	struct uln_card *card = own->card;
	int ret;

	guard(mutex)(&card->lock);
	if (!card->live)
		return -ENODEV;
	uln_records_begin(&own->records, own->memory);
	ret = own_tell(own);
	if (ret) {
		/* The card must not keep what is released. */
		uln_card_fail(card);
		return ret;
	}
	dart_pages_tell(card, true);
	uln_service_register(card->system, &own->service);
	uln_system_open(card->system, &own->records.transport);
	return 0;
}

/* Allocates all memory that the card is told of. */
static int own_prepare(struct dart_own *own)
{
	struct uln_file *file = &own->file;
	const struct dart_query *limits = dart_limits(own->card);

	own->fifo.records = roundup_pow_of_two(3 * limits->connections + limits->queues);
	return uln_pages_make(file, (u64)own->fifo.records * DART_FIFO_SIZE, &own->fifo.memory) ?:
	       uln_pages_make(file, ULN_PAGE_SIZE, &own->states) ?:
	       uln_pages_make(file, 2 * DART_HOSTS * ULN_PAGE_SIZE, &own->memory);
}

/*
 * Called when the card has been started. Without this no thread can sleep, no page can be found,
 * and no other host can be reached.
 */
void dart_own_start(struct uln_card *card)
{
	struct dart_own *own = dart_parts(card)->own;
	int ret = own_prepare(own) ?: own_open(own);

	if (!ret)
		return;
	dev_err(&card->pdev->dev, "what the driver needs for itself cannot be had (%d)\n", ret);
	guard(mutex)(&card->lock);
	if (card->live)
		uln_card_fail(card);
	dart_own_stop(card, NULL);
}

/* Ends what is arranged with others, and releases everything; the card's lock is held. */
void dart_own_stop(struct uln_card *card, struct uln_closed *closed)
{
	struct dart_own *own = dart_parts(card)->own;
	u32 host;

	uln_system_stop(card->system);
	for (host = 0; host < DART_HOSTS; host++)
		dart_farewells_lost(card, host);
	uln_pages_give_back(&own->fifo.memory);
	uln_pages_give_back(&own->states);
	uln_pages_give_back(&own->memory);
}
