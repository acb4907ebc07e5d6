/*
 * host.cu
 *	  Ops without a kernel: runs of them become programs of the host.
 *
 * A host segment reads and writes the caller's bindings where they are.  Each place of the arena that it reads or writes
 * has a mirror in host memory, one for all segments: so that texts go from one to the next without ever leaving the host.
 * Tensors that follow one another in one place of the arena do so in its mirror.
 *
 * Who has written a tensor last is told by its place, since views give one place several shapes.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

static bool
same_place(const cuda_place *a, const cuda_place *b)
{
	if (a->kind != b->kind)
		return false;
	return a->kind == CUDA_BINDING ? a->binding == b->binding : a->lead == b->lead && a->offset == b->offset;
}

/* The op before `before` that wrote what is there; -1: none, it is an input. */
static int64_t
writer_of(const device_program *program, const cuda_place *place, uint32_t before)
{
	for (int64_t o = (int64_t) before - 1; o >= 0; o--)
		if (same_place(&program->plans[o].output, place))
			return o;
	return -1;
}

static bool
on_gpu(const device_program *program, int64_t op)
{
	return op >= 0 && program->plans[op].launch != nullptr;
}

static void
copy_add(cuda_copy *copies, uint32_t *count, const cuda_place *place)
{
	uint64_t	bytes = cuda_place_bytes(place);

	for (uint32_t c = 0; c < *count; c++)
		if (same_place(&copies[c].place, place))
		{
			if (bytes > copies[c].bytes)
				copies[c].bytes = bytes;
			return;
		}
	copies[(*count)++] = {*place, *place, bytes};
}

/* Whether a plan of the GPU reads what op writes, before another op writes there. */
static bool
read_on_gpu(const device_program *program, uint32_t op)
{
	const cuda_place *place = &program->plans[op].output;

	for (uint32_t o = op + 1; o < program->plans_count; o++)
	{
		const cuda_plan *plan = &program->plans[o];

		for (uint32_t i = 0; plan->launch != nullptr && i < plan->inputs_count; i++)
			if (same_place(&plan->inputs[i], place))
				return true;
		if (same_place(&plan->output, place))
			return false;
	}
	return false;
}

static void
find_copies(const device_program *program, cuda_host *host)
{
	for (uint32_t o = host->first; o < host->last; o++)
	{
		const cuda_plan *plan = &program->plans[o];

		for (uint32_t i = 0; i < plan->inputs_count; i++)
		{
			const cuda_place *place = &plan->inputs[i];

			if ((place->kind == CUDA_BINDING || place->kind == CUDA_ARENA) &&
				on_gpu(program, writer_of(program, place, o)))
				copy_add(host->down, &host->down_count, place);
		}
		if (read_on_gpu(program, o))
			copy_add(host->up, &host->up_count, &plan->output);
	}
}

/* ---- mirrors ---- */

/* The place in host memory of one of the arena. */
static cuda_place
mirror_of(const device_program *program, const cuda_place *place)
{
	cuda_place	mirror = *place;

	for (uint32_t m = 0; place->kind == CUDA_ARENA && m < program->mirrors_count; m++)
		if (program->mirrors[m].place == place->offset && program->mirrors[m].lead == place->lead)
			mirror.offset = program->mirrors[m].offset;
	return mirror;
}

static void
mirror_add(device_program *program, const cuda_place *place)
{
	uint64_t	bytes = CUDA_ALIGN(cuda_place_bytes(place));
	uint32_t	m = 0;

	if (place->kind != CUDA_ARENA)
		return;
	while (m < program->mirrors_count && (program->mirrors[m].place != place->offset || program->mirrors[m].lead != place->lead))
		m++;
	if (m == program->mirrors_count)
		program->mirrors[program->mirrors_count++] = {place->offset, 0, 0, place->lead};
	if (bytes > program->mirrors[m].bytes)
		program->mirrors[m].bytes = bytes;
}

/* Places of all tensors of host segments, one behind the other. */
static void
place_mirrors(device_program *program)
{
	for (uint32_t o = 0; o < program->plans_count; o++)
		for (uint32_t i = 0; program->host_of[o] != 0 && i <= program->plans[o].inputs_count; i++)
			mirror_add(program, i < program->plans[o].inputs_count ? &program->plans[o].inputs[i] : &program->plans[o].output);
	for (uint32_t m = 0; m < program->mirrors_count; m++)
	{
		cuda_mirror *mirror = &program->mirrors[m];

		mirror->offset = program->mirror_item[mirror->lead];
		program->mirror_item[mirror->lead] += mirror->bytes;
	}
}

/* ---- compiling ---- */

/* The host's tensors: those of the arena become bindings, each behind the graph's own. */
static bool
compile_host(device_program *program, cuda_host *host, const device_graph *graph, device_tensor *tensors, status *status)
{
	device_graph part = {};
	device	   *device = program->device->base.host;

	memcpy(tensors, graph->tensors, graph->tensors_count * sizeof(*tensors));
	for (uint32_t o = host->first; o < host->last; o++)
		for (uint32_t i = 0; i <= graph->ops[o].inputs_count; i++)
		{
			int32_t		t = i < graph->ops[o].inputs_count ? graph->ops[o].inputs[i] : graph->ops[o].output;
			cuda_place	place;

			if (t < 0 || tensors[t].constant != nullptr || tensors[t].binding >= 0)
				continue;
			place = cuda_place_of(&tensors[t]);
			host->mirrors[host->mirrors_count] = mirror_of(program, &place);
			tensors[t].binding = (int32_t) (graph->bindings_count + host->mirrors_count++);
		}
	for (uint32_t c = 0; c < host->down_count; c++)
		host->down[c].host = mirror_of(program, &host->down[c].place);
	for (uint32_t c = 0; c < host->up_count; c++)
		host->up[c].host = mirror_of(program, &host->up[c].place);
	part.tensors_count = graph->tensors_count;
	part.ops_count = host->last - host->first;
	part.bindings_count = graph->bindings_count + host->mirrors_count;
	part.tensors = tensors;
	part.ops = graph->ops + host->first;
	if (part.bindings_count > program->bindings_most)
		program->bindings_most = part.bindings_count;
	host->program = device->ops->compile(device, &part, status);
	if (host->program == nullptr)
		return status_set(status, INFER_ERROR_DEVICE, "the host did not compile a part of the program");
	program->bytes += device->ops->program_bytes(host->program);
	return true;
}

static bool
host_arrays(device_program *program, cuda_host *host, size_t *places)
{
	size_t		tensors = 1;

	for (uint32_t o = host->first; o < host->last; o++)
		tensors += program->plans[o].inputs_count + 1;
	*places += tensors;
	host->down = (cuda_copy *) calloc(tensors, sizeof(*host->down));
	host->up = (cuda_copy *) calloc(tensors, sizeof(*host->up));
	host->mirrors = (cuda_place *) calloc(tensors, sizeof(*host->mirrors));
	program->bytes += tensors * (2 * sizeof(*host->down) + sizeof(*host->mirrors));
	return host->down != nullptr && host->up != nullptr && host->mirrors != nullptr;
}

/* Maximal runs of ops without a kernel. */
static void
find_hosts(device_program *program)
{
	for (uint32_t o = 0; o < program->plans_count; o++)
	{
		if (program->plans[o].launch != nullptr)
			continue;
		if (o == 0 || program->plans[o - 1].launch != nullptr)
			program->hosts[program->hosts_count++].first = o;
		program->hosts[program->hosts_count - 1].last = o + 1;
		program->host_of[o] = program->hosts_count;
	}
}

bool
cuda_hosts_compile(device_program *program, const device_graph *graph, status *status)
{
	device_tensor *tensors = (device_tensor *) calloc((size_t) graph->tensors_count + 1, sizeof(*tensors));
	size_t		places = 0;
	bool		good;

	program->hosts = (cuda_host *) calloc((size_t) program->plans_count / 2 + 1, sizeof(*program->hosts));
	good = tensors != nullptr && program->hosts != nullptr;
	if (good)
		find_hosts(program);
	program->bytes += program->hosts_count * sizeof(*program->hosts);
	for (uint32_t h = 0; good && h < program->hosts_count; h++)
		good = host_arrays(program, &program->hosts[h], &places);
	if (good && program->hosts_count > 0)
	{
		program->mirrors = (cuda_mirror *) calloc(places, sizeof(*program->mirrors));
		program->bytes += places * sizeof(*program->mirrors);
		good = program->mirrors != nullptr;
	}
	if (good && program->hosts_count > 0)
		place_mirrors(program);
	if (!good)
		status_set(status, INFER_ERROR_MEMORY, "out of memory for the parts of a program that the host computes");
	for (uint32_t h = 0; good && h < program->hosts_count; h++)
	{
		find_copies(program, &program->hosts[h]);
		good = compile_host(program, &program->hosts[h], graph, tensors, status);
	}
	free(tensors);
	return good;
}

void
cuda_hosts_free(device_program *program)
{
	device	   *device = program->device->base.host;

	for (uint32_t h = 0; program->hosts != nullptr && h < program->hosts_count; h++)
	{
		cuda_host  *host = &program->hosts[h];

		if (host->program != nullptr)
			device->ops->program_free(device, host->program);
		free(host->down);
		free(host->up);
		free(host->mirrors);
	}
	free(program->hosts);
	free(program->mirrors);
}
