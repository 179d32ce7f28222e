/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counts the user-space instructions of a program between marks in its code, by single-stepping.
 * Instructions in the kernel are not counted.
 *
 *   c-count PROGRAM [ARGUMENT...]
 *
 * A mark is a breakpoint followed by a no-op instruction. The no-op's displacement is 0x4d410000 +
 * NUMBER before the code and 0x4d410100 + NUMBER after it (hamlyn_sys::shrimp::marks,
 * c-primitives.c). At the end the program prints the smallest count for each number. A string
 * instruction counts as one, however often the processor repeats it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBERS 16

static pid_t program;
static long fewest[NUMBERS];

static void fail(const char *what)
{
	printf("{\"error\":\"%s: %s\"}\n", what, strerror(errno));
	if (program > 0)
		kill(program, SIGKILL);
	exit(1);
}

/* Resumes the program, and waits until it stops. Returns the signal, or -1 if it has exited. */
static int go(int request, int with)
{
	int status;

	if (ptrace(request, program, NULL, (void *)(intptr_t)with) || waitpid(program, &status, 0) != program)
		fail("the program cannot be traced");
	if (WIFSTOPPED(status))
		return WSTOPSIG(status);
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		errno = ECHILD;
		fail("the program has failed");
	}
	return -1;
}

static unsigned long place(void)
{
	struct user_regs_struct registers;

	if (ptrace(PTRACE_GETREGS, program, NULL, &registers))
		fail("no registers");
	return registers.rip;
}

/* Returns the displacement of the mark whose breakpoint is at `at`; 0 if there is no mark. */
static unsigned int mark(unsigned long at)
{
	uint64_t code;

	/* int3; nopl DISPLACEMENT(%rax) */
	errno = 0;
	code = (uint64_t)ptrace(PTRACE_PEEKTEXT, program, (void *)at, NULL);
	if (errno)
		fail("no code");
	return (code & 0xffffffff) == 0x801f0fcc && (code >> 48) == 0x4d41 ? (unsigned int)(code >> 32) : 0;
}

/* Steps from after a breakpoint to the next one, and keeps the count if it is the smallest. */
static int step(unsigned int number)
{
	unsigned long at = place(), last = at;
	/* The no-op of the mark is not counted. */
	long count = -1;
	int stopped = SIGTRAP;

	while (stopped == SIGTRAP && !mark(at)) {
		stopped = go(PTRACE_SINGLESTEP, 0);
		if (stopped < 0)
			return stopped;
		last = at;
		at = place();
		count += at != last;
	}
	if (stopped == SIGTRAP && mark(at) == 0x4d410100 + number && (!fewest[number] || count < fewest[number]))
		fewest[number] = count;
	return stopped == SIGTRAP ? 0 : stopped;
}

static void trace(void)
{
	int with = 0, stopped;
	unsigned int found;

	while ((stopped = go(PTRACE_CONT, with)) >= 0) {
		with = stopped == SIGTRAP ? 0 : stopped;
		found = stopped == SIGTRAP ? mark(place() - 1) : 0;
		if (found >= 0x4d410000 && found < 0x4d410000 + NUMBERS) {
			with = step(found - 0x4d410000);
			if (with < 0)
				return;
		}
	}
}

int main(int argc, char **argv)
{
	int status, number, said = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: %s PROGRAM [ARGUMENT...]\n", argv[0]);
		return 2;
	}
	program = fork();
	if (program < 0)
		fail("fork");
	if (!program) {
		if (!ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (waitpid(program, &status, 0) != program || !WIFSTOPPED(status)) {
		errno = ENOEXEC;
		fail(argv[1]);
	}
	if (ptrace(PTRACE_SETOPTIONS, program, NULL, (void *)(intptr_t)PTRACE_O_EXITKILL))
		fail("the program cannot be traced");
	trace();
	printf("{\"instructions\":{");
	for (number = 0; number < NUMBERS; number++) {
		if (fewest[number])
			printf("%s\"%d\":%ld", said++ ? "," : "", number, fewest[number]);
	}
	printf("}}\n");
	return 0;
}
