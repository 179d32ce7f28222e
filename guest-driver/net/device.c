// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device: addresses, and where a packet goes. A host's address has its id, so a packet for such
 * an address goes to that host alone. All others go to every host, as at a hub: those for groups,
 * and those for addresses behind a bridge of another host.
 */
#include <linux/ethtool.h>
#include <linux/module.h>

#include "net.h"

/* A local address, "uln", and the host's id. */
static const u8 prefix[4] = { 0x02, 'u', 'l', 'n' };

/* Bytes of the ring in each direction: room for the longest packet, and for what it leaves. */
#define RING (256U << 10)
static_assert(RING / 8 * 3 > NET_LONGEST + (17U << 10));

static void address_of(u32 host, u8 *address)
{
	memcpy(address, prefix, sizeof(prefix));
	address[4] = host >> 8;
	address[5] = host;
}

/* Returns the host to which a packet goes, or NET_HOSTS: to all. */
static u32 net_host_of(const struct sk_buff *skb)
{
	const u8 *to = skb->data;
	u32 host = to[4] << 8 | to[5];

	return !memcmp(to, prefix, sizeof(prefix)) && host < NET_HOSTS ? host : NET_HOSTS;
}

static u16 net_select_queue(struct net_device *dev, struct sk_buff *skb,
			    struct net_device *subordinate)
{
	return net_queue_of(dev, net_host_of(skb));
}

static void net_flood(struct net_card *card, const struct sk_buff *skb)
{
	struct net_port *port;

	for (port = card->ports; port < card->ports + NET_HOSTS; port++)
		if (READ_ONCE(port->channel) && net_port_send(port, skb, true, false) == NET_FULL)
			net_count(port, NET_TX_NO_ROOM, 1);
}

static netdev_tx_t net_start_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct netdev_queue *queue = skb_get_tx_queue(dev, skb);
	u16 index = skb_get_queue_mapping(skb);
	struct net_card *card = netdev_priv(dev);
	u32 host = net_host_of(skb);
	struct net_port *port;
	bool own;

	skb_tx_timestamp(skb);
	if (host == NET_HOSTS) {
		net_flood(card, skb);
		dev_consume_skb_any(skb);
		return NETDEV_TX_OK;
	}
	port = &card->ports[host];
	/* Only a queue of the port's own may wait for it. */
	own = index != NET_FLOOD && index == net_queue_of(dev, host);
	switch (net_port_send(port, skb, false, own && netdev_xmit_more())) {
	case NET_FULL:
		if (!own) {
			net_count(port, NET_TX_NO_ROOM, 1);
			kfree_skb_reason(skb, SKB_DROP_REASON_QDISC_DROP);
			return NETDEV_TX_OK;
		}
		net_count(port, NET_TX_STOPPED, 1);
		netif_tx_stop_queue(queue);
		smp_mb__after_atomic(); /* Room that came meanwhile may not have woken the queue. */
		if (net_port_has_room(port))
			netif_tx_wake_queue(queue);
		return NETDEV_TX_BUSY;
	case NET_NO_PEER:
		net_count(port, NET_TX_NO_PEER, 1);
		kfree_skb_reason(skb, SKB_DROP_REASON_DEV_READY);
		return NETDEV_TX_OK;
	default:
		dev_consume_skb_any(skb);
		return NETDEV_TX_OK;
	}
}

static int net_open(struct net_device *dev)
{
	struct net_card *card = netdev_priv(dev);

	netif_tx_start_all_queues(dev);
	uln_binding_begin(card->binding);
	return 0;
}

static int net_stop(struct net_device *dev)
{
	struct net_card *card = netdev_priv(dev);

	netif_tx_stop_all_queues(dev);
	uln_binding_end(card->binding);
	return 0;
}

static u64 net_counted(const struct net_card *card, enum net_counter what)
{
	const struct net_port *port;
	u64 sum = 0;

	for (port = card->ports; port < card->ports + NET_HOSTS; port++)
		sum += READ_ONCE(port->counted[what]);
	return sum;
}

static void net_get_stats64(struct net_device *dev, struct rtnl_link_stats64 *stats)
{
	const struct net_card *card = netdev_priv(dev);

	stats->tx_packets = net_counted(card, NET_TX_PACKETS);
	stats->tx_bytes = net_counted(card, NET_TX_BYTES);
	stats->tx_dropped = net_counted(card, NET_TX_NO_PEER) + net_counted(card, NET_TX_NO_ROOM);
	stats->tx_carrier_errors = net_counted(card, NET_TX_NO_PEER);
	stats->rx_packets = net_counted(card, NET_RX_PACKETS);
	stats->rx_bytes = net_counted(card, NET_RX_BYTES);
	stats->rx_errors = net_counted(card, NET_RX_MALFORMED);
	stats->rx_frame_errors = stats->rx_errors;
	stats->rx_dropped = net_counted(card, NET_RX_NO_MEMORY);
}

static const struct net_device_ops net_ops = {
	.ndo_open = net_open,
	.ndo_stop = net_stop,
	.ndo_start_xmit = net_start_xmit,
	.ndo_select_queue = net_select_queue,
	.ndo_get_stats64 = net_get_stats64,
	.ndo_validate_addr = eth_validate_addr,
};

static const char counter_names[NET_COUNTERS][ETH_GSTRING_LEN] = {
	[NET_TX_PACKETS] = "tx_packets",
	[NET_TX_BYTES] = "tx_bytes",
	[NET_TX_NO_PEER] = "tx_no_peer",
	[NET_TX_NO_ROOM] = "tx_no_room",
	[NET_TX_STOPPED] = "tx_stopped",
	[NET_RX_PACKETS] = "rx_packets",
	[NET_RX_BYTES] = "rx_bytes",
	[NET_RX_MALFORMED] = "rx_malformed",
	[NET_RX_NO_MEMORY] = "rx_no_memory",
};

static int net_get_sset_count(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? NET_COUNTERS : -EOPNOTSUPP;
}

static void net_get_strings(struct net_device *dev, u32 set, u8 *data)
{
	if (set == ETH_SS_STATS)
		memcpy(data, counter_names, sizeof(counter_names));
}

static void net_get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	unsigned int what;

	for (what = 0; what < NET_COUNTERS; what++)
		data[what] = net_counted(netdev_priv(dev), what);
}

static void net_get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	const struct net_card *card = netdev_priv(dev);

	strscpy(info->driver, NET_NAME);
	strscpy(info->version, THIS_MODULE->version);
	strscpy(info->fw_version, uln_binding_model(card->binding));
	strscpy(info->bus_info, dev_name(uln_binding_device(card->binding)));
}

static const struct ethtool_ops net_ethtool_ops = {
	.get_drvinfo = net_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_sset_count = net_get_sset_count,
	.get_strings = net_get_strings,
	.get_ethtool_stats = net_get_ethtool_stats,
};

static void net_setup(struct net_device *dev)
{
	dev->netdev_ops = &net_ops;
	dev->ethtool_ops = &net_ethtool_ops;
	dev->max_mtu = NET_MAX_MTU;
	dev->hw_features = NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_TSO |
			   NETIF_F_TSO_ECN | NETIF_F_TSO6 | NETIF_F_GSO_UDP_L4;
	dev->features = dev->hw_features | NETIF_F_HIGHDMA;
	dev->vlan_features = dev->hw_features;
	/* It would send with interrupts off. */
	dev->priv_flags |= IFF_DISABLE_NETPOLL;
	netif_carrier_off(dev);
}

static void net_readdress(struct work_struct *work)
{
	struct net_card *card = container_of(work, struct net_card, readdress);
	u8 address[ETH_ALEN];

	address_of(READ_ONCE(card->host), address);
	rtnl_lock();
	if (card->dev->reg_state == NETREG_REGISTERED &&
	    !ether_addr_equal(card->dev->dev_addr, address)) {
		eth_hw_addr_set(card->dev, address);
		call_netdevice_notifiers(NETDEV_CHANGEADDR, card->dev);
	}
	rtnl_unlock();
}

static int client_add(struct uln_binding *binding)
{
	struct net_device *dev;
	struct net_card *card;
	u8 address[ETH_ALEN];
	u32 host;
	int ret;

	dev = alloc_netdev_mqs(sizeof(*card), "uln%d", NET_NAME_ENUM, ether_setup,
			       uln_binding_hosts(binding) + 1, 1);
	if (!dev)
		return -ENOMEM;
	card = netdev_priv(dev);
	card->dev = dev;
	card->binding = binding;
	card->host = uln_binding_host(binding);
	INIT_WORK(&card->readdress, net_readdress);
	SET_NETDEV_DEV(dev, uln_binding_device(binding));
	net_setup(dev);
	address_of(card->host, address);
	eth_hw_addr_set(dev, address);
	for (host = 0; host < NET_HOSTS; host++)
		net_port_init(card, host);
	uln_binding_set_data(binding, card);
	ret = register_netdev(dev);
	if (ret)
		free_netdev(dev);
	return ret;
}

static void client_remove(struct uln_binding *binding)
{
	struct net_card *card = uln_binding_data(binding);
	u32 host;

	unregister_netdev(card->dev);
	cancel_work_sync(&card->readdress);
	/* One grace period for all, instead of one for each. */
	for (host = 0; host < NET_HOSTS; host++)
		__netif_napi_del(&card->ports[host].napi);
	synchronize_net();
	free_netdev(card->dev);
}

static void client_link(struct uln_binding *binding, bool up, u32 host)
{
	struct net_card *card = uln_binding_data(binding);

	if (!up)
		return;
	WRITE_ONCE(card->host, host);
	schedule_work(&card->readdress);
}

static struct net_port *port_of(struct uln_channel *channel)
{
	struct net_card *card = uln_binding_data(uln_channel_binding(channel));

	return &card->ports[uln_channel_host(channel)];
}

/* The carrier is there while another host is. */
static int client_opened(struct uln_channel *channel)
{
	struct net_port *port = port_of(channel);
	struct net_card *card = netdev_priv(port->dev);

	net_port_open(port, channel);
	if (atomic_inc_return(&card->channels) == 1)
		netif_carrier_on(card->dev);
	return 0;
}

static void client_woken(struct uln_channel *channel)
{
	napi_schedule(&port_of(channel)->napi);
}

static void client_ended(struct uln_channel *channel, u32 reason)
{
	struct net_port *port = port_of(channel);
	struct net_card *card = netdev_priv(port->dev);

	if (atomic_dec_and_test(&card->channels))
		netif_carrier_off(card->dev);
	net_port_close(port);
}

static struct uln_client client = {
	.name = "net",
	.size = RING,
	.add = client_add,
	.remove = client_remove,
	.link = client_link,
	.opened = client_opened,
	.woken = client_woken,
	.ended = client_ended,
};

static int __init net_init(void)
{
	return uln_client_register(&client);
}
module_init(net_init);

static void __exit net_exit(void)
{
	uln_client_unregister(&client);
}
module_exit(net_exit);

MODULE_DESCRIPTION("Ethernet between hosts with Hamlyn cards");
MODULE_AUTHOR("The Hamlyn project");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.9.0");
