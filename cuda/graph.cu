/*
 * graph.cu
 *	  Launches of a run that is made again and again, captured as a CUDA graph: one call instead of one for each kernel.
 *
 * Nouns
 *	key			what the launches follow from: the program and its range of plans, the queue, the arena, and the bucket, which is
 *				the numbers of items that the arena is laid out for
 *	entry		a key that was seen, how often, and its graph once it has one
 *
 * A graph holds plans alone.  What comes up and goes down has other addresses each time, and is copied as ever; how many
 * items there are the kernels read in device memory.  So a graph does what the plain launches do, bit for bit.
 *
 * No call captures: a key that has been run GRAPH_AFTER times is left to the watcher, which captures it on a stream of its own while
 * batches go on.  Queues of constants, programs with host segments and short ranges are not captured.
 *
 * Bounded: GRAPH_ENTRIES keys are remembered, GRAPHS_MAX have a graph, and graphs take at most GRAPHS_BYTES, by an estimate, which
 * counts in the budget.  The least recently used goes first, keys without a graph before those with one.
 *
 * The lock is held to touch entries, and while a graph is launched; not while one is captured: capturing says of which program and
 * queue, and who frees these waits for it.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#define GRAPH_AFTER		4			/* runs before a key is captured */
#define GRAPH_PLANS_MIN	4
#define GRAPH_ENTRIES	256
#define GRAPHS_MAX		128
#define GRAPHS_BYTES	(UINT64_C(64) << 20)
#define GRAPH_BYTES		16384		/* of a graph, and of a kernel in it */
#define GRAPH_NODE_BYTES 2048

struct graph_key
{
	const device_program *program;	/* NULL: the entry is free */
	const device_queue *queue;
	const void *arena;
	uint32_t	first;
	uint32_t	last;
	uint32_t	items[DEVICE_LEADS];
};

enum graph_state
{
	GRAPH_SEEN = 0,
	GRAPH_WANTED,					/* the watcher is to capture it */
	GRAPH_READY,					/* exec is there */
	GRAPH_REFUSED					/* it could not be captured: not tried again */
};

struct graph_entry
{
	graph_key	key;
	uint8_t		state;				/* enum graph_state */
	uint32_t	seen;
	uint64_t	used;				/* tick of the last run */
	uint64_t	bytes;
	cudaGraphExec_t exec;
};

struct cuda_graphs
{
	pthread_mutex_t lock;
	pthread_cond_t captured;
	cudaStream_t stream;			/* captures are made on it; but for their uploads nothing runs there */
	uint64_t	tick;
	uint32_t	wanted;				/* entries in that state; read without the lock, too */
	uint32_t	ready;
	uint64_t	bytes;
	graph_key	capturing;			/* program NULL: none */
	graph_entry entries[GRAPH_ENTRIES];
};

bool
cuda_graphs_start(cuda_gpu *gpu, status *status)
{
	cuda_graphs *graphs = (cuda_graphs *) calloc(1, sizeof(*graphs));
	cudaError_t error;

	if (graphs == nullptr)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*graphs));
	pthread_mutex_init(&graphs->lock, nullptr);
	pthread_cond_init(&graphs->captured, nullptr);
	gpu->graphs = graphs;
	error = cudaStreamCreateWithFlags(&graphs->stream, cudaStreamNonBlocking);
	if (error == cudaSuccess)
		return true;
	cudaGetLastError();
	graphs->stream = nullptr;
	return status_set(status, error == cudaErrorMemoryAllocation ? INFER_ERROR_MEMORY : INFER_ERROR_UNSUPPORTED,
					  "GPU %d gives no stream: %s", gpu->ordinal, cudaGetErrorString(error));
}

/* The lock is held. */
static void
entry_drop(cuda_gpu *gpu, graph_entry *entry)
{
	cuda_graphs *graphs = gpu->graphs;

	if (entry->state == GRAPH_WANTED)
		__atomic_sub_fetch(&graphs->wanted, 1, __ATOMIC_RELAXED);
	if (entry->state == GRAPH_READY)
	{
		cudaGraphExecDestroy(entry->exec);
		cudaGetLastError();
		graphs->ready--;
		graphs->bytes -= entry->bytes;
		__atomic_sub_fetch(&gpu->used, entry->bytes, __ATOMIC_RELAXED);
	}
	memset(entry, 0, sizeof(*entry));
}

void
cuda_graphs_stop(cuda_gpu *gpu)
{
	cuda_graphs *graphs = gpu->graphs;

	if (graphs == nullptr)
		return;
	for (int e = 0; e < GRAPH_ENTRIES; e++)
		entry_drop(gpu, &graphs->entries[e]);
	if (graphs->stream != nullptr)
		cudaStreamDestroy(graphs->stream);
	cudaGetLastError();
	pthread_cond_destroy(&graphs->captured);
	pthread_mutex_destroy(&graphs->lock);
	free(graphs);
	gpu->graphs = nullptr;
}

static bool
key_is_of(const graph_key *key, const device_program *program, const device_queue *queue)
{
	return key->program != nullptr && (key->program == program || key->queue == queue);
}

/* All of a program, or of a queue. */
void
cuda_graphs_forget(cuda_gpu *gpu, const device_program *program, const device_queue *queue)
{
	cuda_graphs *graphs = gpu->graphs;

	pthread_mutex_lock(&graphs->lock);
	for (int e = 0; e < GRAPH_ENTRIES; e++)
		if (key_is_of(&graphs->entries[e].key, program, queue))
			entry_drop(gpu, &graphs->entries[e]);
	/* what is captured meanwhile finds its entry gone */
	while (key_is_of(&graphs->capturing, program, queue))
		pthread_cond_wait(&graphs->captured, &graphs->lock);
	pthread_mutex_unlock(&graphs->lock);
}

/* ---- finding ---- */

static bool
same_key(const graph_key *a, const graph_key *b)
{
	return a->program == b->program && a->queue == b->queue && a->arena == b->arena && a->first == b->first && a->last == b->last &&
		   memcmp(a->items, b->items, sizeof(a->items)) == 0;
}

/* The lock is held. */
static graph_entry *
entry_find(cuda_graphs *graphs, const graph_key *key)
{
	for (int e = 0; e < GRAPH_ENTRIES; e++)
		if (same_key(&graphs->entries[e].key, key))
			return &graphs->entries[e];
	return nullptr;
}

/* A free one, or that of which least is lost.  The lock is held. */
static graph_entry *
entry_new(cuda_gpu *gpu, const graph_key *key)
{
	cuda_graphs *graphs = gpu->graphs;
	graph_entry *oldest = nullptr;

	for (int e = 0; e < GRAPH_ENTRIES; e++)
	{
		graph_entry *entry = &graphs->entries[e];

		if (entry->state != GRAPH_READY && (oldest == nullptr || entry->used < oldest->used))
			oldest = entry;
	}
	entry_drop(gpu, oldest);		/* there is one: fewer than GRAPH_ENTRIES are ready */
	oldest->key = *key;
	return oldest;
}

static bool
may_be_captured(const cuda_call *call)
{
	return call->queue->use == DEVICE_BATCHES && call->program->hosts_count == 0 && call->last - call->first >= GRAPH_PLANS_MIN;
}

bool
cuda_graph_launch(cuda_call *call)
{
	cuda_graphs *graphs = call->queue->gpu->graphs;
	graph_key	key = {call->program, call->queue, call->run.arena, call->first, call->last, {}};
	graph_entry *entry;
	bool		launched = false;

	if (!may_be_captured(call))
		return false;
	memcpy(key.items, call->layout.items, sizeof(key.items));
	pthread_mutex_lock(&graphs->lock);
	entry = entry_find(graphs, &key);
	if (entry == nullptr)
		entry = entry_new(call->queue->gpu, &key);
	entry->used = ++graphs->tick;
	if (entry->state == GRAPH_READY)
	{
		launched = cudaGraphLaunch(entry->exec, call->queue->stream) == cudaSuccess;
		if (!launched)				/* the plain launches will say what is wrong, if anything is */
		{
			cudaGetLastError();
			entry_drop(call->queue->gpu, entry);
			entry->key = key;
			entry->state = GRAPH_REFUSED;
		}
	}
	else if (entry->state == GRAPH_SEEN && ++entry->seen >= GRAPH_AFTER)
	{
		entry->state = GRAPH_WANTED;
		__atomic_add_fetch(&graphs->wanted, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&graphs->lock);
	return launched;
}

/* ---- capturing ---- */

/* NULL: it cannot be captured. */
static cudaGraphExec_t
capture(cuda_gpu *gpu, const graph_key *key)
{
	const device_program *program = key->program;
	uint8_t   **bindings = (uint8_t **) calloc((size_t) program->bindings_count + 1, sizeof(*bindings));
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	cuda_layout	layout;
	cuda_run	run;
	bool		good;

	if (bindings == nullptr)
		return nullptr;
	cuda_layout_make(program, key->items, &layout);
	cuda_run_start(&run, key->queue, program, &layout, (void *) key->arena, bindings);
	run.stream = gpu->graphs->stream;
	good = cudaStreamBeginCapture(run.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
	if (good)
	{
		for (uint32_t p = key->first; p < key->last; p++)
			program->plans[p].launch(&program->plans[p], &run);
		good = cudaStreamEndCapture(run.stream, &graph) == cudaSuccess && run.error == cudaSuccess && graph != nullptr;
	}
	if (good && cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess)
		exec = nullptr;
	if (exec != nullptr && cudaGraphUpload(exec, run.stream) != cudaSuccess)
		cudaGetLastError();			/* its first launch does that, then */
	if (graph != nullptr)
		cudaGraphDestroy(graph);
	cudaGetLastError();
	free(bindings);
	return exec;
}

static uint64_t
graph_bytes(const graph_key *key)
{
	uint64_t	nodes = 0;

	for (uint32_t p = key->first; p < key->last; p++)
		nodes += key->program->plans[p].launches > 0 ? (uint64_t) key->program->plans[p].launches : 1;
	return GRAPH_BYTES + nodes * GRAPH_NODE_BYTES;
}

/* Until so many bytes, and one graph, fit.  The lock is held. */
static bool
make_room(cuda_gpu *gpu, uint64_t bytes)
{
	cuda_graphs *graphs = gpu->graphs;

	while (graphs->ready > 0 && (graphs->ready >= GRAPHS_MAX || graphs->bytes + bytes > GRAPHS_BYTES))
	{
		graph_entry *oldest = nullptr;

		for (int e = 0; e < GRAPH_ENTRIES; e++)
			if (graphs->entries[e].state == GRAPH_READY && (oldest == nullptr || graphs->entries[e].used < oldest->used))
				oldest = &graphs->entries[e];
		entry_drop(gpu, oldest);
	}
	return bytes <= GRAPHS_BYTES && __atomic_load_n(&gpu->used, __ATOMIC_RELAXED) + bytes <= gpu->budget;
}

/* The entry may be gone meanwhile.  The lock is held. */
static void
keep(cuda_gpu *gpu, const graph_key *key, cudaGraphExec_t exec, uint64_t bytes)
{
	cuda_graphs *graphs = gpu->graphs;
	graph_entry *entry = entry_find(graphs, key);

	if (entry != nullptr && entry->state == GRAPH_WANTED)
	{
		__atomic_sub_fetch(&graphs->wanted, 1, __ATOMIC_RELAXED);
		entry->state = GRAPH_REFUSED;
		if (exec != nullptr && make_room(gpu, bytes))
		{
			entry->state = GRAPH_READY;
			entry->exec = exec;
			entry->bytes = bytes;
			graphs->ready++;
			graphs->bytes += bytes;
			__atomic_add_fetch(&gpu->used, bytes, __ATOMIC_RELAXED);
			return;
		}
	}
	if (exec != nullptr)
		cudaGraphExecDestroy(exec);
	cudaGetLastError();
}

bool
cuda_graphs_capture(cuda_gpu *gpu)
{
	cuda_graphs *graphs = gpu->graphs;
	graph_entry *wanted = nullptr;
	cudaGraphExec_t exec;
	graph_key	key;
	uint64_t	bytes;

	if (__atomic_load_n(&graphs->wanted, __ATOMIC_RELAXED) == 0 || cuda_is_lost(gpu->device))
		return false;
	pthread_mutex_lock(&graphs->lock);
	for (int e = 0; e < GRAPH_ENTRIES; e++)
		if (graphs->entries[e].state == GRAPH_WANTED)
			wanted = &graphs->entries[e];
	if (wanted != nullptr)
		graphs->capturing = wanted->key;
	key = graphs->capturing;
	pthread_mutex_unlock(&graphs->lock);
	if (wanted == nullptr)
		return false;
	bytes = graph_bytes(&key);
	exec = capture(gpu, &key);
	pthread_mutex_lock(&graphs->lock);
	keep(gpu, &key, exec, bytes);
	graphs->capturing.program = nullptr;
	pthread_cond_broadcast(&graphs->captured);
	pthread_mutex_unlock(&graphs->lock);
	return true;
}
