/*
 * cuda_device.c
 *	  The CUDA device but for its kernels, on emulated GPUs: which GPUs are served, programs whose parts the host computes,
 *	  tickets, segments, errors of rows, memory.
 */
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>

#include "cuda_net.h"

/* ---- what is computed ---- */

static void
test_runs(struct device *device, bool texts)
{
	struct net	net;
	struct status status;
	const char *what = texts ? "with texts on the host" : "without the host";

	net_open(&net, device, texts, 0);
	for (uint32_t rows = 0; rows <= ROWS; rows = rows * 2 + 1)
		tap_ok(net_run(&net, rows, &status) == DEVICE_DONE && net_right(&net, rows), "%s: %u rows %s", what, rows, status.message);
	memset(net.y, 0, ROWS * WIDTH * sizeof(float));
	for (uint32_t o = 0; o < net.ops_count; o++)
		if (net_wait(&net, net_enqueue(&net, o, o + 1, ROWS, &status), &status) != DEVICE_DONE)
			break;
	tap_ok(net_right(&net, ROWS), "%s: op by op %s", what, status.message);
	net_free(&net);
}

/* A run that is interrupted goes on where it was, whatever ran between on another arena. */
static void
test_nested(struct device *device)
{
	struct net	net;
	struct status status;
	void	   *outer;
	float	   *outer_y;
	bool		good = true;

	net_open(&net, device, true, 2);
	status_clear(&status);
	for (uint32_t cut = 1; good && cut < net.ops_count; cut++)
	{
		void	   *inner = device_buffer_alloc(device, net.queue, DEVICE_BUFFER_ARENA, net.arena_bytes, &status);

		memset(net.y, 0, ROWS * WIDTH * sizeof(float));
		good = net_wait(&net, net_enqueue(&net, 0, cut, ROWS, &status), &status) == DEVICE_DONE;
		outer = net.arena;
		outer_y = net.y;
		net.arena = inner;
		net.y = device_buffer_alloc(device, net.queue, DEVICE_BUFFER_STAGING, ROWS * WIDTH * sizeof(float), &status);
		good = good && net_run(&net, 33, &status) == DEVICE_DONE && net_right(&net, 33);
		device_buffer_free(device, DEVICE_BUFFER_STAGING, net.y);
		device_buffer_free(device, DEVICE_BUFFER_ARENA, inner);
		net.arena = outer;
		net.y = outer_y;
		good = good && net_wait(&net, net_enqueue(&net, cut, UINT32_MAX, ROWS, &status), &status) == DEVICE_DONE && net_right(&net, ROWS);
	}
	tap_ok(good, "a run goes on after others on another arena, wherever it was cut %s", status.message);
	net_free(&net);
}

/* ---- tickets ---- */

static void
test_tickets(struct device *device)
{
	struct net	net;
	struct status status;
	uint64_t	tickets[40];
	bool		good = true;
	int			done = 0;

	net_open(&net, device, false, 0);
	status_clear(&status);
	for (int i = 0; i < 40; i++)
		tickets[i] = net_enqueue(&net, 0, UINT32_MAX, ROWS, &status);
	for (int i = 1; i < 40; i++)
		good = good && tickets[i] == tickets[i - 1] + 1;
	tap_ok(good && tickets[0] > 0, "tickets of a queue are counted");
	tap_ok(net_wait(&net, tickets[39], &status) == DEVICE_DONE, "the last of many completes %s", status.message);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 40; i++)
			done += device->ops->poll(net.queue, tickets[i], &status) == DEVICE_DONE;
	tap_ok(done == 80, "and all before it, as often as one asks: %d", done);
	tap_ok(device->ops->poll(net.queue, tickets[39] + 1, &status) == DEVICE_PENDING, "one that was not given out is pending");
	tap_ok(device->ops->wait(net.queue, 0, 0, &status) == DEVICE_FAILED, "none at all has failed");
	tap_ok(device->ops->elapsed_nsec(net.queue, tickets[39]) > 0, "it took its time");
	tap_ok(net_right(&net, ROWS), "it computed");
	net_free(&net);
}

struct runner
{
	struct net	net;
	uint32_t	right;
};

static void *
runner_main(void *argument)
{
	struct runner *runner = argument;
	struct status status;

	for (uint32_t i = 0; i < 60; i++)
		runner->right += net_run(&runner->net, 1 + i % ROWS, &status) == DEVICE_DONE && net_right(&runner->net, 1 + i % ROWS);
	return NULL;
}

static void
test_threads(struct device *device)
{
	struct runner runners[3];
	pthread_t	threads[3];

	for (int r = 0; r < 3; r++)
	{
		runners[r].right = 0;
		net_open(&runners[r].net, device, r == 1, 4);
	}
	for (int r = 0; r < 3; r++)
		pthread_create(&threads[r], NULL, runner_main, &runners[r]);
	for (int r = 0; r < 3; r++)
		pthread_join(threads[r], NULL);
	tap_ok(runners[0].right == 60 && runners[1].right == 60 && runners[2].right == 60, "three queues at once: %u, %u, %u of 60 right",
		   runners[0].right, runners[1].right, runners[2].right);
	for (int r = 0; r < 3; r++)
		net_free(&runners[r].net);
}

/* ---- errors ---- */

/* A cast by the GPU, to text and back by the host, a division by the GPU: each fails for a row of its own. */
static void
test_row_errors(struct device *device)
{
	struct net	net = {0};
	struct status status;
	int32_t		t;
	int32_t		c;

	t = net_tensor(&net, DEVICE_F32, DEVICE_LEAD_ROWS, NULL, 0);
	c = net_op(&net, DEVICE_OP_CAST, 0, t, -1, DEVICE_I32, -1);	/* fails where x is NaN */
	t = net_op(&net, DEVICE_OP_CAST, 0, t, -1, DEVICE_STRING, -1);
	t = net_op(&net, DEVICE_OP_CAST, 0, t, -1, DEVICE_I64, -1);	/* where it is no integer */
	t = net_op(&net, DEVICE_OP_CAST, 0, t, -1, DEVICE_I32, -1);
	t = net_op(&net, DEVICE_OP_BINARY, BINARY_DIV, t, c, DEVICE_I32, -1);	/* where it is zero */
	net_op(&net, DEVICE_OP_CAST, 0, t, -1, DEVICE_F32, 1);
	status_clear(&status);
	if (!net_compile(&net, device, &status))
		case_fail("net", &status);
	for (int i = 0; i < 4 * WIDTH; i++)
		net.x[i] = 3;
	net.x[1 * WIDTH + 1] = NAN;
	net.x[2 * WIDTH + 4] = 1.5f;
	net.x[3 * WIDTH] = 0;
	tap_ok(net_run(&net, 4, &status) == DEVICE_DONE && net.row_error[0] == INFER_OK && net.row_message[0] == NULL && net.y[0] == 1,
		   "a row without an error has none %s", status.message);
	tap_ok(net.row_error[1] == INFER_ERROR_INPUT && strstr(net.row_message[1], "integer type") != NULL,
		   "the GPU's error came first: %s", net.row_message[1] == NULL ? "none" : net.row_message[1]);
	tap_ok(net.row_error[2] == INFER_ERROR_INPUT && strstr(net.row_message[2], "text is not") != NULL,
		   "the host's: %s", net.row_message[2] == NULL ? "none" : net.row_message[2]);
	tap_ok(net.row_error[3] == INFER_ERROR_INPUT && strstr(net.row_message[3], "division by zero") != NULL,
		   "the GPU's that comes last: %s", net.row_message[3] == NULL ? "none" : net.row_message[3]);
	net_free(&net);
}

static void
test_memory(void)
{
	struct status status;
	struct device *device = open_cuda("cuda", 1 << 20, &status);
	struct device_info info;
	struct net	net;
	void	   *small;
	void	   *large;
	char		wanted[32];

	device->ops->info(device, &info);
	tap_ok(info.bytes_budget == 1 << 20 && info.bytes_used == 0, "infer.gpu_memory is the budget");
	large = device_buffer_alloc(device, NULL, DEVICE_BUFFER_ARENA, (1 << 20) + 1, &status);
	snprintf(wanted, sizeof(wanted), "%d bytes", (1 << 20) + 256);
	tap_ok(large == NULL && status.error == INFER_ERROR_MEMORY && strstr(status.message, wanted) != NULL, "more is refused: %s",
		   status.message);
	tap_ok(strstr(status.hint, "Raise infer.gpu_memory") != NULL, "and the setting is to be raised: %s", status.hint);
	device_memory_hint(device, &info, &status);
	tap_ok(strstr(status.hint, "Raise infer.gpu_memory") != NULL, "as the engine says: %s", status.hint);
	net_open(&net, device, false, 0);
	device->ops->info(device, &info);
	tap_ok(info.bytes_used >= net.arena_bytes, "arenas count: %llu", (unsigned long long) info.bytes_used);
	tap_ok(net_run(&net, ROWS, &status) == DEVICE_DONE && net_right(&net, ROWS), "an arena of just arena_bytes() serves");
	device_buffer_free(device, DEVICE_BUFFER_ARENA, net.arena);
	status_clear(&status);
	small = device_buffer_alloc(device, net.queue, DEVICE_BUFFER_ARENA, net.arena_bytes - 1, &status);
	net.arena = small;
	tap_ok(net_enqueue(&net, 0, UINT32_MAX, ROWS, &status) == 0 && status.error == INFER_ERROR_INTERNAL, "one byte less does not: %s",
		   status.message);
	status_clear(&status);
	tap_ok(net_enqueue(&net, 0, UINT32_MAX, 1, &status) > 0 && net.device->ops->wait(net.queue, 1 + 1, 5000000, &status) == DEVICE_DONE,
		   "but for fewer rows");
	net_free(&net);
	device->ops->info(device, &info);
	tap_ok(info.bytes_used == 0, "all is given back: %llu", (unsigned long long) info.bytes_used);
	device_close(device);
}

/* The budget is what is free: to raise the setting from 0 would lower it. */
static void
test_memory_free(void)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);
	struct device_info info;
	void	   *large;

	device->ops->info(device, &info);
	large = device_buffer_alloc(device, NULL, DEVICE_BUFFER_ARENA, info.bytes_budget + 1, &status);
	tap_ok(large == NULL && status.error == INFER_ERROR_MEMORY && strstr(status.hint, "infer.gpu_memory") == NULL &&
		   strstr(status.hint, "infer.restart_engine") != NULL, "no setting has more than is free: %s", status.hint);
	device_memory_hint(device, &info, &status);
	tap_ok(strstr(status.hint, "infer.gpu_memory") == NULL && strstr(status.hint, "infer.restart_engine") != NULL, "as the engine says: %s",
		   status.hint);
	device_close(device);
}

/* ---- opening: the tests below are of emulated GPUs ---- */

struct refusal
{
	const char *setting;
	const char *message;		/* how it begins */
};

static int
refuse(void *argument)
{
	const struct refusal *refusal = argument;
	struct status status;
	struct device *device = open_cuda(refusal->setting, 0, &status);

	printf("# %s\n", device != NULL ? "it opened" : status.message);
	return device == NULL && status.error == INFER_ERROR_UNSUPPORTED &&
		strncmp(status.message, refusal->message, strlen(refusal->message)) == 0 ? 0 : 1;
}

static void
world_refuses(const char *variable, const char *value, const char *setting, const char *message)
{
	struct refusal refusal = {setting, message};

	tap_ok(world(variable, value, refuse, &refusal), "%s=%s, %s: %s", variable == NULL ? "nothing" : variable,
		   variable == NULL ? "" : value, setting, message);
}

/* What a device says of itself, which is opened for that. */
static bool
opened_info(struct device_info *info)
{
	struct status status;
	struct device *device = open_cuda("cuda", 0, &status);

	*info = (struct device_info) {0};
	if (device == NULL)
		return false;
	device->ops->info(device, info);
	device_close(device);
	return true;
}

/* INFER_EMULATED_BUILT=75, on sm_80 */
static int
translated(void *argument)
{
	struct device_info info;

	if (!opened_info(&info))
		return 1;
	printf("# %s\n", info.detail);
	return strstr(info.detail, "code for sm_80, made anew at each start") == NULL;
}

/* INFER_EMULATED_GPUS=3.  Each call while they are opened fails, once. */
static int
left_out(void *argument)
{
	const struct emulation_control *control = case_emulation();
	bool		seen = false;

	for (uint64_t call = 1; call < 1000; call++)
	{
		struct status status;
		struct device *device;
		struct device_info info = {0};
		char		text[256] = "";
		const char *failed;

		control->fail(call, 2, EMULATION_FAILS_ONCE);
		device = open_cuda("cuda", 0, &status);
		failed = control->failed();
		control->fail(0, 0, EMULATION_FAILS_ONCE);
		if (device != NULL)
		{
			device->ops->info(device, &info);
			device_close(device);
		}
		if (strcmp(info.name, "cuda:0,2") == 0)
		{
			seen = true;
			if (info.threads != 2 || strncmp(info.detail, "GPU 1 ", 6) != 0 || strstr(info.description, "2 GPUs") == NULL)
				return 1;
		}
		if (control->leaks(text, sizeof(text)) > 0)
		{
			printf("# %s: not freed: %s\n", failed, text);
			return 1;
		}
		if (failed == NULL)
			return device == NULL || !seen;
		if (device == NULL && status.error == 0)
			return 1;
	}
	return 1;
}

#define IDS		4

/* INFER_EMULATED_PROCESSORS and _CUBLASLT say what there is; argument: where the numerics id goes. */
static int
note_numerics(void *argument)
{
	struct device_info info;

	if (!opened_info(&info))
		return 1;
	memcpy(argument, info.numerics_id, sizeof(info.numerics_id));
	return 0;
}

/* cuBLASLt proposes algorithms by the model of GPU and its multiprocessors. */
static void
test_numerics(void)
{
	static const char *const libraries[IDS] = {"", "", "fine", "fine"};
	static const char *const processors[IDS] = {"4", "6", "4", "6"};
	char		(*ids)[sizeof(((struct device_info *) NULL)->numerics_id)] =
		mmap(NULL, IDS * sizeof(*ids), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool		there = ids != MAP_FAILED;

	for (int i = 0; i < IDS && there; i++)
	{
		setenv("INFER_EMULATED_CUBLASLT", libraries[i], 1);
		there = world("INFER_EMULATED_PROCESSORS", processors[i], note_numerics, ids[i]);
	}
	unsetenv("INFER_EMULATED_CUBLASLT");
	tap_ok(there && strcmp(ids[0], ids[1]) == 0, "own kernels have the same bits on all GPUs of an architecture: %s", there ? ids[0] : "");
	tap_ok(there && strcmp(ids[2], ids[3]) != 0, "cuBLASLt may have others where there are more multiprocessors: %s, %s",
		   there ? ids[2] : "", there ? ids[3] : "");
}

static int
emulated(void *argument)
{
	return case_emulation() == NULL;
}

static void
test_opening(void)
{
	/* in a child: the emulation reads the environment when it is opened */
	if (!world(NULL, NULL, emulated, NULL))
	{
		tap_skip("which GPUs are served", "what there is cannot be chosen");
		return;
	}
	world_refuses("INFER_EMULATED_DRIVER", "0", "cuda", "no CUDA driver");
	world_refuses("INFER_EMULATED_DRIVER", "11040", "cuda", "the CUDA driver is too old for this build");
	world_refuses("INFER_EMULATED_GPUS", "0", "cuda", "no GPU");
	world_refuses("INFER_EMULATED_SM", "70", "cuda", "GPU 0, Emulated GPU, has compute capability 7.0, which is not served");
	world_refuses(NULL, NULL, "cuda:3", "GPU 3 does not exist");
	tap_ok(world("INFER_EMULATED_BUILT", "75", translated, NULL), "that kernels are built for another GPU is said");
	tap_ok(world("INFER_EMULATED_GPUS", "3", left_out, NULL), "a GPU that does not start is left out, and that is said");
	test_numerics();
}

static void
test_info(struct device *device)
{
	struct device_info info;
	char		numerics[80];

	device->ops->info(device, &info);
	tap_ok(strcmp(info.kind, "cuda") == 0 && strncmp(info.name, "cuda:", 5) == 0 && strncmp(info.arch, "sm_", 3) == 0 && info.async,
		   "it is %s, %s, %s", info.name, info.arch, info.description);
	snprintf(numerics, sizeof(numerics), "cuda-sm%.8s-", info.arch + 3);
	tap_ok(strncmp(info.numerics_id, numerics, strlen(numerics)) == 0 &&
		   info.precision_default == (atoi(info.arch + 3) >= 80 ? DEVICE_PRECISION_BF16 : DEVICE_PRECISION_FULL), "its numbers are %s",
		   info.numerics_id);
	tap_ok(info.inflight_max == 2 * info.threads && info.bytes_budget > 0 && info.bytes_budget < info.bytes_total && info.flops[0] > 0, "its figures");
}

int
main(void)
{
	struct status status;
	struct device *device;

	if (access(case_cuda_library(), R_OK) != 0)
	{
		tap_skip("the CUDA device", "its library is not built: make emulation");
		return tap_done();
	}
	test_opening();
	device = open_cuda("cuda", 0, &status);
	if (device == NULL)
		case_fail("cuda", &status);
	test_info(device);
	test_runs(device, false);
	test_runs(device, true);
	test_nested(device);
	test_tickets(device);
	test_row_errors(device);
	test_threads(device);
	device_close(device);
	test_memory();
	test_memory_free();
	return tap_done();
}
