// SPDX-License-Identifier: GPL-2.0-only
/*
 * How operating systems reach each other, by objects that processes have as well (section 3.1).
 * Each has an aperture with a part for every other host. That host's card writes records
 * (core/uln_records.h) there by DMA; a Tripwire over all of it reports them.
 */
#include <linux/random.h>

#include "clan.h"
#include "uln_records.h"
#include "uln_service.h"

/* DMA requests of the driver's own endpoint; each has a place of its own for what it sends. */
#define REQUESTS 256

static_assert(CLAN_PART == ULN_PAGE_SIZE && CLAN_HOSTS == ULN_RECORD_HOSTS);
static_assert(REQUESTS >= CLAN_MIN_REQUESTS && REQUESTS <= CLAN_MAX_REQUESTS);

struct clan_own {
	struct uln_card *card;
	struct uln_records records;
	struct peer_service service;
	/* The owner of the objects that are opened. */
	struct uln_file file;
	struct uln_fifo fifo;
	/* The endpoint's memory, and how many requests were put there. */
	struct uln_pages *memory;
	u32 put;
	/* A part for each host, and a place for each request. */
	struct uln_pages *in;
	struct uln_pages *out;
};

static struct clan_own *own_of(struct peer_transport *transport)
{
	return container_of(transport, struct clan_own, records.transport);
}

static struct uln_card *service_card(const struct peer_service *service)
{
	return container_of(service, struct clan_own, service)->card;
}

/* Returns the record that a request sends, and sets its offset in the aperture. */
static struct uln_record *own_place(struct clan_own *own, u32 request, u64 *offset)
{
	*offset = (u64)(request % REQUESTS) * ULN_RECORD_PLACE_SIZE;
	return page_address(own->out->page[*offset / ULN_PAGE_SIZE]) +
	       *offset % ULN_PAGE_SIZE;
}

static bool own_post(struct peer_transport *transport, u32 host, u32 entry,
		     const struct uln_wire *wire, const void *data, u32 length)
{
	struct clan_own *own = own_of(transport);
	struct clan_request request = {
		.opcode = cpu_to_le32(CLAN_DMA_WRITE),
		.local_aperture = cpu_to_le32(CLAN_OWN_RECORDS),
		.host = cpu_to_le32(host),
		.aperture = cpu_to_le32(CLAN_SYSTEM_APERTURE),
		.key = cpu_to_le64(CLAN_SYSTEM_KEY),
		.offset = cpu_to_le64(entry * ULN_RECORD_PLACE_SIZE),
	};
	struct uln_record *record;
	u64 offset;
	u32 bytes;

	if (own->put - clan_state_read(own->memory, CLAN_STATE_DONE) >= REQUESTS)
		return false;
	dma_rmb(); /* What the place held was sent before it was done. */
	record = own_place(own, own->put, &offset);
	bytes = uln_record_write(&own->records, record, wire, data, length);
	request.local_offset = cpu_to_le64(offset);
	request.length = cpu_to_le64(bytes);
	*clan_request_at(own->memory, own->put, REQUESTS) = request;
	clan_requests_go(own->card, CLAN_OWN_ENDPOINT, own->memory, ++own->put);
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
	clan_message(service_card(service), host, wire, data);
}

static void own_lost(struct peer_service *service, u32 host, u32 reason, bool restarted)
{
	clan_lost(service_card(service), host);
}

static void own_dropped(struct peer_service *service, u32 host, const struct uln_head *wire,
			const u8 *data)
{
	clan_dropped(service_card(service), host, wire, data);
}

static bool own_depends(const struct peer_service *service, u32 host)
{
	return clan_parts(service_card(service))->arranged[host];
}

static const struct peer_service_ops own_service = {
	.kinds = BIT(ULN_WIRE_CARD),
	.message = own_message,
	.lost = own_lost,
	.dropped = own_dropped,
	.depends = own_depends,
};

/*
 * The Tripwire has fired: something has arrived, from any host. It may be a part of a record; the
 * rest fires it again.
 */
void clan_own_arrived(struct uln_card *card)
{
	struct clan_own *own = clan_parts(card)->own;

	clan_clear_bit(own->memory, CLAN_OWN_TRIPWIRE);
	own->records.news = U64_MAX;
	uln_system_arrived(card->system);
}

struct uln_fifo *clan_own_fifo(struct uln_card *card)
{
	return &clan_parts(card)->own->fifo;
}

/* Called once for a card, before it is started. */
int clan_own_init(struct uln_card *card)
{
	struct clan_own *own = kvzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	clan_parts(card)->own = own;
	own->card = card;
	uln_file_init(&own->file, card);
	own->file.drivers_own = true;
	own->file.number = ULN_OWN_NUMBER;
	own->records.transport.ops = &own_transport;
	own->service.ops = &own_service;
	return 0;
}

void clan_own_free(struct uln_card *card)
{
	kvfree(clan_parts(card)->own);
}

static int own_open_fifo(struct clan_own *own)
{
	struct clan_open_fifo body = { .records = cpu_to_le32(own->fifo.records) };

	own->fifo.taken = 0;
	uln_pages_describe(own->fifo.memory, &body.area);
	return uln_command(own->card, CLAN_COMMAND_OPEN_FIFO, 0, &body, sizeof(body));
}

/* Opens the apertures that other hosts write to, and that this host sends from. */
static int own_open_apertures(struct clan_own *own)
{
	struct clan_open_aperture in = {
		.key = cpu_to_le64(CLAN_SYSTEM_KEY),
		.owner = cpu_to_le32(own->file.number),
		.flags = cpu_to_le32(CLAN_APERTURE_WRITE | CLAN_APERTURE_PRIVILEGED |
				     CLAN_APERTURE_PARTS),
	};
	struct clan_open_aperture out = {
		.key = cpu_to_le64(get_random_u64()),
		.owner = cpu_to_le32(own->file.number),
	};

	uln_pages_describe(own->in, &in.area);
	uln_pages_describe(own->out, &out.area);
	return uln_command(own->card, CLAN_COMMAND_OPEN_APERTURE, CLAN_SYSTEM_APERTURE, &in,
			   sizeof(in)) ?:
	       uln_command(own->card, CLAN_COMMAND_OPEN_APERTURE, CLAN_OWN_RECORDS, &out,
			   sizeof(out));
}

static int own_open_endpoint(struct clan_own *own)
{
	struct clan_open_endpoint body = {
		.owner = cpu_to_le32(own->file.number),
		.tripwires = cpu_to_le32(CLAN_OWN_TRIPWIRES),
		.requests = cpu_to_le32(REQUESTS),
		.events = cpu_to_le32(CLAN_NO_EVENTS),
		.flags = cpu_to_le32(CLAN_PRIVILEGED),
	};

	uln_pages_describe(own->memory, &body.memory);
	return uln_command(own->card, CLAN_COMMAND_OPEN_ENDPOINT, CLAN_OWN_ENDPOINT, &body,
			   sizeof(body));
}

/* Makes it fire for all that comes from other hosts. */
static int own_set_tripwire(struct clan_own *own)
{
	return clan_tripwire_set(own->card, CLAN_OWN_ENDPOINT, own->memory, CLAN_SYSTEM_APERTURE, 0,
				 own->in->length, CLAN_TRIPWIRE_FIFO | CLAN_TRIPWIRE_BIT);
}

static int own_open(struct clan_own *own)
{
	struct uln_card *card = own->card;
	int ret;

	guard(mutex)(&card->lock);
	if (!card->live)
		return -ENODEV;
	own->put = 0;
	uln_records_begin(&own->records, own->in);
	ret = own_open_fifo(own) ?: own_open_apertures(own) ?: own_open_endpoint(own) ?:
	      own_set_tripwire(own);
	if (ret) {
		/* The card must not keep what is released. */
		uln_card_fail(card);
		return ret;
	}
	uln_service_register(card->system, &own->service);
	uln_system_open(card->system, &own->records.transport);
	return 0;
}

/* Allocates all memory that the card is told of. */
static int own_prepare(struct clan_own *own)
{
	struct uln_file *file = &own->file;
	const struct clan_limits *limits = clan_limits(own->card);
	u32 most = limits->query.endpoints + limits->event_queues + limits->query.tripwires;

	own->fifo.records = roundup_pow_of_two(most);
	return uln_pages_make(file, (u64)own->fifo.records * CLAN_FIFO_SIZE, &own->fifo.memory) ?:
	       uln_pages_make(file, CLAN_STATE_SIZE + REQUESTS * CLAN_REQUEST_SIZE, &own->memory) ?:
	       uln_pages_make(file, CLAN_HOSTS * CLAN_PART, &own->in) ?:
	       uln_pages_make(file, REQUESTS * ULN_RECORD_PLACE_SIZE, &own->out);
}

/* Called when the card has started. Without this no thread can sleep, and no host is reached. */
void clan_own_start(struct uln_card *card)
{
	struct clan_own *own = clan_parts(card)->own;
	int ret = own_prepare(own) ?: own_open(own);

	if (!ret)
		return;
	dev_err(&card->pdev->dev, "what the driver needs for itself cannot be had (%d)\n", ret);
	guard(mutex)(&card->lock);
	if (card->live)
		uln_card_fail(card);
	clan_own_stop(card, NULL);
}

/* Ends what is arranged with others, and releases everything; the card's lock is held. */
void clan_own_stop(struct uln_card *card, struct uln_closed *closed)
{
	struct clan_own *own = clan_parts(card)->own;
	u32 host;

	uln_system_stop(card->system);
	for (host = 0; host < CLAN_HOSTS; host++)
		clan_farewells_lost(card, host);
	uln_pages_give_back(&own->fifo.memory);
	uln_pages_give_back(&own->memory);
	uln_pages_give_back(&own->in);
	uln_pages_give_back(&own->out);
}
