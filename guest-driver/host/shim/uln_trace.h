/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Tracepoints have no effect here. */
#ifndef _HOST_TRACE_H
#define _HOST_TRACE_H

static inline void trace_hamlyn_connection(int card, u32 number, u32 host, u32 state, u32 reason)
{
}

#endif /* _HOST_TRACE_H */
