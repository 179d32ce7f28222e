// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exports: buffers that other hosts may map.
 *
 * When an export ends, nothing more arrives in it. But stores of its mappers may still be in
 * flight. If its pages were exported again, these would be taken for stores to the new export. So
 * its pages stay until each mapper has reported that it has stopped storing (section 4.4), or is
 * lost. A host that was lost has to ask again for whatever it maps, after all that it had sent.
 *
 * The process has the command pages of the export's pages, to ask for reports of arrivals (section
 * 4.2). A page that leaves takes its command page with it.
 */
#include <linux/memcontrol.h>
#include <linux/random.h>
#include <linux/sched/mm.h>

#include "shrimp.h"

#define export_of(of) container_of(of, struct shrimp_export_object, object)

static struct shrimp_export_object *export_find(struct uln_file *file, u32 index)
{
	struct shrimp_export_object *export = xa_load(&shrimp_parts(file->card)->exports, index);

	return export && export->object.open && export->object.file == file ? export : NULL;
}

static void export_free(struct kref *users)
{
	struct shrimp_export_object *export =
		container_of(users, struct shrimp_export_object, object.users);

	/* An export that was never opened was not released either. */
	shrimp_paging_forget(export);
	uln_pages_free(export->memory);
	bitmap_free(export->leaving);
	bitmap_free(export->unmapped);
	mem_cgroup_put(export->memcg);
	kfree(export);
}

/* Tells the mappers of an export that it is gone; false: not all of them yet. */
static bool export_say_gone(struct uln_card *card, struct shrimp_due *due)
{
	struct shrimp_export_object *export =
		container_of(due, struct shrimp_export_object, ending);
	struct uln_head wire = { .reason = SHRIMP_SAY_GONE, .from = export->object.index };
	u32 host;

	for (host = 0; host < SHRIMP_HOSTS; host++)
		if (export->untold & BIT_ULL(host) &&
		    !shrimp_is_busy(uln_system_say(card->system, host, &wire, NULL)))
			export->untold &= ~BIT_ULL(host);
	if (!export->untold)
		list_del_init(&due->on_card);
	return !export->untold;
}

/* Allocates an export without memory, which is not known yet. */
static struct shrimp_export_object *export_new(struct uln_file *file, u64 nodes)
{
	struct shrimp_export_object *export = kzalloc(sizeof(*export), GFP_KERNEL_ACCOUNT);

	if (!export)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&export->object, file, &shrimp_export_kind);
	INIT_LIST_HEAD(&export->imports);
	shrimp_due_init(&export->ending, export_say_gone);
	shrimp_due_init(&export->telling, shrimp_imports_tell);
	init_waitqueue_head(&export->wait);
	export->card = file->card;
	export->memcg = get_mem_cgroup_from_mm(current->mm);
	export->nodes = nodes;
	export->key = get_random_u64();
	return export;
}

/* Allocates an export of pinned memory: pages that may leave do so later. */
static struct shrimp_export_object *export_alloc(struct uln_file *file,
						 const struct shrimp_export *argument)
{
	struct shrimp_export_object *export __free(shrimp_export_put) =
		export_new(file, argument->nodes);
	struct uln_pages *memory;
	int ret;

	if (IS_ERR(export))
		return_ptr(export);
	/* Before its pages are pinned: what is unmapped from then on is known. */
	if (argument->policy == SHRIMP_POLICY_PAGED) {
		ret = shrimp_paging_prepare(export, argument->address, argument->length);
		if (ret)
			return ERR_PTR(ret);
	}
	memory = uln_pages_pin(argument->address, argument->length, DMA_BIDIRECTIONAL);
	if (IS_ERR(memory))
		return ERR_CAST(memory);
	export->memory = memory;
	ret = shrimp_paging_check(export) ?: uln_pages_map(memory, file->card) ?:
	      shrimp_memory_check(file->card, memory);
	if (ret)
		return ERR_PTR(ret);
	return_ptr(export);
}

/* Allots a number, and claims the pages. */
static int export_open(struct shrimp_export_object *export)
{
	struct uln_file *file = export->object.file;
	struct shrimp_parts *parts = shrimp_parts(file->card);
	int ret;

	ret = uln_share_take(file->share, SHRIMP_SHARE_EXPORTS, file->privileged);
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
	uln_share_get(export->share);
	shrimp_paging_begin(export);
	return 0;
erase:
	xa_erase(&parts->exports, export->object.index);
give_back:
	uln_share_give(file->share, SHRIMP_SHARE_EXPORTS);
	return ret;
}

int shrimp_export(struct uln_file *file, void *argument)
{
	struct shrimp_export_object *export __free(shrimp_export_put) = NULL;
	struct shrimp_export *answer = argument;
	int ret;

	if (answer->key || answer->export || answer->commands_offset ||
	    answer->policy > SHRIMP_POLICY_PAGED || !answer->nodes || !answer->length ||
	    answer->length > SHRIMP_MAX_BUFFER)
		return -EINVAL;
	export = export_alloc(file, answer);
	if (IS_ERR(export))
		return PTR_ERR(export);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = export_open(export);
	if (ret)
		return ret;
	uln_object_join(&export->object, SHRIMP_KIND_EXPORT);
	answer->key = export->key;
	answer->export = export->object.index;
	answer->commands_offset = export->object.offset;
	retain_and_null_ptr(export);
	return 0;
}

/*
 * Exports memory of the driver's own to a host. The export has the memory from then on, and the
 * caller gets a reference.
 */
struct shrimp_export_object *shrimp_export_lend(struct uln_file *file, struct uln_pages **memory,
						u32 host)
{
	struct shrimp_export_object *export __free(shrimp_export_put) =
		export_new(file, BIT_ULL(host));
	int ret;

	if (IS_ERR(export))
		return_ptr(export);
	export->memory = no_free_ptr(*memory);
	ret = shrimp_memory_check(file->card, export->memory);
	if (ret)
		return ERR_PTR(ret);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	ret = export_open(export);
	if (ret)
		return ERR_PTR(ret);
	uln_object_join(&export->object, SHRIMP_KIND_EXPORT);
	kref_get(&export->object.users);
	return_ptr(export);
}

static void export_close(struct card_object *object)
{
	struct shrimp_export_object *export = export_of(object);
	struct uln_card *card = object->file->card;
	struct shrimp_import *import;
	u32 i;

	uln_unmap_card(object, (u64)export->memory->count * ULN_PAGE_SIZE);
	shrimp_paging_end(export);
	for (i = 0; i < export->memory->count; i++)
		if (export->memory->page[i])
			shrimp_set_in(card, shrimp_pfn(export->memory, i), export, 0);
	shrimp_send_entries(card);
	uln_object_leave(object);
	wake_up_all(&export->wait);
	if (list_empty(&export->imports)) {
		shrimp_export_end(card, export);
		return;
	}
	list_for_each_entry(import, &export->imports, on_export)
		export->untold |= BIT_ULL(import->host);
	/* Held until the last import is gone. */
	kref_get(&object->users);
	shrimp_due_add(&shrimp_parts(card)->endings, &export->ending);
	shrimp_tell(card);
	shrimp_answers_expect(card);
}

static void export_release(struct card_object *object)
{
	shrimp_paging_forget(export_of(object));
	uln_object_put(object);
}

/* Looks up the caller's export, and takes a reference. */
struct shrimp_export_object *shrimp_export_get(struct uln_file *file, u32 index)
{
	struct shrimp_export_object *export;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	export = export_find(file, index);
	if (!export)
		return ERR_PTR(-ENOENT);
	kref_get(&export->object.users);
	return export;
}

/*
 * Waits until each host that has mapped it has reported that stores have stopped, or is lost. One
 * that is late counts as lost (answers.c). The memory can be exported again then.
 */
int shrimp_unexport(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;
	struct shrimp_export_object *export __free(shrimp_export_put) = NULL;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	export = shrimp_export_get(file, object->index);
	if (IS_ERR(export))
		return PTR_ERR(export);
	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		/* Another thread may have been faster. */
		if (!export->object.open)
			return -ENOENT;
		export_close(&export->object);
	}
	export_release(&export->object);
	wait_event_killable(export->wait,
			    READ_ONCE(export->gone) || !READ_ONCE(file->card->live));
	return 0;
}

void shrimp_export_undo(struct uln_file *file, void *argument)
{
	const struct shrimp_export *answer = argument;
	struct uln_object object = { .index = answer->export };

	shrimp_unexport(file, &object);
}

static int export_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset, u64 size)
{
	if (offset || size != (u64)export_of(object)->memory->count * ULN_PAGE_SIZE)
		return -EINVAL;
	return uln_mmap_card(vma, object);
}

/* Returns the command page, or the spare page if the page will not come back. */
static resource_size_t export_place(const struct card_object *object, u64 offset)
{
	const struct shrimp_export_object *export = export_of(object);
	u32 page = offset / ULN_PAGE_SIZE;

	if (!export->memory->page[page])
		return page_to_phys(object->file->spent);
	return shrimp_parts(export->card)->memory +
	       (u64)shrimp_pfn(export->memory, page) * ULN_PAGE_SIZE;
}

/* A page whose address the process has unmapped does not come back. */
static bool export_ready(struct card_object *object, u64 offset)
{
	const struct shrimp_export_object *export = export_of(object);
	u32 page = offset / ULN_PAGE_SIZE;

	return export->memory->page[page] || !export->card->live ||
	       test_bit(page, export->unmapped);
}

/* Brings the page back. If that fails for now, the process touches the command page again. */
static void export_await(struct card_object *object, u64 offset, unsigned int state)
{
	shrimp_paging_bring(export_of(object), offset / ULN_PAGE_SIZE);
}

static __poll_t export_poll_own(struct card_object *object)
{
	const struct shrimp_export_object *export = export_of(object);

	return atomic_read(&export->arrivals) != READ_ONCE(export->polled) ?
		       EPOLLIN | EPOLLRDNORM :
		       0;
}

static wait_queue_head_t *export_waiting(struct card_object *object)
{
	return &export_of(object)->wait;
}

const struct card_kind shrimp_export_kind = {
	.close = export_close,
	.release = export_release,
	.poll_own = export_poll_own,
	.wait = export_waiting,
	.mmap = export_mmap,
	.place = export_place,
	.ready = export_ready,
	.await = export_await,
	.free = export_free,
};
