// SPDX-License-Identifier: GPL-2.0-only
/* How much of a card its users hold, and may hold (base/share.c), as files and sysfs show it. */
#include <linux/capability.h>
#include <linux/sysfs.h>
#include <linux/user_namespace.h>

#include "uln_core.h"

static u32 holders_total(const struct uln_shares *all, unsigned int kind)
{
	const struct uln_card *card = container_of_const(all, struct uln_card, shares);

	return card->ops->shares(card, kind);
}

void uln_holders_init(struct uln_card *card)
{
	uln_shares_init(&card->shares, &card->lock, holders_total);
}

/* Gives a file its user's share, which is @spare if there is none yet; the card's lock is held. */
int uln_holders_join(struct uln_file *file, struct uln_share **spare)
{
	file->privileged = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
	return uln_share_join(&file->card->shares, spare, &file->share);
}

/* Returns whether the card has such objects. */
static bool holders_have(const struct uln_card *card, unsigned int kind)
{
	return kind == ULN_CONNECTIONS || card->ops->shared[kind];
}

int uln_holders_answer(struct uln_file *file, void *argument)
{
	struct uln_share_query *query = argument;
	unsigned int kind;

	static_assert(ARRAY_SIZE(query->held) == ULN_KINDS);
	if (memchr_inv(query, 0, sizeof(*query)))
		return -EINVAL;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	query->user = from_kuid_munged(current_user_ns(), file->share->user);
	for (kind = 0; kind < ULN_KINDS; kind++) {
		if (!holders_have(file->card, kind))
			continue;
		query->held[kind] = file->share->held[kind];
		query->limit[kind] = uln_share_limit(file->share, kind, file->privileged);
	}
	return 0;
}

/* Appends a word for each kind of shared object to @text. */
static int holders_words(const struct uln_card *card, const struct uln_share *of, char *text,
			 int length)
{
	unsigned int kind;

	for (kind = 0; kind < ULN_KINDS; kind++) {
		if (!holders_have(card, kind))
			continue;
		if (of)
			length += sysfs_emit_at(text, length, " %u", of->held[kind]);
		else
			length += sysfs_emit_at(text, length, " %s",
						kind == ULN_CONNECTIONS ?
							"connections" :
							card->ops->shared[kind]);
	}
	return length + sysfs_emit_at(text, length, "\n");
}

/* Lists users that have the card open, one a line, as many as fit into a page of text. */
ssize_t uln_holders_list(struct uln_card *card, char *text)
{
	struct uln_share *of;
	unsigned long user;
	int length;

	guard(mutex)(&card->lock);
	length = holders_words(card, NULL, text, sysfs_emit(text, "user"));
	xa_for_each(&card->shares.users, user, of) {
		if (length >= PAGE_SIZE - 1)
			break;
		length += sysfs_emit_at(text, length, "%lu", user);
		length = holders_words(card, of, text, length);
	}
	return length;
}
