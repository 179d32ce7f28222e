/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Channels of the kernel: what a card offers to users in the kernel, such as the network device
 * (net/). This is the interface of hamlyn.ko to other modules; it is the same for every model.
 *
 * A client has a binding on each card. Each binding has one channel with the same client of each
 * other host, once both are there. A channel carries frames of up to uln_channel_longest() bytes,
 * in order, in both directions. A frame is built in place, in memory that the card reads, and is
 * lent in place in memory that the other host's card has written. So a receiver copies what it
 * checks: the other host can change a frame at any time.
 *
 * Each direction has a ring of uln_client.size bytes. If it is full the sender waits: no frame is
 * dropped. A host that takes nothing delays only those that send to it.
 */
#ifndef _ULN_CHANNEL_H
#define _ULN_CHANNEL_H

#include <linux/list.h>
#include <linux/types.h>

struct device;
struct uln_channel;
struct uln_binding;

/* Limits of uln_client.size, which is a power of two. */
#define ULN_CHANNEL_LEAST (16U << 10)
#define ULN_CHANNEL_MOST (8U << 20)

/**
 * struct uln_client - a user of cards in the kernel
 * @name: its name, which only operating systems can listen under: at most 32 bytes
 * @size: bytes of a channel's ring in each direction
 * @add: a card has come. Its binding is idle until uln_binding_begin(). An error means that the
 *	client does not want the card
 * @remove: the card goes; all channels have ended
 * @link: the link is up, and this host has this id; or the link is down. May have changed again
 * @opened: a channel can be used from now on. An error ends it at once, without @ended
 * @woken: a frame or room may have come for a channel that was armed or full. Called in any
 *	context, interrupts may be off; from @opened on until @ended has returned
 * @ended: a channel has ended, for a reason ULN_END_*. The client does not use it any longer when
 *	this returns
 *
 * All but @woken are called in a process's context, one at a time for each binding.
 */
struct uln_client {
	const char *name;
	u32 size;
	int (*add)(struct uln_binding *binding);
	void (*remove)(struct uln_binding *binding);
	void (*link)(struct uln_binding *binding, bool up, u32 host);
	int (*opened)(struct uln_channel *channel);
	void (*woken)(struct uln_channel *channel);
	void (*ended)(struct uln_channel *channel, u32 reason);
	/* private: */
	struct list_head on_clients;
};

/**
 * uln_client_register() - have a binding on each card, now and later
 * @client: the client
 *
 * Return: 0; -EINVAL if name or size do not fit the limits.
 */
int uln_client_register(struct uln_client *client);

/**
 * uln_client_unregister() - end all of a client's channels and bindings
 * @client: the client, of which no function runs when this returns
 */
void uln_client_unregister(struct uln_client *client);

/**
 * uln_binding_begin() - open channels with the hosts that have the client, now and later
 * @binding: the binding
 *
 * Must not be called in a function of the client other than @add.
 */
void uln_binding_begin(struct uln_binding *binding);

/**
 * uln_binding_end() - end all channels, and open no others
 * @binding: the binding; same context as uln_binding_begin()
 */
void uln_binding_end(struct uln_binding *binding);

/* The card, as the parent of the client's own device, and the name of the card's model. */
struct device *uln_binding_device(const struct uln_binding *binding);
const char *uln_binding_model(const struct uln_binding *binding);

/* This host's id, as the card last reported it. */
u32 uln_binding_host(const struct uln_binding *binding);

/* How many hosts there can be, as far as it is known: ids are below it. */
u32 uln_binding_hosts(const struct uln_binding *binding);

/* What the client has for the binding. */
void uln_binding_set_data(struct uln_binding *binding, void *data);
void *uln_binding_data(const struct uln_binding *binding);

/* A channel's binding, and the host at its other end. */
struct uln_binding *uln_channel_binding(const struct uln_channel *channel);
u32 uln_channel_host(const struct uln_channel *channel);

/* Bytes of the longest frame. */
u32 uln_channel_longest(const struct uln_channel *channel);

/*
 * Sending: one thread at a time for each channel.
 */

/**
 * uln_channel_reserve() - reserve room for a frame
 * @channel: the channel
 * @length: bytes of the frame, at most uln_channel_longest()
 *
 * Return: where to build it; NULL if the ring is full now. The client is woken when that may be
 * over.
 */
void *uln_channel_reserve(struct uln_channel *channel, u32 length);

/**
 * uln_channel_commit() - append the reserved frame
 * @channel: the channel
 * @length: bytes of the frame, at most as many as were reserved
 *
 * It leaves with the next uln_channel_flush().
 */
void uln_channel_commit(struct uln_channel *channel, u32 length);

/**
 * uln_channel_flush() - pass the appended frames to the card, all with one doorbell if possible
 * @channel: the channel
 *
 * Return: false if the card has no room for all of them. The client is woken when it has; it calls
 * this function again.
 */
bool uln_channel_flush(struct uln_channel *channel);

/*
 * Receiving: one thread at a time for each channel. It may run beside the sender.
 */

/**
 * uln_channel_next() - look at the next frame
 * @channel: the channel
 * @length: gets its length
 *
 * Return: the frame, which is there until uln_channel_release(); NULL if there is none.
 */
const void *uln_channel_next(struct uln_channel *channel, u32 *length);

/**
 * uln_channel_release() - release the frame that uln_channel_next() has returned
 * @channel: the channel
 */
void uln_channel_release(struct uln_channel *channel);

/**
 * uln_channel_arm() - have the client woken once when a frame or room comes
 * @channel: the channel
 *
 * Return: false if something is there already; then the client is not woken.
 */
bool uln_channel_arm(struct uln_channel *channel);

#endif /* _ULN_CHANNEL_H */
