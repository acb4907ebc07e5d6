/*
 * _cuda_callers.h
 *	  64 callers of an engine process in a closed loop: each asks for the vector of one short text, and again when it has it.
 *
 * A caller is a connection with a region of its own; a few threads look after all of them.  None waits in a system call while
 * another's answer may be there.
 */
#ifndef BENCH_CUDA_CALLERS_H
#define BENCH_CUDA_CALLERS_H

#define ENGINE_REAL_KINDS
#include <pthread.h>

#include "../test/engine_process.h"
#include "../test/seeded_encoder.h"
#include "engine/model/encoder/encoder_model.h"

#define CALLERS			64
#define CALLER_THREADS	4

struct caller_thread
{
	pthread_t	thread;
	struct raw_client clients[CALLERS / CALLER_THREADS];
	double		seconds;
	uint64_t	calls;
	uint64_t	failed;
};

/* A folder into the cache, under its digest. */
static void
callers_put_folder(struct engine_process *e, const struct folder_fixture *folder, uint8_t key[INFER_KEY_BYTES])
{
	char		path[512];
	int			used;

	files_digest(&folder->files, key);
	used = snprintf(path, sizeof(path), "%s/models/", e->folder);
	for (int i = 0; i < INFER_KEY_BYTES; i++)
		used += sprintf(path + used, "%02x", key[i]);
	mkdir(path, 0700);
	for (uint32_t f = 0; f < folder->files.count; f++)
	{
		const struct model_file *file = &folder->files.files[f];
		const char *slash = strchr(file->name, '/');
		FILE	   *out;

		snprintf(path + used, sizeof(path) - (size_t) used, "/%.*s", slash == NULL ? 0 : (int) (slash - file->name), file->name);
		mkdir(path, 0700);
		snprintf(path + used, sizeof(path) - (size_t) used, "/%s", file->name);
		out = fopen(path, "w");
		if (out == NULL || fwrite(file->data, 1, file->size, out) != file->size || fclose(out) != 0)
			raw_fail(path);
	}
}

/* One row: a text, no pair, no prompt, no options. */
static void
callers_fill(struct raw_region *region, const uint8_t *key, const char *text)
{
	struct infer_request *request = &region->map->request;
	uint8_t    *base = (uint8_t *) region->map;
	struct infer_column *columns = (struct infer_column *) (base + INFER_REGION_HEAD);
	uint64_t	at = INFER_REGION_HEAD + 512;

	memcpy(request->key, key, INFER_KEY_BYTES);
	request->rows = 1;
	request->columns = ENCODER_INPUTS;
	request->columns_offset = INFER_REGION_HEAD;
	for (int i = 0; i < ENCODER_INPUTS; i++, at += 256)
	{
		uint64_t	length = i == ENCODER_INPUT_TEXT ? strlen(text) : 0;

		columns[i] = (struct infer_column) {.type = INFER_TYPE_STRING, .width = 1, .spans_offset = at, .data_offset = at + 64, .data_bytes = 128};
		if (i == ENCODER_INPUT_OPTIONS)
			columns[i] = (struct infer_column) {.type = INFER_TYPE_I32, .width = INFER_TEXT_OPTIONS, .data_offset = at, .data_bytes = 4 * INFER_TEXT_OPTIONS};
		else
			*(struct infer_span *) (base + at) = (struct infer_span) {0, (uint32_t) length};
		memcpy(base + at + 64, text, length);
	}
	request->reply_offset = at;
	request->reply_bytes = region->size - at;
	request->class_ = INFER_CLASS_INTERACTIVE;
}

static double
callers_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void *
callers_main(void *argument)
{
	struct caller_thread *t = argument;
	double		until = callers_now() + t->seconds;
	int			count = CALLERS / CALLER_THREADS;

	for (int i = 0; i < count; i++)
		raw_submit(&t->clients[i], &t->clients[i].regions[0]);
	while (t->failed == 0 && callers_now() < until)
	{
		bool		any = false;

		for (int i = 0; i < count; i++)
		{
			struct infer_region *map = t->clients[i].regions[0].map;

			if (infer_load_acquire64(&map->done_seq) != map->submit_seq)
				continue;
			t->failed += map->reply.error != INFER_OK || map->reply.rows_failed > 0;
			t->calls++;
			raw_submit(&t->clients[i], &t->clients[i].regions[0]);
			any = true;
		}
		if (!any)
			sched_yield();
	}
	return NULL;
}

/* Calls a second; negative: why is said on standard output. */
static double
callers_measure(const struct seeded_sizes *sizes, uint32_t tokens, double seconds)
{
	static struct caller_thread threads[CALLER_THREADS];
	const char *settings[] = {"device=cuda", NULL};
	struct engine_process e = {0};
	struct folder_fixture folder = {0};
	struct raw_client loader;
	uint8_t		key[INFER_KEY_BYTES];
	uint64_t	state = 88172645463325252u;
	uint64_t	calls = 0, failed = 0;
	double		began, rate = -1;
	char		text[512];

	seeded_encoder(&folder, sizes, 1);
	engine_folder(&e);
	callers_put_folder(&e, &folder, key);
	folder_clear(&folder);
	engine_start(&e, settings);
	raw_connect(&loader, e.socket);
	if (!raw_load(&loader, key, key, 0) || raw_receive(&loader, 10 * RAW_TIMEOUT) != INFER_FRAME_LOADED)
		printf("  the engine does not load the encoder: %s\n", raw_error(&loader).message);
	else
	{
		for (int i = 0; i < CALLERS; i++)
		{
			struct raw_client *c = &threads[i % CALLER_THREADS].clients[i / CALLER_THREADS];

			raw_connect(c, e.socket);
			raw_region(c, 0, INFER_REGION_MIN);
			text[seeded_text(text, tokens, &state)] = '\0';
			callers_fill(&c->regions[0], key, text);
		}
		began = callers_now();
		for (int i = 0; i < CALLER_THREADS; i++)
		{
			threads[i].seconds = seconds;
			pthread_create(&threads[i].thread, NULL, callers_main, &threads[i]);
		}
		for (int i = 0; i < CALLER_THREADS; i++)
		{
			pthread_join(threads[i].thread, NULL);
			calls += threads[i].calls;
			failed += threads[i].failed;
		}
		rate = (double) calls / (callers_now() - began);
		if (failed > 0)
			printf("  %lu calls failed: %s\n", (unsigned long) failed, raw_reply_error(&threads[0].clients[0].regions[0]).message);
		for (int i = 0; i < CALLERS; i++)
			raw_close(&threads[i % CALLER_THREADS].clients[i / CALLER_THREADS]);
	}
	raw_close(&loader);
	engine_stop(&e);
	engine_remove_folder(&e);
	return failed > 0 ? -1 : rate;
}

#endif							/* BENCH_CUDA_CALLERS_H */
