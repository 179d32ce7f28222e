/* SPDX-License-Identifier: GPL-2.0-only */
/* The Hamlyn card: shared declarations. Its objects are termini, slots and notification queues. */
#ifndef _HAMLYN_H
#define _HAMLYN_H

#include "uln_core.h"
#include "hamlyn_card.h"
#include "hamlyn_uapi.h"

struct hamlyn_wellknown;

/* Kinds that users have shares of. */
enum {
	HAMLYN_TERMINI = HAMLYN_SHARE_TERMINI,
	HAMLYN_SLOTS = HAMLYN_SHARE_SLOTS,
	HAMLYN_QUEUES = HAMLYN_SHARE_QUEUES,
};

/* Kinds of objects: slots before the queues that they name, both before registrations. */
enum {
	HAMLYN_KIND_SLOT,
	HAMLYN_KIND_TERMINUS,
	HAMLYN_KIND_QUEUE,
	HAMLYN_KIND_REGISTRATION,
	HAMLYN_KIND_EXPRESS,
};

struct hamlyn_parts {
	struct uln_card card;

	/*
	 * BAR 2: the termini's windows, followed by the control areas: first the queues', then the
	 * termini's.
	 */
	void __iomem *memory;
	void __iomem *control;
	u32 terminus_control;
	u32 control_size;
	/* Bus addresses: the termini's windows (BAR 2), the first function's doorbells (BAR 4). */
	resource_size_t windows;
	resource_size_t trapped_doorbells;
	/*
	 * Where doorbells are rung: there, or at the second function. Guarded by the card's lock.
	 */
	resource_size_t doorbells;
	bool posted;
	/* Guarded by doorbell.c's own lock. */
	struct list_head on_cards;
	/* Objects by number. Guarded by the card's lock. */
	struct xarray termini;
	struct xarray slots;
	struct xarray queues;
	struct xarray registrations;
	/* The driver's own objects, for messages to other hosts' drivers (wellknown.c). */
	struct hamlyn_wellknown *wellknown;
};

#define hamlyn_parts(of) container_of_const(of, struct hamlyn_parts, card)

/* Returns a terminus's window, for the driver. */
static inline void __iomem *hamlyn_window(struct uln_card *card, u32 terminus)
{
	return hamlyn_parts(card)->memory + (u64)terminus * HAMLYN_WINDOW_SIZE;
}

struct hamlyn_terminus {
	struct card_object object;
	struct page *status;
	dma_addr_t status_dma;
	bool status_mapped;
	struct uln_pages *buffers[HAMLYN_SEND_BUFFERS];
	struct uln_sleepers sleepers;
	/* What poll waits for, if anything. */
	bool polled;
	struct hamlyn_terminus_wait poll;
	/* Only of the driver's own: its doorbell, and the number of requests posted (post.c). */
	void __iomem *bell;
	/* Guards the bell, which moves between functions of the card. */
	spinlock_t bell_lock;
	u32 tail;
};

struct hamlyn_slot {
	struct card_object object;
	struct hamlyn_queue *queue;
	struct uln_pages *area;
	struct uln_pages *metadata;
};

struct hamlyn_registration {
	struct card_object object;
	/* Where the memory begins in the process that registered it. */
	u64 address;
	struct uln_pages *pages;
};

struct hamlyn_queue {
	struct card_object object;
	/* Number of slots that name it. */
	unsigned int slots;
	u32 entries;
	struct uln_pages *pages;
	struct uln_sleepers sleepers;
	/* What poll waits for, if anything. */
	bool polled;
	struct hamlyn_queue_wait poll;
};

/* Offsets for mmap(2), relative to a terminus's own offset. */
#define HAMLYN_MAP_WINDOW 0
#define HAMLYN_MAP_DOORBELL HAMLYN_WINDOW_SIZE
#define HAMLYN_MAP_STATUS (HAMLYN_WINDOW_SIZE + HAMLYN_DOORBELL_SIZE)

/* doorbell.c */
int hamlyn_bells_init(void);
void hamlyn_bells_exit(void);
int hamlyn_bells_join(struct uln_card *card);

/* terminus.c */
extern const struct card_kind hamlyn_terminus_kind;
int hamlyn_terminus_create(struct uln_file *file, void *argument);
int hamlyn_terminus_destroy(struct uln_file *file, void *argument);
void hamlyn_terminus_undo(struct uln_file *file, void *argument);
void hamlyn_terminus_put(struct hamlyn_terminus *terminus);
DEFINE_FREE(terminus_put, struct hamlyn_terminus *,
	    if (!IS_ERR_OR_NULL(_T)) hamlyn_terminus_put(_T))
int hamlyn_terminus_wait(struct uln_file *file, void *argument);
int hamlyn_terminus_arm(struct uln_file *file, void *argument);
int hamlyn_send_buffer_set(struct uln_file *file, void *argument);
int hamlyn_send_buffer_clear(struct uln_file *file, void *argument);

/* post.c */
int hamlyn_post_open(struct hamlyn_terminus *terminus);
int hamlyn_post_move(struct hamlyn_terminus *terminus);
void hamlyn_post_close(struct hamlyn_terminus *terminus);
bool hamlyn_post_ready(struct hamlyn_terminus *terminus);
bool hamlyn_post(struct hamlyn_terminus *terminus, const struct hamlyn_request *request,
		 const void *metadata, u32 metadata_length, const void *body, u32 length);

/* window.c */
int hamlyn_terminus_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset,
			 u64 size);
resource_size_t hamlyn_terminus_place(const struct card_object *object, u64 offset);

/* registration.c */
extern const struct card_kind hamlyn_registration_kind;
int hamlyn_registration_create(struct uln_file *file, void *argument);
int hamlyn_registration_destroy(struct uln_file *file, void *argument);
void hamlyn_registration_undo(struct uln_file *file, void *argument);
struct uln_pages *hamlyn_memory_pin(struct uln_file *file, u32 index, u64 address, u64 length,
				    enum dma_data_direction direction);

/* slot.c */
extern const struct card_kind hamlyn_slot_kind;
int hamlyn_slot_create(struct uln_file *file, void *argument);
int hamlyn_slot_destroy(struct uln_file *file, void *argument);
void hamlyn_slot_undo(struct uln_file *file, void *argument);
struct hamlyn_slot *hamlyn_slot_lend(struct uln_file *file, const struct uln_area *area,
				     struct uln_pages *metadata, struct hamlyn_queue *queue,
				     u64 *key);
struct hamlyn_slot *hamlyn_slot_open_page(struct uln_file *file, u32 source,
					  struct hamlyn_queue *queue,
					  const struct hamlyn_open_slot *like, u32 metadata);

/* queue.c */
extern const struct card_kind hamlyn_queue_kind;
int hamlyn_queue_create(struct uln_file *file, void *argument);
int hamlyn_queue_destroy(struct uln_file *file, void *argument);
void hamlyn_queue_undo(struct uln_file *file, void *argument);
int hamlyn_queue_wait(struct uln_file *file, void *argument);
int hamlyn_queue_arm(struct uln_file *file, void *argument);
struct hamlyn_queue *hamlyn_queue_find(struct uln_file *file, u32 index);
void hamlyn_queue_put(struct hamlyn_queue *queue);
DEFINE_FREE(queue_put, struct hamlyn_queue *, if (!IS_ERR_OR_NULL(_T)) hamlyn_queue_put(_T))
bool hamlyn_queue_ready(struct hamlyn_queue *queue, u32 cursor, u32 pass);
const struct hamlyn_notification *hamlyn_queue_take(const struct hamlyn_queue *queue, u32 *cursor,
						    u32 *pass);

/* room.c */
u32 hamlyn_wellknown_slots(const struct uln_card *card);
void hamlyn_wellknown_query(const struct uln_card *card, struct uln_query *query);

/* wellknown.c */
int hamlyn_wellknown_init(struct uln_card *card);
void hamlyn_wellknown_free(struct uln_card *card);
void hamlyn_wellknown_start(struct uln_card *card);
void hamlyn_wellknown_stop(struct uln_card *card, struct uln_closed *closed);

/* lane.c */
extern const struct uln_lane_ops hamlyn_lane_ops;

/* ops.c */
extern const struct card_ops hamlyn_card_ops;

#endif /* _HAMLYN_H */
