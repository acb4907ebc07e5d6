/*
 * convert.c
 *	  One SQL scalar into one element of an input.
 *
 * Invariants
 *	- Rounding to a float is ordinary; everything else is exact or an error.
 *	- A finite value never becomes infinite; NaN and infinity go through as given.
 *	- An integer or boolean input takes only what it can hold.
 *	- Strings stay in the server's encoding: infer_client_string makes them UTF-8.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/numeric.h"
#include "utils/syscache.h"

#include "parts.h"

#define VALUE_SHOWN 50			/* characters of a value in a message */

/* A value as a message shows it: a long one ends in "...". */
static const char *
shown(const char *value)
{
	int			length = strlen(value);

	if (length <= VALUE_SHOWN)
		return value;
	return psprintf("%.*s...", pg_mbcliplen(value, length, VALUE_SHOWN), value);
}

static void
out_of_range(ValueSink *sink, uint64 element, const char *value)
{
	const InferBinding *binding = sink->binding;

	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("value %s is out of range for %s of model \"%s\"", shown(value),
					value_where(binding, sink->input, element), binding->model->name),
			 errdetail("The model takes it as %s.", infer_type_name(sink->type))));
}

static void
not_an_integer(ValueSink *sink, uint64 element, const char *value)
{
	const InferBinding *binding = sink->binding;

	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("value %s for %s of model \"%s\" is not an integer", shown(value),
					value_where(binding, sink->input, element), binding->model->name),
			 errdetail("The model takes it as %s.", infer_type_name(sink->type)),
			 errhint("Round it to the integer that is meant.")));
}

static const char *
float8_text(double value)
{
	char	   *text = palloc(32);

	snprintf(text, 32, "%.17g", value);
	return text;
}

static double
numeric_to_double(ValueSink *sink, uint64 element, Numeric value, bool single)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value)));
	double		result = single ? strtof(text, NULL) : strtod(text, NULL);

	if (isinf(result) && !numeric_is_inf(value))
		out_of_range(sink, element, text);
	pfree(text);
	return result;
}

/* single: the result will be kept as a float, so a numeric is rounded once */
static double
number_to_double(ValueSink *sink, uint64 element, ValueSource source, Datum value, bool single)
{
	switch (source)
	{
		case SOURCE_FLOAT4:
			return DatumGetFloat4(value);
		case SOURCE_FLOAT8:
			return DatumGetFloat8(value);
		case SOURCE_INT2:
			return DatumGetInt16(value);
		case SOURCE_INT4:
			return DatumGetInt32(value);
		case SOURCE_INT8:
			return DatumGetInt64(value);
		case SOURCE_BOOL:
			return DatumGetBool(value) ? 1 : 0;
		case SOURCE_NUMERIC:
			return numeric_to_double(sink, element, DatumGetNumeric(value), single);
		default:
			elog(ERROR, "unexpected source %d of a number", (int) source);
	}
}

static float
number_to_float(ValueSink *sink, uint64 element, ValueSource source, Datum value)
{
	double		wide;
	float		result;

	if (source == SOURCE_INT8)
		return (float) DatumGetInt64(value);	/* rounded once, not by way of double */
	wide = number_to_double(sink, element, source, value, true);
	result = (float) wide;
	if (unlikely(isinf(result) && !isinf(wide)))
		out_of_range(sink, element, float8_text(wide));
	return result;
}

static int64
numeric_to_int64(ValueSink *sink, uint64 element, Numeric value)
{
	Datum		datum = NumericGetDatum(value);
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, datum));

	if (numeric_is_nan(value) || numeric_is_inf(value))
		out_of_range(sink, element, text);
	if (!DatumGetBool(DirectFunctionCall2(numeric_eq, datum,
										  DirectFunctionCall2(numeric_trunc, datum, Int32GetDatum(0)))))
		not_an_integer(sink, element, text);
	if (DatumGetBool(DirectFunctionCall2(numeric_lt, datum, NumericGetDatum(int64_to_numeric(PG_INT64_MIN)))) ||
		DatumGetBool(DirectFunctionCall2(numeric_gt, datum, NumericGetDatum(int64_to_numeric(PG_INT64_MAX)))))
		out_of_range(sink, element, text);
	pfree(text);
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, datum));
}

static int64
number_to_int64(ValueSink *sink, uint64 element, ValueSource source, Datum value)
{
	double		wide;

	switch (source)
	{
		case SOURCE_INT2:
			return DatumGetInt16(value);
		case SOURCE_INT4:
			return DatumGetInt32(value);
		case SOURCE_INT8:
			return DatumGetInt64(value);
		case SOURCE_BOOL:
			return DatumGetBool(value) ? 1 : 0;
		case SOURCE_NUMERIC:
			return numeric_to_int64(sink, element, DatumGetNumeric(value));
		default:
			wide = number_to_double(sink, element, source, value, false);
			if (isnan(wide) || isinf(wide))
				out_of_range(sink, element, float8_text(wide));
			if (rint(wide) != wide)
				not_an_integer(sink, element, float8_text(wide));
			if (!FLOAT8_FITS_IN_INT64(wide))
				out_of_range(sink, element, float8_text(wide));
			return (int64) wide;
	}
}

static int32
number_to_int32(ValueSink *sink, uint64 element, ValueSource source, Datum value)
{
	int64		wide = number_to_int64(sink, element, source, value);

	if (wide < PG_INT32_MIN || wide > PG_INT32_MAX)
		out_of_range(sink, element, psprintf(INT64_FORMAT, wide));
	return (int32) wide;
}

static uint8
number_to_bool(ValueSink *sink, uint64 element, ValueSource source, Datum value)
{
	double		wide;

	if (source == SOURCE_BOOL)
		return DatumGetBool(value) ? 1 : 0;
	wide = source == SOURCE_NUMERIC ? numeric_to_int64(sink, element, DatumGetNumeric(value))
		: number_to_double(sink, element, source, value, false);
	if (wide != 0 && wide != 1)
		out_of_range(sink, element, float8_text(wide));
	return wide == 1;
}

/* ---- strings ---- */

void
value_put_string(ValueSink *sink, uint64 element, const char *text, Size length)
{
	infer_client_string(sink->call, sink->number, sink->base + element, text, length);
	++*sink->binding->moves;
}

static void
put_enum_label(ValueSink *sink, uint64 element, Oid value)
{
	HeapTuple	tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(value));
	NameData	label;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid internal value for enum: %u", value)));
	label = ((Form_pg_enum) GETSTRUCT(tuple))->enumlabel;
	ReleaseSysCache(tuple);
	value_put_string(sink, element, NameStr(label), strlen(NameStr(label)));
}

/* ISO 8601, whatever DateStyle says */
static void
put_date(ValueSink *sink, uint64 element, DateADT value)
{
	struct pg_tm tm;
	char		text[MAXDATELEN + 1];

	if (DATE_NOT_FINITE(value))
		out_of_range(sink, element, DATE_IS_NOBEGIN(value) ? "-infinity" : "infinity");
	j2date(value + POSTGRES_EPOCH_JDATE, &tm.tm_year, &tm.tm_mon, &tm.tm_mday);
	EncodeDateOnly(&tm, USE_ISO_DATES, text);
	value_put_string(sink, element, text, strlen(text));
}

static void
put_integer_text(ValueSink *sink, uint64 element, int64 value)
{
	char		text[MAXINT8LEN + 1];
	int			length = pg_lltoa(value, text);

	value_put_string(sink, element, text, length);
}

static void
put_varlena(ValueSink *sink, uint64 element, Datum value, bool padded)
{
	text	   *packed = DatumGetTextPP(value);
	char	   *data = VARDATA_ANY(packed);
	int			length = VARSIZE_ANY_EXHDR(packed);

	value_put_string(sink, element, data, padded ? bpchartruelen(data, length) : length);
}

static void
put_text_source(ValueSink *sink, uint64 element, ValueSource source, Datum value)
{
	char		letter;

	switch (source)
	{
		case SOURCE_TEXT:
		case SOURCE_BPCHAR:
			put_varlena(sink, element, value, source == SOURCE_BPCHAR);
			break;
		case SOURCE_CSTRING:
			value_put_string(sink, element, DatumGetCString(value), strlen(DatumGetCString(value)));
			break;
		case SOURCE_NAME:
			value_put_string(sink, element, NameStr(*DatumGetName(value)), strlen(NameStr(*DatumGetName(value))));
			break;
		case SOURCE_CHAR:
			letter = DatumGetChar(value);
			value_put_string(sink, element, &letter, letter == '\0' ? 0 : 1);
			break;
		case SOURCE_ENUM:
			put_enum_label(sink, element, DatumGetObjectId(value));
			break;
		case SOURCE_DATE:
			put_date(sink, element, DatumGetDateADT(value));
			break;
		case SOURCE_INT2:
			put_integer_text(sink, element, DatumGetInt16(value));
			break;
		case SOURCE_INT4:
			put_integer_text(sink, element, DatumGetInt32(value));
			break;
		case SOURCE_INT8:
			put_integer_text(sink, element, DatumGetInt64(value));
			break;
		default:
			elog(ERROR, "unexpected source %d of a string", (int) source);
	}
}

/* A text for a number: always an error, but the text says which remedy fits. */
static void
refuse_text_source(ValueSink *sink, uint64 element, ValueSource source, Datum value)
{
	const InferBinding *binding = sink->binding;
	text	   *packed;

	switch (source)
	{
		case SOURCE_CSTRING:
			value_refuse_text(binding, sink->input, element, DatumGetCString(value),
							  strlen(DatumGetCString(value)));
		case SOURCE_TEXT:
		case SOURCE_BPCHAR:
			packed = DatumGetTextPP(value);
			value_refuse_text(binding, sink->input, element, VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
		default:
			value_refuse_text(binding, sink->input, element, "", 0);
	}
}

void
value_refuse_text(const InferBinding *binding, uint32 input, uint64 element, const char *text, Size length)
{
	Size		start = 0;
	char		first;

	while (start < length && isspace((unsigned char) text[start]))
		start++;
	first = start < length ? text[start] : '\0';

	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("%s of model \"%s\" is a number, but text was given",
					value_where(binding, input, element), binding->model->name),
			 first == '{' ?
			 errhint("Cast the text to jsonb to give the features by name, or to an array such as real[].") :
			 first == '[' ?
			 errhint("Cast the text to jsonb.") :
			 errhint("Cast the value to a number.")));
}

/* ---- elements ---- */

static inline bool
source_is_number(ValueSource source)
{
	return source <= SOURCE_BOOL;
}

/*
 * Put a scalar that is not NULL; value_check_accepts has passed the pair of types.
 */
void
value_put(ValueSink *sink, uint64 element, ValueSource source, Datum value)
{
	if (unlikely(source == SOURCE_JSONB))
	{
		value_put_jsonb(sink, element, value);
		return;
	}
	if (sink->type == INFER_TYPE_STRING)
	{
		put_text_source(sink, element, source, value);
		return;
	}
	if (unlikely(!source_is_number(source)))
		refuse_text_source(sink, element, source, value);

	switch (sink->type)
	{
		case INFER_TYPE_F32:
			((float *) sink_data(sink))[element] = number_to_float(sink, element, source, value);
			break;
		case INFER_TYPE_F64:
			((double *) sink_data(sink))[element] = number_to_double(sink, element, source, value, false);
			break;
		case INFER_TYPE_I32:
			((int32 *) sink_data(sink))[element] = number_to_int32(sink, element, source, value);
			break;
		case INFER_TYPE_I64:
			((int64 *) sink_data(sink))[element] = number_to_int64(sink, element, source, value);
			break;
		case INFER_TYPE_BOOL:
			((uint8 *) sink_data(sink))[element] = number_to_bool(sink, element, source, value);
			break;
		default:
			elog(ERROR, "unexpected type %u of an input", sink->type);
	}
}

/* NULL as a feature: NaN or an empty string where the model has a notion of a missing value. */
void
value_put_missing(ValueSink *sink, uint64 element)
{
	const InferBinding *binding = sink->binding;

	if (sink->missing && sink->type == INFER_TYPE_F32)
		((float *) sink_data(sink))[element] = NAN;
	else if (sink->missing && sink->type == INFER_TYPE_F64)
		((double *) sink_data(sink))[element] = NAN;
	else if (sink->missing && sink->type == INFER_TYPE_STRING)
		value_put_string(sink, element, "", 0);
	else
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s of model \"%s\" is null", value_where(binding, sink->input, element),
						binding->model->name),
				 errdetail("The model takes no missing value there."),
				 errhint("Replace it, for example with coalesce(), or leave the row out.")));
}

/* NULL in the place of a whole input: every element is missing. */
void
value_put_missing_input(const InferBinding *binding, uint32 input)
{
	for (uint64 i = 0; i < binding->inputs[input].width; i++)
		value_put_missing(&binding->sinks[input], i);
}
