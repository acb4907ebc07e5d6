/*
 * cuda.h
 *	  The CUDA device's inside: what its files share.  See src/engine/device.h for the contract of a device.
 *
 * Nouns
 *	device		what infer.device = cuda opens: one or several GPUs of one numerics_id
 *	gpu			one of them; it has a replica of each weight and of each program's constants
 *	host		the CPU device: checks every op, and computes those for which there is no kernel here
 *	plan		one op with its tensors' places and its kernels' parameters: the same on every GPU
 *	place		where a tensor lies: a constant, a binding, or the arena
 *	segment		a run of plans of one kind, on the GPU or on the host; a program is its segments
 *	queue		a stream on one GPU, with what a run in flight needs of the host's memory
 *	run			one enqueue as plans see it
 *	family		the ops of one file of kernels/
 *
 * Loop
 *	compile: for each op, cuda_makers[op] checks whether there is a kernel and fills the plan; then the constants go to
 *	each GPU.  enqueue: the batch's arrays and the inputs go up, each plan launches its kernels, outputs and errors of
 *	rows go down, an event is recorded.  The watcher of the GPU sees the event and completes the ticket.
 *
 * The arena of a run, in device memory: the struct gpu_batch with its arrays, the bindings' copies, the intermediate tensors,
 * the plans' scratch.  Its layout is a function of the program and run->items alone, which are the batch's rounded up
 * (layout.cu).
 *
 * Invariants
 *	- Whoever opens the device has checked nothing: an op is passed to the host's supports() first, which refuses what is
 *	  not well-formed; a maker may take that for granted, and returns false where it has no kernel.
 *	- After the first run of a size, enqueue allocates nothing (obligation 7).
 */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include <gpu_platform.h>

#include <pthread.h>
#include <stdlib.h>

extern "C"
{
#include "../src/engine/device.h"
#include "../src/engine/status.h"
#include "../src/protocol/errors.h"
}

#include "kernels/kernel.h"

#define CUDA_GPUS_MAX		16
#define CUDA_KERNELS_MAX	1024	/* that are remembered as loaded */
#define CUDA_NUMERICS		1		/* raised whenever the bits of some kernel change: part of numerics_id */

struct cuda_device;
struct cuda_plan;
struct cuda_run;

struct cuda_gpu
{
	cuda_device *device;
	int			ordinal;			/* CUDA's */
	int			sm;					/* 75, 80, 90, … */
	int			processors;			/* streaming multiprocessors */
	char		name[96];
	uint64_t	bytes_total;
	uint64_t	budget;
	bool		budget_of_free;		/* as device_info has it */
	uint64_t	used;				/* atomic: weights, constants, arenas */
	double		flops[DEVICE_PRECISIONS];	/* of products, per second: what the data sheet's formula says; [FULL]: F32 */
	double		bytes_second;		/* of its memory */
	cudaStream_t loading;			/* cuda_upload's: one at a time, under its lock */
	pthread_mutex_t loading_lock;
	pthread_mutex_t lock;			/* of arenas and kernels */
	struct cuda_arena *arenas;
	const void *kernels[CUDA_KERNELS_MAX];	/* that have been loaded */
	struct cuda_watcher *watcher;
	struct cuda_graphs *graphs;
	float		slower;				/* atomic: measured by predicted time of runs, a moving mean */
};

struct cuda_device
{
	device		base;				/* first: see struct device; base.host is there */
	cuda_gpu	gpus[CUDA_GPUS_MAX];
	uint32_t	gpus_count;
	uint32_t	queues_made;		/* atomic: which GPU is next */
	uint32_t	lost;				/* atomic: 1 once a GPU answers errors alone */
	char		lost_reason[200];	/* written before lost */
	uint64_t	host_copies;		/* atomic, as the next: tensors that host segments were given, and gave; */
	uint64_t	host_bytes;			/* and their bytes */
	uint32_t	hangs;				/* atomic: lost to a hang, so that nothing that waits for a GPU may be called */
	char		library[32];		/* version of the library of products, "none" */
	char		products[64];		/* what computes products, and why not the library */
	char		lacks[48];			/* "cuBLASLt 13 not found", or "" */
	char		left_out[104];		/* why a GPU that does not start does not, or "" */
	struct cuda_library *products_library;	/* NULL: there is none */
	char		numerics_id[64];
	char		description[128];
	uint64_t   *load_beat;			/* atomic, or NULL: see cuda_load_beats() */
	bool		translates;			/* the driver makes code for the GPUs of what the build has */
};

/*
 * After a call that failed: whether the GPU answers errors for good, since then it does so whatever it is asked; another error is of
 * that call alone.  The device is then lost.
 */
extern bool cuda_gpu_fails(cuda_gpu *gpu, cudaStream_t stream, cudaError_t error);

/* false, and the status is INFER_ERROR_DEVICE_LOST: nothing can be asked of the device any more. */
extern bool cuda_usable(const cuda_device *device, status *status);

/*
 * Each file with kernels is a module of CUDA's, which the driver opens, or makes of PTX, when one of its kernels is first asked for.
 * CUDA_MODULE, once in each such file, has that done while a GPU is started rather than while a model is loaded.
 */
struct cuda_module
{
	typedef cudaError_t (*load_fn)(cudaFuncAttributes *attributes);

	cuda_module *next;
	load_fn		load;				/* on the current GPU */

	explicit cuda_module(load_fn load);
};

#define CUDA_MODULE \
	static __global__ void module_kernel(void) {} \
	static cudaError_t module_load(cudaFuncAttributes *attributes) { return cudaFuncGetAttributes(attributes, module_kernel); } \
	static cuda_module module_of_file(module_load);

/* ---- memory ---- */

/*
 * Memory of a GPU, aligned to 256 bytes, counted in its budget; not initialised.  what: "a weight".  NULL: status is
 * INFER_ERROR_MEMORY and names the bytes.
 */
extern void *cuda_memory_alloc(cuda_gpu *gpu, uint64_t bytes, const char *what, status *status);
extern void cuda_memory_free(cuda_gpu *gpu, void *memory, uint64_t bytes);

/* For a moment, of what the budget leaves free: not counted, so that no model has to go for it. */
extern void *cuda_memory_borrow(cuda_gpu *gpu, uint64_t bytes, const char *what, status *status);
extern void cuda_memory_return(cuda_gpu *gpu, void *memory);

/*
 * Around what a load asks of a GPU.  CUDA's own calls may wait for a GPU that hangs: who watches the beat of loads sees it then.
 * Between them cuda_load_beats, wherever it has gone on.
 */
extern void cuda_load_begins(cuda_device *device);
extern void cuda_load_beats(cuda_device *device);
extern void cuda_load_ends(cuda_device *device);

/*
 * Looks until all has run that is on the stream.  predicted: nsec from now on.  An error is the caller's to judge, but that
 * a hang loses the device.
 */
extern cudaError_t cuda_watch_stream(cuda_gpu *gpu, cudaStream_t stream, uint64_t predicted);

/* Copies up, from any host memory, and waits until it is there.  At load, from any thread. */
extern bool cuda_upload(cuda_gpu *gpu, void *to, const void *from, uint64_t bytes, status *status);

/* ---- weights: weight.cu ---- */

extern uint64_t cuda_weight_size(device *base, const device_weight_desc *desc);
extern device_weight *cuda_weight_pack(device *base, const device_weight_desc *desc, status *status);
extern void cuda_weight_free(device *base, device_weight *weight);
extern const void *cuda_weight_data(device *base, const device_weight *weight, uint64_t *bytes);
extern device_weight *cuda_weight_map(device *base, const device_weight_desc *desc, const void *data, uint64_t bytes,
									  status *status);

struct device_weight				/* one matrix, on every GPU: kernels/product.cu, products/ */
{
	uint8_t		type;				/* of its products' x: F32, F64, BF16, Q8 */
	uint8_t		precision;
	int64_t		k;
	int64_t		n;
	int64_t		n_padded;			/* columns in memory */
	int64_t		k_padded;
	uint64_t	bytes;				/* on each GPU */
	uint64_t	scales_offset;		/* INT8: where the columns' scales begin, and */
	uint64_t	sums_offset;		/* the sums of their numbers, int32 */
	uint8_t    *data[CUDA_GPUS_MAX];	/* device memory; by gpu - device->gpus */
};

enum cuda_place_kind
{
	CUDA_ABSENT = 0,
	CUDA_CONSTANT,
	CUDA_BINDING,
	CUDA_ARENA
};

struct cuda_place
{
	uint8_t		kind;				/* enum cuda_place_kind */
	uint8_t		type;
	uint8_t		lead;
	uint32_t	binding;
	uint64_t	offset;				/* ARENA: per item, in its lead's part; CONSTANT: in the program's constants */
	int64_t		elements;			/* of one item */
};

typedef void (*cuda_launch_fn)(const cuda_plan *plan, cuda_run *run);

struct cuda_plan					/* immutable after compile */
{
	uint16_t	op;
	uint16_t	fn;
	uint8_t		type;				/* of the first input */
	uint8_t		lead;				/* of the output */
	int32_t		node;
	double		f[2];
	int64_t		i[DEVICE_OP_INTS];
	const device_weight *weight;

	uint32_t	inputs_count;
	cuda_place *inputs;
	cuda_place	output;

	cuda_launch_fn launch;			/* NULL: an op of a host segment */
	void	   *own;				/* the family's parameters, from calloc: freed with the program */

	/* The plan's scratch: cuda_scratch(run, plan) has fixed + Σ of item[lead] · items of that lead. */
	uint64_t	scratch_fixed;
	uint64_t	scratch_item[DEVICE_LEADS];

	/* For predictions: what an item costs, and what a run does. */
	double		flops_item;			/* of the output's lead */
	double		flops_token;		/* beside it, where that lead is ROWS */
	double		flops_pair;			/* of a pair of a row's tokens (batch->pairs), */
	double		pairs_token;		/* of which a token has so many at most; 0: as many as its row has tokens */
	double		bytes_item;			/* read and written */
	double		bytes_run;			/* whatever the number of items: a weight */
	int			launches;			/* kernels of a run; 0 is taken for 1 */
};

struct cuda_making					/* of one plan, at compile and at placement */
{
	cuda_device *device;
	cuda_plan  *plan;				/* op, fn, type, lead, node, f, i, inputs_count, places and weight are set */
	const device_op *op;
	const device_tensor *tensors;
	const device_tensor *y;			/* &tensors[op->output] */
	bool		placing;			/* supports(): there are no weights, and nothing is kept */
	struct cuda_constants *constants;	/* NULL while placing */
	struct status *status;			/* for failures (out of memory), not for refusals */
};

/* NULL: absent. */
static inline const device_tensor *
cuda_input(const cuda_making *making, uint32_t i)
{
	if (i >= making->op->inputs_count || making->op->inputs[i] < 0)
		return nullptr;
	return &making->tensors[making->op->inputs[i]];
}

/* The product of the dimensions [first, last). */
static inline int64_t
cuda_elements(const device_tensor *t, int first, int last)
{
	int64_t		count = 1;

	for (int d = first; d < last; d++)
		count *= t->dims[d];
	return count;
}

/* Zeroed memory for plan->own; NULL and a status. */
static inline void *
cuda_own(cuda_making *making, size_t bytes)
{
	making->plan->own = calloc(1, bytes);
	if (making->plan->own == nullptr)
		status_set(making->status, INFER_ERROR_MEMORY, "out of memory");
	return making->plan->own;
}

/*
 * Asks for host memory (params of an op: trees, tables) to be among the program's constants; the memory must live until
 * compile ends.  Returns the offset for cuda_constant(); while placing 0.  copied: it is copied at once, so that it may go.
 */
extern uint64_t cuda_constant_add(cuda_making *making, const void *data, uint64_t bytes, bool copied);

/*
 * A maker fills plan->launch, own, scratch and costs, and returns true; false: no kernel here (the host computes the op).
 * Each family defines those of its ops; program.cu has the table.
 */
typedef bool (*cuda_make_fn)(cuda_making *making);

extern bool cuda_make_unary(cuda_making *making);
extern bool cuda_make_binary(cuda_making *making);
extern bool cuda_make_where(cuda_making *making);
extern bool cuda_make_cast(cuda_making *making);
extern bool cuda_make_lookup(cuda_making *making);
extern bool cuda_make_copy(cuda_making *making);
extern bool cuda_make_concat(cuda_making *making);
extern bool cuda_make_gather(cuda_making *making);
extern bool cuda_make_offset(cuda_making *making);
extern bool cuda_make_scatter(cuda_making *making);
extern bool cuda_make_reduce(cuda_making *making);
extern bool cuda_make_softmax(cuda_making *making);
extern bool cuda_make_arg(cuda_making *making);
extern bool cuda_make_normalize(cuda_making *making);
extern bool cuda_make_cumsum(cuda_making *making);
extern bool cuda_make_topk(cuda_making *making);
extern bool cuda_make_distance(cuda_making *making);
extern bool cuda_make_couple(cuda_making *making);
extern bool cuda_make_trees(cuda_making *making);
extern bool cuda_make_norm(cuda_making *making);
extern bool cuda_make_rotary(cuda_making *making);
extern bool cuda_make_gate(cuda_making *making);
extern bool cuda_make_pool(cuda_making *making);
extern bool cuda_make_attention(cuda_making *making);
extern bool cuda_make_gemm(cuda_making *making);
extern bool cuda_make_matmul(cuda_making *making);
extern bool cuda_make_quantise(cuda_making *making);

/* ---- running ---- */

struct cuda_run						/* on the stack of enqueue, or while a graph is captured */
{
	cuda_gpu   *gpu;
	int			gpu_index;			/* gpu - device->gpus: which replica */
	cudaStream_t stream;
	uint32_t	items[DEVICE_LEADS];	/* as many as the arena is laid out for; the grids are made of these */
	uint64_t	tiles;				/* of attention, at most */
	const gpu_batch *batch;			/* device memory: the items that there are */
	uint8_t    *arena;				/* device memory, as are the next three */
	uint8_t *const *bindings;		/* the array is the host's */
	const uint8_t *constants;
	uint8_t    *scratch;
	bool		loading;			/* kernels are loaded, none is launched, and addresses are of nothing: load.cu */
	uint64_t	lead_base[DEVICE_LEADS];	/* bytes into the arena */
	cudaError_t error;				/* the first failure of a launch */
};

/* The address of a tensor's first item, in device memory.  NULL: absent. */
static inline void *
cuda_address(const cuda_run *run, const cuda_place *place)
{
	switch (place->kind)
	{
		case CUDA_ARENA:
			return run->arena + run->lead_base[place->lead] + place->offset * run->items[place->lead];
		case CUDA_BINDING:
			return run->bindings[place->binding];
		case CUDA_CONSTANT:
			return (void *) (run->constants + place->offset);
	}
	return nullptr;
}

static inline void *
cuda_operand(const cuda_plan *plan, const cuda_run *run, uint32_t input)
{
	return input >= plan->inputs_count ? nullptr : cuda_address(run, &plan->inputs[input]);
}

/* See struct cuda_plan; shared by all plans of the program, which run one after the other. */
static inline void *
cuda_scratch(const cuda_run *run, const cuda_plan *plan)
{
	return run->scratch;
}

static inline const void *
cuda_constant(const cuda_run *run, uint64_t offset)
{
	return run->constants + offset;
}

/* The blocks of so many threads that so much work wants, at least one; no more than a grid's first dimension holds. */
static inline unsigned
cuda_blocks(uint64_t work, unsigned threads)
{
	uint64_t	blocks = (work + threads - 1) / threads;

	return blocks == 0 ? 1 : blocks > 0x7FFFFFFF ? 0x7FFFFFFF : (unsigned) blocks;
}

/* load.cu: whether a kernel has been loaded on the GPU; that it has. */
extern bool cuda_kernel_known(cuda_gpu *gpu, const void *kernel);
extern void cuda_kernel_remember(cuda_gpu *gpu, const void *kernel);

/* Has its code on the current GPU, so that its first launch need not load it. */
template <class... P>
static inline cudaError_t
cuda_kernel_load(cuda_gpu *gpu, void (*kernel)(P...))
{
	cudaFuncAttributes attributes;
	cudaError_t error;

	if (cuda_kernel_known(gpu, (const void *) kernel))
		return cudaSuccess;
	error = cudaFuncGetAttributes(&attributes, kernel);
	if (error == cudaSuccess)
		cuda_kernel_remember(gpu, (const void *) kernel);
	return error;
}

/* Launches a kernel of a plan; after a failure nothing more is launched. */
template <class... P, class... A>
static inline void
cuda_launch(cuda_run *run, void (*kernel)(P...), dim3 grid, dim3 block, A... args)
{
	if (run->error == cudaSuccess)
		run->error = run->loading ? cuda_kernel_load(run->gpu, kernel) : gpu_launch(kernel, grid, block, run->stream, args...);
}

#endif /* CUDA_CUDA_H */
