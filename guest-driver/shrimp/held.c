// SPDX-License-Identifier: GPL-2.0-only
/* Pages of an export that other hosts hold or have asked for, and its end once none does. */
#include "shrimp.h"

/* Returns whether stores to a page may still be in flight. */
bool shrimp_export_is_held(const struct shrimp_export_object *export, u32 page)
{
	const struct shrimp_import *import;

	list_for_each_entry(import, &export->imports, on_export)
		if (shrimp_import_stores(import, page))
			return true;
	return false;
}

/* Refuses a page that is unavailable: imports that have asked for it are told why. */
void shrimp_imports_refuse(struct shrimp_export_object *export, u32 page, u32 why)
{
	struct shrimp_import *import;

	list_for_each_entry(import, &export->imports, on_export)
		if (page - import->first - import->asked_first < import->asked_count)
			import->refused = why;
}

/*
 * Returns the first page that was asked for and is not in memory, or the number of pages if none.
 */
u32 shrimp_imports_wanted(const struct shrimp_export_object *export)
{
	const struct shrimp_import *import;
	u32 first, i;

	list_for_each_entry(import, &export->imports, on_export) {
		first = import->first + import->asked_first;
		for (i = first; i < first + import->asked_count && !import->refused; i++)
			if (!export->memory->page[i])
				return i;
	}
	return export->memory->count;
}

/* Returns whether an import waits for an answer about a page. */
bool shrimp_imports_await(const struct shrimp_export_object *export, u32 page)
{
	const struct shrimp_import *import;

	list_for_each_entry(import, &export->imports, on_export)
		if (page - import->first - import->asked_first < import->asked_count)
			return true;
	return false;
}

/* Mappings that may store to a page must be told not to. */
void shrimp_imports_invalidate(struct uln_card *card, struct shrimp_export_object *export,
			       u32 page)
{
	struct shrimp_import *import;

	list_for_each_entry(import, &export->imports, on_export)
		if (shrimp_import_stores(import, page) &&
		    !test_bit(page - import->first, import->told))
			__set_bit(page - import->first, import->untold);
	shrimp_due_add(&shrimp_parts(card)->telling, &export->telling);
}

/* The page stays: mappings that have not been told yet go on. */
void shrimp_imports_revalidate(struct shrimp_export_object *export, u32 page)
{
	struct shrimp_import *import;

	list_for_each_entry(import, &export->imports, on_export)
		if (page - import->first < import->count)
			__clear_bit(page - import->first, import->untold);
}

/* No host stores to it now: its pages and its number may get another owner. */
void shrimp_export_end(struct uln_card *card, struct shrimp_export_object *export)
{
	list_del_init(&export->ending.on_card);
	list_del_init(&export->telling.on_card);
	shrimp_disclaim(card, export->memory, SHRIMP_IN, export);
	/*
	 * Not later: work that waits for a page may hold the export, and unbinding waits for this.
	 */
	uln_pages_unmap(export->memory);
	xa_erase(&shrimp_parts(card)->exports, export->object.index);
	uln_share_give(export->share, SHRIMP_SHARE_EXPORTS);
	uln_share_put(export->share);
	WRITE_ONCE(export->gone, true);
	wake_up_all(&export->wait);
}
