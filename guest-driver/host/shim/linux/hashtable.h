/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Hash tables with chaining. */
#ifndef _HOST_HASHTABLE_H
#define _HOST_HASHTABLE_H

#include <linux/list.h>

#define DECLARE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)]
#define hash_init(table) memset(table, 0, sizeof(table))
#define hash_chain(table, key) (&(table)[(u32)(key) % ARRAY_SIZE(table)])
#define hash_add(table, node, key) hlist_add_head(node, hash_chain(table, key))
#define hash_del(node) hlist_del_init(node)
#define hash_for_each_possible(table, item, member, key) \
	hlist_for_each_entry(item, hash_chain(table, key), member)
#define hash_for_each_safe(table, chain, after, item, member)                     \
	for ((chain) = 0; (chain) < ARRAY_SIZE(table); (chain)++)                 \
		hlist_for_each_entry_safe(item, after, &(table)[chain], member)

#endif /* _HOST_HASHTABLE_H */
