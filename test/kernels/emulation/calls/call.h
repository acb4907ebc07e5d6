/*
 * call.h
 *	  What the runtime's functions have in common.
 *
 * Nouns
 *	call		one of the runtime's functions while it runs: holds the lock, may be made to fail
 *	kind		what becomes of a call that is to fail: whether it has an effect all the same
 *	head		CALL_BEGIN, with which a function begins
 *
 * Loop: the head takes the lock, counts the call and says whether it is to fail; then there is its effect; done() has what
 * it returns, and keeps an error as the last one.
 *
 * Invariant: a function that makes a call without that head has an answer even where it is to fail.
 */
#ifndef EMULATION_CALL_H
#define EMULATION_CALL_H

#include "../emulation.h"

typedef std::shared_ptr<emulation_stream> stream_ref;

enum call_kind
{
	CALL_MAKES,						/* something, or has no effect */
	CALL_WORKS,						/* adds work, or has no effect */
	CALL_WAITS,						/* for work, which is done even if the call is to fail once */
	CALL_ENDS						/* something, even if it fails */
};

class emulation_api					/* a call */
{
public:
	emulation_api(const char *name, call_kind kind, int device = -1);
	~emulation_api();
	bool		refused() const { return error != cudaSuccess && (kind != CALL_ENDS && !late); }
	cudaError_t done(cudaError_t result = cudaSuccess);
	cudaError_t wait(const emulation_point *point);	/* until it is reached */
	cudaError_t look(const emulation_point *point);	/* cudaErrorNotReady: not yet */
	void		pause();			/* lets others call */

	const char *name;
	call_kind	kind;
	int			device;				/* the thread's current one unless said otherwise */
	cudaError_t error;				/* that it is to return */
	bool		late;				/* when it has had its effect */
	int			fate;				/* of its work */
};

/* Begins a function with its call; arguments are emulation_api's.  A call that is refused returns from the function. */
#define CALL_BEGIN(...) \
	emulation_api call(__VA_ARGS__); \
	if (call.refused()) \
		return call.done()

/* ---- call.cc ---- */

extern thread_local int device_current;
extern uint64_t launches;			/* kernels that ran */

/* ---- device.cc ---- */

extern size_t shared_optin();		/* bytes of shared memory that a block may have if it asks */

/* CUDA makes a context, and takes memory for it, on the first GPU for a thread that has chosen none. */
extern void context_needed(const char *name);

#endif /* EMULATION_CALL_H */
