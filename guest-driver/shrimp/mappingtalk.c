// SPDX-License-Identifier: GPL-2.0-only
/* Answers of exporters about mappings, and mappings whose exporter has gone. */
#include "shrimp.h"

/* Finds the mapping that a host's message means; NULL if it is not to that host, or has ended. */
static struct shrimp_mapping_object *mapping_meant(struct uln_card *card, u32 host, u32 index)
{
	struct shrimp_mapping_object *mapping = xa_load(&shrimp_parts(card)->mappings, index);

	return mapping && mapping->host == host && mapping->progress != SHRIMP_ENDED ? mapping :
										       NULL;
}

/* Takes the next pages of a mapping that is being made. */
static int mapping_take(struct uln_card *card, struct shrimp_mapping_object *mapping,
			const struct shrimp_pages *pages)
{
	u32 count = le32_to_cpu(pages->count), i;
	int ret = 0, sent;

	mapping->looks = 0;
	if (le32_to_cpu(pages->first) != mapping->known || !count || count > SHRIMP_PIECE ||
	    count > mapping->memory->count - mapping->known)
		return -EPROTO;
	for (i = 0; i < count && !ret; i++)
		ret = shrimp_map_out(card, mapping, mapping->known++,
				     le64_to_cpu(pages->pages[i]));
	sent = shrimp_send_entries(card);
	ret = ret ?: sent;
	if (!ret && mapping->known < mapping->memory->count)
		ret = shrimp_mapping_ask(card, mapping);
	if (ret || mapping->known < mapping->memory->count)
		return ret;
	shrimp_mapping_answered(card, mapping);
	/* A caller that sees this sees what the mapping has become: shrimp_map(). */
	smp_store_release(&mapping->progress, SHRIMP_MAPPED);
	wake_up_all(&mapping->wait);
	/* A thread may have touched what was withdrawn meanwhile. */
	shrimp_withdraw_look(card, mapping);
	return 0;
}

/* The exporter has named pages: maps those of this host out to them. */
void shrimp_mapping_pages(struct uln_card *card, u32 host, u32 index,
			  const struct shrimp_pages *pages)
{
	struct shrimp_mapping_object *mapping = mapping_meant(card, host, index);
	int ret;

	if (!mapping)
		return;
	ret = mapping->progress == SHRIMP_ASKING ? mapping_take(card, mapping, pages) :
						   shrimp_withdraw_undo(card, mapping, pages);
	if (!ret)
		return;
	shrimp_mapping_cut(card, mapping, ret, SHRIMP_STATE_LOST);
	shrimp_tell(card);
}

/*
 * There are no pages for a mapping, or not again for one that had them, which reports that it ends.
 */
void shrimp_mapping_refused(struct uln_card *card, u32 host, u32 index, u32 why)
{
	struct shrimp_mapping_object *mapping = mapping_meant(card, host, index);
	static const int errors[] = {
		[SHRIMP_REFUSED_ACCESS] = -EACCES,
		[SHRIMP_REFUSED_RANGE] = -ERANGE,
		[SHRIMP_REFUSED_PLACE] = -EDOM,
		[SHRIMP_REFUSED_ROOM] = -ENOSPC,
	};

	if (!mapping)
		return;
	if (mapping->progress == SHRIMP_ASKING) {
		shrimp_mapping_stop(card, mapping,
				    why && why < ARRAY_SIZE(errors) ? errors[why] : -EPROTO,
				    SHRIMP_STATE_LOST);
		return;
	}
	shrimp_mapping_cut(card, mapping, -EACCES, SHRIMP_STATE_TAKEN_BACK);
	shrimp_tell(card);
}

/* Called when the exporter wants to use pages for something else. */
void shrimp_mapping_invalidate(struct uln_card *card, u32 host, u32 index, u32 export,
			       const struct shrimp_range *range)
{
	struct shrimp_mapping_object *mapping = mapping_meant(card, host, index);

	if (mapping && mapping->export == export)
		shrimp_withdraw(card, mapping, range);
}

/* The exporter has taken an export back, and waits until this host has released it. */
void shrimp_mappings_gone(struct uln_card *card, u32 host, u32 export)
{
	struct shrimp_mapping_object *mapping;
	unsigned long index;

	xa_for_each(&shrimp_parts(card)->mappings, index, mapping)
		if (mapping->host == host && mapping->export == export)
			shrimp_mapping_cut(card, mapping, -EACCES, SHRIMP_STATE_TAKEN_BACK);
	shrimp_tell(card);
}

/* Called when the host knows no mapping now, and nothing can be sent to it. */
void shrimp_mappings_lost(struct uln_card *card, u32 host)
{
	struct shrimp_mapping_object *mapping;
	unsigned long index;

	xa_for_each(&shrimp_parts(card)->mappings, index, mapping) {
		if (mapping->host != host)
			continue;
		shrimp_mapping_stop(card, mapping, -EHOSTUNREACH, SHRIMP_STATE_LOST);
		if (mapping->tell)
			shrimp_mapping_told(card, mapping);
	}
}
