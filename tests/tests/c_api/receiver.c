/* A receiver class of the program's own: it adds up the numbers in messages' metadata. */
#include <hamlyn.h>
#include <stdio.h>
#include <string.h>

struct sum {
	struct hamlyn_end_point *end_point;
	unsigned messages, total, lost;
};

static int add(void *context, const struct hamlyn_arrived *arrived)
{
	struct sum *sum = context;

	sum->messages++;
	sum->total += arrived->metadata[0];
	/* The last entry stays locked. */
	return arrived->entry == 2 || hamlyn_end_point_reopen(sum->end_point, arrived->entry) == 0;
}

static int lost(void *context)
{
	((struct sum *)context)->lost++;
	return 0;
}

#define SAY(call) printf("%d\n", (int)(call))

int main(void)
{
	struct sum sum = { 0, 0, 0, 0 };
	struct hamlyn_receiver_class class = { add, lost, &sum, { 0 } }, empty = { 0, lost, &sum, { 0 } };
	struct hamlyn_card *card;
	struct hamlyn_manager *manager;
	struct hamlyn_terminus *terminus;
	struct hamlyn_ticket ticket, other;
	struct hamlyn_message message;
	unsigned char number = 20;
	uint64_t tokens[2];

	memset(&message, 0, sizeof(message));
	message.metadata = &number;
	message.metadata_length = 1;
	if (hamlyn_open(NULL, &card) || hamlyn_manager_create(card, &manager) ||
	    hamlyn_terminus_create(card, 1, &terminus))
		return 1;
	SAY(hamlyn_end_point_create(manager, &empty, 3, 16, &sum.end_point));
	SAY(hamlyn_end_point_create(manager, &class, 0, 16, &sum.end_point));
	SAY(hamlyn_end_point_create(manager, &class, 3, 16, &sum.end_point));
	SAY(hamlyn_end_point_set_token(sum.end_point, 7));
	SAY(hamlyn_end_point_ticket(sum.end_point, 3, &ticket));
	SAY(hamlyn_end_point_ticket(sum.end_point, 1, &ticket));
	SAY(hamlyn_terminus_send(terminus, &ticket, &message, "one", 4, 60000));
	number = 22;
	while (sum.messages < 1)
		hamlyn_manager_wait(manager, 60000);
	SAY(hamlyn_terminus_send(terminus, &ticket, &message, "two", 4, 60000));
	SAY(hamlyn_end_point_ticket(sum.end_point, 2, &other));
	SAY(hamlyn_terminus_send(terminus, &other, &message, "six", 4, 60000));
	while (sum.messages < 3)
		hamlyn_manager_wait(manager, 60000);
	SAY(sum.total);
	SAY(strcmp(hamlyn_end_point_data(sum.end_point, 1), "two"));
	SAY(hamlyn_end_point_data(sum.end_point, 3) == NULL);
	SAY(hamlyn_end_point_is_locked(sum.end_point, 1));
	SAY(hamlyn_end_point_is_locked(sum.end_point, 2));
	SAY(hamlyn_manager_ready(manager, tokens, 2) == 1 ? tokens[0] : 0);
	SAY(hamlyn_manager_ready(manager, tokens, 2));
	/* Half a message, and the ticket is revoked. */
	message.word = 1;
	SAY(hamlyn_terminus_send(terminus, &ticket, &message, "half", 5, 60000));
	while (!hamlyn_end_point_is_partial(sum.end_point, 1))
		;
	SAY(hamlyn_end_point_revoke(sum.end_point, 1));
	SAY(hamlyn_end_point_is_partial(sum.end_point, 1));
	hamlyn_end_point_destroy(sum.end_point);
	SAY(sum.messages == 3 && !sum.lost);
	return 0;
}
