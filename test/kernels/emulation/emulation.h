/*
 * emulation.h
 *	  What the emulation's own files share; cuda/ does not see it.
 *
 * Nouns
 *	work		what a stream does: a launch, a copy, a fill, a graph
 *	entry		work in a stream's queue, with the points that it comes after
 *	point		a place in a stream: reached when that many entries have been done
 *	capture		work that becomes a graph instead; its streams' tips are the nodes that the next comes after
 *
 * One lock is held during every call, and so while kernels run: nothing here needs another.
 */
#ifndef EMULATION_EMULATION_H
#define EMULATION_EMULATION_H

#include <deque>
#include <memory>
#include <vector>

#include "control.h"
#include "cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#define EMULATION_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATION_ASAN 1
#endif
#endif

#ifdef EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define poison(memory, bytes)		__asan_poison_memory_region(memory, bytes)
#define unpoison(memory, bytes)		__asan_unpoison_memory_region(memory, bytes)
#else
#define poison(memory, bytes)		((void) 0)
#define unpoison(memory, bytes)		((void) 0)
#endif

#define EMULATION_GPUS_MAX	16

/* ---- report.cc ---- */

struct emulation_settings
{
	int			gpus;
	int			sm;
	int			built;
	int			processors;
	int			driver;
	uint64_t	memory;
	uint64_t	seed;
	int			protect;
	bool		races;
	bool		leaks;
	bool		collect;
};

extern emulation_settings settings;

/* A mistake of the code under test: printed with the seed, and the end of the process unless a test collects them. */
extern void emulation_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The kernel's name as far as the symbols tell. */
extern const char *emulation_name(const void *function);

/* Appends to a text, which has no end of its own yet. */
extern void text_add(std::vector<char> *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

extern void random_seed(uint64_t seed);
extern uint64_t emulation_random();

/* 0 … n − 1 */
static inline uint32_t
emulation_below(uint32_t n)
{
	return (uint32_t) ((emulation_random() >> 32) * n >> 32);
}

/* ---- threads/thread.cc ---- */

struct emulation_kernel				/* a launch */
{
	const void *function;
	emulation_run_fn run;
	const void *call;
	dim3		grid;
	dim3		block;
};

/* Runs all blocks.  false: it failed, and that was reported. */
extern bool emulation_grid(const emulation_kernel *kernel);

/* ---- memory.cc: all that is allocated ---- */

struct memory_info
{
	uint64_t	free;
	uint64_t	total;
};

extern cudaError_t memory_alloc(int device, void **memory, size_t bytes);
extern cudaError_t memory_free(void *memory);
extern cudaError_t memory_host_alloc(void **memory, size_t bytes);
extern cudaError_t memory_host_free(void *memory);
extern cudaError_t memory_register(void *memory, size_t bytes);
extern cudaError_t memory_unregister(void *memory);
extern memory_info memory_count(int device);

/* The device of the allocation that holds all these bytes; -1: host memory.  -2, and a report: beyond an allocation. */
extern int	memory_device(const void *memory, size_t bytes, const char *what);
extern bool memory_pinned(const void *memory, size_t bytes);

/* Within: kernels and copies of a device. */
extern void memory_open(int device);
extern void memory_close();

/* What the device's allocations hold, one after the other. */
extern void memory_save(int device, std::vector<uint8_t> *bytes);
extern void memory_restore(int device, const std::vector<uint8_t> *bytes);
extern void memory_compare(int device, const std::vector<uint8_t> *bytes, const emulation_kernel *kernel);

extern uint32_t memory_leaks(std::vector<char> *text);
extern void memory_reset();

/* ---- stream.cc ---- */

struct emulation_work
{
	virtual ~emulation_work() = default;
	virtual bool run(int device) = 0;	/* false: failed, for good */
};

typedef std::shared_ptr<emulation_work> work_ref;

struct emulation_stream;
struct emulation_capture;

struct emulation_point
{
	std::shared_ptr<emulation_stream> stream;
	uint64_t	count;
};

struct emulation_mark				/* a recording of an event */
{
	double		msec;				/* when it was reached */
};

struct emulation_entry
{
	work_ref	work;				/* NULL: nothing, of an event */
	std::vector<emulation_point> after;
	std::shared_ptr<emulation_mark> mark;
	int			fate;				/* enum emulation_failure: LATER, HANGS; else 0 */
};

struct emulation_stream
{
	int			device;
	bool		blocking;			/* ordered with the device's stream 0 */
	std::deque<emulation_entry> queue;
	uint64_t	enqueued;
	uint64_t	done;
	std::shared_ptr<emulation_capture> capture;
	std::vector<uint32_t> tips;
};

struct CUstream_st
{
	std::shared_ptr<emulation_stream> stream;
};

struct CUevent_st
{
	int			device;
	bool		timing;
	bool		recorded;
	emulation_point point;
	std::shared_ptr<emulation_mark> mark;
	std::shared_ptr<emulation_capture> capture;	/* recorded in it last */
	std::vector<uint32_t> tips;
};

/* The stream of a handle; NULL: there is none such. */
extern std::shared_ptr<emulation_stream> stream_find(cudaStream_t handle, int device);
extern cudaError_t stream_create(cudaStream_t *handle, int device, bool blocking);
extern cudaError_t stream_destroy(cudaStream_t handle);
extern cudaError_t stream_enqueue(const std::shared_ptr<emulation_stream> &stream, work_ref work, int fate,
								  std::shared_ptr<emulation_mark> mark = nullptr);
extern cudaError_t stream_wait(const std::shared_ptr<emulation_stream> &stream, cudaEvent_t event);
extern bool event_valid(cudaEvent_t event);
extern cudaError_t event_create(cudaEvent_t *event, int device, bool timing);
extern cudaError_t event_destroy(cudaEvent_t event);
extern cudaError_t event_record(cudaEvent_t event, const std::shared_ptr<emulation_stream> &stream, int fate);

static inline bool
point_reached(const emulation_point *point)
{
	return point->stream == nullptr || point->stream->done >= point->count;
}

static inline emulation_point
stream_end(const std::shared_ptr<emulation_stream> &stream)
{
	return {stream, stream->enqueued};
}

/* Work goes on: until the point is reached; as chance has it, but by something if there is anything. */
extern cudaError_t work_until(const emulation_point *point);
extern void work_some(const emulation_point *point);
extern void work_perhaps();
extern cudaError_t work_all(int device);

extern uint32_t stream_leaks(std::vector<char> *text);
extern void stream_reset();

/* A failure of the device for good; cudaSuccess: none. */
extern cudaError_t device_lost[EMULATION_GPUS_MAX];

/* ---- calls/graph.cc ---- */

struct emulation_node
{
	work_ref	work;
	std::vector<uint32_t> after;
};

struct emulation_capture
{
	std::vector<emulation_node> nodes;
	cudaStreamCaptureMode mode;
	uint64_t	thread;
	bool		invalid;
	emulation_stream *origin;
};

struct CUgraph_st
{
	std::vector<emulation_node> nodes;
};

struct CUgraphExec_st
{
	work_ref	work;
};

extern cudaError_t capture_add(const std::shared_ptr<emulation_stream> &stream, work_ref work);
extern cudaError_t capture_wait(const std::shared_ptr<emulation_stream> &stream, cudaEvent_t event);

/* Whether a call is allowed that a capture of this thread, or of any, does not take; else it is spoilt. */
extern cudaError_t capture_allows();
extern cudaError_t capture_spoil(const std::shared_ptr<emulation_stream> &stream, cudaError_t error);

extern uint32_t graph_leaks(std::vector<char> *text);
extern void graph_reset();

/* ---- calls/device.cc ---- */

/* Whether another thread has chosen a GPU, and has not ended. */
extern bool emulation_used_by_others();

#endif /* EMULATION_EMULATION_H */
