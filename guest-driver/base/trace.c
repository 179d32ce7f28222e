// SPDX-License-Identifier: GPL-2.0-only
/* Defines the tracepoints of uln_trace.h. */
#define CREATE_TRACE_POINTS
#include "uln_trace.h"
