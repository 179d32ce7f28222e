/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Shared by the examples of all cards: exit on failed calls, and a test pattern. */
#ifndef COMMON_H
#define COMMON_H

#define _DEFAULT_SOURCE

#include <hamlyn.h>

#include <stdio.h>
#include <stdlib.h>

static inline void fail(const char *why)
{
	printf("{\"error\":\"%s\"}\n", why);
	exit(1);
}

/* Exits if a call has failed. */
static inline int must(int outcome)
{
	if (outcome < 0)
		fail(uln_error());
	return outcome;
}

/* Returns a byte of the test pattern, which the peer can check: SplitMix64, 8 bytes per word. */
static inline unsigned char pattern(uint64_t seed, size_t at)
{
	uint64_t word = seed + (at / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return (unsigned char)((word ^ word >> 31) >> at % 8 * 8);
}

static inline void fill(uint64_t seed, unsigned char *bytes, size_t length)
{
	for (size_t at = 0; at < length; at++)
		bytes[at] = pattern(seed, at);
}

static inline void verify(uint64_t seed, const unsigned char *bytes, size_t length)
{
	for (size_t at = 0; at < length; at++) {
		if (bytes[at] != pattern(seed, at)) {
			printf("{\"error\":\"byte %zu of %zu of item %llu is wrong\"}\n", at, length,
			       (unsigned long long)seed);
			exit(1);
		}
	}
}

#endif
