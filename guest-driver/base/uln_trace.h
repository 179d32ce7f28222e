/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints: /sys/kernel/tracing/events/hamlyn. Commands open and close objects, so their events
 * show both.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hamlyn

#if !defined(_ULN_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _ULN_TRACE_H

#include <linux/tracepoint.h>

#include "uln_uapi.h"

/* Size of the longest command name, with its terminating NUL. */
#define ULN_TRACE_NAME 24

TRACE_EVENT(hamlyn_command,
	TP_PROTO(int card, const char *command, u32 index, u32 status),
	TP_ARGS(card, command, index, status),
	TP_STRUCT__entry(
		__field(int, card)
		__array(char, command, ULN_TRACE_NAME)
		__field(u32, index)
		__field(u32, status)
	),
	TP_fast_assign(
		__entry->card = card;
		strscpy(__entry->command, command, ULN_TRACE_NAME);
		__entry->index = index;
		__entry->status = status;
	),
	TP_printk("card=%d command=%s object=%u status=%u", __entry->card,
		  __entry->command, __entry->index, __entry->status)
);

TRACE_EVENT(hamlyn_interrupt,
	TP_PROTO(int card, u32 vector),
	TP_ARGS(card, vector),
	TP_STRUCT__entry(
		__field(int, card)
		__field(u32, vector)
	),
	TP_fast_assign(
		__entry->card = card;
		__entry->vector = vector;
	),
	TP_printk("card=%d vector=%u", __entry->card, __entry->vector)
);

TRACE_EVENT(hamlyn_link,
	TP_PROTO(int card, bool up, u32 host),
	TP_ARGS(card, up, host),
	TP_STRUCT__entry(
		__field(int, card)
		__field(bool, up)
		__field(u32, host)
	),
	TP_fast_assign(
		__entry->card = card;
		__entry->up = up;
		__entry->host = host;
	),
	TP_printk("card=%d link=%s host=%d", __entry->card, __entry->up ? "up" : "down",
		  (s32)__entry->host)
);

TRACE_EVENT(hamlyn_connection,
	TP_PROTO(int card, u32 number, u32 host, u32 state, u32 reason),
	TP_ARGS(card, number, host, state, reason),
	TP_STRUCT__entry(
		__field(int, card)
		__field(u32, number)
		__field(u32, host)
		__field(u32, state)
		__field(u32, reason)
	),
	TP_fast_assign(
		__entry->card = card;
		__entry->number = number;
		__entry->host = host;
		__entry->state = state;
		__entry->reason = reason;
	),
	TP_printk("card=%d connection=%u host=%u state=%s reason=%u", __entry->card,
		  __entry->number, __entry->host,
		  __print_symbolic(__entry->state,
			{ ULN_CONNECTION_CONNECTING, "connecting" },
			{ ULN_CONNECTION_REQUESTED, "requested" },
			{ ULN_CONNECTION_ESTABLISHED, "established" },
			{ ULN_CONNECTION_ENDED, "ended" }),
		  __entry->reason)
);

#endif /* _ULN_TRACE_H */

/* Outside the include guard: tracing reads this file several times. */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE uln_trace
#include <trace/define_trace.h>
