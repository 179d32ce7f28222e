/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the driver's files share.
 *
 * A card has files, a file has slots, termini and queues. One mutex for each card,
 * hamlyn_card.lock, guards all of them and the command page. Page faults take it, so no user memory
 * is touched and nothing is pinned with it held; nor is memory taken that counts as the caller's, as
 * a caller at his limit waits long for it. Above it are a process' mmap_lock, the gate of its user's
 * share, and doorbell.c's lock of all second functions. Below it is one spinlock for each vector,
 * which interrupts take: it guards the list of the queues that are armed on the vector, and their
 * words.
 *
 * The watch over all connections of the host needs that mutex, so nobody may hold it for long. Work
 * that grows with somebody's memory or objects is done without it, or one object at a time. And a
 * user's threads come to it one at a time, through the gate of the user's share (share.c): a thread
 * waits for at most as many others as there are users.
 *
 * Memory that the card may write goes back in two steps. First, with the lock held, the card
 * confirms that it has closed the object (or DMA as a whole has been stopped); only then, and
 * without the lock, is the memory unmapped and unpinned.
 */
#ifndef _HAMLYN_H
#define _HAMLYN_H

#include <linux/cdev.h>
#include <linux/cleanup.h>
#include <linux/completion.h>
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
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "hamlyn_card.h"
#include "hamlyn_uapi.h"
#include "share.h"
#include "system.h"

#ifdef __BIG_ENDIAN
#error "the card's structures are little-endian"
#endif

#define HAMLYN_NAME "hamlyn"
/* Page of the card's area descriptions; the kernel's own must be the same. */
#define HAMLYN_PAGE_SIZE 4096
static_assert(PAGE_SIZE == HAMLYN_PAGE_SIZE);

/* Linux 6.12 has it from 6.12.78 on. */
#ifndef retain_and_null_ptr
#define retain_and_null_ptr(p) ((void)__get_and_null(p, NULL))
#endif

struct hamlyn_card;
struct hamlyn_wellknown;

struct hamlyn_vector {
	struct hamlyn_card *card;
	unsigned int number;
	/* How often it arrived. */
	atomic_t arrived;
	spinlock_t lock;
	/* Guarded by lock: whom the card may have fired (hamlyn_sleepers.on_armed). */
	struct list_head armed;
};

struct hamlyn_card {
	struct device dev;
	struct cdev cdev;
	struct pci_dev *pdev;
	int minor;

	/* BAR 0, and of BAR 2 the control areas: first queues', then termini's. */
	void __iomem *registers;
	void __iomem *control;
	u32 terminus_control;
	u32 control_size;
	/* Where the termini's windows (BAR 2) lie, and the first function's doorbells (BAR 4). */
	resource_size_t windows;
	resource_size_t trapped_doorbells;
	/* Where doorbells are rung: there, or at the second function. Guarded by lock. */
	resource_size_t doorbells;
	bool posted;
	/* Guarded by doorbell.c's own lock. */
	struct list_head on_cards;
	struct pci_saved_state *state;
	/* The command page. */
	void *page;
	dma_addr_t page_dma;
	/* What the card says of itself, and QUERY of it. */
	struct hamlyn_query limits;

	unsigned int vectors;
	struct hamlyn_vector vector[HAMLYN_MAX_VECTORS];
	unsigned int next_vector;
	/* A vector arrived: for the self-test. */
	wait_queue_head_t arrival;
	struct delayed_work watch;
	/* Mapped areas and pages, and one for the driver being bound; and that there are none. */
	refcount_t mappings;
	struct completion unmapped;

	/* The handshake: its timer's period, 0 if the card has none, and how often it ran out. */
	struct delayed_work beat;
	u32 handshake_ms;
	unsigned int lapses;

	/* Guards all below, and what hangs on it. */
	struct mutex lock;
	/* The card is there and answers, and may do DMA. Written with the lock held. */
	bool live;
	/* And has been started as a whole, so that files may be opened. */
	bool ready;
	/* It is in sysfs. */
	bool shown;
	/* The link is up, as last reported, how often it had changed, and the host id then. */
	bool link;
	u32 link_changes;
	u32 host;
	/*
	 * Where the next object's mappings start. Never used twice on the card: the files of a
	 * device share an address space, so taking one's mappings away must not find another's.
	 */
	u64 next_offset;
	struct list_head files;
	/* Users' shares, by user id, and what they hold together. */
	struct xarray shares;
	u32 held[HAMLYN_KINDS];
	struct xarray termini;
	struct xarray slots;
	struct xarray queues;
	/* This operating system, as others see it through this card (kernel/). */
	struct hamlyn_system *system;
	/* What the driver has for itself, to talk to other hosts' (wellknown.c). */
	struct hamlyn_wellknown *wellknown;
};

/* What a user holds of a card, through however many files, and whoever has them. */
struct hamlyn_share {
	struct hamlyn_card *card;
	kuid_t user;
	/* Held by one call at a time; taken before the card's lock. */
	struct mutex gate;
	/* Guarded by the card's lock: files and connections that name it, and objects by kind. */
	unsigned int users;
	u32 held[HAMLYN_KINDS];
};

/*
 * An open file: a protection domain. The driver has one structure for itself, with no file behind
 * it; that one has no mapping and no share.
 */
struct hamlyn_file {
	struct hamlyn_card *card;
	/* The share of the user who opened it. */
	struct hamlyn_share *share;
	/* Whether the user who opened it may have more than a share. */
	bool privileged;
	struct list_head on_card;
	/* The card was reset or removed since it was opened: what it had is gone. */
	bool dead;
	/*
	 * Whether it is the driver's own, which sends as the operating system. No file that is
	 * opened is that, not even root's.
	 */
	bool drivers_own;
	/* Where its objects are mapped. */
	struct address_space *mapping;
	/* What the windows of destroyed termini show. */
	struct page *spent;
	struct list_head slots;
	struct list_head termini;
	struct list_head queues;
	/* For poll: there is something for one of the queues or termini. */
	wait_queue_head_t wait;
};

/* A user's or the driver's own pages, and the lists by which the card finds them (hamlyn_area). */
struct hamlyn_pages {
	/*
	 * Whose RLIMIT_MEMLOCK they count against; none for the driver's own, and for who has none.
	 */
	struct user_struct *user;
	/* Whose VmPin they are part of; none for the driver's own. */
	struct mm_struct *mm;
	struct page **page;
	unsigned long count;
	/* How many of them are pinned or allocated. */
	unsigned long held;
	bool pinned;
	enum dma_data_direction direction;
	u64 length;
	u32 first;

	/* The card that can reach them. */
	struct hamlyn_card *card;
	__u64 **lists;
	__u64 *directory;
	dma_addr_t directory_dma;
	unsigned long mapped_pages;
	unsigned long mapped_lists;
	bool mapped_directory;
};

/* What sleepers wait for, as far as queues and termini differ. */
struct hamlyn_sleepers;
struct hamlyn_awaited {
	/* Whether it is there. */
	bool (*arrived)(const struct hamlyn_sleepers *sleepers, const void *what);
	/* Says more of it to the card, if need be; the vector's lock is held. */
	void (*want)(struct hamlyn_sleepers *sleepers, const void *what, bool armed);
};

/* Those who sleep on one queue or terminus. */
struct hamlyn_sleepers {
	struct hamlyn_file *file;
	const struct hamlyn_awaited *awaited;
	struct hamlyn_vector *vector;
	/* The word that is shared with the card. */
	void __iomem *armed;
	wait_queue_head_t wait;
	/* Guarded by the vector's lock. */
	struct list_head on_armed;
	bool open;
};

struct hamlyn_terminus {
	/* The file's, each waiter's, and each mapping's. */
	struct kref users;
	struct hamlyn_file *file;
	struct list_head on_file;
	u32 index;
	/* Its number may be another's as soon as this is false. */
	bool open;
	u64 offset;
	/* Mappings of its window and doorbell. */
	atomic_t views;
	struct page *status;
	dma_addr_t status_dma;
	bool status_mapped;
	struct hamlyn_pages *buffers[HAMLYN_SEND_BUFFERS];
	struct hamlyn_sleepers sleepers;
	/* What poll waits for, if anything. */
	bool polled;
	struct hamlyn_terminus_wait poll;
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
	struct hamlyn_sleepers sleepers;
	/* What poll waits for, if anything. */
	bool polled;
	struct hamlyn_queue_wait poll;
};

/* The argument of any ioctl. */
union hamlyn_argument {
	struct hamlyn_query query;
	struct hamlyn_object object;
	struct hamlyn_terminus_create terminus;
	struct hamlyn_send_buffer buffer;
	struct hamlyn_queue_create queue;
	struct hamlyn_queue_wait wait;
	struct hamlyn_terminus_wait terminus_wait;
	struct hamlyn_slot_create slot;
	struct hamlyn_statistics statistics;
	struct hamlyn_self_test test;
	struct hamlyn_listen listen;
	struct hamlyn_connect connect;
	struct hamlyn_share_query share;
};

/* What has been closed, to be released once the card's lock is not held any more. */
struct hamlyn_closed {
	struct list_head slots;
	struct list_head termini;
	struct list_head queues;
};

/* Offsets of mmap(2), from an object's own. */
#define HAMLYN_MAP_WINDOW 0
#define HAMLYN_MAP_DOORBELL HAMLYN_WINDOW_SIZE
#define HAMLYN_MAP_STATUS (HAMLYN_WINDOW_SIZE + HAMLYN_DOORBELL_SIZE)
/* Room between two objects' offsets: the largest, a queue, takes 2 MiB. */
#define HAMLYN_MAP_STRIDE (4ULL << 20)

/* card.c */
int hamlyn_card_identify(struct hamlyn_card *card);
bool hamlyn_card_changed(struct hamlyn_card *card);
int hamlyn_card_start(struct hamlyn_card *card);
bool hamlyn_card_answers(struct hamlyn_card *card);
void hamlyn_card_watch(struct work_struct *work);
void hamlyn_card_report_link(struct hamlyn_card *card);
void hamlyn_card_stop(struct hamlyn_card *card);
void hamlyn_card_fail(struct hamlyn_card *card);
void hamlyn_card_end_files(struct hamlyn_card *card, struct hamlyn_closed *closed);
int hamlyn_card_query(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_card_statistics(struct hamlyn_file *file, union hamlyn_argument *argument);

/* pci.c */
bool hamlyn_bar_holds(struct pci_dev *pdev, int bar, u64 least);
int hamlyn_state_keep(struct pci_dev *pdev, struct pci_saved_state **state);
void hamlyn_state_restore(struct pci_dev *pdev, struct pci_saved_state *state);

/* doorbell.c */
int hamlyn_bells_init(void);
void hamlyn_bells_exit(void);
int hamlyn_bells_join(struct hamlyn_card *card);

/* handshake.c */
int hamlyn_handshake_init(void);
void hamlyn_handshake_exit(void);
u32 hamlyn_handshake_least(void);
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
void hamlyn_closed_init(struct hamlyn_closed *closed);
bool hamlyn_file_close_next(struct hamlyn_file *file, struct hamlyn_closed *closed);
void hamlyn_closed_release(struct hamlyn_closed *closed);

/* Whether the file's objects are there; with the card's lock held. */
static inline bool hamlyn_file_live(const struct hamlyn_file *file)
{
	lockdep_assert_held(&file->card->lock);
	return file->card->live && !file->dead;
}

/* share.c */
struct hamlyn_share *hamlyn_share_alloc(void);
int hamlyn_share_join(struct hamlyn_file *file, struct hamlyn_share **spare);
int hamlyn_share_answer(struct hamlyn_file *file, union hamlyn_argument *argument);
ssize_t hamlyn_share_list(struct hamlyn_card *card, char *text);
void hamlyn_share_lock(struct hamlyn_card *card, struct hamlyn_share *share);
void hamlyn_share_unlock(struct hamlyn_card *card, struct hamlyn_share *share);

/*
 * A user's turn at the card's lock, which is held unless there is an error; and a call on a file.
 */
struct hamlyn_turn {
	struct hamlyn_card *card;
	struct hamlyn_share *share;
	int error;
};
struct hamlyn_turn hamlyn_wait_turn(struct hamlyn_card *card, struct hamlyn_share *share);
struct hamlyn_turn hamlyn_enter(struct hamlyn_file *file);
DEFINE_CLASS(hamlyn_turn, struct hamlyn_turn,
	     if (!_T.error) hamlyn_share_unlock(_T.card, _T.share),
	     hamlyn_wait_turn(card, share), struct hamlyn_card *card, struct hamlyn_share *share)
DEFINE_CLASS(hamlyn_entry, struct hamlyn_turn,
	     if (!_T.error) hamlyn_share_unlock(_T.card, _T.share),
	     hamlyn_enter(file), struct hamlyn_file *file)

/* mmap.c */
int hamlyn_mmap(struct file *filp, struct vm_area_struct *vma);

/* sleepers.c */
void hamlyn_sleepers_init(struct hamlyn_sleepers *sleepers, struct hamlyn_file *file,
			  const struct hamlyn_awaited *awaited);
void hamlyn_sleepers_place(struct hamlyn_sleepers *sleepers, void __iomem *armed);
void hamlyn_sleepers_open(struct hamlyn_sleepers *sleepers);
void hamlyn_sleepers_close(struct hamlyn_sleepers *sleepers);
bool hamlyn_sleepers_ready(struct hamlyn_sleepers *sleepers, const void *what);
int hamlyn_sleepers_wait(struct hamlyn_sleepers *sleepers, const void *what, s64 timeout_ns);
void hamlyn_sleepers_fired(struct hamlyn_vector *vector);

/* terminus.c */
int hamlyn_terminus_create(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_terminus_destroy(struct hamlyn_file *file, union hamlyn_argument *argument);
void hamlyn_terminus_undo(struct hamlyn_file *file, union hamlyn_argument *argument);
void hamlyn_terminus_close(struct hamlyn_terminus *terminus);
void hamlyn_terminus_release(struct hamlyn_terminus *terminus);
void hamlyn_terminus_put(struct hamlyn_terminus *terminus);
DEFINE_FREE(terminus_put, struct hamlyn_terminus *,
	    if (!IS_ERR_OR_NULL(_T)) hamlyn_terminus_put(_T))
int hamlyn_terminus_wait(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_terminus_arm(struct hamlyn_file *file, union hamlyn_argument *argument);
__poll_t hamlyn_terminus_poll(struct hamlyn_terminus *terminus);
int hamlyn_send_buffer_set(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_send_buffer_clear(struct hamlyn_file *file, union hamlyn_argument *argument);

/* slot.c */
int hamlyn_slot_create(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_slot_destroy(struct hamlyn_file *file, union hamlyn_argument *argument);
void hamlyn_slot_undo(struct hamlyn_file *file, union hamlyn_argument *argument);
void hamlyn_slot_close(struct hamlyn_slot *slot);
void hamlyn_slot_release(struct hamlyn_slot *slot);
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
void hamlyn_queue_release(struct hamlyn_queue *queue);
void hamlyn_queue_put(struct hamlyn_queue *queue);
DEFINE_FREE(queue_put, struct hamlyn_queue *, if (!IS_ERR_OR_NULL(_T)) hamlyn_queue_put(_T))
bool hamlyn_queue_ready(struct hamlyn_queue *queue, u32 cursor, u32 pass);
const struct hamlyn_notification *hamlyn_queue_take(const struct hamlyn_queue *queue, u32 *cursor,
						    u32 *pass);

/* pages.c */
struct hamlyn_pages *hamlyn_pages_pin(u64 address, u64 length, enum dma_data_direction direction);
struct hamlyn_pages *hamlyn_pages_alloc(struct hamlyn_file *file, u64 length);
int hamlyn_page_map(struct hamlyn_card *card, struct page *page, enum dma_data_direction direction,
		    dma_addr_t *dma);
void hamlyn_page_unmap(struct hamlyn_card *card, dma_addr_t dma,
		       enum dma_data_direction direction);
int hamlyn_pages_map(struct hamlyn_pages *pages, struct hamlyn_card *card);
void hamlyn_mappings_init(struct hamlyn_card *card);
void hamlyn_mappings_wait(struct hamlyn_card *card);
void hamlyn_pages_describe(const struct hamlyn_pages *pages, struct hamlyn_area *area);
void hamlyn_pages_unmap(struct hamlyn_pages *pages);
void hamlyn_pages_free(struct hamlyn_pages *pages);
DEFINE_FREE(hamlyn_pages, struct hamlyn_pages *, if (!IS_ERR_OR_NULL(_T)) hamlyn_pages_free(_T))

/* wellknown.c */
int hamlyn_wellknown_init(struct hamlyn_card *card);
void hamlyn_wellknown_free(struct hamlyn_card *card);
void hamlyn_wellknown_start(struct hamlyn_card *card);
void hamlyn_wellknown_stop(struct hamlyn_card *card, struct hamlyn_closed *closed);
void hamlyn_wellknown_doorbell(struct hamlyn_card *card);
u32 hamlyn_wellknown_slots(const struct hamlyn_card *card);
void hamlyn_wellknown_query(const struct hamlyn_card *card, struct hamlyn_query *query);

/* connectfile.c */
int hamlyn_listen(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_connect(struct hamlyn_file *file, union hamlyn_argument *argument);
int hamlyn_ask(struct hamlyn_file *file, union hamlyn_argument *argument);

/* selftest.c */
u32 hamlyn_selftest_access(struct hamlyn_card *card);
u32 hamlyn_selftest_dma(struct hamlyn_card *card);
u32 hamlyn_selftest_doorbell(struct hamlyn_card *card, resource_size_t doorbell);
int hamlyn_selftest(struct hamlyn_file *file, union hamlyn_argument *argument);

/* sysfs.c */
extern const struct attribute_group *hamlyn_groups[];
void hamlyn_sysfs_link(struct hamlyn_card *card);

#endif /* _HAMLYN_H */
