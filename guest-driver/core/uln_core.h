/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Definitions that all cards of the family share. The core reaches what is specific to a card
 * through card_ops.
 *
 * A card has files, and a file has objects, whose kinds the card defines. One mutex for each card,
 * uln_card.lock, guards all of them and the command page. Page faults take it. So while it is
 * held, no user memory is touched and nothing is pinned. Nor is memory allocated that is charged to
 * the caller: a caller at its limit waits long for it. Above it are a process's mmap_lock, the gate
 * of the user's share, and what a card's folder has for all cards together. Below it is one
 * spinlock for each vector, which interrupt handlers take. The spinlock guards the list of what is
 * armed on the vector, and the armed words of those entries.
 *
 * The watch over all connections of the host needs that mutex, so it is held for a bounded time.
 * Work on several objects, and pinning and mapping of memory, are done without it or object by
 * object. The remaining work grows with one object:
 * - closing an export or a mapping of a SHRIMP card: up to 23 commands for 1,024 pages, and a check
 *   of up to 256 imports for each page
 * - removing an object's mappings: up to ULN_MAP_STRIDE of page table for each of 16 mappings
 * - taking pages of express memory: up to ULN_EXPRESS_RUNS scans of one part's table
 * - a page that is given up or asked for in SHRIMP's paging: up to 1,024 pages and 256 imports
 * Other work grows with what all users have:
 * - the loss of a host ends all connections with it, by one command for each of a DART card, and a
 *   SHRIMP card's mappings in both directions, once for each export
 * - a message that an export has gone ends all mappings to that export
 * - a new mapping of a SHRIMP card checks all mappings of the card
 * - messages about express memory are tried for each view that waits
 * A user's threads take the mutex one at a time, through the gate of the user's share (turn.c). So
 * a thread waits for at most as many others as there are users.
 *
 * Memory that the card may write is released in two steps. First, with the lock held, the card
 * confirms that it has closed the object (or all DMA has been stopped). Only then, and without the
 * lock, is the memory unmapped and unpinned.
 */
#ifndef _ULN_CORE_H
#define _ULN_CORE_H

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
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "uln.h"
#include "uln_shares.h"
#include "uln_system.h"
#include "uln_uapi.h"
#include "uln_wire.h"

/* Some kernels of the series 6.12 lack it, such as that of Debian 12's backports. */
#ifndef scoped_class
#define scoped_class(name, var, args...) \
	for (CLASS(name, var)(args), *var##_done = NULL; !var##_done; var##_done = (void *)1)
#endif

#ifdef __BIG_ENDIAN
#error "the card's structures are little-endian"
#endif

#define ULN_NAME "hamlyn"
/* The first vector after the link's. */
#define ULN_FIRST_VECTOR (ULN_VECTOR_LINK + 1)
/* Page size of the card's area descriptions; the kernel's must be the same. */
#define ULN_PAGE_SIZE 4096
static_assert(PAGE_SIZE == ULN_PAGE_SIZE);

/* Linux 6.12 has this macro from 6.12.78 on. */
#ifndef retain_and_null_ptr
#define retain_and_null_ptr(p) ((void)__get_and_null(p, NULL))
#endif

struct card_ops;
struct uln_model;
struct uln_card;
struct uln_closed;
struct uln_express_memory;
struct uln_express_ops;
struct uln_file;
struct uln_lane_ops;

/* Maximum number of kinds of objects of a card. */
#define ULN_CARD_KINDS 5

struct card_kind;

/**
 * struct card_object - object of a file: the first member of each card's own structure
 * @users: references of the file, of each waiter and of each mapping
 * @kind: kind of the object
 * @card: the card, which outlives the object
 * @file: the file, or NULL once the object is closed: the file may be freed before the object
 * @on_file: entry in the file's list of the kind
 * @index: number on the card; another object may get it as soon as this one is closed
 * @open: the card knows the object
 * @alone: has a file of its own, which reports its events instead of the card's file
 * @offset: offset of the object for mmap(2), if its kind can be mapped
 * @by_offset: entry in the file's tree of offsets
 * @views: number of mappings of the card's pages
 * @spent: page that such mappings show once the object is closed; NULL: the file's spent page
 */
struct card_object {
	struct kref users;
	const struct card_kind *kind;
	struct uln_card *card;
	struct uln_file *file;
	struct list_head on_file;
	u32 index;
	bool open;
	bool alone;
	u64 offset;
	struct rb_node by_offset;
	atomic_t views;
	struct page *spent;
};

/**
 * struct card_kind - kind of objects that the files of a card have
 * @close: removes an object from its file and the card, with the card's lock held
 * @release: releases the object's memory after @close, without the lock: the card can no longer
 *	reach it. Must not use the object's file
 * @poll: returns the events that the object was armed for and that have occurred, with the card's
 *	lock held. NULL: the object cannot be polled
 * @poll_own: the same for the object's own file, if it differs
 * @wait: returns the wait queue that is woken when the object may have an event. NULL: the object
 *	has no file of its own
 * @await_own: sets what the object's own file waits for, with the card's lock held. NULL: there is
 *	nothing to choose
 * @mmap: maps @size bytes from byte @offset of the object. NULL: the kind cannot be mapped
 * @place: returns the bus address of byte @offset, for uln_mmap_card(), with the card's lock
 *	held
 * @ready: returns whether that byte may be accessed now, with the card's lock held. If not, the
 *	program waits in @await and retries the access. NULL: always
 * @await: waits in task state @state, without any lock, until @ready may have changed
 * @free: frees the object after its last reference. Must not use the object's file
 */
struct card_kind {
	void (*close)(struct card_object *object);
	void (*release)(struct card_object *object);
	__poll_t (*poll)(struct card_object *object);
	__poll_t (*poll_own)(struct card_object *object);
	wait_queue_head_t *(*wait)(struct card_object *object);
	int (*await_own)(struct card_object *object, u64 what);
	int (*mmap)(struct card_object *object, struct vm_area_struct *vma, u64 offset, u64 size);
	resource_size_t (*place)(const struct card_object *object, u64 offset);
	bool (*ready)(struct card_object *object, u64 offset);
	void (*await)(struct card_object *object, u64 offset, unsigned int state);
	void (*free)(struct kref *users);
};

/**
 * struct card_call - ioctl of a card
 * @code: the request code, with the size of the driver's own argument; a caller's code may have
 *	another size
 * @answers: the argument is copied back to the caller
 * @run: carries out the call; the argument has been copied in
 * @undo: reverts @run if the answer cannot be copied to the caller
 */
struct card_call {
	u32 code;
	bool answers;
	int (*run)(struct uln_file *file, void *argument);
	void (*undo)(struct uln_file *file, void *argument);
};

/* Size of the largest argument of an ioctl. */
#define ULN_ARGUMENT_SIZE sizeof(struct uln_statistics)

/**
 * struct card_ops - what a card's folder provides to the core; uln_cards.h lists all of them
 * @model: *_MODEL of the card
 * @name: name of the class, and of the nodes in /dev without their number
 * @abi_version: version of the card's contract
 * @abi_minor: lowest minor version that the driver can use
 * @statistics: number of counters
 * @commands: names of commands by opcode, for traces
 * @commands_count: number of entries of @commands
 * @shared: names of the kinds that users have shares of, by the first numbers of ULN_SHARE_*
 * @shares: returns the number of objects of a kind that processes can use
 * @groups: attribute groups in sysfs, with uln_group; NULL: uln_group alone
 * @vectors: number of vectors beside the link's; 0: one for each processor, which wakes sleepers
 * @size: size of the card's own structure, which begins with struct uln_card
 * @kinds: kinds of objects, in the order in which a file's objects are closed
 * @kinds_count: number of entries of @kinds
 * @calls: ioctls beside those that every card has
 * @calls_count: number of entries of @calls
 * @load: registers what the module needs beside struct pci_driver. May be NULL
 * @unload: reverts @load. May be NULL
 * @init: initialises a structure that is all zero
 * @free: frees what the structure refers to, after its last reference
 * @limits: reads the card's limits; fails if the figures make no sense
 * @prepare: acquires the card's resources, managed by the device; sets uln_card.pending
 * @announce: logs that the card can be used
 * @query: describes what processes can use, from the limits. May be NULL
 * @reset: clears the words that the card shares, after a reset, with the card's lock held
 * @raised: handles a vector other than the link's, in its thread, without locks. NULL: wakes
 *	sleepers (sleepers.c)
 * @start: opens the driver's own objects on a card that has been started and has no files yet. May
 *	be NULL, with @end
 * @stop: wakes all sleepers after the card's DMA has been stopped, with the card's lock held
 * @end: closes the driver's own objects, after @stop, with the card's lock held
 * @lanes: how channels of the kernel are carried. NULL: the model has none
 */
struct card_ops {
	u32 model;
	const char *name;
	u32 abi_version;
	u32 abi_minor;
	u32 statistics;
	const char * const *commands;
	unsigned int commands_count;
	const char *shared[ULN_SHARE_CONNECTIONS];
	u32 (*shares)(const struct uln_card *card, unsigned int kind);
	const struct attribute_group **groups;
	unsigned int vectors;
	size_t size;
	const struct card_kind * const *kinds;
	unsigned int kinds_count;
	const struct card_call *calls;
	unsigned int calls_count;

	int (*load)(void);
	void (*unload)(void);
	void (*init)(struct uln_card *card);
	void (*free)(struct uln_card *card);
	int (*limits)(struct uln_card *card, struct uln_query *limits);
	int (*prepare)(struct uln_card *card);
	void (*announce)(const struct uln_card *card);
	void (*query)(const struct uln_card *card, struct uln_query *query);

	void (*reset)(struct uln_card *card);
	void (*raised)(struct uln_card *card, unsigned int vector);
	void (*start)(struct uln_card *card);
	void (*stop)(struct uln_card *card);
	void (*end)(struct uln_card *card, struct uln_closed *closed);
	const struct uln_lane_ops *lanes;
};

struct uln_vector {
	struct uln_card *card;
	unsigned int number;
	/* Number of arrivals. */
	atomic_t arrived;
	/* Guards the members below. */
	spinlock_t lock;
	/* Sleepers that the card may have fired (uln_sleepers.on_armed), and how many. */
	struct list_head armed;
	unsigned int armed_count;
};

/* The first member of each card's own structure, which has card_ops.size bytes. */
struct uln_card {
	const struct card_ops *ops;
	struct device dev;
	struct cdev cdev;
	struct pci_dev *pdev;
	/* The module's state for the card's model, and the card's number in it. */
	struct uln_model *model;
	int number;

	/* BAR 0, and the vectors' pending words, if the card has them. */
	void __iomem *registers;
	void __iomem *pending;
	/* The card's windows are coherent memory (ULN_FEATURE_COHERENT). */
	bool coherent;
	struct pci_saved_state *state;
	/* The command page. */
	void *page;
	dma_addr_t page_dma;
	/* What the card reports about itself, and QUERY returns. */
	struct uln_query limits;

	unsigned int vectors;
	struct uln_vector vector[ULN_MAX_VECTORS];
	unsigned int next_vector;
	/* Woken when a vector arrives, for the self-test. */
	wait_queue_head_t arrival;
	struct delayed_work watch;
	/* Number of mapped areas and pages, plus one while the driver is bound; completed at 0. */
	refcount_t mappings;
	struct completion unmapped;

	/* Handshake timer: its period, 0 if the card has none, and how often it expired. */
	struct delayed_work beat;
	u32 handshake_ms;
	unsigned int lapses;

	/* Guards all members below, and what they refer to. */
	struct mutex lock;
	/* The card is present, answers, and may do DMA. Written with the lock held. */
	bool live;
	/* The card has also been started completely, so files may be opened. */
	bool ready;
	/* The device is in sysfs. */
	bool shown;
	/* The link at the last report: its state, its number of changes, and the host id. */
	bool link;
	u32 link_changes;
	u32 host;
	/* Woken when the link has changed. */
	wait_queue_head_t link_changed;
	struct list_head files;
	/* The files by number. */
	struct xarray numbers;
	u32 next_number;
	struct uln_shares shares;
	/* This operating system, as others see it through this card (kernel/). */
	struct uln_system *system;
	/* Memory that hosts share, in PCI functions beside the card. */
	struct uln_express_memory *express;
	/* What clients in the kernel have on the card (binding.c). */
	struct list_head bindings;
	struct list_head on_cards;
	/* They may run. */
	bool serves;
};

/* Number of the driver's own file; other files have larger numbers. */
#define ULN_OWN_NUMBER 1

/*
 * An open file: a protection domain. The driver has one structure for itself, with no open file
 * behind it, no mapping and no share.
 */
struct uln_file {
	struct uln_card *card;
	/* Share of the user that opened the file. */
	struct uln_share *share;
	/* The user that opened the file may hold more than a share. */
	bool privileged;
	struct list_head on_card;
	/* Unique among the card's open files. */
	u32 number;
	/* The card was reset or removed since the file was opened: its objects are gone. */
	bool dead;
	/*
	 * This is the driver's own file, which sends as the operating system. No file that is
	 * opened is, not even root's.
	 */
	bool drivers_own;
	/*
	 * Address space of the file's mappings. The device's inode has one for all files, but
	 * removing an object's mappings must not affect other files.
	 */
	struct address_space mapping;
	/* Start of the next object's mappings. Not reused: a mapping may outlive its object. */
	u64 next_offset;
	/* Page that mappings of a closed object's card pages show. */
	struct page *spent;
	/* Objects by kind. */
	struct list_head objects[ULN_CARD_KINDS];
	/* Objects that can be mapped, by offset: a program may have thousands. */
	struct rb_root mappable;
	/* For poll: one of the objects has an event. */
	wait_queue_head_t wait;
};

/* Pages of a user or the driver, and the lists by which the card finds them (uln_area). */
struct uln_pages {
	/* The user whose RLIMIT_MEMLOCK they count against; NULL: the driver's own, or no limit. */
	struct user_struct *user;
	/* Address space whose VmPin includes them; NULL for the driver's own. */
	struct mm_struct *mm;
	struct page **page;
	unsigned long count;
	/* Number of pages that are pinned or allocated. */
	unsigned long held;
	bool pinned;
	/* Some pages may be missing: uln_pages_give_up(). */
	bool given_up;
	enum dma_data_direction direction;
	u64 length;
	u32 first;
	/*
	 * Set if these are some of the pages of @whole, from page @skipped on: those are pinned and
	 * mapped already, and stay so while a reference to @owner is held.
	 */
	const struct uln_pages *whole;
	struct card_object *owner;
	unsigned long skipped;

	/* The card that can reach the pages. */
	struct uln_card *card;
	__le64 **lists;
	__le64 *directory;
	dma_addr_t directory_dma;
	unsigned long mapped_pages;
	unsigned long mapped_lists;
	bool mapped_directory;
};

/* What sleepers wait for, as far as it depends on the object. */
struct uln_sleepers;
struct uln_awaited {
	/* Returns whether it has arrived. */
	bool (*arrived)(const struct uln_sleepers *sleepers, const void *what);
	/* Passes more about it to the card, if needed; the vector's lock is held. */
	void (*want)(struct uln_sleepers *sleepers, const void *what, bool armed);
};

/* Threads that sleep on one object. */
struct uln_sleepers {
	struct uln_file *file;
	const struct uln_awaited *awaited;
	struct uln_vector *vector;
	/* The word that is shared with the card. */
	void __iomem *armed;
	wait_queue_head_t wait;
	/* Guarded by the vector's lock. */
	struct list_head on_armed;
	bool open;
};

/* The same for cards that report through a FIFO. */
struct uln_waiters;
struct uln_expected {
	/* Returns whether it has arrived. */
	bool (*arrived)(const struct uln_waiters *waiters, u64 what);
	/* Requests a report from the card; the lock of the waiters is held. */
	void (*arm)(struct uln_waiters *waiters, u64 what);
};

/* Threads that wait on one object. */
struct uln_waiters {
	struct uln_file *file;
	const struct uln_expected *expected;
	wait_queue_head_t wait;
	/* Guards the members below. */
	spinlock_t lock;
	bool open;
	/* What the card has been asked to report, since its last report. */
	u64 armed;
};

/* A FIFO in the driver's memory. Its records name what the driver must handle. */
struct uln_fifo {
	struct uln_pages *memory;
	u32 records;
	u32 taken;
};
#define ULN_FIFO_SIZE 8
/* Maximum number of records taken at once. */
#define ULN_FIFO_BATCH 64

/* Closed objects by kind, to be released after the card's lock is dropped. */
struct uln_closed {
	const struct card_ops *ops;
	struct list_head objects[ULN_CARD_KINDS];
};

/* Distance between two objects' mmap(2) offsets: no object is larger. */
#define ULN_MAP_STRIDE (16ULL << 20)

/* card.c */
int uln_card_check_limit(struct uln_card *card, const char *what, u32 value, u32 least,
			 u32 most);
int uln_card_identify(struct uln_card *card);
bool uln_card_changed(struct uln_card *card);
int uln_card_start(struct uln_card *card);
bool uln_card_answers(struct uln_card *card);
void uln_card_watch(struct work_struct *work);
void uln_card_end_files(struct uln_card *card, struct uln_closed *closed);
int uln_card_query(struct uln_file *file, void *argument);
int uln_card_statistics(struct uln_file *file, void *argument);

/* link.c */
void uln_link_report(struct uln_card *card);
bool uln_link_host(struct uln_card *card, u32 *host);

/* stop.c */
void uln_card_stop(struct uln_card *card);
void uln_card_fail(struct uln_card *card);

/* models.c */
int uln_models_load(void);
void uln_models_unload(void);
const struct card_ops *uln_model_first(void);
int uln_model_join(struct uln_card *card);
void uln_model_leave(struct uln_card *card);

/* function.c */
bool uln_bar_holds(struct pci_dev *pdev, int bar, u64 least);
int uln_bar_check(struct pci_dev *pdev, int bar, u64 least);
int uln_state_keep(struct pci_dev *pdev, struct pci_saved_state **state);
void uln_state_restore(struct pci_dev *pdev, struct pci_saved_state *state);

/* handshake.c */
int uln_handshake_init(void);
void uln_handshake_exit(void);
u32 uln_handshake_least(void);
void uln_handshake_beat(struct work_struct *work);
void uln_handshake_start(struct uln_card *card);
void uln_handshake_stop(struct uln_card *card);

/* command.c */
int uln_command(struct uln_card *card, u32 opcode, u32 index, const void *body, size_t size);
void uln_command_close(struct uln_card *card, u32 opcode, u32 index, const void *body,
		       size_t size);

/* interrupt.c */
int uln_interrupts_request(struct uln_card *card);

/* file.c */
extern const struct file_operations uln_fops;
void uln_file_end(struct uln_file *file);

/* object.c */
void uln_file_init(struct uln_file *file, struct uln_card *card);
void uln_object_init(struct card_object *object, struct uln_file *file,
		     const struct card_kind *kind);
void uln_object_join(struct card_object *object, unsigned int kind);
void uln_object_leave(struct card_object *object);
struct card_object *uln_object_at(struct uln_file *file, u64 offset);
void uln_object_put(struct card_object *object);
void uln_closed_init(struct uln_closed *closed, struct uln_card *card);
bool uln_file_close_next(struct uln_file *file, struct uln_closed *closed);
void uln_closed_release(struct uln_closed *closed);

/* objectfile.c */
int uln_object_file(struct uln_file *file, void *argument);

/* argument.c */
/* Returns whether a caller's code is that of a call, for any size of the argument. */
static inline bool uln_is_call(unsigned int code, unsigned int own)
{
	return !((code ^ own) & ~IOCSIZE_MASK);
}

int uln_argument_get(void *argument, unsigned int own, const void __user *user,
		     unsigned int code);
int uln_argument_put(void __user *user, unsigned int code, const void *argument,
		     unsigned int own);

/* Returns whether the file's objects exist; the card's lock is held. */
static inline bool uln_file_live(const struct uln_file *file)
{
	lockdep_assert_held(&file->card->lock);
	return file->card->live && !file->dead;
}

/* holders.c */
void uln_holders_init(struct uln_card *card);
int uln_holders_join(struct uln_file *file, struct uln_share **spare);
int uln_holders_answer(struct uln_file *file, void *argument);
ssize_t uln_holders_list(struct uln_card *card, char *text);

/* turn.c */
void uln_share_lock(struct uln_card *card, struct uln_share *share);
void uln_share_unlock(struct uln_card *card, struct uln_share *share);

/* A user's turn with the card's lock held, unless error is set; uln_entry: a call on a file. */
struct uln_turn {
	struct uln_card *card;
	struct uln_share *share;
	int error;
};
struct uln_turn uln_wait_turn(struct uln_card *card, struct uln_share *share);
struct uln_turn uln_enter(struct uln_file *file);
DEFINE_CLASS(uln_turn, struct uln_turn,
	     if (!_T.error) uln_share_unlock(_T.card, _T.share),
	     uln_wait_turn(card, share), struct uln_card *card, struct uln_share *share)
DEFINE_CLASS(uln_entry, struct uln_turn,
	     if (!_T.error) uln_share_unlock(_T.card, _T.share),
	     uln_enter(file), struct uln_file *file)

/* mmap.c */
int uln_mmap_memory(struct vm_area_struct *vma, struct page **pages, unsigned long count);
int uln_mmap_pages(struct vm_area_struct *vma, struct card_object *object,
		   const struct uln_pages *pages);
int uln_mmap_shared(struct vm_area_struct *vma, struct card_object *object,
		    const struct uln_pages *pages);
int uln_mmap_card(struct vm_area_struct *vma, struct card_object *object);
int uln_mmap_windows(struct vm_area_struct *vma, struct card_object *object);
void __iomem *uln_windows_map(struct uln_card *card, resource_size_t start, u64 size);
int uln_mmap_withdrawable(struct vm_area_struct *vma, struct card_object *object);
void uln_withdraw(const struct card_object *object, u64 offset, u64 size);
void uln_unmap_card(struct card_object *object, u64 size);
int uln_mmap(struct file *filp, struct vm_area_struct *vma);

/* sleepers.c */
void uln_sleepers_init(struct uln_sleepers *sleepers, struct uln_file *file,
		       const struct uln_awaited *awaited);
void uln_sleepers_place(struct uln_sleepers *sleepers, void __iomem *armed);
void uln_sleepers_open(struct uln_sleepers *sleepers);
void uln_sleepers_close(struct uln_sleepers *sleepers);
bool uln_sleepers_ready(struct uln_sleepers *sleepers, const void *what);
int uln_sleepers_wait(struct uln_sleepers *sleepers, const void *what, s64 timeout_ns);
bool uln_sleepers_fired(struct uln_vector *vector);
void uln_sleepers_fired_all(struct uln_vector *vector);

/* waiters.c */
void uln_waiters_init(struct uln_waiters *waiters, struct uln_file *file,
		      const struct uln_expected *expected);
void uln_waiters_open(struct uln_waiters *waiters);
void uln_waiters_close(struct uln_waiters *waiters);
bool uln_waiters_ready(struct uln_waiters *waiters, u64 what);
void uln_waiters_wake(struct uln_waiters *waiters);
int uln_waiters_wait(struct uln_waiters *waiters, u64 what, s64 timeout_ns);

/* fifo.c */
u32 uln_fifo_take(struct uln_card *card, struct uln_fifo *fifo, u32 taken_register,
		  u32 *what);

/* pages.c */
struct uln_pages *uln_pages_pin(u64 address, u64 length, enum dma_data_direction direction);
struct uln_pages *uln_pages_share(const struct uln_pages *whole, struct card_object *owner,
				  u64 offset, u64 length);
struct uln_pages *uln_pages_alloc(struct uln_file *file, u64 length);
int uln_pages_make(struct uln_file *file, u64 length, struct uln_pages **made);
int uln_page_map(struct uln_card *card, struct page *page, enum dma_data_direction direction,
		 dma_addr_t *dma);
void uln_page_unmap(struct uln_card *card, dma_addr_t dma,
		    enum dma_data_direction direction);
int uln_pages_map(struct uln_pages *pages, struct uln_card *card);
void uln_mappings_init(struct uln_card *card);
void uln_mappings_wait(struct uln_card *card);
void uln_pages_describe(const struct uln_pages *pages, struct uln_area *area);
void uln_pages_unmap(struct uln_pages *pages);
struct page *uln_pages_give_up(struct uln_pages *pages, unsigned long i);
int uln_pages_take_back(struct uln_pages *pages, unsigned long i, struct page *page);
void uln_pages_free(struct uln_pages *pages);
void uln_pages_give_back(struct uln_pages **pages);
DEFINE_FREE(uln_pages, struct uln_pages *, if (!IS_ERR_OR_NULL(_T)) uln_pages_free(_T))

/* connectfile.c */
int uln_listen(struct uln_file *file, void *argument);
int uln_connect(struct uln_file *file, void *argument);
int uln_ask(struct uln_file *file, void *argument);

/* socketname.c: returns 0 if the caller has the TCP connection that the name is of */
int uln_socket_name_check(const struct uln_listen *listen);

/* binding.c */
void uln_bindings_add(struct uln_card *card);
void uln_bindings_remove(struct uln_card *card);
void uln_bindings_pause(struct uln_card *card);
void uln_bindings_resume(struct uln_card *card);

/* expressmemory.c */
int uln_express_load(void);
void uln_express_unload(void);
int uln_express_join(struct uln_card *card, const struct uln_express_ops *ops);
void uln_express_retry(struct uln_card *card);

/* expressfile.c */
extern const struct card_kind uln_express_kind;
extern const struct uln_express_ops uln_express_file_ops;
bool uln_express_offers(const struct uln_card *card);
int uln_express_area(struct uln_file *file, void *argument);
void uln_express_area_undo(struct uln_file *file, void *argument);
int uln_express_view(struct uln_file *file, void *argument);
void uln_express_view_undo(struct uln_file *file, void *argument);
int uln_express_destroy(struct uln_file *file, void *argument);
int uln_express_query(struct uln_file *file, void *argument);

/* selftest.c */
u32 uln_selftest_access(struct uln_card *card);
u32 uln_selftest_dma(struct uln_card *card);
int uln_selftest(struct uln_file *file, void *argument);

/* sysfs.c */
extern const struct attribute_group uln_group;
extern const struct attribute_group *uln_groups[];

#endif /* _ULN_CORE_H */
