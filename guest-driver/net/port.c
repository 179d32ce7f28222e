// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets to and from one other host. A packet is copied into the channel's memory, and out of it:
 * the other host may change a frame at any time, so the stack sees a copy alone.
 */
#include "net.h"

/* Packets up to this length are received into one piece of memory. */
#define SMALL 2048
/* Bytes of the others that are: heads of all usual protocols. */
#define LINEAR 256
/* Bytes of a ring that packets for one host leave to those for all hosts, which cannot wait. */
#define FLOOD_ROOM (16U << 10)

/* Hosts that were not expected when the device was made share a queue. */
u16 net_queue_of(const struct net_device *dev, u32 host)
{
	u32 queue = NET_FLOOD + 1 + host;

	return queue < dev->real_num_tx_queues ? queue : NET_FLOOD;
}

static struct netdev_queue *port_queue(const struct net_port *port)
{
	return netdev_get_tx_queue(port->dev, net_queue_of(port->dev, port->host));
}

/* Reserves room for a packet of a length; the lock is held. */
static struct net_head *port_reserve(const struct net_port *port, u32 length, bool flood)
{
	length += sizeof(struct net_head);
	if (!flood && !uln_channel_reserve(port->channel, length + FLOOD_ROOM))
		return NULL;
	return uln_channel_reserve(port->channel, length);
}

/* The lock is held. */
static bool port_has_room(const struct net_port *port)
{
	return port_reserve(port, NET_LONGEST, false);
}

bool net_port_has_room(struct net_port *port)
{
	guard(spinlock_bh)(&port->lock);
	return !port->channel || port_has_room(port);
}

enum net_sent net_port_send(struct net_port *port, const struct sk_buff *skb, bool flood, bool more)
{
	struct net_head *head;

	guard(spinlock_bh)(&port->lock);
	if (!port->channel)
		return NET_NO_PEER;
	head = port_reserve(port, skb->len, flood);
	if (!head) {
		uln_channel_flush(port->channel);
		return NET_FULL;
	}
	*head = (struct net_head) {};
	if (virtio_net_hdr_from_skb(skb, &head->offload, true, false, 0) ||
	    skb_copy_bits(skb, 0, head + 1, skb->len)) {
		uln_channel_flush(port->channel);
		return NET_NO_PEER;
	}
	uln_channel_commit(port->channel, sizeof(*head) + skb->len);
	if (!more)
		uln_channel_flush(port->channel);
	net_count(port, NET_TX_PACKETS, 1);
	net_count(port, NET_TX_BYTES, skb->len);
	return NET_SENT;
}

/* Sends what waits for the card, and lets the stack send again once there is room. */
static void port_go_on(struct net_port *port)
{
	guard(spinlock_bh)(&port->lock);
	uln_channel_flush(port->channel);
	if (netif_tx_queue_stopped(port_queue(port)) && port_has_room(port))
		netif_tx_wake_queue(port_queue(port));
}

static struct sk_buff *port_alloc(struct net_port *port, u32 length)
{
	struct sk_buff *skb;
	int error;

	if (length <= SMALL) {
		skb = napi_alloc_skb(&port->napi, length);
		if (skb)
			skb_put(skb, length);
		return skb;
	}
	skb = alloc_skb_with_frags(NET_IP_ALIGN + LINEAR, length - LINEAR,
				   PAGE_ALLOC_COSTLY_ORDER, &error, GFP_ATOMIC);
	if (!skb)
		return NULL;
	skb->dev = port->dev;
	skb_reserve(skb, NET_IP_ALIGN);
	skb_put(skb, LINEAR);
	skb->data_len = length - LINEAR;
	skb->len += length - LINEAR;
	return skb;
}

static void port_receive(struct net_port *port, const void *frame, u32 length)
{
	struct net_head head;
	struct sk_buff *skb;

	if (length < sizeof(head) + ETH_HLEN || length > sizeof(head) + NET_LONGEST) {
		net_count(port, NET_RX_MALFORMED, 1);
		return;
	}
	memcpy(&head, frame, sizeof(head));
	length -= sizeof(head);
	skb = port_alloc(port, length);
	if (!skb) {
		net_count(port, NET_RX_NO_MEMORY, 1);
		return;
	}
	skb_store_bits(skb, 0, frame + sizeof(head), length);
	if (head.offload.flags & VIRTIO_NET_HDR_F_DATA_VALID)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	if (virtio_net_hdr_to_skb(skb, &head.offload, true)) {
		net_count(port, NET_RX_MALFORMED, 1);
		kfree_skb(skb);
		return;
	}
	net_count(port, NET_RX_PACKETS, 1);
	net_count(port, NET_RX_BYTES, length);
	skb->protocol = eth_type_trans(skb, port->dev);
	napi_gro_receive(&port->napi, skb);
}

static int port_poll(struct napi_struct *napi, int budget)
{
	struct net_port *port = container_of(napi, struct net_port, napi);
	const void *frame;
	int done = 0;
	u32 length;

	while (done < budget) {
		frame = uln_channel_next(port->channel, &length);
		if (!frame)
			break;
		port_receive(port, frame, length);
		uln_channel_release(port->channel);
		done++;
	}
	port_go_on(port);
	/* Armed first: once the poll is complete, the channel may end. */
	if (done == budget || !uln_channel_arm(port->channel))
		return budget;
	napi_complete_done(napi, done);
	return done;
}

void net_port_init(struct net_card *card, u32 host)
{
	struct net_port *port = &card->ports[host];

	port->dev = card->dev;
	port->host = host;
	spin_lock_init(&port->lock);
	netif_napi_add(card->dev, &port->napi, port_poll);
}

void net_port_open(struct net_port *port, struct uln_channel *channel)
{
	scoped_guard(spinlock_bh, &port->lock)
		port->channel = channel;
	napi_enable(&port->napi);
	local_bh_disable();
	/* It arms the channel. */
	napi_schedule(&port->napi);
	local_bh_enable();
}

/* Packets that wait for the host are dropped when they are sent. */
void net_port_close(struct net_port *port)
{
	napi_disable(&port->napi);
	scoped_guard(spinlock_bh, &port->lock)
		port->channel = NULL;
	netif_tx_wake_queue(port_queue(port));
}
