// SPDX-License-Identifier: GPL-2.0-only
/*
 * Well-known slots (section 6.3 of the paper): the driver's own terminus, notification queue and
 * slots, one slot for the operating system of each remote host.
 *
 * The slots are privileged: for slot h the card takes only what the driver of host h has sent. They
 * are in paranoid one-shot mode, so a message cannot change while it is read. The queue has more
 * entries than there can be messages, so it is never overrun.
 */
#include <linux/random.h>

#include "connect.h"

#define ENTRIES (2 * PLACES)
/* A slot's page: the places, then the metadata entries. */
#define METADATA_OFFSET (PLACES * HAMLYN_WELL_KNOWN_PLACE_SIZE)
#define QUEUE_ENTRIES (2 * HAMLYN_WELL_KNOWN_SLOTS * ENTRIES)
/* Looked at in a row, with the card's lock held. */
#define BATCH 256

static_assert(METADATA_OFFSET + ENTRIES * HAMLYN_METADATA_SIZE <= HAMLYN_PAGE_SIZE);
static_assert(sizeof(struct hamlyn_wire) <= HAMLYN_MAX_METADATA);
static_assert(sizeof(struct hamlyn_wire) % 8 == 0);
static_assert(HAMLYN_MAX_NAME + HAMLYN_MAX_PRIVATE <= HAMLYN_WELL_KNOWN_PLACE_SIZE);
static_assert(sizeof(struct hamlyn_wire) + HAMLYN_MAX_NAME + HAMLYN_MAX_PRIVATE <=
	      HAMLYN_BODY_SIZE);

/*
 * Whether the card has room for the driver's own objects and for at least one of each kind for
 * processes; and whether a message fits into one packet, so that it cannot be lost in part.
 */
static bool wellknown_has_room(const struct hamlyn_query *limits)
{
	return limits->termini > 1 && limits->queues > 1 &&
	       limits->slots > HAMLYN_WELL_KNOWN_SLOTS &&
	       limits->packet_size >= HAMLYN_MAX_NAME + HAMLYN_MAX_PRIVATE;
}

u32 hamlyn_wellknown_slots(const struct hamlyn_card *card)
{
	return wellknown_has_room(&card->limits) ? HAMLYN_WELL_KNOWN_SLOTS : 0;
}

/* What processes are told of the card: what the driver has is not theirs. */
void hamlyn_wellknown_query(const struct hamlyn_card *card, struct hamlyn_query *query)
{
	if (!wellknown_has_room(&card->limits))
		return;
	query->termini--;
	query->queues--;
	query->slots -= HAMLYN_WELL_KNOWN_SLOTS;
	if (card->wellknown->open)
		query->capabilities |= HAMLYN_CAPABILITY_CONNECTIONS | HAMLYN_CAPABILITY_QUESTIONS;
}

/* Sends one packet to the operating system of a host; false if the work queue is full. */
bool hamlyn_wellknown_post(struct hamlyn_wellknown *own, u32 host, u32 entry,
			   const struct hamlyn_wire *wire, const void *data, u32 length)
{
	struct hamlyn_terminus_status *status = page_address(own->terminus->status);
	struct hamlyn_request request = {
		.destination = host,
		.slot = own->card->host,
		.metadata_index = entry,
		.key = HAMLYN_WELL_KNOWN_KEY,
		/* Acknowledgements have no place. */
		.offset = entry < PLACES ? entry * HAMLYN_WELL_KNOWN_PLACE_SIZE : 0,
		.length = length,
		.metadata_length = sizeof(*wire),
	};
	void __iomem *to;

	if (own->tail - READ_ONCE(status->completed) >= HAMLYN_WORK_QUEUE_USABLE)
		return false;
	to = own->window + HAMLYN_WINDOW_WORK_QUEUE +
	     own->tail % HAMLYN_WORK_QUEUE_ENTRIES * HAMLYN_ENTRY_SIZE;
	memcpy_toio(to, &request, sizeof(request));
	memcpy_toio(to + sizeof(request), wire, sizeof(*wire));
	memcpy_toio(to + sizeof(request) + sizeof(*wire), data, length);
	wmb(); /* The card sees the whole request when it sees the tail. */
	writel(++own->tail, own->window + HAMLYN_WINDOW_TAIL);
	mb(); /* Either the card sees the tail before it sleeps, or we see that it sleeps. */
	if (!readl(own->window + HAMLYN_WINDOW_AWAKE))
		writel(1, own->doorbell);
	return true;
}

/* The next notification's peer and entry; false if there is none. */
static bool wellknown_next(struct hamlyn_wellknown *own, struct hamlyn_peer **peer, u32 *entry)
{
	const struct hamlyn_notification *notification;
	u64 pointer;

	notification = hamlyn_queue_take(own->queue, &own->cursor, &own->pass);
	if (!notification)
		return false;
	/* Slots are named by their hosts, and pointers count from the start of a metadata area. */
	*peer = &own->peers[notification->slot % HAMLYN_WELL_KNOWN_SLOTS];
	pointer = notification->metadata;
	*entry = pointer / HAMLYN_METADATA_SIZE % ENTRIES;
	return true;
}

/* Takes what has arrived, and tells those who sent it. */
static void wellknown_look(struct work_struct *work)
{
	struct hamlyn_wellknown *own = container_of(work, struct hamlyn_wellknown, look);
	unsigned int left = BATCH, i;
	struct hamlyn_peer *peer;
	u32 entry;

	guard(mutex)(&own->card->lock);
	if (!own->open || !own->card->live)
		return;
	if (xchg(&own->lapsed, false))
		hamlyn_connections_lost(own->card, HAMLYN_END_LAPSED);
	do {
		while (left && wellknown_next(own, &peer, &entry)) {
			hamlyn_peer_arrived(peer, entry);
			left--;
		}
	} while (left && hamlyn_queue_ready(own->queue, own->cursor, own->pass));
	for (i = 0; i < ARRAY_SIZE(own->peers); i++)
		hamlyn_peer_answer(&own->peers[i]);
	/* Others want the lock, too. */
	if (!left)
		queue_work(system_highpri_wq, &own->look);
}

static int wellknown_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct hamlyn_wellknown *own = container_of(entry, struct hamlyn_wellknown, woken);

	queue_work(system_highpri_wq, &own->look);
	return 1;
}

/* The machine stood still, and the card discarded what came meanwhile. Takes no lock. */
void hamlyn_wellknown_lapsed(struct hamlyn_card *card)
{
	WRITE_ONCE(card->wellknown->lapsed, true);
	queue_work(system_highpri_wq, &card->wellknown->look);
}

static void wellknown_cancel(void *data)
{
	struct hamlyn_wellknown *own = data;

	cancel_work_sync(&own->look);
	cancel_delayed_work_sync(&own->tick);
}

/* Never 0: that is unknown. */
static u32 wellknown_make_origin(void)
{
	return get_random_u32() | 1;
}

/* What other hosts were told is not remembered. */
void hamlyn_wellknown_reborn(struct hamlyn_card *card)
{
	guard(mutex)(&card->lock);
	card->wellknown->origin = wellknown_make_origin();
}

/* Once for a card, before it is started; freed with the card's structure. */
int hamlyn_wellknown_init(struct hamlyn_card *card)
{
	struct hamlyn_wellknown *own = kzalloc(sizeof(*own), GFP_KERNEL);
	unsigned int i;

	if (!own)
		return -ENOMEM;
	card->wellknown = own;
	own->card = card;
	own->origin = wellknown_make_origin();
	hamlyn_file_init(&own->file, card);
	own->file.drivers_own = true;
	init_waitqueue_func_entry(&own->woken, wellknown_wake);
	add_wait_queue(&own->file.wait, &own->woken);
	INIT_WORK(&own->look, wellknown_look);
	INIT_DELAYED_WORK(&own->tick, hamlyn_peers_tick);
	hash_init(own->listeners);
	hash_init(own->remotes);
	own->hash_seed = get_random_u32();
	xa_init_flags(&own->connections, XA_FLAGS_ALLOC1);
	for (i = 0; i < ARRAY_SIZE(own->peers); i++)
		hamlyn_peer_init(own, i);
	return devm_add_action_or_reset(&card->pdev->dev, wellknown_cancel, own);
}

void hamlyn_wellknown_free(struct hamlyn_card *card)
{
	if (card->wellknown)
		xa_destroy(&card->wellknown->connections);
	kfree(card->wellknown);
}

static void __iomem *wellknown_map_doorbell(struct hamlyn_card *card, u32 terminus)
{
	return ioremap(card->doorbells + (u64)terminus * HAMLYN_DOORBELL_SIZE,
		       HAMLYN_DOORBELL_SIZE);
}

/* Doorbells have changed places; the card's lock is held. */
void hamlyn_wellknown_doorbell(struct hamlyn_card *card)
{
	struct hamlyn_wellknown *own = card->wellknown;
	void __iomem *doorbell;

	if (!own || !own->doorbell)
		return;
	doorbell = wellknown_map_doorbell(card, own->terminus->index);
	if (!doorbell) {
		hamlyn_card_fail(card);
		return;
	}
	iounmap(own->doorbell);
	own->doorbell = doorbell;
}

static int wellknown_open_slots(struct hamlyn_wellknown *own)
{
	struct hamlyn_open_slot body = {
		.metadata_entries = ENTRIES,
		.mode = HAMLYN_MODE_PARANOID_ONE_SHOT,
		.queue = own->queue->index,
		.flags = HAMLYN_SLOT_INTERRUPT | HAMLYN_SLOT_PRIVILEGED,
	};
	struct hamlyn_slot *slot;
	u32 host;

	for (host = 0; host < HAMLYN_WELL_KNOWN_SLOTS; host++) {
		slot = hamlyn_slot_open_page(&own->file, host, own->queue, &body, METADATA_OFFSET);
		if (IS_ERR(slot))
			return PTR_ERR(slot);
		hamlyn_peer_open(&own->peers[host], page_address(slot->area->page[0]));
	}
	return 0;
}

static int wellknown_open(struct hamlyn_wellknown *own)
{
	struct hamlyn_card *card = own->card;
	union hamlyn_argument argument = {};
	u32 index;
	int ret;

	ret = hamlyn_terminus_create(&own->file, &argument);
	if (ret)
		return ret;
	index = argument.terminus.terminus;
	argument = (union hamlyn_argument) { .queue.entries = QUEUE_ENTRIES };
	ret = hamlyn_queue_create(&own->file, &argument);
	if (ret)
		return ret;

	guard(mutex)(&card->lock);
	if (!card->live)
		return -ENODEV;
	own->terminus = xa_load(&card->termini, index);
	own->window = ioremap(card->windows + (u64)index * HAMLYN_WINDOW_SIZE, HAMLYN_WINDOW_SIZE);
	own->doorbell = wellknown_map_doorbell(card, index);
	if (!own->window || !own->doorbell)
		return -ENOMEM;
	own->queue = xa_load(&card->queues, argument.queue.queue);
	own->lapsed = false;
	own->tail = 0;
	own->cursor = 0;
	own->pass = 0;
	ret = wellknown_open_slots(own);
	if (ret)
		return ret;
	own->open = true;
	queue_work(system_highpri_wq, &own->look);
	return 0;
}

/* The card has been started. It works without connections, too. */
void hamlyn_wellknown_start(struct hamlyn_card *card)
{
	int ret = wellknown_has_room(&card->limits) ? wellknown_open(card->wellknown) : -ENOSPC;
	struct hamlyn_closed closed;

	if (!ret)
		return;
	dev_warn(&card->pdev->dev, "no connections: %s (%d)\n",
		 ret == -ENOSPC ? "the card has no room for well-known slots" :
				  "well-known slots cannot be opened", ret);
	hamlyn_closed_init(&closed);
	scoped_guard(mutex, &card->lock)
		hamlyn_wellknown_stop(card, &closed);
	hamlyn_closed_release(&closed);
}

/* Gives all back, some of it to be released; the card's lock is held. */
void hamlyn_wellknown_stop(struct hamlyn_card *card, struct hamlyn_closed *closed)
{
	struct hamlyn_wellknown *own = card->wellknown;

	hamlyn_connections_stop(card);
	own->open = false;
	while (hamlyn_file_close_next(&own->file, closed))
		;
	if (own->window)
		iounmap(own->window);
	if (own->doorbell)
		iounmap(own->doorbell);
	own->window = NULL;
	own->doorbell = NULL;
}
