/*
 * cuda_engine.c
 *	  An engine on the CUDA device: killed with calls in flight and started again, and with less memory of the GPU than its models
 *	  take.  Results are asked for once at first, and have these bits ever after.
 *
 * On a GPU with INFER_CUDA, else on emulated ones.
 */
#define ENGINE_REAL_KINDS
#define ENGINE_PATIENCE	60000		/* a GPU is set up first, and what the driver has of it is taken down behind */
#include <signal.h>

#include "engine_process.h"
#include "kernels/harness.h"
#include "tap.h"
#include "wide_model.h"

#define MODELS		4
#define VALUES		3
#define CLIENTS		4
#define ROUNDS		3
#define WAIT		(6 * RAW_TIMEOUT)

static const float values[VALUES] = {1, -0.3125f, 1e10f};

struct wide
{
	uint8_t		key[INFER_KEY_BYTES];
	float		results[VALUES];
};

static struct engine_process engine;
static struct wide models[MODELS];
static uint32_t loads;				/* asked for */

/* Loads it if it must; the engine's error. */
static uint32_t
call(struct raw_client *c, const struct wide *w)
{
	struct raw_region *region = &c->regions[0];
	uint32_t	error = INFER_ERROR_NEED_LOAD;

	for (int attempt = 0; attempt < 10 && error == INFER_ERROR_NEED_LOAD; attempt++)
	{
		loads += attempt > 0;
		if (attempt > 0 && (!raw_load(c, w->key, w->key, 0) || raw_receive(c, WAIT) != INFER_FRAME_LOADED))
			return INFER_ERROR_INTERNAL;
		raw_fill(region, w->key, values, VALUES);
		if (!raw_submit(c, region) || !raw_wait(c, region, WAIT))
			return INFER_ERROR_INTERNAL;
		error = region->map->reply.error;
	}
	return error;
}

/* Every model, in turn; how many results are not the first ones. */
static uint32_t
call_all(struct raw_client *c, bool first)
{
	uint32_t	bad = 0;

	for (int m = 0; m < MODELS; m++)
	{
		uint32_t	error = call(c, &models[m]);

		bad += error != INFER_OK;
		for (uint32_t v = 0; error == INFER_OK && v < VALUES; v++)
		{
			float		result = raw_row_f32(&c->regions[0], v);

			if (first)
				models[m].results[v] = result;
			bad += memcmp(&result, &models[m].results[v], sizeof(result)) != 0;
		}
	}
	return bad;
}

static void
start(struct raw_client *c, const char *gpu_memory)
{
	const char *settings[] = {"device=cuda", "cpu_threads=1", gpu_memory, NULL};

	engine_start(&engine, settings);
	if (infer_load_acquire32(&engine.page->state) != INFER_ENGINE_READY)
	{
		engine_stop(&engine);
		engine_show_log(&engine);
		tap_ok(false, "the engine starts");
		engine_remove_folder(&engine);
		exit(tap_done());
	}
	raw_connect(c, engine.socket);
	raw_region(c, 0, 1 << 16);
}

/* Calls are on their way when the engine is killed: none of them may have ended with another result. */
static uint32_t
kill_in_flight(struct raw_client *c)
{
	struct raw_client others[CLIENTS];
	uint32_t	bad = 0;

	for (int i = 0; i < CLIENTS; i++)
	{
		raw_connect(&others[i], engine.socket);
		raw_region(&others[i], 0, 1 << 16);
		raw_fill(&others[i].regions[0], models[i % MODELS].key, values, VALUES);
		raw_submit(&others[i], &others[i].regions[0]);
	}
	usleep(2000);
	kill(engine.pid, SIGKILL);
	for (int i = 0; i < CLIENTS; i++)
	{
		struct raw_region *region = &others[i].regions[0];

		if (raw_wait(&others[i], region, WAIT) && region->map->reply.error == INFER_OK)
			for (uint32_t v = 0; v < VALUES; v++)
			{
				float		result = raw_row_f32(region, v);

				bad += memcmp(&result, &models[i % MODELS].results[v], sizeof(result)) != 0;
			}
		raw_close(&others[i]);
	}
	raw_close(c);
	engine_stop(&engine);
	return bad;
}

int
main(int argc, char **argv)
{
	struct raw_client c;
	uint32_t	bad;

	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	signal(SIGPIPE, SIG_IGN);
	setenv("INFER_CUDA", case_cuda_library(), 0);
	if (access(case_cuda_library(), R_OK) != 0)
	{
		tap_skip("an engine on the CUDA device", "its library is not built: make emulation, or set INFER_CUDA");
		return tap_done();
	}
	engine_folder(&engine);
	for (uint32_t i = 0; i < MODELS; i++)
	{
		struct wide_bytes model = wide_model(i);

		engine_model(&engine, "model.onnx", model.data, model.size, true, models[i].key);
		free(model.data);
	}
	start(&c, "gpu_memory=0");
	tap_ok(strncmp(c.page->device, "cuda:", 5) == 0, "the engine computes on %s", c.page->device);
	tap_ok(call_all(&c, true) == 0, "each model has a result");
	for (int round = 0; round < ROUNDS; round++)
	{
		bad = kill_in_flight(&c);
		start(&c, "gpu_memory=0");
		bad += call_all(&c, false);
		tap_ok(bad == 0, "killed with calls in flight and started again it gives the same bits (%u do not)", bad);
	}
	raw_close(&c);
	engine_stop(&engine);
	start(&c, "gpu_memory=3");
	loads = bad = 0;
	for (int round = 0; round < ROUNDS; round++)
		bad += call_all(&c, false);
	tap_ok(bad == 0, "models that do not fit together push each other out, and give the same bits (%u do not)", bad);
	tap_ok(loads > MODELS, "%u loads of %d models", loads, MODELS);
	tap_ok(engine_lives(&engine), "the engine lives");
	raw_close(&c);
	engine_stop(&engine);
	engine_remove_folder(&engine);
	return tap_done();
}
