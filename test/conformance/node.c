/*
 * node.c
 *	  Runs conformance cases through the engine as a client would: model_open, then rows.
 *
 * Nouns
 *	case		case.h; the ONNX project's node tests, generated cases, and whole exports
 *	suite		a folder of cases: its own name is the first part of every report line
 *	stranger	rows.h
 *
 * Loop
 *	For each case: open the model, whose fixed shapes make the case's tensors one row; run it
 *	as a single row, as three equal rows, and as one row among strangers.  The row must
 *	equal the expected outputs within the case's tolerance (integers, booleans and
 *	strings exactly), and its bits must be the same in all five places (rule 4).  A row whose
 *	expected output is not finite may end so (INFER_ERROR_NOT_FINITE).
 *	If shapes depend on run-time values, inputs are frozen into the model and it is tried
 *	again; the report counts these apart.  A case of many rows is opened as a user would
 *	and run as one batch and in slices; each row must be right, and its bits the same.
 *
 * Report
 *	One TAP line for each operator: "ok N - node Softmax: passed P of Q, unsupported U,
 *	frozen F".  Failures and, with -v, the reasons of what is unsupported stand before it
 *	as "# " lines.  In the end the totals are held against floor.txt.
 *
 *	node [-v] [-c CASE] [FOLDER…]		default: $INFER_PARTS/{onnx-1.20.1/…,generated,exports}
 *											and test/fixtures/exported
 */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/graph/graph.h"

#include "check.h"
#include "freeze.h"
#include "tap.h"

#define OPERATORS_MAX	512

enum outcome
{
	PASSED,
	PASSED_FROZEN,
	UNSUPPORTED,
	FAILED
};

struct tally
{
	char		name[CASE_NAME_MAX];
	int			passed;
	int			frozen;				/* of passed */
	int			unsupported;
	int			failed;
};

static bool verbose;
static const char *only_case;
static char running[1400];			/* for a crash's last words */

/* ---- one case ---- */

/* With status INFER_ERROR_UNSUPPORTED if the engine says so at open. */
static bool
case_try(const struct test_case *c, bool rewrite, uint64_t frozen, struct status *status)
{
	struct model_file file = {"model.onnx", c->model, c->model_bytes};
	struct model_files files = {1, &file};
	uint8_t    *rewritten = NULL;
	struct model *model;
	bool		ok = false;

	status_clear(status);
	if (rewrite)
	{
		file.data = rewritten = case_freeze(c, frozen, &file.size);
		if (rewritten == NULL)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "inputs cannot be frozen");
	}
	model = model_open(&files, "{}", device, status);
	if (model != NULL)
	{
		ok = case_check(c, model, status);
		if (!ok && status->error == INFER_ERROR_UNSUPPORTED)
			status->error = INFER_ERROR_INTERNAL;	/* too late to say so */
		model_close(model);
	}
	free(rewritten);
	return ok;
}

/* Whether the engine has the types of all the case's tensors. */
static bool
case_types_known(const struct test_case *c, struct status *status)
{
	for (int i = 0; i < c->inputs_count + c->outputs_count; i++)
	{
		const struct value *value = i < c->inputs_count ? &c->inputs[i] : &c->outputs[i - c->inputs_count];

		if (value->type == 0 || value->rank < 0)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "\"%s\" is %s", value->name,
							  value_type_name(value->onnx_type));
	}
	return true;
}

/*
 * As it is; then with inputs frozen: all but the first (the data, mostly), all but the last,
 * all.  Each attempt follows an "unsupported"; anything else is final.
 */
static enum outcome
case_run(const struct test_case *c, struct status *status)
{
	uint64_t	all = (1ull << c->inputs_count) - 1;
	const uint64_t frozen[] = {0, all & ~1ull, all >> 1, all};
	int			attempts = c->rows != 0 ? 1 : 4;
	struct status again;

	status_clear(status);
	if (!case_types_known(c, status))
		return UNSUPPORTED;
	for (int i = 0; i < attempts; i++)
	{
		if (i > 0 && i < 3 && c->inputs_count < 2)
			continue;
		if (case_try(c, i > 0, frozen[i], &again))
			return i == 0 ? PASSED : PASSED_FROZEN;
		if (i == 0 || again.error != INFER_ERROR_UNSUPPORTED)
			*status = again;
		if (again.error != INFER_ERROR_UNSUPPORTED)
			return FAILED;
	}
	return UNSUPPORTED;
}

/* ---- a suite ---- */

static int
name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

static char **
suite_list(const char *folder, int *count)
{
	DIR		   *dir = opendir(folder);
	struct dirent *entry;
	char	  **names = xalloc(8192 * sizeof(char *));

	*count = 0;
	while (dir != NULL && (entry = readdir(dir)) != NULL && *count < 8192)
		if (entry->d_name[0] != '.')
			names[(*count)++] = strdup(entry->d_name);
	if (dir != NULL)
		closedir(dir);
	qsort(names, (size_t) *count, sizeof(char *), name_compare);
	return names;
}

static struct tally *
tally_find(struct tally *tallies, int *count, const char *name)
{
	for (int i = 0; i < *count; i++)
		if (strcmp(tallies[i].name, name) == 0)
			return &tallies[i];
	if (*count == OPERATORS_MAX)
		return &tallies[OPERATORS_MAX - 1];
	snprintf(tallies[*count].name, CASE_NAME_MAX, "%s", name);
	return &tallies[(*count)++];
}

static int
tally_compare(const void *a, const void *b)
{
	return strcmp(((const struct tally *) a)->name, ((const struct tally *) b)->name);
}

/* Every operator that the engine claims has a generated case; generate.py sees to the versions. */
static void
claims_check(struct tally *tallies, int count)
{
	int			claimed = 0;
	int			without = 0;

	for (int f = 0; graph_operator_families[f] != NULL; f++)
		for (const struct graph_operator *op = graph_operator_families[f]; op->name != NULL; op++)
		{
			char		name[CASE_NAME_MAX];
			bool		passed = false;

			snprintf(name, sizeof(name), "%s%s%s", op->domain, op->domain[0] ? " " : "", op->name);
			for (int i = 0; i < count; i++)
				passed = passed || (strcmp(tallies[i].name, name) == 0 && tallies[i].passed > 0);
			claimed++;
			if (!passed)
			{
				without++;
				printf("# claimed without a generated case that passes: %s\n", name);
			}
		}
	tap_ok(without == 0, "all of %d operators that are claimed have a generated case", claimed);
}

/* Whether text has name between characters that are no part of a name, followed by after. */
static bool
text_has(const char *text, const char *name, const char *after)
{
	size_t		length = strlen(name);

	for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name))
		if (at > text && (at[-1] == ' ' || at[-1] == '|') &&
			(after[0] == '\0' ? strchr(", |", at[length]) != NULL :
			 strncmp(at + length, after, strlen(after)) == 0))
			return true;
	return false;
}

/* docs/models.md has every operator that is claimed, with its first version where that is after 6. */
static void
claims_documented(void)
{
	uint64_t	bytes;
	char	   *text = (char *) file_read("docs/models.md", &bytes);
	int			without = 0;

	if (text == NULL)
	{
		tap_skip("operators are documented", "not run from the project's folder");
		return;
	}
	for (int f = 0; graph_operator_families[f] != NULL; f++)
		for (const struct graph_operator *op = graph_operator_families[f]; op->name != NULL; op++)
		{
			char		after[32] = "";

			if (op->domain[0] == '\0' && op->first > 6)
				snprintf(after, sizeof(after), " (%u)", op->first);
			if (!text_has(text, op->name, after))
			{
				without++;
				printf("# not in docs/models.md: %s%s\n", op->name, after);
			}
		}
	tap_ok(without == 0, "docs/models.md has the operators that are claimed");
	free(text);
}

/* The runner itself: wrong numbers and shapes are noticed. */
static void
runner_check(const char *folder, const char *name)
{
	struct test_case *c = xalloc(sizeof(*c));
	struct status status;

	if (!case_open(c, folder, name))
	{
		tap_ok(false, "the runner's own case %s is there", name);
		free(c);
		return;
	}
	((float *) c->outputs[0].data)[1] += 0.01f;
	tap_ok(case_run(c, &status) == FAILED && strstr(status.message, "expected") != NULL,
		   "the runner notices a number that is wrong");
	c->outputs[0].dims[0]++;
	tap_ok(case_run(c, &status) == FAILED && strstr(status.message, "shape") != NULL,
		   "the runner notices a shape that is wrong");
	case_close(c);
	free(c);
}

/* Runs every case of a folder, reports each operator, and adds to the totals. */
static void
suite_run(const char *suite, const char *folder, struct tally *total)
{
	static struct tally tallies[OPERATORS_MAX];
	int			tallies_count = 0;
	int			count;
	char	  **names = suite_list(folder, &count);

	memset(tallies, 0, sizeof(tallies));
	for (int i = 0; i < count; i++)
	{
		struct test_case *c;
		struct tally *tally;
		struct status status;

		if (only_case != NULL && strcmp(only_case, names[i]) != 0)
			continue;
		c = xalloc(sizeof(*c));
		snprintf(running, sizeof(running), "%s/%s", folder, names[i]);
		if (!case_open(c, folder, names[i]))
		{
			free(c);
			continue;
		}
		tally = tally_find(tallies, &tallies_count,
						   strstr(names[i], "_expanded") ? "(expanded functions)" :
						   c->operator[0] ? c->operator : "(several operators)");
		switch (case_run(c, &status))
		{
			case PASSED_FROZEN:
				tally->frozen++;
				/* FALLTHROUGH */
			case PASSED:
				tally->passed++;
				break;
			case UNSUPPORTED:
				tally->unsupported++;
				if (verbose)
					printf("# unsupported: %s/%s: %s\n", suite, names[i], status.message);
				break;
			case FAILED:
				tally->failed++;
				printf("# FAILED: %s/%s: %s %s\n", suite, names[i], status.message, status.detail);
				break;
		}
		case_close(c);
		free(c);
	}
	qsort(tallies, (size_t) tallies_count, sizeof(tallies[0]), tally_compare);
	for (int i = 0; i < tallies_count; i++)
	{
		struct tally *t = &tallies[i];

		if (t->passed + t->failed == 0)
			printf("# %s %s: unsupported %d\n", suite, t->name, t->unsupported);
		else
			tap_ok(t->failed == 0, "%s %s: passed %d of %d, unsupported %d, frozen %d", suite, t->name,
				   t->passed, t->passed + t->failed + t->unsupported, t->unsupported, t->frozen);
		total->passed += t->passed;
		total->frozen += t->frozen;
		total->unsupported += t->unsupported;
		total->failed += t->failed;
	}
	if (strcmp(suite, "generated") == 0 && only_case == NULL)
	{
		claims_check(tallies, tallies_count);
		claims_documented();
		runner_check(folder, "Abs_6_f32");
	}
	for (int i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

/* ---- the floor ---- */

/* The number that floor.txt commits to for a suite, or 0. */
static int
floor_of(const char *suite)
{
	FILE	   *file = fopen("test/conformance/floor.txt", "r");
	char		line[256];
	char		name[128];
	int			number;
	int			found = 0;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "%127s %d", name, &number) == 2 && strcmp(name, suite) == 0)
			found = number;
	if (file != NULL)
		fclose(file);
	return found;
}

static void
crashed(int signal_number)
{
	static const char text[] = "Bail out! crashed in ";

	(void) !write(1, text, sizeof(text) - 1);
	(void) !write(1, running, strlen(running));
	(void) !write(1, "\n", 1);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void
suite_report(const char *folder)
{
	struct tally total;
	const char *slash = strrchr(folder, '/');
	const char *suite = slash ? slash + 1 : folder;
	struct stat st;
	int			least = floor_of(suite);

	if (stat(folder, &st) != 0)
	{
		tap_skip(suite, "no such folder");
		return;
	}
	memset(&total, 0, sizeof(total));
	suite_run(suite, folder, &total);
	printf("# total %s: passed %d (%d of them with frozen inputs), failed %d, unsupported %d\n",
		   suite, total.passed, total.frozen, total.failed, total.unsupported);
	if (only_case == NULL)
		tap_ok(total.passed >= least, "%s: passed %d, at least %d", suite, total.passed, least);
}

int
main(int argc, char **argv)
{
	static const char *const suites[] = {"onnx-1.20.1/node", "onnx-1.20.1/simple",
		"onnx-1.20.1/pytorch-operator", "onnx-1.20.1/pytorch-converted", "generated", "exports"};
	struct device_options options;
	struct status status;
	const char *parts = getenv("INFER_PARTS");
	int			option;

	while ((option = getopt(argc, argv, "vc:")) != -1)
	{
		if (option == 'v')
			verbose = true;
		else if (option == 'c')
			only_case = optarg;
		else
			return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGSEGV, crashed);
	signal(SIGABRT, crashed);
	signal(SIGFPE, crashed);
	signal(SIGBUS, crashed);

	memset(&options, 0, sizeof(options));
	options.threads = 2;
	options.arch = getenv("INFER_CPU");
	status_clear(&status);
	device = device_open("cpu", &options, &status);
	if (device != NULL)
		queue = device->ops->queue_create(device, 0, &status);
	if (queue == NULL)
	{
		tap_ok(false, "the cpu device opens: %s", status.message);
		return tap_done();
	}
	for (int i = optind; i < argc; i++)
		suite_report(argv[i]);
	for (size_t i = 0; optind == argc && i < sizeof(suites) / sizeof(suites[0]); i++)
	{
		char		folder[1024];

		snprintf(folder, sizeof(folder), "%s/%s", parts ? parts : ".parts", suites[i]);
		suite_report(folder);
	}
	if (optind == argc)
		suite_report("test/fixtures/exported");
	device->ops->queue_free(queue);
	device->ops->close(device);
	return tap_done();
}
