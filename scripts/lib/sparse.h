/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What headers of Linux 7 use and sparse 0.6.4 does not know. Included before them (build.sh). */
#define __typeof_unqual__ __typeof__
/* Of a constant text, in static_assert(). */
#define __builtin_strlen(text) (sizeof(text) - 1)
