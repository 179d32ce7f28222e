/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Messages between operating systems: struct hamlyn_wire, HAMLYN_WIRE_* and HAMLYN_WELL_KNOWN_*.
 *
 * They are generated into one header with a card's contract. This folder uses nothing else of that
 * header.
 */
#ifndef _HAMLYN_WIRE_H
#define _HAMLYN_WIRE_H

#include "hamlyn_kernel.h"

#endif /* _HAMLYN_WIRE_H */
