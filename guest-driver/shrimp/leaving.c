// SPDX-License-Identifier: GPL-2.0-only
/* Pages of an export that are to leave or have left; its work does the rest (paging.c). */
#include "shrimp.h"

/* Has the export's work check for something to do. */
void shrimp_paging_start(struct shrimp_export_object *export)
{
	kref_get(&export->object.users);
	if (!queue_work(shrimp_parts(export->card)->paging, &export->work))
		uln_object_put(&export->object);
}

/* Returns a page that must leave and that no host stores to, or the number of pages if none. */
u32 shrimp_paging_left(const struct shrimp_export_object *export)
{
	u32 page;

	for_each_set_bit(page, export->leaving, export->memory->count)
		if (!shrimp_export_is_held(export, page))
			return page;
	return export->memory->count;
}

/* Called when a host has stopped storing to some page. */
void shrimp_paging_look(struct shrimp_export_object *export)
{
	if (export->leaving && shrimp_paging_left(export) < export->memory->count)
		shrimp_paging_start(export);
}

/* Returns whether pages are in memory; if not, they are brought there and the imports answered. */
bool shrimp_paging_has(struct shrimp_export_object *export, u32 first, u32 count)
{
	u32 i;

	for (i = first; i < first + count; i++) {
		if (!export->memory->page[i]) {
			shrimp_paging_start(export);
			return false;
		}
	}
	return true;
}

/* Keeps a page that was to leave, as it is wanted. */
void shrimp_paging_stay(struct shrimp_export_object *export, u32 page)
{
	if (!export->leaving || !__test_and_clear_bit(page, export->leaving))
		return;
	atomic_long_inc(&shrimp_parts(export->card)->pageable);
	shrimp_imports_revalidate(export, page);
}
