/*
 * _load.c
 *	  Callers without PostgreSQL, for bench/modes.sh: they speak the engine's protocol.
 *
 *	_load bulk SOCKET KEY WIDTH SECONDS ROWS FLIGHT
 *		class job, closed loop: FLIGHT requests of ROWS rows, each sent again when it ends
 *	_load calls SOCKET KEY WIDTH SECONDS RATE SEED
 *		class interactive, open loop: one row each, at times of a Poisson process that SEED
 *		alone decides; prints one latency a line, in microseconds from the time that was due
 *
 * The model takes one f32 tensor of WIDTH elements a row and has been loaded; KEY is its
 * digest in hex (infer.loaded_models).  Runs as the server's user.
 *
 * A call is late if no region is free when it is due, and waits then: its latency still
 * counts from when it was due.
 */
#include <math.h>
#include <sys/prctl.h>

#include "../test/raw_client.h"

#define CLIENTS		32				/* connections; each has SLOTS calls in flight at most */
#define SLOTS		8
#define ROLE_BULK	1
#define ROLE_CALLS	2

struct load
{
	const char *socket;
	uint8_t		key[INFER_KEY_BYTES];
	uint32_t	width;
	double		seconds;
};

struct call							/* a region of a client, and the call in it */
{
	struct raw_client *client;
	struct raw_region *region;
	struct call *next;				/* free */
	uint64_t	due;				/* nsec */
	bool		in_flight;
};

static uint64_t
clock_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static void
fail(const char *what)
{
	fprintf(stderr, "_load: %s\n", what);
	exit(1);
}

/* Rows of noise: a model of trees should not take the same way each time. */
static void
fill(const struct load *load, struct raw_region *region, uint32_t rows, uint32_t class_, uint32_t role)
{
	struct infer_request *request = &region->map->request;
	uint64_t	data = INFER_REGION_HEAD + 64;
	uint64_t	bytes = (uint64_t) rows * load->width * sizeof(float);
	struct infer_column column = {.type = INFER_TYPE_F32, .width = load->width, .data_offset = data, .data_bytes = bytes};
	float	   *x = (float *) ((uint8_t *) region->map + data);
	uint32_t	noise = 2463534242u + region->slot;

	memcpy(request->key, load->key, INFER_KEY_BYTES);
	request->rows = rows;
	request->columns = 1;
	request->columns_offset = INFER_REGION_HEAD;
	request->reply_offset = (data + bytes + 63) & ~63ull;
	request->reply_bytes = region->size - request->reply_offset;
	request->class_ = class_;
	request->role = role;
	memcpy((uint8_t *) region->map + INFER_REGION_HEAD, &column, sizeof(column));
	for (uint64_t i = 0; i < (uint64_t) rows * load->width; i++)
	{
		noise ^= noise << 13;
		noise ^= noise >> 17;
		noise ^= noise << 5;
		x[i] = (float) noise / 2147483648.0f - 1;
	}
}

/* Data, and as much again for replies. */
static uint64_t
region_bytes(const struct load *load, uint32_t rows)
{
	uint64_t	bytes = INFER_REGION_HEAD + (uint64_t) rows * (load->width * sizeof(float) + 1024) + 4096;

	bytes = (bytes + 4095) & ~4095ull;
	return bytes < INFER_REGION_MIN ? INFER_REGION_MIN : bytes;
}

static bool
has_ended(const struct raw_region *region)
{
	if (infer_load_acquire64(&region->map->done_seq) != region->map->submit_seq)
		return false;
	if (region->map->reply.error != INFER_OK || region->map->reply.rows_failed > 0)
		fail("the engine answered with an error: is the model loaded?");
	return true;
}

/* ---- bulk ---- */

static void
run_bulk(const struct load *load, uint32_t rows, uint32_t flight)
{
	static struct raw_client c;
	uint64_t	until = clock_nsec() + (uint64_t) (load->seconds * 1e9);

	raw_connect(&c, load->socket);
	for (uint32_t i = 0; i < flight; i++)
	{
		struct raw_region *region = raw_region(&c, i, region_bytes(load, rows));

		fill(load, region, rows, INFER_CLASS_JOB, ROLE_BULK);
		region->map->client_asleep = 1;		/* always: to be rung costs little beside thousands of rows */
	}
	for (uint32_t i = 0; i < flight; i++)
		raw_submit(&c, &c.regions[i]);
	while (clock_nsec() < until)
	{
		bool		any = false;

		for (uint32_t i = 0; i < flight; i++)
		{
			if (!has_ended(&c.regions[i]))
				continue;
			raw_submit(&c, &c.regions[i]);
			any = true;
		}
		if (!any)
			raw_receive(&c, 100);
	}
	raw_close(&c);
}

/* ---- calls ---- */

struct calls
{
	struct raw_client clients[CLIENTS];
	struct call calls[CLIENTS * SLOTS];
	struct pollfd ready[CLIENTS];
	struct call *free;
};

/* The next gap of a Poisson process, in nanoseconds. */
static uint64_t
gap(uint64_t *seed, double rate)
{
	double		u;

	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	u = (double) ((*seed >> 11) + 1) / 9007199254740993.0;
	return (uint64_t) (-log(u) / rate * 1e9);
}

static void
open_calls(const struct load *load, struct calls *all)
{
	for (int i = 0; i < CLIENTS; i++)
	{
		raw_connect(&all->clients[i], load->socket);
		all->ready[i] = (struct pollfd) {.fd = all->clients[i].fd, .events = POLLIN};
	}
	for (int i = 0; i < CLIENTS * SLOTS; i++)
	{
		struct call *call = &all->calls[i];

		call->client = &all->clients[i % CLIENTS];		/* the sessions in turn */
		call->region = raw_region(call->client, (uint32_t) (i / CLIENTS), region_bytes(load, 1));
		fill(load, call->region, 1, INFER_CLASS_INTERACTIVE, ROLE_CALLS);
		call->region->map->client_asleep = 1;
	}
	for (int i = CLIENTS * SLOTS; i-- > 0;)
	{
		all->calls[i].next = all->free;
		all->free = &all->calls[i];
	}
}

/* Those that have ended are printed, and free again; how many are still in flight. */
static uint32_t
collect(struct calls *all)
{
	uint64_t	now = clock_nsec();
	uint32_t	in_flight = 0;

	for (int i = 0; i < CLIENTS * SLOTS; i++)
	{
		struct call *call = &all->calls[i];

		if (!call->in_flight)
			continue;
		if (!has_ended(call->region))
		{
			in_flight++;
			continue;
		}
		printf("%.1f\n", (double) (now - call->due) / 1e3);
		call->in_flight = false;
		call->next = all->free;
		all->free = call;
	}
	return in_flight;
}

static void
sleep_until_due(struct calls *all, uint64_t due)
{
	uint64_t	now = clock_nsec();
	uint64_t	left = due > now ? due - now : 0;
	struct timespec timeout = {.tv_sec = (time_t) (left / 1000000000u), .tv_nsec = (long) (left % 1000000000u)};

	if (ppoll(all->ready, CLIENTS, &timeout, NULL) <= 0)
		return;
	for (int i = 0; i < CLIENTS; i++)
	{
		while ((all->ready[i].revents & POLLIN) != 0 && poll(&all->ready[i], 1, 0) == 1)
			if (raw_receive(&all->clients[i], 0) == 0)
				fail("the engine closed a connection");
	}
}

static void
run_calls(const struct load *load, double rate, uint64_t seed)
{
	static struct calls all;
	uint64_t	begin;
	uint64_t	due;

	prctl(PR_SET_TIMERSLACK, 1000);
	open_calls(load, &all);
	begin = clock_nsec();
	due = begin + gap(&seed, rate);
	while (due - begin < (uint64_t) (load->seconds * 1e9))
	{
		struct call *call = all.free;

		if (clock_nsec() >= due && call != NULL)
		{
			all.free = call->next;
			call->due = due;
			call->in_flight = true;
			raw_submit(call->client, call->region);
			due += gap(&seed, rate);
			continue;
		}
		sleep_until_due(&all, call != NULL ? due : UINT64_MAX);
		collect(&all);
	}
	while (collect(&all) > 0)
		sleep_until_due(&all, clock_nsec() + 1000000);
}

int
main(int argc, char **argv)
{
	struct load load;

	if (argc != 8)
		fail("usage: see the head of bench/_load.c");
	load = (struct load) {.socket = argv[2], .width = (uint32_t) atoi(argv[4]), .seconds = atof(argv[5])};
	for (int i = 0; i < INFER_KEY_BYTES; i++)
	{
		if (sscanf(argv[3] + 2 * i, "%2hhx", &load.key[i]) != 1)
			fail("KEY wants 64 hex digits");
	}
	if (strcmp(argv[1], "bulk") == 0)
		run_bulk(&load, (uint32_t) atoi(argv[6]), (uint32_t) atoi(argv[7]));
	else
		run_calls(&load, atof(argv[6]), strtoull(argv[7], NULL, 10));
	return 0;
}
