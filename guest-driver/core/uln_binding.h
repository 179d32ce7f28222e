/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Channels of the kernel inside of this module: a client's part on a card (binding.c), and its
 * channels with other hosts (channel.c). Other modules know uln_channel.h alone.
 */
#ifndef _ULN_BINDING_H
#define _ULN_BINDING_H

#include <linux/module.h>

#include "uln_channel.h"
#include "uln_connect.h"
#include "uln_core.h"
#include "uln_lane.h"

enum channel_state {
	/* It is unknown whether the other host has the client. */
	CHANNEL_ASKING,
	/* The other host has been requested to open it. */
	CHANNEL_REQUESTED,
	CHANNEL_OPEN,
};

struct uln_channel {
	struct uln_lane lane;
	struct uln_binding *binding;
	enum channel_state state;
	/* The client may be told of events. */
	bool told;
	struct uln_connection *connection;
	/* On the connection's wait queue. */
	struct wait_queue_entry changed;
};

struct uln_binding {
	struct uln_client *client;
	struct uln_card *card;
	void *data;
	struct list_head on_card;
	struct work_struct look;
	/* The same, after a failure. */
	struct delayed_work again;
	/* Serialises starts and stops. Above the lock; the client may hold the RTNL above it. */
	struct mutex switching;
	/* Guards the rest, but what the card's lock guards. */
	struct mutex lock;
	/* The client wants channels, and the card can have them. */
	bool begun;
	bool ready;
	/* Both, and it listens. */
	bool running;
	struct uln_listener listener;
	/* On the listener's wait queue. */
	struct wait_queue_entry requested;
	/* On the card's wait queue for changes of the link. */
	struct wait_queue_entry linked;
	/* The link as the client knows it, and its number of changes then. */
	bool link;
	u32 link_changes;
	u32 host;
	struct uln_channel *channels[ULN_WELL_KNOWN_SLOTS];
};

/* Has a binding's worker look at what has changed. Any context. */
static inline void uln_binding_look_soon(struct uln_binding *binding)
{
	queue_work(system_highpri_wq, &binding->look);
}

/* channel.c, with the binding's lock held */
u32 uln_channel_name(const struct uln_client *client, u8 *name);
void uln_channel_ask(struct uln_binding *binding, u32 host);
void uln_channel_take(struct uln_binding *binding, struct uln_connection *connection);
void uln_channel_follow(struct uln_channel *channel);
void uln_channel_end(struct uln_channel *channel, u32 reason);

#endif /* _ULN_BINDING_H */
