// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads on stacks of their own. One runs at a time, until it yields. Contexts are saved by
 * setjmp, which makes no system call; the C library must not check its jumps (_FORTIFY_SOURCE).
 */
#include <setjmp.h>
#include <ucontext.h>

#include "test.h"

struct thread {
	ucontext_t begin;
	bool begun;
	/* Where it has yielded. */
	jmp_buf yielded;
	void (*run)(void *data);
	void *data;
	bool over;
	/* It sleeps until this is true; NULL: it does not. */
	const bool *until;
	u8 stack[64 << 10];
};

void (*interleaved)(void);
struct thread *current;

static struct thread threads[4];
static jmp_buf cards;

static void thread_main(void)
{
	current->run(current->data);
	current->over = true;
	thread_yield();
}

struct thread *thread_start(unsigned int number, void (*run)(void *data), void *data)
{
	struct thread *thread = &threads[number];

	getcontext(&thread->begin);
	thread->begin.uc_stack.ss_sp = thread->stack;
	thread->begin.uc_stack.ss_size = sizeof(thread->stack);
	thread->begin.uc_link = NULL;
	thread->run = run;
	thread->data = data;
	thread->begun = thread->over = false;
	thread->until = NULL;
	makecontext(&thread->begin, thread_main, 0);
	return thread;
}

bool thread_is_over(const struct thread *thread)
{
	return thread->over;
}

bool thread_run(struct thread *thread)
{
	if (thread->over || (thread->until && !*thread->until))
		return false;
	thread->until = NULL;
	current = thread;
	if (!_setjmp(cards)) {
		if (thread->begun)
			_longjmp(thread->yielded, 1);
		thread->begun = true;
		setcontext(&thread->begin);
	}
	current = NULL;
	return true;
}

void thread_yield(void)
{
	if (!_setjmp(current->yielded))
		_longjmp(cards, 1);
}

void thread_sleep(const bool *until)
{
	current->until = until;
	thread_yield();
}

void interleave(void)
{
	if (interleaved)
		interleaved();
}
