/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Nobody measures what is guessed here. */
#ifndef _HOST_NOSPEC_H
#define _HOST_NOSPEC_H

#define array_index_nospec(index, size) (index)

#endif /* _HOST_NOSPEC_H */
