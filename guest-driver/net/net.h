/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The network device: Ethernet between the hosts of a fabric, over channels of any card. It uses
 * nothing of the card's driver but uln_channel.h.
 *
 *   device.c   the device, and where a packet goes
 *   port.c     packets to and from one other host
 */
#ifndef _NET_H
#define _NET_H

#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <linux/virtio_net.h>

#include "uln_channel.h"
#include "uln_kernel.h"

#define NET_NAME "hamlyn-net"
#define NET_HOSTS ULN_WELL_KNOWN_SLOTS
/* The transmit queue of packets for all hosts; those of the hosts follow it. */
#define NET_FLOOD 0
/* An IP packet has at most 65,535 bytes, and the frame's head belongs to what is passed on. */
#define NET_MAX_MTU (IP_MAX_MTU - ETH_HLEN)
#define NET_LONGEST (GSO_LEGACY_MAX_SIZE + VLAN_ETH_HLEN)

/* Before each packet. What a checksum or segments still need, as virtio-net tells it. */
struct net_head {
	struct virtio_net_hdr offload;
	__le16 reserved;
};

enum net_counter {
	NET_TX_PACKETS,
	NET_TX_BYTES,
	/* The host has no device that is up. */
	NET_TX_NO_PEER,
	/* A copy of a packet for all hosts found no room. */
	NET_TX_NO_ROOM,
	/* A full ring stopped a queue. */
	NET_TX_STOPPED,
	NET_RX_PACKETS,
	NET_RX_BYTES,
	/* The other host sent something that is not a packet. */
	NET_RX_MALFORMED,
	NET_RX_NO_MEMORY,
	NET_COUNTERS,
};

/* Another host. */
struct net_port {
	struct net_device *dev;
	u32 host;
	struct napi_struct napi;
	/* Guards sending. */
	spinlock_t lock;
	/* NULL: there is none now. Written with the lock held, and not while NAPI polls. */
	struct uln_channel *channel;
	u64 counted[NET_COUNTERS];
};

struct net_card {
	struct net_device *dev;
	struct uln_binding *binding;
	/* Number of ports with a channel. */
	atomic_t channels;
	/* Gives the device the address of this host, which may have become another. */
	struct work_struct readdress;
	u32 host;
	struct net_port ports[NET_HOSTS];
};

static inline void net_count(struct net_port *port, enum net_counter what, u64 count)
{
	WRITE_ONCE(port->counted[what], port->counted[what] + count);
}

enum net_sent {
	NET_SENT,
	/* The ring is full; the queue is woken when that is over. */
	NET_FULL,
	NET_NO_PEER,
};

/* port.c */
u16 net_queue_of(const struct net_device *dev, u32 host);
void net_port_init(struct net_card *card, u32 host);
void net_port_open(struct net_port *port, struct uln_channel *channel);
void net_port_close(struct net_port *port);
enum net_sent net_port_send(struct net_port *port, const struct sk_buff *skb, bool flood,
			    bool more);
bool net_port_has_room(struct net_port *port);

#endif /* _NET_H */
