/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
#ifndef _HOST_TYPES_H
#define _HOST_TYPES_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __le16;
typedef u32 __le32;
typedef u64 __le64;
typedef unsigned int gfp_t;

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(part, type, member) ((type *)((char *)(part) - offsetof(type, member)))

#define READ_ONCE(value) (*(const volatile typeof(value) *)&(value))
#define WRITE_ONCE(value, now) (*(volatile typeof(value) *)&(value) = (now))
#define xchg(place, now) __atomic_exchange_n(place, now, __ATOMIC_SEQ_CST)

#define max(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a > _b ? _a : _b; })
#define clamp(value, low, high) \
	({ typeof(value) _v = (value); _v < (low) ? (low) : _v > (high) ? (high) : _v; })
#define lower_32_bits(value) ((u32)(value))
#define upper_32_bits(value) ((u32)((u64)(value) >> 32))

/* In a kernel: a section for data that is rarely written. Here: thread-local (moduleparam.h). */
#define __read_mostly _Thread_local

#endif /* _HOST_TYPES_H */
