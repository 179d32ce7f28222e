// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections (section 3): ends of paths to other hosts. Each has a page of the card, through which
 * its owner sends, and memory in which the card reports its state. The other end must have its key
 * to reach it; the owner may give the key to any process.
 */
#include <linux/random.h>

#include "dart.h"

/* Offsets for mmap(2), relative to a connection's own offset. */
#define MAP_PAGE 0
#define MAP_STATE DART_PAGE_SIZE

static_assert(DART_PAGE_SIZE == ULN_PAGE_SIZE && DART_STATE_SIZE <= ULN_PAGE_SIZE);
/* In uln_waiters.armed, with how many messages had left: it is armed. */
#define ARMED BIT_ULL(32)

#define connection_of(of) container_of(of, struct dart_connection_object, object)

static u32 connection_state(const struct dart_connection_object *connection, u32 word)
{
	const __le32 *state = page_address(connection->state->page[0]) + word;

	return le32_to_cpu(READ_ONCE(*state));
}

/* Returns whether messages have left since the count was @what, or none will. */
static bool connection_left(const struct uln_waiters *sleepers, u64 what)
{
	const struct dart_connection_object *connection =
		container_of_const(sleepers, struct dart_connection_object, sleepers);

	return connection_state(connection, DART_STATE_LEFT) != lower_32_bits(what) ||
	       connection_state(connection, DART_STATE_BROKEN);
}

static void connection_arm(struct uln_waiters *sleepers, u64 what)
{
	const struct dart_connection_object *connection =
		container_of_const(sleepers, struct dart_connection_object, sleepers);
	u64 left = lower_32_bits(what);

	if (sleepers->armed == (ARMED | left))
		return;
	sleepers->armed = ARMED | left;
	writeq(left << 32 | connection->object.index,
	       sleepers->file->card->registers + DART_REG_ARM_LEFT);
}

static const struct uln_expected connection_news = {
	.arrived = connection_left,
	.arm = connection_arm,
};

/* Returns whether there were more exceptions that no queue took, or there will be none. */
static bool connection_excepted(const struct uln_waiters *excepted, u64 what)
{
	const struct dart_connection_object *connection =
		container_of_const(excepted, struct dart_connection_object, excepted);

	return connection_state(connection, DART_STATE_EXCEPTIONS) != lower_32_bits(what) ||
	       connection_state(connection, DART_STATE_BROKEN);
}

/* The card reports each without being asked. */
static void connection_expect_exceptions(struct uln_waiters *excepted, u64 what)
{
}

static const struct uln_expected connection_exceptions = {
	.arrived = connection_excepted,
	.arm = connection_expect_exceptions,
};

/* Returns NULL if it is not the file's. The card's lock is held. */
static struct dart_connection_object *connection_find(struct uln_file *file, u32 index)
{
	struct dart_connection_object *connection =
		xa_load(&dart_parts(file->card)->connections, index);

	return connection && connection->object.file == file ? connection : NULL;
}

static void connection_free(struct kref *users)
{
	struct dart_connection_object *connection =
		container_of(users, struct dart_connection_object, object.users);

	uln_pages_free(connection->state);
	kfree(connection);
}

DEFINE_FREE(connection_put, struct dart_connection_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))

/* Allocates a connection that the card does not know yet. */
static struct dart_connection_object *connection_alloc(struct uln_file *file, u32 host)
{
	struct dart_connection_object *connection __free(connection_put) =
		kzalloc(sizeof(*connection), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!connection)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&connection->object, file, &dart_connection_kind);
	uln_waiters_init(&connection->sleepers, file, &connection_news);
	uln_waiters_init(&connection->excepted, file, &connection_exceptions);
	dart_misses_init(connection);
	connection->card = file->card;
	connection->host = host;
	connection->key = get_random_u64();
	ret = uln_pages_make(file, ULN_PAGE_SIZE, &connection->state);
	return ret ? ERR_PTR(ret) : no_free_ptr(connection);
}

static int connection_tell(const struct dart_connection_object *connection,
			   const struct dart_connection *argument)
{
	struct dart_open_connection body = {
		.endpoint = cpu_to_le32(argument->endpoint),
		.host = cpu_to_le32(argument->host),
		.register_base = cpu_to_le32(connection->bank->first_register +
					     argument->first_register),
		.register_bound = cpu_to_le32(argument->registers),
		.program_base = cpu_to_le32(connection->bank->first_entry + argument->first_entry),
		.program_bound = cpu_to_le32(argument->entries),
		.events = cpu_to_le32(argument->events),
		.exceptions = cpu_to_le32(argument->exceptions),
		.flags = cpu_to_le32(argument->flags),
		.key = cpu_to_le64(connection->key),
	};

	uln_pages_describe(connection->state, &body.state);
	body.state.length = cpu_to_le64(DART_STATE_SIZE);
	return uln_command(connection->card, DART_COMMAND_OPEN_CONNECTION,
			   connection->object.index, &body, sizeof(body));
}

/* Allots a number, and has the card open the connection. */
static int connection_open(struct dart_connection_object *connection,
			   const struct dart_connection *argument)
{
	struct uln_file *file = connection->object.file;
	struct dart_parts *parts = dart_parts(file->card);
	int ret;

	ret = uln_share_take(file->share, DART_SHARE_CONNECTIONS, file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&parts->connections, &connection->object.index, connection,
		       XA_LIMIT(DART_FIRST_CONNECTION, dart_limits(file->card)->connections - 1),
		       GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	ret = connection_tell(connection, argument);
	if (!ret)
		return 0;
	xa_erase(&parts->connections, connection->object.index);
give_back:
	uln_share_give(file->share, DART_SHARE_CONNECTIONS);
	return ret;
}

static bool connection_is_sound(const struct dart_connection *argument)
{
	return !argument->key && !argument->connection && !argument->reserved &&
	       !argument->page_offset && !argument->state_offset &&
	       argument->registers <= DART_MAX_REGISTERS &&
	       !(argument->flags & ~(DART_CONNECTION_WRITE | DART_CONNECTION_READ));
}

static bool bank_has(const struct dart_bank_object *bank, const struct dart_connection *argument)
{
	return argument->first_register <= bank->registers &&
	       argument->registers <= bank->registers - argument->first_register &&
	       argument->first_entry <= bank->entries &&
	       argument->entries <= bank->entries - argument->first_entry;
}

/* The objects that it names must be the file's; the card's lock is held. */
static int connection_join(struct dart_connection_object *connection,
			   const struct dart_connection *argument)
{
	struct uln_file *file = connection->object.file;
	int ret;

	connection->endpoint = dart_endpoint_find(file, argument->endpoint);
	connection->bank = dart_bank_find(file, argument->bank);
	if (!connection->endpoint || !connection->bank || !dart_queue_is(file, argument->events) ||
	    !dart_queue_is(file, argument->exceptions))
		return -ENOENT;
	if (!bank_has(connection->bank, argument))
		return -EINVAL;
	ret = connection_open(connection, argument);
	if (ret)
		return ret;
	kref_get(&connection->endpoint->object.users);
	connection->endpoint->connections++;
	connection->bank->connections++;
	uln_waiters_open(&connection->sleepers);
	uln_waiters_open(&connection->excepted);
	uln_object_join(&connection->object, DART_KIND_CONNECTION);
	return 0;
}

int dart_connection_open(struct uln_file *file, void *argument)
{
	struct dart_connection_object *connection __free(connection_put) = NULL;
	struct dart_connection *answer = argument;
	int ret;

	if (!connection_is_sound(answer))
		return -EINVAL;
	if (answer->host >= DART_HOSTS)
		return -EHOSTUNREACH;
	connection = connection_alloc(file, answer->host);
	if (IS_ERR(connection))
		return PTR_ERR(connection);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = connection_join(connection, answer);
	if (ret)
		return ret;
	answer->key = connection->key;
	answer->connection = connection->object.index;
	answer->page_offset = connection->object.offset + MAP_PAGE;
	answer->state_offset = connection->object.offset + MAP_STATE;
	retain_and_null_ptr(connection);
	return 0;
}

static void connection_close(struct card_object *object)
{
	struct dart_connection_object *connection = connection_of(object);
	struct uln_card *card = connection->card;

	uln_unmap_card(object, DART_PAGE_SIZE);
	uln_command_close(card, DART_COMMAND_CLOSE_CONNECTION, object->index, NULL, 0);
	uln_waiters_close(&connection->sleepers);
	uln_waiters_close(&connection->excepted);
	xa_erase(&dart_parts(card)->connections, object->index);
	connection->endpoint->connections--;
	connection->bank->connections--;
	/* A farewell that is still due counts as a connection. */
	if (!dart_farewell_say(connection))
		uln_share_give(object->file->share, DART_SHARE_CONNECTIONS);
	uln_object_leave(object);
}

/* The card can no longer reach the memory; waiters, mappings and a thread may keep it longer. */
static void connection_release(struct card_object *object)
{
	struct dart_connection_object *connection = connection_of(object);

	uln_object_put(&connection->endpoint->object);
	uln_pages_unmap(connection->state);
	uln_object_put(object);
}

static int connection_end(struct uln_file *file, u32 index)
{
	struct dart_connection_object *connection;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		connection = connection_find(file, index);
		if (!connection)
			return -ENOENT;
		connection_close(&connection->object);
	}
	connection_release(&connection->object);
	return 0;
}

int dart_connection_close(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return connection_end(file, object->index);
}

void dart_connection_undo(struct uln_file *file, void *argument)
{
	const struct dart_connection *answer = argument;

	connection_end(file, answer->connection);
}

int dart_connect(struct uln_file *file, void *argument)
{
	struct dart_farewell *farewell __free(kfree) = NULL;
	const struct dart_peer *peer = argument;
	struct dart_connect body = {
		.key = cpu_to_le64(peer->key),
		.peer = cpu_to_le32(peer->peer),
	};
	struct dart_connection_object *connection;
	int ret;

	/* The other end is never an operating system's own connection. */
	if (peer->peer < DART_FIRST_CONNECTION || peer->peer >= DART_NUMBERS)
		return -EINVAL;
	farewell = kzalloc(sizeof(*farewell), GFP_KERNEL_ACCOUNT);
	if (!farewell)
		return -ENOMEM;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	connection = connection_find(file, peer->connection);
	if (!connection)
		return -ENOENT;
	/* Only once, whatever the card reports: there is one farewell. */
	if (connection->farewell)
		return -EBUSY;
	ret = uln_command(file->card, DART_COMMAND_CONNECT, peer->connection, &body,
			  sizeof(body));
	if (ret)
		return ret;
	farewell->host = connection->host;
	farewell->from = peer->connection;
	farewell->to = peer->peer;
	farewell->key = peer->key;
	dart_farewell_set(connection, farewell);
	retain_and_null_ptr(farewell);
	return 0;
}

/* Looks up the caller's connection, and takes a reference. */
static struct dart_connection_object *connection_get(struct uln_file *file, u32 index)
{
	struct dart_connection_object *connection;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	connection = connection_find(file, index);
	if (!connection)
		return ERR_PTR(-ENOENT);
	kref_get(&connection->object.users);
	return connection;
}

int dart_left_wait(struct uln_file *file, void *argument)
{
	struct dart_connection_object *connection __free(connection_put) = NULL;
	const struct dart_left_wait *wait = argument;

	if (wait->timeout_ns < ULN_WAIT_FOREVER)
		return -EINVAL;
	connection = connection_get(file, wait->connection);
	if (IS_ERR(connection))
		return PTR_ERR(connection);
	return uln_waiters_wait(&connection->sleepers, wait->left, wait->timeout_ns);
}

int dart_exception_wait(struct uln_file *file, void *argument)
{
	struct dart_connection_object *connection __free(connection_put) = NULL;
	const struct dart_exception_wait *wait = argument;

	if (wait->timeout_ns < ULN_WAIT_FOREVER)
		return -EINVAL;
	connection = connection_get(file, wait->connection);
	if (IS_ERR(connection))
		return PTR_ERR(connection);
	return uln_waiters_wait(&connection->excepted, wait->exceptions, wait->timeout_ns);
}

/* Its other end is gone; the card reports this to its owner. */
static void connection_gone(struct dart_connection_object *connection)
{
	struct dart_break body = { .why = cpu_to_le32(DART_BROKEN_GONE) };

	dart_farewell_forget(connection);
	/* A card that has failed in the loop of dart_lost() is stopped once. */
	if (connection->card->live)
		uln_command(connection->card, DART_COMMAND_BREAK, connection->object.index,
			    &body, sizeof(body));
}

/*
 * Handles a message of another host's driver. It is not trusted but checked: the sender must have
 * the key.
 */
void dart_message(struct uln_card *card, u32 host, const struct uln_head *wire,
		  const u8 *data)
{
	struct dart_connection_object *connection;
	__le64 key;

	if (wire->reason != DART_SAY_GONE || wire->private_length < sizeof(key))
		return;
	memcpy(&key, data, sizeof(key));
	connection = xa_load(&dart_parts(card)->connections, wire->to);
	if (connection && connection->host == host && connection->key == le64_to_cpu(key))
		connection_gone(connection);
}

/*
 * Called when nothing is arranged with a host any longer. When the card has failed this may come in
 * the middle of anything: then all ends later, with the files.
 */
void dart_lost(struct uln_card *card, u32 host)
{
	struct dart_parts *parts = dart_parts(card);
	struct dart_connection_object *connection;
	unsigned long index;

	if (!card->live)
		return;
	dart_farewells_lost(card, host);
	/* A host that is lost repeatedly must not cost more each time. */
	if (!parts->arranged[host])
		return;
	xa_for_each(&parts->connections, index, connection)
		if (connection->host == host && connection->farewell)
			connection_gone(connection);
}

static int connection_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset,
			   u64 size)
{
	const struct dart_connection_object *connection = connection_of(object);

	if (size != ULN_PAGE_SIZE)
		return -EINVAL;
	switch (offset) {
	case MAP_PAGE:
		return uln_mmap_card(vma, object);
	case MAP_STATE:
		return uln_mmap_pages(vma, object, connection->state);
	default:
		return -EINVAL;
	}
}

static resource_size_t connection_place(const struct card_object *object, u64 offset)
{
	return dart_parts(object->file->card)->memory + (u64)object->index * DART_PAGE_SIZE;
}

const struct card_kind dart_connection_kind = {
	.close = connection_close,
	.release = connection_release,
	.mmap = connection_mmap,
	.place = connection_place,
	.free = connection_free,
};
