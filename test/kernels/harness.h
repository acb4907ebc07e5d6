/*
 * harness.h
 *	  Graphs of one primitive for the tests of a device: built tensor by tensor, run on any
 *	  number of rows.
 *
 * Nouns
 *	case		a graph of one op; its inputs are bindings 0 … n − 1, its output binding n
 *	rows		how many items a run has; inputs of lead NONE have one
 *
 * A program tests the CPU device and the CUDA device, or the one that INFER_TEST_DEVICE names ("cpu", "cuda").  The CUDA
 * device's library is INFER_CUDA, else the one that was built over an emulation of CUDA.
 */
#ifndef TEST_KERNELS_HARNESS_H
#define TEST_KERNELS_HARNESS_H

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulation/control.h"
#include "engine/device.h"
#include "engine/status.h"

#define CASE_INPUTS	70
#define CASE_WAIT	(300 * UINT64_C(1000000))	/* usec: kernels that are emulated under sanitizers take their time */

struct op_case
{
	struct device_op op;
	struct device_tensor tensors[CASE_INPUTS + 1];	/* the output last: tensors[inputs] */
	int32_t		inputs[CASE_INPUTS];
	uint32_t	inputs_count;
	struct device_weight_desc weight;	/* data NULL: none */

	/* made by case_compile */
	struct device *device;
	struct device_weight *packed;
	struct device_program *program;
	struct device_queue *queue;
	void	   *arena;				/* of the last run: what it made of texts lies there */
};

static inline void
case_fail(const char *what, const struct status *status)
{
	fprintf(stderr, "%s: %s\n", what, status->message);
	exit(2);
}

static inline struct device_tensor
case_tensor(uint8_t type, uint8_t lead, int rank, const int64_t *dims)
{
	struct device_tensor tensor = {.type = type, .lead = lead, .rank = (uint8_t) rank, .binding = -1};

	for (int d = 0; d < rank; d++)
		tensor.dims[d] = dims[d];
	return tensor;
}

/* "2,3": two dimensions; "": a scalar */
static inline struct device_tensor
case_shaped(uint8_t type, uint8_t lead, const char *shape)
{
	int64_t		dims[DEVICE_RANK_MAX];
	int			rank = 0;

	for (const char *s = shape; *s != '\0';)
	{
		char	   *end;

		dims[rank++] = strtoll(s, &end, 10);
		s = *end == ',' ? end + 1 : end;
	}
	return case_tensor(type, lead, rank, dims);
}

static inline struct device *
case_device(const char *setting, const char *arch, int threads)
{
	struct device_options options = {.threads = threads, .arch = arch};
	struct status status;
	struct device *device;

	status_clear(&status);
	device = device_open(setting, &options, &status);
	if (device == NULL)
		case_fail("device_open", &status);
	return device;
}

static inline bool
case_wants(const char *kind)
{
	const char *only = getenv("INFER_TEST_DEVICE");

	return only == NULL || *only == '\0' || strcmp(only, kind) == 0;
}

/* Path of the CUDA device's library: programs lie in engine/test/kernels. */
static inline const char *
case_cuda_library(void)
{
	static char path[PATH_MAX + 64];
	ssize_t		length = readlink("/proc/self/exe", path, PATH_MAX);

	if (getenv("INFER_CUDA") != NULL)
		return getenv("INFER_CUDA");
	for (int folders = 0; folders < 3; folders++)
		while (length > 0 && path[--length] != '/')
			;
	snprintf(path + (length < 0 ? 0 : length), 64, "/emulation/infer_cuda.so");
	return path;
}

/*
 * What the library has of an emulation, when it has been opened; NULL: it is one for GPUs, or is to be taken for one
 * (INFER_TEST_AS_GPU: script/gpu-check --emulated).
 */
static inline const struct emulation_control *
case_emulation(void)
{
	void	   *handle = getenv("INFER_TEST_AS_GPU") != NULL ? NULL : dlopen(case_cuda_library(), RTLD_NOW | RTLD_LOCAL);

	return handle == NULL ? NULL : dlsym(handle, EMULATION_CONTROL);
}

/* NULL, and said why, if this program is not to test it or if it cannot be opened. */
static inline struct device *
case_cuda_device(int threads)
{
	struct device_options options = {.threads = threads, .library = case_cuda_library(), .gpu = -1};
	struct status status;
	struct device *device;
	struct device_info info;

	if (!case_wants("cuda"))
		return NULL;
	status_clear(&status);
	device = device_open("cuda", &options, &status);
	if (device == NULL)
	{
		printf("# cuda: %s\n", status.message);
		return NULL;
	}
	device->ops->info(device, &info);
	printf("# cuda: %s, %s", info.description, info.numerics_id);
	if (case_emulation() != NULL)
		printf(", INFER_EMULATED_SEED=%llu", (unsigned long long) case_emulation()->seed());
	printf("\n");
	return device;
}

/*
 * Whether large cases are to be left out: those of an emulated GPU, under sanitizers, where they take minutes and show
 * nothing that smaller ones do not.
 */
static inline bool
case_hurries(const struct device *device)
{
	return getenv("INFER_SANITIZED") != NULL && strcmp(device->ops->kind, "cuda") == 0 && case_emulation() != NULL;
}

/* false if the device does not support the op. */
static inline bool
case_compile(struct op_case *c, struct device *device)
{
	struct device_graph graph = {0};
	struct status status;

	status_clear(&status);
	c->device = device;
	c->packed = NULL;
	c->program = NULL;
	c->queue = NULL;
	c->arena = NULL;
	for (uint32_t i = 0; i <= c->inputs_count; i++)
		c->tensors[i].binding = (int32_t) i;
	for (uint32_t i = 0; i < c->inputs_count; i++)
		c->inputs[i] = (int32_t) i;
	c->op.inputs = c->inputs;
	c->op.inputs_count = c->inputs_count;
	c->op.output = (int32_t) c->inputs_count;
	c->op.weight = -1;
	c->op.node = -1;
	if (c->weight.data != NULL)
	{
		c->op.weight = 0;
		c->packed = device->ops->weight_pack(device, &c->weight, &status);
		if (c->packed == NULL)
			case_fail("weight_pack", &status);
	}
	if (device->ops->supports(device, &c->op, c->tensors) == 0)
		return false;
	graph.tensors_count = c->inputs_count + 1;
	graph.tensors = c->tensors;
	graph.ops_count = 1;
	graph.ops = &c->op;
	graph.weights_count = c->packed != NULL;
	graph.weights = &c->packed;
	graph.bindings_count = c->inputs_count + 1;
	c->program = device->ops->compile(device, &graph, &status);
	if (c->program == NULL)
		case_fail("compile", &status);
	c->queue = device->ops->queue_create(device, 0, &status);
	return true;
}

static inline void
case_free(struct op_case *c)
{
	if (c->arena != NULL)
		device_buffer_free(c->device, DEVICE_BUFFER_ARENA, c->arena);
	c->arena = NULL;
	if (c->program != NULL)
		c->device->ops->program_free(c->device, c->program);
	if (c->packed != NULL)
		c->device->ops->weight_free(c->device, c->packed);
	if (c->queue != NULL)
		c->device->ops->queue_free(c->queue);
}

static inline void *
case_alloc(size_t bytes)
{
	void	   *memory = NULL;

	if (posix_memalign(&memory, DEVICE_ALIGN, bytes + DEVICE_ALIGN) != 0)
		abort();
	memset(memory, 0, bytes + DEVICE_ALIGN);
	return memory;
}

static inline size_t
case_bytes(const struct device_tensor *tensor, uint32_t rows)
{
	return (size_t) device_item_elements(tensor) * device_type_bytes(tensor->type) *
		(tensor->lead == DEVICE_LEAD_NONE ? 1 : rows);
}

/* bindings: the inputs and the output. */
static inline bool
case_run_batch(struct op_case *c, const struct device_batch *batch, void *const *bindings, struct status *status)
{
	uint64_t	bytes = c->device->ops->arena_bytes(c->program, batch->items);
	uint64_t	ticket;

	if (c->arena != NULL)
		device_buffer_free(c->device, DEVICE_BUFFER_ARENA, c->arena);
	c->arena = device_buffer_alloc(c->device, c->queue, DEVICE_BUFFER_ARENA, bytes, status);
	if (c->arena == NULL)
		return false;
	ticket = c->device->ops->enqueue(c->queue, c->program, 0, UINT32_MAX, batch, bindings, c->arena, status);
	return ticket != 0 && c->device->ops->wait(c->queue, ticket, CASE_WAIT, status) == DEVICE_DONE;
}

/* row_error may be NULL. */
static inline bool
case_run(struct op_case *c, uint32_t rows, void *const *bindings, uint32_t *row_error,
		 struct status *status)
{
	struct device_batch batch = {.items = {1, rows}, .row_error = row_error};

	return case_run_batch(c, &batch, bindings, status);
}

#endif							/* TEST_KERNELS_HARNESS_H */
