// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* The services of a system, by the kinds of their messages. */
#include <linux/bitops.h>

#include "uln_peer.h"

void uln_service_register(struct uln_system *system, struct peer_service *service)
{
	if (service->system)
		return;
	service->system = system;
	list_add_tail(&service->on_system, &system->services);
}

struct peer_service *uln_service_find(const struct uln_system *system, u32 kind)
{
	struct peer_service *service;

	list_for_each_entry(service, &system->services, on_system)
		if (kind < BITS_PER_LONG && service->ops->kinds & BIT(kind))
			return service;
	return NULL;
}
