/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What core/lane.c needs of a kernel and of uln_core.h, besides guest-driver/host/shim. The
 * compiler includes this file before all others, and uln_core.h is marked as already included.
 */
#include <asm/byteorder.h>
#include <linux/cleanup.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/types.h>

#define ULN_PAGE_SIZE 4096
#define U32_MAX UINT32_MAX
#define ALIGN(value, to) (((value) + (to) - 1) & ~((typeof(value))(to) - 1))
#define round_down(value, to) ((value) & ~((typeof(value))(to) - 1))
#define DIV_ROUND_UP(value, by) (((value) + (by) - 1) / (by))
#define min(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a < _b ? _a : _b; })
#define min3(a, b, c) min(min(a, b), c)

/* Another processor, or the other host, may act here: before and after each shared access. */
void interleave(void);

#undef READ_ONCE
#undef WRITE_ONCE
#define READ_ONCE(value)                                                      \
	({                                                                    \
		interleave();                                                 \
		typeof(value) _now = *(const volatile typeof(value) *)&(value); \
		interleave();                                                 \
		_now;                                                         \
	})
#define WRITE_ONCE(value, now)                                                \
	do {                                                                  \
		interleave();                                                 \
		*(volatile typeof(value) *)&(value) = (now);                  \
		interleave();                                                 \
	} while (0)

typedef struct {
	bool held;
} spinlock_t;

void spin_lock_init(spinlock_t *lock);
void spin_lock_bh(spinlock_t *lock);
void spin_unlock_bh(spinlock_t *lock);

static inline spinlock_t *spin_guard_begin(spinlock_t *lock)
{
	spin_lock_bh(lock);
	return lock;
}

static inline void spin_guard_end(spinlock_t **lock)
{
	spin_unlock_bh(*lock);
}

#define guard_spinlock_bh(lock)                                               \
	spinlock_t *_spin_guard __attribute__((unused, cleanup(spin_guard_end))) = \
		spin_guard_begin(lock)

typedef struct wait_queue_head {
	struct list_head entries;
} wait_queue_head_t;

struct wait_queue_entry {
	void *private;
	int (*func)(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key);
	struct list_head on_head;
};

void init_waitqueue_func_entry(struct wait_queue_entry *entry,
			       int (*func)(struct wait_queue_entry *entry, unsigned int mode,
					   int flags, void *key));
void add_wait_queue(wait_queue_head_t *head, struct wait_queue_entry *entry);
void remove_wait_queue(wait_queue_head_t *head, struct wait_queue_entry *entry);

struct device {
	/* Number of warnings, and the last one's format. */
	unsigned int warnings;
	const char *warning;
};

#define dev_warn_ratelimited(dev, format, host, what) \
	((dev)->warnings++, (dev)->warning = (what), (void)(host))

struct uln_card {
	struct device dev;
};

struct uln_file {
	struct uln_card *card;
	/* What a model has opened, and how it ends. */
	void *object;
	void (*end)(struct uln_file *file);
};

void uln_file_end(struct uln_file *file);

/* The tests' carriers have their own ways to wake a user later. */
struct work_struct {
	void (*func)(struct work_struct *work);
};

#define INIT_WORK(work, function) ((work)->func = (function))
#define system_highpri_wq NULL
#define queue_work(queue, work) ((work)->func(work))
#define cancel_work_sync(work) ((void)(work))
#define usleep_range(least, most)
#define local_bh_disable()
#define local_bh_enable()

void *kvmalloc_array(size_t count, size_t size, gfp_t flags);
#define kvfree kfree

struct page;
struct uln_pages {
	/* The memory itself. */
	struct page **page;
	unsigned long count;
};

int uln_pages_make(struct uln_file *file, u64 length, struct uln_pages **made);
void uln_pages_give_back(struct uln_pages **pages);

#define VM_MAP 0
#define PAGE_KERNEL 0
void *vmap(struct page **pages, unsigned long count, unsigned long flags, int protection);
void vunmap(const void *memory);
