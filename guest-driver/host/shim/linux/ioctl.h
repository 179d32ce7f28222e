/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* No ioctls here, so the macros that make the contract's codes are not needed. */
