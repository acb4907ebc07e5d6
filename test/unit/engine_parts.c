/*
 * engine_parts.c
 *	  The engine's parts that need no socket: settings, estimates, eviction, files and their
 *	  digest, the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/model/files.h"
#include "engine/process/sandbox.h"
#include "engine/process/settings.h"
#include "engine/registry/residency.h"
#include "engine/scheduler/latency.h"
#include "engine/scheduler/predict.h"
#include "engine/status.h"
#include "tap.h"

static bool
set(struct settings *s, const char *text, bool started, struct status *status)
{
	bool		ignored;

	status_clear(status);
	return settings_set(s, text, started, &ignored, status) && !ignored;
}

static void
test_settings(void)
{
	struct settings s;
	struct status status;

	settings_default(&s);
	tap_ok(s.batch_rows == 256 && s.batch_tokens == 16384 && s.payload_limit == 1ull << 30 && s.engine_timeout == 10000000 &&
		   s.job_share == 5 && s.slice == 0 && s.cache_size == 10ull << 30 && strcmp(s.device, "auto") == 0, "settings have their defaults");
	tap_ok(set(&s, "memory=4096", false, &status) && s.memory == 4096ull << 20 &&
		   set(&s, "payload_limit=1024", false, &status) && s.payload_limit == 1 << 20 &&
		   set(&s, "engine_timeout=5000", false, &status) && s.engine_timeout == 5000000 &&
		   set(&s, "slice=2500", true, &status) && s.slice == 2500 && set(&s, "job_share=20", true, &status) && s.job_share == 20 &&
		   set(&s, "batch_tokens=0", true, &status) && s.batch_tokens == 0 &&
		   set(&s, "batch_delay=30", false, &status) && s.batch_delay == 30, "plain numbers are in the server's units");
	tap_ok(set(&s, "memory=2GB", false, &status) && s.memory == 2ull << 30 &&
		   set(&s, "batch_delay=2ms", false, &status) && s.batch_delay == 2000, "units may be written");
	tap_ok(!set(&s, "speed=3", false, &status) && strstr(status.message, "\"speed\"") != NULL, "an unknown setting is named");
	tap_ok(!set(&s, "batch_rows=0", false, &status) && strstr(status.message, "\"batch_rows\"") != NULL &&
		   strstr(status.detail, "65536") != NULL && s.batch_rows == 256, "a value out of range is refused with the range");
	tap_ok(!set(&s, "batch_rows=12x", false, &status) && !set(&s, "batch_rows=-1", false, &status) &&
		   !set(&s, "batch_rows=", false, &status) && !set(&s, "memory=99999999999999999999", false, &status) &&
		   !set(&s, "batch_rows", false, &status), "so is what is no number");
	tap_ok(!set(&s, "device=cpu", true, &status) && status.error == 0 && strcmp(s.device, "auto") == 0 &&
		   set(&s, "queue_limit=5", true, &status) && s.queue_limit == 5, "some settings need a start");
}

/* The clock is read before the lock is held, or by another thread. */
static void
test_counters(void)
{
	static struct engine engine = {.units_count = 1};
	static struct entry entry;

	counters_segment_begins(&engine.units[0], 1000);
	counters_segment_ends(&engine.units[0], &entry, 1000, 1500);
	counters_segment_begins(&engine.units[0], 1600);
	counters_reset(&engine, 2000);
	counters_segment_ends(&engine.units[0], &entry, 1600, 1900);
	tap_ok(counters_busy(&engine, 2000) == 0 && counters_elapsed(&engine, 1900) == 1, "times before the last reset count for nothing");
	counters_segment_begins(&engine.units[0], 2100);
	tap_ok(counters_busy(&engine, 2300) == 100 && counters_elapsed(&engine, 2300) == 300, "and those after it do");
}

/* Segments that a device works on at once. */
static void
test_shared_time(void)
{
	static struct engine engine = {.units_count = 1};
	static struct entry entry;
	struct busy_clock *unit = &engine.units[0];
	uint64_t	first, second, third;

	counters_segment_begins(unit, 0);
	counters_segment_begins(unit, 500);
	first = counters_segment_ends(unit, &entry, 0, 1000);
	second = counters_segment_ends(unit, &entry, 500, 2000);
	tap_ok(first == 1000 && second == 1000 && counters_busy(&engine, 5000) == 2000,
		   "of two segments the one that ends later had what was left of the time that the device was busy (%llu and %llu)",
		   (unsigned long long) first, (unsigned long long) second);
	counters_segment_begins(unit, 10000);
	counters_segment_begins(unit, 10100);
	first = counters_segment_ends(unit, &entry, 10100, 10200);
	counters_segment_begins(unit, 10300);
	second = counters_segment_ends(unit, &entry, 10000, 11000);
	third = counters_segment_ends(unit, &entry, 10300, 11100);
	tap_ok(first == 100 && second == 900 && third == 100 && counters_busy(&engine, 12000) == 3100 && entry.segments == 5,
		   "in whatever order they end, they had together what it was busy, and no time twice");
	engine.units_count = 2;
	counters_segment_begins(&engine.units[1], 20000);
	tap_ok(counters_busy(&engine, 20900) == 2000, "of two GPUs half of what they were busy together counts");
}

static void
test_latency(void)
{
	struct latency l = {0};
	struct latency large = {0};
	uint64_t	t;

	tap_ok(latency_estimate(&l, 10, 1234, 0) == 1234 && latency_estimate(&l, 10, 0, 0) > 1000000,
		   "without a measurement the prior decides; without either nothing is small");
	for (int i = 0; i < 100; i++)
		latency_record(&l, 1, 20000);
	tap_ok(latency_estimate(&l, 1, 5, 0) == 20000, "one size, often measured, is known");
	t = latency_estimate(&l, 100, 0, 0);
	tap_ok(t >= 20000 && t <= 2000000, "a larger one is bounded");
	for (int i = 0; i < 100; i++)
		latency_record(&large, 256, 9000000);
	tap_ok(latency_estimate(&l, 100, 500000, 10000) == 1000000 && latency_estimate(&large, 1, 100000, 4500000) == 200000 &&
		   latency_mean_cost(&large) == 256, "and where there is a prior, it is scaled by how far off it is");
	for (int i = 0; i < 300; i++)
		latency_record(&l, 1 + (uint32_t) i % 64, 10000 + 500 * (1 + (uint64_t) i % 64));
	t = latency_estimate(&l, 32, 0, 0);
	tap_ok(t > 24000 && t < 28000 && latency_is_known(&l, 200), "sizes that differ give constant and slope (%llu)", (unsigned long long) t);
	t = latency_estimate(&l, 128, 0, 0);
	tap_ok(t > 65000 && t < 84000, "which carry beyond what was seen (%llu)", (unsigned long long) t);
	latency_record(&l, 1, 1000000000);
	t = latency_estimate(&l, 1, 0, 0);
	tap_ok(t < 200000, "one outlier teaches little (%llu)", (unsigned long long) t);
}

static bool
weighs(struct model *model, struct model_request *request, struct status *status)
{
	return true;
}

/* 1 µs a token, 8 of them in a usual row, and 100 µs. */
static uint64_t
prior(struct model *model, const struct model_cost *cost)
{
	return 100000 + 1000 * (cost->tokens > 0 ? cost->tokens : 8 * (uint64_t) cost->rows);
}

static const struct model_ops weighed_ops = {.prepare = weighs, .estimate_nsec = prior};

/* What a batch of rows of so many tokens is predicted to take, percent of what it does. */
static uint64_t
predicted(struct entry *entry, uint32_t rows, uint32_t tokens)
{
	struct batch batch = {.rows = rows, .units = rows * tokens, .cost = 1000 * (uint64_t) rows * tokens};

	return 100 * predict_batch(entry, &batch) / (50000 + 3000 * (uint64_t) rows * tokens);
}

static void
test_weighed(void)
{
	static struct engine engine;
	static struct entry entry;
	struct model model = {.ops = &weighed_ops, .batch_rows_max = 100};
	uint64_t	unmeasured;

	engine.policy.rows_max = 256;
	engine.policy.slice = 10000000;
	batch_model_init(&entry.queue);
	entry.queue.rows_max = 100;
	entry.model = &model;
	predict_reset(&engine, &entry);
	tap_ok(entry.queue.weighed && entry.queue.cost_row == 8000 && batch_nsec(&entry.queue, 8000) == 108000 &&
		   batch_nsec(&entry.queue, 500000) == 600000, "before it is measured a model's own prediction of its rows counts");
	unmeasured = predicted(&entry, 1, 5);
	for (uint32_t i = 0; i < 100; i++)
	{
		uint32_t	tokens = i * 37 % 100 < 50 ? 5 : 500;
		uint32_t	rows = 1 + i % 4;
		uint64_t	cost = 1000 * (uint64_t) rows * tokens;

		predict_learn(&engine, &entry, cost, predict_nsec(&entry, cost), 50000 + 3 * cost);
	}
	tap_ok(unmeasured > 105 && predicted(&entry, 1, 5) >= 98 && predicted(&entry, 1, 5) <= 102 &&
		   predicted(&entry, 1, 500) >= 98 && predicted(&entry, 1, 500) <= 102 && predicted(&entry, 16, 60) >= 98 &&
		   predicted(&entry, 16, 60) <= 102, "afterwards rows of 5 and of 500 tokens are predicted right");
	tap_ok(latency_errors_median(&entry.latency_errors) < 20, "and the predictions' error says so (%u)", latency_errors_median(&entry.latency_errors));
	tap_ok(batch_nsec(&entry.queue, 500000) > 1500000 && batch_nsec(&entry.queue, 500000) < 1600000 &&
		   batch_nsec(&entry.queue, 5000) > 62000 && batch_nsec(&entry.queue, 5000) < 68000, "as the policy sees it, too");
}

static void
test_residency(void)
{
	struct resident r[] = {{100, 5, false}, {100, 1, true}, {100, 3, false}, {0, 0, false}};

	tap_ok(residency_victim(r, 4) == 2, "the least recently used idle model goes");
	r[2].busy = r[0].busy = true;
	tap_ok(residency_victim(r, 4) == -1, "busy ones stay");
	tap_ok(residency_excess(100, 50, 0) == 0 && residency_excess(100, 50, 150) == 0 && residency_excess(100, 50, 120) == 30,
		   "the excess is over the budget");
}

static void
write_file(const char *folder, const char *name, const char *contents)
{
	char		path[256];
	FILE	   *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	fputs(contents, file);
	fclose(file);
}

static void
test_files(const char *folder)
{
	/* of hashlib, over the three files below */
	static const char expected[] = "55d1fda8d3032588301cf07f9713cbd0d96a97df52d75a0d664a8b2c5d385d68";
	struct model_files files;
	struct status status;
	uint8_t		digest[INFER_KEY_BYTES];
	char		text[65];
	char		path[256];

	status_clear(&status);
	snprintf(path, sizeof(path), "%s/none", folder);
	tap_ok(files_open_folder(path, &files, &status) == FILES_MISSING, "a folder that is not there is missing");
	snprintf(path, sizeof(path), "%s/model", folder);
	mkdir(path, 0700);
	tap_ok(files_open_folder(path, &files, &status) == FILES_MISSING, "so is one with nothing in it");
	write_file(path, "b.onnx", "abc");
	write_file(path, "a-empty", "");
	snprintf(path, sizeof(path), "%s/model/sub", folder);
	mkdir(path, 0700);
	write_file(path, "weights", "xyz");
	snprintf(path, sizeof(path), "%s/model", folder);
	tap_ok(files_open_folder(path, &files, &status) == FILES_OK && files.count == 3 &&
		   strcmp(files.files[0].name, "a-empty") == 0 && strcmp(files.files[1].name, "b.onnx") == 0 &&
		   strcmp(files.files[2].name, "sub/weights") == 0, "files are found in folders, sorted");
	tap_ok(model_files_find(&files, "sub/weights") == &files.files[2] && model_files_find(&files, "a-empty")->size == 0 &&
		   model_files_find(&files, "c") == NULL, "by name");
	files_digest(&files, digest);
	for (int i = 0; i < INFER_KEY_BYTES; i++)
		sprintf(text + 2 * i, "%02x", digest[i]);
	tap_ok(strcmp(text, expected) == 0, "the digest is the protocol's (%s)", text);
	files_close(&files);

	snprintf(path, sizeof(path), "%s/model/link", folder);
	if (symlink("/etc/passwd", path) < 0)
		exit(1);
	snprintf(path, sizeof(path), "%s/model", folder);
	tap_ok(files_open_folder(path, &files, &status) == FILES_MISSING && status.error == INFER_OK && files.count == 0,
		   "a link where the cache had a file is damage, and is not followed");
}

/* Bits of what a process in the sandbox can do. */
enum ability
{
	CAN_WRITE_OWN = 1, CAN_WRITE_OTHER = 2, CAN_READ_LIBRARIES = 4, CAN_READ_OTHER = 8,
	CAN_INET = 16, CAN_UNIX = 32, CAN_READ_OWN = 64,
	CAN_OWN = CAN_WRITE_OWN | CAN_READ_OWN | CAN_READ_LIBRARIES | CAN_UNIX
};

static int
opens(const char *folder, const char *name, int flags, int ability)
{
	char		path[256];
	int			fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, flags, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0 ? ability : 0;
}

/* A path that infer-engine check was given. */
static void
test_path(const char *folder)
{
	struct model_files files;
	struct status status = {0};
	char		path[256];

	snprintf(path, sizeof(path), "%s/pipe.onnx", folder);
	if (mkfifo(path, 0600) < 0)
		exit(1);
	alarm(5);
	tap_ok(files_open_path(path, &files, &status) == FILES_FAILED && strstr(status.message, "is not a regular file") != NULL,
		   "a pipe is refused, not waited for");
	alarm(0);
	unlink(path);
}

static void
test_sandbox(const char *own, const char *other)
{
	char		packed[64];
	const struct sandbox_folder folders[] = {{own, SANDBOX_READ}, {packed, SANDBOX_WRITE}, {NULL}};
	int			status;
	pid_t		pid;

	snprintf(packed, sizeof(packed), "%s/packed", own);
	mkdir(packed, 0700);
	write_file(other, "secret", "x");
	write_file(own, "readable", "x");
	pid = fork();
	if (pid == 0)
	{
		int			can = 0;
		char	   *argv[] = {"true", NULL};

		sandbox_enter(folders);
		can |= opens(own, "readable", O_RDONLY, CAN_READ_OWN);
		can |= opens(own, "readable", O_WRONLY, CAN_WRITE_OTHER);
		can |= opens(own, "new", O_CREAT | O_WRONLY, CAN_WRITE_OTHER);
		can |= opens(packed, "new", O_CREAT | O_WRONLY, CAN_WRITE_OWN);
		can |= opens(other, "new", O_CREAT | O_WRONLY, CAN_WRITE_OTHER);
		can |= opens("/etc", "ld.so.cache", O_RDONLY, CAN_READ_LIBRARIES);
		can |= opens(other, "secret", O_RDONLY, CAN_READ_OTHER);
		can |= socket(AF_INET, SOCK_STREAM, 0) >= 0 ? CAN_INET : 0;
		can |= socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? CAN_UNIX : 0;
		execv("/bin/true", argv);
		_exit(can);				/* had it been executed, the status would be 0 */
	}
	waitpid(pid, &status, 0);
	status = WEXITSTATUS(status);
	tap_ok((status & CAN_OWN) == CAN_OWN,
		   "the sandbox allows its own folders, libraries and Unix sockets");
	tap_ok(status != 0 && (status & CAN_INET) == 0, "it has no network and executes nothing");
	if (access("/sys/kernel/security/landlock", F_OK) < 0 && (status & CAN_READ_OTHER) != 0)
		tap_skip("it opens nothing else", "this kernel has no Landlock");
	else
		tap_ok((status & (CAN_WRITE_OTHER | CAN_READ_OTHER)) == 0, "it opens nothing else");
}

int
main(void)
{
	char		folder[] = "/tmp/infer-test-XXXXXX";
	char		other[] = "/tmp/infer-test-XXXXXX";
	char		command[128];

	if (mkdtemp(folder) == NULL || mkdtemp(other) == NULL)
		return 1;
	test_settings();
	test_counters();
	test_shared_time();
	test_latency();
	test_weighed();
	test_residency();
	test_files(folder);
	test_path(folder);
	test_sandbox(folder, other);
	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", folder, other);
	return system(command) == 0 ? tap_done() : 1;
}
