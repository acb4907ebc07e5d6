/*
 * device_type.c
 *	  Types of elements and precisions: sizes, names, what a weight may have.  Linked into the library of the CUDA device, too.
 */
#include "device.h"

static const char *const type_names[] = {
	[DEVICE_F32] = "float32", [DEVICE_F64] = "float64", [DEVICE_I32] = "int32", [DEVICE_I64] = "int64",
	[DEVICE_BOOL] = "bool", [DEVICE_STRING] = "string", [DEVICE_BF16] = "bfloat16", [DEVICE_F16] = "float16",
	[DEVICE_Q8] = "quantised"
};

static const char *const precision_names[DEVICE_PRECISIONS] = {
	[DEVICE_PRECISION_FULL] = "f32", [DEVICE_PRECISION_BF16] = "bf16", [DEVICE_PRECISION_INT8] = "int8"
};

/* Bytes of one element in a tensor; 0 for a type that does not exist. */
size_t
device_type_bytes(uint8_t type)
{
	switch (type)
	{
		case DEVICE_F32:
		case DEVICE_I32:
			return 4;
		case DEVICE_F64:
		case DEVICE_I64:
			return 8;
		case DEVICE_BF16:
		case DEVICE_F16:
			return 2;
		case DEVICE_BOOL:
		case DEVICE_Q8:
			return 1;
		case DEVICE_STRING:
			return sizeof(struct device_text);
	}
	return 0;
}

/* Elements of one item. */
int64_t
device_item_elements(const struct device_tensor *tensor)
{
	int64_t		elements = 1;

	for (int d = 0; d < tensor->rank; d++)
		elements *= tensor->dims[d];
	return elements;
}

const char *
device_type_name(uint8_t type)
{
	return type < sizeof(type_names) / sizeof(*type_names) && type_names[type] != NULL ? type_names[type] : "unknown";
}

const char *
device_precision_name(uint8_t precision)
{
	return precision < DEVICE_PRECISIONS ? precision_names[precision] : "unknown precision";
}

const char *
device_weight_refusal(const struct device_weight_desc *desc)
{
	if (desc->precision >= DEVICE_PRECISIONS || desc->k < 0 || desc->n < 0)
		return "no such precision or shape";
	if (desc->type != DEVICE_F32 && desc->type != DEVICE_F16 && desc->type != DEVICE_BF16 &&
		(desc->type != DEVICE_F64 || desc->precision != DEVICE_PRECISION_FULL))
		return "not from this type";
	if (desc->precision == DEVICE_PRECISION_INT8 && desc->k > DEVICE_Q8_MAX)
		return "sums of more than 65536 products are not exact";
	return NULL;
}
