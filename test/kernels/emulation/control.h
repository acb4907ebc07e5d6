/*
 * control.h
 *	  What tests ask of the emulation of CUDA, through the library that has it: dlsym(…, EMULATION_CONTROL) is a const struct
 *	  emulation_control *.  Plain C.
 *
 * The environment says the rest, once, when the library is first used:
 *	INFER_EMULATED_GPUS			how many there are (1)
 *	INFER_EMULATED_SM			their architecture (80)
 *	INFER_EMULATED_BUILT		the architecture that kernels are built for (theirs); if it is less, the driver translates them
 *	INFER_EMULATED_PROCESSORS	streaming multiprocessors of each (4: few, so that grids go round)
 *	INFER_EMULATED_MEMORY		bytes of each (1 GiB)
 *	INFER_EMULATED_DRIVER		version of the driver; 0: there is none
 *	INFER_EMULATED_SEED			of the orders; chosen at random, and told in reports, where it is not set
 *	INFER_EMULATED_PROTECT		2: the host never reaches device memory; 1: it does not but for a while, since to keep it out is
 *								slow; 0: it does
 *	INFER_EMULATED_RACES		1: each launch is made twice in different orders and must write the same
 *	INFER_EMULATED_LEAKS		0: what is left when the process ends is not reported
 *	INFER_EMULATED_FAIL			CALL:ERROR[:HOW]: as fail() below, the first call being 1 and HOW a number
 */
#ifndef EMULATION_CONTROL_H
#define EMULATION_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMULATION_CONTROL	"infer_emulation"

enum emulation_failure
{
	EMULATION_FAILS_ONCE = 0,		/* the call returns the error; the next one is fine */
	EMULATION_FAILS_FOR_GOOD = 1,	/* and so does every later one: work that was not done is lost */
	EMULATION_FAILS_LATER = 2,		/* the call is fine; when its work's turn comes that fails, for good */
	EMULATION_HANGS = 3				/* the call is fine; its work never ends */
};

struct emulation_control
{
	uint64_t	(*seed) (void);
	void		(*set_seed) (uint64_t seed);

	/* Calls of the runtime so far that can fail, of all threads. */
	uint64_t	(*calls) (void);

	/* The call-th from now on (1: the next) is to fail; 0: none.  error: a cudaError_t. */
	void		(*fail) (uint64_t call, int error, int how);

	/* The call that failed because of it; NULL: it did not come to that. */
	const char *(*failed) (void);

	/* What the code under test did wrong does not end the process but is kept, and is the launch's failure. */
	void		(*collect) (bool collect);
	const char *(*report) (void);	/* the first since it was last asked; NULL: none */

	/* Allocations, streams, events and graphs that there are, described in text; their number. */
	uint32_t	(*leaks) (char *text, size_t bytes);

	uint64_t	(*launches) (void);	/* kernels that ran */

	/* As in a new process: failures are forgotten, and all that there is. */
	void		(*reset) (void);
};

#endif /* EMULATION_CONTROL_H */
