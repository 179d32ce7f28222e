// SPDX-License-Identifier: GPL-2.0-only
/* Arguments of ioctls, which may have another size in a program. */
#include <linux/uaccess.h>

#include "uln_core.h"

/**
 * uln_argument_get() - copy the argument of an ioctl from its caller
 * @argument: gets the argument
 * @own: code of the call, with the size of @argument
 * @user: structure of the caller
 * @code: code that the caller used, with the size of its structure
 *
 * A program may be older or newer than the driver. Missing members of a shorter structure are zero.
 *
 * Return: 0; -E2BIG if the caller's structure is longer and the rest is not zero; -EFAULT.
 */
int uln_argument_get(void *argument, unsigned int own, const void __user *user,
		     unsigned int code)
{
	return copy_struct_from_user(argument, _IOC_SIZE(own), user, _IOC_SIZE(code));
}

/**
 * uln_argument_put() - copy the answer of an ioctl to its caller
 * @user: structure of the caller
 * @code: code that the caller used, with the size of its structure
 * @argument: the answer
 * @own: code of the call, with the size of @argument
 *
 * Return: 0 or -EFAULT.
 */
int uln_argument_put(void __user *user, unsigned int code, const void *argument,
		     unsigned int own)
{
	size_t size = min(_IOC_SIZE(code), _IOC_SIZE(own));

	return copy_to_user(user, argument, size) ? -EFAULT : 0;
}
