/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* No protection against speculative execution is needed here. */
#ifndef _HOST_NOSPEC_H
#define _HOST_NOSPEC_H

#define array_index_nospec(index, size) (index)

#endif /* _HOST_NOSPEC_H */
