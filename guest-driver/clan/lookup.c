// SPDX-License-Identifier: GPL-2.0-only
/* Endpoints by number and by port, and where their pages are. */
#include "clan.h"

/* Returns NULL if it is not the file's. The card's lock is held. */
struct clan_endpoint_object *clan_endpoint_find(struct uln_file *file, u32 index)
{
	void *entry = xa_load(&clan_parts(file->card)->endpoints, index);
	struct clan_endpoint_object *endpoint = entry;

	/* An entry with a tag is the driver's. */
	return entry && !xa_pointer_tag(entry) && endpoint->object.file == file ? endpoint : NULL;
}

/* Returns the endpoint that has a port, if there is one; the card's lock is held. */
struct clan_endpoint_object *clan_endpoint_at(struct uln_card *card, u32 port)
{
	void *entry = xa_load(&clan_parts(card)->ports, port);

	return xa_is_value(entry) ? NULL : entry;
}

/* Returns the bus address of an endpoint's page. */
resource_size_t clan_endpoint_page(const struct uln_card *card, u32 index)
{
	return clan_parts(card)->memory + (u64)index * CLAN_ENDPOINT_SIZE;
}

/* An event queue of the file is closed: events of its endpoints go nowhere. */
void clan_endpoints_without(struct uln_file *file, u32 events)
{
	struct clan_endpoint_object *endpoint;

	list_for_each_entry(endpoint, &file->objects[CLAN_KIND_ENDPOINT], object.on_file)
		if (endpoint->events == events)
			endpoint->events = CLAN_NO_EVENTS;
}
