/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Doubly linked circular lists, and singly headed hash chains. */
#ifndef _HOST_LIST_H
#define _HOST_LIST_H

#include <linux/types.h>

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head->prev = head;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void list_add_tail(struct list_head *element, struct list_head *head)
{
	element->prev = head->prev;
	element->next = head;
	head->prev->next = element;
	head->prev = element;
}

/* Poisons the element, so that a use without initialization is detected. */
static inline void list_del(struct list_head *element)
{
	element->prev->next = element->next;
	element->next->prev = element->prev;
	element->next = element->prev = NULL;
}

static inline void list_del_init(struct list_head *element)
{
	list_del(element);
	INIT_LIST_HEAD(element);
}

#define list_entry(element, type, member) container_of(element, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_following(item, member) list_entry((item)->member.next, typeof(*(item)), member)
#define list_for_each_entry(item, head, member)                           \
	for (item = list_first_entry(head, typeof(*(item)), member);      \
	     &(item)->member != (head); item = list_following(item, member))
#define list_for_each_entry_safe(item, after, head, member)               \
	for (item = list_first_entry(head, typeof(*(item)), member),      \
	    after = list_following(item, member);                         \
	     &(item)->member != (head);                                   \
	     item = after, after = list_following(after, member))

struct hlist_head {
	struct hlist_node *first;
};

struct hlist_node {
	struct hlist_node *next;
	/* The pointer to this node; NULL if it is in no chain. */
	struct hlist_node **from;
};

static inline void INIT_HLIST_NODE(struct hlist_node *node)
{
	node->next = NULL;
	node->from = NULL;
}

static inline void hlist_add_head(struct hlist_node *node, struct hlist_head *head)
{
	node->next = head->first;
	node->from = &head->first;
	if (node->next)
		node->next->from = &node->next;
	head->first = node;
}

static inline void hlist_del_init(struct hlist_node *node)
{
	if (!node->from)
		return;
	*node->from = node->next;
	if (node->next)
		node->next->from = node->from;
	INIT_HLIST_NODE(node);
}

#define hlist_item(node, type, member)                                            \
	({                                                                        \
		struct hlist_node *_node = (node);                                \
		_node ? container_of(_node, type, member) : (type *)NULL;         \
	})
#define hlist_for_each_entry(item, head, member)                                  \
	for (item = hlist_item((head)->first, typeof(*(item)), member); item;     \
	     item = hlist_item((item)->member.next, typeof(*(item)), member))
#define hlist_for_each_entry_safe(item, after, head, member)                      \
	for (item = hlist_item((head)->first, typeof(*(item)), member);           \
	     item && (after = (item)->member.next, true);                         \
	     item = hlist_item(after, typeof(*(item)), member))

#endif /* _HOST_LIST_H */
