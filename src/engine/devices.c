/*
 * devices.c
 *	  See devices.h.
 *
 * Each is opened as the engine would open it, and closed again.
 */
#include "devices.h"

#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "status.h"

#define MB	(UINT64_C(1) << 20)

static void
print_status(const char *setting, const struct status *status)
{
	printf("%-8s not to be had: %s\n", setting, status->message);
	if (status->detail[0] != '\0')
		printf("         %s\n", status->detail);
	if (status->hint[0] != '\0')
		printf("         %s\n", status->hint);
}

static void
print_info(const struct device_info *info)
{
	printf("%-8s %s, %s\n", info->name, info->description, info->arch);
	printf("         results are of %s\n", info->numerics_id);
	printf("         products: %s\n", info->products);
	printf("         memory: %llu MB", (unsigned long long) (info->bytes_total / MB));
	if (info->bytes_budget > 0)
		printf(", of which models may use %llu MB", (unsigned long long) (info->bytes_budget / MB));
	printf("\n");
	if (info->detail[0] != '\0')
		printf("         lacks: %s\n", info->detail);
}

static bool
list_one(const char *setting, const struct device_options *options)
{
	struct device_info info = {0};
	struct status status = {0};
	struct device *device = device_open(setting, options, &status);

	if (device == NULL)
	{
		print_status(setting, &status);
		return false;
	}
	device->ops->info(device, &info);
	print_info(&info);
	device_close(device);
	return true;
}

int
devices_list(const char *library)
{
	struct device_options options = {.library = library};
	bool		cpu = list_one("cpu", &options);

	list_one("cuda", &options);
	return cpu ? 0 : 1;
}
