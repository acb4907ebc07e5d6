/*
 * watch.cu
 *	  Waiting for a GPU without asking it all the time.
 */
#include "core.h"

bool
cuda_watch_event(cuda_gpu *gpu, cudaEvent_t event, uint64_t began, uint64_t predicted)
{
	for (;;)
	{
		timespec	nap = {0, 20000};
		cudaError_t error = cudaEventQuery(event);

		if (error == cudaSuccess)
			return true;
		if (error != cudaErrorNotReady)
		{
			cudaGetLastError();
			cuda_lose(gpu->device, "GPU %d answers errors: %s", gpu->ordinal, cudaGetErrorString(error));
		}
		if (cuda_is_lost(gpu->device))
			return false;
		nanosleep(&nap, nullptr);
	}
}
