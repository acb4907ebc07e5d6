/*
 * cuda_faults.c
 *	  The CUDA device when CUDA fails: a launch, a GPU for good, a hang; and each of its calls in turn.
 *
 * Whatever fails: every ticket completes once, nothing is waited for without end, nothing leaks, and what is said is the
 * failure.  In children, on emulated GPUs.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_net.h"

#define CUDA_LAUNCH_RESOURCES	701	/* cudaErrorLaunchOutOfResources: of one launch */
#define CUDA_ILLEGAL_ADDRESS	700
#define CUDA_MEMORY				2
#define CUDA_UNKNOWN			999

static const struct emulation_control *control;

/* ---- one failure ---- */

/* What the last ticket but one has failed of is known until DEVICE_TICKETS_KEPT others have ended. */
static void
kept(struct net *net)
{
	const struct device_ops *ops = net->device->ops;
	struct status status;
	uint64_t	last;
	uint64_t	ticket;

	status_clear(&status);
	last = net_enqueue(net, 0, UINT32_MAX, ROWS, &status);
	ticket = last - 2;				/* and one more, after it failed */
	while (last < ticket + DEVICE_TICKETS_KEPT - 1)
		last = net_enqueue(net, 0, UINT32_MAX, ROWS, &status);
	world_ok(net_wait(net, last, &status) == DEVICE_DONE && ops->poll(net->queue, ticket, &status) == DEVICE_FAILED &&
			 status.error == INFER_ERROR_DEVICE, "how a run ended is known while %d have ended since: %s", DEVICE_TICKETS_KEPT - 1,
			 status.message);
	status_clear(&status);
	last = net_enqueue(net, 0, UINT32_MAX, ROWS, &status);
	world_ok(net_wait(net, last, &status) == DEVICE_DONE && ops->poll(net->queue, ticket, &status) == DEVICE_DONE &&
			 status.error == INFER_OK, "and then it is said to be done");
}

static int
launch_fails(void *argument)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct net	net;
	enum device_state state = DEVICE_FAILED;
	uint32_t	failed = 0;

	control = case_emulation();
	net_open(&net, device, false, 0);
	for (uint64_t call = 4; call <= 12; call++)
	{
		control->fail(call, CUDA_LAUNCH_RESOURCES, EMULATION_FAILS_ONCE);
		state = net_run(&net, ROWS, &status);
		if (control->failed() == NULL || strstr(control->failed(), "aunch") == NULL)
			continue;
		failed++;
		world_ok(state == DEVICE_FAILED && status.error == INFER_ERROR_DEVICE && strstr(status.message, "kernel") != NULL,
				 "a launch that fails is its run's failure: %s", status.message);
		control->fail(0, 0, 0);
		world_ok(net_run(&net, ROWS, &status) == DEVICE_DONE && net_right(&net, ROWS), "and of no other %s", status.message);
		break;
	}
	world_ok(failed > 0, "it came to a launch");
	kept(&net);
	net_free(&net);
	device_close(device);
	return world_failed != 0;
}

/* The GPU fails while it computes: for all queues, for good. */
static int
device_lost(void *argument)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct net	nets[2];
	uint64_t	tickets[6];
	enum device_state state;
	uint32_t	lost = 0;

	control = case_emulation();
	net_open(&nets[0], device, false, 0);
	net_open(&nets[1], device, false, 0);
	world_ok(net_run(&nets[0], ROWS, &status) == DEVICE_DONE, "a run is done %s", status.message);
	tickets[0] = 1;
	control->fail(6, CUDA_ILLEGAL_ADDRESS, EMULATION_FAILS_LATER);
	for (int i = 1; i < 6; i++)
		tickets[i] = net_enqueue(&nets[i % 2], 0, UINT32_MAX, ROWS, &status);
	for (int i = 1; i < 6; i++)
	{
		enum device_state again;

		status_clear(&status);
		if (tickets[i] == 0)
			continue;
		state = net_wait(&nets[i % 2], tickets[i], &status);
		lost += state == DEVICE_LOST;
		world_ok(state == DEVICE_LOST ? status.error == INFER_ERROR_DEVICE_LOST && strstr(status.message, "GPU 0") != NULL :
				 state == DEVICE_DONE, "a ticket of a GPU that is lost has ended before or is lost: %s", status.message);
		status_clear(&status);
		again = device->ops->poll(nets[i % 2].queue, tickets[i], &status);
		world_ok(again == state, "and stays it");
	}
	world_ok(lost > 0, "%u are lost", lost);
	status_clear(&status);
	world_ok(device->ops->poll(nets[0].queue, 1, &status) == DEVICE_DONE, "one that was done stays done");
	for (int n = 0; n < 2; n++)
	{
		status_clear(&status);
		world_ok(net_enqueue(&nets[n], 0, UINT32_MAX, ROWS, &status) == 0 && status.error == INFER_ERROR_DEVICE_LOST,
				 "no queue takes another: %s", status.message);
	}
	net_free(&nets[0]);
	net_free(&nets[1]);
	device_close(device);
	return world_failed != 0;
}

/* INFER_EMULATED_CUBLASLT=fine.  argument: with a part of the host's. */
static int
hang(void *argument)
{
	const uint32_t *handles;
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct net	net;
	uint64_t	ticket;
	enum device_state state = DEVICE_PENDING;

	control = case_emulation();
	net_open(&net, device, argument != NULL, 0);
	status_clear(&status);
	control->fail(5, CUDA_UNKNOWN, EMULATION_HANGS);
	ticket = net_enqueue(&net, 0, UINT32_MAX, ROWS, &status);
	for (int i = 0; i < 10 && state == DEVICE_PENDING; i++)
		state = device->ops->wait(net.queue, ticket, 1000 * 1000, &status);
	world_ok(state == DEVICE_LOST && status.error == INFER_ERROR_DEVICE_LOST && strstr(status.message, "hangs") != NULL,
			 "a run that does not end is lost: %s", status.message);
	net_free(&net);
	device_close(device);
	handles = dlsym(dlopen(case_cuda_library(), RTLD_NOW | RTLD_LOCAL), "emulation_library_handles");
	world_ok(*handles == 1, "cuBLASLt is not closed, which would wait for the run");
	fflush(stdout);
	_exit(world_failed != 0);		/* what a GPU that hangs holds cannot be freed */
}

/* ---- a load ---- */

static uint32_t load_busy;			/* atomic */
static uint64_t load_beat;

struct loading
{
	struct device *device;
	struct device_weight *weight;
	struct status status;
};

static void *
load_main(void *argument)
{
	static const float numbers[64 * 64];
	struct loading *loading = argument;
	struct device_weight_desc desc = {.type = DEVICE_F32, .k = 64, .n = 64, .stride_k = 64, .stride_n = 1, .data = numbers};

	loading->weight = loading->device->ops->weight_pack(loading->device, &desc, &loading->status);
	return NULL;
}

static struct device *
open_with_loads(struct status *status)
{
	struct device_options options = {
		.threads = 1, .library = case_cuda_library(), .load_beat = &load_beat, .load_busy = &load_busy
	};
	struct device *device;

	status_clear(status);
	device = device_open("cuda", &options, status);
	if (device == NULL)
		case_fail("open", status);
	return device;
}

/* The GPU hangs in a copy of a weight's. */
static int
load_hangs(void *argument)
{
	struct loading loading = {0};
	pthread_t	thread;
	uint64_t	beat;
	uint32_t	busy = 0;

	loading.device = open_with_loads(&loading.status);
	control = case_emulation();
	load_main(&loading);
	beat = __atomic_load_n(&load_beat, __ATOMIC_RELAXED);
	world_ok(loading.weight != NULL && beat > 0 && load_busy == 0, "a weight is copied, with %llu beats", (unsigned long long) beat);
	loading.device->ops->weight_free(loading.device, loading.weight);
	control->fail(1, CUDA_UNKNOWN, EMULATION_HANGS);
	pthread_create(&thread, NULL, load_main, &loading);
	for (int i = 0; i < 5000 && busy == 0; i++)
	{
		usleep(1000);
		busy = __atomic_load_n(&load_busy, __ATOMIC_RELAXED);
	}
	world_ok(busy > 0, "who watches the beats knows of a copy");
	pthread_join(thread, NULL);
	world_ok(loading.weight == NULL && loading.status.error == INFER_ERROR_DEVICE_LOST && strstr(loading.status.message, "hangs") != NULL,
			 "one that does not end loses the GPU: %s", loading.status.message);
	world_ok(__atomic_load_n(&load_busy, __ATOMIC_RELAXED) == 0, "and is waited for no more");
	fflush(stdout);
	_exit(world_failed != 0);
}

/* ---- each call ---- */

struct fault
{
	uint64_t	call;
	int			error;
	int			how;
	uint64_t   *calls;				/* shared: of a run without a fault */
};

/* Everything once; whatever fails, what is there is freed.  1: something is wrong with how it failed. */
static int
scenario(void *argument)
{
	struct fault *fault = argument;
	struct status status;
	struct device *device;
	struct net	net = {0};
	const char *failed;
	bool		good;
	uint32_t	errors = 0;

	control = case_emulation();
	if (fault->call > 0)
		control->fail(fault->call, fault->error, fault->how);
	device = open_cuda("cuda", 0, &status);
	if (device == NULL)
		return status.error == INFER_OK || control->failed() == NULL;
	net_define(&net, true, 4);
	good = net_compile(&net, device, &status);
	errors += !good && status.error == INFER_OK;
	for (int i = 0; good && i < 3; i++)
	{
		enum device_state state = net_run(&net, ROWS, &status);

		good = state == DEVICE_DONE;
		errors += state == DEVICE_PENDING || (good ? !net_right(&net, ROWS) : status.error == INFER_OK);
	}
	errors += !good && control->failed() == NULL;
	failed = control->failed();
	if (fault->calls != NULL)
		*fault->calls = control->calls();
	net_free(&net);
	device_close(device);
	if (errors > 0)
		printf("    # call %llu, %s: %s\n", (unsigned long long) fault->call, failed == NULL ? "none" : failed, status.message);
	return errors != 0;
}

static void
each_call(uint64_t calls, int error, int how, const char *what)
{
	uint32_t	bad = 0;

	for (uint64_t call = 1; call <= calls; call++)
	{
		struct fault fault = {.call = call, .error = error, .how = how};

		if (!world(NULL, NULL, scenario, &fault))
		{
			bad++;
			printf("# call %llu\n", (unsigned long long) call);
		}
	}
	tap_ok(bad == 0, "each of %llu calls %s: %u ended badly", (unsigned long long) calls, what, bad);
}

int
main(void)
{
	uint64_t   *calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fault none = {.calls = calls};
	pid_t		hangs[3];

	if (access(case_cuda_library(), R_OK) != 0)
	{
		tap_skip("the CUDA device", "its library is not built: make emulation");
		return tap_done();
	}
	tap_ok(world(NULL, NULL, launch_fails, NULL), "a launch fails");
	tap_ok(world(NULL, NULL, device_lost, NULL), "a GPU fails for good");
	hangs[0] = world_begin("INFER_EMULATED_CUBLASLT", "fine", hang, NULL);
	hangs[1] = world_begin("INFER_EMULATED_CUBLASLT", "fine", hang, &none);
	hangs[2] = world_begin(NULL, NULL, load_hangs, NULL);
	tap_ok(world(NULL, NULL, scenario, &none), "a device is opened, used and closed");
	tap_ok(*calls > 50, "in %llu calls", (unsigned long long) *calls);
	each_call(*calls, CUDA_MEMORY, EMULATION_FAILS_ONCE, "fails for want of memory");
	each_call(*calls, CUDA_UNKNOWN, EMULATION_FAILS_ONCE, "fails once");
	each_call(*calls, CUDA_ILLEGAL_ADDRESS, EMULATION_FAILS_FOR_GOOD, "fails for good");
	each_call(*calls, CUDA_ILLEGAL_ADDRESS, EMULATION_FAILS_LATER, "fails when its work is done");
	tap_ok(world_end(hangs[0]), "a GPU hangs");
	tap_ok(world_end(hangs[1]), "a GPU hangs before a part of the host's");
	tap_ok(world_end(hangs[2]), "a GPU hangs while a model is loaded");
	return tap_done();
}
