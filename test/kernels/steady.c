/*
 * steady.c
 *	  After warm-up a batch allocates nothing and faults on no page, on one thread and on two.
 *
 * heap.h counts allocations; page faults are the kernel's count for the process.  On a busy
 * machine a thread may get its first chunk, and touch its stack, long after the first batch:
 * so rounds of batches are run until one has no fault, which must come soon.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "harness.h"
#include "heap.h"
#include "tap.h"

/* A network: two products, softmax, argmax, a sum, a text. */
#define INPUTS	300
#define HIDDEN	400
#define CLASSES	10
#define ROWS	256

#define ROUNDS	10

enum
{
	T_X, T_B1, T_H, T_LOGITS, T_P, T_LABEL, T_SUM, T_TEXT, TENSORS
};

static uint64_t
faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t) (usage.ru_minflt + usage.ru_majflt);
}

static struct device_weight *
pack(struct device *device, int64_t k, int64_t n, struct status *status)
{
	float	   *w = case_alloc((size_t) (k * n) * 4);
	struct device_weight_desc desc = {.type = DEVICE_F32, .k = k, .n = n, .stride_k = n, .stride_n = 1, .data = w};
	struct device_weight *weight;

	for (int64_t i = 0; i < k * n; i++)
		w[i] = (float) (i % 7 - 3) / 50;
	weight = device->ops->weight_pack(device, &desc, status);
	free(w);
	return weight;
}

static void
steady(int threads)
{
	struct device *device = case_device("cpu", NULL, threads);
	struct device_info info;
	struct status status;
	struct device_weight *weights[2];
	static const int32_t in_1[] = {T_X, T_B1};
	static const int32_t in_2[] = {T_H};
	static const int32_t in_3[] = {T_LOGITS};
	static const int32_t in_4[] = {T_P};
	static const int32_t in_5[] = {T_LABEL};
	static float bias[HIDDEN];
	int64_t		one = 1;
	int64_t		inputs = INPUTS;
	int64_t		hidden = HIDDEN;
	int64_t		classes = CLASSES;
	struct device_tensor tensors[TENSORS] = {
		[T_X] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 1, &inputs),
		[T_B1] = case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 1, &hidden),
		[T_H] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 1, &hidden),
		[T_LOGITS] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 1, &classes),
		[T_P] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 1, &classes),
		[T_LABEL] = case_tensor(DEVICE_I64, DEVICE_LEAD_ROWS, 1, &one),
		[T_SUM] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 1, &one),
		[T_TEXT] = case_tensor(DEVICE_STRING, DEVICE_LEAD_ROWS, 1, &one)
	};
	struct device_op ops[] = {
		{.op = DEVICE_OP_GEMM, .fn = UNARY_RELU, .inputs_count = 2, .inputs = in_1, .output = T_H, .weight = 0},
		{.op = DEVICE_OP_GEMM, .inputs_count = 1, .inputs = in_2, .output = T_LOGITS, .weight = 1},
		{.op = DEVICE_OP_SOFTMAX, .fn = SOFTMAX_PLAIN, .inputs_count = 1, .inputs = in_3, .output = T_P, .weight = -1},
		{.op = DEVICE_OP_ARG, .fn = ARG_MAX, .inputs_count = 1, .inputs = in_4, .output = T_LABEL, .weight = -1},
		{.op = DEVICE_OP_REDUCE, .fn = REDUCE_SUM, .inputs_count = 1, .inputs = in_4, .output = T_SUM, .weight = -1, .i = {1, 1}},
		{.op = DEVICE_OP_CAST, .inputs_count = 1, .inputs = in_5, .output = T_TEXT, .weight = -1}
	};
	struct device_graph graph = {
		.tensors_count = TENSORS, .tensors = tensors, .ops_count = 6, .ops = ops, .weights_count = 2,
		.weights = weights, .bindings_count = 4, .arena_item_bytes = {0, 1792 + 64 + 64}
	};
	struct device_program *program;
	struct device_queue *queue;
	struct device_batch batch = {.items = {1, ROWS}};
	static uint32_t row_error[ROWS];
	void	   *bindings[4];
	void	   *arena;
	uint64_t	allocated;
	uint64_t	faulted = UINT64_MAX;
	float	   *sums;

	status_clear(&status);
	device->ops->info(device, &info);
	if (info.threads != (uint32_t) threads)
	{
		device->ops->close(device);
		tap_skip("steady", "fewer cores than threads");
		return;
	}
	tensors[T_B1].constant = bias;
	tensors[T_X].binding = 0;
	tensors[T_LABEL].binding = 1;
	tensors[T_SUM].binding = 2;
	tensors[T_TEXT].binding = 3;
	tensors[T_H].offset = 0;
	tensors[T_LOGITS].offset = 1600;
	tensors[T_P].offset = 1664;
	weights[0] = pack(device, INPUTS, HIDDEN, &status);
	weights[1] = pack(device, HIDDEN, CLASSES, &status);
	program = device->ops->compile(device, &graph, &status);
	tap_ok(program != NULL, "%d threads: the network compiles %s", threads, status.message);
	queue = device->ops->queue_create(device, 0, &status);
	bindings[0] = case_alloc(ROWS * INPUTS * 4);
	for (int i = 0; i < ROWS * INPUTS; i++)
		((float *) bindings[0])[i] = (float) (i % 11 - 5) / 10;
	bindings[1] = case_alloc(ROWS * 8);
	bindings[2] = case_alloc(ROWS * 4);
	bindings[3] = case_alloc(ROWS * 16);
	arena = case_alloc(device->ops->arena_bytes(program, batch.items));
	batch.row_error = row_error;
	for (int i = 0; i < 20; i++)
		device->ops->enqueue(queue, program, 0, UINT32_MAX, &batch, bindings, arena, &status);
	allocated = heap_allocations();
	for (int round = 0; round < ROUNDS && faulted != 0; round++)
	{
		faulted = faults();
		for (int i = 0; i < 500; i++)
		{
			batch.items[DEVICE_LEAD_ROWS] = i % 3 == 0 ? 1 : i % 3 == 1 ? ROWS : 7;
			device->ops->wait(queue, device->ops->enqueue(queue, program, 0, UINT32_MAX, &batch, bindings, arena, &status),
							  1000000, &status);
		}
		faulted = faults() - faulted;
	}
	allocated = heap_allocations() - allocated;
	tap_ok(allocated == 0, "%d threads: batches allocate %llu times", threads, (unsigned long long) allocated);
	tap_ok(faulted == 0, "%d threads: 500 batches fault on %llu pages", threads, (unsigned long long) faulted);
	sums = bindings[2];
	tap_ok(sums[ROWS - 1] > 0.999f && sums[ROWS - 1] < 1.001f, "%d threads: they computed something", threads);
	device->ops->queue_free(queue);
	device->ops->program_free(device, program);
	device->ops->weight_free(device, weights[0]);
	device->ops->weight_free(device, weights[1]);
	device->ops->close(device);
}

int
main(void)
{
	uint64_t	before = heap_allocations();
	void	   *volatile memory = malloc(1);

	free(memory);
	if (!HEAP_COUNTED)
	{
		tap_skip("allocations are counted", "not under a sanitizer");
		return tap_done();
	}
	tap_ok(heap_allocations() == before + 1, "allocations are counted");
	steady(1);
	steady(2);
	return tap_done();
}
