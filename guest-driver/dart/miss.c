// SPDX-License-Identifier: GPL-2.0-only
/*
 * Misses (section 3): a message waits for pages of its endpoint. A thread finds them, separately
 * for each connection, as that may take as long as an access of the process: others go on.
 */
#include "dart.h"

static struct workqueue_struct *misses_threads;

int dart_misses_load(void)
{
	misses_threads = alloc_workqueue(ULN_NAME "-dart-misses", WQ_UNBOUND | WQ_FREEZABLE,
					 WQ_MAX_ACTIVE);
	return misses_threads ? 0 : -ENOMEM;
}

void dart_misses_unload(void)
{
	destroy_workqueue(misses_threads);
}

/* Reads what a connection waits for; returns its endpoint with a reference, or NULL if nothing. */
static struct dart_endpoint_object *misses_read(struct dart_connection_object *connection,
						struct dart_misses *misses, u32 *count)
{
	struct uln_card *card = connection->card;
	int ret;

	guard(mutex)(&card->lock);
	if (!card->live || !connection->object.open)
		return NULL;
	ret = uln_command(card, DART_COMMAND_READ_MISSES, connection->object.index, NULL, 0);
	if (ret)
		return NULL;
	memcpy(misses, card->page + ULN_COMMAND_BODY, sizeof(*misses));
	*count = min(le32_to_cpu(misses->count), ARRAY_SIZE(misses->pages));
	kref_get(&connection->endpoint->object.users);
	return connection->endpoint;
}

static void misses_work(struct work_struct *work)
{
	struct dart_connection_object *connection =
		container_of(work, struct dart_connection_object, misses);
	struct uln_card *card = connection->card;
	struct dart_endpoint_object *endpoint;
	struct dart_misses misses;
	u32 i, count;
	u64 page;

	endpoint = misses_read(connection, &misses, &count);
	for (i = 0; endpoint && i < count && READ_ONCE(endpoint->told); i++) {
		page = le64_to_cpu(misses.pages[i]);
		dart_page_find(endpoint, page >> PAGE_SHIFT, page & DART_PAGE_WRITES);
	}
	if (endpoint)
		uln_object_put(&endpoint->object);
	uln_object_put(&connection->object);
	put_device(&card->dev);
}

void dart_misses_init(struct dart_connection_object *connection)
{
	INIT_WORK(&connection->misses, misses_work);
}

/* The card reports that it waits for pages; the card's lock is held. */
void dart_misses_told(struct dart_connection_object *connection)
{
	get_device(&connection->card->dev);
	kref_get(&connection->object.users);
	if (queue_work(misses_threads, &connection->misses))
		return;
	/* The thread has not started yet, and will see this as well. */
	uln_object_put(&connection->object);
	put_device(&connection->card->dev);
}
