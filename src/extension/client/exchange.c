/*
 * exchange.c
 *	  A call's exchange with the engine: send the request, wait for it, act on the reply.
 *
 * Loop
 *	call_finish: send unless sent; wait; by the reply's error finish, load the model, make
 *	more room, wait a little, or fail; by a lost connection recover (recover.c).
 *
 * Invariants
 *	- From publish until region_is_done, or the connection's end, the region is the engine's.
 *	- What the engine wrote is copied before it is acted on.
 */
#include "postgres.h"

#include "internal.h"

#include "miscadmin.h"

#define BUSY_NAP_MAX 50				/* ms */

static int32 job_priority = 0;		/* as infer_client_set_priority says */

void
infer_client_set_priority(int32 priority)
{
	job_priority = priority;
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
		memcpy(call_address(call, INFER_REGION_HEAD), call->columns, columns * sizeof(struct infer_column));

	memset(request, 0, sizeof(*request));
	memcpy(request->key, call->model->key, INFER_KEY_BYTES);
	request->deadline = call->deadline;
	request->rows = call->rows_sent;
	request->columns = columns;
	request->columns_offset = INFER_REGION_HEAD;
	request->reply_offset = call_reply_begin(call);
	request->reply_bytes = call->region->size - request->reply_offset;
	request->class_ = call->class_;
	request->flags = (call->marked ? INFER_REQUEST_MARKED : 0) | (call->profile ? INFER_REQUEST_PROFILE : 0);
	request->role = GetUserId();
	request->outputs = call->outputs;
	request->model = call->model->server;
	request->version = call->model->version;
	request->priority = job_priority;
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
	call->blameless = *(volatile uint64 *) &infer_shared->engine_blameless;
	numerics_note(call);
	call->sent = true;
	region->seq++;
	infer_store_release64(&region->head->submit_seq, region->seq);
	infer_fence();
	awake = infer_load_acquire32(&connection.page->awake) != 0;
	if (!awake)
		connection_post(INFER_FRAME_SUBMIT, region->slot, (uint32) region->seq, NULL, 0);
	call->spin = spin_nsec(call, awake);
}

/*
 * Whether a refusal by the engine is waited out; single calls are told at once, and nobody
 * waits before infer_client_wait.
 */
static bool
wait_while_busy(InferCall *call, int *nap)
{
	if (call->class_ == INFER_CLASS_INTERACTIVE || !call->waiting)
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
					call_reply_begin(call) + Max(call_reply_bytes(call), call->reply.bytes_wanted), call->used);
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
		call->error = *region_refusal();
		if (call->error.error != INFER_ERROR_BUSY)
			return false;

		/* not for memory that this session holds itself */
		if (!region_yield() && !room_from_ended(call) &&
			!(call->waiting && (room_from_submitted(call) || room_from_filled(call))) &&
			!(region_could_fit(call->region) && wait_while_busy(call, &nap)))
			return false;
		call->error.error = INFER_OK;
	}
}

void
infer_client_submit(InferCall *call, uint32 outputs_wanted)
{
	for (uint32 i = 0; i < call->model->signature.inputs_count; i++)
		if (call->columns[i].type == INFER_TYPE_NONE)
			elog(ERROR, "input %u was not filled", i);
	call->outputs = outputs_wanted;
	call->deadline = deadline_from_now(infer_timeout);
	call->submitted = true;
	if (!send_call(call) && call->error.error == INFER_ERROR_BUSY)
		call->error.error = INFER_OK;	/* infer_client_wait tries again, and waits */
}

void
infer_client_ask_profile(InferCall *call)
{
	Assert(call->rows == 1 && !call->sent);
	call->profile = true;
}

/* ---- waiting ---- */

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

/* ---- the loop ---- */

/* The engine has answered: finish, fail, or be sent again.  False: call->error. */
static bool
handle_reply(InferCall *call, int *nap)
{
	memcpy(&call->reply, &call->region->head->reply, sizeof(call->reply));
	call->reply_end = call->region->size;
	call->sent = false;
	switch (call->reply.error)
	{
		case INFER_OK:
			if (!numerics_agree(call, NULL))
				return false;
			call->finished = true;
			if (!call_is_of_tokens(call))
			{
				spin_learn_time(call->model->key, call->reply.queue_nsec + call->reply.compute_nsec);
				measured_learn(call);
			}
			if (reply_read(call))
				return true;
			connection_close(true);
			return false;
		case INFER_ERROR_NEED_LOAD:
		case INFER_ERROR_NEED_FILES:
			return ask_load(call->model, 0, &call->deadline, NULL, NULL, &call->error);
		case INFER_ERROR_NEED_SPACE:
			if (call->reply.bytes_wanted <= call->region->size - call_reply_begin(call))
				return reply_malformed(call, "it asks for less space than it had");
			if (call->reply.bytes_wanted > INFER_REGION_MAX)
				return reply_malformed(call, "it asks for more space than a region can have");
			return true;			/* send_call makes room for bytes_wanted */
		case INFER_ERROR_BUSY:
			if (wait_while_busy(call, nap))
				return true;
			break;
		case INFER_ERROR_DEVICE_LOST:
			if (!call->marked)
			{
				if (!recover_mark(call))
					return false;
				/* that engine is about to be replaced */
				connection_close(true);
				(void) connection_nap(*nap, call->deadline);
				return true;
			}
			break;
	}
	reply_error(call, call->reply.error_offset,
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

/* Whether the engine has it, and has not ended it. */
static bool
is_with_engine(const InferCall *call)
{
	return call->sent && !region_is_done(call->region) && connection_is(call->region->connection);
}

void
call_finish(InferCall *call)
{
	int			nap = 1;

	/* what its caller did in the meantime is not the call's time */
	call->waiting = true;
	if (!call->finished && call->error.error == INFER_OK && !is_with_engine(call))
		call->deadline = deadline_from_now(infer_timeout);
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
		call_give_up(call);
}

void
infer_client_wait(InferCall *call)
{
	call_finish(call);
	if (call->error.error != INFER_OK)
		infer_client_raise(&call->error);
}

const struct infer_error_text *
infer_client_wait_quiet(InferCall *call, InferScope *within)
{
	call_finish(call);
	if (within != NULL && call->error.error == INFER_OK && call->rows_sent > 0 && !numerics_agree(call, within))
		call_give_up(call);
	return call->error.error != INFER_OK ? &call->error : NULL;
}
