// SPDX-License-Identifier: GPL-2.0-only
/*
 * How operating systems reach each other: by mailbox 0 of each card. A message has the number of a
 * place and a record (core/uln_records.h). The driver moves records from its inbox to their places,
 * in the page of the host that sent them.
 */
#include <linux/iopoll.h>

#include "echo.h"
#include "uln_records.h"
#include "uln_system.h"

/* Records of the inbox: what all hosts may have in flight. */
#define RECORDS (ULN_RECORD_HOSTS * ULN_RECORD_PLACES)
/* Time in which the card takes a message, in microseconds. If it needs longer, the link is full. */
#define PATIENCE_US 1000

struct own_message {
	__le64 place;
	struct uln_record record;
};

static_assert(RECORDS <= ECHO_INBOX_MAX_RECORDS && !(RECORDS & (RECORDS - 1)));
static_assert(sizeof(struct own_message) <= ECHO_MAX_MESSAGE);

struct echo_own {
	struct uln_card *card;
	struct uln_records records;
	/* The owner of the mailbox. */
	struct uln_file file;
	/* On file.wait: starts a check of the inbox. */
	struct wait_queue_entry woken;
	struct echo_mailbox_object *mailbox;
	void __iomem *outbox;
	void __iomem *doorbell;
	/* A page for each host's records. */
	struct uln_pages *places;
	/* Number of messages posted and taken. */
	u32 rung;
	u32 taken;
	/* The message that is being posted. */
	struct own_message message;
};

static struct echo_own *own_of(struct peer_transport *transport)
{
	return container_of(transport, struct echo_own, records.transport);
}

static bool own_link(struct peer_transport *transport, u32 *host)
{
	return uln_link_host(own_of(transport)->card, host);
}

static bool own_post(struct peer_transport *transport, u32 host, u32 entry,
		     const struct uln_wire *wire, const void *data, u32 length)
{
	struct echo_own *own = own_of(transport);
	struct own_message *message = &own->message;
	u32 sent, bytes;

	if (readl_poll_timeout(own->outbox + ECHO_OUTBOX_SENT, sent, sent == own->rung, 5,
			       PATIENCE_US))
		return false;
	message->place = cpu_to_le64(entry);
	bytes = offsetof(struct own_message, record) +
		uln_record_write(&own->records, &message->record, wire, data, length);
	writel(host, own->outbox + ECHO_OUTBOX_DESTINATION);
	writel(ECHO_SYSTEM_MAILBOX, own->outbox + ECHO_OUTBOX_MAILBOX);
	writel(bytes, own->outbox + ECHO_OUTBOX_LENGTH);
	memcpy_toio(own->outbox + ECHO_OUTBOX_DATA, message, bytes);
	wmb(); /* The whole message is visible before the doorbell. */
	writel(1, own->doorbell);
	own->rung++;
	return true;
}

/* Moves a record to its place. The message is the sender's, so it is checked. */
static void own_sort(struct echo_own *own, const struct echo_record *arrived)
{
	u32 host = le32_to_cpu(READ_ONCE(arrived->source));
	u32 length = le32_to_cpu(READ_ONCE(arrived->length));
	const struct own_message *message = (const void *)arrived->data;
	u64 place = le64_to_cpu(READ_ONCE(message->place));

	if (host >= ULN_RECORD_HOSTS || place >= ULN_RECORD_PLACES ||
	    length < offsetof(struct own_message, record) || length > sizeof(*message))
		return;
	memcpy(page_address(own->places->page[host]) + place * ULN_RECORD_PLACE_SIZE,
	       &message->record, length - offsetof(struct own_message, record));
	own->records.news |= BIT_ULL(host);
}

static bool own_take(struct peer_transport *transport, u32 *host, u32 *entry)
{
	struct echo_own *own = own_of(transport);
	const struct echo_record *arrived;
	unsigned int left = RECORDS;

	while (left-- && (arrived = echo_mailbox_arrived(own->mailbox, own->taken))) {
		own_sort(own, arrived);
		mb(); /* The record has been read before the card may overwrite it. */
		writel(++own->taken, own->outbox + ECHO_OUTBOX_TAKEN);
	}
	return uln_records_take(transport, host, entry);
}

static bool own_more(struct peer_transport *transport)
{
	struct echo_own *own = own_of(transport);
	const struct echo_wait wait = { .taken = own->taken };

	return uln_records_more(transport) ||
	       uln_sleepers_ready(&own->mailbox->sleepers, &wait);
}

static const struct peer_transport_ops own_transport = {
	.link = own_link,
	.post = own_post,
	.take = own_take,
	.more = own_more,
	.read = uln_records_read,
	.reopen = uln_records_reopen,
};

static int own_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct echo_own *own = container_of(entry, struct echo_own, woken);

	uln_system_arrived(own->card->system);
	return 1;
}

/* Called once for a card, before it is started. */
int echo_own_init(struct uln_card *card)
{
	struct echo_own *own = kvzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	echo_parts(card)->own = own;
	own->card = card;
	uln_file_init(&own->file, card);
	own->file.drivers_own = true;
	init_waitqueue_func_entry(&own->woken, own_wake);
	add_wait_queue(&own->file.wait, &own->woken);
	own->records.transport.ops = &own_transport;
	return 0;
}

void echo_own_free(struct uln_card *card)
{
	kvfree(echo_parts(card)->own);
}

static int own_open(struct echo_own *own)
{
	struct echo_mailbox mailbox = { .records = RECORDS };
	struct uln_card *card = own->card;
	struct echo_parts *parts = echo_parts(card);
	struct uln_pages *places;
	int ret;

	places = uln_pages_alloc(&own->file, (u64)ULN_RECORD_HOSTS * ULN_PAGE_SIZE);
	if (IS_ERR(places))
		return PTR_ERR(places);
	own->places = places;
	ret = echo_mailbox_open(&own->file, &mailbox);
	if (ret)
		return ret;

	guard(mutex)(&card->lock);
	if (!card->live)
		return -ENODEV;
	own->mailbox = xa_load(&parts->mailboxes, ECHO_SYSTEM_MAILBOX);
	own->outbox = parts->memory + ECHO_SYSTEM_MAILBOX * ECHO_OUTBOX_SIZE;
	own->doorbell = ioremap(parts->doorbells + ECHO_SYSTEM_MAILBOX * ECHO_DOORBELL_SIZE,
				ECHO_DOORBELL_SIZE);
	if (!own->doorbell)
		return -ENOMEM;
	own->rung = 0;
	own->taken = 0;
	uln_records_begin(&own->records, own->places);
	uln_system_open(card->system, &own->records.transport);
	return 0;
}

/* Called when the card has been started. It works without connections, too. */
void echo_own_start(struct uln_card *card)
{
	int ret = own_open(echo_parts(card)->own);
	struct uln_closed closed;

	if (!ret)
		return;
	dev_warn(&card->pdev->dev, "no connections: the driver's mailbox cannot be opened (%d)\n",
		 ret);
	uln_closed_init(&closed, card);
	scoped_guard(mutex, &card->lock)
		echo_own_stop(card, &closed);
	uln_closed_release(&closed);
}

/* Closes everything, some of it to be released; the card's lock is held. */
void echo_own_stop(struct uln_card *card, struct uln_closed *closed)
{
	struct echo_own *own = echo_parts(card)->own;

	uln_system_stop(card->system);
	while (uln_file_close_next(&own->file, closed))
		;
	if (own->doorbell)
		iounmap(own->doorbell);
	own->doorbell = NULL;
	uln_pages_give_back(&own->places);
}
