// SPDX-License-Identifier: GPL-2.0-only
/* Defines the tracepoints of hamlyn_trace.h. */
#define CREATE_TRACE_POINTS
#include "hamlyn_trace.h"
