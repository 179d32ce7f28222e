/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Waits in the kernel in state D, for tests: the parent of vfork() waits for its child's end. */
#define _DEFAULT_SOURCE
#include <unistd.h>

int main(void)
{
	if (vfork() == 0) {
		pause();
		_exit(0);
	}
	return 0;
}
