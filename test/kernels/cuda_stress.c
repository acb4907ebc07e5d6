/*
 * cuda_stress.c
 *	  The CUDA device by several threads at random: two queues, runs within each other's segments, programs that come and go, arenas
 *	  that are too small.  What is right stays right.
 *
 * INFER_STRESS_ROUNDS: of each thread, 60 if it is not set.
 */
#include <pthread.h>

#include "cuda_net.h"

#define RUNNERS		2
#define NETS		12

static struct device *device;
static uint32_t rounds = 60;
static uint32_t bad;				/* atomic */

static void
expect(bool right, const char *what, const struct status *status)
{
	if (right)
		return;
	printf("# %s: %s\n", what, status->message);
	__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
}

static uint32_t
below(uint64_t *seed, uint32_t n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t) ((*seed >> 33) % n);
}

/* A run in parts, another net's between them on the same queue. */
static void
run_nested(struct net *outer, struct net *inner, uint64_t *seed)
{
	uint32_t	rows = below(seed, 10) == 0 ? 0 : below(seed, ROWS + 1);
	uint32_t	rows_inner = below(seed, ROWS + 1);
	struct status status;
	bool		done = true;

	status_clear(&status);
	memset(outer->row_error, 0, sizeof(outer->row_error));
	memset(outer->y, 0, ROWS * WIDTH * sizeof(float));
	for (uint32_t first = 0; first < outer->ops_count && done;)
	{
		uint32_t	last = first + 1 + below(seed, outer->ops_count - first);

		last = last >= outer->ops_count ? UINT32_MAX : last;
		done = net_wait(outer, net_enqueue(outer, first, last, rows, &status), &status) == DEVICE_DONE;
		first = last;
		if (inner != outer && below(seed, 3) == 0)
		{
			struct status other;

			expect(net_run(inner, rows_inner, &other) == DEVICE_DONE && net_right(inner, rows_inner), "a run within another", &other);
		}
	}
	expect(done && net_right(outer, rows), "a run in parts", &status);
}

/* Without waiting between parts, and looked at now and then. */
static void
run_ahead(struct net *net, uint64_t *seed)
{
	uint32_t	rows = below(seed, ROWS + 1);
	uint32_t	cut = 1 + below(seed, net->ops_count - 1);
	struct status status;
	uint64_t	tickets[2];

	status_clear(&status);
	memset(net->row_error, 0, sizeof(net->row_error));
	memset(net->y, 0, ROWS * WIDTH * sizeof(float));
	tickets[0] = net_enqueue(net, 0, cut, rows, &status);
	tickets[1] = net_enqueue(net, cut, UINT32_MAX, rows, &status);
	net->device->ops->poll(net->queue, tickets[0], &status);
	if (below(seed, 4) == 0)
		net->device->ops->cancel(net->queue, tickets[0] - 1);
	expect(net_wait(net, tickets[1], &status) == DEVICE_DONE && net_right(net, rows), "a run ahead", &status);
}

/* An arena for fewer rows is refused, and nothing is lost. */
static void
run_cramped(struct net *net)
{
	uint32_t	items[DEVICE_LEADS] = {1, 16};
	struct device_batch batch = {.items = {1, ROWS}, .row_error = net->row_error};
	void	   *bindings[2] = {net->x, net->y};
	struct status status;
	void	   *arena;

	status_clear(&status);
	arena = device_buffer_alloc(device, net->queue, DEVICE_BUFFER_ARENA, device->ops->arena_bytes(net->program, items), &status);
	expect(arena != NULL, "a small arena", &status);
	status_clear(&status);
	expect(device->ops->enqueue(net->queue, net->program, 0, UINT32_MAX, &batch, bindings, arena, &status) == 0 &&
		   status.error == INFER_ERROR_INTERNAL, "an arena that is too small is refused", &status);
	device_buffer_free(device, DEVICE_BUFFER_ARENA, arena);
}

/* All nets of a runner share its queue. */
static void *
runner(void *argument)
{
	uint64_t	seed = (uint64_t) (uintptr_t) argument;
	struct net *nets = calloc(NETS, sizeof(*nets));
	struct device_queue *queue;
	struct device_queue *own[NETS];

	for (int n = 0; n < NETS; n++)
	{
		net_open(&nets[n], device, n % 4 == 3, (uint32_t) n * 2);
		own[n] = nets[n].queue;
	}
	queue = own[0];
	for (uint32_t round = 0; round < rounds; round++)
	{
		struct net *net = &nets[below(&seed, NETS)];
		struct net *other = &nets[below(&seed, NETS)];
		bool		alone = below(&seed, 4) == 0;

		/* now and then on its own queue */
		for (int n = 0; n < NETS; n++)
			nets[n].queue = queue;
		if (alone)
		{
			struct status status;
			int			n = (int) (net - nets);

			device_buffer_free(device, DEVICE_BUFFER_ARENA, net->arena);
			status_clear(&status);
			net->queue = own[n];
			net->arena = device_buffer_alloc(device, net->queue, DEVICE_BUFFER_ARENA, net->arena_bytes, &status);
			run_nested(net, net, &seed);
			net->queue = queue;
			continue;
		}
		switch (below(&seed, 4))
		{
			case 0:
				run_ahead(net, &seed);
				break;
			case 1:
				run_cramped(net);
				break;
			default:
				run_nested(net, other, &seed);
		}
	}
	for (int n = 0; n < NETS; n++)
	{
		nets[n].queue = own[n];
		net_free(&nets[n]);
	}
	free(nets);
	return NULL;
}

/* Programs come and go while batches run. */
static void *
loader(void *argument)
{
	uint64_t	seed = (uint64_t) (uintptr_t) argument;

	for (uint32_t round = 0; round < rounds / 4 + 1; round++)
	{
		struct net *net = calloc(1, sizeof(*net));
		struct status status;
		uint32_t	rows = below(&seed, ROWS + 1);

		net_open(net, device, round % 3 == 0, 2 * below(&seed, 10));
		for (uint32_t run = below(&seed, 7); run > 0; run--)
			expect(net_run(net, rows, &status) == DEVICE_DONE && net_right(net, rows), "a run of a new program", &status);
		status_clear(&status);
		if (round % 2 == 0)			/* which is freed when it has ended */
			net_enqueue(net, 0, UINT32_MAX, rows, &status);
		net_free(net);
		free(net);
	}
	return NULL;
}

int
main(void)
{
	const char *set = getenv("INFER_STRESS_ROUNDS");
	pthread_t	threads[RUNNERS + 1];

	rounds = set != NULL ? (uint32_t) atoi(set) : rounds;
	device = case_cuda_device(1);
	if (device == NULL)
	{
		tap_skip("cuda", "cannot be opened");
		return tap_done();
	}
	for (uintptr_t t = 0; t <= RUNNERS; t++)
		pthread_create(&threads[t], NULL, t < RUNNERS ? runner : loader, (void *) (t + 1));
	for (int t = 0; t <= RUNNERS; t++)
		pthread_join(threads[t], NULL);
	tap_ok(bad == 0, "%u threads at random, %u rounds each: %u went wrong", RUNNERS + 1, rounds, bad);
	device_close(device);
	return tap_done();
}
