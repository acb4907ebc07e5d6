/*
 * device.cu
 *	  The CUDA device: which GPUs there are, what they are, and what the library exports.
 *
 * A GPU is served if it has compute capability 7.5 or more.  Of several the first that is served decides: those of
 * the same name and architecture are used together, replicas of each other, and others are left out, as is one that does not
 * start.  infer.device = cuda:N takes that one alone.
 */
#include "core.h"
#include "products/library.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU_SM_MIN		75
#define GPU_SM_BF16		80			/* tensor cores know it from there on */

/* What is left to others of a GPU's free memory: the context's own, libraries', fragmentation. */
#define RESERVE_BYTES	(UINT64_C(512) << 20)
#define RESERVE_PART	20

/* ---- losing it ---- */

void
cuda_lose(cuda_device *device, const char *format, ...)
{
	uint32_t	fine = 0;
	va_list		args;

	/* 2 while the reason is written */
	if (!__atomic_compare_exchange_n(&device->lost, &fine, 2, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return;
	va_start(args, format);
	vsnprintf(device->lost_reason, sizeof(device->lost_reason), format, args);
	va_end(args);
	__atomic_store_n(&device->lost, 1, __ATOMIC_RELEASE);
}

/* Another thread may just be writing it down. */
const char *
cuda_lost_reason(const cuda_device *device)
{
	while (__atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) != 1)
		sched_yield();
	return device->lost_reason;
}

bool
cuda_usable(const cuda_device *device, status *status)
{
	return !cuda_is_lost(device) || status_set(status, INFER_ERROR_DEVICE_LOST, "%s", cuda_lost_reason(device));
}

bool
cuda_gpu_fails(cuda_gpu *gpu, cudaStream_t stream, cudaError_t error)
{
	cudaError_t after;

	cudaGetLastError();
	after = cudaStreamQuery(stream);
	if (after == cudaSuccess || after == cudaErrorNotReady)
		return false;
	cudaGetLastError();
	cuda_lose(gpu->device, "GPU %d answers errors: %s", gpu->ordinal, cudaGetErrorString(error == cudaErrorUnknown ? after : error));
	return true;
}

/* ---- which GPUs ---- */

/* false, and why, where the driver or the GPUs are missing. */
static bool
count_gpus(int *count, status *status)
{
	cudaError_t error = cudaGetDeviceCount(count);
	int			driver = 0;
	int			runtime = 0;

	cudaGetLastError();
	if (error == cudaSuccess && *count > 0)
		return true;
	cudaDriverGetVersion(&driver);
	cudaRuntimeGetVersion(&runtime);
	cudaGetLastError();
	if (driver == 0)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "no CUDA driver");
		status_hint(status, "Install NVIDIA's driver, or set infer.device to \"cpu\".");
	}
	else if (error == cudaErrorInsufficientDriver)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "the CUDA driver is too old for this build: it knows CUDA %d.%d, the build is of CUDA %d.%d",
				   driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
		status_hint(status, "Install a newer driver of NVIDIA's.");
	}
	else if (error == cudaSuccess || error == cudaErrorNoDevice)
		status_set(status, INFER_ERROR_UNSUPPORTED, "no GPU");
	else
		status_set(status, INFER_ERROR_UNSUPPORTED, "the GPUs cannot be used: %s", cudaGetErrorString(error));
	return false;
}

static int
attribute(int ordinal, cudaDeviceAttr what)
{
	int			value = 0;

	if (cudaDeviceGetAttribute(&value, what, ordinal) != cudaSuccess)
		cudaGetLastError();
	return value;
}

/* Multiply-adds, counted as two, of a multiprocessor in a cycle: F32 and, by tensor cores, BF16 and INT8 (dense). */
static void
flops_cycle(int sm, double *f32, double *bf16, double *int8)
{
	*f32 = sm == 75 || sm == 80 ? 128 : 256;
	*bf16 = sm == 75 ? 128 : sm == 80 ? 2048 : sm < 90 ? 1024 : sm < 120 ? 4096 : 1024;
	*int8 = sm == 75 ? 512 : 2 * *bf16;
}

/* What can be known without memory or a context. */
static bool
describe_gpu(cuda_gpu *gpu, int ordinal, status *status)
{
	cudaDeviceProp *properties = (cudaDeviceProp *) calloc(1, sizeof(*properties));
	cudaError_t error = properties == nullptr ? cudaErrorMemoryAllocation : cudaGetDeviceProperties(properties, ordinal);
	double		clock = 1e3 * attribute(ordinal, cudaDevAttrClockRate);
	double		memory_clock = 1e3 * attribute(ordinal, cudaDevAttrMemoryClockRate);
	double		bus = attribute(ordinal, cudaDevAttrGlobalMemoryBusWidth);

	if (error == cudaSuccess)
	{
		gpu->ordinal = ordinal;
		gpu->sm = properties->major * 10 + properties->minor;
		gpu->processors = properties->multiProcessorCount;
		snprintf(gpu->name, sizeof(gpu->name), "%.90s", properties->name);
		gpu->bytes_total = properties->totalGlobalMem;
		flops_cycle(gpu->sm, &gpu->flops[DEVICE_PRECISION_FULL], &gpu->flops[DEVICE_PRECISION_BF16],
					&gpu->flops[DEVICE_PRECISION_INT8]);
		for (int p = 0; p < DEVICE_PRECISIONS; p++)
			gpu->flops[p] *= gpu->processors * (clock > 0 ? clock : 1e9);
		gpu->bytes_second = memory_clock > 0 && bus > 0 ? 2 * memory_clock * bus / 8 : 3e11;
	}
	free(properties);
	cudaGetLastError();
	return error == cudaSuccess ||
		   status_set(status, INFER_ERROR_UNSUPPORTED, "GPU %d cannot be asked what it is: %s", ordinal, cudaGetErrorString(error));
}

static bool
is_served(const cuda_gpu *gpu, status *status)
{
	return gpu->sm >= GPU_SM_MIN ||
		   status_set(status, INFER_ERROR_UNSUPPORTED, "GPU %d, %s, has compute capability %d.%d, which is not served: %d.%d is the least",
					  gpu->ordinal, gpu->name, gpu->sm / 10, gpu->sm % 10, GPU_SM_MIN / 10, GPU_SM_MIN % 10);
}

/* Fills device->gpus with those of count that are used together; wanted: -1, or that one alone. */
static bool
choose_gpus(cuda_device *device, int wanted, int count, int *others, status *status)
{
	*others = 0;
	if (wanted >= count)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "GPU %d does not exist: there %s %d, counted from 0", wanted,
						  count == 1 ? "is" : "are", count);
	for (int g = wanted < 0 ? 0 : wanted; g < (wanted < 0 ? count : wanted + 1); g++)
	{
		cuda_gpu	gpu = {};
		bool		first = device->gpus_count == 0;

		if (!describe_gpu(&gpu, g, status))
			return false;
		if (first ? !is_served(&gpu, status) :
			gpu.sm != device->gpus[0].sm || strcmp(gpu.name, device->gpus[0].name) != 0 || device->gpus_count == CUDA_GPUS_MAX)
			(*others)++;
		else
			device->gpus[device->gpus_count++] = gpu;
	}
	if (device->gpus_count == 0)
		return false;
	status_clear(status);			/* why the first ones are not served */
	return true;
}

/* ---- open ---- */

static cuda_module *modules;		/* added while the library is opened */

cuda_module::cuda_module(load_fn load) : next(modules), load(load)
{
	modules = this;
}

/* *translates: set where the driver makes the code. */
static cudaError_t
load_modules(bool *translates)
{
	for (const cuda_module *module = modules; module != nullptr; module = module->next)
	{
		cudaFuncAttributes attributes = {};
		cudaError_t error = module->load(&attributes);

		if (error != cudaSuccess)
			return error;
		*translates = *translates || attributes.binaryVersion > attributes.ptxVersion;
	}
	return cudaSuccess;
}

static bool
start_gpu(cuda_device *device, cuda_gpu *gpu, uint64_t budget, status *status)
{
	size_t		bytes_free = 0;
	size_t		bytes_total = 0;
	uint64_t	reserve = gpu->bytes_total / RESERVE_PART > RESERVE_BYTES ? gpu->bytes_total / RESERVE_PART : RESERVE_BYTES;
	cudaError_t error = cudaSetDevice(gpu->ordinal);

	gpu->device = device;
	if (error == cudaSuccess && cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync) != cudaSuccess)
		cudaGetLastError();			/* then threads that load spin while they wait */
	if (error == cudaSuccess)
		error = load_modules(&device->translates);
	if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction)
	{
		cudaGetLastError();
		return status_set(status, INFER_ERROR_UNSUPPORTED, "this build has no code for GPU %d, whose architecture is sm_%d",
						  gpu->ordinal, gpu->sm);
	}
	if (error == cudaSuccess)
		error = cudaMemGetInfo(&bytes_free, &bytes_total);
	if (error == cudaSuccess)
		error = cudaStreamCreateWithFlags(&gpu->loading, cudaStreamNonBlocking);
	if (error != cudaSuccess)
	{
		cudaGetLastError();
		gpu->loading = nullptr;
		return status_set(status, INFER_ERROR_UNSUPPORTED, "GPU %d cannot be used: %s", gpu->ordinal, cudaGetErrorString(error));
	}
	gpu->budget = budget > 0 ? budget : bytes_free > 2 * reserve ? bytes_free - reserve : bytes_free / 2;
	if (gpu->budget > bytes_total)
		gpu->budget = bytes_total;
	gpu->budget_of_free = budget == 0 || gpu->budget == bytes_total;
	return cuda_graphs_start(gpu, status) && cuda_watcher_start(gpu, status);
}

/* Of a GPU nothing of which is in use any more. */
static void
end_gpu(cuda_gpu *gpu)
{
	if (gpu->loading != nullptr && cudaSetDevice(gpu->ordinal) == cudaSuccess)
		cudaStreamDestroy(gpu->loading);
	pthread_mutex_destroy(&gpu->lock);
	pthread_mutex_destroy(&gpu->loading_lock);
	cudaGetLastError();
}

/* Those that do not start are left out.  false: none does, and why the first does not. */
static bool
start_gpus(cuda_device *device, uint64_t budget, status *status)
{
	struct status why = *status;

	for (uint32_t g = 0; g < device->gpus_count;)
	{
		cuda_gpu   *gpu = &device->gpus[g];

		pthread_mutex_init(&gpu->lock, nullptr);
		pthread_mutex_init(&gpu->loading_lock, nullptr);
		if (start_gpu(device, gpu, budget, status))
		{
			g++;
			continue;
		}
		if (device->left_out[0] == '\0')
		{
			why = *status;
			snprintf(device->left_out, sizeof(device->left_out), "%.100s", why.message);
		}
		cuda_watcher_stop(gpu);
		cuda_graphs_stop(gpu);
		end_gpu(gpu);
		device->gpus_count--;
		memmove(gpu, gpu + 1, (device->gpus_count - g) * sizeof(*gpu));	/* which have not been started */
		status_clear(status);
	}
	if (device->gpus_count == 0)
		*status = why;
	return device->gpus_count > 0;
}

/* Eight digits that tell texts apart (FNV-1a). */
static uint32_t
digest(const char *text)
{
	uint32_t	hash = 2166136261u;

	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t) *text) * 16777619u;
	return hash;
}

/*
 * What bits depend on beside the architecture: the host, which computes what a GPU has no kernel for; and where the library
 * multiplies, the very model of GPU, since it proposes algorithms by that and by how many multiprocessors there are.
 */
static uint32_t
numerics_digest(const cuda_device *device)
{
	device_info host = {};
	char		text[256];

	device->base.host->ops->info(device->base.host, &host);
	snprintf(text, sizeof(text), "%s", host.numerics_id);
	if (device->products_library != nullptr)
		snprintf(text, sizeof(text), "%s, %s, %d", host.numerics_id, device->gpus[0].name, device->gpus[0].processors);
	return digest(text);
}

static void
name_device(cuda_device *device, int others)
{
	char		rest[48] = "";
	bool		bf16 = device->gpus[0].sm >= GPU_SM_BF16;

	snprintf(device->numerics_id, sizeof(device->numerics_id), "cuda-sm%d-%d-lt%.16s%s-%08x", device->gpus[0].sm, CUDA_NUMERICS,
			 device->library, bf16 ? "-bf16" : "", numerics_digest(device));
	if (others > 0)
		snprintf(rest, sizeof(rest), ", %d of another kind left out", others);
	snprintf(device->description, sizeof(device->description), "%.64s", device->gpus[0].name);
	if (device->gpus_count > 1 || others > 0)
		snprintf(device->description, sizeof(device->description), "%.48s (%u GPU%s%s)", device->gpus[0].name, device->gpus_count,
				 device->gpus_count > 1 ? "s" : "", rest);
}

/* Watchers first, which capture what the library computes; then graphs, which hold kernels of the library's. */
static void
cuda_close(device *base)
{
	cuda_device *device = cuda_of(base);

	for (uint32_t g = 0; g < device->gpus_count; g++)
	{
		cuda_watcher_stop(&device->gpus[g]);
		cuda_graphs_stop(&device->gpus[g]);
	}
	cuda_library_close(device);
	for (uint32_t g = 0; g < device->gpus_count; g++)
		end_gpu(&device->gpus[g]);
	free(device);
}

static device *
cuda_open(const device_options *options, status *status)
{
	cuda_device *device;
	int			count = 0;
	int			others = 0;

	if (options->host == nullptr)
	{
		status_set(status, INFER_ERROR_INTERNAL, "the CUDA device was opened without a host");
		return nullptr;
	}
	if (!count_gpus(&count, status))
		return nullptr;
	device = (cuda_device *) calloc(1, sizeof(*device));
	if (device == nullptr)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*device));
		return nullptr;
	}
	device->base.ops = &cuda_device_ops;
	device->base.host = options->host;
	device->load_beat = options->load_beat;
	if (!choose_gpus(device, options->gpu, count, &others, status) || !start_gpus(device, options->gpu_memory, status))
	{
		free(device);
		return nullptr;
	}
	cuda_library_open(device);
	name_device(device, others);
	return &device->base;
}

/* ---- what it says of itself ---- */

static void
name_gpus(const cuda_device *device, char *name, size_t size)
{
	size_t		used = (size_t) snprintf(name, size, "cuda:%d", device->gpus[0].ordinal);

	for (uint32_t g = 1; g < device->gpus_count && used < size; g++)
		used += (size_t) snprintf(name + used, size - used, ",%d", device->gpus[g].ordinal);
}

/* Translated code is not kept: each start of the engine makes it anew. */
static void
name_lacks(const cuda_device *device, char *detail, size_t size)
{
	size_t		used = (size_t) snprintf(detail, size, "%s%s%s", device->left_out,
										 device->left_out[0] != '\0' && device->lacks[0] != '\0' ? ", " : "", device->lacks);

	if (device->translates && used < size)
		snprintf(detail + used, size - used, "%scode for sm_%d, made anew at each start", used > 0 ? ", " : "", device->gpus[0].sm);
}

static void
cuda_info(device *base, device_info *info)
{
	cuda_device *device = cuda_of(base);
	bool		bf16 = device->gpus[0].sm >= GPU_SM_BF16;

	memset(info, 0, sizeof(*info));
	snprintf(info->kind, sizeof(info->kind), "cuda");
	name_gpus(device, info->name, sizeof(info->name));
	snprintf(info->arch, sizeof(info->arch), "sm_%d", device->gpus[0].sm);
	snprintf(info->description, sizeof(info->description), "%s", device->description);
	snprintf(info->numerics_id, sizeof(info->numerics_id), "%s", device->numerics_id);
	snprintf(info->weight_layout, sizeof(info->weight_layout), "cuda");
	snprintf(info->products, sizeof(info->products), "%s", device->products);
	name_lacks(device, info->detail, sizeof(info->detail));
	info->precisions = (1u << DEVICE_PRECISIONS) - 1;
	info->precision_default = bf16 ? DEVICE_PRECISION_BF16 : DEVICE_PRECISION_FULL;
	info->threads = device->gpus_count;
	for (int p = 0; p < DEVICE_PRECISIONS; p++)
		info->flops[p] = device->gpus[0].flops[p];
	for (uint32_t g = 0; g < device->gpus_count; g++)
	{
		uint64_t	used = __atomic_load_n(&device->gpus[g].used, __ATOMIC_RELAXED);

		if (g == 0 || device->gpus[g].budget < info->bytes_budget)
		{
			info->bytes_budget = device->gpus[g].budget;
			info->budget_of_free = device->gpus[g].budget_of_free;
		}
		if (used > info->bytes_used)
			info->bytes_used = used;
	}
	info->bytes_total = device->gpus[0].bytes_total;
	info->host_copies = __atomic_load_n(&device->host_copies, __ATOMIC_RELAXED);
	info->host_bytes = __atomic_load_n(&device->host_bytes, __ATOMIC_RELAXED);
	info->async = true;
	info->inflight_max = 2 * device->gpus_count;
	info->align = DEVICE_ALIGN;
}

const device_ops cuda_device_ops = {
	.kind = "cuda",
	.open = cuda_open,
	.close = cuda_close,
	.info = cuda_info,
	.supports = cuda_supports,
	.weight_size = cuda_weight_size,
	.weight_pack = cuda_weight_pack,
	.weight_free = cuda_weight_free,
	.weight_data = cuda_weight_data,
	.weight_map = cuda_weight_map,
	.compile = cuda_compile,
	.program_free = cuda_program_free,
	.program_bytes = cuda_program_bytes,
	.arena_bytes = cuda_arena_bytes,
	.queue_create = cuda_queue_create,
	.queue_free = cuda_queue_free,
	.enqueue = cuda_enqueue,
	.buffer_alloc = cuda_buffer_alloc,
	.buffer_free = cuda_buffer_free,
	.segment_end = cuda_segment_end,
	.poll = cuda_poll,
	.wait = cuda_wait,
	.cancel = cuda_cancel,
	.estimate_nsec = cuda_estimate_nsec,
	.elapsed_nsec = cuda_elapsed_nsec
};

extern "C" __attribute__((visibility("default"))) const device_library infer_device_library = {
	.ops_bytes = sizeof(device_ops),
	.options_bytes = sizeof(device_options),
	.version = INFER_VERSION,
	.ops = &cuda_device_ops
};
