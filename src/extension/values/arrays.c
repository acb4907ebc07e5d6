/*
 * arrays.c
 *	  SQL arrays into inputs.  A one-dimensional array fills an input of any shape in
 *	  row-major order; one of more dimensions must have the input's own.
 */
#include "postgres.h"

#include <math.h>

#include "access/tupmacs.h"
#include "utils/array.h"
#include "utils/arrayaccess.h"

#include "parts.h"

static void
dims_error(const InferBinding *binding, uint32 input, int ndim, const int *dims)
{
	const struct infer_tensor *tensor = binding->inputs[input].tensor;
	StringInfoData wanted;
	StringInfoData given;

	initStringInfo(&wanted);
	initStringInfo(&given);
	for (uint32 i = 0; i < tensor->rank; i++)
		appendStringInfo(&wanted, "[" INT64_FORMAT "]", tensor->dims[i]);
	for (int i = 0; i < ndim; i++)
		appendStringInfo(&given, "[%d]", dims[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("input \"%s\" of model \"%s\" has the shape %s, but the array has %s",
					tensor->name, binding->model->name, wanted.data, given.data),
			 errhint("Give the elements in a one-dimensional array, or in one of the input's shape.")));
}

/*
 * Raises 22023 unless an array of these dimensions fits the input.
 */
void
value_check_dims(const InferBinding *binding, uint32 input, int ndim, const int *dims, uint64 count)
{
	const InputShape *shape = &binding->inputs[input];
	const struct infer_tensor *tensor = shape->tensor;

	if (ndim > 1)
	{
		bool		same = ndim == tensor->rank;

		for (int i = 0; same && i < ndim; i++)
			same = tensor->dims[i] == dims[i];
		if (!same)
			dims_error(binding, input, ndim, dims);
	}
	if (count != shape->width)
		value_width_error(binding, input, count);
}

/* The first element that a float cannot hold although it is finite, or count. */
static uint64
narrow_doubles(float *out, const double *in, uint64 count)
{
	uint64		fits = 0;

	for (uint64 i = 0; i < count; i++)
	{
		out[i] = (float) in[i];
		fits += !isinf(out[i]) || isinf(in[i]);
	}
	if (likely(fits == count))
		return count;
	for (fits = 0; !isinf(out[fits]) || isinf(in[fits]);)
		fits++;
	return fits;
}

#define CONVERT_FLAT(from, to) \
	for (uint64 i = 0; i < count; i++) \
		((to *) out)[i] = (to) ((const from *) data)[i]

/* float32 from flat numbers; false if the source has no quick way */
static bool
flat_to_float(ValueSink *sink, ValueSource source, const char *data, uint64 count)
{
	float	   *out = sink_data(sink);
	uint64		bad;

	switch (source)
	{
		case SOURCE_FLOAT4:
			memcpy(out, data, count * sizeof(float));
			return true;
		case SOURCE_FLOAT8:
			bad = narrow_doubles(out, (const double *) data, count);
			if (bad < count)
				value_put(sink, bad, source, Float8GetDatum(((const double *) data)[bad]));
			return true;
		case SOURCE_INT2:
			CONVERT_FLAT(int16, float);
			return true;
		case SOURCE_INT4:
			CONVERT_FLAT(int32, float);
			return true;
		default:
			return false;
	}
}

/*
 * Arrays without NULLs whose elements lie one after the other in the form that the
 * commonest inputs need, or nearly so.
 */
static bool
put_flat(ValueSink *sink, const ValueType *type, AnyArrayType *array, uint64 count)
{
	const char *data;

	if (VARATT_IS_EXPANDED_HEADER(array) || ARR_HASNULL(&array->flt))
		return false;
	data = ARR_DATA_PTR(&array->flt);

	if (sink->type == INFER_TYPE_F32)
		return flat_to_float(sink, type->source, data, count);
	if ((sink->type == INFER_TYPE_F64 && type->source == SOURCE_FLOAT8) ||
		(sink->type == INFER_TYPE_I64 && type->source == SOURCE_INT8))
		memcpy(sink_data(sink), data, count * 8);
	else if (sink->type == INFER_TYPE_I32 && type->source == SOURCE_INT4)
		memcpy(sink_data(sink), data, count * 4);
	else
		return false;
	return true;
}

void
value_put_array(const InferBinding *binding, uint32 input, const ValueType *type, Datum value)
{
	AnyArrayType *array = DatumGetAnyArrayP(value);
	uint64		count = ArrayGetNItems(AARR_NDIM(array), AARR_DIMS(array));
	ValueSink  *sink = &binding->sinks[input];
	array_iter	iter;

	value_check_dims(binding, input, AARR_NDIM(array), AARR_DIMS(array), count);
	if (put_flat(sink, type, array, count))
		return;

	array_iter_setup(&iter, array);
	for (uint64 i = 0; i < count; i++)
	{
		bool		isnull;
		Datum		element = array_iter_next(&iter, &isnull, i, type->length, type->byval, type->align);

		if (isnull)
			value_put_missing(sink, i);
		else
			value_put(sink, i, type->source, element);
	}
}

/*
 * One array whose elements are all features in order, as if given one by one.
 */
void
value_put_spread(const InferBinding *binding, const ValueType *type, Datum value)
{
	AnyArrayType *array = DatumGetAnyArrayP(value);
	uint64		count = ArrayGetNItems(AARR_NDIM(array), AARR_DIMS(array));
	uint32		input = 0;
	array_iter	iter;

	if (count != binding->elements)
		value_count_error(binding, count, HOLDER_ARRAY);

	array_iter_setup(&iter, array);
	for (uint64 i = 0; i < count; i++)
	{
		bool		isnull;
		Datum		element = array_iter_next(&iter, &isnull, i, type->length, type->byval, type->align);
		uint64		at;

		while (i >= binding->inputs[input].first + binding->inputs[input].width)
			input++;
		at = i - binding->inputs[input].first;
		if (isnull)
			value_put_missing(&binding->sinks[input], at);
		else
			value_put(&binding->sinks[input], at, type->source, element);
	}
}
