// SPDX-License-Identifier: GPL-2.0-only
/* Mailboxes: an outbox and a doorbell on the card, an inbox in the driver's memory, and waits. */
#include "echo.h"

/* Offsets for mmap(2), relative to a mailbox's own offset. */
#define MAP_OUTBOX 0
#define MAP_DOORBELL ECHO_OUTBOX_SIZE
#define MAP_INBOX (ECHO_OUTBOX_SIZE + ECHO_DOORBELL_SIZE)

static_assert(MAP_INBOX + ECHO_INBOX_MAX_RECORDS * ECHO_RECORD_SIZE <= ULN_MAP_STRIDE);
/* A record does not cross a page boundary. */
static_assert(ULN_PAGE_SIZE % ECHO_RECORD_SIZE == 0);

#define mailbox_of(of) container_of(of, struct echo_mailbox_object, object)

const struct echo_record *echo_mailbox_arrived(const struct echo_mailbox_object *mailbox,
					       u32 taken)
{
	u32 place = (taken & (mailbox->records - 1)) * ECHO_RECORD_SIZE;
	const struct echo_record *record =
		page_address(mailbox->inbox->page[place / ULN_PAGE_SIZE]) +
		place % ULN_PAGE_SIZE;

	if (le32_to_cpu(READ_ONCE(record->number)) != taken + 1)
		return NULL;
	dma_rmb(); /* The card wrote the number last. */
	return record;
}

static bool mailbox_arrived(const struct uln_sleepers *sleepers, const void *what)
{
	const struct echo_wait *wait = what;

	return echo_mailbox_arrived(container_of_const(sleepers, struct echo_mailbox_object,
						       sleepers),
				    wait->taken);
}

static const struct uln_awaited mailbox_news = { .arrived = mailbox_arrived };

static struct echo_mailbox_object *mailbox_find(struct uln_file *file, u32 index)
{
	struct echo_mailbox_object *mailbox = xa_load(&echo_parts(file->card)->mailboxes, index);

	return mailbox && mailbox->object.file == file ? mailbox : NULL;
}

static void mailbox_free(struct kref *users)
{
	struct echo_mailbox_object *mailbox =
		container_of(users, struct echo_mailbox_object, object.users);

	uln_pages_free(mailbox->inbox);
	kfree(mailbox);
}

DEFINE_FREE(mailbox_put, struct echo_mailbox_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))

/* Allocates a mailbox that the card does not know yet. */
static struct echo_mailbox_object *mailbox_alloc(struct uln_file *file, u32 records)
{
	struct echo_mailbox_object *mailbox __free(mailbox_put) =
		kzalloc(sizeof(*mailbox), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!mailbox)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&mailbox->object, file, &echo_mailbox_kind);
	uln_sleepers_init(&mailbox->sleepers, file, &mailbox_news);
	mailbox->records = records;
	ret = uln_pages_make(file, (u64)records * ECHO_RECORD_SIZE, &mailbox->inbox);
	return ret ? ERR_PTR(ret) : no_free_ptr(mailbox);
}

/* Clears the outbox, so that its next owner does not see the last owner's data. */
static void mailbox_zero_outbox(struct uln_card *card, u32 index)
{
	memset_io(echo_parts(card)->memory + (u64)index * ECHO_OUTBOX_SIZE, 0, ECHO_OUTBOX_SIZE);
}

/* Allots a number, and has the card open the mailbox. */
static int mailbox_open(struct echo_mailbox_object *mailbox)
{
	struct echo_open_mailbox body = { .records = cpu_to_le32(mailbox->records) };
	struct uln_file *file = mailbox->object.file;
	struct echo_parts *parts = echo_parts(file->card);
	u32 first = file->drivers_own ? ECHO_SYSTEM_MAILBOX : ECHO_SYSTEM_MAILBOX + 1;
	u32 last = file->drivers_own ? ECHO_SYSTEM_MAILBOX : echo_mailboxes(file->card) - 1;
	u32 index;
	int ret;

	ret = uln_share_take(file->share, ECHO_SHARE_MAILBOXES, file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&parts->mailboxes, &mailbox->object.index, mailbox,
		       XA_LIMIT(first, last), GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	index = mailbox->object.index;
	uln_pages_describe(mailbox->inbox, &body.inbox);
	uln_sleepers_place(&mailbox->sleepers, parts->control + ECHO_CONTROL_ARMED +
						       index * ULN_ARMED_STRIDE);
	mailbox_zero_outbox(file->card, index);
	ret = uln_command(file->card, ECHO_COMMAND_OPEN_MAILBOX, index, &body, sizeof(body));
	if (!ret)
		return 0;
	xa_erase(&parts->mailboxes, index);
give_back:
	uln_share_give(file->share, ECHO_SHARE_MAILBOXES);
	return ret;
}

int echo_mailbox_open(struct uln_file *file, void *argument)
{
	struct echo_mailbox_object *mailbox __free(mailbox_put) = NULL;
	struct echo_mailbox *answer = argument;
	u32 records = answer->records;
	int ret;

	if (answer->mailbox || answer->outbox_offset || answer->doorbell_offset ||
	    answer->inbox_offset || answer->reserved[0] || answer->reserved[1] ||
	    records < ECHO_INBOX_MIN_RECORDS || records > ECHO_INBOX_MAX_RECORDS ||
	    records & (records - 1))
		return -EINVAL;
	mailbox = mailbox_alloc(file, records);
	if (IS_ERR(mailbox))
		return PTR_ERR(mailbox);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = mailbox_open(mailbox);
	if (ret)
		return ret;
	uln_sleepers_open(&mailbox->sleepers);
	uln_object_join(&mailbox->object, 0);
	answer->mailbox = mailbox->object.index;
	answer->outbox_offset = mailbox->object.offset + MAP_OUTBOX;
	answer->doorbell_offset = mailbox->object.offset + MAP_DOORBELL;
	answer->inbox_offset = mailbox->object.offset + MAP_INBOX;
	retain_and_null_ptr(mailbox);
	return 0;
}

static void mailbox_close(struct card_object *object)
{
	struct uln_card *card = object->card;

	uln_unmap_card(object, MAP_INBOX);
	uln_command_close(card, ECHO_COMMAND_CLOSE_MAILBOX, object->index, NULL, 0);
	uln_sleepers_close(&mailbox_of(object)->sleepers);
	xa_erase(&echo_parts(card)->mailboxes, object->index);
	uln_share_give(object->file->share, ECHO_SHARE_MAILBOXES);
	uln_object_leave(object);
}

/* The card can no longer reach the inbox; waiters and mappings may hold it longer. */
static void mailbox_release(struct card_object *object)
{
	uln_pages_unmap(mailbox_of(object)->inbox);
	uln_object_put(object);
}

static int mailbox_end(struct uln_file *file, u32 index)
{
	struct echo_mailbox_object *mailbox;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		mailbox = mailbox_find(file, index);
		if (!mailbox)
			return -ENOENT;
		mailbox_close(&mailbox->object);
	}
	mailbox_release(&mailbox->object);
	return 0;
}

int echo_mailbox_close(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return mailbox_end(file, object->index);
}

void echo_mailbox_undo(struct uln_file *file, void *argument)
{
	const struct echo_mailbox *answer = argument;

	mailbox_end(file, answer->mailbox);
}

/* Looks up the caller's mailbox, and takes a reference to it. */
static struct echo_mailbox_object *mailbox_get(struct uln_file *file, u32 index)
{
	struct echo_mailbox_object *mailbox;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	mailbox = mailbox_find(file, index);
	if (!mailbox)
		return ERR_PTR(-ENOENT);
	kref_get(&mailbox->object.users);
	return mailbox;
}

int echo_mailbox_wait(struct uln_file *file, void *argument)
{
	struct echo_mailbox_object *mailbox __free(mailbox_put) = NULL;
	const struct echo_wait *wait = argument;

	if (wait->timeout_ns < ULN_WAIT_FOREVER)
		return -EINVAL;
	mailbox = mailbox_get(file, wait->mailbox);
	if (IS_ERR(mailbox))
		return PTR_ERR(mailbox);
	return uln_sleepers_wait(&mailbox->sleepers, wait, wait->timeout_ns);
}

/* The owner stores in its outbox how many messages it has taken. */
static __poll_t mailbox_poll(struct card_object *object)
{
	const void __iomem *outbox =
		echo_parts(object->card)->memory + (u64)object->index * ECHO_OUTBOX_SIZE;
	const struct echo_wait wait = { .taken = readl(outbox + ECHO_OUTBOX_TAKEN) };

	return uln_sleepers_ready(&mailbox_of(object)->sleepers, &wait) ? EPOLLIN | EPOLLRDNORM : 0;
}

static wait_queue_head_t *mailbox_waiting(struct card_object *object)
{
	return &mailbox_of(object)->sleepers.wait;
}

static int mailbox_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset,
			u64 size)
{
	const struct uln_pages *inbox = mailbox_of(object)->inbox;

	switch (offset) {
	case MAP_OUTBOX:
		return size == ECHO_OUTBOX_SIZE ? uln_mmap_windows(vma, object) : -EINVAL;
	case MAP_DOORBELL:
		return size == ECHO_DOORBELL_SIZE ? uln_mmap_card(vma, object) : -EINVAL;
	case MAP_INBOX:
		return size == (u64)inbox->count * ULN_PAGE_SIZE ?
			       uln_mmap_pages(vma, object, inbox) :
			       -EINVAL;
	default:
		return -EINVAL;
	}
}

static resource_size_t mailbox_place(const struct card_object *object, u64 offset)
{
	const struct echo_parts *parts = echo_parts(object->card);

	if (offset < MAP_DOORBELL)
		return parts->outboxes + (u64)object->index * ECHO_OUTBOX_SIZE;
	return parts->doorbells + (u64)object->index * ECHO_DOORBELL_SIZE;
}

const struct card_kind echo_mailbox_kind = {
	.close = mailbox_close,
	.release = mailbox_release,
	.poll = mailbox_poll,
	.wait = mailbox_waiting,
	.mmap = mailbox_mmap,
	.place = mailbox_place,
	.free = mailbox_free,
};
