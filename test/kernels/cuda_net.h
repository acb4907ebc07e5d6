/*
 * cuda_net.h
 *	  What tests of the CUDA device share: the emulated library, a net, and children with other GPUs.
 *
 * Nouns
 *	net		a program over rows of WIDTH numbers: 2·x + 1 by four ops, and what a test puts between them
 *	world	a child process: the emulation reads its environment once, and a lost device stays lost
 */
#ifndef TEST_KERNELS_CUDA_NET_H
#define TEST_KERNELS_CUDA_NET_H

#include <sys/wait.h>

#include "harness.h"
#include "protocol/protocol.h"
#include "tap.h"

#define WIDTH	5
#define ROWS	70
#define OPS_MAX	48

/* ---- nets ---- */

struct net
{
	struct device_tensor tensors[2 * OPS_MAX + 4];
	struct device_op ops[OPS_MAX];
	int32_t		inputs[OPS_MAX][2];
	uint32_t	tensors_count;
	uint32_t	ops_count;
	uint64_t	arena_item;

	struct device *device;
	struct device_program *program;
	struct device_queue *queue;
	void	   *arena;
	uint64_t	arena_bytes;
	float	   *x;					/* STAGING: ROWS of WIDTH */
	float	   *y;
	uint32_t	row_error[ROWS];
	const char *row_message[ROWS];
};

static const float two = 2;
static const float one = 1;

static inline int32_t
net_tensor(struct net *net, uint8_t type, uint8_t lead, const void *constant, int32_t binding)
{
	struct device_tensor *t = &net->tensors[net->tensors_count];
	int64_t		width = WIDTH;

	*t = case_tensor(type, lead, lead == DEVICE_LEAD_NONE ? 0 : 1, &width);
	t->constant = constant;
	t->binding = binding;
	if (constant == NULL && binding < 0)
	{
		t->offset = net->arena_item;
		net->arena_item += (WIDTH * device_type_bytes(type) + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
	}
	return (int32_t) net->tensors_count++;
}

/* b < 0: an op of one input.  binding < 0: the output lies in the arena. */
static inline int32_t
net_op(struct net *net, uint16_t code, uint16_t fn, int32_t a, int32_t b, uint8_t type, int32_t binding)
{
	uint32_t	o = net->ops_count++;
	struct device_op *op = &net->ops[o];

	memset(op, 0, sizeof(*op));
	op->op = code;
	op->fn = fn;
	op->inputs = net->inputs[o];
	op->inputs_count = b < 0 ? 1 : 2;
	net->inputs[o][0] = a;
	net->inputs[o][1] = b;
	op->output = net_tensor(net, type, DEVICE_LEAD_ROWS, NULL, binding);
	op->weight = -1;
	op->node = -1;
	return op->output;
}

/* y = -(-(x · 2)) + 1, with texts in the middle where they are wanted; ops past the fourth add 1 and take it away. */
static inline void
net_define(struct net *net, bool texts, uint32_t more)
{
	int32_t		c2 = net_tensor(net, DEVICE_F32, DEVICE_LEAD_NONE, &two, -1);
	int32_t		c1 = net_tensor(net, DEVICE_F32, DEVICE_LEAD_NONE, &one, -1);
	int32_t		t = net_tensor(net, DEVICE_F32, DEVICE_LEAD_ROWS, NULL, 0);

	t = net_op(net, DEVICE_OP_BINARY, BINARY_MUL, t, c2, DEVICE_F32, -1);
	t = net_op(net, DEVICE_OP_UNARY, UNARY_NEG, t, -1, DEVICE_F32, -1);
	if (texts)
	{
		t = net_op(net, DEVICE_OP_CAST, 0, t, -1, DEVICE_STRING, -1);
		t = net_op(net, DEVICE_OP_CAST, 0, t, -1, DEVICE_F32, -1);
	}
	for (uint32_t i = 0; i < more; i++)
		t = net_op(net, DEVICE_OP_BINARY, i % 2 == 0 ? BINARY_ADD : BINARY_SUB, t, c1, DEVICE_F32, -1);
	t = net_op(net, DEVICE_OP_UNARY, UNARY_NEG, t, -1, DEVICE_F32, -1);
	net_op(net, DEVICE_OP_BINARY, BINARY_ADD, t, c1, DEVICE_F32, 1);
}

static inline bool
net_compile(struct net *net, struct device *device, struct status *status)
{
	struct device_graph graph = {
		.tensors_count = net->tensors_count, .ops_count = net->ops_count, .bindings_count = 2, .tensors = net->tensors, .ops = net->ops,
		.arena_item_bytes = {[DEVICE_LEAD_ROWS] = net->arena_item}
	};
	uint32_t	items[DEVICE_LEADS] = {1, ROWS};

	net->device = device;
	net->program = device->ops->compile(device, &graph, status);
	if (net->program == NULL)
		return false;
	net->queue = device->ops->queue_create(device, DEVICE_BATCHES, status);
	if (net->queue == NULL)
		return false;
	net->arena_bytes = device->ops->arena_bytes(net->program, items);
	net->arena = device_buffer_alloc(device, net->queue, DEVICE_BUFFER_ARENA, net->arena_bytes, status);
	net->x = device_buffer_alloc(device, net->queue, DEVICE_BUFFER_STAGING, ROWS * WIDTH * sizeof(float), status);
	net->y = device_buffer_alloc(device, net->queue, DEVICE_BUFFER_STAGING, ROWS * WIDTH * sizeof(float), status);
	if (net->arena == NULL || net->x == NULL || net->y == NULL)
		return false;
	for (int i = 0; i < ROWS * WIDTH; i++)
		net->x[i] = (float) (i % 17) - 8.25f;
	return true;
}

static inline void
net_open(struct net *net, struct device *device, bool texts, uint32_t more)
{
	struct status status;

	status_clear(&status);
	memset(net, 0, sizeof(*net));
	net_define(net, texts, more);
	if (!net_compile(net, device, &status))
		case_fail("net", &status);
}

/* The queue first: it waits for what is in flight. */
static inline void
net_free(struct net *net)
{
	if (net->queue != NULL)
		net->device->ops->queue_free(net->queue);
	if (net->program != NULL)
		net->device->ops->program_free(net->device, net->program);
	device_buffer_free(net->device, DEVICE_BUFFER_STAGING, net->x);
	device_buffer_free(net->device, DEVICE_BUFFER_STAGING, net->y);
	device_buffer_free(net->device, DEVICE_BUFFER_ARENA, net->arena);
}

static inline uint64_t
net_enqueue(struct net *net, uint32_t first, uint32_t last, uint32_t rows, struct status *status)
{
	struct device_batch batch = {.items = {1, rows}, .row_error = net->row_error, .row_message = net->row_message};
	void	   *bindings[2] = {net->x, net->y};

	return net->device->ops->enqueue(net->queue, net->program, first, last, &batch, bindings, net->arena, status);
}

static inline enum device_state
net_wait(struct net *net, uint64_t ticket, struct status *status)
{
	return net->device->ops->wait(net->queue, ticket, 5 * 1000 * 1000, status);
}

static inline enum device_state
net_run(struct net *net, uint32_t rows, struct status *status)
{
	status_clear(status);
	memset(net->row_error, 0, sizeof(net->row_error));
	memset(net->row_message, 0, sizeof(net->row_message));
	memset(net->y, 0, ROWS * WIDTH * sizeof(float));
	return net_wait(net, net_enqueue(net, 0, UINT32_MAX, rows, status), status);
}

/* The first rows are right, and nothing has been written behind them. */
static inline bool
net_right(const struct net *net, uint32_t rows)
{
	for (uint32_t i = 0; i < ROWS * WIDTH; i++)
		if (net->y[i] != (i < rows * WIDTH ? 2 * net->x[i] + 1 : 0))
			return false;
	return true;
}

static inline struct device *
open_cuda(const char *setting, uint64_t gpu_memory, struct status *status)
{
	struct device_options options = {.threads = 1, .library = case_cuda_library(), .gpu_memory = gpu_memory};

	status_clear(status);
	return device_open(setting, &options, status);
}

static uint32_t world_failed;

/* A claim in a child: shown, and counted in what the child returns. */
static inline bool __attribute__((format(printf, 2, 3)))
world_ok(bool passed, const char *format,...)
{
	va_list		args;

	world_failed += !passed;
	printf("    %sok - ", passed ? "" : "not ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	return passed;
}

/* In a child: what it returns is the exit status.  Nothing of the library may have been used before. */
static inline pid_t
world_begin(const char *variable, const char *value, int (*run) (void *argument), void *argument)
{
	pid_t		child;

	fflush(stdout);
	child = fork();
	if (child == 0)
	{
		int			ended;

		alarm(600);
		if (variable != NULL)
			setenv(variable, value, 1);
		ended = run(argument);
		fflush(stdout);
		exit(ended);			/* what the emulation finds at its end counts */
	}
	return child;
}

static inline bool
world_end(pid_t child)
{
	int			ended = -1;

	waitpid(child, &ended, 0);
	if (WIFSIGNALED(ended))
		printf("# it died of signal %d\n", WTERMSIG(ended));
	return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

static inline bool
world(const char *variable, const char *value, int (*run) (void *argument), void *argument)
{
	return world_end(world_begin(variable, value, run, argument));
}

#endif							/* TEST_KERNELS_CUDA_NET_H */
