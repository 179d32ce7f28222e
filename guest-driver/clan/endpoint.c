// SPDX-License-Identifier: GPL-2.0-only
/*
 * Endpoints (section 3.1): a page of the card through which their owners program Tripwires, and
 * memory that owner, card and driver share: events, DMA requests, messages. The owner may write
 * anything there at any moment.
 */
#include <linux/capability.h>

#include "clan.h"

/* Offsets for mmap(2), relative to an endpoint's own offset. */
#define MAP_PAGE 0
#define MAP_MEMORY CLAN_ENDPOINT_SIZE

static_assert(CLAN_ENDPOINT_SIZE == ULN_PAGE_SIZE && CLAN_STATE_SIZE == ULN_PAGE_SIZE);
static_assert(sizeof(struct clan_request) == CLAN_REQUEST_SIZE);
static_assert(MAP_MEMORY + CLAN_STATE_SIZE + CLAN_MAX_REQUESTS * CLAN_REQUEST_SIZE <=
	      ULN_MAP_STRIDE);
/* The bits that CLAN_REG_ARM has room for. */
#define ARM_SHIFT 16
#define WAITABLE (U64_MAX >> ARM_SHIFT)
static_assert(CLAN_BITS + ARM_SHIFT == BITS_PER_TYPE(u64));

#define FIRST_FREE_PORT 1024
#define LAST_PORT 0xffff

#define endpoint_of(of) container_of(of, struct clan_endpoint_object, object)

static bool endpoint_arrived(const struct uln_waiters *sleepers, u64 what)
{
	const struct clan_endpoint_object *endpoint =
		container_of_const(sleepers, struct clan_endpoint_object, sleepers);

	return clan_bits(endpoint->memory) & what;
}

/* Tells the card of all awaited bits again: it need not remember what it was told before. */
static void endpoint_arm(struct uln_waiters *sleepers, u64 what)
{
	const struct clan_endpoint_object *endpoint =
		container_of_const(sleepers, struct clan_endpoint_object, sleepers);

	if (!(what & ~sleepers->armed))
		return;
	sleepers->armed |= what;
	writeq(sleepers->armed << ARM_SHIFT | endpoint->object.index,
	       sleepers->file->card->registers + CLAN_REG_ARM);
}

static const struct uln_expected endpoint_news = {
	.arrived = endpoint_arrived,
	.arm = endpoint_arm,
};

static void endpoint_free(struct kref *users)
{
	struct clan_endpoint_object *endpoint =
		container_of(users, struct clan_endpoint_object, object.users);

	clan_engine_free(endpoint->engine);
	uln_pages_free(endpoint->memory);
	kfree(endpoint);
}

DEFINE_FREE(endpoint_put, struct clan_endpoint_object *,
	    if (!IS_ERR_OR_NULL(_T)) uln_object_put(&_T->object))

/* Allocates an endpoint that the card does not know yet. */
static struct clan_endpoint_object *endpoint_alloc(struct uln_file *file,
						   const struct clan_endpoint *argument)
{
	struct clan_endpoint_object *endpoint __free(endpoint_put) =
		kzalloc(sizeof(*endpoint), GFP_KERNEL_ACCOUNT);
	struct clan_engine *engine;
	int ret;

	if (!endpoint)
		return ERR_PTR(-ENOMEM);
	uln_object_init(&endpoint->object, file, &clan_endpoint_kind);
	uln_waiters_init(&endpoint->sleepers, file, &endpoint_news);
	endpoint->tripwires = argument->tripwires;
	endpoint->requests = argument->requests;
	endpoint->events = argument->events;
	ret = uln_pages_make(file, CLAN_STATE_SIZE + (u64)argument->requests * CLAN_REQUEST_SIZE,
			     &endpoint->memory);
	if (ret)
		return ERR_PTR(ret);
	if (argument->flags & CLAN_DRIVERS_DMA) {
		engine = clan_engine_alloc(endpoint);
		if (IS_ERR(engine))
			return ERR_CAST(engine);
		endpoint->engine = engine;
	}
	return_ptr(endpoint);
}

static int endpoint_take_port(struct clan_endpoint_object *endpoint, u32 port)
{
	struct clan_parts *parts = clan_parts(endpoint->object.file->card);
	int ret;

	if (port) {
		endpoint->port = port;
		return xa_insert(&parts->ports, port, endpoint, GFP_KERNEL);
	}
	ret = xa_alloc_cyclic(&parts->ports, &endpoint->port, endpoint,
			      XA_LIMIT(FIRST_FREE_PORT, LAST_PORT), &parts->next_port, GFP_KERNEL);
	return ret == -EBUSY ? -ENOSPC : min(ret, 0);
}

/* Returns the number of its event sources: its Tripwires, DMA, messages and faults. */
static u32 endpoint_sources(const struct clan_endpoint_object *endpoint)
{
	return endpoint->tripwires + 3;
}

static int endpoint_tell(struct clan_endpoint_object *endpoint)
{
	struct uln_file *file = endpoint->object.file;
	struct clan_open_endpoint body = {
		.owner = cpu_to_le32(file->number),
		.tripwires = cpu_to_le32(endpoint->tripwires),
		.requests = cpu_to_le32(endpoint->requests),
		.events = cpu_to_le32(endpoint->events),
	};
	int ret;

	uln_pages_describe(endpoint->memory, &body.memory);
	ret = uln_command(file->card, CLAN_COMMAND_OPEN_ENDPOINT, endpoint->object.index, &body,
			  sizeof(body));
	if (ret || !endpoint->engine)
		return ret;
	ret = clan_engine_open(endpoint->engine);
	if (ret)
		uln_command_close(file->card, CLAN_COMMAND_CLOSE_ENDPOINT,
				  endpoint->object.index, NULL, 0);
	return ret;
}

/*
 * Returns its part of a share: the endpoints for its Tripwires if each had equally many, and one
 * more if the driver has one for its requests.
 */
static u32 endpoint_count(const struct clan_endpoint_object *endpoint)
{
	const struct clan_query *limits = &clan_limits(endpoint->object.file->card)->query;
	u64 tripwires = (u64)endpoint->tripwires * limits->endpoints;

	return max_t(u32, 1, DIV_ROUND_UP_ULL(tripwires, limits->tripwires)) + !!endpoint->engine;
}

/* Allots a number and a port, and has the card open the endpoint. */
static int endpoint_open(struct clan_endpoint_object *endpoint, u32 port)
{
	struct uln_file *file = endpoint->object.file;
	struct clan_parts *parts = clan_parts(file->card);
	const struct clan_query *limits = &clan_limits(file->card)->query;
	int ret;

	if (endpoint->tripwires > limits->tripwires - CLAN_OWN_TRIPWIRES - parts->tripwires)
		return -ENOSPC;
	ret = uln_share_take_some(file->share, CLAN_SHARE_ENDPOINTS, endpoint_count(endpoint),
				  file->privileged);
	if (ret)
		return ret;
	ret = xa_alloc(&parts->endpoints, &endpoint->object.index, endpoint,
		       XA_LIMIT(CLAN_OWN_ENDPOINTS, limits->endpoints - 1), GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto give_back;
	}
	ret = endpoint_take_port(endpoint, port);
	if (ret)
		goto erase;
	ret = clan_events_reserve(file, endpoint->events, endpoint_sources(endpoint));
	if (ret)
		goto give_port;
	ret = endpoint_tell(endpoint);
	if (!ret) {
		parts->tripwires += endpoint->tripwires;
		return 0;
	}
	clan_events_give(file, endpoint->events, endpoint_sources(endpoint));
give_port:
	xa_erase(&parts->ports, endpoint->port);
erase:
	xa_erase(&parts->endpoints, endpoint->object.index);
give_back:
	uln_share_give_some(file->share, CLAN_SHARE_ENDPOINTS, endpoint_count(endpoint));
	return ret;
}

static bool endpoint_is_sound(const struct clan_endpoint *argument)
{
	return !argument->endpoint && !argument->page_offset && !argument->memory_offset &&
	       argument->port <= LAST_PORT && argument->tripwires <= CLAN_MAX_TRIPWIRES &&
	       argument->requests >= CLAN_MIN_REQUESTS && argument->requests <= CLAN_MAX_REQUESTS &&
	       is_power_of_2(argument->requests) && !(argument->flags & ~CLAN_DRIVERS_DMA);
}

int clan_endpoint_open(struct uln_file *file, void *argument)
{
	struct clan_endpoint_object *endpoint __free(endpoint_put) = NULL;
	struct clan_endpoint *answer = argument;
	int ret;

	if (!endpoint_is_sound(answer))
		return -EINVAL;
	if (answer->port && answer->port < FIRST_FREE_PORT && !capable(CAP_NET_BIND_SERVICE))
		return -EACCES;
	endpoint = endpoint_alloc(file, answer);
	if (IS_ERR(endpoint))
		return PTR_ERR(endpoint);

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	ret = endpoint_open(endpoint, answer->port);
	if (ret)
		return ret;
	uln_waiters_open(&endpoint->sleepers);
	uln_object_join(&endpoint->object, CLAN_KIND_ENDPOINT);
	answer->port = endpoint->port;
	answer->endpoint = endpoint->object.index;
	answer->page_offset = endpoint->object.offset + MAP_PAGE;
	answer->memory_offset = endpoint->object.offset + MAP_MEMORY;
	retain_and_null_ptr(endpoint);
	return 0;
}

static void endpoint_close(struct card_object *object)
{
	struct clan_endpoint_object *endpoint = endpoint_of(object);
	struct uln_card *card = object->file->card;
	struct clan_parts *parts = clan_parts(card);
	bool kept;

	uln_unmap_card(object, CLAN_ENDPOINT_SIZE);
	if (endpoint->engine)
		clan_engine_close(endpoint->engine);
	uln_command_close(card, CLAN_COMMAND_CLOSE_ENDPOINT, object->index, NULL, 0);
	uln_waiters_close(&endpoint->sleepers);
	clan_events_give(object->file, endpoint->events, endpoint_sources(endpoint));
	parts->tripwires -= endpoint->tripwires;
	xa_erase(&parts->endpoints, object->index);
	clan_refuse_askers(endpoint);
	/* A port that is not free yet still counts for the user. */
	kept = clan_farewell_say(endpoint);
	uln_share_give_some(object->file->share, CLAN_SHARE_ENDPOINTS,
			    endpoint_count(endpoint) - kept);
	uln_object_leave(object);
}

/* The card can no longer reach the memory; waiters and mappings may keep it longer. */
static void endpoint_release(struct card_object *object)
{
	struct clan_endpoint_object *endpoint = endpoint_of(object);

	if (endpoint->engine)
		clan_engine_unmap(endpoint->engine);
	uln_pages_unmap(endpoint->memory);
	uln_object_put(object);
}

static int endpoint_end(struct uln_file *file, u32 index)
{
	struct clan_endpoint_object *endpoint;

	scoped_class(uln_entry, entry, file) {
		if (entry.error)
			return entry.error;
		endpoint = clan_endpoint_find(file, index);
		if (!endpoint)
			return -ENOENT;
		if (endpoint->windows)
			return -EBUSY;
		endpoint_close(&endpoint->object);
	}
	endpoint_release(&endpoint->object);
	return 0;
}

int clan_endpoint_close(struct uln_file *file, void *argument)
{
	const struct uln_object *object = argument;

	if (object->reserved0 || object->reserved1)
		return -EINVAL;
	return endpoint_end(file, object->index);
}

/*
 * If another thread has guessed its number and opened a window with it, the endpoint stays until
 * the file ends.
 */
void clan_endpoint_undo(struct uln_file *file, void *argument)
{
	const struct clan_endpoint *answer = argument;

	endpoint_end(file, answer->endpoint);
}

/* Looks up the caller's endpoint, and takes a reference. */
static struct clan_endpoint_object *endpoint_get(struct uln_file *file, u32 index)
{
	struct clan_endpoint_object *endpoint;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return ERR_PTR(entry.error);
	endpoint = clan_endpoint_find(file, index);
	if (!endpoint)
		return ERR_PTR(-ENOENT);
	kref_get(&endpoint->object.users);
	return endpoint;
}

int clan_endpoint_wait(struct uln_file *file, void *argument)
{
	struct clan_endpoint_object *endpoint __free(endpoint_put) = NULL;
	struct clan_wait *wait = argument;
	int ret;

	if (wait->timeout_ns < ULN_WAIT_FOREVER || !wait->bits || wait->bits & ~WAITABLE ||
	    wait->reserved)
		return -EINVAL;
	endpoint = endpoint_get(file, wait->endpoint);
	if (IS_ERR(endpoint))
		return PTR_ERR(endpoint);
	ret = uln_waiters_wait(&endpoint->sleepers, wait->bits, wait->timeout_ns);
	if (ret)
		return ret;
	/* Another thread may have cleared them by now: then the wake-up was spurious. */
	wait->bits &= clan_bits(endpoint->memory);
	return 0;
}

int clan_endpoint_set_events(struct uln_file *file, void *argument)
{
	const struct clan_events_of *of = argument;
	struct clan_set_events body = { .events = cpu_to_le32(of->events) };
	struct clan_endpoint_object *endpoint;
	u32 before;
	int ret;

	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	endpoint = clan_endpoint_find(file, of->endpoint);
	if (!endpoint)
		return -ENOENT;
	before = endpoint->events;
	if (of->events == before)
		return 0;
	ret = clan_events_reserve(file, of->events, endpoint_sources(endpoint));
	if (ret)
		return ret;
	ret = uln_command(file->card, CLAN_COMMAND_SET_EVENTS, of->endpoint, &body,
			  sizeof(body));
	if (!ret)
		endpoint->events = of->events;
	/* Give back the reservation in the queue that is not used. */
	clan_events_give(file, ret ? of->events : before, endpoint_sources(endpoint));
	return ret;
}

static int endpoint_mmap(struct card_object *object, struct vm_area_struct *vma, u64 offset,
			 u64 size)
{
	const struct uln_pages *memory = endpoint_of(object)->memory;

	switch (offset) {
	case MAP_PAGE:
		return size == CLAN_ENDPOINT_SIZE ? uln_mmap_card(vma, object) : -EINVAL;
	case MAP_MEMORY:
		return size == (u64)memory->count * ULN_PAGE_SIZE ?
			       uln_mmap_shared(vma, object, memory) :
			       -EINVAL;
	default:
		return -EINVAL;
	}
}

static resource_size_t endpoint_place(const struct card_object *object, u64 offset)
{
	return clan_endpoint_page(object->file->card, object->index);
}

/* Reports the bits for which the endpoint's own file was opened. */
static __poll_t endpoint_poll_own(struct card_object *object)
{
	struct clan_endpoint_object *endpoint = endpoint_of(object);

	return endpoint->polled && uln_waiters_ready(&endpoint->sleepers, endpoint->polled) ?
		       EPOLLIN | EPOLLRDNORM :
		       0;
}

static wait_queue_head_t *endpoint_waiting(struct card_object *object)
{
	return &endpoint_of(object)->sleepers.wait;
}

static int endpoint_await_own(struct card_object *object, u64 what)
{
	if (!what || what & ~WAITABLE)
		return -EINVAL;
	endpoint_of(object)->polled = what;
	return 0;
}

const struct card_kind clan_endpoint_kind = {
	.close = endpoint_close,
	.release = endpoint_release,
	.poll_own = endpoint_poll_own,
	.wait = endpoint_waiting,
	.await_own = endpoint_await_own,
	.mmap = endpoint_mmap,
	.place = endpoint_place,
	.free = endpoint_free,
};
