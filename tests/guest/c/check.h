/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counts calls and prints each whose result is not the expected one, for the c-*check programs. */
#ifndef CHECK_H
#define CHECK_H

#include <hamlyn.h>

#include <stdio.h>

#define PATIENCE_MS 60000

static unsigned int checked, wrong;

static void check(const char *what, long long due, long long given)
{
	checked++;
	if (due == given)
		return;
	wrong++;
	printf("{\"wrong\":\"%s\",\"due\":%lld,\"given\":%lld,\"error\":\"%s\"}\n", what, due, given, uln_error());
	fflush(stdout);
}

#define CHECK(due, call) check(#call, (due), (call))

#endif
