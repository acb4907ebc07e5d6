/*
 * engine_loads.c
 *	  Models coming and going: who is asked to write files, who waits, what fails and is
 *	  remembered, what is evicted.
 */
#include "engine/registry/load.h"
#include "engine_process.h"
#include "tap.h"

static struct engine_process engine;

static struct infer_stats_model
model_stats(struct raw_client *c, const uint8_t *key)
{
	struct infer_stats_head head;
	struct infer_stats_model model;

	raw_stats(c, key, &head, &model);
	return model;
}

/* Nothing comes for a while. */
static bool
is_silent(struct raw_client *c)
{
	return raw_receive(c, 100) == 0;
}

static void
test_writer(void)
{
	struct raw_client c[4];
	uint8_t		key[INFER_KEY_BYTES];
	float		x = 1;
	bool		good;

	for (int i = 0; i < 4; i++)
		raw_connect(&c[i], engine.socket);
	engine_toy(&engine, "written late", false, key);
	for (int i = 0; i < 3; i++)
	{
		raw_load(&c[i], key, key, 0);
		if (i == 0)
			tap_ok(raw_receive(&c[0], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[0]).error == INFER_ERROR_NEED_FILES,
				   "files that are missing are asked of who comes first");
	}
	raw_fill(raw_region(&c[3], 0, 1 << 16), key, &x, 1);
	raw_submit(&c[3], &c[3].regions[0]);
	tap_ok(is_silent(&c[1]) && is_silent(&c[2]), "the others wait");

	raw_load(&c[0], key, key, 0);
	tap_ok(raw_receive(&c[0], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[0]).error == INFER_ERROR_NEED_FILES,
		   "a writer that asks again is told again");
	raw_close(&c[0]);
	tap_ok(raw_receive(&c[1], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[1]).error == INFER_ERROR_NEED_FILES,
		   "a writer that dies is followed by the next");
	tap_ok(is_silent(&c[2]), "and by that one only");

	raw_unload(&c[1], key);
	good = raw_receive(&c[1], RAW_TIMEOUT) == INFER_FRAME_UNLOADED;
	tap_ok(good && raw_receive(&c[2], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[2]).error == INFER_ERROR_NEED_FILES,
		   "a writer that gives up is followed, too");
	raw_load(&c[1], key, key, 0);
	tap_ok(is_silent(&c[1]), "and waits when it asks again");

	raw_load(&c[2], key, key, INFER_LOAD_WROTE);
	good = raw_receive(&c[2], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[2]).error == INFER_ERROR_INTERNAL;
	tap_ok(good && raw_receive(&c[1], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[1]).error == INFER_ERROR_NEED_FILES,
		   "a writer that wrote nothing has an error, and the next is asked");
	raw_load(&c[2], key, key, 0);
	engine_toy(&engine, "written late", true, key);
	raw_load(&c[1], key, key, INFER_LOAD_WROTE);
	good = raw_receive(&c[1], RAW_TIMEOUT) == INFER_FRAME_LOADED && raw_receive(&c[2], RAW_TIMEOUT) == INFER_FRAME_LOADED;
	tap_ok(good, "when the files are there, all that wait learn the signature");
	raw_connect(&c[0], engine.socket);
	raw_load(&c[0], key, key, 0);
	tap_ok(raw_receive(&c[0], RAW_TIMEOUT) == INFER_FRAME_LOADED, "who comes later learns it at once");
	for (int i = 0; i < 4; i++)
		raw_close(&c[i]);
}

/* Requests wait for a load, and are told to load when nobody is left who could. */
static void
test_waiting_requests(void)
{
	struct raw_client c[3];
	uint8_t		key[INFER_KEY_BYTES];
	float		x = 4;
	bool		good;

	for (int i = 0; i < 3; i++)
	{
		raw_connect(&c[i], engine.socket);
		raw_region(&c[i], 0, 1 << 16);
	}
	engine_toy(&engine, "slow to load", true, key);
	raw_load(&c[0], key, key, 0);
	usleep(20000);
	good = raw_call(&c[1], &c[1].regions[0], key, &x, 1) && c[1].regions[0].map->reply.error == 0 &&
		raw_row_f32(&c[1].regions[0], 0) == 9 && model_stats(&c[2], key).state == INFER_MODEL_LOADED;
	tap_ok(good, "a request waits for its model");

	engine_toy(&engine, "never written", false, key);
	raw_load(&c[0], key, key, 0);
	raw_receive(&c[0], RAW_TIMEOUT);	/* LOADED of before */
	good = raw_receive(&c[0], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[0]).error == INFER_ERROR_NEED_FILES;
	raw_fill(&c[1].regions[0], key, &x, 1);
	raw_submit(&c[1], &c[1].regions[0]);
	while (__atomic_load_n(&c[1].page->requests, __ATOMIC_ACQUIRE) < 1)
		usleep(1000);
	raw_close(&c[0]);
	good = good && raw_wait(&c[1], &c[1].regions[0], RAW_TIMEOUT);
	tap_ok(good && c[1].regions[0].map->reply.error == INFER_ERROR_NEED_LOAD, "a request whose loader has gone is told to load");
	raw_close(&c[1]);
	raw_close(&c[2]);
}

static void
test_failures(void)
{
	struct raw_client c;
	uint8_t		key[INFER_KEY_BYTES];
	uint8_t		other[INFER_KEY_BYTES];
	char		path[256];
	float		x = 1;
	int			used;
	FILE	   *file;

	raw_connect(&c, engine.socket);
	raw_region(&c, 0, 1 << 16);
	engine_toy(&engine, "malformed", true, key);
	raw_load(&c, key, key, 0);
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c).error == INFER_ERROR_MODEL &&
		   strcmp(raw_error(&c).message, "the toy is malformed") == 0, "a load that fails says why");
	raw_call(&c, &c.regions[0], key, &x, 1);
	tap_ok(c.regions[0].map->reply.error == INFER_ERROR_MODEL &&
		   strcmp(raw_reply_error(&c.regions[0]).message, "the toy is malformed") == 0, "so does every call, later");
	raw_load(&c, key, key, 0);
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_ERROR && model_stats(&c, key).state == INFER_MODEL_FAILED, "and every LOAD");

	/* the same key loads when its digest is another's and RETRY is asked for */
	engine_toy(&engine, "well-formed now", true, other);
	raw_load(&c, key, other, INFER_LOAD_RETRY);
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_LOADED, "until it is tried again");

	engine_toy(&engine, "to be damaged", true, key);
	used = snprintf(path, sizeof(path), "%s/models/", engine.folder);
	for (int i = 0; i < INFER_KEY_BYTES; i++)
		used += sprintf(path + used, "%02x", key[i]);
	strcpy(path + used, "/toy");
	file = fopen(path, "a");
	fputs("!", file);
	fclose(file);
	raw_load(&c, key, key, 0);
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c).error == INFER_ERROR_NEED_FILES,
		   "damaged files are asked for like missing ones");

	engine_toy(&engine, "unsupported", true, key);
	raw_load(&c, key, key, INFER_LOAD_CHECK);
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c).error == INFER_ERROR_UNSUPPORTED, "a check says what is missing");
	engine_toy(&engine, "only checked", true, key);
	raw_load(&c, key, key, INFER_LOAD_CHECK);
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_LOADED && model_stats(&c, key).state == 0, "or the signature, and keeps nothing");
	raw_close(&c);
}

static bool
load_by_reference(struct raw_client *c, const uint8_t *key, const char *name, const char *contents)
{
	uint8_t		payload[512];
	struct infer_writer w = {.data = payload, .size = sizeof(payload)};
	struct infer_load load = {.files_count = 1, .options_length = 0};
	struct infer_frame frame;
	int			fd = memfd_create("toy", MFD_CLOEXEC);

	if (write(fd, contents, strlen(contents)) != (ssize_t) strlen(contents))
		raw_fail("write");
	memcpy(load.key, key, sizeof(load.key));
	memcpy(load.digest, key, sizeof(load.digest));
	infer_put_bytes(&w, &load, sizeof(load));
	infer_put_string(&w, name, strlen(name));
	infer_put_u64(&w, strlen(contents));
	frame = raw_frame(c, INFER_FRAME_LOAD, (uint32_t) w.used);
	raw_send(c, &frame, payload, &fd, 1);
	close(fd);
	return raw_receive(c, RAW_TIMEOUT) == INFER_FRAME_LOADED;
}

static void
test_greedy(void)
{
	struct raw_client c;
	uint8_t		key[INFER_KEY_BYTES];
	uint32_t	type;

	raw_connect(&c, engine.socket);
	engine_toy(&engine, "slow to check", true, key);
	for (int i = 0; i < 40; i++)
		raw_load(&c, key, key, INFER_LOAD_CHECK);
	while ((type = raw_receive(&c, RAW_TIMEOUT)) == INFER_FRAME_LOADED)
		;
	tap_ok(type == INFER_FRAME_ERROR && raw_error(&c).error == INFER_ERROR_PROTOCOL && raw_receive(&c, RAW_TIMEOUT) == 0,
		   "a client that asks too much at once is closed");
	raw_close(&c);
}

static void
test_references(void)
{
	struct raw_client c;
	uint8_t		key[INFER_KEY_BYTES];
	int			descriptors;

	raw_connect(&c, engine.socket);
	descriptors = engine_descriptors(&engine);
	engine_toy(&engine, "by reference", false, key);
	tap_ok(!load_by_reference(&c, key, "toy", "by refarence") && raw_error(&c).error == INFER_ERROR_MODEL,
		   "a file by reference that has changed is refused");
	tap_ok(!load_by_reference(&c, key, "../toy", "by reference") && raw_error(&c).error == INFER_ERROR_MODEL,
		   "so is a name that leaves the folder");
	tap_ok(load_by_reference(&c, key, "toy", "by reference"), "the right file loads without the cache");
	tap_ok(engine_descriptors(&engine) == descriptors, "and its descriptor is closed");
	raw_close(&c);
}

static void
test_unload(void)
{
	struct raw_client c[2];
	uint8_t		key[INFER_KEY_BYTES];
	float		sleeps = TOY_SLEEP + 200;
	float		x = 1;
	bool		good;

	raw_connect(&c[0], engine.socket);
	raw_connect(&c[1], engine.socket);
	engine_load_toy(&engine, &c[0], "slow, unloaded", key);
	raw_fill(raw_region(&c[0], 0, 1 << 16), key, &sleeps, 1);
	raw_submit(&c[0], &c[0].regions[0]);
	while (!__atomic_load_n(&c[0].page->device_busy, __ATOMIC_ACQUIRE))
		usleep(1000);
	raw_unload(&c[1], key);
	good = raw_receive(&c[1], RAW_TIMEOUT) == INFER_FRAME_UNLOADED &&
		infer_load_acquire64(&c[0].regions[0].map->done_seq) == 1;
	tap_ok(good && c[0].regions[0].map->reply.error == 0, "unloading lets calls end first");
	tap_ok(model_stats(&c[1], key).bytes == 0 && model_stats(&c[1], key).state == INFER_MODEL_EVICTED, "then the memory is free");
	raw_wait(&c[0], &c[0].regions[0], RAW_TIMEOUT);
	raw_call(&c[0], &c[0].regions[0], key, &x, 1);
	tap_ok(c[0].regions[0].map->reply.error == INFER_ERROR_NEED_LOAD, "and the next call must load it");
	raw_unload(&c[1], key);
	tap_ok(raw_receive(&c[1], RAW_TIMEOUT) == INFER_FRAME_UNLOADED, "unloading what is not loaded is nothing");
	raw_close(&c[0]);
	raw_close(&c[1]);
}

/* A model that is being loaded for the first client; the second has a call that waits for it. */
static bool
load_slowly(struct raw_client *c, const char *contents, uint8_t *key)
{
	static float x = 1;

	engine_toy(&engine, contents, true, key);
	raw_load(&c[0], key, key, 0);
	while (model_stats(&c[1], key).state != INFER_MODEL_LOADING)
		usleep(1000);
	raw_fill(&c[1].regions[0], key, &x, 1);
	return raw_submit(&c[1], &c[1].regions[0]);
}

static void
test_unload_while_loading(void)
{
	struct raw_client c[4];
	uint8_t		key[INFER_KEY_BYTES];
	bool		good;

	for (int i = 0; i < 4; i++)
		raw_connect(&c[i], engine.socket);
	raw_region(&c[1], 0, 1 << 16);

	good = load_slowly(c, "slow, unloaded meanwhile", key);
	raw_unload(&c[2], key);
	good = good && raw_receive(&c[2], RAW_TIMEOUT) == INFER_FRAME_UNLOADED;
	tap_ok(good && raw_receive(&c[0], 0) == INFER_FRAME_LOADED && model_stats(&c[3], key).bytes == 0 &&
		   model_stats(&c[3], key).state == INFER_MODEL_EVICTED, "unloading what is being loaded lets it load first, and then go");
	tap_ok(raw_wait(&c[1], &c[1].regions[0], RAW_TIMEOUT) && c[1].regions[0].map->reply.error == 0,
		   "the calls that waited for it are computed");

	good = load_slowly(c, "slow, unloaded, wanted again", key);
	raw_unload(&c[2], key);
	while (model_stats(&c[2], key).state == 0)
		usleep(1000);
	raw_load(&c[3], key, key, 0);
	good = good && raw_receive(&c[2], RAW_TIMEOUT) == INFER_FRAME_UNLOADED && raw_receive(&c[0], RAW_TIMEOUT) == INFER_FRAME_LOADED &&
		raw_receive(&c[3], RAW_TIMEOUT) == INFER_FRAME_LOADED;
	tap_ok(good && raw_wait(&c[1], &c[1].regions[0], RAW_TIMEOUT) && model_stats(&c[3], key).state == INFER_MODEL_LOADED,
		   "who wants it after that keeps it");

	good = load_slowly(c, "slow and malformed", key);
	raw_unload(&c[2], key);
	good = good && raw_receive(&c[0], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[0]).error == INFER_ERROR_MODEL &&
		raw_receive(&c[2], RAW_TIMEOUT) == INFER_FRAME_UNLOADED;
	tap_ok(good && raw_wait(&c[1], &c[1].regions[0], RAW_TIMEOUT) && c[1].regions[0].map->reply.error == INFER_ERROR_MODEL,
		   "what cannot be loaded is unloaded, too");

	good = load_slowly(c, "slow, unloaded by who has gone", key);
	raw_unload(&c[2], key);
	while (model_stats(&c[3], key).state != INFER_MODEL_LOADING)
		usleep(1000);
	raw_close(&c[2]);
	good = good && raw_receive(&c[0], RAW_TIMEOUT) == INFER_FRAME_LOADED;
	tap_ok(good && raw_wait(&c[1], &c[1].regions[0], RAW_TIMEOUT) && engine_lives(&engine), "who wants it unloaded may go before");
	raw_close(&c[0]);
	raw_close(&c[1]);
	raw_close(&c[3]);
}

/* What a writer that gives up sends, after another one wrote the files. */
static void
test_late_surrender(void)
{
	struct raw_client c[2];
	struct infer_frame frame;
	uint8_t		key[INFER_KEY_BYTES];
	bool		good;

	raw_connect(&c[0], engine.socket);
	raw_connect(&c[1], engine.socket);
	engine_toy(&engine, "written by two", false, key);
	raw_load(&c[0], key, key, 0);
	good = raw_receive(&c[0], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[0]).error == INFER_ERROR_NEED_FILES;
	engine_toy(&engine, "written by two", true, key);
	raw_load(&c[1], key, key, INFER_LOAD_WROTE);
	good = good && raw_receive(&c[1], RAW_TIMEOUT) == INFER_FRAME_LOADED;
	frame = raw_frame(&c[0], INFER_FRAME_UNLOAD, INFER_KEY_BYTES);
	frame.request = 0;
	raw_send(&c[0], &frame, key, NULL, 0);
	tap_ok(good && is_silent(&c[0]) && model_stats(&c[1], key).state == INFER_MODEL_LOADED,
		   "a writer that gives up too late unloads nothing");
	raw_close(&c[0]);
	raw_close(&c[1]);
}

static void
test_eviction(void)
{
	static const char *const settings[] = {"memory=2", NULL};	/* MB: two large toys */
	static const char *const names[] = {"large 1", "large 2", "large 3"};
	uint8_t		growing[INFER_KEY_BYTES];
	struct engine_process small = {0};
	struct raw_client c;
	uint8_t		key[3][INFER_KEY_BYTES];
	float		x = 1;

	engine_folder(&small);
	engine_start(&small, settings);
	raw_connect(&c, small.socket);
	raw_region(&c, 0, 1 << 16);
	for (int i = 0; i < 2; i++)
		engine_load_toy(&small, &c, names[i], key[i]);
	raw_call(&c, &c.regions[0], key[0], &x, 1);
	tap_ok(engine_load_toy(&small, &c, names[2], key[2]) && model_stats(&c, key[0]).state == INFER_MODEL_LOADED &&
		   model_stats(&c, key[1]).state == INFER_MODEL_EVICTED && model_stats(&c, key[2]).state == INFER_MODEL_LOADED,
		   "over infer.memory the model that was used longest ago goes");

	/* one large toy and a small one fit; the small one grows */
	raw_unload(&c, key[0]);
	raw_receive(&c, RAW_TIMEOUT);
	engine_load_toy(&small, &c, "large 1", key[0]);
	raw_unload(&c, key[2]);
	raw_receive(&c, RAW_TIMEOUT);
	engine_load_toy(&small, &c, "grows", growing);
	tap_ok(model_stats(&c, key[0]).state == INFER_MODEL_LOADED && model_stats(&c, growing).state == INFER_MODEL_LOADED,
		   "models that fit stay");
	raw_call(&c, &c.regions[0], growing, &x, 1);
	tap_ok(model_stats(&c, key[0]).state == INFER_MODEL_LOADED && model_stats(&c, growing).bytes == 1 << 20,
		   "while one grows within infer.memory, too");
	engine_load_toy(&small, &c, "grows, too", key[1]);
	raw_call(&c, &c.regions[0], key[1], &x, 1);
	tap_ok(model_stats(&c, key[0]).state == INFER_MODEL_EVICTED && model_stats(&c, growing).state == INFER_MODEL_LOADED &&
		   model_stats(&c, key[1]).state == INFER_MODEL_LOADED, "but not beyond it");
	raw_close(&c);
	engine_stop(&small);
	engine_remove_folder(&small);
}

/* A writer that is alive and does not write; the engine's patience is short here. */
static void
test_dawdling_writer(void)
{
	struct engine_process hasty = {0};
	struct raw_client c[2];
	uint8_t		key[INFER_KEY_BYTES];
	float		x = 1;
	bool		good;

	setenv("TEST_WRITER_MSEC", "10", 1);
	engine_folder(&hasty);
	engine_start(&hasty, NULL);
	unsetenv("TEST_WRITER_MSEC");
	raw_connect(&c[0], hasty.socket);
	raw_connect(&c[1], hasty.socket);
	raw_region(&c[1], 0, 1 << 16);
	engine_toy(&hasty, "never written", false, key);
	raw_load(&c[0], key, key, 0);
	good = raw_receive(&c[0], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[0]).error == INFER_ERROR_NEED_FILES;
	good = good && raw_call(&c[1], &c[1].regions[0], key, &x, 1);
	tap_ok(good && c[1].regions[0].map->reply.error == INFER_ERROR_NEED_LOAD, "a request does not wait for a writer for ever");
	raw_load(&c[1], key, key, 0);
	tap_ok(raw_receive(&c[1], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[1]).error == INFER_ERROR_NEED_FILES,
		   "and who sent it may write the files");
	raw_close(&c[0]);
	raw_close(&c[1]);
	engine_stop(&hasty);
	engine_remove_folder(&hasty);
}

/* Many clients that go on asking. */
static void
test_many_loads(void)
{
	static struct raw_client c[80];
	struct engine_process e = {0};
	uint8_t		key[INFER_KEY_BYTES];
	int			busy = 0;

	engine_folder(&e);
	engine_start(&e, NULL);
	engine_toy(&e, "slow to check", true, key);
	for (int i = 0; i < 80; i++)
	{
		raw_connect(&c[i], e.socket);
		for (int j = 0; j < 16; j++)
			raw_load(&c[i], key, key, INFER_LOAD_CHECK);
	}
	for (int i = 79; i > 70; i--)
		busy += raw_receive(&c[i], RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c[i]).error == INFER_ERROR_BUSY;
	tap_ok(busy == 9 && engine_lives(&e), "the loader's queue is bounded (%d)", busy);
	for (int i = 0; i < 80; i++)
		raw_close(&c[i]);
	engine_stop(&e);
	engine_remove_folder(&e);
}

int
main(int argc, char **argv)
{
	if (getenv("TEST_WRITER_MSEC") != NULL)
		load_writer_nsec = strtoull(getenv("TEST_WRITER_MSEC"), NULL, 10) * 1000000;
	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	engine_folder(&engine);
	engine_start(&engine, NULL);
	test_writer();
	test_waiting_requests();
	test_failures();
	test_references();
	test_greedy();
	test_unload();
	test_unload_while_loading();
	test_late_surrender();
	test_eviction();
	test_dawdling_writer();
	test_many_loads();
	tap_ok(engine_lives(&engine), "the engine lives");
	engine_stop(&engine);
	engine_remove_folder(&engine);
	return tap_done();
}
