// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lanes: an export for the other host, and a mapping to the other host's export. A deposit is sent
 * by deliberate update (section 4.3): a transfer for each of its pages, and one of a record that
 * announces it. The card delivers them in order. A sleeping lane requests a report of the next
 * arrival in the page of the records (section 4.2).
 *
 * The card has one engine, which processes use, too. So lanes have few transfers ahead of those of
 * a process. No process can take the places of the lane's transfers (SHRIMP_ENTRY_SYSTEM).
 */
#include "shrimp.h"
#include "uln_lanerecord.h"

/* Longer deposits would keep others from the engine. */
#define LONGEST (16 * ULN_PAGE_SIZE)
/* Maximum number of transfers since the engine was seen free: 18 for the longest deposit. */
#define AHEAD 36
/* How often the engine is looked at before the lane's user is woken in a moment. */
#define LOOKS 8

/* uln_lane.address. */
struct lane_address {
	__le64 key;
	__le32 export;
};
static_assert(sizeof(struct lane_address) <= ULN_LANE_ADDRESS);

struct shrimp_lane {
	struct uln_lane *lane;
	/* Memory that the other host writes, and memory that is sent. */
	struct shrimp_export_object *export;
	struct shrimp_mapping_object *mapping;
	/* The command page of this end's records. */
	void __iomem *records;
	/* Deposits sent, and records taken. */
	u32 sent;
	u32 taken;
	/* A report was requested when this many had arrived at the export. */
	bool requested;
	int arrivals;
};

static void __iomem *lane_command(const struct uln_card *card, const struct uln_pages *memory,
				  u32 offset)
{
	u64 page = shrimp_pfn(memory, offset / ULN_PAGE_SIZE);

	return shrimp_parts(card)->commands + page * ULN_PAGE_SIZE + offset % ULN_PAGE_SIZE;
}

static int lane_open(struct uln_lane *lane)
{
	struct lane_address *address = (struct lane_address *)lane->address;
	struct shrimp_export_object *export =
		shrimp_export_lend(&lane->file, &lane->memory, lane->host);
	struct shrimp_lane *own = lane->model;

	if (IS_ERR(export))
		return PTR_ERR(export);
	own->lane = lane;
	own->export = export;
	own->records = lane_command(lane->file.card, export->memory, 0);
	address->key = cpu_to_le64(export->key);
	address->export = cpu_to_le32(export->object.index);
	return 0;
}

static void lane_close(struct uln_lane *lane)
{
	struct shrimp_lane *own = lane->model;

	if (own->mapping)
		uln_object_put(&own->mapping->object);
	if (own->export)
		uln_object_put(&own->export->object);
}

/* The other host answers later: until then the lane sends nothing. */
static int lane_connect(struct uln_lane *lane, const u8 *bytes)
{
	const struct lane_address *address = (const struct lane_address *)bytes;
	const struct shrimp_map map = {
		.key = le64_to_cpu(address->key),
		.node = lane->host,
		.export = le32_to_cpu(address->export),
		.mode = SHRIMP_MODE_DELIBERATE,
	};
	struct shrimp_mapping_object *mapping =
		shrimp_mapping_lend(&lane->file, &lane->mirror, &map);
	struct shrimp_lane *own = lane->model;
	u32 turns;

	if (IS_ERR(mapping))
		return PTR_ERR(mapping);
	own->mapping = mapping;
	uln_lane_watch(lane, &own->export->wait, &mapping->wait);
	return shrimp_mapping_begin(mapping, &turns);
}

static bool engine_is_free(const struct shrimp_lane *own)
{
	unsigned int looks;

	for (looks = 0; looks < LOOKS; looks++)
		if (!readl(own->records))
			return true;
	return false;
}

/* Returns whether a deposit may be started. If not, the lane's user is woken in a moment. */
static bool lane_has_engine(struct shrimp_lane *own, u32 to, u32 length)
{
	struct shrimp_parts *parts = shrimp_parts(own->lane->file.card);
	u32 transfers = DIV_ROUND_UP(to % ULN_PAGE_SIZE + length, ULN_PAGE_SIZE) + 1;

	if (parts->started + transfers > AHEAD) {
		if (!engine_is_free(own)) {
			uln_lane_again(own->lane);
			return false;
		}
		parts->started = 0;
	}
	parts->started += transfers;
	return true;
}

/* Starts a transfer for each page of the bytes. */
static void lane_update(const struct shrimp_lane *own, u32 at, u32 length)
{
	const struct uln_card *card = own->lane->file.card;
	u32 part;

	for (; length; at += part, length -= part) {
		part = min(length, ULN_PAGE_SIZE - at % ULN_PAGE_SIZE);
		writel(part / sizeof(u32), lane_command(card, own->mapping->memory, at));
	}
}

/* @from is byte @to of the mirror. */
static bool lane_send(struct uln_lane *lane, u32 from, u32 to, u32 length)
{
	struct shrimp_parts *parts = shrimp_parts(lane->file.card);
	struct shrimp_lane *own = lane->model;

	/* Pairs with the release of the mapping's other fields, once it is mapped. */
	switch (smp_load_acquire(&own->mapping->progress)) {
	case SHRIMP_ASKING:
		return false;
	case SHRIMP_MAPPED:
		break;
	default:
		uln_lane_broke(lane);
		return false;
	}
	guard(spinlock)(&parts->engine);
	if (!lane_has_engine(own, to, length))
		return false;
	uln_lane_record_write(lane, own->sent, to, length);
	wmb(); /* The card reads all of it when it sees the commands. */
	lane_update(own, to, length);
	lane_update(own, uln_lane_record_place(own->sent), sizeof(struct uln_lane_record));
	own->sent++;
	return true;
}

static bool lane_take(struct uln_lane *lane, u32 *to, u32 *length)
{
	struct shrimp_lane *own = lane->model;

	return uln_lane_record_take(lane, &own->taken, to, length);
}

/*
 * A report that was requested and has not come is not requested again. The card refuses a request
 * before the other host has mapped the page; import_open() counts that event as an arrival.
 */
static bool lane_arm(struct uln_lane *lane)
{
	struct shrimp_lane *own = lane->model;
	int arrivals = atomic_read(&own->export->arrivals);

	if (!own->requested || own->arrivals != arrivals) {
		own->requested = true;
		own->arrivals = arrivals;
		writel(SHRIMP_REPORT_NEXT, own->records);
		readl(own->records); /* The card has it when this is answered. */
	}
	return !uln_lane_record_arrived(lane, own->taken);
}

const struct uln_lane_ops shrimp_lane_ops = {
	.size = sizeof(struct shrimp_lane),
	.apart = true,
	.longest = LONGEST,
	.most = ULN_LANE_RECORDS_MOST,
	.open = lane_open,
	.connect = lane_connect,
	.close = lane_close,
	.send = lane_send,
	.take = lane_take,
	.arm = lane_arm,
};
