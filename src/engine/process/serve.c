/*
 * serve.c
 *	  infer-engine's command line, and the order in which a running engine is put together.
 *
 * Order of a start (each step relies on those before it)
 *	descriptors and signals → settings → lock file → folders → sandbox → status page →
 *	device → threads → socket → READY.  A failure is one FATAL line and status 1; nothing
 *	needs to be undone, since nothing outlives the process but a lock file without a lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../check.h"
#include "../devices.h"
#include "../engine.h"
#include "../registry/load.h"
#include "../registry/packed_store.h"
#include "../scheduler/prepare.h"
#include "../scheduler/scheduler.h"
#include "../server/server.h"
#include "log.h"
#include "process.h"
#include "sandbox.h"
#include "serve.h"

#define EXIT_USAGE 2

struct options
{
	const char *socket;
	const char *lock;
	const char *cache;
	const char *library;			/* of the CUDA device, or NULL */
	const char *without_cuda;		/* "auto" is the CPU, because of this; or NULL */
	int			status_fd;			/* -1: makes its own page */
	int			control_fd;			/* -1: not supervised */
	char	  **settings;
	int			settings_count;
};

static struct engine engine;
static struct server server;

static void
print_help(void)
{
	printf("infer-engine runs models for the PostgreSQL extension infer.\n\n"
		   "Usage:\n"
		   "  infer-engine --socket PATH --lock PATH [--cache DIR] [--cuda PATH] [--without-cuda WHY] [--setting NAME=VALUE]...\n"
		   "  infer-engine check PATH [--options JSON]\n"
		   "  infer-engine devices [--cuda PATH]\n\n"
		   "The first form serves; the server's background worker starts it, with\n"
		   "--status-fd N and --control-fd N; --cuda is where infer_cuda.so lies,\n"
		   "--without-cuda why device=auto is to be the CPU all the same.  The second says what a model file or folder is,\n"
		   "or why it cannot be used.  JSON is as the options of infer.create_model().  The third says\n"
		   "what models could run on here, or why not.\n\n"
		   "Settings, with their defaults:\n");
	settings_help();
	printf("\nINFER_CPU=scalar, avx2 or avx512 in the environment chooses the kernels, for tests;\n"
		   "INFER_CUDA=PATH another library of the CUDA device.\n");
}

static void
usage(void)
{
	fprintf(stderr, "Try \"infer-engine --help\" for more information.\n");
	exit(EXIT_USAGE);
}

static int
parse_fd(const char *text)
{
	char	   *end;
	long		fd = strtol(text, &end, 10);

	if (*end != '\0' || end == text || fd < 0 || fd > 65535 || fcntl((int) fd, F_GETFD) < 0)
	{
		fprintf(stderr, "infer-engine: \"%s\" is no open descriptor\n", text);
		usage();
	}
	return (int) fd;
}

static void
parse_options(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{"socket", required_argument, NULL, 's'},
		{"lock", required_argument, NULL, 'l'},
		{"cache", required_argument, NULL, 'c'},
		{"cuda", required_argument, NULL, 'd'},
		{"without-cuda", required_argument, NULL, 'w'},
		{"status-fd", required_argument, NULL, 'p'},
		{"control-fd", required_argument, NULL, 'k'},
		{"setting", required_argument, NULL, 'x'},
		{0}
	};
	int			option;

	*options = (struct options) {.status_fd = -1, .control_fd = -1};
	options->settings = calloc((size_t) argc, sizeof(char *));
	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1)
	{
		switch (option)
		{
			case 's':
				options->socket = optarg;
				break;
			case 'l':
				options->lock = optarg;
				break;
			case 'c':
				options->cache = optarg;
				break;
			case 'd':
				options->library = optarg;
				break;
			case 'w':
				options->without_cuda = optarg;
				break;
			case 'p':
				options->status_fd = parse_fd(optarg);
				break;
			case 'k':
				options->control_fd = parse_fd(optarg);
				break;
			case 'x':
				options->settings[options->settings_count++] = optarg;
				break;
			default:
				usage();
		}
	}
	if (optind < argc || options->socket == NULL || options->lock == NULL)
	{
		fprintf(stderr, "infer-engine: %s\n", optind < argc ? "too many arguments" : "--socket and --lock are needed");
		usage();
	}
}

static int
run_check(int argc, char **argv)
{
	static const struct option longs[] = {{"options", required_argument, NULL, 'o'}, {0}};
	const char *options = "{}";
	int			option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1)
	{
		if (option != 'o')
			usage();
		options = optarg;
	}
	if (optind + 1 != argc)
	{
		fprintf(stderr, "infer-engine: check takes one path\n");
		usage();
	}
	return check_model(argv[optind], options);
}

/* Of the CUDA device: the environment's, for tests, or else the one that was named. */
static const char *
library_path(const char *named)
{
	const char *library = getenv("INFER_CUDA");

	return library != NULL && library[0] != '\0' ? library : named;
}

static int
run_devices(int argc, char **argv)
{
	static const struct option longs[] = {{"cuda", required_argument, NULL, 'd'}, {0}};
	const char *library = NULL;
	int			option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1)
	{
		if (option != 'd')
			usage();
		library = optarg;
	}
	if (optind != argc)
	{
		fprintf(stderr, "infer-engine: devices takes no arguments\n");
		usage();
	}
	return devices_list(library_path(library));
}

/* ---- serving ---- */

static void
fatal(const char *prefix, const struct status *status)
{
	log_status(LOG_FATAL, prefix, status);
	process_exit(1);
}

static void
take_settings(const struct options *options)
{
	struct status status;
	bool		ignored;

	status_clear(&status);
	settings_default(&engine.settings);
	for (int i = 0; i < options->settings_count; i++)
	{
		if (!settings_set(&engine.settings, options->settings[i], false, &ignored, &status))
			fatal("invalid setting", &status);
	}
	batch_policy_init(&engine.policy);
	scheduler_settings(&engine);
}

/*
 * Maps the page writable, then seals it so that nobody else can.  Where the kernel cannot
 * seal it so, clients are trusted with it as they are with the socket: same user.
 */
static bool
open_page(int fd, struct status *status)
{
	struct stat st;

	if (fd < 0)
	{
		fd = memfd_create("infer-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd < 0 || ftruncate(fd, INFER_REGION_HEAD) < 0)
			return status_set(status, INFER_ERROR_INTERNAL, "could not create the status page: %s", strerror(errno));
	}
	if (fstat(fd, &st) < 0 || st.st_size < (off_t) sizeof(*engine.page))
		return status_set(status, INFER_ERROR_INTERNAL, "the status page is too small");
	engine.page = mmap(NULL, sizeof(*engine.page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (engine.page == MAP_FAILED)
		return status_set(status, INFER_ERROR_INTERNAL, "could not map the status page: %s", strerror(errno));
	engine.page_fd = fd;
	(void) fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
	engine.page->magic = INFER_PROTOCOL_MAGIC;
	engine.page->version = INFER_PROTOCOL_VERSION;
	engine.page->epoch = engine.epoch;
	infer_store_release32(&engine.page->state, INFER_ENGINE_STARTING);
	return true;
}

static bool
make_cache(const char *cache, struct status *status)
{
	engine.cache = cache;
	if (cache != NULL && mkdir(cache, 0700) < 0 && errno != EEXIST)
		return status_set(status, INFER_ERROR_INTERNAL, "could not create the folder \"%s\": %s", cache, strerror(errno));
	if (cache != NULL)
		packed_store_prepare(cache);
	return true;
}

static void
enter_sandbox(const struct options *options)
{
	char	   *socket_copy = strdup(options->socket);
	const char *library = library_path(options->library);
	struct sandbox_folder folders[5] = {{dirname(socket_copy), SANDBOX_WRITE}};
	int			count = 1;

	if (options->cache != NULL)
		folders[count++] = (struct sandbox_folder) {options->cache, SANDBOX_WRITE};
	if (library != NULL)
	{
		folders[count++] = (struct sandbox_folder) {library, SANDBOX_READ};	/* wherever it lies */
		/* NVIDIA's driver names its threads there, and does not start where it may not */
		folders[count] = (struct sandbox_folder) {"/proc/self/task", SANDBOX_CHANGE};
	}
	sandbox_enter(folders);
	free(socket_copy);
}

static bool
open_device(const struct options *command, struct status *status)
{
	struct device_options options = {
		.threads = (int) engine.settings.cpu_threads,
		.memory = engine.settings.memory,
		.gpu_memory = engine.settings.gpu_memory,
		.library = library_path(command->library),
		.passed_over = &engine.passed_over,
		.arch = getenv("INFER_CPU"),
		.beat = &engine.page->device_beat,
		.load_beat = &engine.page->load_beat,
		.load_busy = &engine.page->load_busy
	};

	const char *setting = engine.settings.device;

	setenv("CUDA_CACHE_DISABLE", "1", 0);	/* it would be written outside of the engine's folder */
	if (command->without_cuda != NULL && strcmp(setting, "auto") == 0)
	{
		status_set(&engine.passed_over, INFER_ERROR_DEVICE_LOST, "%s", command->without_cuda);
		setting = "cpu";
	}
	engine.device = device_open(setting, &options, status);
	if (engine.device == NULL)
		return false;
	engine.device->ops->info(engine.device, &engine.info);
	if (engine.info.threads == 0)
		engine.info.threads = 1;
	engine.page->cores = engine.info.threads;
	memcpy(engine.page->device, engine.info.name, strnlen(engine.info.name, sizeof(engine.page->device) - 1));
	return true;
}

static bool
start_threads(struct status *status)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&engine.lock, NULL);
	pthread_cond_init(&engine.work, &attr);
	pthread_cond_init(&engine.loads, &attr);
	pthread_cond_init(&engine.closed, &attr);
	pthread_condattr_destroy(&attr);
	engine.load_last = &engine.load_first;
	return scheduler_start(&engine, status) && prepare_start(&engine, status) && load_start(&engine, status);
}

static int
serve(const struct options *options)
{
	struct status status;

	status_clear(&status);
	process_close_inherited(options->status_fd, options->control_fd);
	take_settings(options);
	engine.epoch = engine.since = process_time();
	engine.counted_from = process_clock();
	engine.cores = process_cores();
	if (!process_init(options->control_fd >= 0, engine.settings.nice, &status) ||
		process_lock(options->lock, &status) < 0 ||
		!make_cache(options->cache, &status))
		fatal("could not start", &status);
	enter_sandbox(options);
	if (!open_page(options->status_fd, &status))
		fatal("could not start", &status);
	process_on_exit(engine.page, options->socket);
	if (!open_device(options, &status))
		fatal("could not open the device", &status);
	if (!start_threads(&status))
	{
		log_status(LOG_FATAL, "could not start", &status);
		process_exit_device_lost();	/* it could be opened, but does not work */
	}
	if (!server_open(&server, &engine, options->socket, options->control_fd, &status))
		fatal("could not start", &status);
	infer_store_release32(&engine.page->state, INFER_ENGINE_READY);
	log_write(LOG_INFO, "version %s serves on %s (%s), %u compute threads; products: %s, %s by default", INFER_VERSION,
			  engine.info.name, engine.info.numerics_id, engine.info.threads, engine.info.products,
			  device_precision_name(engine.info.precision_default));
	if (engine.passed_over.error != 0)
		log_write(LOG_INFO, "no CUDA device: %s", engine.passed_over.message);
	if (engine.info.detail[0] != '\0')
		log_write(LOG_WARNING, "%s: %s", engine.info.name, engine.info.detail);
	server_run(&server);
}

int
engine_main(int argc, char **argv)
{
	struct options options;

	if (argc > 1 && strcmp(argv[1], "--help") == 0)
	{
		print_help();
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "--version") == 0)
	{
		printf("infer-engine %s\n", INFER_VERSION);
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "check") == 0)
		return run_check(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "devices") == 0)
		return run_devices(argc - 1, argv + 1);
	parse_options(argc, argv, &options);
	return serve(&options);
}
