// SPDX-License-Identifier: GPL-2.0-only
/*
 * Well-known slots (section 6.3 of the paper): the driver's own terminus, notification queue and
 * slots, one slot for the operating system of each remote host.
 *
 * The slots are privileged: for slot h the card takes only what the driver of host h has sent. They
 * are in paranoid one-shot mode, so a message cannot change while it is read. The queue has more
 * entries than there can be messages, so it is never overrun.
 */
#include "hamlyn.h"
#include "uln_transport.h"

#define WELLKNOWN_PLACES ULN_WELL_KNOWN_PLACES
#define WELLKNOWN_ENTRIES (2 * WELLKNOWN_PLACES)
/* A slot's page: the places, then the metadata entries. */
#define WELLKNOWN_METADATA (WELLKNOWN_PLACES * ULN_WELL_KNOWN_PLACE_SIZE)
#define QUEUE_ENTRIES (2 * ULN_WELL_KNOWN_SLOTS * WELLKNOWN_ENTRIES)

static_assert(WELLKNOWN_METADATA + WELLKNOWN_ENTRIES * HAMLYN_METADATA_SIZE <= ULN_PAGE_SIZE);
static_assert(sizeof(struct uln_wire) <= HAMLYN_MAX_METADATA);
static_assert(sizeof(struct uln_wire) % 8 == 0);
static_assert(ULN_MAX_NAME + ULN_MAX_PRIVATE <= ULN_WELL_KNOWN_PLACE_SIZE);
static_assert(sizeof(struct uln_wire) + ULN_MAX_NAME + ULN_MAX_PRIVATE <=
	      HAMLYN_BODY_SIZE);

struct hamlyn_wellknown {
	struct uln_card *card;
	struct peer_transport transport;
	/* The owner of the objects that are opened. */
	struct uln_file file;
	struct hamlyn_terminus *terminus;

	struct hamlyn_queue *queue;
	u32 cursor;
	u32 pass;
	/* On file.wait: starts a check of the queue. */
	struct wait_queue_entry woken;
	/* The slots' memory. */
	void *page[ULN_WELL_KNOWN_SLOTS];
};

static struct hamlyn_wellknown *wellknown_of(struct peer_transport *transport)
{
	return container_of(transport, struct hamlyn_wellknown, transport);
}

/* Returns the offset of an entry's place; acknowledgements have none. */
static u32 wellknown_offset(u32 entry)
{
	return entry < WELLKNOWN_PLACES ? entry * ULN_WELL_KNOWN_PLACE_SIZE : 0;
}

/* Sends one packet to the operating system of a host; false if the work queue is full. */
static bool wellknown_post(struct peer_transport *transport, u32 host, u32 entry,
			   const struct uln_wire *wire, const void *data, u32 length)
{
	struct hamlyn_wellknown *own = wellknown_of(transport);
	struct hamlyn_request request = {
		.destination = cpu_to_le32(host),
		.slot = cpu_to_le32(own->card->host),
		.metadata_index = cpu_to_le32(entry),
		.key = cpu_to_le64(ULN_WELL_KNOWN_KEY),
		.offset = cpu_to_le32(wellknown_offset(entry)),
		.length = cpu_to_le32(length),
		.metadata_length = cpu_to_le32(sizeof(*wire)),
	};

	return hamlyn_post(own->terminus, &request, wire, sizeof(*wire), data, length);
}

/* Returns the next notification's host and entry; false if there is none. */
static bool wellknown_take(struct peer_transport *transport, u32 *host, u32 *entry)
{
	struct hamlyn_wellknown *own = wellknown_of(transport);
	const struct hamlyn_notification *notification;
	u64 pointer;

	notification = hamlyn_queue_take(own->queue, &own->cursor, &own->pass);
	if (!notification)
		return false;
	/* Slots are numbered by their hosts; pointers count from the start of a metadata area. */
	*host = le32_to_cpu(notification->slot) % ULN_WELL_KNOWN_SLOTS;
	pointer = le64_to_cpu(notification->metadata);
	*entry = pointer / HAMLYN_METADATA_SIZE % WELLKNOWN_ENTRIES;
	return true;
}

static bool wellknown_more(struct peer_transport *transport)
{
	struct hamlyn_wellknown *own = wellknown_of(transport);

	return hamlyn_queue_ready(own->queue, own->cursor, own->pass);
}

static struct hamlyn_metadata_entry *wellknown_entry(struct hamlyn_wellknown *own, u32 host,
						     u32 entry)
{
	struct hamlyn_metadata_entry *entries = own->page[host] + WELLKNOWN_METADATA;

	return &entries[entry];
}

static const u8 *wellknown_read(struct peer_transport *transport, u32 host, u32 entry,
				struct uln_wire *wire)
{
	struct hamlyn_wellknown *own = wellknown_of(transport);

	memcpy(wire, wellknown_entry(own, host, entry)->user, sizeof(*wire));
	return own->page[host] + entry % WELLKNOWN_PLACES * ULN_WELL_KNOWN_PLACE_SIZE;
}

/* Lets the card put a message into an entry, and its place, again. */
static void wellknown_reopen(struct peer_transport *transport, u32 host, u32 entry)
{
	struct hamlyn_metadata_entry *metadata =
		wellknown_entry(wellknown_of(transport), host, entry);

	WRITE_ONCE(metadata->accumulator, 0);
	dma_mb(); /* An entry that is seen open is empty, and was read. */
	WRITE_ONCE(metadata->one_shot, cpu_to_le32(HAMLYN_ONE_SHOT_OPEN));
}

static bool wellknown_link(struct peer_transport *transport, u32 *host)
{
	return uln_link_host(wellknown_of(transport)->card, host);
}

static const struct peer_transport_ops wellknown_transport = {
	.link = wellknown_link,
	.post = wellknown_post,
	.take = wellknown_take,
	.more = wellknown_more,
	.read = wellknown_read,
	.reopen = wellknown_reopen,
};

static int wellknown_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct hamlyn_wellknown *own = container_of(entry, struct hamlyn_wellknown, woken);

	uln_system_arrived(own->card->system);
	return 1;
}

/* Called once for a card, before it is started; freed with the card's structure. */
int hamlyn_wellknown_init(struct uln_card *card)
{
	struct hamlyn_wellknown *own = kzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	hamlyn_parts(card)->wellknown = own;
	own->card = card;
	uln_file_init(&own->file, card);
	own->file.drivers_own = true;
	init_waitqueue_func_entry(&own->woken, wellknown_wake);
	add_wait_queue(&own->file.wait, &own->woken);
	own->transport.ops = &wellknown_transport;
	return 0;
}

void hamlyn_wellknown_free(struct uln_card *card)
{
	kfree(hamlyn_parts(card)->wellknown);
}

/* Each entry of a slot takes messages of a place, or of none. */
static void wellknown_lay_out(struct hamlyn_wellknown *own, u32 host, void *page)
{
	unsigned int i;
	u32 low, size;

	own->page[host] = page;
	for (i = 0; i < WELLKNOWN_ENTRIES; i++) {
		struct hamlyn_metadata_entry *entry = wellknown_entry(own, host, i);

		low = wellknown_offset(i);
		size = i < WELLKNOWN_PLACES ? ULN_WELL_KNOWN_PLACE_SIZE : 0;
		entry->key = cpu_to_le64(ULN_WELL_KNOWN_KEY);
		entry->low = cpu_to_le64(low);
		entry->high = cpu_to_le64(low + size);
	}
}

static int wellknown_open_slots(struct hamlyn_wellknown *own)
{
	struct hamlyn_open_slot body = {
		.metadata_entries = cpu_to_le32(WELLKNOWN_ENTRIES),
		.mode = cpu_to_le32(HAMLYN_MODE_PARANOID_ONE_SHOT),
		.queue = cpu_to_le32(own->queue->object.index),
		.flags = cpu_to_le32(HAMLYN_SLOT_INTERRUPT | HAMLYN_SLOT_PRIVILEGED),
	};
	struct hamlyn_slot *slot;
	u32 host;

	for (host = 0; host < ULN_WELL_KNOWN_SLOTS; host++) {
		slot = hamlyn_slot_open_page(&own->file, host, own->queue, &body,
					     WELLKNOWN_METADATA);
		if (IS_ERR(slot))
			return PTR_ERR(slot);
		wellknown_lay_out(own, host, page_address(slot->area->page[0]));
	}
	return 0;
}

static int wellknown_open(struct hamlyn_wellknown *own)
{
	struct hamlyn_queue_create queue = { .entries = QUEUE_ENTRIES };
	struct hamlyn_terminus_create terminus = {};
	struct uln_card *card = own->card;
	struct hamlyn_parts *parts = hamlyn_parts(card);
	int ret;

	ret = hamlyn_terminus_create(&own->file, &terminus);
	if (ret)
		return ret;
	ret = hamlyn_queue_create(&own->file, &queue);
	if (ret)
		return ret;

	guard(mutex)(&card->lock);
	if (!card->live)
		return -ENODEV;
	own->terminus = xa_load(&parts->termini, terminus.terminus);
	own->queue = xa_load(&parts->queues, queue.queue);
	own->cursor = 0;
	own->pass = 0;
	ret = hamlyn_post_open(own->terminus) ?: wellknown_open_slots(own);
	if (ret)
		return ret;
	uln_system_open(card->system, &own->transport);
	return 0;
}

/* Called when the card has been started. It works without connections, too. */
void hamlyn_wellknown_start(struct uln_card *card)
{
	struct hamlyn_wellknown *own = hamlyn_parts(card)->wellknown;
	int ret = hamlyn_wellknown_slots(card) ? wellknown_open(own) : -ENOSPC;
	struct uln_closed closed;

	if (!ret)
		return;
	dev_warn(&card->pdev->dev, "no connections: %s (%d)\n",
		 ret == -ENOSPC ? "the card has no room for well-known slots" :
				  "well-known slots cannot be opened", ret);
	uln_closed_init(&closed, card);
	scoped_guard(mutex, &card->lock)
		hamlyn_wellknown_stop(card, &closed);
	uln_closed_release(&closed);
}

/* Closes everything, some of it to be released; the card's lock is held. */
void hamlyn_wellknown_stop(struct uln_card *card, struct uln_closed *closed)
{
	struct hamlyn_wellknown *own = hamlyn_parts(card)->wellknown;

	uln_system_stop(card->system);
	while (uln_file_close_next(&own->file, closed))
		;
}
