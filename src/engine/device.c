/*
 * device.c
 *	  The registry of devices: which of them a setting asks for.
 */
#include "device.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../protocol/protocol.h"
#include "status.h"

#define WAIT_USEC		(1000 * 1000)

/*
 * The library stays open: what it registers with the C library and with CUDA outlives the device.  NULL and a
 * status: there is none that fits.
 */
static const struct device_library *
open_library(const char *path, struct status *status)
{
	const struct device_library *library;
	void	   *handle;

	if (path == NULL)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "this installation has no CUDA device");
		status_hint(status, "Build and install it with \"make CUDA=1\".");
		return NULL;
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	library = handle != NULL ? dlsym(handle, DEVICE_LIBRARY) : NULL;
	if (library == NULL)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "the CUDA device's library cannot be opened: %s", dlerror());
		return NULL;
	}
	if (library->ops_bytes != sizeof(struct device_ops) || library->options_bytes != sizeof(struct device_options) ||
		strcmp(library->version, INFER_VERSION) != 0)
	{
		status_set(status, INFER_ERROR_VERSION, "the CUDA device's library \"%s\" is of another version", path);
		status_hint(status, "Install the engine and its library together.");
		return NULL;
	}
	return library;
}

/* gpu: CUDA's ordinal; -1: all of those like the first. */
static struct device *
open_cuda(const struct device_options *options, int gpu, struct status *status)
{
	const struct device_library *library = open_library(options->library, status);
	struct device_options own = *options;
	struct device_options host = *options;
	struct device *device;

	if (library == NULL)
		return NULL;
	host.memory = 0;			/* what lies there is little, and none of it is evicted */
	own.gpu = gpu;
	host.beat = NULL;			/* of several batches in flight their runners give signs of life */
	own.host = cpu_device_ops.open(&host, status);
	if (own.host == NULL)
		return NULL;
	device = library->ops->open(&own, status);
	if (device == NULL)
		cpu_device_ops.close(own.host);
	else
		device->host = own.host;
	return device;
}

/* "cuda" or "cuda:N"; false: neither. */
static bool
names_cuda(const char *setting, int *gpu)
{
	char	   *end;
	long		number;

	*gpu = -1;
	if (strcmp(setting, "cuda") == 0)
		return true;
	if (strncmp(setting, "cuda:", 5) != 0 || setting[5] < '0' || setting[5] > '9')
		return false;
	number = strtol(setting + 5, &end, 10);
	*gpu = (int) number;
	return *end == '\0' && number < 1024;
}

static struct device *
open_auto(const struct device_options *options, struct status *status)
{
	struct status why = {0};
	struct device *device = open_cuda(options, -1, &why);

	if (device != NULL)
		return device;
	if (options->passed_over != NULL)
		*options->passed_over = why;
	return cpu_device_ops.open(options, status);
}

/* The faults of a null device follow its name and a colon. */
static struct device *
open_by_name(const char *setting, const struct device_options *options, struct status *status)
{
	int			gpu;

	if (setting == NULL || setting[0] == '\0' || strcmp(setting, "auto") == 0)
		return open_auto(options, status);
	if (strcmp(setting, "cpu") == 0)
		return cpu_device_ops.open(options, status);
	if (strcmp(setting, "null") == 0 || strncmp(setting, "null:", 5) == 0)
	{
		struct device_options faulty = *options;

		if (setting[4] == ':')
			faulty.faults = setting + 5;
		return null_device_ops.open(&faulty, status);
	}
	if (names_cuda(setting, &gpu))
		return open_cuda(options, gpu, status);
	status_set(status, INFER_ERROR_UNSUPPORTED, "unknown device \"%s\"", setting);
	status_hint(status, "Set infer.device to \"auto\", \"cpu\", \"cuda\", \"cuda:N\" or \"null:FAULT,...\".");
	return NULL;
}

struct device *
device_open(const char *setting, const struct device_options *options, struct status *status)
{
	struct device *device = open_by_name(setting, options, status);

	if (device == NULL)
		return NULL;
	device->load_busy = options->load_busy;
	if (device->host != NULL)
		device->host->load_busy = options->load_busy;	/* constants are computed there */
	return device;
}

void
device_close(struct device *device)
{
	struct device *host = device->host;

	device->ops->close(device);
	if (host != NULL)
		host->ops->close(host);
}

void
device_names(struct device *device, struct device_names *names)
{
	struct device *host = device->host != NULL ? device->host : device;
	struct device_info info = {0};

	device->ops->info(device, &info);
	memcpy(names->own, info.name, sizeof(names->own));
	host->ops->info(host, &info);
	memcpy(names->host, info.name, sizeof(names->host));
}

uint64_t
device_constants_bytes(const struct device_tensor *tensors, uint32_t count)
{
	uint64_t	bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		if (tensors[i].constant != NULL)
			bytes += (uint64_t) device_item_elements(&tensors[i]) * device_type_bytes(tensors[i].type);
	return bytes;
}

void *
device_buffer_alloc(struct device *device, struct device_queue *queue, int kind, uint64_t bytes, struct status *status)
{
	uint64_t	space = (bytes + DEVICE_ALIGN) / DEVICE_ALIGN * DEVICE_ALIGN;
	void	   *data;

	if (device->ops->buffer_alloc != NULL)
		return device->ops->buffer_alloc(device, queue, kind, bytes > 0 ? bytes : DEVICE_ALIGN, status);
	data = space < bytes ? NULL : aligned_alloc(DEVICE_ALIGN, space);
	if (data == NULL)
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %llu bytes wanted for a batch", (unsigned long long) bytes);
	else
		memset(data, 0, space);
	return data;
}

void
device_buffer_free(struct device *device, int kind, void *buffer)
{
	if (device->ops->buffer_free != NULL)
		device->ops->buffer_free(device, kind, buffer);
	else
		free(buffer);
}

bool
device_run(struct device *device, struct device_queue *queue, struct device_program *program, uint32_t first,
		   uint32_t last, const struct device_batch *batch, void *const *bindings, void *arena, struct status *status)
{
	enum device_state state = DEVICE_PENDING;
	uint64_t	ticket = device->ops->enqueue(queue, program, first, last, batch, bindings, arena, status);

	if (ticket == 0)
		return status_set(status, INFER_ERROR_DEVICE, "the device did not take the batch");
	while (state == DEVICE_PENDING)
		state = device->ops->wait(queue, ticket, WAIT_USEC, status);
	if (state == DEVICE_LOST)
		return status_set(status, INFER_ERROR_DEVICE_LOST, "the device is lost");
	if (state != DEVICE_DONE)
		return status_set(status, INFER_ERROR_DEVICE, "the device failed the batch");
	return true;
}

void
device_memory_hint(const struct device *device, const struct device_info *info, struct status *status)
{
	if (info->budget_of_free)
		status_hint(status, "%s", DEVICE_GPU_FULL);
	else
		status_hint(status, "Raise %s, or unload a model with infer.unload_model().", device_memory_setting(device));
}
