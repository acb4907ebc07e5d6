/*
 * types.c
 *	  Types of elements, tensors and errors: sizes and names.
 */
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

size_t
infer_type_bytes(uint32_t type)
{
	switch (type)
	{
		case INFER_TYPE_F32:
		case INFER_TYPE_I32:
			return 4;
		case INFER_TYPE_F64:
		case INFER_TYPE_I64:
			return 8;
		case INFER_TYPE_BOOL:
			return 1;
		default:
			return 0;
	}
}

uint64_t
infer_tensor_width(const struct infer_tensor *tensor)
{
	uint64_t	width = 1;

	for (uint32_t d = 0; d < tensor->rank; d++)
	{
		if (tensor->dims[d] < 0)
			return INFER_WIDTH_VARIES;
		width *= (uint64_t) tensor->dims[d];
	}
	return width;
}

const char *
infer_type_name(uint32_t type)
{
	static const char *const names[] = {
		[INFER_TYPE_NONE] = "none",
		[INFER_TYPE_F32] = "float32",
		[INFER_TYPE_F64] = "float64",
		[INFER_TYPE_I32] = "int32",
		[INFER_TYPE_I64] = "int64",
		[INFER_TYPE_BOOL] = "bool",
		[INFER_TYPE_STRING] = "string",
	};

	return type <= INFER_TYPE_LAST ? names[type] : "unknown type";
}

const char *
infer_error_name(uint32_t error)
{
	static const char *const names[] = {
		[INFER_OK] = "ok",
		[INFER_ERROR_INPUT] = "input not acceptable to the model",
		[INFER_ERROR_NOT_FINITE] = "output not finite",
		[INFER_ERROR_UNSUPPORTED] = "not supported",
		[INFER_ERROR_MODEL] = "malformed model",
		[INFER_ERROR_NEED_LOAD] = "model not loaded",
		[INFER_ERROR_NEED_FILES] = "model files missing",
		[INFER_ERROR_NEED_SPACE] = "reply does not fit",
		[INFER_ERROR_BUSY] = "engine busy",
		[INFER_ERROR_DEADLINE] = "deadline passed",
		[INFER_ERROR_CANCELLED] = "cancelled",
		[INFER_ERROR_MEMORY] = "out of memory",
		[INFER_ERROR_DEVICE] = "device failed",
		[INFER_ERROR_DEVICE_LOST] = "device lost",
		[INFER_ERROR_PROTOCOL] = "protocol violation",
		[INFER_ERROR_VERSION] = "version mismatch",
		[INFER_ERROR_INTERNAL] = "internal error",
	};

	return error <= INFER_ERROR_LAST ? names[error] : "unknown error";
}
