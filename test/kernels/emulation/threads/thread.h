/*
 * thread.h
 *	  The threads of the block that runs.
 *
 * Nouns
 *	thread		one of the block's; fresh until it is begun, then running, waiting, ready or gone
 *	party		the threads that wait for each other: the block at a barrier, the lanes of a mask in a warp
 *
 * Invariant: a thread that waits is in a party, or ready.
 */
#ifndef EMULATION_THREAD_H
#define EMULATION_THREAD_H

#include "../emulation.h"
#include "fiber.h"

#define WARP			32
#define WARPS_MAX		(EMULATION_THREADS_MAX / WARP)
#define SHARED_TYPES	16

enum waiting
{
	WAITS_NOT,
	WAITS_BLOCK,
	WAITS_WARP
};

struct thread
{
	fiber	   *stack;				/* while it waits */
	enum waiting waits;
	bool		gone;
	emulation_place place;			/* where it waits */
	unsigned	mask;				/* of whom */
	int			kind;				/* what a lane gives and gets: -1 nothing, -2 a vote, else enum emulation_shuffle_kind */
	int			by;
	int			width;
	uint64_t	value;
};

struct shared
{
	const void *type;
	size_t		offset;
};

struct thread_block
{
	const emulation_kernel *kernel;
	unsigned	count;				/* threads */
	unsigned	begun;
	unsigned	ended;
	unsigned	first;				/* threads are begun at (first + i · step) mod count */
	unsigned	step;
	unsigned	current;
	unsigned	ready_count;
	unsigned	ready[EMULATION_THREADS_MAX];
	thread		threads[EMULATION_THREADS_MAX];
	uint3		index[EMULATION_THREADS_MAX];

	unsigned	arrived;			/* at the barrier */
	int			votes;
	int			result;
	unsigned	lanes[WARPS_MAX];	/* that wait in their warp */

	bool		failed;
	unsigned	shared_count;
	size_t		shared_bytes;
	shared		types[SHARED_TYPES];
};

extern thread_block block;			/* the one that runs */

/* The current thread waits; returns when it may go on.  Nobody does in a block that has failed. */
extern void thread_wait();

/* A thread that waits may go on. */
extern void thread_ready(unsigned t);

#endif /* EMULATION_THREAD_H */
