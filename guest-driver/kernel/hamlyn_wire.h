/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * What operating systems say to each other: struct hamlyn_wire, HAMLYN_WIRE_* and
 * HAMLYN_WELL_KNOWN_*.
 *
 * It is generated into one header with a card's contract. Nothing else of that header is used in
 * this folder.
 */
#ifndef _HAMLYN_WIRE_H
#define _HAMLYN_WIRE_H

#include "hamlyn_kernel.h"

#endif /* _HAMLYN_WIRE_H */
