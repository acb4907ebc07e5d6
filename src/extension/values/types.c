/*
 * types.c
 *	  Which SQL types can be which inputs; docs/sql.md has the table.
 *
 * A type is looked at when a call is bound, before any value comes.  refusal_hint knows a
 * remedy for each type that is not taken.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "parts.h"

static ValueSource
source_of_base_type(Oid base)
{
	switch (base)
	{
		case INT2OID:
			return SOURCE_INT2;
		case INT4OID:
			return SOURCE_INT4;
		case INT8OID:
			return SOURCE_INT8;
		case FLOAT4OID:
			return SOURCE_FLOAT4;
		case FLOAT8OID:
			return SOURCE_FLOAT8;
		case NUMERICOID:
			return SOURCE_NUMERIC;
		case BOOLOID:
			return SOURCE_BOOL;
		case TEXTOID:
		case VARCHAROID:
			return SOURCE_TEXT;
		case BPCHAROID:
			return SOURCE_BPCHAR;
		case UNKNOWNOID:
			return SOURCE_CSTRING;
		case NAMEOID:
			return SOURCE_NAME;
		case CHAROID:
			return SOURCE_CHAR;
		case DATEOID:
			return SOURCE_DATE;
		case JSONBOID:
			return SOURCE_JSONB;
		default:
			if (type_is_rowtype(base))
				return SOURCE_ROW;
			return type_is_enum(base) ? SOURCE_ENUM : SOURCE_OTHER;
	}
}

/* What a declared type is to the conversions; domains count as their base types. */
ValueType
value_type(Oid type)
{
	ValueType	result = {.type = type};
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);

	if (OidIsValid(element))
	{
		result.array = true;
		get_typlenbyvalalign(element, &result.length, &result.byval, &result.align);
		base = getBaseType(element);
	}
	result.source = source_of_base_type(base);
	return result;
}

/* A remedy, for a type that an input does not take. */
const char *
value_refusal_hint(const ValueType *type, bool wants_text)
{
	switch (getBaseType(type->type))
	{
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case TIMEOID:
		case TIMETZOID:
		case INTERVALOID:
			return wants_text ? "Write the text that the model expects, for example with to_char()."
				: "Give a number, for example extract(epoch from ...).";
		case JSONOID:
			return "Cast it to jsonb.";
		default:
			break;
	}
	if (type->source == SOURCE_ROW)
		return "Give the row as the only input, or its columns one by one.";
	if (wants_text)
		return "Cast it to text in the form that the model expects.";
	if (type->source == SOURCE_ENUM)
		return "Map the labels to numbers, for example with CASE.";
	return "Cast it to a number.";
}

/*
 * Raises 42804 unless values of the type can be an element of the input.  Text for a
 * number passes: only a NULL is acceptable then, and the value itself decides the hint.
 */
void
value_check_accepts(const InferBinding *binding, uint32 input, uint64 element, const ValueType *type)
{
	bool		wants_text = binding->inputs[input].tensor->type == INFER_TYPE_STRING;
	bool		accepted;

	switch (type->source)
	{
		case SOURCE_INT2:
		case SOURCE_INT4:
		case SOURCE_INT8:
		case SOURCE_JSONB:
		case SOURCE_TEXT:
		case SOURCE_BPCHAR:
		case SOURCE_CSTRING:
		case SOURCE_NAME:
		case SOURCE_CHAR:
			accepted = true;
			break;
		case SOURCE_FLOAT4:
		case SOURCE_FLOAT8:
		case SOURCE_NUMERIC:
		case SOURCE_BOOL:
			accepted = !wants_text;
			break;
		case SOURCE_ENUM:
		case SOURCE_DATE:
			accepted = wants_text;
			break;
		default:
			accepted = false;
	}
	if (!accepted)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("%s of model \"%s\" does not take type %s", value_where(binding, input, element),
						binding->model->name, format_type_be(type->type)),
				 errdetail("The model takes %s.", wants_text ? "text" : "numbers"),
				 errhint("%s", value_refusal_hint(type, wants_text))));
}
