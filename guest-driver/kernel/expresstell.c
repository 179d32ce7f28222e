// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
/* Messages about express memory to other operating systems, when there is room for them. */
#include "uln_expresshost.h"

int uln_express_say(struct uln_peer *peer, struct uln_share *share, u32 what, u32 from,
		    u32 to, const void *data, u32 length)
{
	const struct uln_head wire = {
		.kind = ULN_WIRE_EXPRESS,
		.reason = what,
		.from = from,
		.to = to,
		.private_length = length,
	};

	return uln_peer_say(peer, share, &wire, data);
}

static int express_say_of(struct uln_system *system, const struct uln_express_end *end)
{
	struct uln_peer *peer = &system->peers[end->host];
	struct uln_express_pages pages;
	struct uln_express_ask ask;

	switch (end->say) {
	case ULN_EXPRESS_SAY_MAP:
		ask.key = cpu_to_le64(end->key);
		ask.memory = cpu_to_le64(express_host_of(system, end)->part.memory);
		return uln_express_say(peer, end->share, end->say, end->number, end->other, &ask,
				       sizeof(ask));
	case ULN_EXPRESS_SAY_PAGES:
		pages = uln_part_pack(&end->pages);
		return uln_express_say(peer, end->share, end->say, end->number, end->other,
				       &pages, sizeof(pages));
	default:
		return uln_express_say(peer, end->share, end->say, end->number, end->other, NULL,
				       0);
	}
}

void uln_express_tell(struct uln_system *system, struct express_host *with)
{
	struct uln_express_end *end, *next;
	int ret;

	list_for_each_entry_safe(end, next, &with->untold, on_untold) {
		ret = express_say_of(system, end);
		if (ret == -ENOMEM)
			return;
		if (ret)
			continue;
		list_del_init(&end->on_untold);
		if (end->say == ULN_EXPRESS_SAY_MAP) {
			end->said = true;
			end->asked = jiffies;
		}
		/* This was the last message about a view that has ended. */
		if (end->say == ULN_EXPRESS_SAY_UNMAP)
			uln_express_forget(system, end);
		else
			end->say = 0;
	}
}

void uln_express_mean(struct uln_system *system, struct uln_express_end *end, u32 what)
{
	end->say = what;
	if (list_empty(&end->on_untold))
		list_add_tail(&end->on_untold, &express_host_of(system, end)->untold);
}

void uln_express_state(struct uln_system *system, struct uln_express_end *end, u32 what)
{
	uln_express_mean(system, end, what);
	uln_express_tell(system, express_host_of(system, end));
}

int uln_express_ask_settle(struct uln_peer *peer, struct express_host *with)
{
	int ret = uln_express_say(peer, NULL, ULN_EXPRESS_SAY_SETTLE, 0, 0, NULL, 0);

	with->settling = !ret;
	with->since = jiffies;
	with->asked = jiffies;
	return ret;
}
