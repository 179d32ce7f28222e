// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exports: buffers that others may map, and who has. A page is mapped in for a host only while a
 * mapping of that host is known that needs it.
 *
 * When an export ends, nothing arrives in it any more. But stores of its mappers may still be on their
 * way, and if its pages were exported anew they would be taken for stores to that. So its pages stay
 * as they are until each mapper has said that it stores no more (section 4.4), or is lost: a host
 * that was lost has to ask anew for whatever it maps, behind all that it had sent.
 */
#include <linux/random.h>

#include "shrimp.h"

/* Of an export. */
#define MAX_IMPORTS 256

#define export_of(of) container_of(of, struct shrimp_export_object, object)

static struct shrimp_export_object *export_find(struct hamlyn_file *file, u32 index)
{
	struct shrimp_export_object *export = xa_load(&shrimp_parts(file->card)->exports, index);

	return export && export->object.open && export->object.file == file ? export : NULL;
}

static void export_free(struct kref *users)
{
	struct shrimp_export_object *export =
		container_of(users, struct shrimp_export_object, object.users);

	hamlyn_pages_free(export->memory);
	kfree(export);
}

/* An export that nobody knows yet, of pinned memory. */
static struct shrimp_export_object *export_alloc(struct hamlyn_file *file,
						 const struct shrimp_export *argument)
{
	struct shrimp_export_object *export __free(shrimp_export_put) =
		kzalloc(sizeof(*export), GFP_KERNEL_ACCOUNT);
	struct hamlyn_pages *memory;
	int ret;

	if (!export)
		return ERR_PTR(-ENOMEM);
	hamlyn_object_init(&export->object, file, &shrimp_export_kind);
	INIT_LIST_HEAD(&export->imports);
	INIT_LIST_HEAD(&export->on_untold);
	init_waitqueue_head(&export->wait);
	export->nodes = argument->nodes;
	export->key = get_random_u64();
	memory = hamlyn_pages_pin(argument->address, argument->length, DMA_BIDIRECTIONAL);
	if (IS_ERR(memory))
		return ERR_CAST(memory);
	export->memory = memory;
	ret = hamlyn_pages_map(memory, file->card) ?: shrimp_memory_check(file->card, memory);
	if (ret)
		return ERR_PTR(ret);
	return_ptr(export);
}

/* Gives it a number and its pages. */
static int export_open(struct shrimp_export_object *export)
{
	struct hamlyn_file *file = export->object.file;
	struct shrimp_parts *parts = shrimp_parts(file->card);
	int ret;

	ret = hamlyn_share_take(file->share, SHRIMP_SHARE_EXPORTS, file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc_cyclic(&parts->exports, &export->object.index, export,
			      XA_LIMIT(0, SHRIMP_MAX_OBJECTS - 1), &parts->next_export, GFP_KERNEL);
	if (ret < 0) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	ret = shrimp_claim(file->card, export->memory, SHRIMP_IN, export);
	if (ret)
		goto erase;
	export->share = file->share;
	hamlyn_share_get(export->share);
	return 0;
erase:
	xa_erase(&parts->exports, export->object.index);
give_back:
	hamlyn_share_give(file->share, SHRIMP_SHARE_EXPORTS);
	return ret;
}

int shrimp_export(struct hamlyn_file *file, void *argument)
{
	struct shrimp_export_object *export __free(shrimp_export_put) = NULL;
	struct shrimp_export *answer = argument;
	int ret;

	if (answer->key || answer->export || answer->reserved || !answer->nodes ||
	    !answer->length || answer->length > SHRIMP_MAX_BUFFER)
		return -EINVAL;
	export = export_alloc(file, answer);
	if (IS_ERR(export))
		return PTR_ERR(export);

	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = export_open(export);
	if (ret)
		return ret;
	hamlyn_object_join(&export->object, SHRIMP_KIND_EXPORT);
	answer->key = export->key;
	answer->export = export->object.index;
	retain_and_null_ptr(export);
	return 0;
}

/* Nobody stores to it any more: its pages and its number may be another's. */
static void export_end(struct hamlyn_card *card, struct shrimp_export_object *export)
{
	list_del_init(&export->on_untold);
	shrimp_disclaim(card, export->memory, SHRIMP_IN, export);
	xa_erase(&shrimp_parts(card)->exports, export->object.index);
	hamlyn_share_give(export->share, SHRIMP_SHARE_EXPORTS);
	hamlyn_share_put(export->share);
	WRITE_ONCE(export->gone, true);
	wake_up_all(&export->wait);
}

static void export_close(struct card_object *object)
{
	struct shrimp_export_object *export = export_of(object);
	struct hamlyn_card *card = object->file->card;
	struct shrimp_import *import;
	u32 i;

	WRITE_ONCE(object->open, false);
	for (i = 0; i < export->memory->count; i++)
		shrimp_set_in(card, shrimp_pfn(export->memory, i), export, 0);
	list_del(&object->on_file);
	wake_up_all(&export->wait);
	if (list_empty(&export->imports)) {
		export_end(card, export);
		return;
	}
	list_for_each_entry(import, &export->imports, on_export)
		export->untold |= BIT_ULL(import->host);
	/* Held until the last import is gone. */
	kref_get(&object->users);
	list_add_tail(&export->on_untold, &shrimp_parts(card)->untold_exports);
	shrimp_tell(card);
}

static void export_release(struct card_object *object)
{
	hamlyn_object_put(object);
}

/* The export that a caller means, held for it. */
struct shrimp_export_object *shrimp_export_get(struct hamlyn_file *file, u32 index)
{
	struct shrimp_export_object *export;

	CLASS(hamlyn_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	export = export_find(file, index);
	if (!export)
		return ERR_PTR(-ENOENT);
	kref_get(&export->object.users);
	return export;
}

/* Waits until nobody has it mapped: then its memory can be exported again. */
int shrimp_unexport(struct hamlyn_file *file, void *argument)
{
	const struct hamlyn_object *object = argument;
	struct shrimp_export_object *export __free(shrimp_export_put) = NULL;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	export = shrimp_export_get(file, object->index);
	if (IS_ERR(export))
		return PTR_ERR(export);
	scoped_class(hamlyn_entry, entry, file) {
		if (entry.error)
			return entry.error;
		/* Another thread may have been quicker. */
		if (!export->object.open)
			return -ENOENT;
		export_close(&export->object);
	}
	export_release(&export->object);
	wait_event_killable(export->wait,
			    READ_ONCE(export->gone) || !READ_ONCE(file->card->live));
	return 0;
}

void shrimp_export_undo(struct hamlyn_file *file, void *argument)
{
	const struct shrimp_export *answer = argument;
	struct hamlyn_object object = { .index = answer->export };

	shrimp_unexport(file, &object);
}

/* The hosts that have a page of it mapped. */
static u64 export_nodes(const struct shrimp_export_object *export, u32 page)
{
	const struct shrimp_import *import;
	u64 nodes = 0;

	if (!export->object.open)
		return 0;
	list_for_each_entry(import, &export->imports, on_export)
		if (page - import->first < import->count)
			nodes |= BIT_ULL(import->host);
	return nodes;
}

/*
 * The card does as the imports say, for some pages. It reports no arrival for a page that was not
 * mapped in when it was asked: so who waits has to ask again.
 */
static int export_show(struct hamlyn_card *card, struct shrimp_export_object *export, u32 first,
		       u32 count)
{
	int ret = 0;
	u32 i;

	for (i = first; i < first + count && !ret; i++)
		ret = shrimp_set_in(card, shrimp_pfn(export->memory, i), export,
				    export_nodes(export, i));
	atomic_inc(&export->arrivals);
	wake_up_all(&export->wait);
	return ret;
}

/* A mapping stores to it no more. */
static void import_drop(struct hamlyn_card *card, struct shrimp_export_object *export,
			struct shrimp_import *import)
{
	list_del(&import->on_export);
	export->imported--;
	shrimp_parts(card)->arranged[import->host]--;
	export_show(card, export, import->first, import->count);
	kfree(import);
	if (!export->object.open && list_empty(&export->imports)) {
		export_end(card, export);
		hamlyn_object_put(&export->object);
	}
}

static struct shrimp_import *import_find(struct shrimp_export_object *export, u32 host, u32 mapping)
{
	struct shrimp_import *import;

	list_for_each_entry(import, &export->imports, on_export)
		if (import->host == host && import->mapping == mapping)
			return import;
	return NULL;
}

/* One that has no page yet. */
static struct shrimp_import *import_add(struct hamlyn_card *card, struct shrimp_export_object *export,
					u32 host, u32 mapping, u32 first)
{
	struct shrimp_import *import;

	if (export->imported == MAX_IMPORTS || import_find(export, host, mapping))
		return NULL;
	import = kzalloc(sizeof(*import), GFP_KERNEL);
	if (!import)
		return NULL;
	*import = (struct shrimp_import) { .host = host, .mapping = mapping, .first = first };
	hamlyn_system_watch(card->system, host);
	shrimp_parts(card)->arranged[host]++;
	export->imported++;
	list_add_tail(&import->on_export, &export->imports);
	return import;
}

/* Whether a mapping may have what it asks for, and which pages of the export that are. */
static u32 export_allows(const struct shrimp_export_object *export, u32 host,
			 const struct shrimp_ask *ask, u32 *first, u32 *count)
{
	u64 length, start;

	if (!export || !export->object.open || export->key != ask->key ||
	    !(export->nodes & BIT_ULL(host)))
		return SHRIMP_REFUSED_ACCESS;
	length = export->memory->length;
	if (!ask->length || ask->length > length || ask->offset > length - ask->length)
		return SHRIMP_REFUSED_RANGE;
	start = export->memory->first + ask->offset;
	if (offset_in_page(start) != ask->place)
		return SHRIMP_REFUSED_PLACE;
	*first = start / HAMLYN_PAGE_SIZE;
	*count = DIV_ROUND_UP(ask->place + ask->length, HAMLYN_PAGE_SIZE);
	return ask->first < *count ? 0 : SHRIMP_REFUSED_RANGE;
}

/*
 * A host's mapping wants pages of an export: maps them in for it. Answers why not; nothing of the
 * mapping is known then.
 */
u32 shrimp_import(struct hamlyn_card *card, u32 host, u32 index, u32 mapping,
		  const struct shrimp_ask *ask, struct shrimp_pages *pages)
{
	struct shrimp_export_object *export = xa_load(&shrimp_parts(card)->exports, index);
	struct shrimp_import *import;
	u32 refused, first, count, i;

	refused = export_allows(export, host, ask, &first, &count);
	if (refused) {
		/* The mapping comes to nothing: it does not say so itself. */
		if (ask->first)
			shrimp_import_end(card, host, index, mapping);
		return refused;
	}
	import = ask->first ? import_find(export, host, mapping) :
			      import_add(card, export, host, mapping, first);
	if (!import)
		return ask->first ? SHRIMP_REFUSED_ACCESS : SHRIMP_REFUSED_ROOM;
	/* Piece by piece, from the first on. */
	refused = import->first != first || import->count != ask->first ? SHRIMP_REFUSED_RANGE : 0;
	if (!refused) {
		*pages = (struct shrimp_pages) {
			.first = ask->first,
			.count = min(SHRIMP_PIECE, count - ask->first),
		};
		import->count += pages->count;
		if (export_show(card, export, first + ask->first, pages->count))
			refused = SHRIMP_REFUSED_ROOM;
	}
	if (refused) {
		import_drop(card, export, import);
		return refused;
	}
	for (i = 0; i < pages->count; i++)
		pages->pages[i] = shrimp_pfn(export->memory, first + ask->first + i);
	return 0;
}

/* A host's mapping is no more. */
void shrimp_import_end(struct hamlyn_card *card, u32 host, u32 index, u32 mapping)
{
	struct shrimp_export_object *export = xa_load(&shrimp_parts(card)->exports, index);
	struct shrimp_import *import = export ? import_find(export, host, mapping) : NULL;

	if (import)
		import_drop(card, export, import);
}

/* A host is lost, and has nothing mapped any more. */
void shrimp_imports_lost(struct hamlyn_card *card, u32 host)
{
	struct shrimp_import *import, *next;
	struct shrimp_export_object *export;
	unsigned long index;

	xa_for_each(&shrimp_parts(card)->exports, index, export) {
		export->untold &= ~BIT_ULL(host);
		/* Held, as the last import may be what keeps it. */
		kref_get(&export->object.users);
		list_for_each_entry_safe(import, next, &export->imports, on_export)
			if (import->host == host)
				import_drop(card, export, import);
		hamlyn_object_put(&export->object);
	}
}

const struct card_kind shrimp_export_kind = {
	.close = export_close,
	.release = export_release,
	.free = export_free,
};
