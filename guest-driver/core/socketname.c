// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of TCP connections: "tcp/OWN:PORT-PEER:PORT". Only a process with that connection listens
 * under it, so a peer that finds the name on the connection's host has found its owner. No two
 * connections of a network namespace have the same ends.
 */
#include <linux/in.h>
#include <linux/net.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <net/tcp_states.h>

#include "uln_core.h"

/* Of another network namespace's connections the host's addresses say nothing. */
static bool is_connection(struct sock *sk)
{
	if (sk->sk_type != SOCK_STREAM || sk->sk_protocol != IPPROTO_TCP ||
	    !net_eq(sock_net(sk), &init_net) ||
	    ((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN)))
		return false;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return ipv6_addr_v4mapped(&sk->sk_v6_daddr);
#endif
	return sk->sk_family == AF_INET;
}

int uln_socket_name_check(const struct uln_listen *listen)
{
	const struct inet_sock *inet;
	char name[ULN_MAX_NAME];
	struct socket *socket;
	u32 length = 0;
	int ret;

	if (!listen->socket)
		return -EACCES;
	socket = sockfd_lookup(listen->socket - 1, &ret);
	if (!socket)
		return ret;
	lock_sock(socket->sk);
	if (is_connection(socket->sk)) {
		inet = inet_sk(socket->sk);
		length = scnprintf(name, sizeof(name), "tcp/%pI4:%u-%pI4:%u", &inet->inet_saddr,
				   ntohs(inet->inet_sport), &inet->inet_daddr,
				   ntohs(inet->inet_dport));
	}
	release_sock(socket->sk);
	sockfd_put(socket);
	return length == listen->name_length && !memcmp(name, listen->name, length) ? 0 : -EACCES;
}
