/*
 * cpu.c
 *	  The CPU device: see ../device.h for the contract, cpu.h for the nouns.  Here: how
 *	  many threads, and what it says of itself.
 *
 * One queue's enqueue runs on one thread at a time; several queues may run at once, and
 * share the pool.
 */
#include "cpu.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../protocol/protocol.h"
#include "pool/pool.h"

/* Reading a weight with one thread: between the last cache's 0.009 and memory's 0.025. */
#define NSEC_BYTE		0.015

static void
processor_name(char *name, size_t size)
{
	FILE	   *file = fopen("/proc/cpuinfo", "re");
	char		line[256];

	snprintf(name, size, "unknown processor");
	if (file == NULL)
		return;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		char	   *colon = strchr(line, ':');

		if (colon == NULL || strncmp(line, "model name", 10) != 0)
			continue;
		colon += 1 + strspn(colon + 1, " ");
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(name, size, "%s", colon);
		break;
	}
	fclose(file);
}

/*
 * The C library's functions (sine, power, …) are compiled once with and once without fused
 * multiply-adds, and it chooses by the processor.
 */
static const char *
libm_variant(void)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	return __builtin_cpu_supports("fma") ? "-fma" : "";
#else
	return "";
#endif
}

static void
cpu_close(struct device *base)
{
	pool_free(((struct cpu_device *) base)->pool);
	free(base);
}

static struct device *
cpu_open(const struct device_options *options, struct status *status)
{
	struct cpu_device *device = calloc(1, sizeof(*device));
	int			cores = pool_usable_cores();

	if (device == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*device));
		return NULL;
	}
	if (!cpu_isa_choose(device, options->arch, status))	/* threads inherit its permissions */
	{
		free(device);
		return NULL;
	}
	device->pool = pool_create(options->threads > 0 && options->threads < cores ? options->threads : cores,
							   status);
	if (device->pool == NULL)
	{
		free(device);
		return NULL;
	}
	device->base.ops = &cpu_device_ops;
	device->budget = options->memory;
	device->beats[DEVICE_BATCHES] = options->beat;
	device->beats[DEVICE_CONSTANTS] = options->load_beat;
	processor_name(device->description, sizeof(device->description));
	snprintf(device->numerics_id, sizeof(device->numerics_id), "cpu-%s-%s-glibc-%s%s%s%s%s", device->kernels->arch,
			 CPU_KERNEL_FAMILY, gnu_get_libc_version(), libm_variant(),
			 device->narrow[DEVICE_PRECISION_BF16]->tiles ? "-tiles" : "",
			 device->attention_bf16 != NULL ? "-heads" : "",
			 device->precision_default == DEVICE_PRECISION_BF16 ? "-bf16" : "");
	device->nsec_byte = NSEC_BYTE;
	return &device->base;
}

static void
cpu_info(struct device *base, struct device_info *info)
{
	struct cpu_device *device = (struct cpu_device *) base;
	const struct cpu_narrow_kernels *bf16 = device->narrow[DEVICE_PRECISION_BF16];
	const struct cpu_narrow_kernels *int8 = device->narrow[DEVICE_PRECISION_INT8];

	memset(info, 0, sizeof(*info));
	snprintf(info->kind, sizeof(info->kind), "cpu");
	snprintf(info->name, sizeof(info->name), "cpu");
	snprintf(info->arch, sizeof(info->arch), "%s", device->kernels->arch);
	snprintf(info->description, sizeof(info->description), "%s", device->description);
	snprintf(info->numerics_id, sizeof(info->numerics_id), "%s", device->numerics_id);
	snprintf(info->weight_layout, sizeof(info->weight_layout), "panels-%d-%d-%d.%d-%d.%d",
			 (int) device->kernels->f32.panel, (int) device->kernels->f64.panel,
			 (int) bf16->panel, (int) bf16->fill, (int) int8->panel, (int) int8->fill);
	snprintf(info->products, sizeof(info->products), "bf16 %s, int8 %s", bf16->name, int8->name);
	info->precisions = (1u << DEVICE_PRECISIONS) - 1;
	info->precision_default = device->precision_default;
	info->flops[DEVICE_PRECISION_FULL] = 1e9 / device->nsec_flop;
	for (int p = DEVICE_PRECISION_BF16; p < DEVICE_PRECISIONS; p++)
		info->flops[p] = 1e9 / device->nsec_narrow[p];
	info->bytes_total = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE);
	info->bytes_budget = device->budget;
	info->bytes_used = __atomic_load_n(&device->used, __ATOMIC_RELAXED);
	info->threads = (uint32_t) pool_threads(device->pool);
	info->async = false;
	info->inflight_max = 1;
	info->align = DEVICE_ALIGN;
}

const struct device_ops cpu_device_ops = {
	.kind = "cpu",
	.open = cpu_open,
	.close = cpu_close,
	.info = cpu_info,
	.supports = cpu_supports,
	.weight_size = cpu_weight_size,
	.weight_pack = cpu_weight_pack,
	.weight_free = cpu_weight_free,
	.weight_data = cpu_weight_data,
	.weight_map = cpu_weight_map,
	.compile = cpu_compile,
	.program_free = cpu_program_free,
	.program_bytes = cpu_program_bytes,
	.arena_bytes = cpu_arena_bytes,
	.queue_create = cpu_queue_create,
	.queue_free = cpu_queue_free,
	.enqueue = cpu_enqueue,
	.segment_end = cpu_segment_end,
	.poll = cpu_poll,
	.wait = cpu_wait,
	.cancel = cpu_cancel,
	.estimate_nsec = cpu_estimate_nsec,
	.elapsed_nsec = cpu_elapsed_nsec
};
