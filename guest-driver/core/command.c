// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commands: the driver fills the command page and writes a register. The card carries out a command
 * completely or not at all.
 */
#include "uln_core.h"
#include "uln_trace.h"

/* Status in the page until the card has answered; no status has this value. */
#define NO_ANSWER 0xffffffff

static const char * const status_names[] = {
	[ULN_STATUS_OK] = "done",
	[ULN_STATUS_BAD_OPCODE] = "no such operation",
	[ULN_STATUS_BAD_INDEX] = "index out of range",
	[ULN_STATUS_IN_USE] = "in use",
	[ULN_STATUS_NOT_OPEN] = "not open",
	[ULN_STATUS_BAD_LENGTH] = "bad length",
	[ULN_STATUS_BAD_ADDRESS] = "bad address",
	[ULN_STATUS_BAD_VALUE] = "bad value",
	[ULN_STATUS_DMA_FAULT] = "host memory out of reach",
	[ULN_STATUS_NO_PAGE] = "command page out of reach",
	[ULN_STATUS_MEMORY_FULL] = "card memory full",
};

/* Runs the command in the page; returns a status, or NO_ANSWER if the card is dead. */
static u32 command_run(struct uln_card *card)
{
	struct uln_command *head = card->page;
	u32 status;

	dma_wmb(); /* The command is visible before the store. */
	writel(1, card->registers + ULN_REG_COMMAND_GO);
	status = le32_to_cpu(READ_ONCE(head->status));
	if (status == NO_ANSWER) {
		/*
		 * A bus may have posted the store: then this read waits for it. Or the card could
		 * not reach the page: then the register has the status. Or the card is dead, and
		 * reads as ones.
		 */
		status = readl(card->registers + ULN_REG_COMMAND_STATUS);
		if (status == ULN_STATUS_OK)
			status = le32_to_cpu(READ_ONCE(head->status));
	}
	dma_rmb(); /* Read the rest of the answer after the status. */
	return status;
}

/* Names the card's own commands, and those that all cards have. */
static const char *command_name(const struct uln_card *card, u32 opcode)
{
	switch (opcode) {
	case ULN_COMMAND_READ_STATISTICS:
		return "read-statistics";
	case ULN_COMMAND_TEST_DMA:
		return "test-dma";
	default:
		return opcode < card->ops->commands_count && card->ops->commands[opcode] ?
			       card->ops->commands[opcode] :
			       "unknown";
	}
}

static int command_refused(struct uln_card *card, u32 opcode, u32 index, u32 status)
{
	const struct uln_command *head = card->page;
	u64 value = le64_to_cpu(head->value), limit = le64_to_cpu(head->limit);
	const char *name =
		status < ARRAY_SIZE(status_names) ? status_names[status] : "unknown status";

	/* Not possible yet: the caller may retry. */
	if (status == ULN_STATUS_IN_USE)
		return -EBUSY;
	switch (status) {
	case ULN_STATUS_MEMORY_FULL:
		dev_dbg_ratelimited(&card->dev, "command %u on object %u: %s (needs %llu, %llu free)\n",
				    opcode, index, name, value, limit);
		return -ENOSPC;
	case ULN_STATUS_BAD_LENGTH:
	case ULN_STATUS_BAD_ADDRESS:
	case ULN_STATUS_BAD_VALUE:
		/* The value comes from a process. */
		dev_dbg_ratelimited(&card->dev,
				    "command %u on object %u: %s (value %llu, limit %llu)\n",
				    opcode, index, name, value, limit);
		return -EINVAL;
	default:
		dev_err_ratelimited(&card->dev,
				    "command %u on object %u: %s (value %llu, limit %llu)\n",
				    opcode, index, name, value, limit);
		return -EIO;
	}
}

/**
 * uln_command() - have the card carry out a command
 * @card: the card; its lock is held
 * @opcode: ULN_COMMAND_*, or one of the card's own
 * @index: object
 * @body: argument, @size bytes
 * @size: size of the argument
 *
 * What the card wrote after the head stays in the page until the next command.
 *
 * Return: 0; -EBUSY if the object is in use, -ENOSPC if the card's memory is full, -EINVAL or -EIO
 * if the card refuses, -ENODEV if it does not answer and has been stopped.
 */
int uln_command(struct uln_card *card, u32 opcode, u32 index, const void *body, size_t size)
{
	struct uln_command *head = card->page;
	u32 status;

	lockdep_assert_held(&card->lock);
	if (WARN_ON_ONCE(size > ULN_COMMAND_PAGE_SIZE - ULN_COMMAND_BODY))
		return -EINVAL;
	memset(card->page, 0, ULN_COMMAND_PAGE_SIZE);
	head->opcode = cpu_to_le32(opcode);
	head->index = cpu_to_le32(index);
	head->status = cpu_to_le32(NO_ANSWER);
	memcpy(card->page + ULN_COMMAND_BODY, body, size);

	status = command_run(card);
	trace_hamlyn_command(card->number, command_name(card, opcode), index, status);
	switch (status) {
	case ULN_STATUS_OK:
		return 0;
	case NO_ANSWER:
	case ULN_STATUS_NO_PAGE:
		dev_err(&card->dev, "command %u on object %u: %s\n", opcode, index,
			status == NO_ANSWER ? "no answer" : status_names[status]);
		uln_card_fail(card);
		return -ENODEV;
	default:
		return command_refused(card, opcode, index, status);
	}
}

/**
 * uln_command_close() - close an object
 * @card: the card; its lock is held
 * @opcode: the close command
 * @index: object
 * @body: argument, @size bytes
 * @size: size of the argument
 *
 * On return, no deposit and no gather that the object allowed is in progress: the card has
 * confirmed it, or its DMA has been switched off.
 */
void uln_command_close(struct uln_card *card, u32 opcode, u32 index, const void *body,
		       size_t size)
{
	if (card->live && uln_command(card, opcode, index, body, size) && card->live) {
		dev_err(&card->dev, "object %u is not closed: the card must not go on\n", index);
		uln_card_fail(card);
	}
}
