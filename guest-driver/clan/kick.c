// SPDX-License-Identifier: GPL-2.0-only
/*
 * DMA as with the paper's card (section 3.4), for comparison. A process puts requests into its
 * queue, and the driver has the card carry them out, one after the other. The process calls the
 * driver when the queue was empty. After that the interrupt of each completion starts the next
 * request, until the queue is empty again.
 *
 * For that the driver has an endpoint of its own with the process's owner. The card checks memory
 * against that owner, and takes turns among these endpoints as among all. Each request is copied
 * out of the process's memory once.
 */
#include "clan.h"

/* It has only one request at a time. */
#define REQUESTS CLAN_MIN_REQUESTS
#define FLAGS (CLAN_DMA_CHAIN | CLAN_DMA_NOTIFY)

struct clan_engine {
	/* The endpoint whose requests it carries out. */
	struct clan_endpoint_object *endpoint;
	/* Its own endpoint: its number, its memory, and how many requests were put there. */
	u32 index;
	struct uln_pages *memory;
	u32 put;
	/* Number of the process's requests that have ended. */
	u32 done;
	/*
	 * A request is being carried out: its flags, and its result whatever the card reports, if
	 * not 0.
	 */
	bool busy;
	u32 flags;
	u32 result;
	/* An earlier request of its chain failed. */
	bool skip;
};

static struct uln_card *engine_card(const struct clan_engine *engine)
{
	return engine->endpoint->object.file->card;
}

void clan_engine_free(struct clan_engine *engine)
{
	if (engine)
		uln_pages_free(engine->memory);
	kfree(engine);
}

struct clan_engine *clan_engine_alloc(struct clan_endpoint_object *endpoint)
{
	struct uln_file *file = endpoint->object.file;
	struct clan_engine *engine = kzalloc(sizeof(*engine), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!engine)
		return ERR_PTR(-ENOMEM);
	engine->endpoint = endpoint;
	ret = uln_pages_make(file, CLAN_STATE_SIZE + REQUESTS * CLAN_REQUEST_SIZE,
			     &engine->memory);
	if (ret) {
		clan_engine_free(engine);
		return ERR_PTR(ret);
	}
	return engine;
}

/* Has the card open its endpoint. The card's lock is held in all functions below. */
int clan_engine_open(struct clan_engine *engine)
{
	struct uln_file *file = engine->endpoint->object.file;
	struct clan_parts *parts = clan_parts(file->card);
	struct clan_open_endpoint body = {
		.owner = cpu_to_le32(file->number),
		.requests = cpu_to_le32(REQUESTS),
		.events = cpu_to_le32(CLAN_NO_EVENTS),
		.faults_to = cpu_to_le32(engine->endpoint->object.index),
	};
	int ret;

	ret = xa_alloc(&parts->endpoints, &engine->index, xa_tag_pointer(engine, CLAN_ENGINE_TAG),
		       XA_LIMIT(CLAN_OWN_ENDPOINTS, clan_limits(file->card)->query.endpoints - 1),
		       GFP_KERNEL);
	if (ret)
		return ret == -EBUSY ? -ENOSPC : ret;
	uln_pages_describe(engine->memory, &body.memory);
	ret = uln_command(file->card, CLAN_COMMAND_OPEN_ENDPOINT, engine->index, &body,
			  sizeof(body));
	if (ret) {
		xa_erase(&parts->endpoints, engine->index);
		return ret;
	}
	/* The process must call for its first request. */
	clan_state_write(engine->endpoint->memory, CLAN_STATE_IDLE, 1);
	return 0;
}

/* On return, what it was doing has ended. */
void clan_engine_close(struct clan_engine *engine)
{
	struct uln_card *card = engine_card(engine);

	uln_command_close(card, CLAN_COMMAND_CLOSE_ENDPOINT, engine->index, NULL, 0);
	xa_erase(&clan_parts(card)->endpoints, engine->index);
}

void clan_engine_unmap(struct clan_engine *engine)
{
	uln_pages_unmap(engine->memory);
}

/* Sets a bit of the process's endpoint, and makes an event of it. */
static void engine_notify(struct clan_engine *engine)
{
	writel(CLAN_POST_DMA | engine->endpoint->object.index,
	       engine_card(engine)->registers + CLAN_REG_POST);
}

/* Copies a request of the process, each word once. */
static void engine_copy(const struct clan_engine *engine, struct clan_request *copy)
{
	const u64 *from = (const u64 *)clan_request_at(engine->endpoint->memory, engine->done,
						       engine->endpoint->requests);
	u64 *to = (u64 *)copy;
	unsigned int i;

	for (i = 0; i < sizeof(*copy) / sizeof(*to); i++)
		to[i] = READ_ONCE(from[i]);
}

static bool request_is_sound(const struct clan_request *request)
{
	u32 opcode = le32_to_cpu(request->opcode);
	u64 length = le64_to_cpu(request->length);

	return (opcode == CLAN_DMA_WRITE || opcode == CLAN_DMA_READ) &&
	       !(le32_to_cpu(request->flags) & ~FLAGS) && !request->reserved && length &&
	       length <= CLAN_MAX_TRANSFER &&
	       clan_target_is_sound(le32_to_cpu(request->host), le32_to_cpu(request->aperture));
}

/*
 * Has the card carry out the next request. One that is invalid or skipped takes its turn as well.
 */
static void engine_start(struct clan_engine *engine)
{
	struct clan_request request;

	engine_copy(engine, &request);
	engine->flags = le32_to_cpu(request.flags) & FLAGS;
	engine->result = 0;
	if (engine->skip)
		engine->result = CLAN_DMA_SKIPPED;
	else if (!request_is_sound(&request))
		engine->result = CLAN_DMA_BAD_REQUEST;
	if (engine->result)
		request = (struct clan_request) {};
	request.flags = cpu_to_le32(CLAN_DMA_NOTIFY);
	request.result = cpu_to_le32(CLAN_DMA_PENDING);
	*clan_request_at(engine->memory, engine->put, REQUESTS) = request;
	engine->busy = true;
	clan_requests_go(engine_card(engine), engine->index, engine->memory, ++engine->put);
}

/*
 * Returns whether the process has put more than has ended. If its count makes no sense, it has not.
 */
static bool engine_has_more(const struct clan_engine *engine)
{
	u32 put = clan_state_read(engine->endpoint->memory, CLAN_STATE_PUT);
	u32 count = put - engine->done;

	return count && count <= engine->endpoint->requests;
}

/* Carries on, if there is more; if not, the process must call. */
static void engine_go_on(struct clan_engine *engine)
{
	const struct uln_pages *memory = engine->endpoint->memory;

	if (!engine_has_more(engine)) {
		clan_state_write(memory, CLAN_STATE_IDLE, 1);
		mb(); /* Either the process sees it idle, or the driver sees the process's count. */
		if (!engine_has_more(engine))
			return;
	}
	clan_state_write(memory, CLAN_STATE_IDLE, 0);
	smp_rmb(); /* Read the requests after their count. */
	engine_start(engine);
}

/* A request has ended: reports that to the process. */
static void engine_end(struct clan_engine *engine)
{
	const struct clan_request *own = clan_request_at(engine->memory, engine->put - 1, REQUESTS);
	struct clan_endpoint_object *endpoint = engine->endpoint;
	u32 result = engine->result ?: le32_to_cpu(READ_ONCE(own->result));
	__le32 *done = clan_state(endpoint->memory, CLAN_STATE_DONE);

	WRITE_ONCE(clan_request_at(endpoint->memory, engine->done, endpoint->requests)->result,
		   cpu_to_le32(result));
	/* The process sees the result before the count. */
	smp_store_release(done, cpu_to_le32(++engine->done));
	engine->skip = result != CLAN_DMA_DONE && engine->flags & CLAN_DMA_CHAIN;
	engine->busy = false;
	if (engine->flags & CLAN_DMA_NOTIFY)
		engine_notify(engine);
}

/* Has the card interrupt when the current request has ended, or if it has. */
static void engine_arm(const struct clan_engine *engine)
{
	writeq(BIT_ULL(CLAN_BIT_DMA) << 16 | engine->index,
	       engine_card(engine)->registers + CLAN_REG_ARM);
}

/* Handles news of the card. */
void clan_engine_told(struct clan_engine *engine)
{
	clan_clear_bit(engine->memory, CLAN_BIT_DMA);
	if (engine->busy && clan_state_read(engine->memory, CLAN_STATE_DONE) == engine->put) {
		dma_rmb(); /* The result was written before. */
		engine_end(engine);
	}
	if (!engine->busy)
		engine_go_on(engine);
	if (engine->busy)
		engine_arm(engine);
}

int clan_kick(struct uln_file *file, void *argument)
{
	const struct clan_kick *kick = argument;
	struct clan_endpoint_object *endpoint;

	if (kick->reserved)
		return -EINVAL;
	CLASS(uln_entry, entry)(file);
	if (entry.error)
		return entry.error;
	endpoint = clan_endpoint_find(file, kick->endpoint);
	if (!endpoint)
		return -ENOENT;
	if (!endpoint->engine)
		return -EINVAL;
	if (endpoint->engine->busy)
		return 0;
	engine_go_on(endpoint->engine);
	if (endpoint->engine->busy)
		engine_arm(endpoint->engine);
	return 0;
}
