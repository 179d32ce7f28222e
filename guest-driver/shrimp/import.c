// SPDX-License-Identifier: GPL-2.0-only
/*
 * Imports: hosts that have mapped an export, and messages to them. A page is mapped in for a host
 * only while a mapping of that host is known that may store to it.
 *
 * A page is given up in three steps (the second policy of section 4.4). Each mapping that may store
 * to it is told not to. Each reports, after all its stores, that it has stopped. Only then the page
 * has no owner (paging.c). A mapping that needs it again asks.
 */
#include "shrimp.h"

/* Limit for an export. */
#define MAX_IMPORTS 256

/* Returns the hosts that may store to a page. */
static u64 export_nodes(const struct shrimp_export_object *export, u32 page)
{
	const struct shrimp_import *import;
	u64 nodes = 0;

	if (!export->object.open)
		return 0;
	list_for_each_entry(import, &export->imports, on_export)
		if (shrimp_import_stores(import, page))
			nodes |= BIT_ULL(import->host);
	return nodes;
}

/* Shows the imports of a page to the card; shrimp_send_entries() completes it. */
static int export_show_page(struct uln_card *card, struct shrimp_export_object *export, u32 page)
{
	if (!export->memory->page[page])
		return 0;
	return shrimp_set_in(card, shrimp_pfn(export->memory, page), export,
			     export_nodes(export, page));
}

/* The same for some pages that follow each other. */
static int export_show(struct uln_card *card, struct shrimp_export_object *export, u32 first,
		       u32 count)
{
	int ret = 0, sent;
	u32 i;

	for (i = first; i < first + count && !ret; i++)
		ret = export_show_page(card, export, i);
	sent = shrimp_send_entries(card);
	return ret ?: sent;
}

/* Removes a mapping. The caller then shows its pages to the card (export_show()). */
static void import_free(struct uln_card *card, struct shrimp_export_object *export,
			struct shrimp_import *import)
{
	list_del(&import->on_export);
	export->imported--;
	shrimp_parts(card)->arranged[import->host]--;
	kfree(import);
}

/* Called after mappings were removed and the card was told: gives pages up, or ends the export. */
static void export_left(struct uln_card *card, struct shrimp_export_object *export)
{
	if (export->object.open) {
		shrimp_paging_look(export);
	} else if (list_empty(&export->imports)) {
		shrimp_export_end(card, export);
		uln_object_put(&export->object);
	}
}

/* Called when a mapping has stopped storing to it. */
static void import_drop(struct uln_card *card, struct shrimp_export_object *export,
			struct shrimp_import *import)
{
	u32 first = import->first, count = import->count;

	import_free(card, export, import);
	export_show(card, export, first, count);
	export_left(card, export);
}

static struct shrimp_import *import_find(struct shrimp_export_object *export, u32 host, u32 mapping)
{
	struct shrimp_import *import;

	list_for_each_entry(import, &export->imports, on_export)
		if (import->host == host && import->mapping == mapping)
			return import;
	return NULL;
}

/* Adds an import that has none of @total pages yet. */
static struct shrimp_import *import_add(struct uln_card *card,
					struct shrimp_export_object *export,
					u32 host, u32 mapping, u32 first, u32 total)
{
	u32 longs = BITS_TO_LONGS(total);
	struct shrimp_import *import;

	if (export->imported == MAX_IMPORTS || import_find(export, host, mapping))
		return NULL;
	/* Charged to the exporter, because another host decides how many imports there are. */
	import = uln_zalloc_charged(struct_size(import, bits, 3 * longs), export->memcg);
	if (!import)
		return NULL;
	import->host = host;
	import->mapping = mapping;
	import->first = first;
	import->total = total;
	import->stores = import->bits;
	import->untold = import->bits + longs;
	import->told = import->bits + 2 * longs;
	uln_system_watch(card->system, host);
	shrimp_parts(card)->arranged[host]++;
	export->imported++;
	list_add_tail(&import->on_export, &export->imports);
	return import;
}

/* Returns why a mapping may not have what it asks for, or 0 and the pages of the export. */
static u32 export_allows(const struct shrimp_export_object *export, u32 host,
			 const struct shrimp_ask *ask, u32 *first, u32 *count)
{
	u64 asked = le64_to_cpu(ask->length), offset = le64_to_cpu(ask->offset), length, start;
	u32 place = le32_to_cpu(ask->place);

	if (!export || !export->object.open || export->key != le64_to_cpu(ask->key) ||
	    !(export->nodes & BIT_ULL(host)))
		return SHRIMP_REFUSED_ACCESS;
	length = export->memory->length;
	if (!asked || asked > length || offset > length - asked)
		return SHRIMP_REFUSED_RANGE;
	start = export->memory->first + offset;
	if (offset_in_page(start) != place)
		return SHRIMP_REFUSED_PLACE;
	*first = start / ULN_PAGE_SIZE;
	*count = DIV_ROUND_UP(place + asked, ULN_PAGE_SIZE);
	return le32_to_cpu(ask->first) < *count ? 0 : SHRIMP_REFUSED_RANGE;
}

/*
 * Tells a mapping why it gets no pages; false: not now. A mapping that never had all of them is
 * removed.
 */
static bool import_refuse(struct uln_card *card, struct shrimp_export_object *export,
			  struct shrimp_import *import)
{
	struct shrimp_refused refused = { .why = cpu_to_le32(import->refused) };
	struct uln_head wire = {
		.reason = SHRIMP_SAY_REFUSED,
		.to = import->mapping,
		.private_length = sizeof(refused),
	};

	if (shrimp_is_busy(uln_system_say(card->system, import->host, &wire, &refused)))
		return false;
	import->asked_count = 0;
	import->refused = 0;
	if (!import->complete)
		import_drop(card, export, import);
	return true;
}

/*
 * Maps in the pages that a mapping has asked for. Only then do threads that wait for a word in one
 * ask for a report of arrivals: the card reports nothing of a page that is not mapped in.
 */
static int import_open(struct uln_card *card, struct shrimp_export_object *export,
		       struct shrimp_import *import)
{
	u32 first = import->first + import->asked_first, i;
	int ret;

	for (i = 0; i < import->asked_count; i++) {
		shrimp_paging_stay(export, first + i);
		__set_bit(import->asked_first + i, import->stores);
	}
	import->count = max(import->count, import->asked_first + import->asked_count);
	ret = export_show(card, export, first, import->asked_count);
	atomic_inc(&export->arrivals);
	wake_up_all(&export->wait);
	return ret;
}

/*
 * Answers what a mapping has asked for. If not all of it is in memory it is answered when it is.
 * False: there is no room for the answer now.
 */
static bool import_answer(struct uln_card *card, struct shrimp_export_object *export,
			  struct shrimp_import *import)
{
	struct shrimp_pages pages = {
		.first = cpu_to_le32(import->asked_first),
		.count = cpu_to_le32(import->asked_count),
	};
	struct uln_head wire = {
		.reason = SHRIMP_SAY_PAGES,
		.to = import->mapping,
		.private_length = sizeof(pages),
	};
	u32 first = import->first + import->asked_first, i;

	if (!import->refused && !shrimp_paging_has(export, first, import->asked_count))
		return true;
	if (!import->refused && import_open(card, export, import))
		import->refused = SHRIMP_REFUSED_ROOM;
	if (import->refused)
		return import_refuse(card, export, import);
	for (i = 0; i < import->asked_count; i++)
		pages.pages[i] = cpu_to_le64(shrimp_pfn(export->memory, first + i));
	if (shrimp_is_busy(uln_system_say(card->system, import->host, &wire, &pages)))
		return false;
	import->asked_count = 0;
	import->complete = import->count == import->total;
	return true;
}

/* Answers requests for pages that are in memory, or that are refused. */
void shrimp_imports_answer(struct uln_card *card, struct shrimp_export_object *export)
{
	struct shrimp_import *import, *next;

	list_for_each_entry_safe(import, next, &export->imports, on_export)
		if (import->asked_count && !import_answer(card, export, import))
			shrimp_tell_soon(card, &export->telling);
}

/*
 * Handles a host's mapping that wants pages of an export, and maps them in for it. Returns why not;
 * nothing of the mapping is known then.
 */
u32 shrimp_import(struct uln_card *card, u32 host, u32 index, u32 mapping,
		  const struct shrimp_ask *ask)
{
	struct shrimp_export_object *export = xa_load(&shrimp_parts(card)->exports, index);
	struct shrimp_import *import;
	u32 from = le32_to_cpu(ask->first), refused, first, count;

	refused = export_allows(export, host, ask, &first, &count);
	if (refused) {
		/* The mapping is abandoned, and does not report that itself. */
		if (from)
			shrimp_import_end(card, host, index, mapping);
		return refused;
	}
	import = from ? import_find(export, host, mapping) :
			import_add(card, export, host, mapping, first, count);
	if (!import)
		return from ? SHRIMP_REFUSED_ACCESS : SHRIMP_REFUSED_ROOM;
	/* Piece by piece, from the first on. */
	if (import->first != first || import->total != count || import->count != from ||
	    import->asked_count) {
		import_drop(card, export, import);
		return SHRIMP_REFUSED_RANGE;
	}
	import->asked_first = from;
	import->asked_count = min(SHRIMP_PIECE, count - from);
	if (!import_answer(card, export, import))
		shrimp_tell_soon(card, &export->telling);
	return 0;
}

/* Returns the import of a host's mapping, if it exists. */
static struct shrimp_import *import_get(struct uln_card *card, u32 host, u32 index, u32 mapping,
					struct shrimp_export_object **export)
{
	*export = xa_load(&shrimp_parts(card)->exports, index);
	return *export ? import_find(*export, host, mapping) : NULL;
}

static bool range_is_of(const struct shrimp_range *range, const struct shrimp_import *import)
{
	return range->count && range->first < import->total &&
	       range->count <= import->total - range->first;
}

/* Handles a host's mapping that wants pages again which it may not store to now. */
void shrimp_import_again(struct uln_card *card, u32 host, u32 index, u32 mapping,
			 const struct shrimp_range *range)
{
	struct shrimp_export_object *export;
	struct shrimp_import *import = import_get(card, host, index, mapping, &export);
	u32 end;

	/* A closed export has told the mapping so. */
	if (!import || !export->object.open || !import->complete || import->asked_count ||
	    !range_is_of(range, import) || range->count > SHRIMP_PIECE)
		return;
	end = range->first + range->count;
	if (find_next_bit(import->stores, end, range->first) < end)
		return;
	import->asked_first = range->first;
	import->asked_count = range->count;
	if (!import_answer(card, export, import))
		shrimp_tell_soon(card, &export->telling);
}

/* Tells a mapping of the pages that it may not store to; false: not of all yet. */
static bool import_tell(struct uln_card *card, struct shrimp_export_object *export,
			struct shrimp_import *import)
{
	struct shrimp_range range;
	struct shrimp_part part;
	struct uln_head wire = {
		.reason = SHRIMP_SAY_INVALIDATE,
		.from = export->object.index,
		.to = import->mapping,
		.private_length = sizeof(part),
	};

	while (shrimp_next_range(import->untold, import->total, &range)) {
		part = shrimp_part_pack(&range);
		if (shrimp_is_busy(uln_system_say(card->system, import->host, &wire, &part)))
			return false;
		bitmap_clear(import->untold, range.first, range.count);
		bitmap_set(import->told, range.first, range.count);
	}
	return true;
}

/* Tells the mappings of an export what is due; false: not all of it yet. */
bool shrimp_imports_tell(struct uln_card *card, struct shrimp_due *due)
{
	struct shrimp_export_object *export =
		container_of(due, struct shrimp_export_object, telling);
	struct shrimp_import *import, *next;
	bool all = true;

	list_for_each_entry_safe(import, next, &export->imports, on_export) {
		all = import_tell(card, export, import) && all;
		if (import->asked_count)
			all = import_answer(card, export, import) && all;
	}
	if (all)
		list_del_init(&due->on_card);
	return all;
}

/* Handles a mapping's report, after its last store, that it has stopped storing to pages. */
void shrimp_import_invalidated(struct uln_card *card, u32 host, u32 index, u32 mapping,
			       const struct shrimp_range *range)
{
	struct shrimp_export_object *export;
	struct shrimp_import *import = import_get(card, host, index, mapping, &export);
	u32 i;

	if (!import || !range_is_of(range, import))
		return;
	for (i = range->first; i < range->first + range->count; i++) {
		if (!__test_and_clear_bit(i, import->told))
			continue;
		__clear_bit(i, import->stores);
		export_show_page(card, export, import->first + i);
	}
	shrimp_send_entries(card);
	shrimp_paging_look(export);
}

/* Called when a host's mapping has ended. */
void shrimp_import_end(struct uln_card *card, u32 host, u32 index, u32 mapping)
{
	struct shrimp_export_object *export;
	struct shrimp_import *import = import_get(card, host, index, mapping, &export);

	if (import)
		import_drop(card, export, import);
}

/* Removes all mappings of an export by a host that is lost. */
static void export_lost(struct uln_card *card, struct shrimp_export_object *export, u32 host)
{
	u32 first = export->memory->count, end = 0;
	struct shrimp_import *import, *next;

	list_for_each_entry_safe(import, next, &export->imports, on_export) {
		if (import->host != host)
			continue;
		first = min(first, import->first);
		end = max(end, import->first + import->count);
		import_free(card, export, import);
	}
	/* Once for all of them: a hostile host has made up to MAX_IMPORTS. */
	if (first < end)
		export_show(card, export, first, end - first);
	if (first < export->memory->count)
		export_left(card, export);
}

/* Called when a host is lost, and has nothing mapped. */
void shrimp_imports_lost(struct uln_card *card, u32 host)
{
	struct shrimp_export_object *export;
	unsigned long index;

	xa_for_each(&shrimp_parts(card)->exports, index, export) {
		export->untold &= ~BIT_ULL(host);
		/* Held, as the last import may be what keeps it. */
		kref_get(&export->object.users);
		export_lost(card, export, host);
		uln_object_put(&export->object);
	}
}
