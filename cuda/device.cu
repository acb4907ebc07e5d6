/*
 * device.cu
 *	  The CUDA device: which GPUs there are, and what the library exports.
 */
#include "cuda.h"

static device *
cuda_open(const device_options *options, status *status)
{
	status_set(status, INFER_ERROR_UNSUPPORTED, "no GPU is served yet");
	return nullptr;
}

static const device_ops cuda_device_ops = {
	.kind = "cuda",
	.open = cuda_open,
};

extern "C" __attribute__((visibility("default"))) const device_library infer_device_library = {
	.ops_bytes = sizeof(device_ops),
	.options_bytes = sizeof(device_options),
	.version = INFER_VERSION,
	.ops = &cuda_device_ops
};
