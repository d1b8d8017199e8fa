/* SPDX-License-Identifier: Apache-2.0 */
/*
 * no_memory.c - a server whose engine, which is C++, gets no memory
 *
 * Stands before libstdc++ by LD_PRELOAD.  The descriptor NO_MEMORY_FD is of a number
 * that whoever started the server has mapped, too: so many allocations from now one
 * fails as it does in earnest, by an exception.  0: none does.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* operator new, operator new[], and what throws std::bad_alloc. */
void *_Znwm(size_t size);
void *_Znam(size_t size);
void _ZSt17__throw_bad_allocv(void) __attribute__((noreturn));

static _Atomic long *left;

__attribute__((constructor)) static void begin(void)
{
	const char *fd = getenv("NO_MEMORY_FD");
	void *mem;

	if (!fd)
		return;
	mem = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE, MAP_SHARED,
		   atoi(fd), 0);
	if (mem == MAP_FAILED)
		abort();
	left = mem;
}

static int fails(void)
{
	return left && atomic_load(left) > 0 && atomic_fetch_sub(left, 1) == 1;
}

void *_Znwm(size_t size)
{
	void *mem = fails() ? NULL : malloc(size ? size : 1);

	if (!mem)
		_ZSt17__throw_bad_allocv();
	return mem;
}

void *_Znam(size_t size)
{
	return _Znwm(size);
}
