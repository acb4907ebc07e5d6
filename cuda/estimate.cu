/*
 * estimate.cu
 *	  How long a run is predicted to take: what its kernels compute and move, at a part of what the GPU can do at most, and a
 *	  few microseconds for each launch and each copy.
 *
 * A prior: whoever schedules corrects it by what was measured.
 */
#include "core.h"

#define LAUNCH_NSEC		2500.0
#define COPY_NSEC		6000.0
#define COPY_BYTES		12e9		/* per second, over PCI Express */
#define SYNC_NSEC		20000.0		/* of a host segment: the GPU is waited for */
#define FLOPS_PART		0.5
#define BYTES_PART		0.7

/* Pairs of tokens that look at each other; see device_batch. */
static double
pairs_of(const cuda_plan *plan, const device_batch *batch)
{
	double		rows = batch->items[DEVICE_LEAD_ROWS];
	double		tokens = batch->items[DEVICE_LEAD_TOKENS];
	double		pairs = batch->pairs > 0 ? (double) batch->pairs : rows > 0 ? tokens * tokens / rows : 0;

	return plan->pairs_token > 0 && pairs > plan->pairs_token * tokens ? plan->pairs_token * tokens : pairs;
}

static double
kernel_nsec(const cuda_gpu *gpu, const cuda_plan *plan, const device_batch *batch)
{
	double		items = batch->items[plan->lead];
	double		rate = gpu->flops[plan->weight != nullptr ? plan->weight->precision : (uint8_t) DEVICE_PRECISION_FULL];
	double		flops = plan->flops_item * items;
	double		computing;
	double		moving = (plan->bytes_item * items + plan->bytes_run) * 1e9 / (gpu->bytes_second * BYTES_PART);

	if (plan->flops_token > 0)
		flops += plan->flops_token * batch->items[DEVICE_LEAD_TOKENS];
	if (plan->flops_pair > 0)
		flops += plan->flops_pair * pairs_of(plan, batch);
	if (plan->type == DEVICE_BF16)
		rate = gpu->flops[DEVICE_PRECISION_BF16];
	computing = flops * 1e9 / (rate * FLOPS_PART);
	return (plan->launches > 0 ? plan->launches : 1) * LAUNCH_NSEC + (computing > moving ? computing : moving);
}

/* What crosses before a host segment and behind it. */
static double
crossing_nsec(const cuda_copy *copies, uint32_t count, const device_batch *batch)
{
	double		nsec = 0;

	for (uint32_t c = 0; c < count; c++)
		nsec += COPY_NSEC + (double) copies[c].bytes * batch->items[copies[c].place.lead] * 1e9 / COPY_BYTES;
	return nsec;
}

/* Of one op of a host segment: the host predicts an op by where one segment ends. */
static double
host_nsec(const device_program *program, uint32_t plan, const device_batch *batch)
{
	const cuda_host *host = &program->hosts[program->host_of[plan] - 1];
	device	   *device = program->device->base.host;
	uint64_t	nsec = 0;
	double		crossing = 0;

	device->ops->segment_end(device, host->program, plan - host->first, batch, 0, &nsec);
	if (plan == host->first)
		crossing = SYNC_NSEC + crossing_nsec(host->down, host->down_count, batch);
	if (plan + 1 == host->last)
		crossing += crossing_nsec(host->up, host->up_count, batch);
	return (double) nsec + crossing;
}

double
cuda_plan_nsec(const device_program *program, uint32_t plan, const device_batch *batch)
{
	return program->plans[plan].launch == nullptr ? host_nsec(program, plan, batch) :
		   kernel_nsec(&program->device->gpus[0], &program->plans[plan], batch);
}

/* Of the caller's bindings, with a run's first segment (first == 0) and with its last. */
static double
bindings_nsec(const device_program *program, bool up, const device_batch *batch)
{
	double		nsec = 0;

	for (uint32_t b = 0; b < program->bindings_count; b++)
	{
		const cuda_binding *binding = &program->bindings[b];

		if (up ? binding->up : binding->down)
			nsec += COPY_NSEC + (double) binding->bytes * batch->items[binding->lead] * 1e9 / COPY_BYTES;
	}
	return nsec;
}

uint64_t
cuda_range_nsec(const device_program *program, uint32_t first, uint32_t last, const device_batch *batch)
{
	double		nsec = 0;

	if (first == 0)
		nsec += COPY_NSEC + bindings_nsec(program, true, batch);
	for (uint32_t p = first; p < last && p < program->plans_count; p++)
		nsec += cuda_plan_nsec(program, p, batch);
	if (last >= program->plans_count)
		nsec += COPY_NSEC + bindings_nsec(program, false, batch);
	return (uint64_t) nsec;
}

uint32_t
cuda_segment_end(device *base, const device_program *program, uint32_t first, const device_batch *batch, uint64_t nsec,
				 uint64_t *predicted)
{
	double		sum = first == 0 ? COPY_NSEC + bindings_nsec(program, true, batch) : 0;
	uint32_t	p;

	for (p = first; p < program->plans_count; p++)
	{
		double		next = cuda_plan_nsec(program, p, batch);

		if (p > first && sum + next > (double) nsec)
			break;
		sum += next;
	}
	if (p == program->plans_count)
		sum += COPY_NSEC + bindings_nsec(program, false, batch);
	*predicted = (uint64_t) sum;
	return p < program->plans_count ? p : UINT32_MAX;
}

uint64_t
cuda_estimate_nsec(device *base, const device_program *program, const device_batch *batch)
{
	return cuda_range_nsec(program, 0, program->plans_count, batch);
}
