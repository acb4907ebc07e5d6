/*
 * call.c
 *	  Calls: fill a region, send it, wait for it, read it.
 *
 * Nouns
 *	inputs		columns, bump-allocated in the region from INFER_REGION_HEAD on: the array of
 *				struct infer_column first, then the values as they are asked for
 *	reply		the rest of the region, behind the inputs
 *	prediction	how long a key's recent calls took in the engine: whether spinning is worth it
 *
 * Loop
 *	finish_call: send unless sent; wait; by the reply's error finish, load the model, make
 *	more room, wait a little, or fail; by a lost connection recover (recover.c).
 *
 * Invariants
 *	- A call lives in a memory context of its own, whose reset callback releases the region
 *	  and cancels what is in flight.
 *	- What the engine wrote is copied before it is checked, and checked before it is used;
 *	  values themselves are used in place: any bits are acceptable there.
 */
#include "postgres.h"

#include "internal.h"

#include <sched.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define SPIN_SLACK 10000			/* nsec beyond the prediction */
#define SPIN_PAUSE_MIN 1000000		/* nsec without spinning after it was in vain; doubles */
#define SPIN_PAUSE_MAX 100000000
#define BUSY_NAP_MAX 50				/* ms */
#define ROW_TEXT_BYTES 256			/* of the first few row errors, in the first guess of a reply */

/* ---- predictions ---- */

typedef struct Prediction
{
	uint64		key;				/* its first bytes */
	uint64		nsec;				/* in the engine; 0: not known, so worth a try */
} Prediction;

static Prediction predictions[64];

static Prediction *
prediction_of(const uint8 *key)
{
	uint64		word;
	Prediction *p;

	memcpy(&word, key, sizeof(word));
	p = &predictions[word % lengthof(predictions)];
	if (p->key != word)
		*p = (Prediction) {.key = word};
	return p;
}

static void
predict(const uint8 *key, uint64 nsec)
{
	Prediction *p = prediction_of(key);

	p->nsec = p->nsec == 0 ? nsec : (3 * p->nsec + nsec) / 4;
}

/* Processors that this process may run on. */
static int
usable_cores(void)
{
	static int	cores = 0;
	cpu_set_t	set;

	if (cores == 0)
		cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
	return cores;
}

/*
 * Spinning in vain says that no core is free, whatever the counts say: then none is spent
 * for a while.
 */
static struct
{
	uint64		pause;				/* nsec; 0: the last time was not in vain */
	uint64		not_before;			/* nsec */
}			spin_history;

/*
 * How long to watch for the result, in nsec: not if the engine must be woken, nor if the
 * result is not expected within infer.spin_time, nor without a free core: the engine has
 * one for each request, and ours comes on top of those that are there.
 */
static uint64
spin_nsec(const InferCall *call, bool awake)
{
	uint64		spin = (uint64) infer_spin_time * 1000;
	uint64		predicted = prediction_of(call->model->key)->nsec;

	if (!awake || predicted > spin ||
		(int) infer_load_acquire32(&connection.page->requests) + 1 >= usable_cores() ||
		(spin_history.pause > 0 && clock_nsec() < spin_history.not_before))
		return 0;
	return predicted == 0 ? spin : Min(spin, 2 * predicted + SPIN_SLACK);
}

static void
spin_learn(bool in_vain)
{
	if (!in_vain)
	{
		spin_history.pause = 0;
		return;
	}
	spin_history.pause = Min(Max(2 * spin_history.pause, SPIN_PAUSE_MIN), SPIN_PAUSE_MAX);
	spin_history.not_before = clock_nsec() + spin_history.pause;
}

/* ---- beginning ---- */

static uint64
align_up(uint64 value, uint64 alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

/* Bytes that a row of this tensor takes; a guess where strings or dimensions vary. */
static uint64
tensor_row_bytes(const struct infer_tensor *tensor)
{
	uint64		elements = 1;
	Size		bytes = infer_type_bytes(tensor->type);

	for (uint32 d = 0; d < tensor->rank; d++)
		elements *= tensor->dims[d] >= 0 ? tensor->dims[d] : 64;
	return elements * (bytes != 0 ? bytes : sizeof(struct infer_span) + 32);
}

static uint64
tensors_bytes(const struct infer_tensor *tensors, uint32 count, uint64 rows)
{
	uint64		bytes = 0;

	for (uint32 i = 0; i < count; i++)
		bytes += tensor_row_bytes(&tensors[i]) * rows + sizeof(struct infer_column) + 64;
	return bytes;
}

/* What a reply will take, most likely; the engine says so if it takes more. */
static uint64
reply_bytes(const InferCall *call)
{
	const struct infer_signature *signature = &call->model->signature;
	uint64		rows = call->rows_sent;

	return 1024 + rows * 2 * sizeof(uint32) + Min(rows, 8) * ROW_TEXT_BYTES +
		tensors_bytes(signature->outputs, signature->outputs_count, rows);
}

static void
give_up(InferCall *call)
{
	Region	   *region = call->region;

	call->region = NULL;
	if (region == NULL)
		return;
	if (call->sent && !region_is_done(region) && connection_is(region->connection))
		connection_post(INFER_FRAME_CANCEL, region->slot, (uint32) region->seq, NULL, 0);
	region_release(region, call->used);
}

/* The reset callback. */
static void
release_call(void *arg)
{
	give_up(arg);
}

static uint32
call_class(uint32 rows)
{
	switch (infer_request_class)
	{
		case INFER_REQUEST_INTERACTIVE:
			return INFER_CLASS_INTERACTIVE;
		case INFER_REQUEST_STATEMENT:
			return INFER_CLASS_STATEMENT;
		case INFER_REQUEST_JOB:
			return INFER_CLASS_JOB;
		default:
			return rows == 1 ? INFER_CLASS_INTERACTIVE : INFER_CLASS_STATEMENT;
	}
}

InferCall *
infer_client_begin(const InferModel *model, uint32 rows)
{
	const struct infer_signature *signature = &model->signature;
	MemoryContext context;
	InferCall  *call;

	infer_require_preload();
	if (rows == 0 || rows > INFER_ROWS_MAX)
		elog(ERROR, "a call of %u rows", rows);

	context = AllocSetContextCreate(CurrentMemoryContext, "infer call", ALLOCSET_SMALL_SIZES);
	call = MemoryContextAllocZero(context, sizeof(InferCall));
	call->context = context;
	call->model = model;
	call->rows = call->rows_sent = rows;
	call->class_ = call_class(rows);
	call->deadline = deadline_from_now(infer_timeout);
	call->columns = MemoryContextAllocZero(context, signature->inputs_count * sizeof(struct infer_column) + 1);
	call->used = align_up(INFER_REGION_HEAD + signature->inputs_count * sizeof(struct infer_column), 64);

	call->callback.func = release_call;
	call->callback.arg = call;
	MemoryContextRegisterResetCallback(context, &call->callback);
	call->region = region_take(call, call->used + reply_bytes(call) +
							   tensors_bytes(signature->inputs, signature->inputs_count, rows));
	return call;
}

/* ---- filling ---- */

/* Offset of so many bytes behind what is used; the region may move. */
static uint64
reserve(InferCall *call, uint64 bytes, uint64 alignment)
{
	uint64		offset = align_up(call->used, alignment);

	Assert(!call->sent);
	if (bytes > INFER_REGION_MAX || offset + bytes > call->region->size)
		region_grow(call->region, offset + bytes, call->used);
	call->used = offset + bytes;
	return offset;
}

static char *
address(const InferCall *call, uint64 offset)
{
	return (char *) call->region->head + offset;
}

static struct infer_column *
check_input(InferCall *call, uint32 input)
{
	if (input >= call->model->signature.inputs_count)
		elog(ERROR, "input %u of a model with %u inputs", input, call->model->signature.inputs_count);
	return &call->columns[input];
}

void *
infer_client_column(InferCall *call, uint32 input, uint64 width)
{
	struct infer_column *column = check_input(call, input);
	uint32		type = call->model->signature.inputs[input].type;
	uint64		element = type == INFER_TYPE_STRING ? sizeof(struct infer_span) : infer_type_bytes(type);
	uint64		bytes;

	if (column->type != INFER_TYPE_NONE)
	{
		if (column->width != width)
			elog(ERROR, "input %u was begun with another width", input);
	}
	else
	{
		if (width == INFER_WIDTH_VARIES)
			elog(ERROR, "rows of different width in one call are not implemented");
		bytes = width > INFER_REGION_MAX / element / call->rows ? UINT64_MAX / 2 : call->rows * width * element;
		if (type == INFER_TYPE_STRING)
		{
			column->spans_offset = reserve(call, bytes, 64);
			column->data_offset = INFER_REGION_HEAD;
			memset(address(call, column->spans_offset), 0, bytes);
		}
		else
		{
			column->data_offset = reserve(call, bytes, 64);
			column->data_bytes = bytes;
		}
		column->type = type;
		column->width = width;
	}
	return address(call, type == INFER_TYPE_STRING ? column->spans_offset : column->data_offset);
}

void
infer_client_string(InferCall *call, uint32 input, uint64 element, const char *text, Size length)
{
	struct infer_column *column = check_input(call, input);
	char	   *utf8 = pg_server_to_any(text, length, PG_UTF8);
	struct infer_span span;
	uint64		offset;

	if (column->type != INFER_TYPE_STRING || element >= call->rows * column->width)
		elog(ERROR, "input %u has no string %llu", input, (unsigned long long) element);
	if (utf8 != text)
		length = strlen(utf8);
	offset = reserve(call, length, 1);
	memcpy(address(call, offset), utf8, length);
	span.begin = offset - INFER_REGION_HEAD;
	span.length = length;
	((struct infer_span *) address(call, column->spans_offset))[element] = span;
	if (utf8 != text)
		pfree(utf8);
}

/* ---- sending ---- */

/* Write the request's own fields. */
static void
write_request(InferCall *call)
{
	struct infer_region *head = call->region->head;
	struct infer_request *request = &head->request;
	uint32		columns = call->model->signature.inputs_count;

	for (uint32 i = 0; i < columns; i++)
		if (call->columns[i].type == INFER_TYPE_STRING)
			call->columns[i].data_bytes = call->used - INFER_REGION_HEAD;
	if (columns > 0)
		memcpy(address(call, INFER_REGION_HEAD), call->columns, columns * sizeof(struct infer_column));

	memset(request, 0, sizeof(*request));
	memcpy(request->key, call->model->key, INFER_KEY_BYTES);
	request->deadline = call->deadline;
	request->rows = call->rows_sent;
	request->columns = columns;
	request->columns_offset = INFER_REGION_HEAD;
	request->reply_offset = align_up(call->used, 64);
	request->reply_bytes = call->region->size - request->reply_offset;
	request->class_ = call->class_;
	request->flags = (call->marked ? INFER_REQUEST_MARKED : 0) | (call->profile ? INFER_REQUEST_PROFILE : 0);
	request->role = GetUserId();
	request->outputs = call->outputs;
	request->model = call->model->server;
	request->version = call->model->version;
	head->run_state = INFER_RUN_IDLE;
	head->running_row = PG_UINT32_MAX;
	head->client_asleep = 0;
}

/* The region belongs to the engine from here on. */
static void
publish(InferCall *call)
{
	Region	   *region = call->region;
	bool		awake;

	write_request(call);
	call->stops = *(volatile uint64 *) &infer_shared->engine_stops;
	call->sent = true;
	region->seq++;
	infer_store_release64(&region->head->submit_seq, region->seq);
	infer_fence();
	awake = infer_load_acquire32(&connection.page->awake) != 0;
	if (!awake)
		connection_post(INFER_FRAME_SUBMIT, region->slot, (uint32) region->seq, NULL, 0);
	call->spin = spin_nsec(call, awake);
}

/* Whether a refusal by the engine is waited out; single calls are told at once. */
static bool
wait_while_busy(InferCall *call, int *nap)
{
	if (call->class_ == INFER_CLASS_INTERACTIVE)
		return false;
	if (!connection_nap(*nap, call->deadline))
		return false;
	*nap = Min(*nap * 2, BUSY_NAP_MAX);
	return true;
}

static void
set_disabled(struct infer_error_text *err)
{
	error_set(err, INFER_CLIENT_DISABLED, "the model is disabled because its rows ended the engine", NULL,
			  "Find out which rows (the server's log has the times), then call infer.load_model().");
	snprintf(err->detail, sizeof(err->detail), "%d different inputs did so within %d minutes.",
			 INFER_GUILTY_TIMES, INFER_GUILTY_WINDOW / 60);
}

/* Have an engine take the request.  False: call->error. */
static bool
send_call(InferCall *call)
{
	int			nap = 1;

	for (;;)
	{
		if (guilty_is_disabled(call->model->key))
		{
			set_disabled(&call->error);
			return false;
		}
		if (!connection_ready(call->deadline, &call->error))
		{
			if (call->error.error != INFER_ERROR_BUSY || !wait_while_busy(call, &nap))
				return false;
			call->error.error = INFER_OK;
			continue;
		}
		region_grow(call->region,
					align_up(call->used, 64) + Max(reply_bytes(call), call->reply.bytes_wanted), call->used);
		switch (region_attach(call->region, call->used, call->deadline))
		{
			case SLEEP_LOST:
				continue;
			case SLEEP_LATE:
				error_late(&call->error);
				return false;
			case SLEEP_WOKEN:
				break;
		}
		if (!call->region->refused)
		{
			publish(call);
			return true;
		}
		if (call->region->refusal.error == INFER_ERROR_BUSY)
		{
			/* not for memory that this session holds itself */
			if (region_yield())
				continue;
			if (region_could_fit(call->region) && wait_while_busy(call, &nap))
				continue;
		}
		call->error = call->region->refusal;
		return false;
	}
}

void
infer_client_submit(InferCall *call, uint32 outputs_wanted)
{
	for (uint32 i = 0; i < call->model->signature.inputs_count; i++)
		if (call->columns[i].type == INFER_TYPE_NONE)
			elog(ERROR, "input %u was not filled", i);
	call->outputs = outputs_wanted;
	(void) send_call(call);
}

void
infer_client_ask_profile(InferCall *call)
{
	Assert(call->rows == 1 && !call->sent);
	call->profile = true;
}

/* ---- waiting ---- */

/* Watch for the result for a while, without a system call. */
static bool
spin_for_result(const InferCall *call)
{
	uint64		end = clock_nsec() + call->spin;
	bool		done;

	do
	{
		for (int i = 0; i < 16 && !(done = region_is_done(call->region)); i++)
			infer_pause();
	} while (!done && !InterruptPending && clock_nsec() < end);
	spin_learn(!done);
	return done;
}

static enum SleepEnd
wait_for_result(InferCall *call)
{
	Region	   *region = call->region;
	enum SleepEnd end = SLEEP_WOKEN;

	if (call->spin > 0 && spin_for_result(call))
		return SLEEP_WOKEN;
	for (;;)
	{
		infer_store_release32(&region->head->client_asleep, 1);
		infer_fence();
		if (region_is_done(region))
			break;
		if (!connection_is(region->connection))
			return SLEEP_LOST;
		if (end == SLEEP_LATE)
			return end;
		end = connection_sleep(call->deadline);
	}
	infer_store_release32(&region->head->client_asleep, 0);
	return SLEEP_WOKEN;
}

/* ---- reading ---- */

static bool
malformed(InferCall *call, const char *what)
{
	error_set(&call->error, INFER_ERROR_PROTOCOL, "the engine's reply is malformed", NULL, NULL);
	snprintf(call->error.detail, sizeof(call->error.detail), "The check says: %s.", what);
	return false;
}

/* Whether count items of so many bytes lie at offset (of the region) inside the reply. */
static bool
in_reply(const InferCall *call, uint64 offset, uint64 count, uint64 bytes)
{
	return offset % 4 == 0 && offset >= align_up(call->used, 64) && offset <= call->region->size &&
		count * bytes <= call->region->size - offset;
}

/* An encoded error at an offset from the reply's begin; its class alone if there is none. */
static void
read_error(const InferCall *call, uint64 offset, uint32 error, struct infer_error_text *err)
{
	uint64		begin = align_up(call->used, 64);
	struct infer_reader reader = {(uint8 *) address(call, begin), call->region->size - begin, offset, 0};

	if (offset == 0 || offset >= reader.size || infer_get_error(&reader, err) != 0)
		error_set(err, error, NULL, NULL, NULL);
	err->error = error;
}

static bool
is_wanted(const InferCall *call, uint32 output)
{
	return call->outputs == 0 || (output < 32 && (call->outputs >> output & 1) != 0);
}

/* Elements of a row where every dimension is known, else INFER_WIDTH_VARIES. */
static uint64
tensor_width(const struct infer_tensor *tensor)
{
	uint64		width = 1;

	for (uint32 d = 0; d < tensor->rank; d++)
	{
		if (tensor->dims[d] < 0)
			return INFER_WIDTH_VARIES;
		width *= tensor->dims[d];
	}
	return width;
}

/* NULL, or why a column of the reply is not what the catalogue says of that output. */
static const char *
result_fault(const InferCall *call, uint32 output, const struct infer_column *column)
{
	const struct infer_tensor *tensor = &call->model->signature.outputs[output];
	uint64		width = tensor_width(tensor);

	if (!is_wanted(call, output) && column->type == INFER_TYPE_NONE)
		return NULL;
	if (column->type != tensor->type)
		return "an output is of another type than the model says";
	if (width != INFER_WIDTH_VARIES && column->width != width)
		return "an output has another number of elements than the model says";
	return NULL;
}

/* Check a successful reply, and copy its columns. */
static bool
read_results(InferCall *call)
{
	const struct infer_signature *signature = &call->model->signature;
	uint32		count = signature->outputs_count;
	Size		bytes = count * sizeof(struct infer_column);

	if (call->reply.columns != count)
		return malformed(call, "it has another number of outputs than the model");
	if (!in_reply(call, call->reply.row_status_offset, call->rows_sent, sizeof(uint32)) ||
		!in_reply(call, call->reply.row_message_offset, call->rows_sent, sizeof(uint32)) ||
		!in_reply(call, call->reply.columns_offset, count, sizeof(struct infer_column)))
		return malformed(call, "a part of it is not inside the region");

	call->results = MemoryContextAlloc(call->context, bytes + 1);
	memcpy(call->results, address(call, call->reply.columns_offset), bytes);
	for (uint32 i = 0; i < count; i++)
	{
		const char *wrong = infer_column_check(&call->results[i], call->rows_sent, call->region->size);

		if (wrong == NULL)
			wrong = result_fault(call, i, &call->results[i]);
		if (wrong != NULL)
			return malformed(call, wrong);
	}
	return true;
}

/* The engine has answered: finish, fail, or be sent again.  False: call->error. */
static bool
handle_reply(InferCall *call, int *nap)
{
	memcpy(&call->reply, &call->region->head->reply, sizeof(call->reply));
	call->sent = false;
	switch (call->reply.error)
	{
		case INFER_OK:
			call->finished = true;
			predict(call->model->key, call->reply.queue_nsec + call->reply.compute_nsec);
			if (read_results(call))
				return true;
			connection_close(true);
			return false;
		case INFER_ERROR_NEED_LOAD:
		case INFER_ERROR_NEED_FILES:
			return ask_load(call->model, 0, &call->deadline, NULL, NULL, &call->error);
		case INFER_ERROR_NEED_SPACE:
			if (call->reply.bytes_wanted <= call->region->size - align_up(call->used, 64))
				return malformed(call, "it asks for less space than it had");
			if (call->reply.bytes_wanted > INFER_REGION_MAX)
				return malformed(call, "it asks for more space than a region can have");
			return true;			/* send_call makes room for bytes_wanted */
		case INFER_ERROR_BUSY:
			if (wait_while_busy(call, nap))
				return true;
			break;
		case INFER_ERROR_DEVICE_LOST:
			if (!call->marked)
			{
				/* that engine is about to be replaced */
				call->marked = true;
				connection_close(true);
				(void) connection_nap(*nap, call->deadline);
				return true;
			}
			break;
	}
	read_error(call, call->reply.error_offset,
			   Min(call->reply.error, INFER_ERROR_LAST), &call->error);
	return false;
}

/*
 * An engine that closes our connection and says why has not died.  Once may be anybody's
 * doing; a second time it is this call's, and call->error is set.
 */
static bool
said_farewell(InferCall *call)
{
	struct infer_error_text err;

	if (!connection_farewell(&err))
		return false;
	call->sent = false;
	if (++call->farewells > 1)
		call->error = err;
	return true;
}

/* Until the call has ended, well or not. */
static void
finish_call(InferCall *call)
{
	int			nap = 1;

	while (!call->finished && call->error.error == INFER_OK)
	{
		if (call->rows_sent == 0)
		{
			call->finished = true;	/* every row has ended an engine */
			break;
		}
		if (!call->sent && !send_call(call))
			break;
		switch (wait_for_result(call))
		{
			case SLEEP_WOKEN:
				(void) handle_reply(call, &nap);
				break;
			case SLEEP_LOST:
				if (!said_farewell(call))
					(void) recover_call(call);
				break;
			case SLEEP_LATE:
				error_late(&call->error);
				break;
		}
	}
	if (call->error.error != INFER_OK)
		give_up(call);
}

void
infer_client_wait(InferCall *call)
{
	finish_call(call);
	if (call->error.error != INFER_OK)
		infer_client_raise(&call->error);
}

bool
infer_client_wait_try(InferCall *call, struct infer_error_text *err)
{
	finish_call(call);
	if (call->error.error == INFER_OK)
		return true;
	if (!infer_client_error_hides(call->error.error))
		infer_client_raise(&call->error);
	*err = call->error;
	return false;
}

/* ---- results ---- */

static void
set_killed(struct infer_error_text *err)
{
	error_set(err, INFER_CLIENT_ROW_KILLED, "this row, computed alone, ended the inference engine", NULL,
			  "Leave the row out, and report it with the model.");
}

/* The row's place in the reply, or ROW_KILLED. */
static uint32
reply_row(const InferCall *call, uint32 row)
{
	if (!call->finished || row >= call->rows)
		elog(ERROR, "row %u of a call with %u rows was asked for too early", row, call->rows);
	return call->row_map ? call->row_map[row] : row;
}

uint32
infer_client_row(InferCall *call, uint32 row, struct infer_error_text *err)
{
	uint32		at = reply_row(call, row);
	uint32		error;
	uint32		message;

	if (at == ROW_KILLED)
	{
		if (err != NULL)
			set_killed(err);
		return INFER_CLIENT_ROW_KILLED;
	}
	error = ((uint32 *) address(call, call->reply.row_status_offset))[at];
	if (error == INFER_OK)
		return INFER_OK;
	if (error > INFER_ERROR_LAST)
		error = INFER_ERROR_INTERNAL;
	if (err != NULL)
	{
		message = ((uint32 *) address(call, call->reply.row_message_offset))[at];
		read_error(call, message, error, err);
	}
	return error;
}

/* Begin and end of a row, in elements. */
static void
row_elements(InferCall *call, const struct infer_column *column, uint32 at, uint64 *begin, uint64 *end)
{
	const uint32 *ends;

	if (column->width != INFER_WIDTH_VARIES)
	{
		*begin = at * column->width;
		*end = *begin + column->width;
		return;
	}
	ends = (const uint32 *) address(call, column->rows_offset);
	*begin = at > 0 ? ends[at - 1] : 0;
	*end = ends[at];
}

/* Spans are copied before they are checked: what is used is what was checked. */
static const struct infer_span *
copy_spans(InferCall *call, const struct infer_column *column, uint64 begin, uint64 count)
{
	struct infer_span *spans = MemoryContextAlloc(call->context, count * sizeof(*spans) + 1);

	memcpy(spans, address(call, column->spans_offset + begin * sizeof(*spans)), count * sizeof(*spans));
	for (uint64 i = 0; i < count; i++)
		if (spans[i].begin > column->data_bytes || spans[i].length > column->data_bytes - spans[i].begin)
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("the engine's reply is malformed"),
					 errdetail("A string is not inside its column.")));
	return spans;
}

void
infer_client_output(InferCall *call, uint32 row, uint32 output, InferOutput *out)
{
	uint32		at = reply_row(call, row);
	const struct infer_column *column;
	uint64		begin;
	uint64		end;
	bool		fits;

	memset(out, 0, sizeof(*out));
	if (at == ROW_KILLED || output >= call->model->signature.outputs_count)
		elog(ERROR, "row %u has no output %u", row, output);
	column = &call->results[output];
	if (column->type == INFER_TYPE_NONE)
		return;

	row_elements(call, column, at, &begin, &end);
	if (column->type == INFER_TYPE_STRING)
		fits = begin <= end && end <= (call->region->size - column->spans_offset) / sizeof(struct infer_span);
	else
		fits = begin <= end && end <= column->data_bytes / infer_type_bytes(column->type);
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the engine's reply is malformed"),
				 errdetail("A row is not inside its column.")));

	out->type = column->type;
	out->width = end - begin;
	if (column->type == INFER_TYPE_STRING)
	{
		out->data = copy_spans(call, column, begin, out->width);
		out->texts = address(call, column->data_offset);
		out->texts_bytes = column->data_bytes;
	}
	else
		out->data = address(call, column->data_offset + begin * infer_type_bytes(column->type));
}

bool
infer_client_profile(InferCall *call, struct infer_reader *profile)
{
	uint32		bytes = call->reply.profile_bytes;
	uint64		offset = call->reply.profile_offset;

	if (bytes == 0)
		return false;
	if (!call->finished || offset < align_up(call->used, 64) || offset > call->region->size ||
		bytes > call->region->size - offset)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the engine's reply is malformed"),
				 errdetail("The profile is not inside the region.")));
	*profile = (struct infer_reader) {memcpy(palloc(bytes), address(call, offset), bytes), bytes, 0, 0};
	return true;
}

void
infer_client_end(InferCall *call)
{
	MemoryContextDelete(call->context);	/* release_call runs */
}
