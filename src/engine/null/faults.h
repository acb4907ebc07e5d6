/*
 * faults.h
 *	  What goes wrong on the null device, and when.
 *
 * A setting "null:FAULT,FAULT,…" (or "null" for none) names faults.  FAULT is one of
 *
 *	 delay=MS			each run of a program sleeps MS milliseconds, a part of it before each
 *						segment
 *	 KIND=N				the N-th run of the device (the first is 1) has the fault KIND as it begins
 *	 KIND=N+			that one and all after it
 *	 lost=N				always means lost=N+: a device that is gone stays so
 *	 KIND_on=VALUE		a run has the fault KIND if any element of a float32 binding of
 *						its rows equals VALUE: a guilty row
 *	 KIND_load=WIDTH	a program of which a float32 input has WIDTH elements a row has the fault
 *						KIND as it is compiled: a guilty model
 *
 *	 async=N			it computes on a thread of its own, has memory of its own, and N runs in flight at most
 *	 meet=N				asynchronous: the first runs begin when N are in flight, and the device is lost if they are not
 *						within 5 s
 *
 * and KIND one of
 *
 *	 fail				the enqueue is refused with INFER_ERROR_DEVICE; the device goes on
 *	 oom				refused with INFER_ERROR_MEMORY
 *	 lost				refused with INFER_ERROR_DEVICE_LOST, DEVICE_LOST from poll and wait
 *	 crash				the process gets SIGSEGV, with its default action
 *	 hang				the enqueue never returns
 */
#ifndef ENGINE_NULL_FAULTS_H
#define ENGINE_NULL_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "../status.h"

enum fault_kind
{
	FAULT_FAIL,
	FAULT_OOM,
	FAULT_LOST,
	FAULT_CRASH,
	FAULT_HANG,
	FAULT_KINDS
};

struct fault
{
	uint64_t	at;					/* the run that has it; 0: none */
	bool		sticky;				/* and all after it */
	bool		on;					/* rows that hold value have it */
	float		value;
	int64_t		load;				/* programs with an input of so many elements have it; 0: none */
};

struct faults
{
	struct fault of[FAULT_KINDS];
	uint64_t	delay_msec;			/* of each run */
	uint32_t	async;				/* runs in flight; 0: it is not asynchronous */
	uint32_t	meet;				/* the first runs begin when so many are in flight; 0: at once */
};

/* Reads "FAULT,FAULT,…", or NULL; false and a status that names what is unknown. */
extern bool faults_parse(struct faults *faults, const char *text, struct status *status);

/* Has the fault: returns with a status, or not at all. */
extern void fault_happens(enum fault_kind kind, struct status *status);

extern void fault_sleep(uint64_t nsec);

#endif							/* ENGINE_NULL_FAULTS_H */
