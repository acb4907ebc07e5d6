/*
 * work.cc
 *	  The runtime's functions that give streams work: copies, fills, and launches of kernels.
 *
 * Nouns
 *	copy		from memory or, a fill, of a byte
 *	module		the kernels of one source, which a GPU has once one of them has been asked for
 *
 * Loop: a function checks its arguments, as CUDA does when it is called, and enqueues the work; run() does it when the stream
 * comes to it, and looks again for memory that was freed meanwhile.
 *
 * Invariant: with settings.races each launch is made twice, from the same memory, and writes the same.
 */
#include "call.h"

#include <set>

/* ---- copies ---- */

struct copy_work : emulation_work
{
	uint8_t    *to;
	const uint8_t *from;			/* NULL: a fill with byte */
	std::vector<uint8_t> staged;	/* from pageable memory, where it was read at once */
	size_t		bytes;
	int			byte;
	int			to_device;			/* -1: the host's */
	int			from_device;

	bool		run(int device) override;
};

bool
copy_work::run(int device)
{
	/* they may have been freed meanwhile */
	if ((to_device >= 0 && memory_device(to, bytes, "a copy") != to_device) ||
		(from_device >= 0 && memory_device(from, bytes, "a copy") != from_device))
		return false;
	if (to_device >= 0)
		memory_open(to_device);
	if (from_device >= 0)
		memory_open(from_device);
	if (from == nullptr)
		memset(to, byte, bytes);
	else
		memcpy(to, staged.empty() ? from : staged.data(), bytes);
	return true;
}

static bool
direction_is(cudaMemcpyKind kind, int to, int from)
{
	switch (kind)
	{
		case cudaMemcpyHostToHost:
			return to < 0 && from < 0;
		case cudaMemcpyHostToDevice:
			return to >= 0 && from < 0;
		case cudaMemcpyDeviceToHost:
			return to < 0 && from >= 0;
		case cudaMemcpyDeviceToDevice:
			return to >= 0 && from >= 0;
		case cudaMemcpyDefault:
			return true;
	}
	return false;
}

/* Of a copy or a fill, and waits for it if it is to be made at once. */
static cudaError_t
copy_enqueue(emulation_api *call, std::shared_ptr<copy_work> work, cudaMemcpyKind kind, cudaStream_t handle, bool now)
{
	stream_ref	stream = stream_find(handle, call->device);
	cudaError_t error;

	if (stream == nullptr)
		return cudaErrorInvalidResourceHandle;
	if (work->bytes == 0)
		return cudaSuccess;
	work->to_device = memory_device(work->to, work->bytes, call->name);
	work->from_device = work->from == nullptr ? -1 : memory_device(work->from, work->bytes, call->name);
	if (work->to == nullptr || work->to_device == -2 || work->from_device == -2 ||
		(work->from != nullptr ? !direction_is(kind, work->to_device, work->from_device) : work->to_device < 0))
		return cudaErrorInvalidValue;
	if (now && (error = capture_allows()) != cudaSuccess)
		return error;
	/* CUDA may stage pageable memory before it returns, or read it later */
	if (work->from != nullptr && work->from_device < 0 && stream->capture == nullptr &&
		!memory_pinned(work->from, work->bytes) && emulation_below(4) == 0)
		work->staged.assign(work->from, work->from + work->bytes);
	error = stream_enqueue(stream, work, call->fate);
	if (error != cudaSuccess || !now)
		return error;
	emulation_point end = stream_end(stream);
	return call->wait(&end);
}

static std::shared_ptr<copy_work>
copy_new(void *to, const void *from, int byte, size_t bytes)
{
	std::shared_ptr<copy_work> work = std::make_shared<copy_work>();

	work->to = (uint8_t *) to;
	work->from = (const uint8_t *) from;
	work->byte = byte;
	work->bytes = bytes;
	return work;
}

extern "C" cudaError_t
cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
	CALL_BEGIN("cudaMemcpy", CALL_WAITS);

	if (from == nullptr && bytes != 0)
		return call.done(cudaErrorInvalidValue);
	return call.done(copy_enqueue(&call, copy_new(to, from, 0, bytes), kind, nullptr, true));
}

extern "C" cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
	CALL_BEGIN("cudaMemcpyAsync", CALL_WORKS);

	if (from == nullptr && bytes != 0)
		return call.done(cudaErrorInvalidValue);
	return call.done(copy_enqueue(&call, copy_new(to, from, 0, bytes), kind, stream, false));
}

extern "C" cudaError_t
cudaMemset(void *memory, int byte, size_t bytes)
{
	CALL_BEGIN("cudaMemset", CALL_WAITS);

	return call.done(copy_enqueue(&call, copy_new(memory, nullptr, byte, bytes), cudaMemcpyDefault, nullptr, true));
}

extern "C" cudaError_t
cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
	CALL_BEGIN("cudaMemsetAsync", CALL_WORKS);

	return call.done(copy_enqueue(&call, copy_new(memory, nullptr, byte, bytes), cudaMemcpyDefault, stream, false));
}

struct free_work : emulation_work
{
	void	   *memory;

	bool
	run(int device) override
	{
		return memory_free(memory) == cudaSuccess;
	}
};

extern "C" cudaError_t
cudaFreeAsync(void *memory, cudaStream_t handle)
{
	CALL_BEGIN("cudaFreeAsync", CALL_ENDS);
	stream_ref	stream = stream_find(handle, call.device);
	std::shared_ptr<free_work> work;

	if (stream == nullptr)
		return call.done(cudaErrorInvalidResourceHandle);
	if (call.error != cudaSuccess)
		return call.done(memory_free(memory));
	work = std::make_shared<free_work>();
	work->memory = memory;
	return call.done(stream_enqueue(stream, work, call.fate));
}

/* ---- launches ---- */

struct kernel_work : emulation_work
{
	emulation_kernel kernel;
	emulation_destroy_fn destroy;
	void	   *call;

	~kernel_work() override
	{
		destroy(call);
	}

	bool		run(int device) override;
};

bool
kernel_work::run(int device)
{
	static std::vector<uint8_t> &before = *new std::vector<uint8_t>;
	static std::vector<uint8_t> &after = *new std::vector<uint8_t>;

	launches++;
	if (!settings.races)
		return emulation_grid(&kernel);
	memory_save(device, &before);
	if (!emulation_grid(&kernel))
		return false;
	memory_save(device, &after);
	memory_restore(device, &before);
	if (!emulation_grid(&kernel))
		return false;
	memory_compare(device, &after, &kernel);
	return true;
}

/* Kernels that a GPU has been asked about, so that a launch need not load their code: CUDA is lazy. */
static std::set<std::pair<int, const void *>> &loaded = *new std::set<std::pair<int, const void *>>;

/* Those of tests may be late. */
static void
kernel_needed(int device, const void *kernel, const char *file)
{
	const char *suffix = strrchr(file, '.');

	if (suffix != nullptr && strcmp(suffix, ".cu") == 0 && loaded.count({device, kernel}) == 0)
		emulation_report("%s of %s was launched before it was loaded", emulation_name(kernel), file);
}

static bool
launch_fits(dim3 grid, dim3 block)
{
	return block.x != 0 && block.y != 0 && block.z != 0 && block.x <= EMULATION_THREADS_MAX &&
		block.y <= EMULATION_THREADS_MAX && block.z <= 64 && block.x * block.y * block.z <= EMULATION_THREADS_MAX &&
		grid.x != 0 && grid.y != 0 && grid.z != 0 && grid.x <= INT32_MAX && grid.y <= 65535 && grid.z <= 65535;
}

cudaError_t
emulation_launch(const void *kernel, emulation_run_fn run, emulation_destroy_fn destroy, void *arguments, dim3 grid, dim3 block,
				 cudaStream_t handle, const char *file)
{
	std::shared_ptr<kernel_work> work = std::make_shared<kernel_work>();

	work->kernel = {kernel, run, arguments, grid, block};
	work->destroy = destroy;
	work->call = arguments;
	CALL_BEGIN("cudaLaunchKernel", CALL_WORKS);
	stream_ref	stream = stream_find(handle, call.device);

	kernel_needed(call.device, kernel, file);
	if (stream == nullptr || stream->device != call.device)
		return call.done(cudaErrorInvalidResourceHandle);
	if (!launch_fits(grid, block))
		return call.done(cudaErrorInvalidConfiguration);
	return call.done(stream_enqueue(stream, work, call.fate));
}

extern "C" cudaError_t
emulation_function_set(const void *kernel, cudaFuncAttribute attribute, int value)
{
	CALL_BEGIN("cudaFuncSetAttribute", CALL_MAKES);

	if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && (value < 0 || (size_t) value > shared_optin()))
		return call.done(cudaErrorInvalidValue);
	return call.done();
}

extern "C" cudaError_t
emulation_function_get(cudaFuncAttributes *attributes, const void *kernel)
{
	CALL_BEGIN("cudaFuncGetAttributes", CALL_MAKES);

	loaded.insert({call.device, kernel});
	*attributes = {};
	attributes->maxThreadsPerBlock = EMULATION_THREADS_MAX;
	attributes->numRegs = 32;
	attributes->ptxVersion = settings.built;
	attributes->binaryVersion = settings.sm;
	return call.done();
}
