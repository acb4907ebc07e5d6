/*
 * graph_steady.c
 *	  After warm-up a batch allocates nothing and touches no page for the first time.
 *
 * heap.h counts allocations; page faults are the kernel's count for the process.
 */
#include <sys/resource.h>

#include "graph_fixture.h"
#include "heap.h"

#define ROWS	256

static uint64_t
page_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t) usage.ru_minflt + (uint64_t) usage.ru_majflt;
}

static bool
run_sizes(struct fixture *f)
{
	bool		fine = fixture_layout(f);

	for (uint32_t first = 0; first < ROWS; first = first * 2 + 1)
		fine = fine && fixture_run_slice(f, first, ROWS - first);
	return fine;
}

static void
test_steady(const char *name)
{
	struct fixture f;
	uint64_t	allocated, faults;
	bool		fine;

	if (!tap_ok(fixture_open(&f, name, NULL), "%s opens", name))
		return;
	fixture_rows(&f, ROWS);
	for (uint32_t i = 0; i < f.model->signature.inputs_count; i++)
		for (uint32_t row = 0; f.columns[i].type == INFER_TYPE_STRING && row < ROWS; row++)
			fixture_text(&f, i, row, row % 3 == 0 ? "red" : "green");
	fine = run_sizes(&f) && run_sizes(&f);
	allocated = heap_allocations();
	faults = page_faults();
	for (int i = 0; i < 100; i++)
		fine = fine && run_sizes(&f);
	faults = page_faults() - faults;
	allocated = heap_allocations() - allocated;
	if (!HEAP_COUNTED)
		tap_skip(name, "allocations cannot be counted under a sanitizer");
	else if (!tap_ok(fine && allocated == 0 && faults == 0, "%s: batches after the first allocate nothing", name))
		printf("# %llu allocations, %llu page faults, %s\n", (unsigned long long) allocated,
			   (unsigned long long) faults, f.status.message);
	fixture_close(&f);
}

int
main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	test_steady("examples/digits/model.onnx");
	test_steady("examples/wine/model.onnx");
	test_steady("strings.onnx");
	fixture_device->ops->close(fixture_device);
	return tap_done();
}
