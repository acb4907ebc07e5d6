/*
 * memory.cc
 *	  Memory of the emulated GPUs, and what is known of the host's.
 *
 * Each GPU has a range of addresses as long as its memory.  Allocations begin at multiples of 256 with a gap of
 * 256 bytes at least behind them, which must stay as it is; what is not allocated is poisoned under AddressSanitizer.  New memory
 * and memory that was freed is full of 0xFF: a NaN in each float type, -1 in each integer.  But for the time of kernels and copies the
 * host has no access to any of it.
 */
#include "emulation.h"

#include <map>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGN		256
#define GAP			256
#define GAP_BYTE	0xA5
#define FILL_BYTE	0xFF

struct range
{
	size_t		bytes;
};

struct gpu_memory
{
	uint8_t    *base;
	uint64_t	used;
	uint64_t	committed;			/* bytes from base on that have had an allocation */
	bool		open;
	std::map<uintptr_t, range> ranges;
};

/* never destroyed: threads may go on while the process ends */
static gpu_memory *const gpus = new gpu_memory[EMULATION_GPUS_MAX]();
static std::map<uintptr_t, range> &host_ranges = *new std::map<uintptr_t, range>;	/* cudaHostAlloc */
static std::map<uintptr_t, range> &registered = *new std::map<uintptr_t, range>;	/* cudaHostRegister */

static uint64_t
rounded(uint64_t bytes, uint64_t to)
{
	return (bytes + to - 1) / to * to;
}

static uint64_t
footprint(uint64_t bytes)
{
	return rounded(bytes, ALIGN) + GAP;
}

/* ---- access ---- */

static void
access_set(gpu_memory *gpu, bool open)
{
	if (gpu->open == open)
		return;
	gpu->open = open;
	if (settings.protect != 0 && gpu->committed != 0 &&
		mprotect(gpu->base, gpu->committed, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
	{
		perror("emulation: device memory");
		abort();
	}
}

void
memory_open(int device)
{
	access_set(&gpus[device], true);
}

void
memory_close()
{
	/* to close it is dear */
	if (settings.protect == 0 || (settings.protect == 1 && emulation_below(8) != 0))
		return;
	for (int i = 0; i < settings.gpus; i++)
		access_set(&gpus[i], false);
}

/* ---- device memory ---- */

static bool
commit(gpu_memory *gpu, uint64_t bytes)
{
	bytes = rounded(bytes, (uint64_t) sysconf(_SC_PAGESIZE));
	if (gpu->base == nullptr)
	{
		uint64_t	room = 2 * settings.memory + (1 << 20);	/* gaps and holes beside what is counted */

		gpu->base = (uint8_t *) mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (gpu->base == MAP_FAILED)
		{
			gpu->base = nullptr;
			return false;
		}
	}
	if (bytes <= gpu->committed)
		return true;
	if (bytes > 2 * settings.memory + (1 << 20))
		return false;
	if (mprotect(gpu->base + gpu->committed, bytes - gpu->committed,
				 gpu->open || settings.protect == 0 ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
		return false;
	poison(gpu->base + gpu->committed, bytes - gpu->committed);
	gpu->committed = bytes;
	return true;
}

/* Where so many bytes fit. */
static uintptr_t
place_find(gpu_memory *gpu, uint64_t bytes)
{
	uintptr_t	at = (uintptr_t) gpu->base;

	for (const auto &entry : gpu->ranges)
	{
		if (entry.first - at >= bytes)
			break;
		at = entry.first + footprint(entry.second.bytes);
	}
	return at;
}

cudaError_t
memory_alloc(int device, void **memory, size_t bytes)
{
	gpu_memory *gpu = &gpus[device];
	bool		was_open = gpu->open;
	uintptr_t	at;

	*memory = nullptr;
	if (bytes == 0)
		return cudaSuccess;
	if (bytes > settings.memory || rounded(bytes, ALIGN) > settings.memory - gpu->used || !commit(gpu, 0))
		return cudaErrorMemoryAllocation;
	at = place_find(gpu, footprint(bytes));
	if (!commit(gpu, at - (uintptr_t) gpu->base + footprint(bytes)))
		return cudaErrorMemoryAllocation;
	gpu->ranges[at] = {bytes};
	gpu->used += rounded(bytes, ALIGN);
	access_set(gpu, true);
	unpoison((void *) at, footprint(bytes));
	memset((void *) at, FILL_BYTE, bytes);
	memset((uint8_t *) at + bytes, GAP_BYTE, footprint(bytes) - bytes);
	poison((uint8_t *) at + bytes, footprint(bytes) - bytes);
	access_set(gpu, was_open);
	*memory = (void *) at;
	return cudaSuccess;
}

static gpu_memory *
gpu_of(const void *memory)
{
	for (int i = 0; i < settings.gpus; i++)
		if (gpus[i].base != nullptr && (const uint8_t *) memory >= gpus[i].base &&
			(const uint8_t *) memory < gpus[i].base + 2 * settings.memory + (1 << 20))
			return &gpus[i];
	return nullptr;
}

static void
range_drop(gpu_memory *gpu, uintptr_t at)
{
	size_t		bytes = gpu->ranges[at].bytes;
	const uint8_t *gap = (const uint8_t *) at + bytes;
	bool		was_open = gpu->open;
	bool		whole = true;

	access_set(gpu, true);
	unpoison((void *) at, footprint(bytes));
	for (size_t i = 0; i < footprint(bytes) - bytes; i++)
		whole = whole && gap[i] == GAP_BYTE;
	memset((void *) at, FILL_BYTE, footprint(bytes));
	poison((void *) at, footprint(bytes));
	access_set(gpu, was_open);
	gpu->used -= rounded(bytes, ALIGN);
	gpu->ranges.erase(at);
	if (!whole)
		emulation_report("something wrote beyond an allocation of %zu bytes", bytes);
}

cudaError_t
memory_free(void *memory)
{
	gpu_memory *gpu = gpu_of(memory);

	if (memory == nullptr)
		return cudaSuccess;
	if (gpu == nullptr || gpu->ranges.count((uintptr_t) memory) == 0)
	{
		emulation_report("cudaFree of what is no allocation");
		return cudaErrorInvalidValue;
	}
	range_drop(gpu, (uintptr_t) memory);
	return cudaSuccess;
}

memory_info
memory_count(int device)
{
	return {settings.memory - gpus[device].used, settings.memory};
}

static bool
range_holds(const std::map<uintptr_t, range> &ranges, const void *memory, size_t bytes)
{
	auto		after = ranges.upper_bound((uintptr_t) memory);

	if (after == ranges.begin())
		return false;
	--after;
	return (uintptr_t) memory - after->first <= after->second.bytes &&
		bytes <= after->second.bytes - ((uintptr_t) memory - after->first);
}

int
memory_device(const void *memory, size_t bytes, const char *what)
{
	gpu_memory *gpu = gpu_of(memory);

	if (gpu == nullptr)
		return -1;
	if (range_holds(gpu->ranges, memory, bytes))
		return (int) (gpu - gpus);
	emulation_report("%s of %zu bytes beyond an allocation of device memory", what, bytes);
	return -2;
}

/* ---- host memory ---- */

cudaError_t
memory_host_alloc(void **memory, size_t bytes)
{
	*memory = nullptr;
	if (bytes == 0)
		return cudaSuccess;
	if (posix_memalign(memory, 4096, bytes) != 0)
		return cudaErrorMemoryAllocation;
	memset(*memory, FILL_BYTE, bytes);
	host_ranges[(uintptr_t) *memory] = {bytes};
	return cudaSuccess;
}

cudaError_t
memory_host_free(void *memory)
{
	if (memory == nullptr)
		return cudaSuccess;
	if (host_ranges.erase((uintptr_t) memory) == 0)
	{
		emulation_report("cudaFreeHost of what is no allocation");
		return cudaErrorInvalidValue;
	}
	free(memory);
	return cudaSuccess;
}

cudaError_t
memory_register(void *memory, size_t bytes)
{
	uintptr_t	begin = (uintptr_t) memory;

	if (memory == nullptr || bytes == 0 || gpu_of(memory) != nullptr)
		return cudaErrorInvalidValue;
	for (const auto &entry : registered)
		if (begin < entry.first + entry.second.bytes && entry.first < begin + bytes)
			return cudaErrorHostMemoryAlreadyRegistered;
	registered[begin] = {bytes};
	return cudaSuccess;
}

cudaError_t
memory_unregister(void *memory)
{
	return registered.erase((uintptr_t) memory) != 0 ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}

bool
memory_pinned(const void *memory, size_t bytes)
{
	return range_holds(host_ranges, memory, bytes) || range_holds(registered, memory, bytes);
}

/* ---- all of it ---- */

void
memory_save(int device, std::vector<uint8_t> *bytes)
{
	bytes->resize(0);
	for (const auto &entry : gpus[device].ranges)
		bytes->insert(bytes->end(), (uint8_t *) entry.first, (uint8_t *) entry.first + entry.second.bytes);
}

void
memory_restore(int device, const std::vector<uint8_t> *bytes)
{
	const uint8_t *from = bytes->data();

	for (const auto &entry : gpus[device].ranges)
	{
		memcpy((void *) entry.first, from, entry.second.bytes);
		from += entry.second.bytes;
	}
}

void
memory_compare(int device, const std::vector<uint8_t> *bytes, const emulation_kernel *kernel)
{
	const uint8_t *was = bytes->data();

	for (const auto &entry : gpus[device].ranges)
	{
		const uint8_t *is = (const uint8_t *) entry.first;

		if (memcmp(is, was, entry.second.bytes) != 0)
		{
			size_t		at = 0;

			while (is[at] == was[at])
				at++;
			emulation_report("%s: byte %zu of an allocation of %zu depends on the order of threads",
							 emulation_name(kernel->function), at, entry.second.bytes);
			return;
		}
		was += entry.second.bytes;
	}
}

uint32_t
memory_leaks(std::vector<char> *text)
{
	uint32_t	count = 0;

	for (int i = 0; i < settings.gpus; i++)
		for (const auto &entry : gpus[i].ranges)
		{
			text_add(text, "%zu bytes of device memory; ", entry.second.bytes);
			count++;
		}
	for (const auto &entry : host_ranges)
		text_add(text, "%zu bytes of host memory; ", entry.second.bytes);
	for (const auto &entry : registered)
		text_add(text, "%zu bytes registered; ", entry.second.bytes);
	return count + (uint32_t) (host_ranges.size() + registered.size());
}

void
memory_reset()
{
	for (int i = 0; i < settings.gpus; i++)
		while (!gpus[i].ranges.empty())
			range_drop(&gpus[i], gpus[i].ranges.begin()->first);
	for (const auto &entry : host_ranges)
		free((void *) entry.first);
	host_ranges.clear();
	registered.clear();
}
