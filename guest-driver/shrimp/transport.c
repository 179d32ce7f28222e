// SPDX-License-Identifier: GPL-2.0-only
/*
 * How operating systems reach each other: a page that is mapped out, by deliberate update, to the
 * other host's page for this one, wherever that is. A message is a record at one of the page's
 * places (core/uln_records.h).
 */
#include <linux/nospec.h>

#include "shrimp.h"
#include "uln_records.h"
#include "uln_service.h"

/* They fill one page. */
#define ARRIVALS (ULN_PAGE_SIZE / SHRIMP_ARRIVAL_SIZE)

static_assert(SHRIMP_HOSTS == ULN_RECORD_HOSTS);
static_assert(ARRIVALS >= SHRIMP_MIN_ARRIVALS && ARRIVALS <= SHRIMP_MAX_ARRIVALS);
static_assert(sizeof(struct shrimp_arrival) == SHRIMP_ARRIVAL_SIZE);

struct shrimp_own {
	struct uln_card *card;
	struct uln_records records;
	struct peer_service service;
	/* The owner of the objects that are opened. */
	struct uln_file file;
	/* A page for each host, each way; and the arrival queue. */
	struct uln_pages *out;
	struct uln_pages *in;
	struct uln_pages *ring;
	u32 taken;
};

static struct shrimp_own *own_of(struct peer_transport *transport)
{
	return container_of(transport, struct shrimp_own, records.transport);
}

static struct uln_card *service_card(const struct peer_service *service)
{
	return container_of(service, struct shrimp_own, service)->card;
}

static bool own_post(struct peer_transport *transport, u32 host, u32 entry,
		     const struct uln_wire *wire, const void *data, u32 length)
{
	struct shrimp_own *own = own_of(transport);
	struct uln_record *record =
		page_address(own->out->page[host]) + entry * ULN_RECORD_PLACE_SIZE;
	u64 command = (u64)shrimp_pfn(own->out, host) * ULN_PAGE_SIZE +
		      entry * ULN_RECORD_PLACE_SIZE;
	u32 bytes = uln_record_write(&own->records, record, wire, data, length);

	wmb(); /* The card reads the whole record when it sees the command. */
	writel(bytes / sizeof(u32), shrimp_parts(own->card)->commands + command);
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
	shrimp_message(service_card(service), host, wire, data);
}

static void own_lost(struct peer_service *service, u32 host, u32 reason, bool restarted)
{
	shrimp_lost(service_card(service), host);
}

static bool own_depends(const struct peer_service *service, u32 host)
{
	return shrimp_parts(service_card(service))->arranged[host];
}

static const struct peer_service_ops own_service = {
	.kinds = BIT(ULN_WIRE_CARD),
	.message = own_message,
	.lost = own_lost,
	.depends = own_depends,
};

/* Called when something has arrived in the page that a host's operating system sends to. */
void shrimp_own_arrived(struct uln_card *card, u32 host)
{
	shrimp_parts(card)->own->records.news |= BIT_ULL(array_index_nospec(host, SHRIMP_HOSTS));
	uln_system_arrived(card->system);
}

/* Returns the arrival queue, and how many of its records have been taken; NULL: it is not open. */
const struct shrimp_arrival *shrimp_own_arrivals(struct uln_card *card, u32 *count, u32 **taken)
{
	struct shrimp_own *own = shrimp_parts(card)->own;

	if (!own->ring)
		return NULL;
	*count = ARRIVALS;
	*taken = &own->taken;
	return page_address(own->ring->page[0]);
}

/* Called once for a card, before it is started. */
int shrimp_own_init(struct uln_card *card)
{
	struct shrimp_own *own = kvzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	shrimp_parts(card)->own = own;
	own->card = card;
	uln_file_init(&own->file, card);
	own->file.drivers_own = true;
	own->records.transport.ops = &own_transport;
	own->service.ops = &own_service;
	return 0;
}

void shrimp_own_free(struct uln_card *card)
{
	kvfree(shrimp_parts(card)->own);
}

/* Allocates memory of the driver's own that the card can reach, under the same addresses. */
static int own_memory(struct shrimp_own *own, u32 pages, struct uln_pages **memory)
{
	return uln_pages_make(&own->file, (u64)pages * ULN_PAGE_SIZE, memory) ?:
	       shrimp_memory_check(own->card, *memory);
}

/* Opens the pages for messages to and from a host. */
static int own_open_host(struct shrimp_own *own, u32 host)
{
	u32 pfn = shrimp_pfn(own->in, host);
	struct shrimp_system_page in = { .page = cpu_to_le64(pfn), .mapped = cpu_to_le32(1) };
	struct shrimp_entry out = {
		.split_out = cpu_to_le32(ULN_PAGE_SIZE),
		.out[0] = {
			.page = cpu_to_le64(SHRIMP_SYSTEM_PAGE),
			.node = cpu_to_le32(host),
			.mode = cpu_to_le32(SHRIMP_MODE_DELIBERATE),
		},
	};

	return shrimp_claim_system(own->card, pfn, host) ?:
	       uln_command(own->card, SHRIMP_COMMAND_SET_SYSTEM_PAGE, host, &in, sizeof(in)) ?:
	       uln_command(own->card, SHRIMP_COMMAND_SET_ENTRY, shrimp_pfn(own->out, host), &out,
			   sizeof(out));
}

static int own_open(struct shrimp_own *own)
{
	struct shrimp_open_arrivals arrivals = { .records = cpu_to_le32(ARRIVALS) };
	struct uln_card *card = own->card;
	u32 host;
	int ret;

	guard(mutex)(&card->lock);
	if (!card->live)
		return -ENODEV;
	own->taken = 0;
	uln_records_begin(&own->records, own->in);
	uln_pages_describe(own->ring, &arrivals.queue);
	ret = uln_command(card, SHRIMP_COMMAND_OPEN_ARRIVALS, 0, &arrivals, sizeof(arrivals));
	for (host = 0; host < SHRIMP_HOSTS && !ret; host++)
		ret = own_open_host(own, host);
	if (ret) {
		/* The card must not keep what is released. */
		uln_card_fail(card);
		return ret;
	}
	uln_service_register(card->system, &own->service);
	uln_system_open(card->system, &own->records.transport);
	return 0;
}

/* Called when the card has been started. Without this there are no connections and no mappings. */
void shrimp_own_start(struct uln_card *card)
{
	struct shrimp_own *own = shrimp_parts(card)->own;
	int ret;

	ret = own_memory(own, SHRIMP_HOSTS, &own->out) ?: own_memory(own, SHRIMP_HOSTS, &own->in) ?:
	      own_memory(own, 1, &own->ring) ?: own_open(own);
	if (!ret)
		return;
	dev_err(&card->pdev->dev, "other hosts cannot be reached (%d)\n", ret);
	guard(mutex)(&card->lock);
	shrimp_own_stop(card, NULL);
}

/* Ends what is arranged with others, and releases everything; the card's lock is held. */
void shrimp_own_stop(struct uln_card *card, struct uln_closed *closed)
{
	struct shrimp_own *own = shrimp_parts(card)->own;
	u32 host;

	uln_system_stop(card->system);
	for (host = 0; host < SHRIMP_HOSTS; host++) {
		shrimp_imports_lost(card, host);
		shrimp_mappings_lost(card, host);
		if (own->in)
			shrimp_disclaim_system(card, shrimp_pfn(own->in, host));
	}
	uln_pages_give_back(&own->out);
	uln_pages_give_back(&own->in);
	uln_pages_give_back(&own->ring);
}
