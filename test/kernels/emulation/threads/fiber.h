/*
 * fiber.h
 *	  Stacks on which the threads of a block run, one of them at a time.
 *
 * Nouns
 *	fiber		a stack with the registers that are to be loaded when it goes on; idle until somebody takes it
 *	host		the stack that launches a kernel, and that is gone back to
 *
 * Invariant: an idle fiber has nothing on its stack that anybody goes back to.
 */
#ifndef EMULATION_FIBER_H
#define EMULATION_FIBER_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct fiber
{
#if defined(__x86_64__)
	void	   *sp;
#else
	ucontext_t	context;
#endif
	uint8_t    *stack;				/* the lowest address; NULL: the host's own */
	size_t		bytes;
	fiber	   *next;				/* among the idle */
};

extern fiber fiber_host;
extern fiber *fiber_current;		/* NULL: no kernel runs */

/* What a fiber does: thread.cc has it.  It ends by a switch that it does not come back from. */
extern void fiber_main();

/* An idle fiber, or a new one, that will begin in fiber_main(). */
extern fiber *fiber_get();

/* It is idle from now on. */
extern void fiber_put(fiber *f);

/* from_ends: its frames will never be gone back to. */
extern void fiber_switch(fiber *to, bool from_ends);

#endif /* EMULATION_FIBER_H */
