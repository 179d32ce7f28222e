/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Messages between operating systems: struct uln_wire, ULN_WIRE_* and ULN_WELL_KNOWN_*.
 *
 * They are generated into one header with a card's contract. This folder uses nothing else of that
 * header.
 */
#ifndef _ULN_WIRE_H
#define _ULN_WIRE_H

#include "uln_kernel.h"

#endif /* _ULN_WIRE_H */
