/*
 * engine_async.c
 *	  Real graphs on a device that is asynchronous and has memory of its own (null:async=2): its first two
 *	  runs wait for each other, more than two are refused, and the host dies of a look into an arena.  The
 *	  results are those of the CPU, bit for bit.
 */
#define ENGINE_REAL_KINDS
#include "engine_process.h"
#include "tap.h"

#define WIDTH	256					/* of heavy.onnx */
#define ROWS	24
#define CLIENTS	6
#define ROUNDS	5

static struct engine_process engine;
static struct raw_client clients[CLIENTS];
static struct raw_region *regions[CLIENTS];
static uint8_t heavy[INFER_KEY_BYTES];
static uint8_t single[INFER_KEY_BYTES];

static void
begin(const char *const *settings)
{
	engine_start(&engine, settings);
	for (int i = 0; i < CLIENTS; i++)
	{
		raw_connect(&clients[i], engine.socket);
		regions[i] = raw_region(&clients[i], 0, 1 << 20);
	}
	if (!engine_load_onnx(&engine, &clients[0], "test/fixtures/onnx/heavy.onnx", heavy) ||
		!engine_load_onnx(&engine, &clients[0], "test/fixtures/onnx/finite.onnx", single))
		raw_fail("the models are not loaded");
}

static void
end(void)
{
	for (int i = 0; i < CLIENTS; i++)
		raw_close(&clients[i]);
	engine_stop(&engine);
}

/* width f32 a row, each row its own. */
static void
submit(int client, const uint8_t *key, uint32_t width, uint32_t rows, uint32_t class_)
{
	static float values[ROWS * WIDTH];
	struct raw_region *region = regions[client];
	struct infer_column *column = (struct infer_column *) ((uint8_t *) region->map + INFER_REGION_HEAD);

	for (uint32_t i = 0; i < rows * width; i++)
		values[i] = 1 + 0.001f * (float) (i / width) + 0.1f * (float) client;
	raw_fill(region, key, values, rows * width);
	region->map->request.rows = rows;
	region->map->request.class_ = class_;
	column->width = width;
	raw_submit(&clients[client], region);
}

/* The first output; false: some row has none. */
static bool
result(int client, float *to, uint32_t width, uint32_t rows)
{
	const uint8_t *base = (const uint8_t *) regions[client]->map;
	const struct infer_column *column;

	if (!raw_wait(&clients[client], regions[client], 4 * RAW_TIMEOUT) || regions[client]->map->reply.error != 0)
		return false;
	for (uint32_t i = 0; i < rows; i++)
		if (raw_row_status(regions[client], i) != 0)
			return false;
	column = (const struct infer_column *) (base + regions[client]->map->reply.columns_offset);
	memcpy(to, base + column->data_offset, (size_t) rows * width * sizeof(float));
	return column->width == width;
}

static bool
all_results(float to[CLIENTS][ROWS * WIDTH])
{
	bool		good = true;

	for (int i = 0; i < CLIENTS; i++)
		submit(i, i % 3 == 2 ? single : heavy, i % 3 == 2 ? 1 : WIDTH, ROWS, (uint32_t) i % INFER_CLASSES);
	for (int i = 0; i < CLIENTS; i++)
		good = result(i, to[i], i % 3 == 2 ? 1 : WIDTH, ROWS) && good;
	return good;
}

static struct infer_stats_model
counters(struct infer_stats_device *device)
{
	struct infer_stats_head head;
	struct infer_stats_model model;

	if (!raw_stats(&clients[0], heavy, &head, &model))
		raw_fail("no statistics");
	memcpy(device, clients[0].payload + sizeof(head), sizeof(*device));
	return model;
}

static void
test_results(void)
{
	static const char *const cpu[] = {"device=cpu", "slice=200us", "batch_rows=4", NULL};
	static const char *const two[] = {"device=null:async=2,meet=2", "slice=400us", "batch_rows=4", NULL};
	static float expected[CLIENTS][ROWS * WIDTH], got[CLIENTS][ROWS * WIDTH];
	struct infer_stats_device device;
	struct infer_stats_model model;
	bool		good;

	begin(cpu);
	good = all_results(expected);
	end();
	begin(two);
	tap_ok(good && all_results(got) && memcmp(got, expected, sizeof(got)) == 0,
		   "two batches are on the device at once, and give the bits of the CPU");
	for (int round = 0; round < ROUNDS; round++)
		good = good && all_results(got) && memcmp(got, expected, sizeof(got)) == 0;
	model = counters(&device);
	tap_ok(good && engine_lives(&engine), "never more than two, in segments or not (%llu batches, %llu segments)",
		   (unsigned long long) model.batches, (unsigned long long) model.segments);
	tap_ok(model.compute_usec <= device.busy_usec + 1, "and their times are no more than it was busy (%llu usec of %llu)",
		   (unsigned long long) model.compute_usec, (unsigned long long) device.busy_usec);
	end();
}

static void
test_evicted(void)
{
	static const char *const settings[] = {"device=null:async=2,delay=20", "batch_rows=2", NULL};
	float		got[ROWS * WIDTH];
	bool		good;

	begin(settings);
	submit(1, heavy, WIDTH, ROWS, INFER_CLASS_JOB);
	for (int i = 0; i < RAW_TIMEOUT && infer_load_acquire32(&regions[1]->map->run_state) != INFER_RUN_RUNNING; i++)
		usleep(1000);
	raw_unload(&clients[0], heavy);
	good = result(1, got, WIDTH, ROWS);
	tap_ok(good && raw_receive(&clients[0], RAW_TIMEOUT) == INFER_FRAME_UNLOADED,
		   "a model that is given up while two of its batches run goes when its rows have ended");
	end();
}

static void
test_lost(void)
{
	static const char *const settings[] = {"device=null:async=2,lost=3", "batch_rows=4", NULL};
	static const char *const hangs[] = {"device=null:async=2,delay=5,hang_on=1.5", NULL};
	float		got[ROWS * WIDTH];
	int			status;
	bool		good;

	begin(settings);
	for (int i = 0; i < 4; i++)
		submit(i, heavy, WIDTH, ROWS, INFER_CLASS_JOB);
	status = engine_wait(&engine, RAW_TIMEOUT);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 1 && engine_logged(&engine, "the device is lost"),
		   "a device that is lost ends the process");
	end();
	begin(hangs);
	submit(1, single, 1, 1, INFER_CLASS_STATEMENT);
	good = result(1, got, 1, 1);
	submit(5, single, 1, 1, INFER_CLASS_STATEMENT);	/* 1.5 */
	for (int i = 0; i < RAW_TIMEOUT && !engine.page->device_busy; i++)
		usleep(1000);
	for (int i = 0; i < 20; i++)
	{
		struct infer_stats_device device;

		counters(&device);
	}
	tap_ok(good && engine_lives(&engine), "with a run that hangs the engine goes on answering what needs no device");
	end();
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	engine_folder(&engine);
	test_results();
	test_evicted();
	test_lost();
	engine_remove_folder(&engine);
	return tap_done();
}
