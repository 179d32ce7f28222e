// SPDX-License-Identifier: GPL-2.0-only
/* Runs seeds: PROPERTY FIRST COUNT. It ends with a failure at the first seed that fails. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

static unsigned long long seed;
static u64 state;

void fail(const char *what, ...)
{
	va_list list;

	fprintf(stderr, "seed %llu: ", seed);
	va_start(list, what);
	vfprintf(stderr, what, list);
	va_end(list);
	fputc('\n', stderr);
	_exit(1);
}

static void died(int number)
{
	fail("signal %d", number);
}

/* SplitMix64. */
void random_begin(u64 from)
{
	state = from * 0x9e3779b97f4a7c15;
	/* The first numbers of consecutive seeds would be similar. */
	random_word();
	state ^= (u64)random_word() << 32;
}

u32 random_word(void)
{
	u64 word = state += 0x9e3779b97f4a7c15;

	word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
	word = (word ^ word >> 27) * 0x94d049bb133111eb;
	return word >> 32;
}

u32 below(u32 count)
{
	return (u64)random_word() * count >> 32;
}

bool once_in(u32 count)
{
	return !below(count);
}

static void catch_signals(void)
{
	static u8 stack[64 << 10];
	const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE };
	const stack_t own = { .ss_sp = stack, .ss_size = sizeof(stack) };
	const struct sigaction action = { .sa_handler = died, .sa_flags = SA_ONSTACK };
	unsigned int i;

	sigaltstack(&own, NULL);
	for (i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
}

int main(int count, char **argument)
{
	unsigned long long end;
	void (*property)(void);

	if (count != 4)
		return 2;
	property = strcmp(argument[1], "hostile") ? honest : hostile;
	catch_signals();
	seed = strtoull(argument[2], NULL, 10);
	for (end = seed + strtoull(argument[3], NULL, 10); seed != end; seed++) {
		random_begin(seed);
		failures = once_in(16) ? 4 : 0;
		property();
		check(!pieces, "%d pieces of memory were not freed", pieces);
	}
	return 0;
}
