/*
 * weight.cu
 *	  Weights: packed once, on every GPU.
 */
#include "cuda.h"

uint64_t
cuda_weight_size(device *base, const device_weight_desc *desc)
{
	return 0;
}

device_weight *
cuda_weight_pack(device *base, const device_weight_desc *desc, status *status)
{
	status_set(status, INFER_ERROR_UNSUPPORTED, "the CUDA device packs no weights yet");
	return nullptr;
}

void
cuda_weight_free(device *base, device_weight *weight)
{
}

const void *
cuda_weight_data(device *base, const device_weight *weight, uint64_t *bytes)
{
	return nullptr;
}

device_weight *
cuda_weight_map(device *base, const device_weight_desc *desc, const void *data, uint64_t bytes, status *status)
{
	status_set(status, INFER_ERROR_UNSUPPORTED, "the CUDA device keeps no packed form");
	return nullptr;
}
