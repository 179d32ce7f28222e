// SPDX-License-Identifier: GPL-2.0-only
/* A user's turn with the card's lock. */
#include "uln_core.h"

/*
 * Takes the card's lock for a user. Its other threads wait at its gate, not ahead of other users.
 * The driver itself has no share, and no gate.
 */
void uln_share_lock(struct uln_card *card, struct uln_share *of)
{
	if (of)
		mutex_lock(&of->gate);
	mutex_lock(&card->lock);
}

void uln_share_unlock(struct uln_card *card, struct uln_share *of)
{
	mutex_unlock(&card->lock);
	if (of)
		mutex_unlock(&of->gate);
}

/* A thread that is killed stops waiting. */
struct uln_turn uln_wait_turn(struct uln_card *card, struct uln_share *of)
{
	struct uln_turn turn = { .card = card, .share = of, .error = -EINTR };

	if (of && mutex_lock_killable(&of->gate))
		return turn;
	turn.error = mutex_lock_killable(&card->lock);
	if (turn.error && of)
		mutex_unlock(&of->gate);
	return turn;
}

/* Fails if the file has lost its objects. */
struct uln_turn uln_enter(struct uln_file *file)
{
	struct uln_turn turn = uln_wait_turn(file->card, file->share);

	if (!turn.error && !uln_file_live(file)) {
		uln_share_unlock(file->card, file->share);
		turn.error = -ENODEV;
	}
	return turn;
}
