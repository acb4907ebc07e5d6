/*
 * engine_clients.c
 *	  Clients that are hostile, many, or die: the engine lives, refuses what it must, and frees what they had.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "engine_process.h"
#include "tap.h"

static struct engine_process engine;

/* ---- hostile clients ---- */

static uint32_t
try_region(uint64_t size, uint64_t announced, int seals, uint32_t *error)
{
	struct raw_client c;
	uint32_t	type;

	raw_connect(&c, engine.socket);
	type = raw_region_seals(&c, 0, size, announced, seals);
	*error = raw_error(&c).error;
	if (type == INFER_FRAME_ERROR && raw_receive(&c, RAW_TIMEOUT) != 0)
		*error = 0;				/* the connection should have been closed */
	raw_close(&c);
	return type;
}

static void
test_regions(void)
{
	uint32_t	error;

	tap_ok(try_region(1 << 16, 1 << 16, F_SEAL_SEAL, &error) == INFER_FRAME_ERROR && error == INFER_ERROR_PROTOCOL,
		   "a region that can shrink is refused");
	tap_ok(try_region(1 << 16, 1 << 16, F_SEAL_SHRINK, &error) == INFER_FRAME_ERROR && error == INFER_ERROR_PROTOCOL,
		   "so is one that can be sealed further");
	tap_ok(try_region(1 << 16, 1 << 17, F_SEAL_SHRINK | F_SEAL_SEAL, &error) == INFER_FRAME_ERROR && error == INFER_ERROR_PROTOCOL,
		   "so is one of another size than announced");
	tap_ok(try_region(4096, 4096, F_SEAL_SHRINK | F_SEAL_SEAL, &error) == INFER_FRAME_ERROR && error == INFER_ERROR_PROTOCOL,
		   "so is one that is too small");
	tap_ok(try_region(1 << 16, 1 << 16, F_SEAL_SHRINK | F_SEAL_SEAL | F_SEAL_GROW, &error) == INFER_FRAME_READY,
		   "one that can neither shrink nor grow is fine");
}

/* Sometimes a header that is almost right, so that frames get past the first check. */
static size_t
random_bytes(uint8_t *bytes, size_t max, unsigned *seed)
{
	size_t		length = 1 + (size_t) rand_r(seed) % max;
	struct infer_frame frame = {
		.magic = INFER_PROTOCOL_MAGIC,
		.version = INFER_PROTOCOL_VERSION
	};
	static const uint16_t types[] = {1, 2, 3, 4, 5, 6, 7, 8, 65, 0, 999};

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t) rand_r(seed);
	if (rand_r(seed) % 8 == 0 || length < sizeof(frame))
		return length;
	frame.type = types[(size_t) rand_r(seed) % (sizeof(types) / sizeof(types[0]))];
	frame.slot = rand_r(seed) % 3 == 0 ? (uint32_t) rand_r(seed) : (uint32_t) rand_r(seed) % 3;
	frame.generation = (uint32_t) rand_r(seed) % 3;
	frame.length = rand_r(seed) % 4 == 0 ? (uint32_t) rand_r(seed) : (uint32_t) (length - sizeof(frame));
	memcpy(bytes, &frame, sizeof(frame));
	if (length > sizeof(frame) + 80 && rand_r(seed) % 2 == 0)
		memset(bytes + sizeof(frame) + 64, 0, 16);		/* a LOAD's counts */
	return length;
}

static void
test_random_frames(void)
{
	unsigned	seed = 7;
	uint8_t		bytes[400];
	int			descriptors = engine_descriptors(&engine);

	for (int i = 0; i < 5000; i++)
	{
		struct raw_client c;
		int			fd = raw_socket(engine.socket);
		bool		greeted = i % 2 == 0;

		memset(&c, 0, sizeof(c));
		c.fd = fd;
		c.received_fd = -1;
		if (greeted)
			raw_hello(&c, INFER_VERSION);
		for (int j = 0; j < 4; j++)
		{
			size_t		length = random_bytes(bytes, sizeof(bytes), &seed);

			if (send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
				break;
		}
		close(fd);
	}
	for (int i = 0; i < RAW_TIMEOUT && engine_descriptors(&engine) > descriptors; i++)
		usleep(1000);
	tap_ok(engine_lives(&engine) && engine_descriptors(&engine) <= descriptors,
		   "5000 connections with random frames leave nothing behind (%d descriptors, %d)", descriptors, engine_descriptors(&engine));
}

static void
test_random_requests(const uint8_t *key)
{
	unsigned	seed = 11;
	struct raw_client c;
	struct raw_region *region;
	float		x = 1;
	int			ended = 0;
	int			closed = 0;

	raw_connect(&c, engine.socket);
	region = raw_region(&c, 0, 1 << 16);
	for (int i = 0; i < 5000; i++)
	{
		uint8_t    *at;

		raw_fill(region, key, &x, 1);
		region->map->request.reply_bytes = 4096;
		at = rand_r(&seed) % 2 == 0 ? (uint8_t *) &region->map->request + 32 : (uint8_t *) region->map + INFER_REGION_HEAD;
		at[rand_r(&seed) % 64] = (uint8_t) rand_r(&seed);
		region->map->request.deadline = 0;
		region->map->request.rows &= 0xFFF;
		if (raw_submit(&c, region) && raw_wait(&c, region, RAW_TIMEOUT))
		{
			ended++;
			continue;
		}
		closed++;
		raw_close(&c);
		raw_connect(&c, engine.socket);
		region = raw_region(&c, 0, 1 << 16);
	}
	raw_close(&c);
	tap_ok(engine_lives(&engine) && ended > 1000 && closed > 1000 && ended + closed == 5000,
		   "5000 damaged requests end, or close their connection (%d, %d)", ended, closed);
}

/* Changes everything in the region while the engine works on it. */
static void
test_changing_region(const uint8_t *key)
{
	struct raw_client c;
	struct raw_region *region;
	float		x[512];
	pid_t		pid = fork();

	if (pid == 0)
	{
		unsigned	seed = 3;

		raw_connect(&c, engine.socket);
		region = raw_region(&c, 0, 1 << 16);
		memset(x, 0, sizeof(x));
		raw_fill(region, key, x, 512);
		if (fork() == 0)
		{
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				((uint8_t *) region->map)[256 + rand_r(&seed) % ((1 << 16) - 256)] = (uint8_t) rand_r(&seed);
		}
		for (int i = 0; i < 3000; i++)
		{
			raw_fill(region, key, x, 512);
			if (raw_submit(&c, region) && raw_wait(&c, region, RAW_TIMEOUT))
				continue;
			break;
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	tap_ok(engine_lives(&engine), "a region that changes while it is read harms nobody");
}

/* ---- many, and dead ones ---- */

static void
test_many_connections(const uint8_t *key)
{
	static struct raw_client c[500];
	float		x = 5;
	int			good = 0;

	for (int i = 0; i < 500; i++)
	{
		raw_connect_only(&c[i], engine.socket);
		raw_hello(&c[i], INFER_VERSION);
	}
	for (int i = 0; i < 500; i++)
	{
		good += raw_receive(&c[i], RAW_TIMEOUT) == INFER_FRAME_WELCOME;
		c[i].page = mmap(NULL, INFER_REGION_HEAD, PROT_READ, MAP_SHARED, c[i].received_fd, 0);
		close(c[i].received_fd);
		raw_region(&c[i], 0, 1 << 16);
	}
	tap_ok(good == 500, "500 connections at once are welcomed (%d)", good);
	for (int i = 0; i < 500; i++)
	{
		raw_fill(&c[i].regions[0], key, &x, 1);
		raw_submit(&c[i], &c[i].regions[0]);
	}
	good = 0;
	for (int i = 0; i < 500; i++)
		good += raw_wait(&c[i], &c[i].regions[0], RAW_TIMEOUT) && c[i].regions[0].map->reply.error == 0 &&
			raw_row_f32(&c[i].regions[0], 0) == 11;
	tap_ok(good == 500, "and answered (%d)", good);
	for (int i = 0; i < 500; i++)
		raw_close(&c[i]);
}

static void
test_descriptor_limit(void)
{
	struct engine_process small = {0};
	struct rlimit low = {.rlim_cur = 220, .rlim_max = 220};
	static struct raw_client c[300];
	int			welcomed = 0;
	int			refused = 0;

	/* the limit is the engine's own: set it from outside once it runs */
	engine_folder(&small);
	engine_start(&small, NULL);
	prlimit(small.pid, RLIMIT_NOFILE, &low, NULL);
	for (int i = 0; i < 300; i++)
	{
		raw_connect_only(&c[i], small.socket);
		raw_hello(&c[i], INFER_VERSION);
	}
	for (int i = 0; i < 300; i++)
	{
		uint32_t	type = raw_receive(&c[i], RAW_TIMEOUT);

		welcomed += type == INFER_FRAME_WELCOME;
		refused += type == INFER_FRAME_ERROR && raw_error(&c[i]).error == INFER_ERROR_BUSY;
		if (c[i].received_fd >= 0)
			close(c[i].received_fd);
	}
	tap_ok(welcomed > 150 && refused > 50 && welcomed + refused == 300,
		   "over the limit of descriptors there is a clean refusal (%d, %d)", welcomed, refused);
	for (int i = 0; i < 300; i++)
		raw_close(&c[i]);
	raw_connect(&c[0], small.socket);
	tap_ok(engine_lives(&small), "and the next one is served");
	raw_close(&c[0]);
	engine_stop(&small);
	engine_remove_folder(&small);
}

static void
test_killed_client(const uint8_t *slow)
{
	struct raw_client c;
	struct infer_stats_head before;
	struct infer_stats_head after = {0};
	struct infer_stats_model model;
	int			descriptors;
	int			ready[2];
	char		byte;
	pid_t		pid;

	raw_connect(&c, engine.socket);
	raw_stats(&c, slow, &before, &model);
	descriptors = engine_descriptors(&engine);
	if (pipe(ready) < 0)
		raw_fail("pipe");
	pid = fork();
	if (pid == 0)
	{
		struct raw_client mine;
		float		sleeps = TOY_SLEEP + 200;

		raw_connect(&mine, engine.socket);
		for (uint32_t slot = 0; slot < 8; slot++)	/* in one batch they take 1.6 s */
		{
			raw_region(&mine, slot, 1 << 20);
			raw_fill(&mine.regions[slot], slow, &sleeps, 1);
			raw_submit(&mine, &mine.regions[slot]);
		}
		while (!__atomic_load_n(&mine.page->device_busy, __ATOMIC_ACQUIRE))
			usleep(1000);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	if (read(ready[0], &byte, 1) != 1)
		raw_fail("read");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < RAW_TIMEOUT / 10; i++)
	{
		raw_stats(&c, slow, &after, &model);
		if (after.regions_bytes <= before.regions_bytes && after.connections <= before.connections &&
			engine_descriptors(&engine) <= descriptors)
			break;
		usleep(10000);
	}
	tap_ok(after.regions_bytes <= before.regions_bytes && after.connections <= before.connections &&	/* those of earlier tests may go, too */
		   engine_descriptors(&engine) <= descriptors,
		   "kill -9 of a client frees its regions and descriptors, in flight or not");
	close(ready[0]);
	close(ready[1]);
	raw_close(&c);
}

static void
test_memory(const uint8_t *key)
{
	struct raw_client c;
	struct raw_region *region;
	float		x[3] = {1, TOY_ROW_ERROR, 3};
	uint64_t	before = 0;
	uint64_t	after;

	if (getenv("INFER_SANITIZED") != NULL)
	{
		tap_skip("100000 calls leave memory where it was", "a sanitizer keeps what is freed");
		return;
	}
	raw_connect(&c, engine.socket);
	region = raw_region(&c, 0, 1 << 16);
	for (int i = 0; i < 110000; i++)
	{
		if (i == 10000)
			before = engine_status(&engine, "VmData", 10) + engine_status(&engine, "VmRSS", 10);
		raw_call(&c, region, key, x, (uint32_t) (1 + i % 3));
		if (i % 1000 != 0)
			continue;
		raw_close(&c);			/* connections come and go, too */
		raw_connect(&c, engine.socket);
		region = raw_region(&c, 0, 1 << 16);
	}
	after = engine_status(&engine, "VmData", 10) + engine_status(&engine, "VmRSS", 10);
	tap_ok(after <= before + 1024, "100000 calls leave memory where it was (%llu kB, then %llu kB)",
		   (unsigned long long) before, (unsigned long long) after);
	raw_close(&c);
}

int
main(int argc, char **argv)
{
	struct raw_client c;
	uint8_t		key[INFER_KEY_BYTES];
	uint8_t		slow[INFER_KEY_BYTES];
	uint8_t		calm[INFER_KEY_BYTES];

	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	engine_folder(&engine);
	engine_start(&engine, NULL);
	raw_connect(&c, engine.socket);
	engine_load_toy(&engine, &c, "plain", key);
	engine_load_toy(&engine, &c, "slow", slow);
	engine_load_toy(&engine, &c, "calm label", calm);
	raw_close(&c);

	test_regions();
	test_random_frames();
	test_random_requests(calm);
	test_changing_region(calm);
	test_many_connections(key);
	test_killed_client(slow);
	test_memory(key);
	engine_stop(&engine);
	engine_remove_folder(&engine);

	test_descriptor_limit();
	return tap_done();
}
