/*
 * plain.c
 *	  Numbers of fixed size, for numbers: what most columns of most tables are.  Not of models with
 *	  hidden inputs: these read texts.
 *
 * Nouns
 *	plain		a conversion that reads a Datum and stores a number, and may at most find out that
 *				this one value needs more: too large for a float, or NULL for a model that has no
 *				notion of it.  Then the whole row is written as every other is (convert.c), which
 *				raises what is wrong.
 *
 * Invariants
 *	- The bits are those that convert.c would write.
 *	- Nothing here raises or allocates while it runs.
 */
#include "postgres.h"

#include <math.h>

#include "parts.h"

enum PlainConversion				/* from, to */
{
	PLAIN_NONE,
	PLAIN_FLOAT8_F32,
	PLAIN_FLOAT4_F32,
	PLAIN_INT2_F32,
	PLAIN_INT4_F32,
	PLAIN_INT8_F32,
	PLAIN_BOOL_F32,
	PLAIN_FLOAT8_F64,
	PLAIN_FLOAT4_F64,
	PLAIN_INT2_F64,
	PLAIN_INT4_F64,
	PLAIN_INT8_F64,
	PLAIN_BOOL_F64,
	PLAIN_INT2_I32,
	PLAIN_INT4_I32,
	PLAIN_INT2_I64,
	PLAIN_INT4_I64,
	PLAIN_INT8_I64,
	PLAIN_BOOL_BOOL
};

static enum PlainConversion
plain_conversion(uint32 type, const BindingStep *step)
{
	static const uint8 conversions[INFER_TYPE_LAST + 1][SOURCE_OTHER + 1] = {
		[INFER_TYPE_F32] = {
			[SOURCE_FLOAT8] = PLAIN_FLOAT8_F32, [SOURCE_FLOAT4] = PLAIN_FLOAT4_F32,
			[SOURCE_INT2] = PLAIN_INT2_F32, [SOURCE_INT4] = PLAIN_INT4_F32,
			[SOURCE_INT8] = PLAIN_INT8_F32, [SOURCE_BOOL] = PLAIN_BOOL_F32
		},
		[INFER_TYPE_F64] = {
			[SOURCE_FLOAT8] = PLAIN_FLOAT8_F64, [SOURCE_FLOAT4] = PLAIN_FLOAT4_F64,
			[SOURCE_INT2] = PLAIN_INT2_F64, [SOURCE_INT4] = PLAIN_INT4_F64,
			[SOURCE_INT8] = PLAIN_INT8_F64, [SOURCE_BOOL] = PLAIN_BOOL_F64
		},
		[INFER_TYPE_I32] = {[SOURCE_INT2] = PLAIN_INT2_I32, [SOURCE_INT4] = PLAIN_INT4_I32},
		[INFER_TYPE_I64] = {
			[SOURCE_INT2] = PLAIN_INT2_I64, [SOURCE_INT4] = PLAIN_INT4_I64, [SOURCE_INT8] = PLAIN_INT8_I64
		},
		[INFER_TYPE_BOOL] = {[SOURCE_BOOL] = PLAIN_BOOL_BOOL}
	};

	if (step->kind != STEP_ELEMENT || step->type.array || step->element > PG_UINT32_MAX)
		return PLAIN_NONE;
	return conversions[type][step->type.source];
}

void
binding_plan_plain(const InferBinding *binding, StepList *steps)
{
	if (binding->hidden_count > 0)
		return;
	steps->plain = palloc(sizeof(PlainStep) * Max(steps->count, 1));
	for (int i = 0; i < steps->count; i++)
	{
		const BindingStep *step = &steps->steps[i];
		const ValueSink *sink = &binding->sinks[step->input];

		steps->plain[i] = (PlainStep) {
			.conversion = plain_conversion(sink->type, step),
			.missing = sink->missing && (sink->type == INFER_TYPE_F32 || sink->type == INFER_TYPE_F64),
			.from = step->from,
			.input = step->input,
			.element = step->element
		};
		if (steps->plain[i].conversion == PLAIN_NONE)
		{
			pfree(steps->plain);
			steps->plain = NULL;
			return;
		}
	}
}

static bool
put_missing(const ValueSink *sink, const PlainStep *step, void *data)
{
	if (!step->missing)
		return false;
	if (sink->type == INFER_TYPE_F32)
		((float *) data)[step->element] = NAN;
	else
		((double *) data)[step->element] = NAN;
	return true;
}

bool
binding_run_plain(const InferBinding *binding, const StepList *steps, const Datum *values, const bool *nulls)
{
	for (const PlainStep *step = steps->plain; step < steps->plain + steps->count; step++)
	{
		ValueSink  *sink = &binding->sinks[step->input];
		void	   *data = sink_data(sink);
		Datum		value = values[step->from];
		double		wide;
		float		narrow;

		if (unlikely(nulls[step->from]))
		{
			if (!put_missing(sink, step, data))
				return false;
			continue;
		}
		switch ((enum PlainConversion) step->conversion)
		{
			case PLAIN_FLOAT8_F32:
				wide = DatumGetFloat8(value);
				narrow = (float) wide;
				if (unlikely(isinf(narrow)) && !isinf(wide))
					return false;
				((float *) data)[step->element] = narrow;
				break;
			case PLAIN_FLOAT4_F32:
				((float *) data)[step->element] = DatumGetFloat4(value);
				break;
			case PLAIN_INT2_F32:
				((float *) data)[step->element] = DatumGetInt16(value);
				break;
			case PLAIN_INT4_F32:
				((float *) data)[step->element] = (float) DatumGetInt32(value);
				break;
			case PLAIN_INT8_F32:
				((float *) data)[step->element] = (float) DatumGetInt64(value);
				break;
			case PLAIN_BOOL_F32:
				((float *) data)[step->element] = DatumGetBool(value) ? 1 : 0;
				break;
			case PLAIN_FLOAT8_F64:
				((double *) data)[step->element] = DatumGetFloat8(value);
				break;
			case PLAIN_FLOAT4_F64:
				((double *) data)[step->element] = DatumGetFloat4(value);
				break;
			case PLAIN_INT2_F64:
				((double *) data)[step->element] = DatumGetInt16(value);
				break;
			case PLAIN_INT4_F64:
				((double *) data)[step->element] = DatumGetInt32(value);
				break;
			case PLAIN_INT8_F64:
				((double *) data)[step->element] = (double) DatumGetInt64(value);
				break;
			case PLAIN_BOOL_F64:
				((double *) data)[step->element] = DatumGetBool(value) ? 1 : 0;
				break;
			case PLAIN_INT2_I32:
				((int32 *) data)[step->element] = DatumGetInt16(value);
				break;
			case PLAIN_INT4_I32:
				((int32 *) data)[step->element] = DatumGetInt32(value);
				break;
			case PLAIN_INT2_I64:
				((int64 *) data)[step->element] = DatumGetInt16(value);
				break;
			case PLAIN_INT4_I64:
				((int64 *) data)[step->element] = DatumGetInt32(value);
				break;
			case PLAIN_INT8_I64:
				((int64 *) data)[step->element] = DatumGetInt64(value);
				break;
			case PLAIN_BOOL_BOOL:
				((uint8 *) data)[step->element] = DatumGetBool(value) ? 1 : 0;
				break;
			case PLAIN_NONE:
				return false;
		}
	}
	return true;
}
