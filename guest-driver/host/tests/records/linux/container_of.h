/* SPDX-License-Identifier: GPL-2.0-only */
/* linux/types.h has it. */
#include <linux/types.h>
