/*
 * add.c
 *	  A row of many calls is added: its arguments, its part, its ticket.
 *
 * Loop
 *	See verbs.h.  A row is written straight into its part's region.  If its bytes turn out to be
 *	known, it is unwritten again, and the answer is that of the equal row.
 *
 * What is refused as LATER has changed nothing.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/memutils.h"

#include "many.h"

#define ARGUMENTS_TAKEN		(-3)	/* in the place of a ticket */

typedef struct RowAdd				/* a row that is being added */
{
	InferRows  *rows;
	RowsPart   *part;
	VerbArguments arguments;
	const Datum *columns;			/* of the row that is the only argument; NULL: there is none */
	const bool *columns_null;
	Datum		variadic;			/* the array whose elements are the arguments */
	text	   *class_name;
	NullableDatum options_given;
	const InferTextOptions *options;
	int			detail;				/* of the result: see verb_result */
	bool		prepared;			/* what is wrong from here on is the values' */
} RowAdd;

/* ---- parts ---- */

/* A part for what the row asks.  NULL: not in these rows. */
static RowsPart *
add_part(InferRows *rows, const char *name, int length, const VerbArguments *arguments)
{
	SiteAsked  *asked;
	RowsPart   *part;

	if (rows->parts_count == SITE_ASKED_MAX)
		return NULL;
	asked = site_ask(rows->site, name, length, arguments, rows->tickets_count == 0);
	if (asked == NULL)
		return NULL;
	part = &rows->parts[rows->parts_count];
	*part = (RowsPart) {
		.asked = asked,
		.rows_max = site_rows_room(rows->site, asked, rows->capacity, rows->class_)
	};
	asked->users++;
	rows->parts_count++;
	return part;
}

static RowsPart *
find_part(InferRows *rows, text *name, const VerbArguments *arguments)
{
	const char *bytes = VARDATA_ANY(name);
	int			length = VARSIZE_ANY_EXHDR(name);

	for (int i = rows->parts_count - 1; i >= 0; i--)
		if (verb_asks(rows->parts[i].asked->asked, bytes, length, arguments->count, arguments->element))
			return &rows->parts[i];
	return add_part(rows, bytes, length, arguments);
}

/* Its call, begun when the first row comes. */
static InferCall *
part_call(InferRows *rows, RowsPart *part)
{
	MemoryContext old;

	if (part->call != NULL)
		return part->call;
	old = MemoryContextSwitchTo(rows->context);
	part->call = infer_client_begin(part->asked->asked->model, part->rows_max, rows->class_);
	infer_binding_open(part->asked->asked->binding, part->call);
	part->bytes_before = infer_client_used(part->call);
	part->bytes_max = part->bytes_before + site_bytes_room(rows->site, part->asked, rows->class_);
	MemoryContextSwitchTo(old);
	return part->call;
}

/* ---- arguments ---- */

static void
spread_arguments(void *arg)
{
	RowAdd	   *add = arg;

	verb_spread(add->variadic, &add->arguments);
}

static void
find_class(void *arg)
{
	RowAdd	   *add = arg;
	SiteAsked  *asked = add->part->asked;
	const char *name = VARDATA_ANY(add->class_name);
	int			length = VARSIZE_ANY_EXHDR(add->class_name);

	add->detail = infer_result_class(asked->asked->model, name, length);
	if (asked->class_name != NULL)
		pfree(asked->class_name);
	asked->class_name = MemoryContextAlloc(asked->asked->context, length + 1);
	memcpy(asked->class_name, name, length);
	asked->class_length = length;
	asked->class_ = add->detail;
}

static void
read_options(void *arg)
{
	RowAdd	   *add = arg;

	add->options = verb_options(add->part->asked->asked, add->rows->site->def, add->options_given.value,
								add->options_given.isnull);
	if (add->options != NULL)
		add->detail = add->options->numbers[INFER_TEXT_DIMENSIONS];
}

static bool
is_class_named_last(const RowAdd *add)
{
	const SiteAsked *asked = add->part->asked;

	return asked->class_name != NULL && asked->class_length == VARSIZE_ANY_EXHDR(add->class_name) &&
		memcmp(asked->class_name, VARDATA_ANY(add->class_name), asked->class_length) == 0;
}

/* ---- tickets ---- */

static RowsTicket *
new_ticket(InferRows *rows, const RowAdd *add)
{
	RowsTicket *ticket = &rows->tickets[rows->tickets_count++];

	*ticket = (RowsTicket) {.entry = MEMO_NONE, .detail = add->detail};
	if (add->part != NULL)
		ticket->part = add->part - rows->parts;
	return ticket;
}

static int
number_of(const InferRows *rows, const RowsTicket *ticket)
{
	return ticket - rows->tickets;
}

/* A ticket for a row with an error of its own. */
static int
failed(RowAdd *add, ErrorData *error, bool hides)
{
	RowsTicket *ticket = new_ticket(add->rows, add);

	ticket->error = error;
	ticket->hides = hides;
	return number_of(add->rows, ticket);
}

/* A ticket for the row written last. */
static RowsTicket *
asked_ticket(RowAdd *add)
{
	RowsTicket *ticket = new_ticket(add->rows, add);

	ticket->row = add->part->rows++;
	return ticket;
}

/* The ticket of an equal row; MEMO_NONE: its result is not there for these rows. */
static int
reuse(RowAdd *add, int entry)
{
	InferRows  *rows = add->rows;
	Memo	   *memo = rows->site->memo;
	RowsTicket *ticket;
	int			number;

	if (!memo_ticket(memo, entry, rows->number, &number))
		return MEMO_NONE;
	if (number == MEMO_NONE)
	{
		ticket = new_ticket(rows, add);
		ticket->entry = entry;
		ticket->remembered = true;
		number = number_of(rows, ticket);
		memo_pin(memo, entry, rows->number, number);
	}
	rows->site->counters.reused++;
	return number;
}

/* The row has been written: its ticket, or that of an equal one. */
static int
ticket_of_written(RowAdd *add, uint64 used)
{
	InferRows  *rows = add->rows;
	Memo	   *memo = rows->site->memo;
	InferCall  *call = add->part->call;
	RowsTicket *ticket;
	MemoKey		key;
	Size		length;
	const void *bytes;
	int			entry;
	int			number;

	if (!rows->memo)
		return number_of(rows, asked_ticket(add));
	bytes = infer_client_row_key(call, add->part->rows, &rows->key, &length);
	if (!memo_key(memo, add->part->asked->id, add->detail, bytes, length, &key))
		return number_of(rows, asked_ticket(add));
	entry = memo_find(memo, &key);
	if (entry == MEMO_NONE)
	{
		ticket = asked_ticket(add);
		number = number_of(rows, ticket);
		ticket->entry = memo_add(memo, &key, rows->number, number);
		return number;
	}
	number = reuse(add, entry);
	if (number == MEMO_NONE)
		return number_of(rows, asked_ticket(add));
	infer_client_unwrite(call, used);
	return number;
}

/* ---- adding ---- */

/* With copies of the values: what lies in TOAST tables is fetched in place. */
static void
write_row(void *arg)
{
	RowAdd	   *add = arg;
	const InferSite *site = add->rows->site;
	int			count = add->columns != NULL ? site->row_width : add->arguments.count;
	Datum	   *values = palloc(sizeof(Datum) * Max(count, 1));
	const bool *nulls = add->columns != NULL ? add->columns_null : add->arguments.nulls;
	const InferBinding *binding = add->part->asked->asked->binding;

	memcpy(values, add->columns != NULL ? add->columns : add->arguments.values, sizeof(Datum) * count);
	infer_binding_prepare(binding, values, nulls);
	add->prepared = true;
	infer_binding_write(binding, add->part->call, add->part->rows, values, nulls, add->options);
}

static bool
write_plain(const RowAdd *add)
{
	const Datum *values = add->columns != NULL ? add->columns : add->arguments.values;
	const bool *nulls = add->columns != NULL ? add->columns_null : add->arguments.nulls;

	return infer_binding_write_plain(add->part->asked->asked->binding, add->part->call, add->part->rows,
									 values, nulls);
}

static int
add_row(RowAdd *add)
{
	InferRows  *rows = add->rows;
	RowsPart   *part = add->part;
	InferCall  *call = part_call(rows, part);
	uint64		used = infer_client_used(call);
	ErrorData  *error;

	if (part->rows == part->rows_max || (part->rows > 0 && used > part->bytes_max))
		return INFER_TICKET_LATER;
	if (write_plain(add))
		return ticket_of_written(add, used);
	error = answer_try(write_row, add, rows->context);
	if (error == NULL)
		return ticket_of_written(add, used);

	infer_client_unwrite(call, used);
	if (error->sqlerrcode == ERRCODE_PROGRAM_LIMIT_EXCEEDED && part->rows > 0)
	{
		FreeErrorData(error);
		return INFER_TICKET_LATER;
	}
	return failed(add, error, add->prepared && verb_error_is_rows(error->sqlerrcode));
}

/* In the scratch context. */
static int
add_arguments(RowAdd *add, const Datum *values)
{
	InferRows  *rows = add->rows;
	ErrorData  *error;

	add->part = find_part(rows, DatumGetTextPP(values[0]), &add->arguments);
	if (add->part == NULL)
		return INFER_TICKET_LATER;
	if (rows->site->def->inputs_first == 2)
	{
		add->class_name = DatumGetTextPP(values[1]);
		if (is_class_named_last(add))
			add->detail = add->part->asked->class_;
		else if ((error = answer_try(find_class, add, rows->context)) != NULL)
			return failed(add, error, false);
	}
	if (rows->site->def->inputs_count > 0 && (error = answer_try(read_options, add, rows->context)) != NULL)
		return failed(add, error, false);
	return add_row(add);
}

/* The arguments one by one; or else the row's ticket, or INFER_TICKET_NULL. */
static int
take_arguments(RowAdd *add, const Datum *values, const bool *nulls)
{
	InferSite  *site = add->rows->site;
	int			first = site->def->inputs_first;
	ErrorData  *error;

	add->arguments.count = site->inputs_count;
	if (add->columns != NULL)
		return ARGUMENTS_TAKEN;
	if (site->variadic)
	{
		if (nulls[first])
			return INFER_TICKET_NULL;
		add->variadic = PointerGetDatum(PG_DETOAST_DATUM(values[first]));
		if ((error = answer_try(spread_arguments, add, add->rows->context)) != NULL)
			return failed(add, error, false);
	}
	else
	{
		add->arguments.values = unconstify(Datum *, values + first);
		add->arguments.nulls = unconstify(bool *, nulls + first);
	}
	if (site->def->options != 0)
		add->options_given = (NullableDatum) {values[first + site->inputs_count], nulls[first + site->inputs_count]};
	return verb_has_null(site->def, &add->arguments) ? INFER_TICKET_NULL : ARGUMENTS_TAKEN;
}

int
infer_rows_add(InferRows *rows, const Datum *values, const bool *nulls,
			   const Datum *row_values, const bool *row_nulls)
{
	RowAdd		add = {.rows = rows};
	MemoryContext old;
	int			ticket;

	Assert(!rows->sent);
	if (nulls[0] || (rows->site->def->inputs_first == 2 && nulls[1]))
		return INFER_TICKET_NULL;
	if (rows->tickets_count == rows->capacity)
		return INFER_TICKET_LATER;
	if (OidIsValid(rows->site->row_type))
	{
		Assert(row_values != NULL && row_nulls != NULL);
		add.columns = row_values;
		add.columns_null = row_nulls;
	}
	old = MemoryContextSwitchTo(rows->scratch);
	MemoryContextReset(rows->scratch);
	if (rows->memo && rows->key.data == NULL)
	{
		MemoryContextSwitchTo(rows->context);
		initStringInfo(&rows->key);
		MemoryContextSwitchTo(rows->scratch);
	}
	ticket = take_arguments(&add, values, nulls);
	if (ticket == ARGUMENTS_TAKEN)
		ticket = add_arguments(&add, values);
	if (ticket >= 0)
		rows->site->counters.calls++;
	MemoryContextSwitchTo(old);
	return ticket;
}
