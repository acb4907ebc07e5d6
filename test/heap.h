/*
 * heap.h
 *	  Counts what this program, the engine in it included, asks of the heap, by standing in
 *	  front of the C library's allocator.  For one source file of a program.
 *
 * A sanitizer stands in the same place, so under one nothing is counted: HEAP_COUNTED.
 */
#ifndef TEST_HEAP_H
#define TEST_HEAP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static uint64_t heap_asked;			/* atomic: how often */

static inline uint64_t
heap_allocations(void)
{
	return __atomic_load_n(&heap_asked, __ATOMIC_RELAXED);
}

#ifdef __has_feature				/* clang's way to say so, in versions without gcc's macros */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEAP_SANITIZED
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(HEAP_SANITIZED)
#define HEAP_COUNTED false
#else
#define HEAP_COUNTED true

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static inline void
heap_count(void)
{
	__atomic_fetch_add(&heap_asked, 1, __ATOMIC_RELAXED);
}

void *
malloc(size_t bytes)
{
	heap_count();
	return __libc_malloc(bytes);
}

void *
calloc(size_t count, size_t bytes)
{
	heap_count();
	return __libc_calloc(count, bytes);
}

void *
realloc(void *memory, size_t bytes)
{
	heap_count();
	return __libc_realloc(memory, bytes);
}

void *
aligned_alloc(size_t alignment, size_t bytes)
{
	heap_count();
	return __libc_memalign(alignment, bytes);
}

int
posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	heap_count();
	*memory = __libc_memalign(alignment, bytes);
	return *memory == NULL ? ENOMEM : 0;
}
#endif

#endif							/* TEST_HEAP_H */
