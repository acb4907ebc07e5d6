/*
 * runner.c
 *	  What threads that run batches have in common: answers to be sent when the lock is free.
 */
#include "scheduler.h"

#include "../process/log.h"
#include "../process/process.h"
#include "../server/region.h"
#include "../statistics/request_log.h"
#include "turn.h"

#define REFUSED_MAX		16			/* batches of which the device took nothing, in a row */

void
runner_add(struct runner *runner, struct ring ring)
{
	runner->rings[runner->rings_count++] = ring;
}

void
runner_expire(struct engine *engine, struct runner *runner, uint64_t now)
{
	struct batch_request *late;

	while (runner->rings_count < RUNNER_RINGS - BATCH_SLICES_MAX &&
		   (late = batch_expire(&engine->policy, now)) != NULL)
		runner_add(runner, turn_finish((struct request *) late));
	prepare_expire(engine, runner, now);
}

void
runner_send(struct engine *engine, struct runner *runner)
{
	for (uint32_t i = 0; i < runner->rings_count; i++)
		ring_send(&runner->rings[i]);
	runner->rings_count = 0;
	request_log_flush(engine);
	if (__atomic_load_n(&engine->batches_refused, __ATOMIC_RELAXED) < REFUSED_MAX)
		return;
	log_write(LOG_FATAL, "the device failed %d batches one after the other: it is given up", REFUSED_MAX);
	process_exit_device_lost();
}
