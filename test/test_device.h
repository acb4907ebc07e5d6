/*
 * test_device.h
 *	  Which device a test of models runs on: INFER_TEST_DEVICE in the environment, as infer.device has it, or the CPU.
 *	  "cuda" is the library that INFER_CUDA names.
 */
#ifndef TEST_TEST_DEVICE_H
#define TEST_TEST_DEVICE_H

#include <stdlib.h>

#include "engine/device.h"

static inline const char * __attribute__((unused))
test_device(struct device_options *options)
{
	const char *setting = getenv("INFER_TEST_DEVICE");

	options->library = getenv("INFER_CUDA");
	return setting != NULL ? setting : "cpu";
}

#endif							/* TEST_TEST_DEVICE_H */
