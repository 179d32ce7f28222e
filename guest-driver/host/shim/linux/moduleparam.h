/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * A module parameter. Here each system has its own value: it is set before each call of a system,
 * for the calling thread.
 */
#ifndef _HOST_MODULEPARAM_H
#define _HOST_MODULEPARAM_H

#define module_param(name, type, mode)         \
	void host_set_##name(unsigned int value); \
	void host_set_##name(unsigned int value)  \
	{                                         \
		name = value;                     \
	}                                         \
	_Static_assert(1, "takes a semicolon")
#define MODULE_PARM_DESC(name, text) _Static_assert(sizeof(text) > 1, "says what it is for")

#endif /* _HOST_MODULEPARAM_H */
