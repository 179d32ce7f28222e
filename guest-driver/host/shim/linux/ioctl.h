/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* Nobody calls by numbers here: what the contract's codes are made of is not needed. */
