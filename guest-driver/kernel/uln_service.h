/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Services over the messages of operating systems: connections (connect.c), express memory
 * (expresstalk.c), and what the drivers of a card arrange with each other (the card's folder).
 *
 * A service registers with the system, which then passes it the messages of its kinds. Messages of
 * a kind that no service has are ignored. The card's lock is held in all functions.
 */
#ifndef _ULN_SERVICE_H
#define _ULN_SERVICE_H

#include <linux/list.h>
#include <linux/types.h>

struct uln_system;
struct uln_head;
struct peer_service;

/**
 * struct peer_service_ops - functions of a service. All but @message and @lost may be NULL
 * @kinds: the kinds of its messages: bits by ULN_WIRE_*
 * @named: its messages may have a name. Of other services, such messages are ignored
 * @message: handles a message. Each comes once and in order; the answer may be sent at once. Its
 *	lengths have been checked, and nothing else
 * @lost: a host is lost, has restarted (@restarted), or may have forgotten this one: nothing is
 *	arranged with it now, and messages that waited for it have been dropped. It may be called
 *	for a host with which nothing was arranged. Must not send anything
 * @dropped: a message of uln_peer_say() is dropped, as its host is lost; it may have arrived.
 *	Must not send anything
 * @depends: returns whether something is arranged with a host, which is watched then
 * @tick: a quarter of a second has passed for a host that is watched
 * @stop: the card has stopped; all hosts have been reported as lost
 * @free: frees the service, with its system
 */
struct peer_service_ops {
	unsigned long kinds;
	bool named;
	void (*message)(struct peer_service *service, u32 host, const struct uln_head *wire,
			const u8 *data);
	void (*lost)(struct peer_service *service, u32 host, u32 reason, bool restarted);
	void (*dropped)(struct peer_service *service, u32 host, const struct uln_head *wire,
			const u8 *data);
	bool (*depends)(const struct peer_service *service, u32 host);
	void (*tick)(struct peer_service *service, u32 host);
	void (*stop)(struct peer_service *service);
	void (*free)(struct peer_service *service);
};

/**
 * struct peer_service - part of a service's own structure
 * @ops: its functions
 * @system: the system with which it is registered
 * @on_system: entry in the system's list
 */
struct peer_service {
	const struct peer_service_ops *ops;
	struct uln_system *system;
	struct list_head on_system;
};

/**
 * uln_service_register() - register a service, unless it is registered already
 * @system: the system
 * @service: the service, whose functions are known
 */
void uln_service_register(struct uln_system *system, struct peer_service *service);

/**
 * uln_service_find() - find a service
 * @system: the system
 * @kind: a kind of its messages, ULN_WIRE_*
 *
 * Return: the service, or NULL.
 */
struct peer_service *uln_service_find(const struct uln_system *system, u32 kind);

#endif /* _ULN_SERVICE_H */
