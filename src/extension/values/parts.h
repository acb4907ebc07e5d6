/*
 * parts.h
 *	  What the files behind values.h share.
 *
 * Nouns
 *	source		what an SQL value is to a conversion: its base type, domains removed
 *	shape		an input of the model as a flat run of elements, with the names of those
 *	step		one value (an argument, a column) and where it goes: an element, a whole input,
 *				or all inputs one after the other
 *	sink		an input's column of the call being written
 *	hidden		an input that no argument reaches: it says how texts are to be taken (text/)
 *
 * types.c knows which SQL types can be which inputs; binding.c plans steps from names and
 * counts; text/ sees to the inputs that no argument reaches; plain.c runs the commonest ones quickly; rows.c does so for the columns of a composite value, whose type is only known
 * from the value; objects.c reads jsonb by key; arrays.c and convert.c put values into
 * sinks; messages.c says what is wrong.  The way back is in results.h.
 */
#ifndef INFER_VALUES_PARTS_H
#define INFER_VALUES_PARTS_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "utils/jsonb.h"

#include "../compat.h"
#include "../values.h"

typedef enum ValueSource
{
	SOURCE_INT2,
	SOURCE_INT4,
	SOURCE_INT8,
	SOURCE_FLOAT4,
	SOURCE_FLOAT8,
	SOURCE_NUMERIC,
	SOURCE_BOOL,
	SOURCE_TEXT,				/* text, varchar */
	SOURCE_BPCHAR,
	SOURCE_CSTRING,				/* an unknown literal */
	SOURCE_NAME,
	SOURCE_CHAR,				/* "char" */
	SOURCE_ENUM,
	SOURCE_DATE,
	SOURCE_JSONB,
	SOURCE_ROW,
	SOURCE_OTHER				/* cannot be a feature */
} ValueSource;

typedef struct ValueType
{
	Oid			type;			/* as declared, for messages */
	ValueSource source;			/* of the elements, if array */
	bool		array;
	int16		length;			/* of an array's elements */
	bool		byval;
	char		align;
} ValueType;

typedef struct InputShape
{
	const struct infer_tensor *tensor;
	uint32		number;			/* of it, in the signature */
	uint64		width;			/* elements of a row */
	uint64		first;			/* elements of the inputs before it */
	bool		features;		/* the elements have names of their own */
	uint32		names_count;	/* width, or 0; of width 1 without features: the input's own */
	const char **names;
	int		   *names_length;
	int			name_length;	/* of tensor->name */
} InputShape;

#define WHOLE_INPUT UINT64_MAX	/* in the place of an element, for messages */

typedef enum StepKind
{
	STEP_ELEMENT,				/* a scalar for one element */
	STEP_INPUT,					/* a value for a whole input */
	STEP_SPREAD					/* one array for all inputs, in their order */
} StepKind;

typedef struct BindingStep
{
	StepKind	kind;
	int			from;			/* argument or attribute, from 0 */
	uint32		input;
	uint64		element;
	ValueType	type;
} BindingStep;

typedef struct PlainStep			/* a number of fixed size, for a number: see plain.c */
{
	uint8		conversion;
	bool		missing;
	int			from;
	uint32		input;
	uint32		element;
} PlainStep;

typedef struct StepList
{
	int			count;
	BindingStep *steps;
	PlainStep  *plain;			/* as many; NULL: not all of them are plain */
} StepList;

typedef struct ValueSink
{
	const InferBinding *binding;
	InferCall  *call;
	uint32		input;			/* of the binding's */
	uint32		number;			/* in the signature */
	uint32		type;			/* enum infer_type */
	bool		missing;		/* the model has a notion of a missing value */
	uint64		width;			/* elements of this row */
	uint64		base;			/* number of the row's first element in its column */
	uint64		moves;			/* data is where it was after so many moves */
	char	   *data;			/* that element */
} ValueSink;

typedef struct RowPlan			/* for one row type; remade when the type changes */
{
	MemoryContext context;
	Oid			type;
	int32		typmod;
	uint64		identifier;		/* of the type's definition */
	TupleDesc	desc;
	Datum	   *values;
	bool	   *nulls;
	StepList	steps;
} RowPlan;

typedef enum BindingMode
{
	BINDING_POSITIONAL,
	BINDING_ROW,
	BINDING_OBJECT
} BindingMode;

struct InferBinding
{
	const InferModel *model;
	MemoryContext context;
	BindingMode mode;
	int			inputs_count;	/* that arguments reach */
	InputShape *inputs;
	int			hidden_count;
	InputShape *hidden;
	uint64		elements;		/* of all inputs of a row */
	bool		named;			/* every input's elements have names */
	StepList	steps;			/* positional */
	RowPlan   **row;			/* points to the current plan, or to NULL */
	const RowPlan *columns;		/* rows come as their columns: the plan of these; else NULL */
	ValueSink  *sinks;			/* scratch of a write, one per input */
	uint64	   *moves;			/* how often columns may have changed their addresses */
};

/* ---- types.c ---- */

extern ValueType value_type(Oid type);
extern void value_check_accepts(const InferBinding *binding, uint32 input, uint64 element,
								const ValueType *type);
extern const char *value_refusal_hint(const ValueType *type, bool wants_text);

/* ---- messages.c ---- */

typedef enum ValueHolder { HOLDER_ARGUMENTS, HOLDER_ARRAY, HOLDER_ROW, HOLDER_OBJECT } ValueHolder;

extern const char *value_where(const InferBinding *binding, uint32 input, uint64 element);
extern const char *value_names_list(int count, const char *const *names);
pg_noreturn extern void value_count_error(const InferBinding *binding, uint64 given, ValueHolder holder);
pg_noreturn extern void value_width_error(const InferBinding *binding, uint32 input, uint64 given);
pg_noreturn extern void value_names_missing(const InferBinding *binding, ValueHolder holder, List *missing);

/* ---- binding.c ---- */

extern void binding_plan_positional(const InferBinding *binding, int count, const ValueType *types,
									const int *from, StepList *out);
extern void binding_run_steps(const InferBinding *binding, InferCall *call, uint32 row,
							  const StepList *steps, const Datum *values, const bool *nulls);
extern void binding_open(const InferBinding *binding, InferCall *call, uint32 row);
extern void sink_find(ValueSink *sink);

/* The row's first element; valid until the next column or string of the call. */
static inline void *
sink_data(ValueSink *sink)
{
	if (unlikely(sink->moves != *sink->binding->moves))
		sink_find(sink);
	return sink->data;
}

/* ---- plain.c ---- */

/* When all steps are there: whether they are plain.  Allocates in the current memory context. */
extern void binding_plan_plain(const InferBinding *binding, StepList *steps);

/* False, and nothing raised, if a value needs more than that; sinks are open. */
extern bool binding_run_plain(const InferBinding *binding, const StepList *steps,
							  const Datum *values, const bool *nulls);

/* ---- text/hidden.c ---- */

/* Writes the row's hidden inputs; options NULL: as the model says. */
extern void binding_write_hidden(const InferBinding *binding, InferCall *call, uint32 row,
								 const InferTextOptions *options);

/* ---- rows.c, objects.c ---- */

/* For columns of a named composite type that come without the row; lives as long as the binding. */
extern const RowPlan *binding_row_plan(const InferBinding *binding, Oid type);
extern void binding_row_prepare(const InferBinding *binding, Datum value);
extern void binding_row_write(const InferBinding *binding, InferCall *call, uint32 row, Datum value);
extern void binding_object_write(const InferBinding *binding, InferCall *call, uint32 row, Datum value);
extern void value_put_json_input(const InferBinding *binding, uint32 input, const JsonbValue *value);
extern void value_put_jsonb_input(const InferBinding *binding, uint32 input, Datum value);
extern void value_put_json(ValueSink *sink, uint64 element, const JsonbValue *value);

extern void value_put_jsonb(ValueSink *sink, uint64 element, Datum value);

/* ---- arrays.c ---- */

extern void value_put_array(const InferBinding *binding, uint32 input, const ValueType *type, Datum value);
extern void value_put_spread(const InferBinding *binding, const ValueType *type, Datum value);
extern void value_check_dims(const InferBinding *binding, uint32 input, int ndim, const int *dims,
							 uint64 count);

/* ---- convert.c ---- */

extern void value_put(ValueSink *sink, uint64 element, ValueSource source, Datum value);
extern void value_put_string(ValueSink *sink, uint64 element, const char *text, Size length);
extern void value_put_missing(ValueSink *sink, uint64 element);
extern void value_put_missing_input(const InferBinding *binding, uint32 input);
pg_noreturn extern void value_refuse_text(const InferBinding *binding, uint32 input, uint64 element,
							  const char *text, Size length);

#endif							/* INFER_VALUES_PARTS_H */
