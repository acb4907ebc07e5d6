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
#include "wiring.h"

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
	world_ok(loading.device->host->load_busy == &load_busy, "who computes constants for the device is watched as it is");
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

struct fault_net
{
	const char *name;
	void		(*define) (struct wiring *w);
};

static const struct fault_net nets[] = {
	{"ops by element and texts", wire_texts},
	{"a product", wire_product},
	{"a product in bf16", wire_bf16},
	{"a product in int8", wire_int8},
	{"trees", wire_trees},
	{"an encoder", wire_encoder}
};

static const struct
{
	int			error;
	int			how;
	const char *name;
}			ways[] = {
	{CUDA_MEMORY, EMULATION_FAILS_ONCE, "for want of memory"},
	{CUDA_UNKNOWN, EMULATION_FAILS_ONCE, "once"},
	{CUDA_ILLEGAL_ADDRESS, EMULATION_FAILS_FOR_GOOD, "for good"},
	{CUDA_ILLEGAL_ADDRESS, EMULATION_FAILS_LATER, "when its work is done"}
};

#define NETS	((int) (sizeof(nets) / sizeof(*nets)))
#define WAYS	((int) (sizeof(ways) / sizeof(*ways)))
#define RUNS	3

struct fine							/* shared: of a net when nothing fails */
{
	uint64_t	calls;
	float		y[WIRED_TOKENS * WIRED_WIDTH];
};

struct fault
{
	const struct fault_net *net;
	struct fine *fine;
	uint64_t	call;				/* 0: none; fine is filled */
	int			way;
};

/* What went wrong with how it failed: the first thing. */
static const char *complaint;

static void
expect(bool right, const char *otherwise)
{
	if (!right && complaint == NULL)
		complaint = otherwise;
}

/* Of something that has failed. */
static void
expect_said(const struct status *status, bool run)
{
	expect(control->failed() != NULL, "it failed without a call that did");
	expect(status->error != INFER_OK && status->message[0] != '\0', "it did not say why");
	expect(strstr(status->message, "GPU") != NULL || strstr(status->message, "page-locked") != NULL || run, "it did not say of what");
	expect(status->error == INFER_ERROR_MEMORY || status->error == INFER_ERROR_DEVICE || status->error == INFER_ERROR_DEVICE_LOST ||
		   status->error == INFER_ERROR_UNSUPPORTED, "it is of another kind of error");
	expect(status->error != INFER_ERROR_UNSUPPORTED || !run, "a run is no longer supported");
}

/* A ticket ends once: as it has ended, and with the same words, whoever asks and how often. */
static enum device_state
ticket_ends(struct wiring *w, uint64_t ticket, struct status *status)
{
	enum device_state state = w->device->ops->wait(w->queue, ticket, 5 * 1000 * 1000, status);

	expect(state != DEVICE_PENDING, "a ticket did not end");
	expect((state == DEVICE_DONE) == (status->error == INFER_OK), "how a ticket ended and what was said are at odds");
	expect((state == DEVICE_LOST) == (status->error == INFER_ERROR_DEVICE_LOST), "a lost device was not said to be");
	for (int i = 0; i < 2; i++)
	{
		struct status again;

		status_clear(&again);
		expect(w->device->ops->poll(w->queue, ticket, &again) == state && again.error == status->error &&
			   strcmp(again.message, status->message) == 0, "a ticket ended twice");
	}
	if (state != DEVICE_DONE)
		expect_said(status, true);
	return state;
}

/* Some runs in flight, all of which end.  false: one did not become right. */
static bool
runs_end(struct wiring *w, int runs, const struct fine *fine, struct status *status)
{
	uint64_t	tickets[RUNS];
	bool		done = true;

	memset(w->y, 0xAA, w->y_count * sizeof(float));
	memset(w->row_error, 0, sizeof(w->row_error));
	for (int r = 0; r < runs; r++)
	{
		status_clear(status);
		tickets[r] = wiring_enqueue(w, status);
		expect((tickets[r] == 0) == (status->error != INFER_OK), "enqueue is at odds with what it said");
		if (tickets[r] == 0)
			expect_said(status, true);
		done = done && tickets[r] != 0;
	}
	for (int r = 0; r < runs; r++)
	{
		status_clear(status);
		if (tickets[r] != 0)
			done = ticket_ends(w, tickets[r], status) == DEVICE_DONE && done;
	}
	for (int r = 0; done && r < WIRED_ROWS; r++)
		expect(w->row_error[r] == INFER_OK, "a row has an error");
	if (done && fine != NULL)
		expect(memcmp(w->y, fine->y, w->y_count * sizeof(float)) == 0, "it became something else");
	return done;
}

/* What the CPU makes of it is near. */
static void
expect_near_cpu(const struct fault_net *net, struct device *host, const float *y, size_t count)
{
	struct wiring w = {0};
	struct status status;

	status_clear(&status);
	net->define(&w);
	expect(wiring_compile(&w, host, &status) && runs_end(&w, 1, NULL, &status), "the CPU does not compute it");
	for (size_t i = 0; complaint == NULL && i < count; i++)
		expect(fabsf(w.y[i] - y[i]) <= 0.02f * (1 + fabsf(w.y[i])), "the CPU makes something else of it");
	wiring_free(&w);
}

/*
 * Everything once; whatever fails, what is there is freed.  After a failure of one call alone everything is done again on the same
 * device, which works.  1: something is wrong with how it failed.
 */
static int
scenario(void *argument)
{
	struct fault *fault = argument;
	const struct fine *fine = fault->call > 0 ? fault->fine : NULL;
	struct status status;
	struct device *device;
	bool		good = false;
	bool		once = ways[fault->way].how == EMULATION_FAILS_ONCE;

	control = case_emulation();
	control->set_seed(1);			/* the same calls each time, as far as threads allow */
	if (fault->call > 0)
		control->fail(fault->call, ways[fault->way].error, ways[fault->way].how);
	device = open_cuda("cuda", 0, &status);
	if (device == NULL)
		expect_said(&status, false);
	for (int attempt = 0; device != NULL && attempt < (once ? 2 : 1) && !good; attempt++)
	{
		struct wiring w = {0};

		status_clear(&status);
		fault->net->define(&w);
		good = wiring_compile(&w, device, &status);
		if (!good)
			expect_said(&status, false);
		good = good && runs_end(&w, 1, fine, &status);
		good = good && runs_end(&w, RUNS - 1, fine, &status);
		if (good && fine == NULL)
		{
			memcpy(fault->fine->y, w.y, w.y_count * sizeof(float));
			fault->fine->calls = control->calls();
			expect_near_cpu(fault->net, device->host, w.y, w.y_count);
		}
		expect(good || fault->call > 0, status.message);
		expect(good || status.error == INFER_ERROR_DEVICE_LOST || attempt == 0, "one call's failure is also what follows");
		wiring_free(&w);
		good = good || status.error == INFER_ERROR_DEVICE_LOST;
	}
	if (device != NULL)
		device_close(device);
	if (complaint != NULL)
		printf("    # %s, call %llu (%s) fails %s: %s (%s)\n", fault->net->name, (unsigned long long) fault->call,
			   control->failed() == NULL ? "none" : control->failed(), ways[fault->way].name, complaint, status.message);
	return complaint != NULL;
}

/* Under sanitizers, where a child takes its time, each call fails in one of the ways. */
static void
each_call(const struct fault_net *net, struct fine *fine, int way)
{
	bool		hurries = getenv("INFER_SANITIZED") != NULL;
	uint32_t	bad = 0;

	for (uint64_t call = 1; call <= fine->calls; call++)
	{
		struct fault fault = {.net = net, .fine = fine, .call = call, .way = way};

		if (hurries && (call + (uint64_t) (net - nets)) % WAYS != (uint64_t) way)
			continue;
		if (!world(NULL, NULL, scenario, &fault))
		{
			bad++;
			printf("# call %llu\n", (unsigned long long) call);
		}
	}
	tap_ok(bad == 0, "%s: each of %llu calls fails %s: %u ended badly", net->name, (unsigned long long) fine->calls, ways[way].name, bad);
}

int
main(void)
{
	struct fine *fine = mmap(NULL, NETS * sizeof(*fine), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static int	before_host;
	pid_t		hangs[3];

	if (access(case_cuda_library(), R_OK) != 0)
	{
		tap_skip("the CUDA device", "its library is not built: make emulation");
		return tap_done();
	}
	tap_ok(world(NULL, NULL, launch_fails, NULL), "a launch fails");
	tap_ok(world(NULL, NULL, device_lost, NULL), "a GPU fails for good");
	hangs[0] = world_begin("INFER_EMULATED_CUBLASLT", "fine", hang, NULL);
	hangs[1] = world_begin("INFER_EMULATED_CUBLASLT", "fine", hang, &before_host);
	hangs[2] = world_begin(NULL, NULL, load_hangs, NULL);
	for (int n = 0; n < NETS; n++)
	{
		struct fault none = {.net = &nets[n], .fine = &fine[n]};

		tap_ok(world(NULL, NULL, scenario, &none) && fine[n].calls > 50, "%s: a device is opened, used and closed", nets[n].name);
		for (int way = 0; way < WAYS; way++)
			each_call(&nets[n], &fine[n], way);
	}
	tap_ok(world_end(hangs[0]), "a GPU hangs");
	tap_ok(world_end(hangs[1]), "a GPU hangs before a part of the host's");
	tap_ok(world_end(hangs[2]), "a GPU hangs while a model is loaded");
	return tap_done();
}
