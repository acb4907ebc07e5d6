/*
 * engine_packed.c
 *	  The packed cache of an engine: written, read by the next, never believed when it is not
 *	  right, never in the way when it cannot be written; and models that take turns in less
 *	  memory than they need together.
 */
#define ENGINE_REAL_KINDS
#include "engine_process.h"
#include "engine/model/packed.h"
#include "tap.h"
#include "wide_model.h"

#define MODELS		8
#define CLIENTS		4
#define VALUES		3

static const float values[VALUES] = {1, -0.3125f, 1e10f};

struct wide							/* a model of the cache */
{
	uint8_t		key[INFER_KEY_BYTES];
	float		results[VALUES];	/* when it was packed for the first time */
	size_t		bytes;
};

/* The only file in models/packed, or NULL if there is none within a while. */
static char *
packed_file(struct engine_process *e, int msec)
{
	static char path[512];
	char		folder[128];

	snprintf(folder, sizeof(folder), "%s/models/packed", e->folder);
	for (int i = 0; i < msec; i++)
	{
		DIR		   *dir = opendir(folder);
		struct dirent *entry;
		bool		found = false;

		while (dir != NULL && (entry = readdir(dir)) != NULL)
			if (strlen(entry->d_name) > 2 * INFER_KEY_BYTES)
			{
				snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
				found = true;
			}
		if (dir != NULL)
			closedir(dir);
		if (found)
			return path;
		usleep(1000);
	}
	return NULL;
}

static int
packed_count(struct engine_process *e, uint64_t *bytes)
{
	char		folder[128];
	DIR		   *dir;
	struct dirent *entry;
	int			count = 0;

	*bytes = 0;
	snprintf(folder, sizeof(folder), "%s/models/packed", e->folder);
	dir = opendir(folder);
	while ((entry = readdir(dir)) != NULL)
	{
		struct stat st;

		if (strlen(entry->d_name) > 2 && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
		{
			count++;
			*bytes += (uint64_t) st.st_size;
		}
	}
	closedir(dir);
	return count;
}

static void
model_path(struct engine_process *e, const uint8_t *key, char *path)
{
	int			used = sprintf(path, "%s/models/", e->folder);

	for (int i = 0; i < INFER_KEY_BYTES; i++)
		used += sprintf(path + used, "%02x", key[i]);
	strcpy(path + used, "/model.onnx");
}

static void
add_model(struct engine_process *e, uint32_t seed, struct wide *w)
{
	struct wide_bytes model = wide_model(seed);

	engine_model(e, "model.onnx", model.data, model.size, true, w->key);
	w->bytes = model.size;
	free(model.data);
}

static bool
loads(struct raw_client *c, const struct wide *w)
{
	return raw_load(c, w->key, w->key, 0) && raw_receive(c, 10000) == INFER_FRAME_LOADED;
}

static struct infer_stats_model
model_stats(struct raw_client *c, const struct wide *w)
{
	struct infer_stats_head head;
	struct infer_stats_model model;

	raw_stats(c, w->key, &head, &model);
	return model;
}

static bool
computes(struct raw_client *c, const struct wide *w, float *results)
{
	if (!raw_call(c, &c->regions[0], w->key, values, VALUES) || c->regions[0].map->reply.error != 0)
		return false;
	for (uint32_t i = 0; i < VALUES; i++)
		results[i] = raw_row_f32(&c->regions[0], i);
	return true;
}

static void
start(struct engine_process *e, struct raw_client *c, const char *const *settings)
{
	engine_start(e, settings);
	raw_connect(c, e->socket);
	raw_region(c, 0, 1 << 16);
}

static void
stop(struct engine_process *e, struct raw_client *c)
{
	raw_close(c);
	engine_stop(e);
}

/* A new engine loads it: from the cache or not, with the bits of the first time. */
static void
test_again(struct engine_process *e, const struct wide *w, bool from_cache, const char *what)
{
	struct raw_client c;
	float		results[VALUES];
	bool		good;

	start(e, &c, NULL);
	good = loads(&c, w) && computes(&c, w, results) && memcmp(results, w->results, sizeof(results)) == 0;
	tap_ok(good && model_stats(&c, w).from_cache == from_cache, "%s: %s, and the same bits", what,
		   from_cache ? "it comes from the cache" : "it is packed anew");
	packed_file(e, RAW_TIMEOUT);
	stop(e, &c);
}

static void
flip(const char *path, off_t at)
{
	uint8_t		byte;
	int			fd = open(path, O_RDWR);

	if (pread(fd, &byte, 1, at) != 1)
		raw_fail("pread");
	byte ^= 1;
	if (pwrite(fd, &byte, 1, at) != 1)
		raw_fail("pwrite");
	close(fd);
}

static void
test_file(struct engine_process *e, struct wide *w)
{
	struct raw_client c;
	char		model[256];
	char	   *path;
	uint64_t	bytes;

	start(e, &c, NULL);
	tap_ok(loads(&c, w) && computes(&c, w, w->results) && model_stats(&c, w).from_cache == 0, "at first a model is packed");
	path = packed_file(e, RAW_TIMEOUT);
	tap_ok(path != NULL && packed_count(e, &bytes) == 1, "and its packed form is written behind");
	stop(e, &c);
	if (path == NULL)
		return;
	test_again(e, w, true, "the next engine");

	flip(path, 40);
	test_again(e, w, false, "a bit of the head flipped");
	test_again(e, w, true, "and it was written again");
	flip(path, PACKED_ALIGN + 70000);
	test_again(e, w, false, "a bit of a weight flipped");
	if (truncate(path, 500000) < 0)
		raw_fail("truncate");
	test_again(e, w, false, "the file cut short");
	if (truncate(path, 0) < 0)
		raw_fail("truncate");
	test_again(e, w, false, "the file emptied");
	unlink(path);
	if (symlink("/etc/passwd", path) < 0)
		raw_fail("symlink");
	test_again(e, w, false, "a link in its place");
	unlink(path);
	test_again(e, w, false, "the file gone");

	/* the model's own file: the middle of B, and the operator's name */
	model_path(e, w->key, model);
	flip(model, (off_t) w->bytes / 2);
	test_again(e, w, true, "bytes of the model that nobody reads any more");
	flip(model, (off_t) w->bytes / 2);
	flip(model, 20);
	start(e, &c, NULL);
	tap_ok(!loads(&c, w) && raw_error(&c).error == INFER_ERROR_NEED_FILES, "what is still read is verified");
	stop(e, &c);
	flip(model, 20);
	setenv("INFER_CPU", "scalar", 1);
	start(e, &c, NULL);
	tap_ok(loads(&c, w) && model_stats(&c, w).from_cache == 0, "other numerics have another file");
	while (packed_count(e, &bytes) < 2)
		usleep(1000);
	stop(e, &c);
	unsetenv("INFER_CPU");
	test_again(e, w, true, "and leave this one");
}

/* The packed form of a model is there within a while. */
static bool
is_kept(struct engine_process *e, struct raw_client *c, struct wide *w)
{
	return loads(c, w) && computes(c, w, w->results) && model_stats(c, w).from_cache == 0 &&
		packed_file(e, RAW_TIMEOUT) != NULL;
}

/* Whoever deletes the folder, or the cache, while the engine runs, finds it again. */
static void
test_removed(struct engine_process *e)
{
	struct wide w[3];
	struct raw_client c;
	char		command[256];

	engine_folder(e);
	for (uint32_t i = 0; i < 2; i++)
		add_model(e, 30 + i, &w[i]);
	start(e, &c, NULL);
	tap_ok(is_kept(e, &c, &w[0]), "a packed model is kept");
	snprintf(command, sizeof(command), "rm -r '%s/models/packed'", e->folder);
	tap_ok(system(command) == 0 && is_kept(e, &c, &w[1]), "so is the next one after their folder was removed");
	snprintf(command, sizeof(command), "rm -r '%s/models' && mkdir '%s/models'", e->folder, e->folder);
	tap_ok(system(command) == 0, "the whole cache is removed");
	add_model(e, 32, &w[2]);
	tap_ok(is_kept(e, &c, &w[2]), "and a packed model is kept again");
	stop(e, &c);
	engine_remove_folder(e);
}

/* A file where the folder belongs, and not enough room. */
static void
test_unwritable(struct engine_process *e)
{
	struct wide w[2];
	struct raw_client c;
	char		folder[128];
	uint64_t	bytes;

	engine_folder(e);
	for (uint32_t i = 0; i < 2; i++)
		add_model(e, 50 + i, &w[i]);
	snprintf(folder, sizeof(folder), "%s/models/packed", e->folder);
	start(e, &c, NULL);
	if (rmdir(folder) < 0 || mknod(folder, S_IFREG | 0600, 0) < 0)
		raw_fail("a file for the folder");
	tap_ok(loads(&c, &w[0]) && computes(&c, &w[0], w[0].results), "with a file in the folder's place models load all the same");
	tap_ok(engine_logged(e, "packed models are not kept in the cache"), "and the log says it");
	tap_ok(loads(&c, &w[1]) && computes(&c, &w[1], w[1].results) && engine_lives(e), "again");
	stop(e, &c);
	unlink(folder);

	/* room for the models' files and one packed file */
	start(e, &c, (const char *const[]) {"cache_size=5", NULL});
	for (int i = 0; i < 2; i++)
	{
		tap_ok(loads(&c, &w[i]) && packed_file(e, RAW_TIMEOUT) != NULL && packed_count(e, &bytes) == 1,
			   "with room for one packed file there is one");
		usleep(20000);
	}
	stop(e, &c);
	engine_remove_folder(e);
}

/* ---- models that take turns ---- */

struct turns						/* what a client saw */
{
	int			failures;
	int			wrong;
	uint64_t	peak;				/* bytes of all models */
	uint64_t	peak_device;
};

/* Of all models at one moment, and of the device. */
static uint64_t
bytes_held(struct raw_client *c, uint64_t *device_bytes)
{
	struct infer_stats_head head;
	struct infer_stats_device device;
	struct infer_stats_model model;
	const uint8_t *at;
	uint64_t	bytes = 0;

	raw_stats(c, NULL, &head, &model);
	at = c->payload + sizeof(head);
	memcpy(&device, at, sizeof(device));
	at += head.devices_count * sizeof(device);
	for (uint32_t i = 0; i < head.models_count; i++, at += sizeof(model))
	{
		memcpy(&model, at, sizeof(model));
		bytes += model.bytes;
	}
	*device_bytes = device.bytes_used;
	return bytes;
}

static void
take_turns(struct engine_process *e, const struct wide *w, int client, struct turns *turns)
{
	struct raw_client c;
	float		results[VALUES];

	raw_connect(&c, e->socket);
	raw_region(&c, 0, 1 << 16);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < MODELS; i++)
		{
			const struct wide *one = &w[(i * (client % 2 == 0 ? 1 : 3) + client) % MODELS];
			bool		done = false;
			uint64_t	device;
			uint64_t	bytes;

			/* as a session does it: call, and load if told so */
			for (int attempt = 0; attempt < 100 && !done; attempt++)
			{
				if (!raw_call(&c, &c.regions[0], one->key, values, VALUES))
					break;
				if (c.regions[0].map->reply.error == 0)
					done = true;
				else if (c.regions[0].map->reply.error != INFER_ERROR_NEED_LOAD || !loads(&c, one))
					break;
			}
			for (uint32_t v = 0; done && v < VALUES; v++)
				results[v] = raw_row_f32(&c.regions[0], v);
			turns->failures += !done;
			turns->wrong += done && memcmp(results, one->results, sizeof(results)) != 0;
			bytes = bytes_held(&c, &device);
			turns->peak = bytes > turns->peak ? bytes : turns->peak;
			turns->peak_device = device > turns->peak_device ? device : turns->peak_device;
		}
	raw_close(&c);
}

static void
test_turns(struct engine_process *e)
{
	/* three models of eight; a call takes so long that all of them are often in use */
	static const char *const settings[] = {"memory=6", "device=null:delay=5", NULL};
	struct wide w[MODELS];
	struct turns *turns = mmap(NULL, CLIENTS * sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct turns all = {0};
	struct raw_client c;
	uint64_t	bytes;
	int			from_cache = 0;

	engine_folder(e);
	for (uint32_t i = 0; i < MODELS; i++)
		add_model(e, 100 + i, &w[i]);
	start(e, &c, settings);
	for (int i = 0; i < MODELS; i++)
		if (!loads(&c, &w[i]) || !computes(&c, &w[i], w[i].results))
			all.failures++;
	tap_ok(all.failures == 0, "models that need twice infer.memory load one after the other");
	for (int i = 0; i < RAW_TIMEOUT && packed_count(e, &bytes) < MODELS; i++)
		usleep(1000);
	tap_ok(packed_count(e, &bytes) == MODELS, "each leaves its packed form");
	for (int i = 0; i < CLIENTS; i++)
		if (fork() == 0)
		{
			take_turns(e, w, i, &turns[i]);
			_exit(0);
		}
	for (int i = 0; i < CLIENTS; i++)
	{
		int			status;

		wait(&status);
		all.failures += status != 0;
	}
	for (int i = 0; i < CLIENTS; i++)
	{
		all.failures += turns[i].failures;
		all.wrong += turns[i].wrong;
		all.peak = turns[i].peak > all.peak ? turns[i].peak : all.peak;
		all.peak_device = turns[i].peak_device > all.peak_device ? turns[i].peak_device : all.peak_device;
	}
	tap_ok(all.failures == 0, "%d clients call all of them in turn, and nothing fails (%d)", CLIENTS, all.failures);
	tap_ok(all.wrong == 0, "every result has the bits of the first (%d)", all.wrong);
	tap_ok(all.peak > 0 && all.peak <= 6u << 20, "models never hold more than infer.memory (%llu)", (unsigned long long) all.peak);
	tap_ok(all.peak_device > 0 && all.peak_device <= 6u << 20, "nor do the device's weights (%llu)", (unsigned long long) all.peak_device);
	for (int i = 0; i < MODELS; i++)
		from_cache += model_stats(&c, &w[i]).from_cache;
	tap_ok(from_cache >= 2 && engine_lives(e), "and those that are loaded came from the cache (%d)", from_cache);
	stop(e, &c);
	engine_remove_folder(e);
}

int
main(int argc, char **argv)
{
	struct engine_process e = {0};
	struct wide w;

	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	engine_folder(&e);
	add_model(&e, 1, &w);
	test_file(&e, &w);
	engine_remove_folder(&e);
	test_removed(&e);
	test_unwritable(&e);
	test_turns(&e);
	return tap_done();
}
