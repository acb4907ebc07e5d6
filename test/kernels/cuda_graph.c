/*
 * cuda_graph.c
 *	  The CUDA device in the long run: what is not waited for, graphs that are captured, several GPUs, and that nothing grows.
 *
 * On emulated GPUs, whose streams do their work late; counts are those of the emulation.
 */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "cuda_net.h"

#define PLANS	44
#define PATIENCE	5000			/* msec in which the watcher captures */

static const struct emulation_control *control;

/* Calls of the runtime that enqueue makes, and perhaps one or two of the watcher's. */
static uint64_t
enqueue_calls(struct net *net, uint32_t first, uint32_t last, uint32_t rows, uint64_t *ticket)
{
	struct status status;
	uint64_t	before = control->calls();

	status_clear(&status);
	*ticket = net_enqueue(net, first, last, rows, &status);
	return control->calls() - before;
}

static bool
run_counted(struct net *net, uint32_t rows, uint64_t *calls)
{
	struct status status;
	uint64_t	ticket;

	status_clear(&status);
	memset(net->y, 0, ROWS * WIDTH * sizeof(float));
	*calls = enqueue_calls(net, 0, UINT32_MAX, rows, &ticket);
	return net_wait(net, ticket, &status) == DEVICE_DONE && net_right(net, rows);
}

/* Until a run makes far fewer calls than it has plans; false: that has not come. */
static bool
run_captured(struct net *net, uint32_t rows, bool *right)
{
	uint64_t	calls = UINT64_MAX;

	for (int i = 0; *right && calls > PLANS / 2 && i < PATIENCE; i++)
	{
		*right = run_counted(net, rows, &calls);
		if (i > 8)
			usleep(1000);
	}
	return calls <= PLANS / 2;
}

static int
graphs(void *argument)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct device_info info;
	struct net	net;
	uint64_t	plain;
	uint64_t	used;
	uint64_t	calls;
	bool		right = true;

	control = case_emulation();
	net_open(&net, device, false, PLANS - 4);
	device->ops->info(device, &info);
	used = info.bytes_used;
	right = run_counted(&net, ROWS, &plain);
	world_ok(right && plain >= PLANS, "a run is launched plan by plan at first: %llu calls", (unsigned long long) plain);
	world_ok(run_captured(&net, ROWS, &right), "and as one graph after a while");
	device->ops->info(device, &info);
	world_ok(info.bytes_used > used, "which counts: %llu bytes more", (unsigned long long) (info.bytes_used - used));
	for (uint32_t rows = 65; right && rows <= ROWS; rows++)
		right = run_counted(&net, rows, &calls) && calls <= PLANS / 2;
	world_ok(right, "batches of its bucket are served by the same graph, with the same results");
	right = run_counted(&net, 64, &calls) && calls >= PLANS;
	world_ok(right, "those of another are not");
	net_free(&net);
	device->ops->info(device, &info);
	world_ok(info.bytes_used == 0, "and go with their program: %llu", (unsigned long long) info.bytes_used);
	net_open(&net, device, true, PLANS - 6);
	right = true;
	for (int i = 0; right && i < 20; i++)
		right = run_counted(&net, ROWS, &calls) && calls >= PLANS - 2;
	usleep(20000);
	world_ok(right && run_counted(&net, ROWS, &calls) && calls >= PLANS - 2, "a program with parts of the host's is not captured");
	net_free(&net);
	device_close(device);
	return world_failed != 0;
}

/* More ranges and buckets than graphs are kept. */
static int
bounded(void *argument)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct device_info info;
	struct net	net;
	uint64_t	used;
	uint32_t	things;
	char		text[64];
	bool		right = true;

	control = case_emulation();
	net_open(&net, device, false, PLANS - 4);
	device->ops->info(device, &info);
	used = info.bytes_used;
	things = control->leaks(text, sizeof(text));
	for (uint32_t cut = 4; right && cut <= 16; cut++)
		for (uint32_t rows = 1; right && rows <= 8; rows++)
			for (int i = 0; right && i < 6; i++)
			{
				status_clear(&status);
				memset(net.y, 0, ROWS * WIDTH * sizeof(float));
				net_enqueue(&net, 0, cut, rows, &status);
				right = net_wait(&net, net_enqueue(&net, cut, UINT32_MAX, rows, &status), &status) == DEVICE_DONE && net_right(&net, rows);
			}
	world_ok(right, "ranges and buckets in any number are right %s", status.message);
	usleep(100000);
	device->ops->info(device, &info);
	things = control->leaks(text, sizeof(text)) - things;
	world_ok(things > 0 && things <= 128, "so many graphs are kept: %u", things);
	world_ok(info.bytes_used - used <= UINT64_C(64) << 20, "of so many bytes: %llu", (unsigned long long) (info.bytes_used - used));
	net_free(&net);
	device_close(device);
	return world_failed != 0;
}

/* Allocations, streams and events stay as many. */
static int
steady(void *argument)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct net	net;
	uint32_t	things = 0;
	char		text[64];
	bool		right = true;

	control = case_emulation();
	net_open(&net, device, true, 0);
	for (int i = 0; right && i < 300; i++)
	{
		right = net_run(&net, i % 3 == 0 ? 1 : i % 3 == 1 ? ROWS : 7, &status) == DEVICE_DONE;
		if (i == 20)
			things = control->leaks(text, sizeof(text));
	}
	world_ok(right && control->leaks(text, sizeof(text)) == things, "after its first runs a program takes nothing more: %u", things);
	net_free(&net);
	device_close(device);
	return world_failed != 0;
}

/* Until somebody waits or polls nothing need have run, and enqueue does not wait for it. */
static int
asynchronous(void *argument)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct net	net;
	uint32_t	late = 0;
	uint64_t	ticket = 0;

	control = case_emulation();
	net_open(&net, device, false, 0);
	for (uint64_t seed = 1; seed <= 200; seed++)
	{
		uint64_t	before;

		control->set_seed(seed);
		before = control->launches();
		status_clear(&status);
		ticket = net_enqueue(&net, 0, UINT32_MAX, ROWS, &status);
		late += control->launches() - before < net.ops_count;
		if (net_wait(&net, ticket, &status) != DEVICE_DONE || !net_right(&net, ROWS))
			return 1;
	}
	world_ok(late > 20, "enqueue has returned before the run had ended %u times of 200", late);
	net_enqueue(&net, 0, UINT32_MAX, ROWS, &status);
	ticket = net_enqueue(&net, 0, UINT32_MAX, ROWS, &status);
	device->ops->cancel(net.queue, ticket);
	world_ok(net_wait(&net, ticket, &status) == DEVICE_DONE, "a ticket that is cancelled completes all the same %s", status.message);
	net_enqueue(&net, 0, UINT32_MAX, ROWS, &status);
	net_free(&net);
	world_ok(true, "a queue is freed with a run in flight");
	net_open(&net, device, true, 0);
	device->ops->cancel(net.queue, 5);
	world_ok(net_run(&net, ROWS, &status) == DEVICE_DONE && net_right(&net, ROWS),
			 "a run whose ticket has not been given out cannot be cancelled, before a part of the host's either %s", status.message);
	net_free(&net);
	device_close(device);
	return world_failed != 0;
}

/* Through an integer, which a NaN is not: that row fails. */
static void
net_open_failing(struct net *net, struct device *device, uint32_t row)
{
	struct status status;
	int32_t		t;

	status_clear(&status);
	memset(net, 0, sizeof(*net));
	t = net_tensor(net, DEVICE_F32, DEVICE_LEAD_ROWS, NULL, 0);
	t = net_op(net, DEVICE_OP_CAST, 0, t, -1, DEVICE_I32, -1);
	net_op(net, DEVICE_OP_CAST, 0, t, -1, DEVICE_F32, 1);
	if (!net_compile(net, device, &status))
		case_fail("net", &status);
	net->x[row * WIDTH] = NAN;
}

/* Nobody waits or asks: the watcher completes it, and tells which rows failed. */
static int
watched(void *argument)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct net	net;

	for (uint32_t round = 0; round < 3; round++)
	{
		uint32_t   *error = &net.row_error[round];

		net_open_failing(&net, device, round);
		net_enqueue(&net, 0, UINT32_MAX, ROWS, &status);
		for (int i = 0; i < PATIENCE && __atomic_load_n(error, __ATOMIC_ACQUIRE) == INFER_OK; i++)
			usleep(1000);
		world_ok(__atomic_load_n(error, __ATOMIC_ACQUIRE) == INFER_ERROR_INPUT, "a ticket that nobody asks for completes");
		usleep(round * 150000);		/* it has gone to sleep */
		net_free(&net);
	}
	device_close(device);
	return world_failed != 0;
}

struct staging
{
	struct device *device;
	void	   *memory;
	struct status status;
};

static void *
staging_main(void *argument)
{
	struct staging *staging = argument;

	staging->memory = device_buffer_alloc(staging->device, NULL, DEVICE_BUFFER_STAGING, 100, &staging->status);
	return NULL;
}

static void *
free_main(void *argument)
{
	struct staging *staging = argument;

	device_buffer_free(staging->device, DEVICE_BUFFER_STAGING, staging->memory);
	return NULL;
}

/* By threads that do nothing else: the emulation reports what would take memory of a GPU that is not the device's. */
static bool
staging_by_threads(struct device *device)
{
	struct staging staging = {.device = device};
	pthread_t	thread;

	pthread_create(&thread, NULL, staging_main, &staging);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, free_main, &staging);
	pthread_join(thread, NULL);
	return staging.memory != NULL;
}

struct asking						/* by a thread that has chosen no GPU */
{
	struct net *net;
	uint64_t	ticket;
	bool		waits;
	enum device_state state;
};

static void *
ask_main(void *argument)
{
	struct asking *asking = argument;
	struct status status;

	status_clear(&status);
	asking->state = asking->waits ? net_wait(asking->net, asking->ticket, &status) :
		asking->net->device->ops->poll(asking->net->queue, asking->ticket, &status);
	return NULL;
}

static bool
asked_by_threads(struct net *net)
{
	bool		good = true;

	for (int i = 0; good && i < 10; i++)
	{
		struct asking asking = {.net = net, .waits = i % 2 != 0};
		struct status status;
		pthread_t	thread;

		status_clear(&status);
		asking.ticket = net_enqueue(net, 0, UINT32_MAX, ROWS, &status);
		pthread_create(&thread, NULL, ask_main, &asking);
		pthread_join(thread, NULL);
		good = asking.state == DEVICE_DONE || (!asking.waits && asking.state == DEVICE_PENDING);
		good = net_wait(net, asking.ticket, &status) == DEVICE_DONE && good;
	}
	return good;
}

/* INFER_EMULATED_GPUS=2 */
static int
two_gpus(void *argument)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct device_info info;
	struct net	nets[2];
	void	   *arena;
	uint64_t	tickets[2];
	bool		right = true;

	device->ops->info(device, &info);
	world_ok(strcmp(info.name, "cuda:0,1") == 0 && info.inflight_max == 4 && strstr(info.description, "2 GPUs") != NULL,
		   "two GPUs are one device: %s, %s", info.name, info.description);
	net_open(&nets[0], device, false, 0);
	net_open(&nets[1], device, true, 2);
	for (int i = 0; right && i < 20; i++)
	{
		for (int n = 0; n < 2; n++)
		{
			memset(nets[n].y, 0, ROWS * WIDTH * sizeof(float));
			tickets[n] = net_enqueue(&nets[n], 0, UINT32_MAX, ROWS, &status);
		}
		for (int n = 0; n < 2; n++)
			right = right && net_wait(&nets[n], tickets[n], &status) == DEVICE_DONE && net_right(&nets[n], ROWS);
	}
	world_ok(right, "queues take turns on them, with the same results %s", status.message);
	arena = nets[0].arena;
	nets[0].arena = nets[1].arena;
	world_ok(net_enqueue(&nets[0], 0, UINT32_MAX, 1, &status) == 0 && status.error == INFER_ERROR_INTERNAL,
		   "an arena of the other GPU is refused: %s", status.message);
	nets[0].arena = arena;
	net_free(&nets[0]);
	net_free(&nets[1]);
	device_close(device);
	device = open_cuda("cuda:1", 0, &status);
	device->ops->info(device, &info);
	net_open(&nets[0], device, false, 0);
	world_ok(strcmp(info.name, "cuda:1") == 0 && net_run(&nets[0], ROWS, &status) == DEVICE_DONE && net_right(&nets[0], ROWS),
		   "or one alone: %s", info.name);
	world_ok(staging_by_threads(device), "any thread may ask for host memory, and free it");
	world_ok(asked_by_threads(&nets[0]), "and may ask for the end of a run, and wait for it");
	net_free(&nets[0]);
	device_close(device);
	return world_failed != 0;
}

int
main(void)
{
	if (access(case_cuda_library(), R_OK) != 0)
	{
		tap_skip("the CUDA device", "its library is not built: make emulation");
		return tap_done();
	}
	tap_ok(world(NULL, NULL, graphs, NULL), "graphs");
	tap_ok(world(NULL, NULL, bounded, NULL), "bounds of graphs");
	tap_ok(world(NULL, NULL, steady, NULL), "steady");
	tap_ok(world(NULL, NULL, asynchronous, NULL), "asynchronous");
	tap_ok(world(NULL, NULL, watched, NULL), "watched");
	tap_ok(world("INFER_EMULATED_GPUS", "2", two_gpus, NULL), "two GPUs");
	return tap_done();
}
