// SPDX-License-Identifier: GPL-2.0-only
/*
 * How operating systems reach each other: a page that is mapped out, by deliberate update, to the
 * page that the other host's has for this one's, wherever that is. A message is a record at one of
 * the page's places. Neither side waits for the other: a record may be overwritten, and may be
 * looked at while it is written, so it has a checksum and a number. What is lost is sent again
 * (kernel/peer.c).
 */
#include <linux/crc32.h>
#include <linux/nospec.h>
#include <linux/random.h>

#include "shrimp.h"

#define PLACES (2 * HAMLYN_WELL_KNOWN_PLACES)
#define PLACE_SIZE HAMLYN_WELL_KNOWN_PLACE_SIZE
/* In one page. */
#define ARRIVALS (HAMLYN_PAGE_SIZE / SHRIMP_ARRIVAL_SIZE)

static_assert(PLACES * PLACE_SIZE <= HAMLYN_PAGE_SIZE);
static_assert(sizeof(struct shrimp_record) <= PLACE_SIZE);
static_assert(sizeof_field(struct shrimp_record, data) == HAMLYN_MAX_NAME + HAMLYN_MAX_PRIVATE);
static_assert(ARRIVALS >= SHRIMP_MIN_ARRIVALS && ARRIVALS <= SHRIMP_MAX_ARRIVALS);
static_assert(sizeof(struct shrimp_arrival) == SHRIMP_ARRIVAL_SIZE);

struct shrimp_own {
	struct hamlyn_card *card;
	struct peer_transport transport;
	/* The owner of what is opened. */
	struct hamlyn_file file;
	/* A page for each host, each way; and the arrival queue. */
	struct hamlyn_pages *out;
	struct hamlyn_pages *in;
	struct hamlyn_pages *ring;
	u32 taken;
	/* The last record's number, of ours and of those that were looked at. */
	u32 serial;
	u32 seen[SHRIMP_HOSTS][PLACES];
	/* Hosts whose pages are to be looked at, and whose turn it is. */
	u64 news;
	u32 turn;
	/* What was taken: it stays until its place is opened again. */
	u8 locked[SHRIMP_HOSTS];
	struct shrimp_record record[SHRIMP_HOSTS][PLACES];
};

static struct shrimp_own *own_of(struct peer_transport *transport)
{
	return container_of(transport, struct shrimp_own, transport);
}

static struct shrimp_record *own_place(const struct hamlyn_pages *pages, u32 host, u32 entry)
{
	return page_address(pages->page[host]) + entry * PLACE_SIZE;
}

static u32 record_checksum(const struct shrimp_record *record, u32 length)
{
	return crc32_le(~0, (const u8 *)&record->serial,
			offsetof(struct shrimp_record, data) -
				offsetof(struct shrimp_record, serial) + length) ^ ~0;
}

static bool own_post(struct peer_transport *transport, u32 host, u32 entry,
		     const struct hamlyn_wire *wire, const void *data, u32 length)
{
	struct shrimp_own *own = own_of(transport);
	struct shrimp_record *record = own_place(own->out, host, entry);
	u64 command = (u64)shrimp_pfn(own->out, host) * HAMLYN_PAGE_SIZE + entry * PLACE_SIZE;

	if (!++own->serial)
		own->serial = 1;
	record->serial = own->serial;
	record->wire = *wire;
	if (length)
		memcpy(record->data, data, length);
	record->checksum = record_checksum(record, length);
	wmb(); /* The card reads the whole record when it sees the command. */
	writel(DIV_ROUND_UP(offsetof(struct shrimp_record, data) + length, sizeof(u32)),
	       shrimp_parts(own->card)->commands + command);
	return true;
}

/* Copies what is at a place, if it is whole and was not looked at before. */
static bool own_copy(struct shrimp_own *own, u32 host, u32 entry)
{
	struct shrimp_record *copy = &own->record[host][entry];
	u32 length;

	memcpy(copy, own_place(own->in, host, entry), sizeof(*copy));
	if (!copy->serial || copy->serial == own->seen[host][entry])
		return false;
	if (copy->wire.name_length > HAMLYN_MAX_NAME ||
	    copy->wire.private_length > HAMLYN_MAX_PRIVATE)
		return false;
	length = copy->wire.name_length + copy->wire.private_length;
	if (copy->checksum != record_checksum(copy, length))
		return false;
	own->seen[host][entry] = copy->serial;
	return true;
}

static bool own_take_from(struct shrimp_own *own, u32 host, u32 *entry)
{
	for (*entry = 0; *entry < PLACES; ++*entry) {
		if (!(own->locked[host] & BIT(*entry)) && own_copy(own, host, *entry)) {
			own->locked[host] |= BIT(*entry);
			return true;
		}
	}
	return false;
}

static bool own_take(struct peer_transport *transport, u32 *host, u32 *entry)
{
	struct shrimp_own *own = own_of(transport);

	while (own->news) {
		*host = hamlyn_turn_of(own->news, own->turn);
		if (own_take_from(own, *host, entry)) {
			own->turn = (*host + 1) % SHRIMP_HOSTS;
			return true;
		}
		own->news &= ~BIT_ULL(*host);
	}
	return false;
}

static bool own_more(struct peer_transport *transport)
{
	/* What comes later is reported. */
	return own_of(transport)->news;
}

static const u8 *own_read(struct peer_transport *transport, u32 host, u32 entry,
			  struct hamlyn_wire *wire)
{
	const struct shrimp_record *record = &own_of(transport)->record[host][entry];

	*wire = record->wire;
	return record->data;
}

static void own_reopen(struct peer_transport *transport, u32 host, u32 entry)
{
	struct shrimp_own *own = own_of(transport);

	if (!(own->locked[host] & BIT(entry)))
		return;
	own->locked[host] &= ~BIT(entry);
	/* Another may have come meanwhile. */
	own->news |= BIT_ULL(host);
}

static bool own_link(struct peer_transport *transport, u32 *host)
{
	struct hamlyn_card *card = own_of(transport)->card;

	hamlyn_card_report_link(card);
	*host = card->host;
	return card->link;
}

static void own_message(struct peer_transport *transport, u32 host, const struct hamlyn_wire *wire,
			const u8 *data)
{
	shrimp_message(own_of(transport)->card, host, wire, data);
}

static void own_lost(struct peer_transport *transport, u32 host)
{
	shrimp_lost(own_of(transport)->card, host);
}

static bool own_depends(struct peer_transport *transport, u32 host)
{
	return shrimp_parts(own_of(transport)->card)->arranged[host];
}

static const struct peer_transport_ops own_transport = {
	.link = own_link,
	.post = own_post,
	.take = own_take,
	.more = own_more,
	.read = own_read,
	.reopen = own_reopen,
	.message = own_message,
	.lost = own_lost,
	.depends = own_depends,
};

/* Something has arrived in the page that a host's operating system sends to. */
void shrimp_own_arrived(struct hamlyn_card *card, u32 host)
{
	shrimp_parts(card)->own->news |= BIT_ULL(array_index_nospec(host, SHRIMP_HOSTS));
	hamlyn_system_arrived(card->system);
}

/* The arrival queue, and how many records of it have been taken; none: it is not open. */
const struct shrimp_arrival *shrimp_own_arrivals(struct hamlyn_card *card, u32 *count, u32 **taken)
{
	struct shrimp_own *own = shrimp_parts(card)->own;

	if (!own->ring)
		return NULL;
	*count = ARRIVALS;
	*taken = &own->taken;
	return page_address(own->ring->page[0]);
}

/* Once for a card, before it is started. */
int shrimp_own_init(struct hamlyn_card *card)
{
	struct shrimp_own *own = kvzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	shrimp_parts(card)->own = own;
	own->card = card;
	hamlyn_file_init(&own->file, card);
	own->file.drivers_own = true;
	own->transport.ops = &own_transport;
	return 0;
}

void shrimp_own_free(struct hamlyn_card *card)
{
	kvfree(shrimp_parts(card)->own);
}

/* Memory of the driver's own that the card can reach, under the same addresses. */
static int own_memory(struct shrimp_own *own, u32 pages, struct hamlyn_pages **memory)
{
	struct hamlyn_pages *made = hamlyn_pages_alloc(&own->file, (u64)pages * HAMLYN_PAGE_SIZE);

	if (IS_ERR(made))
		return PTR_ERR(made);
	*memory = made;
	return hamlyn_pages_map(made, own->card) ?: shrimp_memory_check(own->card, made);
}

/* The pages that messages to and from a host go by. */
static int own_open_host(struct shrimp_own *own, u32 host)
{
	struct shrimp_system_page in = { .page = shrimp_pfn(own->in, host), .mapped = 1 };
	struct shrimp_entry out = {
		.split_out = HAMLYN_PAGE_SIZE,
		.out[0] = {
			.page = SHRIMP_SYSTEM_PAGE,
			.node = host,
			.mode = SHRIMP_MODE_DELIBERATE,
		},
	};

	return shrimp_claim_system(own->card, in.page, host) ?:
	       hamlyn_command(own->card, SHRIMP_COMMAND_SET_SYSTEM_PAGE, host, &in, sizeof(in)) ?:
	       hamlyn_command(own->card, SHRIMP_COMMAND_SET_ENTRY, shrimp_pfn(own->out, host), &out,
			      sizeof(out));
}

static int own_open(struct shrimp_own *own)
{
	struct shrimp_open_arrivals arrivals = { .records = ARRIVALS };
	struct hamlyn_card *card = own->card;
	u32 host;
	int ret;

	guard(mutex)(&card->lock);
	if (!card->live)
		return -ENODEV;
	own->taken = 0;
	own->news = 0;
	own->turn = 0;
	own->serial = get_random_u32();
	memset(own->seen, 0, sizeof(own->seen));
	memset(own->locked, 0, sizeof(own->locked));
	hamlyn_pages_describe(own->ring, &arrivals.queue);
	ret = hamlyn_command(card, SHRIMP_COMMAND_OPEN_ARRIVALS, 0, &arrivals, sizeof(arrivals));
	for (host = 0; host < SHRIMP_HOSTS && !ret; host++)
		ret = own_open_host(own, host);
	if (ret)
		/* It must not keep what is given back. */
		hamlyn_card_fail(card);
	else
		hamlyn_system_open(card->system, &own->transport);
	return ret;
}

/* The card has been started. Without this there are neither connections nor mappings. */
void shrimp_own_start(struct hamlyn_card *card)
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

static void own_give_back(struct hamlyn_pages **memory)
{
	hamlyn_pages_free(*memory);
	*memory = NULL;
}

/* Ends what is arranged with others, and gives all back; the card's lock is held. */
void shrimp_own_stop(struct hamlyn_card *card, struct hamlyn_closed *closed)
{
	struct shrimp_own *own = shrimp_parts(card)->own;
	u32 host;

	hamlyn_system_stop(card->system);
	for (host = 0; host < SHRIMP_HOSTS; host++) {
		shrimp_imports_lost(card, host);
		shrimp_mappings_lost(card, host);
		if (own->in)
			shrimp_disclaim_system(card, shrimp_pfn(own->in, host));
	}
	own_give_back(&own->out);
	own_give_back(&own->in);
	own_give_back(&own->ring);
}
