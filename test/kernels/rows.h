/*
 * rows.h
 *	  What the tests of "same row, same bits" share: a check on the CPU's kernels, with as many threads as are asked for.
 */
#ifndef TEST_KERNELS_ROWS_H
#define TEST_KERNELS_ROWS_H

#include "harness.h"
#include "tap.h"

/* false: the processor lacks the instructions, which is skipped by name; so are more threads than there are cores. */
static inline bool
rows_on_cpu(const char *arch, int threads, void (*check_device) (struct device *device, const char *name))
{
	struct device_options options = {.threads = threads, .arch = arch};
	struct status status;
	struct device *device;
	struct device_info info;
	char		name[64];

	status_clear(&status);
	device = device_open("cpu", &options, &status);
	if (device == NULL)
	{
		tap_skip(arch, "not on this processor");
		return false;
	}
	device->ops->info(device, &info);
	snprintf(name, sizeof(name), "%s, %d threads", arch, threads);
	if (info.threads != (uint32_t) threads)
		tap_skip(arch, "fewer cores than threads");
	else
		check_device(device, name);
	device_close(device);
	return true;
}

#endif							/* TEST_KERNELS_ROWS_H */
