// SPDX-License-Identifier: GPL-2.0-only
/* A user's turn with the card's lock. */
#include "hamlyn_core.h"

/*
 * Takes the card's lock for a user. Its other threads wait at its gate, not ahead of other users.
 * The driver itself has no share, and no gate.
 */
void hamlyn_share_lock(struct hamlyn_card *card, struct hamlyn_share *of)
{
	if (of)
		mutex_lock(&of->gate);
	mutex_lock(&card->lock);
}

void hamlyn_share_unlock(struct hamlyn_card *card, struct hamlyn_share *of)
{
	mutex_unlock(&card->lock);
	if (of)
		mutex_unlock(&of->gate);
}

/* A thread that is killed stops waiting. */
struct hamlyn_turn hamlyn_wait_turn(struct hamlyn_card *card, struct hamlyn_share *of)
{
	struct hamlyn_turn turn = { .card = card, .share = of, .error = -EINTR };

	if (of && mutex_lock_killable(&of->gate))
		return turn;
	turn.error = mutex_lock_killable(&card->lock);
	if (turn.error && of)
		mutex_unlock(&of->gate);
	return turn;
}

/* Fails if the file has lost its objects. */
struct hamlyn_turn hamlyn_enter(struct hamlyn_file *file)
{
	struct hamlyn_turn turn = hamlyn_wait_turn(file->card, file->share);

	if (!turn.error && !hamlyn_file_live(file)) {
		hamlyn_share_unlock(file->card, file->share);
		turn.error = -ENODEV;
	}
	return turn;
}
