// SPDX-License-Identifier: GPL-2.0-only
/* Services of a kernel. Memory of lanes lies between pages that cannot be accessed. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "test.h"

u32 failures;
int pieces;

static bool kernel_fails(void)
{
	return failures && once_in(failures);
}

void *kzalloc(size_t size, gfp_t flags)
{
	if (kernel_fails())
		return NULL;
	pieces++;
	return calloc(1, size);
}

void *kvmalloc_array(size_t count, size_t size, gfp_t flags)
{
	return kzalloc(count * size, flags);
}

void kfree(const void *memory)
{
	if (memory)
		pieces--;
	free((void *)memory);
}

int uln_pages_make(struct uln_file *file, u64 length, struct uln_pages **made)
{
	struct uln_pages *pages = kzalloc(sizeof(*pages), GFP_KERNEL);
	void *memory;

	if (!pages)
		return -ENOMEM;
	memory = mmap(NULL, length + 2 * ULN_PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	check(memory != MAP_FAILED, "the test has not enough memory");
	pages->page = memory + ULN_PAGE_SIZE;
	pages->count = length / ULN_PAGE_SIZE;
	check(!mprotect(pages->page, length, PROT_READ | PROT_WRITE), "mprotect failed");
	*made = pages;
	return 0;
}

void uln_pages_give_back(struct uln_pages **pages)
{
	if (!*pages)
		return;
	munmap((void *)(*pages)->page - ULN_PAGE_SIZE, ((*pages)->count + 2) * ULN_PAGE_SIZE);
	kfree(*pages);
	*pages = NULL;
}

void *vmap(struct page **pages, unsigned long count, unsigned long flags, int protection)
{
	if (kernel_fails())
		return NULL;
	pieces++;
	return pages;
}

void vunmap(const void *memory)
{
	if (memory)
		pieces--;
}

void uln_file_end(struct uln_file *file)
{
	if (file->end)
		file->end(file);
}

void spin_lock_init(spinlock_t *lock)
{
	lock->held = false;
}

void spin_lock_bh(spinlock_t *lock)
{
	interleave();
	while (lock->held) {
		check(current, "a lock is taken twice");
		thread_yield();
	}
	lock->held = true;
	interleave();
}

void spin_unlock_bh(spinlock_t *lock)
{
	lock->held = false;
	interleave();
}

void init_waitqueue_func_entry(struct wait_queue_entry *entry,
			       int (*func)(struct wait_queue_entry *entry, unsigned int mode,
					   int flags, void *key))
{
	entry->func = func;
}

void add_wait_queue(wait_queue_head_t *head, struct wait_queue_entry *entry)
{
	list_add_tail(&entry->on_head, &head->entries);
}

void remove_wait_queue(wait_queue_head_t *head, struct wait_queue_entry *entry)
{
	list_del(&entry->on_head);
}

void wake_up(wait_queue_head_t *head)
{
	struct wait_queue_entry *entry;

	list_for_each_entry(entry, &head->entries, on_head)
		entry->func(entry, 0, 0, NULL);
}
