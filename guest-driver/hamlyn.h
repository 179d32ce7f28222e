/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the driver's files share.
 *
 * A card has files, a file has slots, termini and queues. One mutex for each card,
 * hamlyn_card.lock, guards all of them and the command page. Page faults take it, so no user memory
 * is touched and nothing is pinned with it held. Below it is one spinlock for each vector, which
 * interrupts take: it guards the list of the queues that are armed on the vector, and their words.
 *
 * Memory that the card may write goes back in two steps. First, with the lock held, the card
 * confirms that it has closed the object (or DMA as a whole has been stopped) and the memory is
 * unmapped; only then is it unpinned.
 */
#ifndef _HAMLYN_H
#define _HAMLYN_H

#include <linux/cdev.h>
#include <linux/cleanup.h>
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "hamlyn_card.h"
#include "hamlyn_uapi.h"

#ifdef __BIG_ENDIAN
#error "the card's structures are little-endian"
#endif

#define HAMLYN_NAME "hamlyn"
/* Page of the card's area descriptions; the kernel's own must be the same. */
#define HAMLYN_PAGE_SIZE 4096
static_assert(PAGE_SIZE == HAMLYN_PAGE_SIZE);

struct hamlyn_card;
struct hamlyn_wellknown;

struct hamlyn_vector {
	struct hamlyn_card *card;
	unsigned int number;
	/* How often it arrived. */
	atomic_t arrived;
	spinlock_t lock;
	/* Guarded by lock: queues that the card may have fired (hamlyn_queue.on_armed). */
	struct list_head armed;
};

struct hamlyn_card {
	struct device dev;
	struct cdev cdev;
	struct pci_dev *pdev;
	int minor;

	/* BAR 0, and of BAR 2 the queue control area. */
	void __iomem *registers;
	void __iomem *control;
	u32 control_size;
	/* Where the termini's windows (BAR 2) and doorbells (the second function's BAR 0, else BAR 4) lie. */
	resource_size_t windows;
	resource_size_t doorbells;
	bool posted;
	/* The command page. */
	void *page;
	dma_addr_t page_dma;
	/* What QUERY answers, but for the host id. */
	struct hamlyn_query limits;

	unsigned int vectors;
	struct hamlyn_vector vector[HAMLYN_MAX_VECTORS];
	unsigned int next_vector;
	/* A vector arrived: for the self-test. */
	wait_queue_head_t arrival;
	struct delayed_work watch;

	/* The handshake: its timer's period, 0 if the card has none, and how often it ran out. */
	struct delayed_work beat;
	u32 handshake_ms;
	unsigned int lapses;

	/* Guards all below, and what hangs on it. */
	struct mutex lock;
	/* The card is there and answers, and may do DMA. Written with the lock held. */
	bool live;
	/* The link is up, as last reported, and the host id then. */
	bool link;
	u32 host;
	/*
	 * Where the next object's mappings start. Never used twice on the card: the files of a
	 * device share an address space, so taking one's mappings away must not find another's.
	 */
	u64 next_offset;
	struct list_head files;
	struct xarray termini;
	struct xarray slots;
	struct xarray queues;
	/* What the driver has for itself, to talk to other hosts' (connect.h). */
	struct hamlyn_wellknown *wellknown;
};

/* An open file: a protection domain. The driver has one of its own, without a mapping. */
struct hamlyn_file {
	struct hamlyn_card *card;
	struct list_head on_card;
	/* The card was reset or removed since: what the file had is gone. */
	bool dead;
	struct address_space *mapping;
	/* What the windows of destroyed termini show. */
	struct page *spent;
	struct list_head slots;
	struct list_head termini;
	struct list_head queues;
	/* For poll: one of the queues got something. */
	wait_queue_head_t wait;
};

/* A user's or the driver's own pages, and the lists by which the card finds them (hamlyn_area). */
struct hamlyn_pages {
	/* Whose RLIMIT_MEMLOCK they count against; none for the driver's own. */
	struct mm_struct *mm;
	struct page **pages;
	unsigned long count;
	/* How many of them are pinned or allocated. */
	unsigned long held;
	bool pinned;
	enum dma_data_direction direction;
	u64 length;
	u32 first;

	struct device *dev;
	__u64 **lists;
	__u64 *directory;
	dma_addr_t directory_dma;
	unsigned long mapped_pages;
	unsigned long mapped_lists;
	bool mapped_directory;
};

struct hamlyn_terminus {
	/* The file's, and each mapping's. */
	struct kref users;
	struct hamlyn_file *file;
	struct list_head on_file;
	u32 index;
	/* Its number may be another's as soon as this is false. */
	bool open;
	u64 offset;
	struct page *status;
	dma_addr_t status_dma;
	struct hamlyn_pages *buffers[HAMLYN_SEND_BUFFERS];
};

struct hamlyn_slot {
	struct hamlyn_file *file;
	struct list_head on_file;
	u32 index;
	struct hamlyn_queue *queue;
	struct hamlyn_pages *area;
	struct hamlyn_pages *metadata;
};

struct hamlyn_queue {
	/* The file's, each waiter's, and each mapping's. */
	struct kref users;
	struct hamlyn_file *file;
	struct list_head on_file;
	u32 index;
	/* Slots that name it. */
	unsigned int slots;
	u64 offset;
	u32 entries;
	struct hamlyn_pages *pages;
	wait_queue_head_t wait;
	/* What poll waits for, if anything. */
	bool polled;
	u32 poll_cursor;
	u32 poll_pass;

	struct hamlyn_vector *vector;
	/* Guarded by the vector's lock. */
	struct list_head on_armed;
	bool open;
};

/* The argument of any ioctl. */
union hamlyn_argument {
	struct hamlyn_query query;
	struct hamlyn_object object;
	struct hamlyn_terminus_create terminus;
	struct hamlyn_send_buffer buffer;
	struct hamlyn_queue_create queue;
	struct hamlyn_queue_wait wait;
	struct hamlyn_slot_create slot;
	struct hamlyn_statistics statistics;
	struct hamlyn_self_test test;
	struct hamlyn_listen listen;
	struct hamlyn_connect connect;
};

/* Offsets of mmap(2), from an object's own. */
#define HAMLYN_MAP_WINDOW 0
#define HAMLYN_MAP_DOORBELL HAMLYN_WINDOW_SIZE
#define HAMLYN_MAP_STATUS (HAMLYN_WINDOW_SIZE + HAMLYN_DOORBELL_SIZE)
/* Room between two objects' offsets: the largest, a queue, takes 2 MiB. */
#define HAMLYN_MAP_STRIDE (4ULL << 20)

/* card.c */
int hamlyn_card_identify(struct hamlyn_card *card);
int hamlyn_card_start(struct hamlyn_card *card);
bool hamlyn_card_answers(struct hamlyn_card *card);
void hamlyn_card_watch(struct work_struct *work);
void hamlyn_card_report_link(struct hamlyn_card *card);
void hamlyn_card_stop(struct hamlyn_card *card);
void hamlyn_card_fail(struct hamlyn_card *card);
void hamlyn_card_end_files(struct hamlyn_card *card);
int hamlyn_card_query(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_card_statistics(struct hamlyn_file *file, union hamlyn_argument *argument);

/* handshake.c */
int hamlyn_handshake_init(void);
void hamlyn_handshake_exit(void);
void hamlyn_handshake_beat(struct work_struct *work);
void hamlyn_handshake_start(struct hamlyn_card *card);
void hamlyn_handshake_stop(struct hamlyn_card *card);

/* command.c */
int hamlyn_command(struct hamlyn_card *card, u32 opcode, u32 index, const void *body, size_t size);
void hamlyn_command_close(struct hamlyn_card *card, u32 opcode, u32 index, const void *body,
			  size_t size);

/* interrupt.c */
int hamlyn_interrupts_request(struct hamlyn_card *card);

/* file.c */
extern const struct file_operations hamlyn_fops;
void hamlyn_file_init(struct hamlyn_file *file, struct hamlyn_card *card);
void hamlyn_file_end(struct hamlyn_file *file);

/* Whether the file's objects are there; with the card's lock held. */
static inline bool hamlyn_file_live(const struct hamlyn_file *file)
{
	lockdep_assert_held(&file->card->lock);
	return file->card->live && !file->dead;
}

/* mmap.c */
int hamlyn_mmap(struct file *filp, struct vm_area_struct *vma);

/* terminus.c */
int hamlyn_terminus_create(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_terminus_destroy(struct hamlyn_file *file, union hamlyn_argument *argument);
void hamlyn_terminus_undo(struct hamlyn_file *file, union hamlyn_argument *argument);
void hamlyn_terminus_close(struct hamlyn_terminus *terminus);
void hamlyn_terminus_put(struct hamlyn_terminus *terminus);
int hamlyn_send_buffer_set(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_send_buffer_clear(struct hamlyn_file *file, union hamlyn_argument *argument);

/* slot.c */
int hamlyn_slot_create(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_slot_destroy(struct hamlyn_file *file, union hamlyn_argument *argument);
void hamlyn_slot_undo(struct hamlyn_file *file, union hamlyn_argument *argument);
void hamlyn_slot_close(struct hamlyn_slot *slot);
struct hamlyn_slot *hamlyn_slot_open_page(struct hamlyn_file *file, u32 source,
					  struct hamlyn_queue *queue,
					  const struct hamlyn_open_slot *like, u32 metadata);

/* queue.c */
int hamlyn_queue_create(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_queue_destroy(struct hamlyn_file *file, union hamlyn_argument *argument);
void hamlyn_queue_undo(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_queue_wait(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_queue_arm(struct hamlyn_file *file, union hamlyn_argument *argument);
__poll_t hamlyn_queue_poll(struct hamlyn_queue *queue);
struct hamlyn_queue *hamlyn_queue_find(struct hamlyn_file *file, u32 index);
void hamlyn_queue_close(struct hamlyn_queue *queue);
void hamlyn_queue_put(struct hamlyn_queue *queue);
void hamlyn_queues_fired(struct hamlyn_vector *vector);
bool hamlyn_queue_ready(struct hamlyn_queue *queue, u32 cursor, u32 pass);
const struct hamlyn_notification *hamlyn_queue_take(const struct hamlyn_queue *queue, u32 *cursor,
						    u32 *pass);

/* pages.c */
struct hamlyn_pages *hamlyn_pages_pin(u64 address, u64 length, enum dma_data_direction direction);
struct hamlyn_pages *hamlyn_pages_alloc(struct mm_struct *mm, u64 length);
int hamlyn_page_map(struct device *dev, struct page *page, enum dma_data_direction direction,
		    dma_addr_t *dma);
int hamlyn_pages_map(struct hamlyn_pages *pages, struct device *dev);
void hamlyn_pages_describe(const struct hamlyn_pages *pages, struct hamlyn_area *area);
void hamlyn_pages_unmap(struct hamlyn_pages *pages);
void hamlyn_pages_free(struct hamlyn_pages *pages);
DEFINE_FREE(hamlyn_pages, struct hamlyn_pages *, if (!IS_ERR_OR_NULL(_T)) hamlyn_pages_free(_T))

/* wellknown.c */
int hamlyn_wellknown_init(struct hamlyn_card *card);
void hamlyn_wellknown_free(struct hamlyn_card *card);
void hamlyn_wellknown_start(struct hamlyn_card *card);
void hamlyn_wellknown_stop(struct hamlyn_card *card);
void hamlyn_wellknown_lapsed(struct hamlyn_card *card);
u32 hamlyn_wellknown_slots(const struct hamlyn_card *card);
void hamlyn_wellknown_query(const struct hamlyn_card *card, struct hamlyn_query *query);

/* connect.c */
void hamlyn_connections_lost(struct hamlyn_card *card, u32 reason);
void hamlyn_connections_stop(struct hamlyn_card *card);

/* connectfile.c */
int hamlyn_listen(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_connect(struct hamlyn_file *file, union hamlyn_argument *argument);

/* selftest.c */
u32 hamlyn_selftest_access(struct hamlyn_card *card);
u32 hamlyn_selftest_dma(struct hamlyn_card *card);
u32 hamlyn_selftest_doorbell(struct hamlyn_card *card, resource_size_t doorbell);
int hamlyn_selftest(struct hamlyn_file *file, union hamlyn_argument *argument);

/* sysfs.c */
extern const struct attribute_group *hamlyn_groups[];

#endif /* _HAMLYN_H */
